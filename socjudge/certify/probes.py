"""Probes: answers damaged by rule, and changed in ways that must not matter, before the judge; what each did to the marks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from ..base.messages import say
from ..models.budget import Budget
from ..models.opening import Model
from ..prompts.templates import Prompt
from ..records import Rubric, RunOptions
from ..runs.assignment import check_counts
from ..runs.estimate import Estimate
from ..settings import project_rubric
from .cases import Case, Judged, criteria_of, estimate_cases, judge_parts, make_terms, originals
from .damages import DAMAGES, Probe
from .neutral import NEUTRAL
from .noise import changes_of, repeat_changes
from .subjects import Given, Subject, find_subjects

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

PROBES = {probe.name: probe for probe in (*DAMAGES, *NEUTRAL)}
AGAIN = "same_again"  # the same call once more, beside the neutral changes
OWN = "own_damage "  # and the criterion that must fall: an answer that somebody broke by hand
_TITLES = {**{name: probe.title for name, probe in PROBES.items()}, AGAIN: "certify.same_again"}
_COLUMNS = [
    "question_id", "probe", "variant", "criterion", "expected", "before", "n_before", "after", "change", "limit", "moved",
    "status", "note",
]  # fmt: skip


@dataclass(frozen=True)
class Probing:
    """What the probes showed. changes: see `run_probes`; judged: the marks behind them, and what they took."""

    changes: pd.DataFrame = field(repr=False)
    judged: Judged


def probe_title(name: str) -> str:
    """What a probe is called, in the language of messages."""
    return say("certify.own_damage" if name.startswith(OWN) else _TITLES[name])


def run_probes(
    given: Given,
    *,
    judge_model: str | BaseChatModel | Model = "auto",
    judge_prompt: Prompt | str | Path | None = None,
    rubric: Rubric | None = None,
    repeats: int = 2,
    per_probe: int | None = None,
    max_cost_usd: Budget | float | None = None,
    logs_dir: Path | str | None = None,
    progress: bool = True,
    options: RunOptions | None = None,
) -> Probing:
    """Damage stored good answers one way at a time, and see whether the judge marks down what it should, and only that.

    Parameters
    ----------
    given
        A log, a run, or a list of (question, answer). Good answers: what has no points cannot lose any.
    judge_model, judge_prompt, rubric
        As in `run_evaluation_suite`, as are max_cost_usd, progress and options.
    repeats
        How often each answer is judged again as it is: the judge's own noise.
    per_probe
        Answers for each probe, taken in turn; all where it applies unless given.
    logs_dir
        Where the log of the judgements goes, "certify" below the project's logs unless given: it is no run of the
        assistant and stays out of the history.

    Returns
    -------
    Probing
        `changes` has one row per answer, probe, variant and criterion:

        - question_id, probe, variant (a keypoint after the other, else 0), criterion
        - expected: "falls", "may_fall", "may_rise", "may_move", "stays"
        - before (0–100, mean of n_before judgements), after, change (points)
        - limit: the change from which on it is more than the judge's noise (`noise_limits`)
        - moved: "fell", "rose", "stayed"; missing where that is unknown
        - status: "ok", "unparsable", "failed", "not_judged" (the budget was used up), "not_chosen" (per_probe),
          "not_applicable"
        - note: why there is no mark (in the language of messages)

    Raises
    ------
    SocJudgeError
        As in `run_evaluation_suite`; ConfigError where there is no answer, or the judge never keeps to the format. A
        used-up budget raises nothing: what was paid for is there, the rest is "not_judged", and the same call with a
        larger budget goes on.

    Examples
    --------
    >>> import socjudge as sj
    >>> question = sj.load_eval_dataset()[0]
    >>> told = "端末を隔離する。", "[出典: malware_response.md > 初動対応]"
    >>> answer = sj.AssistantAnswer(question.question, "".join(told), "\\n".join(reversed(told)))
    >>> probing = sj.run_probes([(question, answer)], judge_model="offline", logs_dir="logs/certify", progress=False)
    >>> sorted(set(probing.changes["status"]))
    ['not_applicable', 'ok']
    """
    subjects = find_subjects(given)
    check_counts(repeats=repeats, per_probe=len(subjects) if per_probe is None else per_probe)
    cases, left_out = _plan(subjects, repeats, per_probe)
    terms = make_terms(options, logs_dir=logs_dir, max_cost_usd=max_cost_usd, progress=progress)
    rubric = rubric or project_rubric()
    (judged,) = judge_parts([(cases, judge_prompt)], terms, judge_model=judge_model, rubric=rubric)
    return Probing(probe_changes(judged.marks, left_out), judged)


def estimate_probes(
    given: Given,
    *,
    judge_model: str | BaseChatModel | Model = "auto",
    judge_prompt: Prompt | str | Path | None = None,
    rubric: Rubric | None = None,
    repeats: int = 2,
    per_probe: int | None = None,
) -> Estimate:
    """Calls, tokens and list price of `run_probes` with the same arguments; sends nothing.

    Returns
    -------
    Estimate
        As of `estimate_run`.

    Examples
    --------
    >>> import socjudge as sj
    >>> question = sj.load_eval_dataset()[0]
    >>> told = "端末を隔離する。", "[出典: malware_response.md > 初動対応]"
    >>> answer = sj.AssistantAnswer(question.question, "".join(told), "\\n".join(reversed(told)))
    >>> sj.estimate_probes([(question, answer)], judge_model="gpt-4o-mini").calls > 3
    True
    """
    cases, _ = _plan(find_subjects(given), repeats, per_probe)
    return estimate_cases(cases, judge_model=judge_model, judge_prompt=judge_prompt, rubric=rubric or project_rubric())


def _plan(subjects: Sequence[Subject], repeats: int, per_probe: int | None) -> tuple[list[Case], list[dict[str, Any]]]:
    """The cases in the order in which they are worth having, and the rows of answers that a probe leaves out.

    First all answers as they are, then all probes of one answer after the other: a budget that ends midway leaves
    whole answers."""
    cases, left_out = originals(subjects, repeats), []
    most = len(subjects) if per_probe is None else per_probe
    changed = {name: [probe.change(subject) for subject in subjects] for name, probe in PROBES.items()}
    chosen: dict[str, set[int]] = {}
    for turn, (name, found) in enumerate(changed.items()):
        fit = [i for i, variants in enumerate(found) if variants]
        start = turn * most % len(fit) if fit else 0
        chosen[name] = set([*fit[start:], *fit[:start]][:most])
    for i, subject in enumerate(subjects):
        for name, found in changed.items():
            place = {"question_id": subject.question.id, "case": name}
            if not found[i]:
                left_out.append({**place, "status": "not_applicable", "note": say(PROBES[name].needs)})
            elif i not in chosen[name]:
                left_out.append({**place, "status": "not_chosen", "note": say("certify.not_chosen", most=most)})
            else:
                cases += [Case(subject.question.id, name, n, variant) for n, variant in enumerate(found[i])]
    return cases, left_out


def probe_changes(marks: pd.DataFrame, left_out: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """The `changes` of `run_probes`. left_out: question_id, case, status and note of what was not put before the judge."""
    criteria = criteria_of(marks)
    rest = pd.DataFrame([{**row, "variant": 0, "criterion": c} for row in left_out for c in criteria])
    again = repeat_changes(marks)
    again = again.assign(case=AGAIN, variant=again["variant"] - 1)
    frame = pd.concat([changes_of(marks), again, rest], ignore_index=True).rename(columns={"case": "probe"})
    told = {status: say(key) for status, key in _UNKNOWN.items()}
    return frame.assign(
        expected=[expected_of(*pair) for pair in zip(frame["probe"], frame["criterion"], strict=True)],
        note=frame.get("note", pd.Series(None, frame.index, dtype=object)).fillna(frame["status"].map(told)).fillna(""),
    )[_COLUMNS]


_UNKNOWN = {
    "unparsable": "certify.unparsable",
    "failed": "certify.failed",
    "not_judged": "certify.not_judged",
}


def expected_of(name: str, criterion: str) -> str:
    """What a probe must do to a criterion, as in `Probe.expected`; of an answer broken by hand nothing else is claimed."""
    if name.startswith(OWN):
        return "falls" if name == OWN + criterion else "may_move"
    probe: Probe | None = PROBES.get(name)
    return probe.expected(criterion) if probe else "stays"
