"""Read log files as Arrow tables: one row per log, and one row per judged answer. Texts are read only if requested.

A fast reader reads logs in the usual form, which is how socjudge writes them or how the specification defines them. It
skips what is not needed. A log with anything unusual is read by the rules of `load_run` instead. These rules fill in
what is missing, or report what is wrong.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import hashlib
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, is_dataclass
from datetime import UTC, datetime
from operator import attrgetter, or_
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, get_args, get_origin

import msgspec
import orjson
import pyarrow as pa

from ..base.conditions import runbooks_text
from ..base.messages import os_reason, say
from ..base.missing_scores import UNREAD, Span, outcome_of, span_of
from ..base.pass_rule import PassRule, run_rule
from ..base.rubric_check import MOST
from ..base.verdict import Tally
from ..errors import ConfigError
from ..records import (
    BARE,
    POINTS,
    SPECIFIED_CRITERIA,
    UNKNOWN,
    EvaluationResult,
    EvaluationRun,
    RunInfo,
    RunSummary,
    Status,
    asked_of,
)
from ..runs.log_json import (
    RULE_LIMITS,
    answer_sha256,
    criteria_of,
    log_fields,
    rule_agrees,
    same_judgements,
    true_prompts,
)
from ..runs.logs import bare_info, load_log, parse_log
from .schema import (
    OF_INFO,
    OF_RESULT,
    OF_SUMMARY,
    OF_TEXTS,
    OF_USAGE,
    RENAMED,
    RESULTS,
    RUNS,
    TEXTS,
    LogFile,
    Tables,
    place_in_log,
)

CHUNK = 20_000  # judged answers that are held as Python objects before they become a table

_INFO_VALUES = attrgetter(*(RENAMED.get(name, name) for name in OF_INFO))
_IN_BARE = {  # missing for a bare log, in which the default 0 or 1 would be a guess
    **dict.fromkeys(("k", "answer_repeats", "judge_repeats", "wall_time_s", *OF_USAGE)), "mode": UNKNOWN
}  # fmt: skip
# Further fields that a row of RESULTS or its texts are made from.
_MORE = (
    "question.id", "answer.answer", "answer.context", "evaluation.scores", "evaluation.average_score",
    "evaluation.passed", "evaluation.status", "evaluation.missing",
)  # fmt: skip
_QUESTION, _AVERAGE, _LOW, _HIGH, _CRITERIA = map(
    RESULTS.get_field_index, ("question_id", "average_score", "average_low", "average_high", "criterion")
)
Row = tuple[Any, ...]

_ESCAPED = re.compile(r"\\[u/]").finditer  # finds possible escaped letters, three times as fast as `in`
Plain = dict[int | str, msgspec.Raw]  # {question: a context that is known to have no escaped letters}
MOST_CONTEXTS = 1000  # contexts that are remembered

_POINTS = Annotated[float, msgspec.Meta(ge=0, le=100)]
_MARK = _POINTS | None  # null means that the score is missing
_WHOLE = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]  # integers that Arrow can hold


@functools.lru_cache(maxsize=8)
def _decoder(criteria: tuple[str, ...], text: bool) -> msgspec.json.Decoder[Any]:
    """Return a decoder of logs in which every answer is scored on exactly these criteria; () accepts any criteria."""
    others: dict[str, tuple[Any, Any]] = {"evaluation.status": (Status | msgspec.UnsetType, msgspec.UNSET)}
    if not text:  # left as bytes of the file
        others |= dict.fromkeys(("answer.answer", "answer.context"), (msgspec.Raw, MISSING))
    if criteria:  # their names need not be read for every answer again, which saves half of the time
        names = {f"c{number}": name for number, name in enumerate(criteria)}
        scores = msgspec.defstruct(
            "Scores", [(field, _POINTS | None) for field in names], rename=names, forbid_unknown_fields=True, gc=False
        )
        others["evaluation.scores"] = scores, MISSING
    paths = [*OF_RESULT.values(), *_MORE, *((*OF_TEXTS.values(), "evaluation.rationale") if text else ())]
    row = _struct({**_members(EvaluationResult, paths, others), "answer_sha256": (str, "")})
    log = {"results": (list[row], MISSING), "summary": (RunSummary, MISSING), "run": (RunInfo | None, None)}  # type: ignore[valid-type]
    return msgspec.json.Decoder(_struct(log))


def _struct(members: Mapping[str, tuple[Any, Any]]) -> Any:
    given = [(key, kind) if default is MISSING else (key, kind, default) for key, (kind, default) in members.items()]
    return msgspec.defstruct("_", given, kw_only=True, frozen=True, gc=False)


def _members(
    record: type, paths: Iterable[str], others: Mapping[str, tuple[Any, Any]], at: str = ""
) -> dict[str, tuple[Any, Any]]:
    """Return {key: (type, default)} for the dotted `paths` of a record at the path `at`; `others` go before its own."""
    found: dict[str, tuple[Any, Any]] = {}
    blocks: dict[str, dict[str, tuple[Any, Any]]] = {}
    for name, kind, key, block, inline, default in log_fields(record):
        inner = {path.partition(".")[2] for path in paths if path.partition(".")[0] == name}
        if not inner:
            continue
        place = blocks.setdefault(block, {}) if block else found
        if inline:
            found |= _members(kind, inner, others, f"{at}{name}.")
        elif is_dataclass(kind):
            struct = _struct(_members(kind, inner, others, f"{at}{name}."))  # type: ignore[arg-type]
            if default is not MISSING:
                default = struct(**{field: getattr(default, field) for field in struct.__struct_fields__})
            place[key] = struct, default
        else:
            place[key] = others.get(at + name) or (_checked(kind), default)
    for block, members in blocks.items():
        struct = _struct(members)
        found[block] = struct, struct()
    return found


def _checked(kind: Any) -> Any:
    """Return the type that the fast reader demands of a value, from the annotation of its field in the records."""
    inner = get_args(kind)
    if get_origin(kind) is Mapping:
        return dict[str, _checked(inner[1])]  # type: ignore[misc]
    if POINTS in inner:
        return _POINTS
    return functools.reduce(or_, (_WHOLE if each is int else each for each in inner or (kind,)))


@functools.cache
def _values(text: bool, in_log: bool) -> Callable[[Any], Row]:
    """Return what takes from a judged answer the values that go unchanged into RESULTS (and TEXTS)."""
    paths = [*OF_RESULT.values(), *(OF_TEXTS.values() if text else ())]
    # An answer that is not a row of a log is an EvaluationResult.
    return attrgetter(*(place_in_log(path)[0] if in_log else path for path in paths))


class _Unusual(Exception):
    """Signal that the fast reader cannot read a log, so that the slower reader must read it."""


def read_logs(files: Iterable[LogFile], *, text: bool = False) -> Tables:
    """Read logs in the given order. If one cannot be read, its row in `runs` has the reason in the column `problem`."""
    runs: list[dict[str, Any]] = []
    rows: list[Row] = []
    guess: tuple[str, ...] = SPECIFIED_CRITERIA  # most logs of a folder have the same criteria
    plain: Plain = {}
    chunks = []
    with without_collection():
        for file in files:
            run: dict[str, Any] = {
                "log": file.name, "size": file.size, "modified_ns": file.modified_ns,
                "changed_ns": file.changed_ns,
            }  # fmt: skip
            try:
                new_run, new_rows = _read_log(file.path, text, guess, plain)
                guess = tuple(json_names(new_rows[0][_CRITERIA])) if new_rows else guess
                run |= new_run
                rows += new_rows
            except ConfigError as error:
                run["problem"] = str(error)
            except OSError as error:
                # The error may pass. With a size that no file has, the log is read again next time.
                run |= {
                    "problem": say(
                        "{path}: the log cannot be read ({reason})", path=file.path, reason=os_reason(error)
                    ),
                    "size": -1,
                }
            runs.append(run)
            if len(rows) >= CHUNK:
                chunks.append(_results(rows, text))
                rows = []
    chunks.append(_results(rows, text))
    return Tables(pa.Table.from_pylist(runs, RUNS), pa.concat_tables(chunks))


@contextlib.contextmanager
def without_collection() -> Iterator[None]:
    """Switch garbage collection off, which would check the growing rows again and again, for a third of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _read_log(path: Path, text: bool, guess: tuple[str, ...], plain: Plain) -> tuple[dict[str, Any], list[Row]]:
    raw = load_log(path)
    try:
        info, summary, rows = _read_usual(raw, path.name, text, guess, plain)
    except (_Unusual, ConfigError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        # Another form than the usual one, or an invalid rubric (ConfigError).
        info, summary, rows = _read_any(parse_log(raw, path), path.name, text)
    values = _run_values(info, summary, rows)
    whole = [value for value in values.values() if type(value) is int]
    if not -(2**63) <= min(whole) <= max(whole) < 2**63:
        raise ConfigError("{path}: run or summary holds a number beyond 64 bits; correct it in the file", path=path)
    return values, rows


def run_tables(run: EvaluationRun) -> Tables:
    """Return the tables, with texts, of a run that is in memory, as if its log had been read."""
    name = run.log_path.name if run.log_path is not None else ""
    info, summary, rows = _read_any(run, name, text=True)
    values = {"log": name, **_run_values(info, summary, rows)}
    return Tables(pa.Table.from_pylist([values], RUNS), _results(rows, text=True))


def _results(rows: list[Row], text: bool) -> pa.Table:
    schema = pa.schema([*RESULTS, *TEXTS]) if text else RESULTS
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema)


