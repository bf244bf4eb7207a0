"""Finish a run: write its log from its journal, or find that this was done."""

from __future__ import annotations

import contextlib
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from ..base.missing_scores import outcome_of, span_of, to_read
from ..base.pass_rule import run_rule
from ..base.verdict import Tally
from ..errors import ConfigError
from ..records import UNKNOWN, EvaluationResult, EvaluationRun, RunInfo, Usage
from .identity import Identity
from .journal import Journal
from .load import load_run
from .log_json import result_from_dict
from .logs import LoggedResults, log_chunks, logs_of_run, write_log
from .plan import Plan
from .unfinished import journal_info, journal_total

IN_MEMORY = 200  # results; those of a larger run are read from its log on demand


def find_finished(journal: Path) -> EvaluationRun | None:
    """Return the run of a journal from its log, if there is one with all that was asked for. The process was then
    killed before it could remove the journal. What was saved of the journal itself has no end, and is not that log."""
    info, total = journal_info(journal), journal_total(journal)
    for path in logs_of_run(info.run_id, journal.parent, started_at=info.started_at):
        with contextlib.suppress(ConfigError):
            run = load_run(path)
            is_whole = run.run.run_id == info.run_id and len(run.results) == total
            if is_whole and run.run.finished_at and Identity.of(info).agrees(Identity.of(run.run)):
                return run
    return None


def finish_run(
    journal: Journal,
    plan: Plan,
    in_session_s: float,
    logs_dir: Path | str,
    *,
    spent_usd: float | None = None,
) -> EvaluationRun:
    """Write the log from the journal, row by row, and return the run.
    `in_session_s` are the seconds of this session, `spent_usd` the most that the run has cost (None: unknown)."""
    lost, rule = journal.lost_usage, run_rule(journal.info)
    small, began, categories = plan.total <= IN_MEMORY, journal.info, _categories(journal.info, plan)
    asked = plan.info.asked or 0
    totals = _Totals(rule.line, asked)
    finished_at = datetime.now().astimezone().isoformat(timespec="seconds")

    def rows() -> Iterator[dict[str, Any]]:
        for row in journal.rows():
            # If the dataset has changed since the run began, the log has the present categories: they decide no score.
            row["category"] = categories.get(row["question_id"], row["category"])
            totals.add(row)
            if small:
                totals.in_memory.append(result_from_dict(row, str(journal.path)))
            yield row

    def chunks() -> Iterator[bytes]:
        nonlocal totals
        totals, size = _Totals(rule.line, asked), 0
        for chunk in log_chunks(rows(), lambda: (totals.tally.summary(rule), info())):
            totals.starts.append(size)
            size += len(chunk)
            yield chunk

    def info() -> RunInfo:
        # the most is never less than the sum over the rows
        told = (totals.judge_usage + totals.assistant_usage).cost_usd
        return replace(
            plan.info,
            run_id=began.run_id,
            started_at=began.started_at,
            # The rule is that of the journal, also if the run was resumed with another one.
            pass_threshold=began.pass_threshold,
            pass_rate_required=began.pass_rate_required,
            rubric=began.rubric,
            finished_at=finished_at,
            judge_model_resolved=", ".join(totals.judges) or UNKNOWN,
            assistant_model_resolved=", ".join(totals.assistants) or UNKNOWN,
            assistant_version=", ".join(totals.versions) or plan.info.assistant_version,
            assistant_usage=totals.assistant_usage if plan.asks else Usage(),
            judge_usage=totals.judge_usage + lost,
            most_usd=max([cost for cost in (spent_usd, told) if cost is not None], default=None),
            wall_time_s=journal.wall_time_s + in_session_s,
            sessions=journal.sessions,
        )

    path = write_log(chunks, journal.info.started_at, logs_dir)
    results = tuple(totals.in_memory) if small else LoggedResults(path, totals.starts[1:])
    return EvaluationRun(results, totals.tally.summary(rule), info(), path)


def _categories(there: RunInfo, plan: Plan) -> dict[int | str, str]:
    if there.dataset_sha256 == plan.info.dataset_sha256:
        return {}
    samples = map(plan.sample_at, range(plan.n_samples))
    return {sample.question.id: sample.question.category for sample in samples}


class _Totals:
    """Add up the rows of a log. The rows of one answer must come one after another."""

    def __init__(self, line: float, asked: int) -> None:
        self._line = line  # the pass line
        # `starts`: the positions, in bytes, at which the log's head, each row and the log's end begin
        self.starts, self.in_memory = array("q"), list[EvaluationResult]()
        self.tally = Tally(asked)
        self.judge_usage = self.assistant_usage = Usage()
        # The models that answered: usually one, or two if the service changed it midway.
        self.judges: dict[str, None] = {}
        self.assistants: dict[str, None] = {}
        self.versions: dict[str, None] = {}
        self._last_answer: tuple[int | str, int] | None = None

    def add(self, row: Mapping[str, Any]) -> None:
        evaluation, assistant = row["evaluation"], row["assistant"]
        status, scores = evaluation["status"], evaluation["scores"]
        span = span_of(scores, evaluation["average_score"], status)
        is_to_read = bool(to_read(scores, outcome_of(span, status, self._line)))
        self.tally.add(row["question_id"], span, is_read=status == "ok", is_to_read=is_to_read)
        self.judge_usage += Usage(**evaluation["usage"])
        if evaluation["attempts"] and evaluation["model"] != UNKNOWN:
            self.judges[evaluation["model"]] = None
        if self._last_answer != (row["question_id"], row["answer_repeat"]):
            self._last_answer = (row["question_id"], row["answer_repeat"])
            self.assistant_usage += Usage(**assistant["usage"])
            if assistant.get("version"):
                self.versions[assistant["version"]] = None
            if assistant["model"] != UNKNOWN:
                self.assistants[assistant["model"]] = None
