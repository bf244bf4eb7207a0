"""List and read logs as rows: one per run, and one per judged answer with its scores, by the rules of `load_run`."""

from __future__ import annotations

import contextlib
import gc
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple, get_type_hints

from ..base.conditions import runbooks_text
from ..base.files import as_path
from ..base.pass_rule import UNREAD, outcome_of, run_rule, span_of
from ..errors import ConfigError
from ..records import BARE, UNKNOWN, EvaluationResult, EvaluationRun, RunInfo, RunSummary, Usage
from ..runs.log_json import answer_sha256
from ..runs.logs import load_log, log_files, parse_log

REMEMBERED = 10_000  # logs whose rows stay in memory, about 5 kB for each log of ten answers


class Answer(NamedTuple):
    """The columns of a judged answer, and last its scores and texts."""

    question_id: int | str
    category: str
    answer_repeat: int
    judge_repeat: int
    average_score: float | None
    average_low: float
    average_high: float
    passed: bool | None
    status: str
    insufficient_evidence: bool
    dangerous_operation: bool
    ambiguous_query: bool
    processing_time: float
    cost_usd: float | None
    answer_sha256: str
    judge_model_resolved: str
    truncated: bool | None
    criteria: tuple[str, ...]  # this and the next two have an element per score
    score: tuple[float | None, ...]
    missing: tuple[str, ...]  # why a score is missing, or ""
    rationale: tuple[str, ...] = ()  # empty if no texts are wanted
    texts: tuple[str, ...] = ()  # the values of TEXTS, if they are wanted


class LoggedRun(NamedTuple):
    run_id: str
    log: str
    started_at: str
    values: tuple[Any, ...]  # of the other RUN_COLUMNS
    answers: tuple[Answer, ...]
    schema_version: int


TEXTS = ("question", "answer", "context", "overall_comment", "error")
# Fields of the run's block in the log, in the order of the frames. All but two have the same names there.
_RENAMED = {"prompt_id": "judge_prompt_id", "prompt_sha256": "judge_prompt_sha256"}
_OF_RUN = (
    "judge_model", "judge_model_resolved", "assistant_model", "assistant_model_resolved", "prompt_id", "prompt_sha256",
    "dataset_sha256", "index_fingerprint", "pass_threshold", "pass_rate_required", "assistant_prompt_id", "k",
    "answer_repeats", "judge_repeats", "rejudged_from", "mode",
)  # fmt: skip
_OF_RUN_TOO = (
    "wall_time_s", "socjudge_version", "judges_asked", "asked", "schema_version", "judge_service", "judge_settings",
    "assistant_service", "assistant_settings", "assistant_prompt_sha256", "assistant_version",
)  # fmt: skip
_OF_SUMMARY = ("total_questions", "passed_questions", "pass_rate", "average_score", "mvp_passed")
_OF_USAGE = ("calls", "input_tokens", "output_tokens", "cost_usd")
_IN_BARE = {  # missing for a bare log, in which the default 0 or 1 would be a guess
    **dict.fromkeys(("k", "answer_repeats", "judge_repeats", "wall_time_s", *_OF_USAGE)), "mode": UNKNOWN
}  # fmt: skip
_INFO, _SUMMARY, _USAGE = (get_type_hints(record) for record in (RunInfo, RunSummary, Usage))
# The columns of a run, with their types.
RUN_COLUMNS: dict[str, Any] = {
    "run_id": str, "log": str, "started_at": datetime, **{name: _INFO[_RENAMED.get(name, name)] for name in _OF_RUN},
    **{name: _SUMMARY[name] for name in _OF_SUMMARY}, "n_results": int, "n_unscored": int, "is_open": bool,
    "mean_score": float, **{name: _USAGE[name] for name in _OF_USAGE}, **{name: _INFO[name] for name in _OF_RUN_TOO},
    "criteria": str, "runbooks": str, "contradictory": bool,
}  # fmt: skip
_VALUES = [*RUN_COLUMNS][3:]


def list_logs(logs_dir: Path | str) -> list[Path]:
    place = as_path(logs_dir)
    if not place.is_dir():
        raise ConfigError("{place}: no such folder; give the one that the runs were logged to (logs_dir)", place=place)
    return log_files(place)


