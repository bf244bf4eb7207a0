"""Log files as Arrow tables: a row per log, and a row per judged answer. Texts are left out unless they are asked for.

A log as socjudge writes it, or the specification, is read by a parser that skips what is not needed. Anything unusual
about a log, and it is read by the rules of `load_run` instead, which fill in, or tell what is wrong with it."""

from __future__ import annotations

import contextlib
import functools
import gc
import hashlib
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np
import orjson
import pyarrow as pa

from .. import constants
from ..errors import ConfigError
from ..records import BARE, UNKNOWN, EvaluationRun, RunInfo, RunSummary, Status
from ..runs.log_json import answer_sha256
from ..runs.logs import bare_info, load_log, parse_log

CHUNK = 20_000  # judged answers that are held as Python objects, before they become a table

RUNS = pa.schema(
    {
        # What tells whether the file is still the one that was read, and why it could not be.
        "log": pa.string(), "size": pa.int64(), "modified_ns": pa.int64(), "changed_ns": pa.int64(),
        "problem": pa.string(),
        "run_id": pa.string(), "started_at": pa.timestamp("us", "UTC"),
        "judge_model": pa.string(), "judge_model_resolved": pa.string(),
        "assistant_model": pa.string(), "assistant_model_resolved": pa.string(),
        "prompt_id": pa.string(), "prompt_sha256": pa.string(), "assistant_prompt_id": pa.string(),
        "dataset_sha256": pa.string(), "index_fingerprint": pa.string(), "k": pa.int64(),
        "pass_threshold": pa.float64(), "pass_rate_required": pa.float64(),
        "answer_repeats": pa.int64(), "judge_repeats": pa.int64(), "rejudged_from": pa.string(), "mode": pa.string(),
        "total_questions": pa.int64(), "passed_questions": pa.int64(), "pass_rate": pa.float64(),
        "average_score": pa.float64(), "mvp_passed": pa.bool_(),
        "n_results": pa.int64(), "n_unscored": pa.int64(), "mean_score": pa.float64(),
        "calls": pa.int64(), "input_tokens": pa.int64(), "output_tokens": pa.int64(), "cost_usd": pa.float64(),
        "wall_time_s": pa.float64(), "socjudge_version": pa.string(),
    }
)  # fmt: skip
RESULTS = pa.schema(
    {
        "log": pa.string(), "question_id": pa.string(), "category": pa.string(),  # question_id, criterion (a list): as JSON
        "answer_repeat": pa.int64(), "judge_repeat": pa.int64(),
        "insufficient_evidence": pa.bool_(), "dangerous_operation": pa.bool_(), "ambiguous_query": pa.bool_(),
        "answer_sha256": pa.string(), "average_score": pa.float64(), "passed": pa.bool_(), "status": pa.string(),
        "judge_model_resolved": pa.string(), "processing_time": pa.float64(), "cost_usd": pa.float64(),
        "criterion": pa.string(), "score": pa.list_(pa.float64()),
    }
)  # fmt: skip
TEXTS = pa.schema(
    {
        "question": pa.string(), "answer": pa.string(), "context": pa.string(), "overall_comment": pa.string(),
        "error": pa.string(), "rationale": pa.list_(pa.string()),
    }
)  # fmt: skip

_AVERAGE = RESULTS.get_field_index("average_score")
_SAME_NAMES = (
    "judge_model", "judge_model_resolved", "assistant_model", "assistant_model_resolved", "assistant_prompt_id",
    "dataset_sha256", "index_fingerprint", "rejudged_from", "socjudge_version", "pass_threshold", "pass_rate_required",
)  # fmt: skip
Row = tuple[Any, ...]


class LogFile(NamedTuple):
    """A log as the disk has it. size: bytes; modified_ns, changed_ns: times; all 0 in an object store."""

    folder: Path
    name: str
    size: int = 0
    modified_ns: int = 0
    changed_ns: int = 0

    @property
    def path(self) -> Path:
        """Where it is."""
        return self.folder / self.name  # made when it is read: ten thousand paths take a tenth of a second


@dataclass(frozen=True)
class Tables:
    """runs: as RUNS, also of logs that could not be read; results: as RESULTS, with TEXTS if they were asked for."""

    runs: pa.Table
    results: pa.Table


Points = Annotated[float, msgspec.Meta(ge=0, le=100)]
Whole = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]  # what Arrow can hold


class _Flags(msgspec.Struct, gc=False):
    insufficient_evidence: bool
    dangerous_operation: bool
    ambiguous_query: bool


class _Usage(msgspec.Struct, gc=False):
    cost_usd: float | None


class _Marks(msgspec.Struct, gc=False):
    scores: dict[str, Points]
    average_score: Points
    passed: bool
    processing_time: float
    status: Status | msgspec.UnsetType = msgspec.UNSET
    model: str = UNKNOWN
    usage: _Usage | None = None


class _Answer(msgspec.Struct, gc=False):
    """A row of `results`, its texts left as they stand in the file."""

    question_id: Whole | str
    category: str
    answer: msgspec.Raw
    context: msgspec.Raw
    flags: _Flags
    evaluation: _Marks
    answer_repeat: Whole = 0
    judge_repeat: Whole = 0
    answer_sha256: str = ""


