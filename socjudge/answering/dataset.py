"""Read the questions of a dataset file (JSON, CSV or Excel), check them one by one, and write them."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError

from .. import constants
from ..base.atomic_files import replacing
from ..base.json_files import once, read_json
from ..base.messages import listed, say
from ..base.sheets import TABLES, read_table
from ..base.storage import load_bytes
from ..errors import ConfigError
from ..records import MOST_ID, EvalQuestion
from ..settings import open_project

# with fewer, one word decides the score on 網羅性; with more, no answer can contain them all
FEW_KEYPOINTS, MANY_KEYPOINTS = 2, 8

_MOST_TOLD = 50
_Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class _DatasetItem(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    id: int | _Text
    category: str
    question: _Text
    expected_keypoints: Annotated[list[_Text], Field(min_length=1)]


_DATASET = TypeAdapter(list[_DatasetItem])
# Names that a table's columns may have, in any case.
_COLUMNS = {
    "id": ("id", "question_id", "番号"), "category": ("category", "カテゴリ", "カテゴリー"), "question": ("question", "質問"),
    "expected_keypoints": ("expected_keypoints", "keypoints", "キーポイント", "期待されるキーポイント"),
}  # fmt: skip
# {pydantic's name for a problem: our message}. Other problems are described in pydantic's words.
_REASONS = {
    "missing": "the field '{field}' is missing",
    "extra_forbidden": "there is no field '{field}'; expected are id, category, question and expected_keypoints",
    "string_too_short": "the field '{field}' is empty",
    "too_short": "the field '{field}' is empty",
    "string_type": "the field '{field}' is no text",
    "list_type": "the field '{field}' is no list",
    "int_type": "the field '{field}' is no text",
    "model_type": "expected an object with id, category, question and expected_keypoints{field}",
}


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
        if path.suffix.lower() in TABLES:
            questions, problems = _read_table(*read_table(path))
        else:
            questions, problems = _read(_json(path))
    except FileNotFoundError:
        raise ConfigError("{path}: there is no such dataset file; check the path", path=path) from None
    except (OSError, ValueError) as error:
        raise ConfigError(
            "{path}: the dataset cannot be read ({reason}); pass the path of a JSON, CSV or Excel (.xlsx) file",
            path=path,
            reason=error,
        ) from None
    if problems:
        raise _unusable(path, problems)
    return questions


def save_eval_dataset(questions: Sequence[EvalQuestion], path: Path | str) -> Path:
    """Write questions to a dataset file that `load_eval_dataset` can read. An existing file is replaced as a whole.

    Nothing is written if one of the questions is unusable. ConfigError for the faults that `load_eval_dataset` reports,
    or if the file cannot be written.
    """
    rows = [asdict(question) | {"expected_keypoints": list(question.expected_keypoints)} for question in questions]
    if problems := _read(rows)[1]:
        raise _unusable(path, problems)
    try:
        with replacing(Path(path)) as file:
            file.write((json.dumps(rows, ensure_ascii=False, indent=2) + "\n").encode("utf-8"))
    except (OSError, UnicodeEncodeError) as error:
        raise ConfigError(
            "{path}: the dataset cannot be written ({reason}); check the folder and its rights", path=path, reason=error
        ) from None
    return Path(path)


def _unusable(path: object, problems: list[str]) -> ConfigError:
    told = problems[:_MOST_TOLD] + [say("… and {count:,} more", count=len(problems) - _MOST_TOLD)] * (
        len(problems) > _MOST_TOLD
    )
    return ConfigError(
        "{path}: the dataset cannot be used; correct these places:\n  {problems}", path=path, problems="\n  ".join(told)
    )


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


def _json(path: Path) -> object:
    raw = load_bytes(path)
    try:
        return read_json(raw, object_pairs_hook=once)
    except ValueError as error:
        raise ConfigError("{path}: not valid JSON (UTF-8): {reason}", path=path, reason=error) from None


def _read_table(
    head: Sequence[str], rows: Sequence[tuple[int, dict[str, Any]]]
) -> tuple[list[EvalQuestion], list[str]]:
    found = {field: [name for name in head if name.casefold() in names] for field, names in _COLUMNS.items()}
    if problems := [
        say("it needs a column with one of the names {names}; there are {there}", names=listed(_COLUMNS[field]), there=listed(filter(None, head)))
        for field, names in found.items() if not names
    ]:  # fmt: skip
        return [], problems
    if problems := [
        say("these columns mean the same: {names}; keep one of them", names=listed(names))
        for names in found.values()
        if len(names) > 1
    ]:
        return [], problems
    items, numbers = [], []
    for number, row in rows:
        cells = {field: _cell_text(row.get(name)) for field, (name,) in found.items()}
        item = {**cells, "id": _id(cells["id"]), "expected_keypoints": _keypoints(cells["expected_keypoints"])}
        empty = [found[field][0] for field, value in item.items() if value in ("", [])]
        problems += [say("row {number}: the column '{column}' is empty", number=number, column=name) for name in empty]
        if not empty:
            items.append(item)
            numbers.append(number)
    if not items and problems:
        return [], problems
    questions, others = _read(items, numbers)
    return questions, problems + others


def _cell_text(cell: Any) -> str:
    if cell is None:
        return ""
    # A workbook may have the number 3 as 3.0.
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell).strip()


def _id(text: str) -> int | str:
    """Return an id as the number that it would be in a JSON dataset."""
    return int(text) if re.fullmatch(r"0|-?[1-9][0-9]{0,29}", text) else text


def _keypoints(text: str) -> list[str]:
    # In a cell of several lines, a separator within a line is part of its keypoint.
    parts = text.split("\n") if "\n" in text else re.split("[|｜；]", text)
    return [part.strip() for part in parts if part.strip()]


def _read(data: object, rows: Sequence[int] = ()) -> tuple[list[EvalQuestion], list[str]]:
    """Return the questions, and everything that is wrong with them. `rows` are the rows of a table, for messages."""

    def at(places: Sequence[int], reason: str) -> str:
        return say("row {rows}: {reason}", rows=listed(str(rows[i]) for i in places), reason=reason) if rows else reason

    problems: list[str] = []
    items: list[_DatasetItem] = []
    try:
        items = _DATASET.validate_python(data)
    except ValidationError as error:
        problems += [_told(data, problem) for problem in error.errors()]
    known = open_project().categories
    for place, item in enumerate(items):
        if item.category not in known:
            told = say(
                "id {id}: the category {category!r} is unknown; expected one of {known}, or add it to "
                "categories in [dataset] of socjudge.toml (or to QUESTION_CATEGORIES in constants.py)",
                id=item.id,
                category=item.category,
                known=listed(known),
            )
            problems.append(at([place], told))
    if twice := [name for name, count in Counter(known).items() if count > 1 or not name.strip()]:
        problems.append(
            say(
                "constants.QUESTION_CATEGORIES has a category twice, or an empty one: {names}; assign the whole "
                "list instead of appending, so that a cell can run twice",
                names=listed(map(repr, twice)),
            )
        )
    places: dict[str, list[int]] = {}  # by the id as text, because in a table 1 and "1" would be the same question
    for place, item in enumerate(items):
        if isinstance(item.id, int) and abs(item.id) >= MOST_ID:
            problems.append(
                at(
                    [place],
                    say(
                        "id {id} is too large; a number may have 64 bits; make it a text, in quotes",
                        id=f"{item.id!s:.30}",
                    ),
                )
            )
        places.setdefault(str(item.id), []).append(place)
    for repeated, there in places.items():
        if len(there) > 1:
            problems.append(
                at(
                    there,
                    say(
                        "id {id} is used {count} times; every question needs an id of its own",
                        id=repeated,
                        count=len(there),
                    ),
                )
            )
    if not items and not problems:
        problems.append(say("the list is empty; add at least one question"))
    return [EvalQuestion(it.id, it.category, it.question, tuple(it.expected_keypoints)) for it in items], problems


def _told(data: object, problem: Any) -> str:
    location = problem["loc"]
    if not location or not isinstance(data, list):
        return say("top level: expected a list of questions")
    item = data[int(location[0])]
    # Below the field, only a position in a list helps. pydantic also names branches of a union there.
    field = "".join(f"[{part}]" if isinstance(part, int) else "" for part in location[2:3])
    field = str(location[1]) + field if len(location) > 1 else ""
    key = _REASONS.get(problem["type"])
    reason = say(key, field=field) if key else f"{field}: {problem['msg']}"
    number = int(location[0]) + 1
    if isinstance(item, dict) and "id" in item:
        return say("question {number} (id {id}): {reason}", number=number, id=f"{item['id']!r:.40}", reason=reason)
    return say("question {number}: {reason}", number=number, reason=reason)
