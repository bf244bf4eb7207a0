"""How far one judgement is from the next of the same answer, and so from where on a change is more than that."""

from __future__ import annotations

import math

import pandas as pd

from ..stats.changes import repeat_limit
from .cases import ORIGINAL

LEAST = 5.0  # points: a smaller change is no finding, however steady the judge


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
