"""Measure how far judgements of the same answer differ, and how large a change must be to be more than this noise."""

from __future__ import annotations

import math
from typing import NamedTuple

import pandas as pd

from ..stats.changes import repeat_limit
from .cases import ORIGINAL

LEAST = 5.0  # points; a smaller change is no finding, however steady the judge is
JUMP = 10.0  # points; two judgements of an answer that differ by more are not normal noise


def originals_of(scores: pd.DataFrame) -> pd.DataFrame:
    """Average the scores of each unchanged answer per criterion: `before` is the mean, `n_before` how many it is of."""
    own = scores[scores["case"] == ORIGINAL]
    found = own.groupby(["question_id", "criterion"], sort=False)["score"].agg(["mean", "count"]).reset_index()
    return found.rename(columns={"mean": "before", "count": "n_before"})


def noise_limits(scores: pd.DataFrame, *, level: float = 0.95) -> pd.DataFrame:
    """Return per criterion the least change of a score that counts as more than noise: `limit`, at least LEAST points.
    `sd` (points) is pooled over repeats of unchanged answers. Without repeats, `freedom` is 0 and `limit` NaN."""
    own = scores[scores["case"] == ORIGINAL].dropna(subset=["score"])
    rows = []
    for criterion, group in own.groupby("criterion", sort=False):
        by_question = group.groupby("question_id", sort=False)["score"]
        sizes, spread = by_question.size(), ((group["score"] - by_question.transform("mean")) ** 2).sum()
        freedom = int((sizes - 1).sum())
        sd = math.sqrt(spread / freedom) if freedom else math.nan
        # The share `level` of repeated judgements must not count as moved.
        limit = max(repeat_limit(sd, freedom, float(sizes.mean()), level=level), LEAST)  # NaN stays NaN
        rows.append({"criterion": criterion, "sd": sd, "freedom": freedom, "limit": limit})
    return pd.DataFrame(rows, columns=["criterion", "sd", "freedom", "limit"])


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


def changes_of(scores: pd.DataFrame) -> pd.DataFrame:
    """Compare the scores of changed answers with those before the change. `Probes` explains the columns."""
    changed = scores[scores["case"] != ORIGINAL].merge(
        originals_of(scores), how="left", on=["question_id", "criterion"]
    )
    return _moved(changed, scores)


def repeat_changes(scores: pd.DataFrame) -> pd.DataFrame:
    """Compare each repeated judgement of an unchanged answer with the mean of the others, as `changes_of` does."""
    own = scores[scores["case"] == ORIGINAL]
    groups = own.groupby(["question_id", "criterion"], sort=False)["score"]
    others = groups.transform("count") - own["score"].notna()
    before = (groups.transform("sum") - own["score"].fillna(0)) / others.where(others > 0)
    return _moved(own.assign(before=before, n_before=others)[own["variant"] > 0], scores)


def _moved(rows: pd.DataFrame, scores: pd.DataFrame) -> pd.DataFrame:
    limits = noise_limits(scores).astype({"limit": float})  # pandas cannot know the type of an empty column
    found = rows.rename(columns={"score": "after"}).merge(limits, how="left", on="criterion")
    change = found["after"] - found["before"]
    moved = pd.Series("stayed", index=change.index, dtype=object)
    moved[change <= -found["limit"]] = "fell"
    moved[change >= found["limit"]] = "rose"
    moved[change.isna() | found["limit"].isna()] = None
    return found.assign(change=change, moved=moved)
