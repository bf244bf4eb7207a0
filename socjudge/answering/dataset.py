"""Read the questions of a dataset file (JSON, CSV or Excel), and check them one by one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from .. import constants
from ..base.messages import listed, say
from ..base.sheets import TABLES, cell_text
from ..errors import ConfigError
from ..records import MOST_ID, EvalQuestion
from ..settings import open_project
from .rows import find_columns, read_rows

# with fewer, one word decides the score on 網羅性; with more, no answer can contain them all
FEW_KEYPOINTS, MANY_KEYPOINTS = 2, 8

_MOST_TOLD = 50
# The fields of a question, and the names that a table's columns may have for them, in any case.
_COLUMNS = {
    "id": ("id", "question_id", "番号"), "category": ("category", "カテゴリ", "カテゴリー"), "question": ("question", "質問"),
    "expected_keypoints": ("expected_keypoints", "keypoints", "キーポイント", "期待されるキーポイント"),
}  # fmt: skip


def load_eval_dataset(path: Path | str | None = None) -> list[EvalQuestion]:
    """Return the questions of a dataset file (EVAL_DATASET_PATH if left out), in the file's order.

    The file is JSON with the specification's schema, or a table (.csv, .tsv, or the first sheet of an .xlsx) with one
    row per question and the columns id (番号), category (カテゴリ), question (質問) and expected_keypoints (キーポイント).
    Other columns are ignored. The keypoints of a question stand in one cell, one a line, or on one line with | or ；
    between them. A text file is UTF-8, with or without a byte order mark, UTF-16 with one, or cp932.

    ConfigError if the file cannot be read, a field or column is missing, a field is empty, a category is unknown, or an
    id occurs twice. The message names each wrong question (in a table, its row) and field, and says what was expected.

    Examples
    --------
    >>> import socjudge as sj
    >>> len(sj.load_eval_dataset())
    10
    """
    path = Path(path or constants.EVAL_DATASET_PATH)
    where, head, rows = read_rows(path)
    columns: dict[str, str] = {}
    if path.suffix.lower() in TABLES:
        columns = find_columns(where, head, _COLUMNS, [[field] for field in _COLUMNS])
        rows = {place: _of_cells(row, columns) for place, row in rows.items()}
    if problems := [*_problems(rows, columns)]:
        more = [say("… and {count:,} more", count=len(problems) - _MOST_TOLD)] * (len(problems) > _MOST_TOLD)
        raise ConfigError(
            "{path}: the dataset cannot be used; correct these places:\n  {problems}",
            path=path,
            problems="\n  ".join(problems[:_MOST_TOLD] + more),
        )
    return [
        EvalQuestion(
            item["id"] if isinstance(item["id"], int) else item["id"].strip(),
            item["category"],
            item["question"].strip(),
            tuple(keypoint.strip() for keypoint in item["expected_keypoints"]),
        )
        for item in rows.values()
    ]


def dataset_notes(questions: Sequence[EvalQuestion]) -> list[str]:
    """Return warnings about whatever in these questions makes a verdict less reliable."""
    notes = [
        say(
            "id {id} has {count} expected keypoint(s); {fewest} to {most} are best (with fewer, one "
            "word decides; with more, no answer holds them all)",
            id=question.id,
            count=len(question.expected_keypoints),
            fewest=FEW_KEYPOINTS,
            most=MANY_KEYPOINTS,
        )
        for question in questions
        if not FEW_KEYPOINTS <= len(question.expected_keypoints) <= MANY_KEYPOINTS
    ]
    counts = Counter(question.question for question in questions)
    return notes + [
        say("the same question stands {count} times: {question}", question=text, count=count)
        for text, count in counts.items()
        if count > 1
    ]


def _of_cells(row: Mapping[str, Any], columns: Mapping[str, str]) -> dict[str, Any]:
    cells: dict[str, Any] = {field: cell_text(row.get(name)) for field, name in columns.items()}
    if re.fullmatch(r"0|-?[1-9][0-9]{0,29}", cells["id"]):  # as it would be in JSON
        cells["id"] = int(cells["id"])
    # In a cell of several lines, a separator within a line is part of its keypoint.
    text = cells["expected_keypoints"]
    parts = text.split("\n") if "\n" in text else re.split("[|｜；]", text)
    return cells | {"expected_keypoints": [part for part in parts if part.strip()]}


def _problems(rows: Mapping[str, Mapping[str, Any]], columns: Mapping[str, str]) -> Iterator[str]:
    places: dict[str, list[str]] = {}  # by the id as text, because in a table 1 and "1" would be the same question
    for place, row in rows.items():
        for fault in _faults(row, columns):
            yield f"{place}: {fault}"
        places.setdefault(str(row.get("id", "")).strip(), []).append(place)
    for repeated, there in places.items():
        if repeated and len(there) > 1:
            yield say(
                "{places}: id {id} is used {count} times; every question needs an id of its own",
                places=listed(there),
                id=repeated,
                count=len(there),
            )


def _faults(row: Mapping[str, Any], columns: Mapping[str, str]) -> Iterator[str]:
    """Yield what is wrong with one question. `columns` are the names of its fields in a table."""
    for field in _COLUMNS:
        name, value = columns.get(field, field), row.get(field)
        if field == "expected_keypoints":
            expected = say("a list of texts, none of which is empty")
            is_right = isinstance(value, list) and bool(value) and all(map(_is_text, value))
        elif field == "id":
            expected = say("a text, or a whole number of at most 64 bits")
            is_right = _is_text(value) or (type(value) is int and abs(value) < MOST_ID)
        else:
            expected, is_right = say("a text that is not empty"), _is_text(value)
        if not is_right:
            told = say("missing") if field not in row else f"{value!r:.40}"
            yield say("the field '{field}' is {value}, expected {what}", field=name, value=told, what=expected)
    categories, category = open_project().categories, row.get("category")
    if _is_text(category) and category not in categories:
        yield say(
            "the category {category!r} is unknown; expected one of {known}, or add it to categories in [dataset] of "
            "socjudge.toml (or to QUESTION_CATEGORIES in constants.py)",
            category=category,
            known=listed(categories),
        )


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())
