"""What hardening the judge's prompt costs: the same honest answers judged with the plain prompt and with the hardened one."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from ..base.messages import say
from ..models.budget import Budget
from ..models.opening import Model
from ..prompts.templates import Prompt
from ..records import Rubric, RunOptions
from ..runs.assignment import check_counts
from ..runs.estimate import Estimate
from ..settings import project_rubric
from ..stats.basics import OVERALL, detectable_difference, mean_interval, need_columns
from ..stats.changes import equivalence_p
from .cases import Judged, estimate_cases, judge_parts, make_terms, originals
from .noise import originals_of
from .subjects import Given, find_subjects

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

HARDENED = "guide-1-hardened"
MARGIN = 2.0  # points


@dataclass(frozen=True)
class PromptComparison:
    """What two prompts made of the same answers. differences: see `compare_prompts`; plain, hardened: the marks behind."""

    differences: pd.DataFrame = field(repr=False)
    plain: Judged
    hardened: Judged


def compare_prompts(
    given: Given,
    *,
    judge_model: str | BaseChatModel | Model = "auto",
    plain: Prompt | str | Path | None = None,
    hardened: Prompt | str | Path = HARDENED,
    rubric: Rubric | None = None,
    repeats: int = 1,
    max_cost_usd: Budget | float | None = None,
    logs_dir: Path | str | None = None,
    progress: bool = True,
    options: RunOptions | None = None,
) -> PromptComparison:
    """Judge honest answers with two prompts: what the second does to marks that it should leave alone.

    Parameters
    ----------
    given, judge_model, rubric, max_cost_usd, logs_dir, progress, options
        As in `run_probes`; max_cost_usd is for both prompts together.
    plain, hardened
        As for `load_prompt`.
    repeats
        Judgements of each answer with each prompt.

    Returns
    -------
    PromptComparison
        `differences` has one row per question and criterion, 総合 (the mean of the criteria) included: question_id,
        criterion, plain, hardened (0–100, means of the repeats), difference (hardened − plain, points; missing where a
        mark is).

    Raises
    ------
    SocJudgeError
        As in `run_probes`.

    Examples
    --------
    >>> import socjudge as sj
    >>> question = sj.load_eval_dataset()[0]
    >>> answer = sj.AssistantAnswer(question.question, "1. 端末を隔離する。[出典: malware_response.md > 初動対応]")
    >>> compared = sj.compare_prompts([(question, answer)], judge_model="offline", logs_dir="logs/certify", progress=False)
    >>> float(compared.differences["difference"].abs().max())
    0.0
    """
    check_counts(repeats=repeats)
    rubric = rubric or project_rubric()
    cases = originals(find_subjects(given), repeats - 1)
    terms = make_terms(options, logs_dir=logs_dir, max_cost_usd=max_cost_usd, progress=progress)
    before, after = judge_parts([(cases, plain), (cases, hardened)], terms, judge_model=judge_model, rubric=rubric)
    return PromptComparison(differences_of(before.marks, after.marks), before, after)


def estimate_prompts(
    given: Given,
    *,
    judge_model: str | BaseChatModel | Model = "auto",
    plain: Prompt | str | Path | None = None,
    hardened: Prompt | str | Path = HARDENED,
    rubric: Rubric | None = None,
    repeats: int = 1,
) -> Estimate:
    """Calls, tokens and list price of `compare_prompts` with the same arguments; sends nothing."""
    cases = originals(find_subjects(given), repeats - 1)
    rubric = rubric or project_rubric()
    first = estimate_cases(cases, judge_model=judge_model, judge_prompt=plain, rubric=rubric)
    return first + estimate_cases(cases, judge_model=judge_model, judge_prompt=hardened, rubric=rubric)


def differences_of(plain: pd.DataFrame, hardened: pd.DataFrame) -> pd.DataFrame:
    """The `differences` of `compare_prompts`, from the marks that each prompt gave the same answers."""
    wide = [_with_overall(marks) for marks in (plain, hardened)]
    found = wide[0].rename("plain").to_frame().join(wide[1].rename("hardened")).reset_index()
    return found.assign(difference=found["hardened"] - found["plain"])


def _with_overall(marks: pd.DataFrame) -> pd.Series:
    means = originals_of(marks).pivot(index="question_id", columns="criterion", values="before")
    means = means[list(dict.fromkeys(marks["criterion"]))]
    means[OVERALL] = means.mean(axis=1, skipna=False)
    return pd.Series(means.stack(future_stack=True))


def prompt_equivalence(differences: pd.DataFrame, *, margin: float = MARGIN, alpha: float = 0.05) -> pd.DataFrame:
    """Whether two prompts give the same marks, give or take `margin` points: two one-sided tests.

    Parameters
    ----------
    differences
        From `compare_prompts`.
    margin
        Points, on either side of 0.
    alpha
        Of each test.

    Returns
    -------
    DataFrame
        One row per criterion, 総合 last.

        - criterion, n (questions with both marks)
        - mean_difference: points, hardened − plain; ci_low, ci_high: its interval of level 1 − 2 alpha
        - p_tost: the larger p of the two tests
        - equivalent: whether p_tost is below alpha; missing where it cannot be tested
        - detectable_difference: points; the smallest true difference that n questions show with a power of 0.8
        - method

    Notes
    -----
    With fewer than two questions, or differences that are all equal, nothing can be tested: n equal differences do not
    say how far the next would be. Source: Schuirmann (1987), J. Pharmacokinet. Biopharm. 15, 657-680.

    Examples
    --------
    >>> import pandas as pd
    >>> import socjudge as sj
    >>> frame = pd.DataFrame({"question_id": range(6), "criterion": "総合", "difference": [0.5, -0.5, 0, 0.5, 0, -0.5]})
    >>> bool(sj.prompt_equivalence(frame).loc[0, "equivalent"])
    True
    """
    need_columns(differences, ["question_id", "criterion", "difference"], "prompt_equivalence", "compare_prompts")
    rows = []
    for criterion, group in differences.groupby("criterion", sort=False):
        d = group["difference"].dropna().to_numpy(dtype=float)
        low, high = mean_interval(d, method="t", level=1 - 2 * alpha, low=-100, high=100)
        p = equivalence_p(d, margin)
        rows.append(
            {
                "criterion": criterion,
                "n": len(d),
                "mean_difference": d.mean() if len(d) else math.nan,
                "ci_low": low,
                "ci_high": high,
                "p_tost": p,
                "equivalent": None if math.isnan(p) else p < alpha,
                "detectable_difference": detectable_difference(float(d.std(ddof=1)), len(d))
                if len(d) > 1
                else math.nan,
                "method": f"TOST, margin {margin:g} points, paired t, alpha {alpha:g}",
            }
        )
    return pd.DataFrame(rows)


def explain_prompts(differences: pd.DataFrame, *, margin: float = MARGIN) -> str:
    """Whether the two prompts give honest answers the same mean, in plain words."""
    (row,) = prompt_equivalence(differences[differences["criterion"] == OVERALL], margin=margin).to_dict("records")
    told = {"difference": row["mean_difference"], "n": row["n"]}
    if not row["n"]:
        return say("certify.prompts_unknown")
    if row["equivalent"] is None:
        return say("certify.prompts_untested", **told)
    told |= {"low": row["ci_low"], "high": row["ci_high"], "margin": margin}
    if row["equivalent"]:
        return say("certify.prompts_same", **told)
    return say("certify.prompts_not_same", **told, detectable=row["detectable_difference"])
