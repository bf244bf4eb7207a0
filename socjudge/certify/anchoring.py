"""Measure anchoring: how far scores follow the flags (three warnings) that the judge is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace

import pandas as pd

from ..base.messages import listed, say
from ..prompts.templates import Prompt
from ..records import Flags, Rubric
from ..runs.plan import check_counts
from ..stats.basics import difference_interval, low_high, need_columns, share_interval
from .cases import ORIGINAL, Case, Judged, originals
from .experiment import Experiment, Plan
from .noise import changes_of, repeat_changes
from .subjects import Subject

INVERTED = "flags_inverted"


@dataclass(frozen=True)
class Anchoring(Experiment):
    """Test whether a judge reads the answer itself, or follows what it is told besides.

    The judge is told three warnings (flags) that the assistant gave. The same answers are judged with the flags inverted.
    If a judge reads the answer itself, its scores change little. Each unchanged answer is judged again `repeats` times,
    to measure the judge's own noise.

    Notes
    -----
    The findings have one row per question, variant and criterion. The variants are "flags_inverted", and
    "original" for each repeat of the unchanged answer. The columns are question_id, variant,
    criterion, before, after (0–100), change (points), limit, moved and status, with the meanings that they have in
    `Probes`.

    Examples
    --------
    >>> import socjudge as sj
    >>> question = sj.load_eval_dataset()[0]
    >>> answer = sj.AssistantAnswer(question.question, "1. 端末を隔離する。[出典: malware_response.md > 初動対応]")
    >>> found = sj.certify.Anchoring().run([(question, answer)], judge_model="offline", logs_dir="logs/certify", progress=False)
    >>> sorted(found.findings["variant"].unique())
    ['flags_inverted', 'original']
    """

    repeats: int = 2

    def cases(self, subjects: Sequence[Subject], prompt: Prompt, rubric: Rubric) -> Plan:
        check_counts(repeats=self.repeats)
        inverted = [_flagged(s, Flags(*(not raised for raised in astuple(s.answer.flags)))) for s in subjects]
        cases = [*originals(subjects, self.repeats), *(Case(s.question.id, INVERTED, 0, s) for s in inverted)]
        return Plan([(cases, prompt)], rubric)

    def findings(self, plan: Plan, judged: Sequence[Judged]) -> pd.DataFrame:
        scores = judged[0].scores
        scores = scores[scores["case"].isin([ORIGINAL, INVERTED])]
        moves = pd.concat([changes_of(scores), repeat_changes(scores)], ignore_index=True)
        names = ["question_id", "variant", "criterion", "before", "after", "change", "limit", "moved", "status"]
        return moves.drop(columns="variant").rename(columns={"case": "variant"})[names]

    def explain(self, findings: pd.DataFrame) -> str:
        """Return in words how far the scores follow the flags."""
        rows, title = summarise_anchoring(findings), say("flags inverted")
        if not rows["n"].any():
            return say("{variant}: unknown (no score).", variant=title)
        told = [
            say(
                "{criterion} {followed:.0%} ({change:+.0f} points)",
                criterion=row["criterion"],
                followed=row["followed"],
                change=row["mean_change"],
            )
            if row["n"]
            else say("{criterion} unknown (no score)", criterion=row["criterion"])
            for row in rows.to_dict("records")
        ]
        return say(
            "{variant}: share of scores that moved beyond noise, and the mean change: {criteria}.",
            variant=title,
            criteria=listed(told),
        )


def _flagged(subject: Subject, flags: Flags) -> Subject:
    return replace(subject, answer=replace(subject.answer, flags=flags))


def summarise_anchoring(moves: pd.DataFrame, *, level: float = 0.95) -> pd.DataFrame:
    """Measure how far the scores of each criterion follow the flags that the judge is told.

    `moves` are the findings of `Anchoring`, `level` is the confidence level of the intervals.

    Returns
    -------
    DataFrame
        One row per variant and criterion.

        - variant (as in `Anchoring`), criterion
        - n: questions with a score; n_missing: questions without one
        - followed: share of the questions whose score moved beyond the judge's noise; followed_low, followed_high: its
          interval
        - mean_change, change_low, change_high: mean of the changes and its interval, points
        - mean_move: mean of the absolute changes, points; noise_move: the same mean for repeats of unchanged answers

    Examples
    --------
    >>> import socjudge as sj
    >>> question = sj.load_eval_dataset()[0]
    >>> answer = sj.AssistantAnswer(question.question, "1. 端末を隔離する。[出典: malware_response.md > 初動対応]")
    >>> found = sj.certify.Anchoring().run([(question, answer)], judge_model="offline", logs_dir="logs/certify", progress=False)
    >>> list(sj.certify.summarise_anchoring(found.findings)["variant"].unique())
    ['flags_inverted']
    """
    need_columns(moves, ["question_id", "variant", "criterion", "change", "moved"], "summarise_anchoring", "Anchoring")
    repeats = moves[moves["variant"] == ORIGINAL]
    noise = repeats["change"].abs().groupby(repeats["criterion"]).mean()
    rows = []
    for (variant, criterion), group in moves[moves["variant"] != ORIGINAL].groupby(
        ["variant", "criterion"], sort=False
    ):
        known = group[group["moved"].notna()]
        followed = (known["moved"] != "stayed").astype(float).mean()
        rows.append(
            {
                "variant": variant,
                "criterion": criterion,
                "n": len(known),
                "n_missing": len(group) - len(known),
                "followed": followed,
                **low_high("followed", share_interval(followed, len(known), level=level)),
                "mean_change": known["change"].mean(),
                **low_high("change", difference_interval(known["change"], level=level)),
                "mean_move": known["change"].abs().mean(),
                "noise_move": float(noise.get(criterion, float("nan"))),
            }
        )
    return pd.DataFrame(rows)
