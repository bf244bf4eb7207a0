"""Judge changed answers with the code that executes runs: journal, resuming, pacing and budget work as in a run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from .. import constants
from ..base.pass_rule import rule_of
from ..base.storage import as_path
from ..base.verdict import summarise_results
from ..errors import BudgetReached, RequestRefused
from ..models.opening import Model, open_model
from ..prompts.templates import Prompt
from ..records import Evaluation, EvaluationRun, Rubric, RunInfo, RunOptions, Usage, total_usage
from ..runs.estimate import Estimate, estimate_plan
from ..runs.plan import Plan, plan_answers
from ..runs.running import carry_out, shared_budget
from ..runs.unfinished import find_journal, load_unfinished
from .finished_parts import FinishedParts
from .subjects import Subject

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

AnyPrompt = Prompt | str | Path | None


@dataclass(frozen=True)
class Case:
    """Hold one answer for the judge to score, changed or unchanged."""

    question_id: int | str
    name: str  # of the change, or of what else the case is (`changes`)
    variant: int  # which place of the answer was changed, or which repeat of an unchanged answer this is
    subject: Subject = field(repr=False)  # the answer, with the question that the judge is told

    @property
    def id(self) -> str:
        """Return the id of this case in the log of the judgements."""
        return f"{self.question_id} {self.name} {self.variant}"


@dataclass(frozen=True)
class Cases:
    """Hold the cases that a judge is to score, part by part. A part has a prompt of its own."""

    parts: Sequence[tuple[Sequence[Case], AnyPrompt]] = field(repr=False)
    rubric: Rubric

    def estimate(self, judge_model: str | BaseChatModel | Model) -> Estimate:
        """Estimate the calls, tokens and list price. Nothing is sent to the judge."""
        judge = open_model(judge_model)
        plans = [_plan(cases, judge, prompt, self.rubric) for cases, prompt in self.parts if cases]
        return sum(map(estimate_plan, plans), Estimate(0, 0, 0, 0.0))


@dataclass(frozen=True)
class Judged:
    """Hold the scores that a judge gave to some cases."""

    # one row per case and criterion: question_id, case, variant, criterion, score (0–100, NaN if there is none) and
    # status ("ok", "unparsable", "failed" or "not_judged")
    scores: pd.DataFrame = field(repr=False)
    info: RunInfo  # of the run in which the cases were judged
    usage: Usage  # of this run
    log_path: Path | None  # None if the budget ran out before the end, or if the judge refused the run
    stopped: str = ""  # the message that the budget was not enough


def judge_cases(
    asked: Cases,
    *,
    judge_model: str | BaseChatModel | Model,
    logs_dir: Path | str | None = None,
    max_cost_usd: float | None = None,
    progress: bool = True,
    options: RunOptions | None = None,
) -> list[Judged]:
    """Let the judge score the cases of each part, under one cap on the cost of all parts.
    After a used-up budget or an interruption, what was paid for is kept, and the same call continues from there."""
    parts, rubric, options = asked.parts, asked.rubric, options or RunOptions()
    judge = open_model(judge_model)
    plans = [_plan(cases, judge, prompt, rubric) for cases, prompt in parts]
    # Not among the project's logs, because this is no run of the assistant.
    folder = as_path(logs_dir or constants.LOGS_DIR / "certify")
    finished = FinishedParts(folder, plans, fresh=options.fresh)
    runs = dict(finished.load())
    budget = shared_budget(max_cost_usd, runs.values(), folder, [] if options.fresh else plans)
    judged: list[Judged] = []
    for place, (plan, (cases, _)) in enumerate(zip(plans, parts, strict=True)):
        if place in runs:
            judged.append(_judged(cases, runs[place]))
            continue
        if judged and judged[-1].stopped:
            scores = _scores(cases, {}, rubric.criteria, "not_judged")
            judged.append(Judged(scores, plan.info, Usage(), None, judged[-1].stopped))
            continue
        try:
            run = carry_out(plan, options, max_cost_usd=budget, logs_dir=folder, progress=progress)
            finished.note(place, run)
            judged.append(_judged(cases, run))
        except BudgetReached as reason:
            judged.append(_judged(cases, _so_far(plan, folder), str(reason)))
        except RequestRefused:
            if not judged:  # only the first part; the cases of a refused later part have the status "failed"
                raise
            judged.append(Judged(_scores(cases, {}, rubric.criteria, "failed"), judged[0].info, Usage(), None))
    if not any(part.stopped for part in judged):
        finished.forget()
    return judged


def _plan(cases: Sequence[Case], judge: Model, prompt: AnyPrompt, rubric: Rubric) -> Plan:
    return plan_answers(
        [replace(case.subject.question, id=case.id) for case in cases],
        # An attack may stand in the question, and the answer is still the one to it.
        answers=[replace(case.subject.answer, question=case.subject.question.question) for case in cases],
        index=None, assistant_model="offline", assistant_prompt=None, answer_repeats=1, k=1,
        judge_model=judge, judge_prompt=prompt, judge_repeats=1, rubric=rubric,
    )  # fmt: skip


def _judged(cases: Sequence[Case], run: EvaluationRun, stopped: str = "") -> Judged:
    evaluations = {str(result.question.id): result.evaluation for result in run.results}
    usage = total_usage(evaluation.usage for evaluation in evaluations.values())
    return Judged(_scores(cases, evaluations, run.rubric.criteria, "not_judged"), run.run, usage, run.log_path, stopped)


def _so_far(plan: Plan, folder: Path) -> EvaluationRun:
    if journal := find_journal(folder, plan.identity):
        return load_unfinished(journal)
    return EvaluationRun((), summarise_results([], rule_of(plan.rubric)), plan.info)


def _scores(
    cases: Sequence[Case], evaluations: Mapping[str, Evaluation], criteria: Sequence[str], otherwise: str
) -> pd.DataFrame:
    rows = []
    for case in cases:
        evaluation = evaluations.get(case.id)
        status = evaluation.status if evaluation else otherwise
        place = {"question_id": case.question_id, "case": case.name, "variant": case.variant}
        for criterion in criteria:
            score = evaluation.scores[criterion] if evaluation and status == "ok" else None
            points = math.nan if score is None else float(score)
            # A score that the judge left out was requested and is missing, like a refused one.
            is_missing = status == "ok" and score is None
            rows.append(
                {**place, "criterion": criterion, "score": points, "status": "failed" if is_missing else status}
            )
    return pd.DataFrame(rows)
