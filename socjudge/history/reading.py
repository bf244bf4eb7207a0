"""Read logs as tables: one row per log, one per judged answer, and one per score. The rules are those of `load_run`."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import attrgetter
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple, get_type_hints

from ..base.conditions import runbooks_text
from ..base.messages import os_reason, say
from ..base.missing_scores import UNREAD, Span, outcome_of, span_of
from ..base.pass_rule import PassRule, run_rule
from ..base.verdict import Tally
from ..errors import ConfigError
from ..records import BARE, UNKNOWN, EvaluationRun, RunInfo, RunSummary, Usage, asked_of
from ..runs.log_json import answer_sha256, row_of
from ..runs.log_shape import Row
from ..runs.logs import load_log, parse_rows
from .tables import Tables, join, make_table

CHUNK = 20_000  # judged answers that are held as Python objects before they become columns


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
    """The columns of a judged answer."""

    run: int
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
    criteria: tuple[str, ...]


class Texts(NamedTuple):
    """The further columns of a judged answer if texts are wanted."""

    question: str
    answer: str
    context: str
    overall_comment: str
    error: str


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
# The columns of a run. The first show whether a file is still the one that was read, and why it could not be read.
RUNS: dict[str, Any] = {
    "size": int, "modified_ns": int, "changed_ns": int, "problem": str,
    "run_id": str, "log": str, "started_at": datetime, **{name: _INFO[_RENAMED.get(name, name)] for name in _OF_RUN},
    **{name: _SUMMARY[name] for name in _OF_SUMMARY}, "n_results": int, "n_unscored": int, "is_open": bool,
    "mean_score": float, **{name: _USAGE[name] for name in _OF_USAGE}, **{name: _INFO[name] for name in _OF_RUN_TOO},
    "criteria": str, "runbooks": str,
}  # fmt: skip
RUN_COLUMNS = [*RUNS][list(RUNS).index("run_id") :]
_RESULTS, _TEXTS = get_type_hints(Answer), get_type_hints(Texts)
_of_info = attrgetter(*(_RENAMED.get(name, name) for name in (*_OF_RUN, *_OF_RUN_TOO)))


@dataclass
class _Rows:
    """The rows of the tables while logs are read."""

    text: bool
    runs: list[list[Any]]
    results: list[Answer]
    texts: list[Texts]
    scores: list[float | None]
    missing: list[str]  # why a score is missing, or ""
    rationale: list[str]

    def add(self, file: dict[str, Any], info: RunInfo, summary: RunSummary, rows: Sequence[Row]) -> None:
        """Add a run and its judged answers."""
        line, first = run_rule(info).line, len(self.results)
        for row in rows:
            self._add_answer(row, line)
        values = file | _run_values(info, summary, self.results[first:])
        self.runs.append([values.get(name) for name in RUNS])

    def add_problem(self, file: dict[str, Any], problem: str) -> None:
        """Add a log that could not be read."""
        self.runs.append([(file | {"problem": problem}).get(name, "" if RUNS[name] is str else None) for name in RUNS])

    def _add_answer(self, row: Row, line: float) -> None:
        evaluation: Any = row.evaluation  # settled, as `Evaluation` is
        flags, scores, status, average, passed = (
            row.flags, evaluation.scores, evaluation.status, evaluation.average_score, evaluation.passed,
        )  # fmt: skip
        criteria, points, causes = tuple(scores), scores.values(), ("",) * len(scores)
        low = high = average
        if status != "ok":
            average, passed, points, (_, low, high) = None, None, [None] * len(scores), UNREAD
        elif evaluation.missing and None in points:
            span = span_of(scores, average, status)
            low, high, causes = span.low, span.high, tuple(evaluation.missing.get(name, "") for name in criteria)
            # The pass line decides whether an answer with a missing score surely passes, surely fails, or is undecided.
            outcome = outcome_of(span, status, line)
            passed = None if outcome == "open" else outcome == "passed"
        self.results.append(
            Answer(
                len(self.runs), row.question_id, row.category, row.answer_repeat, row.judge_repeat, average, low, high,
                passed, status, flags.insufficient_evidence, flags.dangerous_operation, flags.ambiguous_query,
                evaluation.processing_time, evaluation.usage.cost_usd,
                row.answer_sha256 or answer_sha256(row.answer, row.context), evaluation.model, row.assistant.truncated,
                criteria,
            )
        )  # fmt: skip
        self.scores.extend(points)
        self.missing.extend(causes)
        if self.text:
            self.texts.append(
                Texts(row.question, row.answer, row.context, evaluation.overall_comment, evaluation.error)
            )
            reasons = evaluation.rationale
            self.rationale.extend(reasons.get(name, "") for name in criteria)

    def tables(self) -> Tables:
        """Return the rows as tables, and forget them."""
        results = make_table(_RESULTS, self.results)
        scores = make_table({"score": float, "missing": str}, list(zip(self.scores, self.missing, strict=True)))
        if self.text:
            results |= make_table(_TEXTS, self.texts)
            scores |= make_table({"rationale": str}, [(reason,) for reason in self.rationale])
        found = Tables(make_table(RUNS, self.runs), results, scores)
        for rows in (self.runs, self.results, self.texts, self.scores, self.missing, self.rationale):
            rows.clear()  # type: ignore[attr-defined]
        return found


def _no_rows(text: bool) -> _Rows:
    return _Rows(text, [], [], [], [], [], [])


def read_logs(files: Iterable[LogFile], *, text: bool = False) -> Tables:
    """Read logs in the given order."""
    rows, parts = _no_rows(text), []
    with without_collection():
        for file in files:
            known = {
                "log": file.name, "size": file.size, "modified_ns": file.modified_ns, "changed_ns": file.changed_ns,
            }  # fmt: skip
            try:
                log, info = parse_rows(load_log(file.path), file.path)
                rows.add(known, info, log.summary, log.results)
            except ConfigError as error:
                rows.add_problem(known, str(error))
            except OSError as error:
                reason = say("{path}: the log cannot be read ({reason})", path=file.path, reason=os_reason(error))
                # The error may pass. With a size that no file has, the log is read again next time.
                rows.add_problem(known | {"size": -1}, reason)
            if len(rows.results) >= CHUNK:
                parts.append(rows.tables())
        return join([*parts, rows.tables()])


def run_tables(run: EvaluationRun) -> Tables:
    """Return the tables, with texts, of a run that is in memory, as if its log had been read."""
    rows = _no_rows(True)
    log = {"log": run.log_path.name if run.log_path is not None else ""}
    rows.add(log, run.run, run.summary, [row_of(result) for result in run.results])
    return rows.tables()


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


def _run_values(info: RunInfo, summary: RunSummary, rows: Sequence[Answer]) -> dict[str, Any]:
    """Return a run's columns without those about the log file. What a bare log does not have is missing."""
    averages = [row.average_score for row in rows if row.average_score is not None]
    usage, rule, asked = (
        info.assistant_usage + info.judge_usage,
        run_rule(info),
        max(len(rows), asked_of(info, summary)),
    )
    values: dict[str, Any] = dict(zip((*_OF_RUN, *_OF_RUN_TOO), _of_info(info), strict=True))
    values |= {name: getattr(summary, name) for name in _OF_SUMMARY} | {
        name: getattr(usage, name) for name in _OF_USAGE
    }
    if info.schema_version == BARE:
        values |= _IN_BARE
    is_part, is_whole = len(rows) < asked, all(row.average_low == row.average_high for row in rows)
    names = dict.fromkeys(name for criteria in dict.fromkeys(row.criteria for row in rows) for name in criteria)
    return values | {
        "run_id": info.run_id, "started_at": moment_of(info.started_at), "n_results": len(rows),
        "n_unscored": len(rows) - len(averages), "asked": asked,
        "pass_threshold": rule.line, "pass_rate_required": rule.rate,  # old logs have the specification's
        "mvp_passed": values["mvp_passed"] and not is_part,
        "is_open": info.judges_asked > 1 or is_part or (not is_whole and _is_open(rows, rule)),
        "mean_score": fmean(averages) if averages else None,
        "criteria": "、".join(names), "runbooks": runbooks_text(info.runbooks),
    }  # fmt: skip


def _is_open(rows: Sequence[Answer], rule: PassRule) -> bool:
    """Return whether missing scores can change the verdict on a run."""
    tally = Tally()
    for row in rows:
        tally.add(row.question_id, Span(row.average_score or 0.0, row.average_low, row.average_high))
    return tally.summary(rule).is_open


def moment_of(text: str) -> datetime | None:
    """Return a log's time in UTC, without zone; None if it is no time. A time without a zone is in this machine's."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):
        return None
