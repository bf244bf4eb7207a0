"""List and read logs as rows: one per run, and one per judged answer with its scores, by the rules of `load_run`."""

from __future__ import annotations

import contextlib
import gc
import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from operator import attrgetter
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple, get_type_hints

from ..base.conditions import runbooks_text
from ..base.files import as_path
from ..base.pass_rule import UNREAD, outcome_of, run_rule, span_of
from ..errors import ConfigError
from ..records import BARE, UNKNOWN, AssistantAnswer, EvaluationRun, RunInfo, RunSummary, Usage
from ..runs.log_json import answer_sha256
from ..runs.log_shape import Row
from ..runs.logs import load_log, names_of_logs, parse_rows

REMEMBERED = 10_000  # logs whose rows stay in memory, about 5 kB for each log of ten answers


class LogFile(NamedTuple):
    """A log in a folder. Size and times are 0 for a file that cannot be looked at."""

    folder: Path
    name: str
    size: int = 0  # in bytes
    modified_ns: int = 0  # when its content last changed, in nanoseconds since 1970
    changed_ns: int = 0  # when its content or its attributes last changed, in the same unit

    @property
    def path(self) -> Path:
        return self.folder / self.name  # made on demand, because ten thousand paths take a tenth of a second


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
_of_info = attrgetter(*(_RENAMED.get(name, name) for name in (*_OF_RUN, *_OF_RUN_TOO)))


def list_logs(logs_dir: Path | str) -> list[LogFile]:
    """List the logs in a folder, sorted by name. Raises ConfigError if there is no such folder."""
    place = as_path(logs_dir)
    if not place.is_dir():
        raise ConfigError("{place}: no such folder; give the one that the runs were logged to (logs_dir)", place=place)
    return [LogFile(place, name, *_stamp(place, name)) for name in names_of_logs(place)]


def _stamp(folder: Path, name: str) -> tuple[int, int, int]:
    try:
        status = os.stat(os.path.join(folder, name))
    except OSError:  # a broken link, or a file that was just removed; reading it gives the error
        return 0, 0, 0
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def read_logs(files: list[LogFile], *, text: bool = False) -> list[LoggedRun]:
    """Read the logs that can be read, in the given order. Without texts, only those that changed since then."""
    found = []
    with without_collection():
        for file in files:
            with contextlib.suppress(ConfigError, OSError):  # `check_logs` says why
                found.append(_read(file, text) if text else _remembered(file))
    return found


def _read(file: LogFile, text: bool) -> LoggedRun:
    log, info = parse_rows(load_log(file.path), file.path)
    judged = [
        (
            (row.question_id, row.category, row.answer_repeat, row.judge_repeat), row, row.assistant.truncated,
            row.answer_sha256, row.evaluation,
        )
        for row in log.results
    ]  # fmt: skip
    return _logged(file.name, info, log.summary, judged, text)


@lru_cache(maxsize=REMEMBERED)
def _remembered(file: LogFile) -> LoggedRun:
    return _read(file, False)


def run_rows(run: EvaluationRun) -> LoggedRun:
    """Return the rows, with texts, of a run that is in memory, as if its log had been read."""
    judged = [
        (
            (each.question.id, each.question.category, each.answer_repeat, each.judge_repeat), each.answer,
            each.answer.truncated, "", each.evaluation,
        )
        for each in run.results
    ]  # fmt: skip
    return _logged(run.log_path.name if run.log_path else "", run.run, run.summary, judged, True)


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


def _logged(log: str, info: RunInfo, summary: RunSummary, judged: Sequence[tuple[Any, ...]], text: bool) -> LoggedRun:
    rule, usage = run_rule(info), info.assistant_usage + info.judge_usage
    answers = tuple(
        _answer(*each, line=rule.line, is_contradictory=summary.is_contradictory, text=text) for each in judged
    )
    averages = [row.average_score for row in answers if row.average_score is not None]
    values: dict[str, Any] = dict(zip((*_OF_RUN, *_OF_RUN_TOO), _of_info(info), strict=True))
    values |= {name: getattr(summary, name) for name in _OF_SUMMARY}
    values |= {name: getattr(usage, name) for name in _OF_USAGE}
    if info.schema_version == BARE:
        values |= _IN_BARE
    names = dict.fromkeys(name for criteria in dict.fromkeys(row.criteria for row in answers) for name in criteria)
    values |= {
        "n_results": len(judged), "n_unscored": len(judged) - len(averages), "asked": summary.asked,
        "pass_threshold": rule.line, "pass_rate_required": rule.rate,  # old logs have the specification's
        "is_open": summary.is_open or info.judges_asked > 1, "mean_score": fmean(averages) if averages else None,
        "criteria": "、".join(names), "runbooks": runbooks_text(info.runbooks),
        "contradictory": summary.is_contradictory,
    }  # fmt: skip
    own = tuple(values[name] for name in _VALUES)
    return LoggedRun(info.run_id, log, info.started_at, own, answers, info.schema_version)


def _answer(
    place: tuple[int | str, str, int, int],  # id and category of the question, answer repeat, judge repeat
    answer: Row | AssistantAnswer,
    truncated: bool | None,
    sha256: str,  # "" if it is not known yet
    evaluation: Any,  # an Evaluation, or the log's, which is settled as that is
    *,
    line: float,
    is_contradictory: bool,
    text: bool,
) -> Answer:
    flags = answer.flags
    scores, status, average, passed = (
        evaluation.scores, evaluation.status, evaluation.average_score, evaluation.passed,
    )  # fmt: skip
    criteria, points, causes = tuple(scores), tuple(scores.values()), ("",) * len(scores)
    low = high = average
    if status != "ok":
        average, passed, points, (_, low, high) = None, None, (None,) * len(scores), UNREAD
    elif evaluation.missing and None in points:
        span = span_of(scores, average, status)
        low, high, causes = span.low, span.high, tuple(evaluation.missing.get(name, "") for name in criteria)
        # The pass line decides whether an answer with a missing score surely passes, surely fails, or is undecided.
        outcome = outcome_of(span, status, line)
        passed = None if outcome == "open" else outcome == "passed"
    texts = (answer.question, answer.answer, answer.context, evaluation.overall_comment, evaluation.error)
    return Answer(
        *place, average, low, high, None if is_contradictory else passed, status, flags.insufficient_evidence,
        flags.dangerous_operation, flags.ambiguous_query, evaluation.processing_time, evaluation.usage.cost_usd,
        sha256 or answer_sha256(answer.answer, answer.context), evaluation.model, truncated,
        criteria, points, causes,
        tuple(evaluation.rationale.get(name, "") for name in criteria) if text else (), texts if text else (),
    )  # fmt: skip


def moment_of(text: str) -> datetime | None:
    """Return a log's time in UTC, without zone; None if it is no time. A time without a zone is in this machine's."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):
        return None
