"""Finish a run: write its log from its journal, or find that this was done."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from ..base.pass_rule import run_rule
from ..base.verdict import summarise_results
from ..errors import ConfigError
from ..records import UNKNOWN, EvaluationRun, Usage, total_usage
from .identity import Identity
from .journal import Journal
from .load import load_run
from .logs import logs_of_run, save_evaluation_results
from .plan import Plan


def find_finished(journal: Journal) -> EvaluationRun | None:
    """Return the run of a journal from its log, if there is one with all that was asked for. The process was then
    killed before it could remove the journal. What was saved of the journal itself has no end, and is not that log."""
    began = journal.info
    for path in logs_of_run(began.run_id, journal.path.parent, started_at=began.started_at):
        with contextlib.suppress(ConfigError):
            run = load_run(path)
            is_whole = run.run.run_id == began.run_id and len(run.results) == journal.total
            if is_whole and run.run.finished_at and Identity.of(began) == Identity.of(run.run):
                return run
    return None


def finish_run(journal: Journal, plan: Plan, logs_dir: Path | str, *, spent_usd: float | None = None) -> EvaluationRun:
    """Write the log of what is in the journal, and return the run. `spent_usd` is the most that it has cost (None:
    unknown)."""
    began, results = journal.info, journal.results
    if began.dataset_sha256 != plan.info.dataset_sha256:  # the present categories hold: they decide no score
        questions = {sample.question.id: sample.question for sample in plan.samples}
        results = tuple(
            replace(each, question=replace(each.question, category=questions[each.question.id].category))
            for each in results
        )
    answers = {(each.question.id, each.answer_repeat): each.answer for each in reversed(results)}
    answered = total_usage(answer.usage for answer in answers.values())
    judged = total_usage(each.evaluation.usage for each in results)
    given_up = total_usage(reply.usage for replies in journal.unparsable.values() for reply in replies)
    asked = answered if plan.asks else Usage()  # stored answers cost this run nothing
    costs = spent_usd, (asked + judged).cost_usd  # the most is never less than the sum over the rows
    judges = dict.fromkeys(each.evaluation.model for each in results if each.evaluation.attempts)
    assistants = dict.fromkeys(answer.model for answer in reversed(answers.values()))
    versions = dict.fromkeys(answer.version for answer in reversed(answers.values()) if answer.version)
    info = replace(
        plan.info,
        run_id=began.run_id,
        started_at=began.started_at,
        # The rule is that of the journal, also if the run was resumed with another one.
        pass_threshold=began.pass_threshold,
        pass_rate_required=began.pass_rate_required,
        rubric=began.rubric,
        finished_at=datetime.now().astimezone().isoformat(timespec="seconds"),
        # The models that answered: usually one, or two if the service changed it midway.
        judge_model_resolved=", ".join(name for name in judges if name != UNKNOWN) or UNKNOWN,
        assistant_model_resolved=", ".join(name for name in assistants if name != UNKNOWN) or UNKNOWN,
        assistant_version=", ".join(versions) or plan.info.assistant_version,
        assistant_usage=asked,
        judge_usage=judged + given_up,
        most_usd=max((cost for cost in costs if cost is not None), default=None),
        wall_time_s=journal.wall_time_s + journal.elapsed_s,
        sessions=journal.sessions,
    )
    run = EvaluationRun(results, summarise_results(results, run_rule(began), asked=plan.info.asked or 0), info)
    return replace(run, log_path=save_evaluation_results(run, logs_dir))