def read_logs(paths: list[Path], *, text: bool = False) -> list[LoggedRun]:
    """Read the logs that can be read, in the given order. Without texts, only those that changed since then."""
    found = []
    with _without_collection():
        for path in paths:
            with contextlib.suppress(ConfigError, OSError):  # `check_logs` says why
                now = os.stat(path)
                stamp = now.st_size, now.st_mtime_ns, now.st_ctime_ns
                found.append(_read(path, text) if text else _remembered(str(path), stamp))
    return found


@contextlib.contextmanager
def _without_collection() -> Iterator[None]:
    """Switch garbage collection off, which would check the growing rows again and again, for a third of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _read(path: Path, text: bool) -> LoggedRun:
    return _logged(path.name, parse_log(load_log(path), path), text)


@lru_cache(maxsize=REMEMBERED)
def _remembered(path: str, stamp: tuple[int, int, int]) -> LoggedRun:
    return _read(Path(path), False)


def run_rows(run: EvaluationRun) -> LoggedRun:
    """Return the rows, with texts, of a run that is in memory, as if its log had been read."""
    return _logged(run.log_path.name if run.log_path else "", run, True)


def _logged(log: str, run: EvaluationRun, text: bool) -> LoggedRun:
    info, summary, usage, rule = run.run, run.summary, run.usage, run_rule(run.run)
    answers = tuple(
        _answer(result, line=rule.line, is_contradictory=summary.is_contradictory, text=text) for result in run.results
    )
    averages = [row.average_score for row in answers if row.average_score is not None]
    values: dict[str, Any] = {name: getattr(info, _RENAMED.get(name, name)) for name in (*_OF_RUN, *_OF_RUN_TOO)}
    values |= {name: getattr(summary, name) for name in _OF_SUMMARY}
    values |= {name: getattr(usage, name) for name in _OF_USAGE}
    if info.schema_version == BARE:
        values |= _IN_BARE
    names = dict.fromkeys(name for criteria in dict.fromkeys(row.criteria for row in answers) for name in criteria)
    values |= {
        "n_results": len(answers), "n_unscored": len(answers) - len(averages), "asked": summary.asked,
        "pass_threshold": rule.line, "pass_rate_required": rule.rate,  # old logs have the specification's
        "is_open": summary.is_open or info.judges_asked > 1, "mean_score": fmean(averages) if averages else None,
        "criteria": "、".join(names), "runbooks": runbooks_text(info.runbooks),
        "contradictory": summary.is_contradictory,
    }  # fmt: skip
    own = tuple(values[name] for name in _VALUES)
    return LoggedRun(info.run_id, log, info.started_at, own, answers, info.schema_version)


def _answer(result: EvaluationResult, *, line: float, is_contradictory: bool, text: bool) -> Answer:
    question, answer, evaluation = result.question, result.answer, result.evaluation
    flags, scores, status = answer.flags, evaluation.scores, evaluation.status
    criteria, points, causes = tuple(scores), tuple(scores.values()), ("",) * len(scores)
    average: float | None = evaluation.average_score
    passed: bool | None = evaluation.passed
    low = high = evaluation.average_score
    if status != "ok":
        average, passed, points, (_, low, high) = None, None, (None,) * len(scores), UNREAD
    elif evaluation.missing and None in points:
        span = span_of(scores, evaluation.average_score, status)
        low, high, causes = span.low, span.high, tuple(evaluation.missing.get(name, "") for name in criteria)
        # The pass line decides whether an answer with a missing score surely passes, surely fails, or is undecided.
        outcome = outcome_of(span, status, line)
        passed = None if outcome == "open" else outcome == "passed"
    texts = (answer.question, answer.answer, answer.context, evaluation.overall_comment, evaluation.error)
    return Answer(
        question.id, question.category, result.answer_repeat, result.judge_repeat, average, low, high,
        None if is_contradictory else passed, status, flags.insufficient_evidence, flags.dangerous_operation,
        flags.ambiguous_query, evaluation.processing_time, evaluation.usage.cost_usd,
        answer_sha256(answer.answer, answer.context), evaluation.model, answer.truncated, criteria, points, causes,
        tuple(evaluation.rationale.get(name, "") for name in criteria) if text else (), texts if text else (),
    )  # fmt: skip


def moment_of(text: str) -> datetime | None:
    """Return a log's time in UTC, without zone; None if it is no time. A time without a zone is in this machine's."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):
        return None
