"""Turn the answers of your own assistant into records: those that it gives, and those that a file or a DataFrame holds."""

from __future__ import annotations

import ast
import contextlib
import json
import re
import unicodedata
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from ..base.messages import say
from ..base.redact import redact
from ..base.sheets import cell_text
from ..base.showing import one_line
from ..base.texts import encodable, fold
from ..errors import ConfigError, NoAnswer
from ..records import UNKNOWN, AssistantAnswer, EvalQuestion, Flags, Passage, Usage
from .citations import citable, format_context, numbered_name
from .rows import find_columns, read_rows

# The names under which LangChain's chains return the answer and its sources.
_ANSWERS = ("answer", "output", "result", "output_text", "text")
_SOURCES = ("contexts", "context", "source_documents", "documents")
_Text = str | int | float | None
_Amount = Annotated[float, msgspec.Meta(ge=0, le=1e15)]


class _Context(msgspec.Struct, forbid_unknown_fields=True):
    text: str
    source: _Text = None
    heading: _Text = None


class _Reply(msgspec.Struct, forbid_unknown_fields=True):
    answer: str
    error: Any = None
    contexts: list[str | _Context] | _Context | str | None = None
    flags: dict[Literal["insufficient_evidence", "dangerous_operation", "ambiguous_query"], bool] | None = None
    model: _Text = None
    version: _Text = None
    input_tokens: _Amount | None = None
    output_tokens: _Amount | None = None
    cost_usd: _Amount | None = None


