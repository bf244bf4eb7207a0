"""Read answers from a file or a DataFrame, and find the answer to each question."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from ..base.messages import listed, say
from ..base.sheets import TABLES, read_table, table_text
from ..base.showing import one_line
from ..base.texts import fold
from ..errors import ConfigError, NoAnswer
from ..records import AssistantAnswer, EvalQuestion
from .own_answers import KEYS, as_answer, with_contexts

SUFFIXES = (*TABLES, ".jsonl", ".json")
_PLACE = ("question_id", "question")
# Column names of other tools. Our own names are tried first.
_OTHER_NAMES = {
    "question_id": ("id",), "question": ("input", "query", "user_input", "質問"),
    "answer": ("output", "response", "actual_output", "reply", "回答"),
    "contexts": ("context", "retrieved_contexts", "retrieval_context"),
}  # fmt: skip
_TOLD = 20  # answers without a match that an error names


@dataclass(frozen=True)
class StoredAnswers:
    """Hold answers that already exist, from `load_answers`. `run_evaluation_suite` takes them as `answers=`."""

    # (id of the question, text of the question, answer); one of the first two may be ""
    rows: tuple[tuple[str, str, AssistantAnswer], ...]
    where: str  # the name of their file, for messages

    def __repr__(self) -> str:
        return f"<StoredAnswers: {len(self.rows)} of {one_line(self.where)}>"

    def __len__(self) -> int:
        return len(self.rows)

    def for_questions(self, questions: Sequence[EvalQuestion]) -> list[AssistantAnswer]:
        """Return the answer to each of these questions. Answers to other questions are ignored.
        The ConfigError lists the questions that have no answer, or more than one."""
        by_id: dict[str, list[AssistantAnswer]] = {}
        by_text: dict[str, list[AssistantAnswer]] = {}
        for question_id, text, answer in self.rows:
            if question_id:
                by_id.setdefault(question_id, []).append(answer)
            elif text:
                by_text.setdefault(fold(text), []).append(answer)
        found, problems = [], []
        for question in questions:
            answers = by_id.get(str(question.id), []) or by_text.get(fold(question.question), [])
            if len(answers) == 1:
                found.append(replace(answers[0], question=question.question))
            else:
                key = "id {id} {question}: no answer" if not answers else "id {id} {question}: more than one answer"
                problems.append(say(key, id=question.id, question=one_line(question.question, 40)))
        if problems:
            more = [say("… and {count:,} more", count=len(problems) - _TOLD)] * (len(problems) > _TOLD)
            told = "\n  ".join([*problems[:_TOLD], *more])
            raise ConfigError(
                "{where}: these questions have not one answer each; check the columns question_id and "
                "question, or pass only the questions that have one:\n  {problems}",
                where=self.where,
                problems=told,
            )
        return found


def load_answers(
    source: Path | str | Any,
    *,
    columns: Mapping[str, str] | None = None,
    contexts: Literal["", "runbooks"] = "",
) -> StoredAnswers:
    """Read existing answers from a CSV, TSV, JSONL, JSON or Excel file, or from a DataFrame.

    They are to be passed to `run_evaluation_suite` as `answers=`. If some questions have no answer, or more than one,
    that function raises an error before it spends anything. A text file is UTF-8, with or without a byte order mark,
    UTF-16 with one, or cp932 (CSV from Excel in Japan).

    - columns: {our name: the file's name} for the columns that have other names in the file than here. Our names are
      `question_id` and `question`, of which one must say to which question an answer belongs, and the keys that the
      documentation of `Assistant` lists. A cell in the column `contexts` has a JSON list, or one text.
    - contexts: with "runbooks", an answer without contexts gets the passages that this project's index finds for it. A
      context without a heading gets the heading of the runbook section that contains it word for word. The log records
      what was added.

    If the file cannot be read, or an answer in it cannot be used, the ConfigError names the file, and the row or column
    that is wrong.
    """
    if hasattr(source, "to_dict") and hasattr(source, "columns"):
        where = say("the DataFrame")
        rows: list[Mapping[str, Any]] = source.to_dict("records")
    else:
        path = Path(source)
        where = str(path)
        rows = _read(path)
    if not rows:
        raise ConfigError("{where}: there is no row", where=where)
    names = _names(rows, columns or {}, where)
    answers = []
    for number, row in enumerate(rows, start=1):
        values = {ours: _plain(row.get(theirs)) for ours, theirs in names.items()}
        values = {name: value for name, value in values.items() if value is not None}
        place = {name: _id_text(values.pop(name, "")) for name in _PLACE}
        if isinstance(cell := values.get("contexts"), str):
            values["contexts"] = _cell(cell)
        try:
            answer = as_answer({"answer": "", **values}, question=place["question"])
        except NoAnswer:
            answer = AssistantAnswer(place["question"], "")
        except ConfigError as error:
            raise ConfigError("{where}: row {number}: {reason}", where=where, number=number, reason=error) from None
        if contexts == "runbooks" and not answer.is_empty:
            answer = with_contexts(answer)
        answers.append((place["question_id"], place["question"], answer))
    return StoredAnswers(tuple(answers), where)


def _names(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str], where: str) -> dict[str, str]:
    there = list(dict.fromkeys(str(name) for row in rows for name in row))
    if unknown := [name for name in columns if name not in (*_PLACE, *KEYS)]:
        raise ConfigError(
            "columns has unknown names: {found}; known are {known}",
            found=listed(unknown),
            known=", ".join((*_PLACE, *KEYS)),
        )
    if missing := [theirs for theirs in columns.values() if theirs not in there]:
        raise ConfigError(
            "{where}: there is no column {found}; there are {there}",
            where=where,
            found=listed(missing),
            there=listed(there),
        )
    names = dict(columns)
    for ours in (*_PLACE, *KEYS):
        candidates = [ours, *_OTHER_NAMES.get(ours, ())]
        if ours not in names and (found := next((name for name in candidates if name in there), None)):
            names[ours] = found
    if "answer" not in names or not set(_PLACE) & set(names):
        raise ConfigError(
            "{where}: it needs a column answer, and question_id or question; there are {there}. For other "
            'names: load_answers(…, columns={{"answer": "name"}})',
            panel=(
                "{where}: it needs a column answer, and question_id or question; there are {there}. Rename the columns"
            ),
            where=where,
            there=listed(there),
        )
    return names


def _read(path: Path) -> list[Mapping[str, Any]]:
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise ConfigError("{path}: answers are read from {known}", path=path, known=", ".join(SUFFIXES))
    try:
        if suffix in TABLES:
            return [row for _, row in read_table(path)[1]]
        text = table_text(path.read_bytes())
        texts = [text] if suffix == ".json" else filter(str.strip, text.splitlines())
        data = [json.loads(each) for each in texts]
        data = data[0] if suffix == ".json" else data
    except ValueError as error:
        raise ConfigError("{path}: it cannot be read ({reason})", path=path, reason=error) from None
    if not isinstance(data, list) or not all(isinstance(row, dict) for row in data):
        raise ConfigError("{path}: each row must be an object", path=path)
    return data


def _plain(value: Any) -> Any:
    if value is None or value == "" or (isinstance(value, float) and value != value):  # NaN in a DataFrame
        return None
    return value.item() if hasattr(value, "item") else value


def _id_text(value: Any) -> str:
    # A workbook may have the id 3 as 3.0.
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value).strip()


def _cell(cell: str) -> Any:
    with contextlib.suppress(ValueError):
        return json.loads(cell) if cell.lstrip().startswith("[") else [cell]
    return [cell]
