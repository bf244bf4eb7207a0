"""How far one judgement is from the next of the same answer, and so from where on a change is more than that."""

from __future__ import annotations

import math
from typing import NamedTuple

import pandas as pd

from ..stats.changes import repeat_limit
from .cases import ORIGINAL

LEAST = 5.0  # points: a smaller change is no finding, however steady the judge
JUMP = 10.0  # points between two judgements of an answer that are more than noise should be


def originals_of(marks: pd.DataFrame) -> pd.DataFrame:
    """The marks of the unchanged answers, one row per question and criterion: question_id, criterion, before (their
    mean) and n_before (how many; 0 where none could be read)."""
    own = marks[marks["case"] == ORIGINAL]
    found = own.groupby(["question_id", "criterion"], sort=False)["score"].agg(["mean", "count"]).reset_index()
    return found.rename(columns={"mean": "before", "count": "n_before"})


def noise_limits(marks: pd.DataFrame, *, level: float = 0.95) -> pd.DataFrame:
    """From which change on a mark has moved, one row per criterion.

    Parameters
    ----------
    marks
        Of `Judged`; the rows of unchanged answers count.
    level
        How rarely a repeat of the same call may count as moved.

    Returns
    -------
    DataFrame
        - criterion
        - sd: of single marks of one answer, pooled over answers
        - freedom: degrees of freedom of that, 0 where nothing was judged twice
        - limit: points; LEAST at least, NaN without freedom
    """
    own = marks[marks["case"] == ORIGINAL].dropna(subset=["score"])
    rows = []
    for criterion, group in own.groupby("criterion", sort=False):
        scores = group.groupby("question_id", sort=False)["score"]
        sizes, spread = scores.size(), ((group["score"] - scores.transform("mean")) ** 2).sum()
        freedom = int((sizes - 1).sum())
        sd = math.sqrt(spread / freedom) if freedom else math.nan
        limit = max(repeat_limit(sd, freedom, float(sizes.mean()), level=level), LEAST)  # NaN stays NaN
        rows.append({"criterion": criterion, "sd": sd, "freedom": freedom, "limit": limit})
    return pd.DataFrame(rows, columns=["criterion", "sd", "freedom", "limit"])


class Steadiness(NamedTuple):
    """How an unchanged answer's marks repeat. sd: points, pooled over answers; freedom: degrees of freedom, 0 for none, fewer
    where a few answers make up most of the scatter; jumps: share of the n answers whose marks differ by more than JUMP."""

    sd: float
    freedom: float
    jumps: float
    n: int


def steadiness(marks: pd.DataFrame, criterion: str) -> Steadiness:
    """How the marks of the unchanged answers repeat on a criterion; NaN where nothing was judged twice.

    Freedom is that of a chi-squared with the same mean and variance as the sum of squares (Satterthwaite 1946, Biom. Bull. 2,
    110-114), and no more than there are repeats: a judge that jumps now and then has shown little by its other marks."""
    own = marks[(marks["case"] == ORIGINAL) & (marks["criterion"] == criterion)].dropna(subset=["score"])
    found = own.groupby("question_id", sort=False)["score"].agg(["size", "var", "max", "min"])
    again = found[found["size"] > 1]
    if again.empty:
        return Steadiness(math.nan, 0.0, math.nan, 0)
    squares, most = again["var"] * (again["size"] - 1), float((again["size"] - 1).sum())
    spread = len(again) * float(squares.var(ddof=1)) if len(again) > 1 else 0.0
    freedom = min(most, 2 * float(squares.sum()) ** 2 / spread) if spread else most
    jumped = again["max"] - again["min"] > JUMP
    return Steadiness(math.sqrt(float(squares.sum()) / most), freedom, float(jumped.mean()), len(again))


def changes_of(marks: pd.DataFrame) -> pd.DataFrame:
    """The marks of changed answers against those of the unchanged: the rows of `marks` with before, n_before, after,
    change, limit and moved."""
    changed = marks[marks["case"] != ORIGINAL].merge(originals_of(marks), how="left", on=["question_id", "criterion"])
    return _moved(changed, marks)


def repeat_changes(marks: pd.DataFrame) -> pd.DataFrame:
    """The same for each repeat of an unchanged answer, against the mean of its other judgements."""
    own = marks[marks["case"] == ORIGINAL]
    groups = own.groupby(["question_id", "criterion"], sort=False)["score"]
    others = groups.transform("count") - own["score"].notna()
    before = (groups.transform("sum") - own["score"].fillna(0)) / others.where(others > 0)
    return _moved(own.assign(before=before, n_before=others)[own["variant"] > 0], marks)


def _moved(rows: pd.DataFrame, marks: pd.DataFrame) -> pd.DataFrame:
    limits = noise_limits(marks).astype({"limit": float})  # of no marks at all pandas knows no type
    found = rows.rename(columns={"score": "after"}).merge(limits, how="left", on="criterion")
    change = found["after"] - found["before"]
    return found.assign(change=change, moved=direction(change, found["limit"]))


def direction(change: pd.Series, limit: pd.Series) -> pd.Series:
    """ "fell", "rose" or "stayed" for each change in points; None where the change or its limit is unknown."""
    moved = pd.Series("stayed", index=change.index, dtype=object)
    moved[change <= -limit] = "fell"
    moved[change >= limit] = "rose"
    moved[change.isna() | limit.isna()] = None
    return moved
