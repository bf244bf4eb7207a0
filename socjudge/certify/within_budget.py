"""What is put before a judge for its certificate, in one run of one prompt: how much of it fits the budget, and in which
order, so that a budget that ends midway leaves whole answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..base.messages import say
from ..models.opening import Model
from ..prompts.templates import Prompt
from ..records import Rubric
from ..runs.estimate import Estimate
from .anchoring import INVERTED, inverted
from .cases import Case, estimate_cases, originals
from .damages import DAMAGES, Probe
from .injections import attack_cases, attacks
from .neutral import NEUTRAL
from .subjects import Subject

MOST_ANSWERS = 20  # that are damaged: a judge that sees nine of ten damages shows it with twenty, seldom with ten
LEAST_ANSWERS = 9  # with fewer, even a judge that sees everything has not shown that it sees more than half
LABELLED = "labelled"  # an answer that is judged only because people marked it
_HEADROOM = 1.1  # an estimate is a list price; asking again is not in it


@dataclass(frozen=True)
class Trials:
    """What is to be judged. cases: with the judge's prompt; hardened: the same answers for the hardened prompt, none where
    it is not tried; left_out: probes that were not made, as `probe_changes` takes them; tried: answers that are damaged;
    size: damages per criterion and answer, None for all."""

    cases: Sequence[Case] = field(repr=False)
    hardened: Sequence[Case] = field(repr=False)
    left_out: Sequence[dict[str, Any]] = field(repr=False)
    estimate: Estimate
    tried: int
    size: int | None


def plan_trials(
    subjects: Sequence[Subject],
    labelled: Sequence[Subject],
    *,
    own: tuple[Sequence[Subject], Sequence[Case]] = ((), ()),
    judge_model: Model,
    prompt: Prompt,
    hardened: Prompt | None,
    rubric: Rubric,
    repeats: int,
    size: int | None,
    budget_usd: float | None,
) -> Trials:
    """The most that fits the budget, or the least there is where nothing fits.

    labelled: answers that must be judged beside the tried ones. own: of `read_damaged`, all of which are judged. size: damages per criterion and answer, as many as fit
    unless given."""
    most = min(len(subjects), MOST_ANSWERS)
    sizes = [None, 4, 2, 1] if size is None else [size]
    counts = [(most, each) for each in sizes]
    counts += [(count, sizes[-1]) for count in range(most - 1, LEAST_ANSWERS - 1, -1)]
    for count, each in counts:
        trials = _trials(subjects[:count], labelled, own, judge_model, prompt, hardened, rubric, repeats, each)
        cost = trials.estimate.cost_usd
        if budget_usd is None or (cost is not None and cost * _HEADROOM <= budget_usd):
            return trials
    return trials


def _trials(
    tried: Sequence[Subject],
    labelled: Sequence[Subject],
    own: tuple[Sequence[Subject], Sequence[Case]],
    judge_model: Model,
    prompt: Prompt,
    hardened: Prompt | None,
    rubric: Rubric,
    repeats: int,
    size: int | None,
) -> Trials:
    unchanged = {subject.question.id: subject for subject in (*tried, *own[0])}
    cases = originals(list(unchanged.values()), repeats)
    cases += [Case(s.question.id, LABELLED, 0, s) for s in labelled if s.question.id not in unchanged]
    cases += own[1]
    left_out: list[dict[str, Any]] = []
    for turn, subject in enumerate(tried):
        for case in _of_answer(subject, turn, size, rubric.criteria):
            if isinstance(case, Case):
                cases.append(case)
            else:
                left_out.append(case)
    # The hardened prompt is no part of the verdicts: it is asked only where everything is.
    again = originals(tried, 0) if hardened is not None and size is None else []
    estimate = estimate_cases(cases, judge_model=judge_model, judge_prompt=prompt, rubric=rubric)
    if again:
        estimate += estimate_cases(again, judge_model=judge_model, judge_prompt=hardened, rubric=rubric)
    return Trials(cases, again, left_out, estimate, len(tried), size)


def _of_answer(
    subject: Subject, turn: int, size: int | None, criteria: Sequence[str]
) -> Iterator[Case | dict[str, Any]]:
    """What is done to one answer. turn: its place, so that answers share the kinds of damage among them."""
    groups = [[p for p in DAMAGES if criterion in p.falls] for criterion in criteria]
    for group in [*groups, list(NEUTRAL)]:
        yield from _chosen(subject, group, turn, size)
    yield Case(subject.question.id, INVERTED, 0, inverted(subject))
    known = attacks(criteria)
    pairs = len(known) if size is None else min(size, len(known))
    for step in range(pairs):
        yield from attack_cases(subject, known[(turn * pairs + step) % len(known)])


def _chosen(subject: Subject, group: Sequence[Probe], turn: int, size: int | None) -> Iterator[Case | dict[str, Any]]:
    """`size` of the probes that apply, the next ones for the next answer."""
    variants = {probe.name: probe.change(subject) for probe in group}
    fit = [name for name, found in variants.items() if found]
    most = len(fit) if size is None else min(size, len(fit))
    start = turn * most % len(fit) if fit else 0
    chosen = [*fit[start:], *fit[:start]][:most]
    for probe in group:
        place = {"question_id": subject.question.id, "case": probe.name}
        if probe.name not in fit:
            yield {**place, "status": "not_applicable", "note": say(probe.needs)}
        elif probe.name not in chosen:
            yield {**place, "status": "not_chosen", "note": say("certify.not_chosen", most=most)}
    for name in chosen:
        several = variants[name] if size is None else variants[name][:1]
        yield from (Case(subject.question.id, name, n, variant) for n, variant in enumerate(several))