def _read_usual(
    raw: bytes, log: str, text: bool, guess: tuple[str, ...], plain: Plain
) -> tuple[RunInfo, RunSummary, list[Row]]:
    """Read a log in the usual form. Raise msgspec.MsgspecError or _Unusual if it has another form."""
    found, criteria = _decode(raw, text, guess)
    if any(not 0 <= (getattr(found.run, name, 0) or 0) <= most for name, most in RULE_LIMITS.items()):
        raise _Unusual("a pass rule out of its range")
    if found.run is not None and not (rule_agrees(found.run) and true_prompts(found.run) is found.run):
        raise _Unusual("two pass rules, or a prompt under another one's name")
    values = _values(text, True)
    info = found.run or bare_info(log)
    if info.asked is None and len(found.results) < asked_of(info, found.summary):
        raise _Unusual("an older log of a part, or of a run that judged each answer as often as it needed")
    line = run_rule(info).line
    if same_judgements((row.question_id, row.answer_repeat, row.judge_repeat) for row in found.results):
        raise _Unusual("two results of one judgement")
    rows = [_row(row, log, criteria, values(row), text, line, plain) for row in found.results]
    there = dict.fromkeys(name for names in {row[_CRITERIA] for row in rows} for name in json_names(names))
    wanted = set(criteria_of(info, there))
    if any(not wanted <= set(json_names(names)) for names in {row[_CRITERIA] for row in rows}):
        raise _Unusual("a score that is absent")
    return info, found.summary, rows