class _Log(msgspec.Struct, gc=False):
    results: list[_Answer]
    summary: RunSummary
    run: RunInfo | None = None


class _MarksInWords(_Marks, gc=False):
    rationale: dict[str, str] = {}
    overall_comment: str = ""
    error: str = ""


class _AnswerInWords(_Answer, kw_only=True, gc=False):
    question: str
    answer: str  # type: ignore[assignment]
    context: str  # type: ignore[assignment]
    evaluation: _MarksInWords


class _LogInWords(_Log, kw_only=True, gc=False):
    results: list[_AnswerInWords]  # type: ignore[assignment]


@functools.lru_cache(maxsize=8)
def _decoder(criteria: tuple[str, ...], text: bool) -> msgspec.json.Decoder[Any]:
    """A reader of logs in which each answer is marked on just these criteria; on any if there are none.

    Known names need not be made into texts a hundred thousand times, which is half of the time."""
    if not criteria:
        return msgspec.json.Decoder(_LogInWords if text else _Log)
    names = {f"c{number}": name for number, name in enumerate(criteria)}
    options: dict[str, Any] = {"gc": False, "kw_only": True}
    scores = msgspec.defstruct(
        "Scores", [(field, Points) for field in names], rename=names, forbid_unknown_fields=True, gc=False
    )
    marks = msgspec.defstruct("Marks", [("scores", scores)], bases=(_MarksInWords if text else _Marks,), **options)
    base = _AnswerInWords if text else _Answer
    answer = msgspec.defstruct("Answer", [("evaluation", marks)], bases=(base,), **options)
    return msgspec.json.Decoder(msgspec.defstruct("Log", [("results", list[answer])], bases=(_Log,), **options))  # type: ignore[valid-type]


class _Unusual(Exception):
    """What the fast reader leaves to the other one."""


def read_logs(files: Iterable[LogFile], *, text: bool = False) -> Tables:
    """What is in the logs, in the order given. A log that cannot be read is a row of `runs` with its `problem`."""
    runs: list[dict[str, Any]] = []
    rows: list[Row] = []
    chunks = []
    with without_collection():
        for file in files:
            run: dict[str, Any] = {
                "log": file.name, "size": file.size, "modified_ns": file.modified_ns,
                "changed_ns": file.changed_ns,
            }  # fmt: skip
            try:
                new_run, new_rows = _read_log(file.path, text)
                run |= new_run
                rows += new_rows
            except ConfigError as error:
                run["problem"] = str(error)
            except OSError as error:
                # It may pass: with a size that no file has, the log is read again next time.
                run |= {"problem": f"{file.path}: the log cannot be read ({error.strerror})", "size": -1}
            runs.append(run)
            if len(rows) >= CHUNK:
                chunks.append(_results(rows, text))
                rows = []
    chunks.append(_results(rows, text))
    return Tables(pa.Table.from_pylist(runs, RUNS), pa.concat_tables(chunks))


