"""Convert points on an old judge's scale to a new judge's scale, for the day when the old model is shut down."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from ..base.messages import say, sentences
from ..base.pass_rule import frame_rule, reaches
from ..errors import ConfigError
from .basics import (
    FEWEST,
    MIN_QUESTIONS,
    OVERALL,
    Floats,
    by_criterion,
    correlation,
    difference_interval,
    in_order,
    jackknife_interval,
    low_high,
)
from .comparison import pair_scores


def bridge_judges(scores: pd.DataFrame, *, old: Any, new: Any, by: str = "judge_model") -> pd.DataFrame:
    """Compute the lines that convert the old judge's points to the new judge's points.

    There is one row per criterion, and one row (総合) for the mean over the criteria.

    Parameters
    ----------
    scores, by
        As in `compare_judges`.
    old, new
        The values of `by` that name the two judges. Both must have judged the same stored answers.

    Returns
    -------
    DataFrame
        - criterion
        - n: questions
        - n_missing: number of missing scores
        - shift: the new judge's points minus the old judge's, mean over questions; shift_low, shift_high: its t
          interval, missing below 10 questions
        - slope, intercept: of the line new points = intercept + slope × old points
        - pass_line, pass_line_low, pass_line_high: the points on the new scale that correspond to the pass line (such
          as 70) on the old scale
        - correlation: of the two judges' scores
        - verdict_changes: answers to which the two judges give different verdicts if both use the old pass line
        - verdict_changes_bridged: answers to which they give different verdicts if the new judge uses pass_line
        - note (in the language of the messages)

    Raises
    ------
    ConfigError
        If there are fewer than 8 common questions, or if the two judges judged different answers.

    Notes
    -----
    The line maps the mean and sd of the old points over the answers to those of the new points. This is linear
    equating, which gives the same line in both directions. Ordinary regression would treat the old scores as exact and
    make the slope too small. slope, intercept and pass_line are missing if the correlation is not shown to be above 0:
    the two judges may then measure different things.

    Sources: Kolen and Brennan (2014), Test Equating, 2.4; Ricker (1973), J. Fish. Res. Board Can. 30, 409-434.

    Examples
    --------
    >>> import pandas as pd
    >>> import socjudge as sj
    >>> one = pd.DataFrame({"question_id": range(8), "answer_sha256": range(8), "criterion": "安全性"})
    >>> marks = pd.Series([90, 85, 80, 70, 60, 50, 40, 20])
    >>> two = [one.assign(judge_model="A", score=marks), one.assign(judge_model="B", score=10 + 0.8 * marks)]
    >>> bridge = sj.stats.bridge_judges(pd.concat(two), old="A", new="B")
    >>> bridge[["criterion", "n", "shift", "slope", "intercept", "pass_line"]].round(1)
      criterion  n  shift  slope  intercept  pass_line
    0       安全性  8   -2.4    0.8       10.0       66.0
    1        総合  8   -2.4    0.8       10.0       66.0
    """
    who, at = "bridge_judges", frame_rule(scores).line
    if old == new:
        raise ConfigError("{who}: old and new are both {old!r}; name two values of {by}", who=who, old=old, by=by)
    pairs = pair_scores(scores, old, new, by=by, who=who)
    both = pairs[pairs["criterion"] == OVERALL].dropna(subset=["first", "second"])
    if (count := both["question_id"].nunique()) < MIN_QUESTIONS:
        raise ConfigError(
            "{who}: {old!r} and {new!r} both scored the same answers to {count} questions, which is too few "
            "for a bridge; rejudge(run, judge_model={new!r}) until there are {least} or more",
            who=who,
            old=old,
            new=new,
            count=count,
            least=MIN_QUESTIONS,
        )
    rows = [_bridge_row(pairs[pairs["criterion"] == name], name, at) for name in in_order(pairs["criterion"])]
    return by_criterion(pd.DataFrame(rows), pairs["criterion"].cat.categories)


def equating_lines(old: ArrayLike, new: ArrayLike, questions: ArrayLike) -> Floats:
    """Compute the rows (intercept, slope) of the line new points = intercept + slope × old points of each answer.
    The first row is from all answers. Each further row leaves out one question."""
    x, y, ids = np.asarray(old, dtype=float), np.asarray(new, dtype=float), np.asarray(questions)
    kinds = list(dict.fromkeys(ids.tolist()))
    r = correlation(x, y)
    # If the correlation is not shown to be above 0 (Fisher's z, 95 %), there is a single row of NaN.
    if not math.atanh(np.clip(r, -1 + 1e-12, 1 - 1e-12)) > 1.96 / math.sqrt(max(len(kinds) - 3, 1)):
        return np.full((1, 2), math.nan)
    kept = [np.ones(len(ids), dtype=bool), *(ids != kind for kind in kinds)]
    with np.errstate(divide="ignore", invalid="ignore"):
        slopes = np.array([y[keep].std() / x[keep].std() for keep in kept])
    slopes[~np.isfinite(slopes)] = math.nan  # without this question, the old judge gives all answers the same points
    intercepts = np.array([y[keep].mean() - m * x[keep].mean() for keep, m in zip(kept, slopes, strict=True)])
    return np.column_stack([intercepts, slopes])


def _bridge_row(part: pd.DataFrame, criterion: str, at: float) -> dict[str, Any]:
    scored = part.dropna(subset=["first", "second"])
    shifts = (scored["second"] - scored["first"]).groupby(scored["question_id"]).mean().to_numpy()
    x, y = scored["first"].to_numpy(), scored["second"].to_numpy()
    lines = equating_lines(x, y, scored["question_id"])
    line = lines[:, 0] + lines[:, 1] * at
    old_passed = reaches(scored["first"], at)
    changes = int((old_passed != reaches(scored["second"], at)).sum())
    bridged = int((old_passed != reaches(scored["second"], line[0])).sum()) if math.isfinite(line[0]) else None
    missing, doubt = int(part["missing"].sum()), ""
    if math.isnan(line[0]):
        doubt = say("The scores of the two do not surely correlate, so points cannot be converted.")
    unread = say("Unread scores, left out: {count}.", count=missing) if missing else ""
    return {
        "criterion": criterion,
        "n": len(shifts),
        "n_missing": missing,
        "shift": float(shifts.mean()) if len(shifts) else math.nan,
        **low_high("shift", difference_interval(shifts) if len(shifts) >= FEWEST else (math.nan, math.nan)),
        "slope": lines[0, 1],
        "intercept": lines[0, 0],
        "pass_line": line[0],
        **low_high("pass_line", jackknife_interval(line[0], line[1:])),
        "correlation": correlation(x, y),
        "verdict_changes": changes,
        "verdict_changes_bridged": bridged,
        "note": sentences(say("Questions: {n}.", n=len(shifts)), doubt, unread),
    }