def _decode(raw: bytes, text: bool, guess: tuple[str, ...]) -> tuple[Any, tuple[str, ...]]:
    # Decoding takes half the time if the guess at the criteria is right. If it is wrong, () is returned in its place.
    with contextlib.suppress(msgspec.ValidationError):
        found = _decoder(guess, text).decode(raw)
        rubric = None if found.run is None else found.run.rubric
        if guess == (SPECIFIED_CRITERIA if rubric is None else rubric.criteria):
            return found, guess
    return _decoder((), text).decode(raw), ()


def _row(row: Any, log: str, criteria: tuple[str, ...], values: Row, text: bool, line: float, plain: Plain) -> Row:
    """Return the row of RESULTS for a decoded row of a log. Without `criteria`, they are taken from this answer."""
    evaluation = row.evaluation
    if criteria:
        points = msgspec.structs.astuple(evaluation.scores)
    else:
        criteria, points = tuple(evaluation.scores), tuple(evaluation.scores.values())
    status = evaluation.status
    if status is msgspec.UNSET:
        status = "ok" if any(points) else ""
    if not points or not status or len(points) > MOST:
        raise _Unusual("no marks, too many, or six zeros: what they are is for the other reader to say")
    lacking = {name for name, mark in zip(criteria, points, strict=True) if mark is None} if None in points else set()
    if len(lacking) == len(points) or not lacking <= set(evaluation.missing):
        raise _Unusual("a mark that is no number, without a cause")
    sha256 = row.answer_sha256 or (answer_sha256(row.answer, row.context) if text else _raw_sha256(row, plain))
    return _made(log, row.question_id, status, evaluation, sha256, criteria, points, values, text, line)


def _raw_sha256(row: Any, plain: Plain) -> str:
    """Return the hash of answer and context from their bytes in the file, which have the hashed form unless escaped."""
    answer, context, known = row.answer, row.context, plain.get(row.question_id)
    if _is_plain(answer) and (context == known or _is_plain(context)):
        # Most logs of a folder have the same context for a question, so it is kept and not checked again.
        if context != known and len(plain) < MOST_CONTEXTS:
            plain[row.question_id] = context.copy()
        sha256 = hashlib.sha256(answer)
        sha256.update(context)
        return sha256.hexdigest()
    try:
        return answer_sha256(orjson.loads(memoryview(answer)), orjson.loads(memoryview(context)))
    except orjson.JSONDecodeError:  # the text has half a character
        raise _Unusual("a text that orjson does not read") from None


def _is_plain(raw: msgspec.Raw) -> bool:
    """Return whether a JSON string has no escaped letter (backslash and u, or backslash and slash)."""
    text = str(memoryview(raw), "utf-8")  # UnicodeDecodeError leaves the log to the slower reader, as _Unusual does
    if text[0] != '"':
        raise _Unusual("no text")
    for found in _ESCAPED(text):
        before = text[: found.start()]
        if (len(before) - len(before.rstrip("\\"))) % 2 == 0:  # otherwise the backslash before it is itself escaped
            return False
    return True