@contextlib.contextmanager
def without_collection() -> Iterator[None]:
    """No garbage collection, which would go through the growing rows again and again: a third of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _read_log(path: Path, text: bool) -> tuple[dict[str, Any], list[Row]]:
    raw = load_log(path)
    try:
        info, summary, rows = _read_usual(raw, path.name, text)
    except (_Unusual, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        info, summary, rows = _read_any(parse_log(raw, path), path.name, text)
    values = _run_values(info, summary, rows)
    if any(isinstance(value, int) and not -(2**63) <= value < 2**63 for value in values.values()):
        raise ConfigError(f"{path}: run or summary holds a number beyond 64 bits; correct it in the file")
    return values, rows


def run_tables(run: EvaluationRun) -> Tables:
    """A run in memory as the tables of its log, texts included."""
    name = run.log_path.name if run.log_path is not None else ""
    info, summary, rows = _read_any(run, name, text=True)
    values = {"log": name, **_run_values(info, summary, rows)}
    return Tables(pa.Table.from_pylist([values], RUNS), _results(rows, text=True))


def _results(rows: list[Row], text: bool) -> pa.Table:
    schema = pa.unify_schemas([RESULTS, TEXTS]) if text else RESULTS
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema)


def _read_usual(raw: bytes, log: str, text: bool) -> tuple[RunInfo, RunSummary, list[Row]]:
    """A log as it should be; else msgspec.MsgspecError or _Unusual."""
    criteria = tuple(constants.JUDGE_EVALUATION_CRITERIA)
    try:
        found = _decoder(criteria, text).decode(raw)
    except msgspec.ValidationError:  # perhaps only other criteria
        found, criteria = _decoder((), text).decode(raw), ()
    if found.run is None and (raw.isascii() or _escapes_letters(raw)):
        raise _Unusual("texts in another form than the one that is hashed")
    return found.run or bare_info(log), found.summary, [_row(row, log, criteria) for row in found.results]


def _escapes_letters(raw: bytes) -> bool:
    """Whether JSON escapes what need not be, as \\/ or \\u003c; control characters are seen as such too."""
    data = np.frombuffer(raw, np.uint8)
    escaped = data[1:][data[:-1] == ord("\\")]
    return bool(((escaped == ord("u")) | (escaped == ord("/"))).any())


def _row(row: _Answer, log: str, criteria: tuple[str, ...]) -> Row:
    marks, flags = row.evaluation, row.flags
    if criteria:
        points = list(msgspec.structs.astuple(marks.scores))  # type: ignore[arg-type]
    else:
        criteria, points = tuple(marks.scores), list(marks.scores.values())
    if not points or (marks.status is msgspec.UNSET and not any(points)):
        raise _Unusual("no marks, or six zeros: whether they are marks is for the other reader to say")
    values = (
        log, row.question_id, row.category, row.answer_repeat, row.judge_repeat,
        flags.insufficient_evidence, flags.dangerous_operation, flags.ambiguous_query,
        row.answer_sha256 or _sha256(row), marks.average_score, marks.passed, "ok" if marks.status is msgspec.UNSET else marks.status,
        marks.model, marks.processing_time, marks.usage and marks.usage.cost_usd, criteria, points,
    )  # fmt: skip
    return _missing_if_unscored(values) + (_texts(row, criteria) if isinstance(row, _AnswerInWords) else ())


def _sha256(row: _Answer) -> str:
    if isinstance(row, _AnswerInWords):
        return answer_sha256(row.answer, row.context)
    digest = hashlib.sha256(row.answer)
    digest.update(row.context)
    return digest.hexdigest()


def _texts(row: _AnswerInWords, criteria: tuple[str, ...]) -> Row:
    marks = row.evaluation
    rationale = [marks.rationale.get(name, "") for name in criteria]
    return row.question, row.answer, row.context, marks.overall_comment, marks.error, rationale


def _read_any(run: EvaluationRun, log: str, text: bool) -> tuple[RunInfo, RunSummary, list[Row]]:
    """A run that was read by the rules of `load_run`."""
    rows = []
    for result in run.results:
        answer, flags, marks = result.answer, result.answer.flags, result.evaluation
        values = (
            log, result.question.id, result.question.category, result.answer_repeat, result.judge_repeat,
            flags.insufficient_evidence, flags.dangerous_operation, flags.ambiguous_query,
            answer_sha256(answer.answer, answer.context), marks.average_score, marks.passed, marks.status,
            marks.model, marks.processing_time, marks.usage.cost_usd, tuple(marks.scores), list(marks.scores.values()),
        )  # fmt: skip
        rationale = [marks.rationale.get(name, "") for name in marks.scores]
        texts = (result.question.question, answer.answer, answer.context, marks.overall_comment, marks.error, rationale)
        rows.append((*_missing_if_unscored(values), *(texts if text else ())))
    return run.run, run.summary, rows


def _missing_if_unscored(values: Row) -> Row:
    """The row as RESULTS has it: the question's id and the criteria as JSON, and no marks where none could be read."""
    log, question, *middle, average, passed, status, model, seconds, cost, criteria, points = values
    if status != "ok":
        average, passed, points = None, None, [None] * len(points)
    question = str(question) if isinstance(question, int) else orjson.dumps(question).decode()
    criteria = _as_json(criteria)
    return (log, question, *middle, average, passed, status, model, seconds, cost, criteria, points)


@functools.lru_cache(maxsize=1000)
def _as_json(names: tuple[str, ...]) -> str:
    return orjson.dumps(names).decode()


def _run_values(info: RunInfo, summary: RunSummary, rows: list[Row]) -> dict[str, Any]:
    """A row of RUNS. What a log of the specification does not say is missing."""
    averages = [row[_AVERAGE] for row in rows if row[_AVERAGE] is not None]
    usage, is_bare = info.assistant_usage + info.judge_usage, info.schema_version == BARE
    said: dict[str, Any] = {
        "k": info.k, "answer_repeats": info.answer_repeats, "judge_repeats": info.judge_repeats, "mode": info.mode,
        "calls": usage.calls, "input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens,
        "cost_usd": usage.cost_usd, "wall_time_s": info.wall_time_s,
    }  # fmt: skip
    return {
        "run_id": info.run_id,
        "started_at": _moment(info.started_at),
        **{name: getattr(info, name) for name in _SAME_NAMES},
        "prompt_id": info.judge_prompt_id,
        "prompt_sha256": info.judge_prompt_sha256,
        **(dict.fromkeys(said) | {"mode": UNKNOWN} if is_bare else said),
        **{name: _finite(getattr(summary, name)) for name in ("pass_rate", "average_score")},
        **{name: getattr(summary, name) for name in ("total_questions", "passed_questions", "mvp_passed")},
        "n_results": len(rows),
        "n_unscored": len(rows) - len(averages),
        "mean_score": fmean(averages) if averages else None,
    }


def _moment(text: str) -> datetime | None:
    """A time as a log has it; one without a zone is this machine's. None if it is no time."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
