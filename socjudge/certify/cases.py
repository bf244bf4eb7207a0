"""Plan the cases that a judge is to score, and judge them with the code that executes runs: journal, resuming, pacing and
budget work as in a run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from .. import constants
from ..base.files import as_path
from ..base.pass_rule import rule_of, summarise_results
from ..errors import BudgetReached
from ..models.opening import Model
from ..prompts.templates import Prompt
from ..records import Evaluation, EvaluationRun, Rubric, RunInfo, RunOptions, Usage, total_usage
from ..runs.plan import Plan, check_counts, plan_answers
from ..runs.running import carry_out
from ..runs.unfinished import find_journal, load_unfinished
from .changes import DAMAGES, INVERTED, NEUTRAL, ORIGINAL, list_attacks, make_control
from .findings import find_changes
from .subjects import Subject

REPEATS = 2  # how often an unchanged answer is judged again


@dataclass(frozen=True)
class Case:
    """Hold one answer for the judge to score, changed or unchanged."""

    question_id: int | str
    name: str  # of the change, or of what else the case is (`changes`)
    variant: int  # which place of the answer was changed, or which repeat of an unchanged answer this is
    subject: Subject = field(repr=False)  # the answer, with the question that the judge is told

    @property
    def id(self) -> str:
        return f"{self.question_id} {self.name} {self.variant}"


def plan_cases(cases: Sequence[Case], judge: Model, prompt: Prompt, rubric: Rubric) -> Plan:
    """Plan the run in which a judge with this prompt is to score the cases."""
    return plan_answers(
        [replace(case.subject.question, id=case.id) for case in cases],
        # An attack may stand in the question, and the answer is still the one to it.
        answers=[replace(case.subject.answer, question=case.subject.question.question) for case in cases],
        index=None,
        assistant_model="offline",
        assistant_prompt=None,
        answer_repeats=1,
        k=1,
        judge_model=judge,
        judge_prompt=prompt,
        judge_repeats=1,
        rubric=rubric,
    )


@dataclass(frozen=True)
class Judged:
    """Hold the scores that a judge gave to some cases."""

    # one row per case and criterion: question_id, case, variant, criterion, score (0–100, NaN if there is none) and
    # status ("ok", "unparsable", "failed" or "not_judged")
    scores: pd.DataFrame = field(repr=False)
    findings: pd.DataFrame = field(repr=False)  # from `find_changes`
    info: RunInfo  # of the run in which the cases were judged
    usage: Usage  # of this run
    log_path: Path | None  # None if the budget ran out before the end
    stopped: str = ""  # the message that the budget was not enough


def plan_originals(subjects: Sequence[Subject], times: int) -> list[Case]:
    """List the unchanged answers, each as often as it is judged: the repeats measure the judge's own noise."""
    return [Case(s.question.id, ORIGINAL, again, s) for s in subjects for again in range(times)]


def plan_changes(subjects: Sequence[Subject], criteria: Sequence[str], *, size: int | None) -> list[Case]:
    """List the changed answers: all of the first answer, then all of the second, in case the budget runs out midway.
    `size` is as in `plan_certificate`; with it, each change is made in one place only."""
    check_counts(size=1 if size is None else size)
    aimed = [[change for change in DAMAGES if criterion in change.falls] for criterion in criteria]
    groups = [*aimed, NEUTRAL, [INVERTED], [make_control(criteria)], list_attacks(criteria)]
    cases = []
    for turn, subject in enumerate(subjects):
        for group in groups:
            made = [(change.name, found) for change in group if (found := change.make(subject))]
            for name, variants in _in_turn(made, turn, size):
                done = variants if size is None else variants[:1]
                cases += [Case(subject.question.id, name, n, variant) for n, variant in enumerate(done)]
    return cases


def _in_turn(fit: list[Any], turn: int, most: int | None) -> list[Any]:
    """Begin after the elements that the turn before chose (the first turn is 0), so that all have their turn."""
    count = len(fit) if most is None else min(most, len(fit))
    start = turn * count % len(fit) if fit else 0
    return [*fit[start:], *fit[:start]][:count]


def judge_cases(
    cases: Sequence[Case],
    plan: Plan,
    options: RunOptions | None,
    *,
    logs_dir: Path | str | None,
    max_cost_usd: float | None,
    progress: bool,
) -> Judged:
    """Let the judge score the cases, by their plan from `plan_cases`.
    After a used-up budget or an interruption, what was paid for is kept, and the same call continues from there."""
    # Not among the project's logs, because this is no run of the assistant.
    folder, stopped = as_path(logs_dir or constants.LOGS_DIR / "certify"), ""
    try:
        run = carry_out(plan, options, max_cost_usd=max_cost_usd, logs_dir=folder, progress=progress)
    except BudgetReached as reason:
        journal, stopped = find_journal(folder, plan.identity), str(reason)
        nothing = EvaluationRun((), summarise_results([], rule_of(plan.rubric)), plan.info)
        run = load_unfinished(journal) if journal else nothing
    evaluations = {str(result.question.id): result.evaluation for result in run.results}
    usage = total_usage(evaluation.usage for evaluation in evaluations.values())
    scores = _scores(cases, plan.rubric.criteria, evaluations)
    findings = find_changes(scores, plan.rubric.pass_threshold)
    return Judged(scores, findings, run.run, usage, run.log_path, stopped)


def _scores(cases: Sequence[Case], criteria: Sequence[str], evaluations: Mapping[str, Evaluation]) -> pd.DataFrame:
    rows = []
    for case in cases:
        evaluation = evaluations.get(case.id)
        status = evaluation.status if evaluation else "not_judged"
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
