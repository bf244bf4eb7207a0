"""An old log with failed rows: what failed is asked for again, the rest is taken over."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..base.messages import say
from ..errors import ConfigError
from ..models.opening import OFFLINE
from ..records import UNKNOWN, EvaluationResult, EvaluationRun, Usage
from .assignment import STORED, Assignment, assign_rejudging, assign_suite
from .estimate import Estimate, estimate_run
from .running import RunOptions, run_assignment

if TYPE_CHECKING:
    from ..runbooks.index import RunbookIndex

_SAME = {
    "dataset_sha256": "runs.the_questions", "index_fingerprint": "runs.the_runbooks", "judge_service": "runs.the_judges_service",
    "judge_prompt_sha256": "runs.the_judges_prompt", "assistant_service": "runs.the_assistants_service",
    "assistant_prompt_sha256": "runs.the_assistants_prompt", "pass_threshold": "runs.the_pass_line",
    "pass_rate_required": "runs.the_pass_rate",
}  # fmt: skip


def repair_run(run: EvaluationRun, options: RunOptions, *, index: RunbookIndex | None = None) -> EvaluationRun:
    """A new run, with a log of its own, that has the results of this one and asks again for those that failed.

    Its models, prompts and repeats are those of the log. index: the runbooks; the one in INDEX_DIR if left out.
    ConfigError if nothing failed, or if runbooks, prompts or services are not what they were."""
    if not any(result.evaluation.status == "failed" for result in run.results):
        raise ConfigError(say("runs.nothing_failed", run=run.log_path or say("runs.the_run")))
    assignment = _assign(run, index)
    for name, what in _SAME.items():
        there, here = getattr(run.run, name), getattr(assignment.info, name)
        if there not in ("", None, UNKNOWN, here):
            was, now = (str(value)[:40] for value in (there, here))
            of = run.log_path or say("runs.the_run")
            raise ConfigError(say("runs.not_the_same", run=of, what=say(what), name=name, was=was, now=now))
    options = replace(options, until_certain=bool(run.run.stopped_because))
    return run_assignment(assignment, options, known=map(_paid, run.results))


def _paid(result: EvaluationResult) -> EvaluationResult:
    """A result that costs nothing any more: the log that it comes from has what it cost."""
    answer, evaluation = (replace(part, usage=Usage()) for part in (result.answer, result.evaluation))
    return replace(result, answer=answer, evaluation=evaluation)  # type: ignore[arg-type]


def estimate_repair(run: EvaluationRun) -> Estimate:
    """Calls, tokens and list price of `repair_run`: an answer that is in the log is not asked for again."""
    failed = [result for result in run.results if result.evaluation.status == "failed"]
    info = run.run
    estimate = estimate_run(
        [result.question for result in failed], answers=[result.answer for result in failed],
        judge_model=info.judge_model, judge_prompt=info.judge_prompt_id,
    )  # fmt: skip
    if not asks_assistant(run):
        return estimate
    unanswered = {(r.question.id, r.answer_repeat): r.question for r in failed if r.answer.is_empty}
    return estimate + estimate_run(
        list(unanswered.values()), judge_model=OFFLINE,
        assistant_model=info.assistant_model, assistant_prompt=info.assistant_prompt_id, k=info.k or 5,
    )  # fmt: skip


def asks_assistant(run: EvaluationRun) -> bool:
    """Whether the run asked the assistant, and did not judge answers that were given before."""
    return not run.run.rejudged_from and run.run.assistant_model != STORED


def _assign(run: EvaluationRun, index: RunbookIndex | None) -> Assignment:
    info = run.run
    if not asks_assistant(run):
        assignment = assign_rejudging(
            run, judge_model=info.judge_model, judge_prompt=info.judge_prompt_id, judge_repeats=info.judge_repeats
        )
        return replace(assignment, info=replace(assignment.info, rejudged_from=info.rejudged_from))
    return assign_suite(
        list({result.question.id: result.question for result in run.results}.values()),
        index=index, answers=None, assistant_model=info.assistant_model, judge_model=info.judge_model,
        judge_prompt=info.judge_prompt_id, assistant_prompt=info.assistant_prompt_id,
        answer_repeats=info.answer_repeats, judge_repeats=info.judge_repeats, k=info.k or 5,
    )  # fmt: skip
