"""Read the questions of a dataset file (JSON, CSV or Excel), and check them one by one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from .. import constants
from ..base.files import load_bytes, read_json
from ..base.messages import listed, say
from ..base.sheets import TABLES, cell_text, read_table
from ..errors import ConfigError
from ..records import MOST_ID, EvalQuestion
from ..settings import open_project

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
    try:
        items, columns = _of_table(path) if path.suffix.lower() in TABLES else _of_json(path)
    except FileNotFoundError:
        raise ConfigError("{path}: there is no such file; check the path", path=path) from None
    except (OSError, ValueError) as error:
        raise ConfigError(
            "{path}: the dataset cannot be read ({reason}); pass the path of a JSON, CSV or Excel (.xlsx) file",
            path=path,
            reason=error,
        ) from None
    return _checked(path, items, columns)


def dataset_notes(questions: Sequence[EvalQuestion]) -> list[str]:
    """Return warnings about whatever in these questions makes a verdict less reliable."""
    notes = []
    for question in questions:
        if not FEW_KEYPOINTS <= (count := len(question.expected_keypoints)) <= MANY_KEYPOINTS:
            notes.append(
                say(
                    "id {id} has {count} expected keypoint(s); {fewest} to {most} are best (with fewer, one "
                    "word decides; with more, no answer holds them all)",
                    id=question.id,
                    count=count,
                    fewest=FEW_KEYPOINTS,
                    most=MANY_KEYPOINTS,
                )
            )
    for text, count in Counter(question.question for question in questions).items():
        if count > 1:
            notes.append(say("the same question stands {count} times: {question}", question=text, count=count))
    asked = {question.category for question in questions}
    if empty := [category for category in open_project().categories if category not in asked]:
        notes.append(say("categories without a question: {categories}", categories=listed(empty)))
    if len(questions) < 10:
        notes.append(
            say(
                "there are {count} question(s); even with ten the pass rate is uncertain, so more are better",
                count=len(questions),
            )
        )
    return notes


def _of_json(path: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the items of a list, each under the words that name its place."""
    data = read_json(load_bytes(path))
    if not isinstance(data, list):
        raise ValueError(say("top level: expected a list of questions"))
    items = {}
    for number, item in enumerate(data, start=1):
        place = say("question {number}", number=number)
        if isinstance(item, Mapping) and "id" in item:
            place = say("question {number} (id {id})", number=number, id=f"{item['id']!r:.40}")
        items[place] = item
    return items, {}


def _of_table(path: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the rows of a table as `_of_json` does, and the names that its columns have."""
    head, rows = read_table(path)
    found = {field: [name for name in head if name.casefold() in names] for field, names in _COLUMNS.items()}
    for field, names in found.items():
        if len(names) != 1:
            raise ConfigError(
                "{path}: it needs one column with one of the names {names}; there are {there}",
                path=path,
                names=listed(_COLUMNS[field]),
                there=listed(filter(None, head)),
            )
    columns = {field: names[0] for field, names in found.items()}
    items = {}
    for number, row in rows:
        cells: dict[str, Any] = {field: cell_text(row.get(name)) for field, name in columns.items()}
        if re.fullmatch(r"0|-?[1-9][0-9]{0,29}", cells["id"]):  # as it would be in JSON
            cells["id"] = int(cells["id"])
        # In a cell of several lines, a separator within a line is part of its keypoint.
        text = cells["expected_keypoints"]
        parts = text.split("\n") if "\n" in text else re.split("[|｜；]", text)
        cells["expected_keypoints"] = [part for part in parts if part.strip()]
        items[say("row {rows}", rows=number)] = cells
    return items, columns


def _checked(path: Path, items: Mapping[str, Any], columns: Mapping[str, str]) -> list[EvalQuestion]:
    """Return the questions. The ConfigError names everything that is wrong with them."""
    categories = open_project().categories
    problems = [f"{place}: {reason}" for place, item in items.items() for reason in _faults(item, columns, categories)]
    places: dict[str, list[str]] = {}  # by the id as text, because in a table 1 and "1" would be the same question
    for place, item in items.items():
        if isinstance(item, Mapping) and "id" in item:
            places.setdefault(str(item["id"]).strip(), []).append(place)
    for repeated, there in places.items():
        if repeated and len(there) > 1:
            problems.append(
                say(
                    "{places}: id {id} is used {count} times; every question needs an id of its own",
                    places=listed(there),
                    id=repeated,
                    count=len(there),
                )
            )
    if not items:
        problems.append(say("the list is empty; add at least one question"))
    if problems:
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
        for item in items.values()
    ]


def _faults(item: Any, columns: Mapping[str, str], categories: Sequence[str]) -> Iterator[str]:
    """Yield what is wrong with one question. `columns` are the names of its fields in a table."""
    if not isinstance(item, Mapping):
        yield say("expected an object with id, category, question and expected_keypoints")
        return
    for field in _COLUMNS:
        name = columns.get(field, field)
        value: Any = item.get(field)
        if field not in item:
            yield say("the field '{field}' is missing", field=name)
        elif field == "expected_keypoints" and not isinstance(value, list):
            yield say("the field '{field}' is no list", field=name)
        elif field == "id" and type(value) is int:
            if abs(value) >= MOST_ID:
                yield say(
                    "id {id} is too large; a number may have 64 bits; make it a text, in quotes", id=f"{value!s:.30}"
                )
        else:
            texts = {name: value}
            if field == "expected_keypoints":
                texts = {f"{name}[{i}]": keypoint for i, keypoint in enumerate(value)} or {name: ""}
            for place, text in texts.items():
                if not isinstance(text, str):
                    yield say("the field '{field}' is no text", field=place)
                elif not text.strip():
                    yield say("the field '{field}' is empty", field=place)
    for field in item.keys() - _COLUMNS.keys():
        yield say(
            "there is no field '{field}'; expected are id, category, question and expected_keypoints", field=field
        )
    category = item.get("category")
    if isinstance(category, str) and category.strip() and category not in categories:
        yield say(
            "the category {category!r} is unknown; expected one of {known}, or add it to categories in [dataset] of "
            "socjudge.toml (or to QUESTION_CATEGORIES in constants.py)",
            category=category,
            known=listed(categories),
        )
