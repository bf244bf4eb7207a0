"""Give the judge answers that are damaged by rule, and answers that are changed in ways that must not matter."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from ..base.messages import say
from ..prompts.templates import Prompt
from ..records import Rubric
from ..runs.plan import check_counts
from .cases import ORIGINAL, Case, Judged, originals
from .damages import DAMAGES
from .experiment import Experiment, Plan
from .neutral import NEUTRAL, PROBES
from .probe_findings import OWN, explain_probes, probe_changes
from .subjects import Subject


@dataclass(frozen=True)
class Probes(Experiment):
    r"""Damage good answers in one way at a time, and see whether the judge lowers the right scores and no others.

    Parameters
    ----------
    repeats
        How often each unchanged answer is judged again, to measure the judge's own noise.
    per_probe
        Number of answers to which each probe is applied, taken in turn. If left out, all to which it can be applied.
    per_criterion
        Instead of `per_probe`: number of damages per answer and criterion, and number of neutral changes per answer,
        taken in turn. Only the first place that a probe can change is then changed. Infinity means all places of all
        neutral changes, and of all damages that must lower a criterion of the rubric.

    Notes
    -----
    The findings have one row per answer, probe, variant and criterion:

    - question_id, probe, criterion
    - variant: the number of the changed place, from 0, if the probe can change several places of an answer
    - expected: what the score must do: "falls", "may_fall", "may_rise", "may_move", "stays"
    - before: the score before the change, 0–100, mean of n_before judgements; after: the score after it; change: after
      minus before, points
    - limit: the least change that is more than the judge's noise (`noise_limits`)
    - moved: "fell", "rose" or "stayed"; missing if it is not known
    - status: as in `run`; note: why there is no score (in the language of the messages)

    Examples
    --------
    >>> import socjudge as sj
    >>> question = sj.load_eval_dataset()[0]
    >>> told = "端末を隔離する。", "[出典: malware_response.md > 初動対応]"
    >>> answer = sj.AssistantAnswer(question.question, "".join(told), "\n".join(reversed(told)))
    >>> found = sj.certify.Probes().run([(question, answer)], judge_model="offline", logs_dir="logs/certify", progress=False)
    >>> sorted(set(found.findings["status"]))
    ['not_applicable', 'ok']
    """

    repeats: int = 2
    per_probe: int | None = None
    per_criterion: float | None = None

    def cases(self, subjects: Sequence[Subject], prompt: Prompt, rubric: Rubric) -> Plan:
        """Plan all unchanged answers first, then the probes of the first answer, of the second answer, and so on."""
        check_counts(repeats=self.repeats, per_probe=1 if self.per_probe is None else self.per_probe)
        if self.per_criterion is not None:
            found = _by_criterion(subjects, self.per_criterion, rubric.criteria)
        else:
            found = _by_probe(subjects, len(subjects) if self.per_probe is None else self.per_probe)
        cases, left_out = originals(subjects, self.repeats), list[dict[str, Any]]()
        for case in found:
            cases.append(case) if isinstance(case, Case) else left_out.append(case)
        return Plan([(cases, prompt)], rubric, left_out)

    def findings(self, plan: Plan, judged: Sequence[Judged]) -> pd.DataFrame:
        scores = judged[0].scores
        names = scores["case"].astype(str)
        own = (names == ORIGINAL) | names.isin(PROBES) | names.str.startswith(OWN)
        return probe_changes(scores[own], plan.left_out)

    def explain(self, findings: pd.DataFrame) -> str:
        return "\n\n".join(explain_probes(findings).values())


Found = Iterator[Case | dict[str, Any]]  # a case, or the row for a probe that is not applied to an answer


def _by_probe(subjects: Sequence[Subject], most: int) -> Found:
    changed = {name: [probe.change(subject) for subject in subjects] for name, probe in PROBES.items()}
    chosen: dict[str, set[int]] = {}
    for turn, (name, found) in enumerate(changed.items()):
        fit = [i for i, variants in enumerate(found) if variants]
        chosen[name] = set(_in_turn(fit, turn, most))
    for i, subject in enumerate(subjects):
        for name, found in changed.items():
            if i in chosen[name]:
                yield from _cases(subject, name, found[i])
            else:
                yield _left_out(
                    subject, name, say("this probe was tried on {most} answers only", most=most) if found[i] else ""
                )


def _by_criterion(subjects: Sequence[Subject], most: float, criteria: Sequence[str]) -> Found:
    groups = [[p.name for p in DAMAGES if criterion in p.falls] for criterion in criteria]
    groups.append([p.name for p in NEUTRAL])
    for turn, subject in enumerate(subjects):
        for group in groups:
            variants = {name: PROBES[name].change(subject) for name in group}
            fit = [name for name, found in variants.items() if found]
            chosen = _in_turn(fit, turn, most)
            why = say("of this answer, only {most} damages of this criterion were tried", most=len(chosen))
            yield from (_left_out(subject, name, why if name in fit else "") for name in group if name not in chosen)
            for name in chosen:
                yield from _cases(subject, name, variants[name] if math.isinf(most) else variants[name][:1])


def _in_turn(fit: list[Any], turn: int, most: float) -> list[Any]:
    """Begin after the elements that the turn before chose (the first turn is 0), so that all have their turn."""
    count = int(min(most, len(fit)))
    start = turn * count % len(fit) if fit else 0
    return [*fit[start:], *fit[:start]][:count]


def _cases(subject: Subject, name: str, variants: Sequence[Subject]) -> Iterator[Case]:
    return (Case(subject.question.id, name, n, variant) for n, variant in enumerate(variants))


def _left_out(subject: Subject, name: str, why: str) -> dict[str, Any]:
    place = {"question_id": subject.question.id, "case": name}
    return {**place, "status": "not_chosen" if why else "not_applicable", "note": why or say(PROBES[name].needs)}