KEYS = _Reply.__struct_fields__
_PLACE = ("question_id", "question")
# The names of the columns. Those of other tools come after our own.
_COLUMNS = {name: (name,) for name in (*_PLACE, *KEYS)} | {
    "question_id": ("question_id", "id"),
    "question": ("question", "input", "query", "user_input", "質問"),
    "answer": ("answer", "output", "response", "actual_output", "reply", "回答"),
    "contexts": ("contexts", "context", "retrieved_contexts", "retrieval_context", "コンテキスト", "文脈"),
}
_TOLD = 20  # answers without a match that an error names
_LOOKS_LIKE_A_LIST = re.compile(r"\s*\[\s*(?:['\"{]|$)")
# A text or the end of a dict as Python prints it, and the space before the next one: numpy puts no comma there.
_PRINTED = re.compile(r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|\})(\s+(?=['"{]))?|\\.""", re.DOTALL)


def as_answer(given: str | Mapping[str, Any] | AssistantAnswer, *, question: str = "") -> AssistantAnswer:
    """Turn an answer of your own assistant into an AssistantAnswer. `Assistant` lists the keys that a dict may have.
    ConfigError if a key is unknown, the answer is missing or a value is of the wrong type. NoAnswer for an `error`."""
    if isinstance(given, AssistantAnswer):
        return given
    if isinstance(given, str):
        return AssistantAnswer(encodable(question), encodable(given))
    if isinstance(given, Mapping):
        if given.get("error"):
            raise NoAnswer("the assistant reports an error: {said}", said=one_line(redact(str(given["error"])), 300))
        contexts = given.get("contexts")
        if isinstance(contexts, list | tuple):
            given = {**given, "contexts": [*map(_without_document, contexts)]}
    try:
        reply = msgspec.convert(given, _Reply, strict=False)  # some services send numbers as text
    except msgspec.ValidationError as error:
        raise ConfigError(
            "the answer cannot be used ({reason}); give a text, or a dict with answer, whose keys may be {keys}; where there "
            "is no answer, give the reason as error",
            reason=redact(str(error)),
            keys=", ".join(KEYS),
        ) from None
    contexts = reply.contexts or []
    items = contexts if isinstance(contexts, list) else [contexts]
    passages = tuple(_passage(item, k, len(items)) for k, item in enumerate(items, 1))
    return AssistantAnswer(
        question=encodable(question),
        answer=encodable(reply.answer),
        context=format_context(passages),
        passages=passages,
        flags=Flags(**(reply.flags or {})),
        model=_text(reply.model) or UNKNOWN,
        version=_text(reply.version),
        usage=Usage(1, int(reply.input_tokens or 0), int(reply.output_tokens or 0), reply.cost_usd),
    )


def from_runnable(given: Any) -> Any:
    """Return the output of a LangChain chain in a form that `as_answer` accepts."""
    if isinstance(content := getattr(given, "content", None), list):
        return "".join(part if isinstance(part, str) else str(part.get("text", "")) for part in content)
    if isinstance(content, str):
        return content
    if not isinstance(given, Mapping) or set(given) <= set(KEYS):
        return given
    answer = next((given[key] for key in _ANSWERS if key in given), None)
    contexts = next((given[key] for key in _SOURCES if key in given), None)
    return {"answer": from_runnable(answer), "contexts": contexts}


def _without_document(item: Any) -> Any:
    """LangChain returns its passages as documents."""
    if not hasattr(item, "page_content"):
        return item
    source = (getattr(item, "metadata", None) or {}).get("source")
    return {"text": item.page_content, "source": None if source is None else str(source)}


def _passage(item: str | _Context, k: int, count: int) -> Passage:
    part = _Context(item) if isinstance(item, str) else item
    source = citable(_text(part.source).strip()).replace(">", "›") or numbered_name(k, count)
    return Passage(encodable(part.text).strip(), source, citable(_text(part.heading).strip()))


def _text(value: _Text) -> str:
    return "" if value is None else encodable(str(value))


@dataclass(frozen=True)
class StoredAnswers:
    """Hold answers that already exist, from `load_answers`. `run_evaluation_suite` takes them as `answers=`."""

    # (id of the question, text of the question, answer); one of the first two may be ""
    rows: tuple[tuple[str, str, AssistantAnswer], ...] = field(repr=False)
    where: str  # the name of their file, for messages

    def for_questions(self, questions: Sequence[EvalQuestion]) -> list[AssistantAnswer]:
        """Return the answers to these questions. The ConfigError lists those without exactly one."""
        by_id, by_text = defaultdict(list), defaultdict(list)
        known = {str(question.id) for question in questions}
        for question_id, asked, answer in self.rows:
            # A column of numbers with a gap becomes one of floats when pandas writes it: 3.0 is the question 3. So is ３.
            plain = re.sub(r"^(\d+)\.0$", r"\1", unicodedata.normalize("NFKC", question_id))
            row = (question_id if question_id in known else plain, asked, answer)
            by_id[row[0]].append(row)
            by_text[fold(asked)].append(row)
        found, problems = [], []
        for question in questions:
            text = fold(question.question)
            same_text = by_text.get(text, []) if text else []
            rows = by_id.get(str(question.id), []) + [row for row in same_text if not row[0]]
            rows = rows or same_text  # under an id that the dataset does not have
            if len(rows) == 1:
                question_id, asked, answer = rows[0]
                asked = asked or answer.question
                if question_id not in ("", str(question.id)) or is_of_another(asked, question):
                    problems.append(contradiction(question, asked, question_id))
                found.append(replace(answer, question=question.question))
            else:
                key = "id {id} {question}: no answer" if not rows else "id {id} {question}: more than one answer"
                problems.append(say(key, id=question.id, question=one_line(question.question, 40)))
        if problems:
            more = [say("… and {count:,} more", count=len(problems) - _TOLD)] * (len(problems) > _TOLD)
            told = "\n  ".join([*problems[:_TOLD], *more])
            raise ConfigError(
                "{where}: these questions have not one answer each; correct the columns question_id and question, "
                "leave out the one that is wrong, or pass only the questions that have an answer:\n  {problems}",
                where=self.where,
                problems=told,
            )
        return found


def is_of_another(text: str, question: EvalQuestion) -> bool:
    """Return whether the text to which an answer belongs is that of another question."""
    return bool(text) and fold(encodable(text)) != fold(encodable(question.question))


def contradiction(question: EvalQuestion, asked: str, question_id: str = "") -> str:
    """Return a text that names the question of the dataset, and the one to which its answer belongs."""
    told = question_id and f"id {question_id} "
    key = "id {id} {question}: its answer belongs to {asked}"
    return say(key, id=question.id, question=one_line(question.question, 60), asked=told + one_line(asked, 60))


def load_answers(source: Path | str | Any) -> StoredAnswers:
    """Read existing answers from a CSV, TSV, JSONL, JSON or Excel file, or from a DataFrame.

    They are to be passed to `run_evaluation_suite` as `answers=`. If some questions have no answer, or more than one,
    that function raises an error before it spends anything. A text file is UTF-8, with or without a byte order mark,
    UTF-16 with one, or cp932 (CSV from Excel in Japan).

    The columns `question_id` and `question`, of which one is enough, say to which question an answer belongs. The
    others are the keys that the documentation of `Assistant` lists. A cell in the column `contexts` has a JSON list, or
    one text. Rename columns of other names: `load_answers(pandas.read_csv(path).rename(columns={"text": "answer"}))`.

    If the file cannot be read, or an answer in it cannot be used, the ConfigError names the file, and the row or column
    that is wrong.
    """
    where, head, rows = read_rows(source)
    columns = find_columns(where, head, _COLUMNS, [["answer"], _PLACE])
    answers = []
    for place, row in rows.items():
        values = {field: _cell_value(row.get(name)) for field, name in columns.items()}
        values = {field: value for field, value in values.items() if value is not None}
        question_id, question = (cell_text(values.pop(field, None)) for field in _PLACE)
        try:
            if isinstance(cell := values.get("contexts"), str):
                values["contexts"] = _cell(cell)
            answer = as_answer({"answer": "", **values}, question=question)
        except NoAnswer as reason:
            answer = AssistantAnswer(question, "", retries=(str(reason),))
        except ConfigError as error:
            raise ConfigError("{where}, {place}: {reason}", where=where, place=place, reason=error) from None
        answers.append((question_id, question, answer))
    return StoredAnswers(tuple(answers), where)


def _cell_value(value: Any) -> Any:
    value = value.tolist() if hasattr(value, "tolist") else value  # an array or a number of numpy
    return None if isinstance(value, str | float) and (value == "" or value != value) else value


def _cell(cell: str) -> Any:
    """Return the contexts in a cell: a JSON list, a list as Python, pandas or numpy print it, or one text."""
    if not cell.lstrip().startswith(("[", "(")):
        return [cell]
    with contextlib.suppress(ValueError, RecursionError):
        return json.loads(cell)
    with contextlib.suppress(ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        found = ast.literal_eval(_PRINTED.sub(lambda part: f"{part[1]}, " if part[2] else part[0], cell.strip()))
        return found if isinstance(found, list | tuple) else [cell]
    bare = _PRINTED.sub("", cell)  # without its texts: is a bracket open, or is the whole a list?
    if _LOOKS_LIKE_A_LIST.match(cell) and (bare.rstrip().endswith("]") or bare.count("[") > bare.count("]")):
        raise ConfigError(
            "contexts begin like a list and cannot be read as one; was the cell cut? {found}", found=one_line(cell, 80)
        )
    return [cell]
