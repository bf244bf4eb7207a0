"""Measure anchoring: how far scores follow the flags (three warnings) and the keypoints that the judge is told."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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

INVERTED, NO_FLAGS, NO_KEYPOINTS = "flags_inverted", "flags_hidden", "keypoints_hidden"
_TITLES = {
    INVERTED: "flags inverted",
    NO_FLAGS: "flags hidden",
    NO_KEYPOINTS: "keypoints hidden",
}
_HIDDEN = "（示さない）"
_FLAG_PLACEHOLDERS = ("insufficient_evidence", "dangerous_operation", "ambiguous_query")


@dataclass(frozen=True)
class Anchoring(Experiment):
    """Test whether a judge reads the answer itself, or follows what it is told besides.

    The judge is told three warnings (flags) that the assistant gave, and the keypoints that the answer should have. The
    same answers are judged with the flags inverted, with the flags hidden, and with the keypoints hidden. If a judge
    reads the answer itself, its scores change little. The one exception is the score of 網羅性 (completeness) if the
    keypoints are hidden. A judge may refuse to judge without keypoints, as the embedded judge does. This is no error:
    the rows of these answers have the status "failed".

    Each unchanged answer is judged again `repeats` times, to measure the judge's own noise. If `hidden` is false, the
    flags are only inverted, and nothing is hidden.

    Notes
    -----
    The findings have one row per question, variant and criterion. The variants are "flags_inverted", "flags_hidden",
    "keypoints_hidden", and "original" for each repeat of the unchanged answer. The columns are question_id, variant,
    criterion, before, after (0–100), change (points), limit, moved and status, with the meanings that they have in
    `Probes`.

    Examples
    --------
    >>> import socjudge as sj
    >>> question = sj.load_eval_dataset()[0]
    >>> answer = sj.AssistantAnswer(question.question, "1. 端末を隔離する。[出典: malware_response.md > 初動対応]")
    >>> found = sj.certify.Anchoring().run([(question, answer)], judge_model="offline", logs_dir="logs/certify", progress=False)
    >>> sorted(found.findings["variant"].unique())
    ['flags_hidden', 'flags_inverted', 'keypoints_hidden', 'original']
    """

    repeats: int = 2
    hidden: bool = True

    def cases(self, subjects: Sequence[Subject], prompt: Prompt, rubric: Rubric) -> Plan:
        check_counts(repeats=self.repeats)
        inverted = [_flagged(s, Flags(*(not raised for raised in astuple(s.answer.flags)))) for s in subjects]
        parts = [([*originals(subjects, self.repeats), *_cases(INVERTED, inverted)], prompt)]
        if self.hidden:
            no_flags = [_flagged(s, Flags()) for s in subjects]
            no_keypoints = [replace(s, question=replace(s.question, expected_keypoints=())) for s in subjects]
            parts += [
                (_cases(NO_FLAGS, no_flags), _hiding(prompt, *_FLAG_PLACEHOLDERS)),
                (_cases(NO_KEYPOINTS, no_keypoints), _hiding(prompt, "expected_keypoints")),
            ]
        return Plan(parts, rubric)

    def findings(self, plan: Plan, judged: Sequence[Judged]) -> pd.DataFrame:
        scores = pd.concat([part.scores for part in judged], ignore_index=True)
        scores = scores[scores["case"].isin([ORIGINAL, *_TITLES])]
        moves = pd.concat([changes_of(scores), repeat_changes(scores)], ignore_index=True)
        names = ["question_id", "variant", "criterion", "before", "after", "change", "limit", "moved", "status"]
        return moves.drop(columns="variant").rename(columns={"case": "variant"})[names]

    def explain(self, findings: pd.DataFrame) -> str:
        """Return in words how far the scores follow the flags and the keypoints, one line per variant."""
        lines = []
        for variant, rows in summarise_anchoring(findings).groupby("variant", sort=False):
            title, known = say(_TITLES[str(variant)]), rows[rows["n"] > 0]
            if known.empty:
                lines.append(say("{variant}: unknown (no score).", variant=title))
                continue
            told = [
                say(
                    "{criterion} {followed:.0%} ({change:+.0f} points)",
                    criterion=name,
                    followed=followed,
                    change=change,
                )
                for name, followed, change in zip(
                    known["criterion"], known["followed"], known["mean_change"], strict=True
                )
            ]
            told += [
                say("{criterion} unknown (no score)", criterion=name) for name in rows.loc[rows["n"] == 0, "criterion"]
            ]
            lines.append(
                say(
                    "{variant}: share of scores that moved beyond noise, and the mean change: {criteria}.",
                    variant=title,
                    criteria=listed(told),
                )
            )
        return "\n".join(lines)


def _cases(name: str, subjects: Iterable[Subject]) -> list[Case]:
    return [Case(subject.question.id, name, 0, subject) for subject in subjects]


def _flagged(subject: Subject, flags: Flags) -> Subject:
    return replace(subject, answer=replace(subject.answer, flags=flags))


def _hiding(prompt: Prompt, *names: str) -> Prompt:
    """Replace placeholders by a phrase, because an empty value would say that there is no warning or no keypoint."""
    text = prompt.text
    for name in names:
        text = text.replace(f"{{{name}}}", _HIDDEN)
    return Prompt(f"{prompt.id}-{'-'.join(names)}-hidden", text)


def summarise_anchoring(moves: pd.DataFrame, *, level: float = 0.95) -> pd.DataFrame:
    """Measure how far the scores of each criterion follow the flags and keypoints that the judge is told.

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
    ['flags_inverted', 'flags_hidden', 'keypoints_hidden']
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