def _read_any(run: EvaluationRun, log: str, text: bool) -> tuple[RunInfo, RunSummary, list[Row]]:
    rows, values, line = [], _values(text, False), run_rule(run.run).line
    for result in run.results:
        evaluation, answer = result.evaluation, result.answer
        criteria, points = tuple(evaluation.scores), list(evaluation.scores.values())
        sha256 = answer_sha256(answer.answer, answer.context)
        own = values(result)
        rows.append(
            _made(log, result.question.id, evaluation.status, evaluation, sha256, criteria, points, own, text, line)
        )
    return run.run, run.summary, rows


def _made(
    log: str, question: int | str, status: str, evaluation: Any, sha256: str, criteria: tuple[str, ...],
    points: Sequence[Any], values: Row, text: bool, line: float,
) -> Row:  # fmt: skip
    # The question's id and the names of the criteria are JSON in the row.
    known = str(question) if isinstance(question, int) else orjson.dumps(question).decode()
    average, passed, causes = evaluation.average_score, evaluation.passed, _no_causes(len(points))
    low = high = average
    if status != "ok":
        average, passed, points, (_, low, high) = None, None, [None] * len(points), UNREAD
    elif evaluation.missing and None in points:
        span = span_of(dict(zip(criteria, points, strict=True)), average, status)
        low, high, causes = span.low, span.high, tuple(evaluation.missing.get(name, "") for name in criteria)
        # The pass line decides whether an answer with a missing score surely passes, surely fails, or is undecided.
        outcome = outcome_of(span, status, line)
        passed = None if outcome == "open" else outcome == "passed"
    row = (log, known, status, average, low, high, passed, sha256, _as_json(criteria), points, causes, *values)
    return (*row, [evaluation.rationale.get(name, "") for name in criteria]) if text else row


@functools.lru_cache(maxsize=1000)
def _no_causes(count: int) -> tuple[str, ...]:
    return ("",) * count


@functools.lru_cache(maxsize=1000)
def _as_json(names: tuple[str, ...]) -> str:
    return orjson.dumps(names).decode()


@functools.lru_cache(maxsize=1000)
def json_names(text: str) -> list[str]:
    """Return the names of the criteria from the JSON text that a row of RESULTS has."""
    names: list[str] = orjson.loads(text)
    return names


@functools.lru_cache(maxsize=1000)
def _joined(*lists: str) -> str:
    return "、".join(dict.fromkeys(name for names in lists for name in json_names(names)))


def _run_values(info: RunInfo, summary: RunSummary, rows: list[Row]) -> dict[str, Any]:
    """Return a run's row of RUNS without the columns about the log file. What a bare log does not have is missing."""
    averages = [average for row in rows if (average := row[_AVERAGE]) is not None]
    usage = info.assistant_usage + info.judge_usage
    lists = dict.fromkeys([row[_CRITERIA] for row in rows])
    values: dict[str, Any] = dict(zip(OF_INFO, _INFO_VALUES(info), strict=True))
    values["started_at"] = moment_of(info.started_at)
    for name in OF_SUMMARY:
        values[name] = _finite(getattr(summary, name))
    for name in OF_USAGE:
        values[name] = getattr(usage, name)
    if info.schema_version == BARE:
        values |= _IN_BARE
    rule = run_rule(info)
    values |= {"pass_threshold": rule.line, "pass_rate_required": rule.rate}  # old logs have the specification's
    values["n_results"], values["n_unscored"] = len(rows), len(rows) - len(averages)
    values["asked"] = max(len(rows), asked_of(info, summary))
    is_part, is_whole = len(rows) < values["asked"], all(row[_LOW] == row[_HIGH] for row in rows)
    values["mvp_passed"] = values["mvp_passed"] and not is_part
    values["is_open"] = info.judges_asked > 1 or is_part or (not is_whole and _is_open(rows, rule))
    values["mean_score"] = fmean(averages) if averages else None
    values["criteria"] = _joined(*lists)
    values["runbooks"] = runbooks_text(info.runbooks)
    return values


def _is_open(rows: list[Row], rule: PassRule) -> bool:
    """Return whether missing scores can change the verdict on a run."""
    tally = Tally()
    for row in rows:
        tally.add(row[_QUESTION], Span(row[_AVERAGE] or 0.0, row[_LOW], row[_HIGH]))
    return tally.summary(rule).is_open


def moment_of(text: str) -> datetime | None:
    """Return a log's time in UTC; None if the text is not a time. A time without a zone is in this machine's zone."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
