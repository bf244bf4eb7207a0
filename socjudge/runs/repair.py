"""Repair an old log: request its failed rows again, and copy all other rows into a new log."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base.conditions import conditions_of_info, differences
from ..base.messages import aside, say
from ..errors import ConfigError
from ..judging.own_assistant import Assistant
from ..models.langchain_model import OBJECT
from ..prompts.saved import judge_prompt_of
from ..prompts.templates import Prompt
from ..records import EvaluationResult, EvaluationRun, RunInfo, RunOptions, Usage
from .assignment import OWN, STORED, Assignment, assign_rejudging, assign_suite
from .estimate import Estimate, estimate_run
from .given_answers import Given
from .running import run_assignment, terms_of

if TYPE_CHECKING:
    from ..runbooks.index import RunbookIndex

# Conditions that decide an answer or a score and may have changed since, under their names in log and frames.
_SAME = (
    "dataset_sha256", "judge_service", "judge_settings", "prompt_sha256", "assistant_model", "assistant_version",
    "assistant_service", "assistant_settings", "assistant_prompt_sha256", "runbooks", "index_fingerprint",
)  # fmt: skip


def repair_run(
    run: EvaluationRun,
    *,
    answers: Given = None,
    index: RunbookIndex | None = None,
    max_cost_usd: float | None = None,
    logs_dir: Path | str | None = None,
    progress: bool = True,
    options: RunOptions | None = None,
) -> EvaluationRun:
    """Make a new run, with its own log, from an old run. Failed results are requested again, and all others are copied.

    Models, prompts, repeats and rubric are those of the old log. The cost of the copied results is not counted again.

    answers: your own assistant that gave the answers. It is needed if questions are still unanswered and the
    assistant's name in the log does not open it. index, max_cost_usd, logs_dir, progress, options: as in
    `run_evaluation_suite`.

    Raises ConfigError if nothing failed, or if a model was an object of your own, which no name opens. Raises it also
    if something that decides an answer or a score has changed: runbooks, prompts, services, or their settings.
    """
    if not any(result.evaluation.status == "failed" for result in run.results):
        raise ConfigError(say("runs.nothing_failed", run=run.log_path or say("runs.the_run")))
    if OBJECT in (run.run.judge_service, run.run.assistant_service):
        raise ConfigError(say("runs.repair_object", run=run.log_path or say("runs.the_run")))
    own = own_assistant(run, answers)
    if own is not None:
        print(own.told_before, file=aside())
    assignment = _assign(run, own, index)
    criteria = run.rubric.criteria
    there, here = conditions_of_info(run.run, criteria), conditions_of_info(assignment.info, criteria)
    # A value that an old log does not have cannot be compared.
    if own is not None and not own.version:  # then its answers report the version, and the run uses that one
        there.pop("assistant_version", None)
    if told := [each.phrase() for each in differences(there, here) if each.condition.column in _SAME and each.before]:
        raise ConfigError(say("runs.not_the_same", run=run.log_path or say("runs.the_run"), told="; ".join(told)))
    terms = terms_of(options, max_cost_usd=max_cost_usd, logs_dir=logs_dir, progress=progress)
    return run_assignment(assignment, terms, known=map(_paid, run.results))


def own_assistant(run: EvaluationRun, answers: Given = None) -> Assistant | None:
    """Return your own assistant if a question still needs its answer. Otherwise, return None.

    The assistant is `answers`. If `answers` is None, it is opened by its name in the log.
    """
    info = run.run
    if info.assistant_prompt_id != OWN or info.rejudged_from or not any(r.answer.is_empty for r in run.results):
        return None
    if answers is not None:
        return answers if isinstance(answers, Assistant) else Assistant(answers)
    try:
        return Assistant(info.assistant_model)
    except ConfigError as error:
        raise ConfigError(say("runs.repair_own", name=info.assistant_model, reason=error)) from None


def _paid(result: EvaluationResult) -> EvaluationResult:
    """Return a copy of the result with zero usage, because the old log already counts its cost."""
    answer, evaluation = (replace(part, usage=Usage()) for part in (result.answer, result.evaluation))
    return replace(result, answer=answer, evaluation=evaluation)  # type: ignore[arg-type]


def estimate_repair(run: EvaluationRun, *, answers: Given = None) -> Estimate:
    """Estimate calls, tokens and list price of `repair_run`. Answers in the old log are not requested again."""
    own = own_assistant(run, answers)
    rows_of: dict[tuple[int | str, int], list[EvaluationResult]] = {}
    for row in run.results:
        rows_of.setdefault((row.question.id, row.answer_repeat), []).append(row)
    info, given, unanswered = run.run, [], Estimate(0, 0, 0, 0.0)
    how: Any = {"judge_model": info.judge_model, "judge_prompt": _prompt(info), "rubric": run.rubric}
    answering: Any = {
        "answers": own, "assistant_model": info.assistant_model, "assistant_prompt": info.assistant_prompt_id, "k": info.k
    }  # fmt: skip
    for rows in rows_of.values():
        count = sum(row.evaluation.status == "failed" for row in rows)
        if count and rows[0].answer.is_empty and (own is not None or asks_assistant(run)):
            unanswered += estimate_run([rows[0].question], **how, **answering, judge_repeats=count)
        else:
            given += rows[:1] * count
    return unanswered + estimate_run([r.question for r in given], answers=[r.answer for r in given], **how)


def asks_assistant(run: EvaluationRun) -> bool:
    """Return whether socjudge's assistant made the answers for this run.

    If not, the answers were stored, came from your own assistant, or were taken from another run.
    """
    given = run.run.assistant_model == STORED or run.run.assistant_prompt_id == OWN
    return not run.run.rejudged_from and not given


def _prompt(info: RunInfo) -> Prompt | str:
    return judge_prompt_of(info) or info.judge_prompt_id


def _assign(run: EvaluationRun, own: Assistant | None, index: RunbookIndex | None) -> Assignment:
    info = run.run
    if own is None and not asks_assistant(run):
        assignment = assign_rejudging(
            run, judge_model=info.judge_model, judge_prompt=_prompt(info), judge_repeats=info.judge_repeats
        )
        return replace(assignment, info=replace(assignment.info, rejudged_from=info.rejudged_from))
    return assign_suite(
        list({result.question.id: result.question for result in run.results}.values()),
        index=index, answers=own, assistant_model=info.assistant_model, judge_model=info.judge_model,
        judge_prompt=_prompt(info), rubric=run.rubric, assistant_prompt=info.assistant_prompt_id,
        answer_repeats=info.answer_repeats, judge_repeats=info.judge_repeats, k=info.k,
    )  # fmt: skip
