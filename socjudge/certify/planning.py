"""Plan which changes of which answers a judge is to score."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..models.opening import Model
from ..prompts.templates import Prompt
from ..records import Rubric
from ..runs.estimate import Estimate
from ..runs.plan import check_counts
from .cases import Case, Cases
from .changes import DAMAGES, INVERTED, LABELLED, NEUTRAL, ORIGINAL, Change, Kind, list_attacks, make_control
from .subjects import Subject

# damaged answers; a judge that sees nine of ten damages shows it with twenty answers, seldom with ten
MOST_ANSWERS = 20
LEAST_ANSWERS = 9  # with fewer, even a judge that sees everything has not shown that it sees more than half
REPEATS = 2
IN_CERTIFICATE: tuple[Kind, ...] = ("damage", "neutral", "flags", "attack")
_HEADROOM = 1.1  # an estimate is a list price, without repeated calls


def plan_originals(subjects: Sequence[Subject], times: int) -> list[Case]:
    """List the unchanged answers, each as often as it is judged: the repeats measure the judge's own noise."""
    return [Case(s.question.id, ORIGINAL, again, s) for s in subjects for again in range(times)]


def plan_changes(
    subjects: Sequence[Subject], criteria: Sequence[str], kinds: Collection[Kind], *, size: int | None
) -> list[Case]:
    """List the changed answers: all of the first answer, then all of the second, in case the budget runs out midway.
    `size` is as in `probe_judge`; with it, each change is made in one place only."""
    check_counts(size=1 if size is None else size)
    groups: list[Sequence[Change]] = []
    if "damage" in kinds:
        groups += [[change for change in DAMAGES if criterion in change.falls] for criterion in criteria]
    if "neutral" in kinds:
        groups.append(NEUTRAL)
    if "flags" in kinds:
        groups.append([INVERTED])
    if "attack" in kinds:
        groups += [[make_control(criteria)], list_attacks(criteria)]
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


@dataclass(frozen=True)
class Trials:
    """Hold the cases that are judged for a certificate."""

    cases: Cases = field(repr=False)
    estimate: Estimate
    tried: int  # answers that are damaged
    size: int | None  # damages per criterion and answer; None for all


def plan_trials(
    subjects: Sequence[Subject],
    labelled: Sequence[Subject],
    own: tuple[Sequence[Subject], Sequence[Case]],
    *,
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
        tried = subjects[:count]
        unchanged = {subject.question.id: subject for subject in (*tried, *own[0])}
        cases = [
            *plan_originals(list(unchanged.values()), 1 + REPEATS),
            *(Case(s.question.id, LABELLED, 0, s) for s in labelled if s.question.id not in unchanged),
            *own[1],
            *plan_changes(tried, rubric.criteria, IN_CERTIFICATE, size=each),
        ]
        planned = Cases([(cases, prompt)], rubric)
        estimate = planned.estimate(judge_model)
        if budget_usd is None or (estimate.cost_usd is not None and estimate.cost_usd * _HEADROOM <= budget_usd):
            break
    return Trials(planned, estimate, count, each)
