"""Plan the cases for a certificate: those of all experiments, judged in one run, as many as the budget allows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from ..models.opening import Model
from ..prompts.templates import Prompt
from ..records import Rubric
from ..runs.estimate import Estimate
from .anchoring import Anchoring
from .cases import ORIGINAL, Case, originals
from .experiment import Plan
from .injections import Injections
from .probes import Probes
from .subjects import Subject

# damaged answers; a judge that sees nine of ten damages shows it with twenty answers, seldom with ten
MOST_ANSWERS = 20
LEAST_ANSWERS = 9  # with fewer, even a judge that sees everything has not shown that it sees more than half
REPEATS = 2
LABELLED = "labelled"  # an answer that is judged only because people scored it
_HEADROOM = 1.1  # an estimate is a list price, without repeated calls


@dataclass(frozen=True)
class Trials:
    """Hold the cases that are judged for a certificate."""

    plan: Plan = field(repr=False)
    estimate: Estimate
    tried: int  # answers that are damaged
    size: int | None  # damages per criterion and answer; None for all


def plan_trials(
    subjects: Sequence[Subject],
    labelled: Sequence[Subject],
    *,
    own: tuple[Sequence[Subject], Sequence[Case]] = ((), ()),
    judge_model: Model,
    prompt: Prompt,
    rubric: Rubric,
    size: int | None,
    budget_usd: float | None,
) -> Trials:
    """Plan the most cases that fit the budget (US dollars; None: no limit). If no plan fits, return the smallest plan.
    The first of `subjects` are damaged. `labelled` and the cases of `own` (`read_damaged`) are judged in any case."""
    most = min(len(subjects), MOST_ANSWERS)
    sizes = [None, 4, 2, 1] if size is None else [size]
    counts = [(most, each) for each in sizes]
    counts += [(count, sizes[-1]) for count in range(most - 1, LEAST_ANSWERS - 1, -1)]
    for count, each in counts:
        plan = _plan(subjects[:count], labelled, own, prompt, rubric, each)
        estimate = plan.estimate(judge_model)
        if budget_usd is None or (estimate.cost_usd is not None and estimate.cost_usd * _HEADROOM <= budget_usd):
            break
    return Trials(plan, estimate, count, each)


def _plan(
    tried: Sequence[Subject],
    labelled: Sequence[Subject],
    own: tuple[Sequence[Subject], Sequence[Case]],
    prompt: Prompt,
    rubric: Rubric,
    size: int | None,
) -> Plan:
    """Go answer by answer: if the budget runs out midway, all cases of the answers before have been judged."""
    probes = Probes(REPEATS, per_criterion=math.inf if size is None else size)
    each = [e.cases(tried, prompt, rubric) for e in (probes, Anchoring(REPEATS), Injections(per_answer=size))]
    changed = [case for plan in each for case in plan.parts[0][0] if case.name != ORIGINAL]
    turn = {subject.question.id: place for place, subject in enumerate(tried)}
    unchanged = {subject.question.id: subject for subject in (*tried, *own[0])}
    cases = [
        *originals(list(unchanged.values()), REPEATS),
        *(Case(s.question.id, LABELLED, 0, s) for s in labelled if s.question.id not in unchanged),
        *own[1],
        *sorted(changed, key=lambda case: turn[case.question_id]),
    ]
    return Plan([(cases, prompt)], rubric, each[0].left_out)
