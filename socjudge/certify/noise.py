"""Measure how far judgements of the same answer differ, and how large a change must be to be more than this noise."""

from __future__ import annotations

import math
from typing import NamedTuple

import pandas as pd

from ..stats.limits import repeat_limit
from .changes import ORIGINAL

LEAST = 5.0  # points; a smaller change is no finding, however steady the judge is
JUMP = 10.0  # points; two judgements of an answer that differ by more are not normal noise


def noise_limits(scores: pd.DataFrame) -> pd.DataFrame:
    """Return per criterion the least change of a score that counts as more than noise: `limit`, at least LEAST points.
    `sd` (points) is pooled over repeats of unchanged answers. Without repeats, `freedom` is 0 and `limit` NaN."""
    # `limit` is beside as many judgements as an unchanged answer has, `limit_once` beside a single one.
    own = scores[scores["case"] == ORIGINAL].dropna(subset=["score"])
    rows = []
    for criterion, group in own.groupby("criterion", sort=False):
        by_question = group.groupby("question_id", sort=False)["score"]
        sizes, spread = by_question.size(), ((group["score"] - by_question.transform("mean")) ** 2).sum()
        freedom = int((sizes - 1).sum())
        sd = math.sqrt(spread / freedom) if freedom else math.nan
        # 95 % of repeated judgements must not count as moved. NaN stays NaN.
        limit, once = (max(repeat_limit(sd, freedom, beside), LEAST) for beside in (float(sizes.mean()), 1.0))
        rows.append({"criterion": criterion, "sd": sd, "freedom": freedom, "limit": limit, "limit_once": once})
    found = pd.DataFrame(rows, columns=["criterion", "sd", "freedom", "limit", "limit_once"])
    return found.astype({"limit": float, "limit_once": float})  # also where there is none


class Steadiness(NamedTuple):
    """Hold how much a judge's scores of unchanged answers vary between repeats."""

    sd: float  # points, pooled over answers
    freedom: float  # degrees of freedom of sd; fewer than the repeats if a few answers vary most
    jumps: float  # share of the answers whose highest and lowest score are more than JUMP apart
    n: int  # answers judged at least twice


def steadiness(scores: pd.DataFrame, criterion: str) -> Steadiness:
    """Measure how much a criterion's scores of unchanged answers vary between repeats.
    If nothing was judged twice, sd and jumps are NaN, and freedom and n are 0."""
    own = scores[(scores["case"] == ORIGINAL) & (scores["criterion"] == criterion)].dropna(subset=["score"])
    found = own.groupby("question_id", sort=False)["score"].agg(["size", "var", "max", "min"])
    again = found[found["size"] > 1]
    if again.empty:
        return Steadiness(math.nan, 0.0, math.nan, 0)
    # The freedom is that of a chi-squared with the same mean and variance as the sum of squares (Satterthwaite 1946,
    # Biom. Bull. 2, 110-114), but at most the number of repeats. Equal scores show
    # little about a judge whose scores sometimes jump.
    squares, most = again["var"] * (again["size"] - 1), float((again["size"] - 1).sum())
    spread = len(again) * float(squares.var(ddof=1)) if len(again) > 1 else 0.0
    freedom = min(most, 2 * float(squares.sum()) ** 2 / spread) if spread else most
    jumped = again["max"] - again["min"] > JUMP
    return Steadiness(math.sqrt(float(squares.sum()) / most), freedom, float(jumped.mean()), len(again))
