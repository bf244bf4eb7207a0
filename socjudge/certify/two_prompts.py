"""Measure whether a hardened prompt, which warns the judge of attacks, changes the scores of honest answers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from ..base.messages import say
from ..prompts.templates import Prompt, load_prompt
from ..records import Rubric
from ..runs.plan import check_counts
from ..stats.basics import OVERALL, detectable_difference, low_high, mean_interval, need_columns
from ..stats.changes import equivalence_p
from .cases import Judged, originals
from .experiment import Experiment, Plan
from .noise import originals_of
from .subjects import Subject

HARDENED = "guide-1-hardened"
MARGIN = 2.0  # points


@dataclass(frozen=True)
class Prompts(Experiment):
    """Judge honest answers (without attacks) with two prompts, to see whether the second one changes their scores.

    The first prompt is the judge's own. `hardened` is the second, as for `load_prompt`; if left out, one that warns the
    judge of attacks. Each answer is judged `repeats` times with each prompt.

    Notes
    -----
    The findings have one row per question and criterion. 総合, the mean of the criteria, is included. Columns:
    question_id, criterion, plain and hardened (the scores with the first and the second prompt, 0–100, means of the
    repeats), difference (hardened − plain, points; missing if a score is missing).

    Examples
    --------
    >>> import socjudge as sj
    >>> question = sj.load_eval_dataset()[0]
    >>> answer = sj.AssistantAnswer(question.question, "1. 端末を隔離する。[出典: malware_response.md > 初動対応]")
    >>> found = sj.certify.Prompts().run([(question, answer)], judge_model="offline", logs_dir="logs/certify", progress=False)
    >>> float(found.findings["difference"].abs().max())
    0.0
    """

    hardened: Prompt | str | Path = HARDENED
    repeats: int = 1

    def cases(self, subjects: Sequence[Subject], prompt: Prompt, rubric: Rubric) -> Plan:
        check_counts(repeats=self.repeats)
        cases = originals(subjects, self.repeats - 1)
        return Plan([(cases, prompt), (cases, load_prompt(self.hardened, rubric=rubric))], rubric)

    def findings(self, plan: Plan, judged: Sequence[Judged]) -> pd.DataFrame:
        plain, hardened = (_with_overall(part.scores) for part in judged)
        found = plain.rename("plain").to_frame().join(hardened.rename("hardened")).reset_index()
        return found.assign(difference=found["hardened"] - found["plain"])

    def explain(self, findings: pd.DataFrame) -> str:
        """Return in words whether honest answers have the same mean score with both prompts."""
        (row,) = prompt_equivalence(findings[findings["criterion"] == OVERALL]).to_dict("records")
        told = {"difference": row["mean_difference"], "n": row["n"]}
        if not row["n"]:
            return say("Difference of the two prompts: unknown (no question was judged with both).")
        if row["equivalent"] is None:
            return say(
                "On honest answers the means differ by {difference:+.1f} points ({n} questions), without any "
                "scatter to test them by.",
                **told,
            )
        told |= {"low": row["ci_low"], "high": row["ci_high"], "margin": MARGIN}
        if row["equivalent"]:
            return say(
                "On honest answers the means differ by {difference:+.1f} points (90% interval {low:+.1f} to "
                "{high:+.1f}, {n} questions): the same within {margin:g} points.",
                **told,
            )
        return say(
            "On honest answers the means differ by {difference:+.1f} points (90% interval {low:+.1f} to "
            "{high:+.1f}, {n} questions): not shown to be the same within {margin:g} points; {n} questions "
            "show a difference of {detectable:.1f}.",
            **told,
            detectable=row["detectable_difference"],
        )


def _with_overall(scores: pd.DataFrame) -> pd.Series:
    means = originals_of(scores).pivot(index="question_id", columns="criterion", values="before")
    means = means[list(dict.fromkeys(scores["criterion"]))]
    means[OVERALL] = means.mean(axis=1, skipna=False)
    return pd.Series(means.stack(future_stack=True))


def prompt_equivalence(differences: pd.DataFrame, *, margin: float = MARGIN, alpha: float = 0.05) -> pd.DataFrame:
    """Test whether the mean scores with two prompts are equal to within `margin` points, by two one-sided tests.

    `differences` are the findings of `Prompts`. `margin` is the largest mean difference, above or below 0, that still
    counts as equal, and `alpha` the significance level of each test.

    Returns
    -------
    DataFrame
        One row per criterion, 総合 last.

        - criterion, n (questions with both scores)
        - mean_difference: mean of hardened − plain, points; ci_low, ci_high: its interval of level 1 − 2 alpha
        - p_tost: the larger p-value of the two tests
        - equivalent: whether p_tost is below alpha; missing if it cannot be tested
        - detectable_difference: the smallest true difference that n questions show with a probability of 0.8, points
        - method

    Notes
    -----
    Nothing can be tested with fewer than two questions, or if all differences are equal: n equal differences do not
    show how far away the next one would be. Source: Schuirmann (1987), J. Pharmacokinet. Biopharm. 15, 657-680.

    Examples
    --------
    >>> import pandas as pd
    >>> import socjudge as sj
    >>> frame = pd.DataFrame({"question_id": range(6), "criterion": "総合", "difference": [0.5, -0.5, 0, 0.5, 0, -0.5]})
    >>> bool(sj.certify.prompt_equivalence(frame).loc[0, "equivalent"])
    True
    """
    need_columns(differences, ["question_id", "criterion", "difference"], "prompt_equivalence", "Prompts")
    rows = []
    for criterion, group in differences.groupby("criterion", sort=False):
        d = group["difference"].dropna().to_numpy(dtype=float)
        p = equivalence_p(d, margin)
        rows.append(
            {
                "criterion": criterion,
                "n": len(d),
                "mean_difference": d.mean() if len(d) else math.nan,
                **low_high("ci", mean_interval(d, method="t", level=1 - 2 * alpha, low=-100, high=100)),
                "p_tost": p,
                "equivalent": None if math.isnan(p) else p < alpha,
                "detectable_difference": math.nan
                if len(d) < 2
                else detectable_difference(float(d.std(ddof=1)), len(d)),
                "method": f"TOST, margin {margin:g} points, paired t, alpha {alpha:g}",
            }
        )
    return pd.DataFrame(rows)
