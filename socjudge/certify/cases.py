"""Changed answers through the engine of a run: journal, resuming, pacing and budget are a run's own."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from .. import constants
from ..base.verdict import summarise_results
from ..errors import BudgetReached, RequestRefused
from ..models.opening import Model
from ..prompts.templates import Prompt
from ..records import Evaluation, EvaluationRun, RunInfo, Usage, total_usage
from ..runs.assignment import Assignment, assign_suite
from ..runs.estimate import Estimate, estimate_run
from ..runs.running import RunOptions, run_assignment
from ..runs.unfinished import load_unfinished, unfinished_runs
from .subjects import Subject

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

AnyPrompt = Prompt | str | Path | None


ORIGINAL = "original"


@dataclass(frozen=True)
class Case:
    """A changed answer to be judged. name: of the change; variant: counts the places where the same could be done."""

    question_id: int | str
    name: str
    variant: int
    subject: Subject = field(repr=False)

    @property
    def id(self) -> str:
        """Its name in the log."""
        return f"{self.question_id} {self.name} {self.variant}"


@dataclass(frozen=True)
class Judged:
    """What a judge made of the cases. marks: one row per case and criterion with question_id, case, variant, criterion,
    score (0–100, NaN where there is none) and status ("ok", "unparsable", "failed", or "not_judged").

    info: of the run that made them; usage: what it consumed; log_path: None where it ended early; stopped: why it did,
    or nothing."""

    marks: pd.DataFrame = field(repr=False)
    info: RunInfo
    usage: Usage
    log_path: Path | None
    stopped: str = ""


def make_options(logs_dir: Path | str | None, **options: Any) -> RunOptions:
    """The options of a run over cases, whose log goes into a folder beside those of runs: it is none of the assistant."""
    return RunOptions(logs_dir=logs_dir or constants.LOGS_DIR / "certify", **options)


def originals(subjects: Sequence[Subject], repeats: int) -> list[Case]:
    """The answers as they are, and that many times again: what the judge's own noise is measured by."""
    return [Case(s.question.id, ORIGINAL, again, s) for s in subjects for again in range(repeats + 1)]


def estimate_cases(
    cases: Sequence[Case], *, judge_model: str | BaseChatModel | Model, judge_prompt: AnyPrompt
) -> Estimate:
    """Calls, tokens and list price of judging the cases; nothing is sent."""
    return estimate_run(
        [case.subject.question for case in cases],
        answers=[case.subject.answer for case in cases],
        judge_model=judge_model,
        judge_prompt=judge_prompt,
    )


def judge_cases(
    cases: Sequence[Case], options: RunOptions, *, judge_model: str | BaseChatModel | Model, judge_prompt: AnyPrompt
) -> Judged:
    """Have the judge mark each case once, in this order. Where the budget ends midway, what was paid for is kept: here,
    and in a journal that the same call with more money goes on from."""
    assignment = assign_suite(
        [replace(case.subject.question, id=case.id) for case in cases],
        answers=[case.subject.answer for case in cases],
        index=None, assistant_model="offline", assistant_prompt=None, answer_repeats=1, k=1,
        judge_model=judge_model, judge_prompt=judge_prompt, judge_repeats=1,
    )  # fmt: skip
    stopped = ""
    try:
        run = run_assignment(assignment, options)
    except BudgetReached as reason:
        run, stopped = _so_far(assignment, options), str(reason)
    evaluations = {str(result.question.id): result.evaluation for result in run.results}
    usage = total_usage(evaluation.usage for evaluation in evaluations.values())
    return Judged(_marks(cases, evaluations, "not_judged"), run.run, usage, run.log_path, stopped)


def refused(cases: Sequence[Case], info: RunInfo, refusal: RequestRefused) -> Judged:
    """What stands for cases that a judge refuses to mark. info: of another run of the same judge."""
    return Judged(_marks(cases, {}, "failed"), info, Usage(), None, str(refusal))


def _so_far(assignment: Assignment, options: RunOptions) -> EvaluationRun:
    """What the journal of a run that was broken off has; nothing where nothing was paid for."""
    mine = [found.path for found in unfinished_runs(options.logs_dir) if found.key == assignment.key]
    if mine:
        return load_unfinished(mine[-1])
    return EvaluationRun((), summarise_results([]), assignment.info)


def _marks(cases: Sequence[Case], evaluations: Mapping[str, Evaluation], otherwise: str) -> pd.DataFrame:
    """otherwise: the status of a case without an evaluation."""
    rows = []
    for case in cases:
        evaluation = evaluations.get(case.id)
        status = evaluation.status if evaluation else otherwise
        place = {"question_id": case.question_id, "case": case.name, "variant": case.variant}
        for criterion in constants.JUDGE_EVALUATION_CRITERIA:
            score = float(evaluation.scores[criterion]) if evaluation and status == "ok" else math.nan
            rows.append({**place, "criterion": criterion, "score": score, "status": status})
    return pd.DataFrame(rows)
