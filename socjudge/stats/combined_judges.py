"""Combine several judges' scores of the same answers, and add the combination to the row of each single score."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ..base.messages import say
from ..base.pass_rule import reaches, row_lines
from ..errors import ConfigError
from .basics import need_columns, plain_floats

TRIMMED_FROM = 3  # judges; with fewer, nothing is left without the lowest and the highest score


def combine_judges(marks: pd.DataFrame, *, by: str = "judge_model") -> pd.DataFrame:
    """Return the same rows with further columns that combine the scores of all judges of the same answer.

    Parameters
    ----------
    marks
        One row per criterion score (`load_scores`, `run.scores_frame()`) or per judged answer (`load_results`,
        `run.results_frame()`). The answers are those that several judges judged.
    by
        The column that names a judge.

    Returns
    -------
    DataFrame
        The rows of `marks`, in their order, with further columns. Points are 0–100.

        - judges_n: number of judges whose score of this answer (and criterion) could be parsed; judges_unread: number
          of judges whose score could not be parsed
        - judges_mean, judges_median: mean and median of the judges' scores; repeats of a judge are averaged first
        - judges_trimmed: the mean without the lowest and the highest score; missing with fewer than three judges
        - judges_low, judges_high: the lowest and the highest score
        - judges_majority: whether more than half of the judges in judges_n pass the answer; missing if exactly half of
          them do, or if judges_n is 0

    Raises
    ------
    ConfigError
        If a column is missing, or there is no row.

    Notes
    -----
    An answer is identified by question_id and answer_sha256. Judges often make the same errors, so the median of three
    judges is no proof of quality. `judge_agreement` measures how far the judges agree, and `judge_vs_people` how close
    they are to people.

    Examples
    --------
    >>> import pandas as pd
    >>> import socjudge as sj
    >>> one = {"question_id": 1, "answer_sha256": "a", "criterion": "安全性"}
    >>> marks = pd.DataFrame([one | {"judge_model": name, "score": score} for name, score in zip("ABC", [90, 60, 80])])
    >>> sj.stats.combine_judges(marks)[["judge_model", "score", "judges_median", "judges_majority"]]
      judge_model  score  judges_median  judges_majority
    0           A     90           80.0             True
    1           B     60           80.0             True
    2           C     80           80.0             True
    """
    value = "score" if "criterion" in marks.columns else "average_score"
    need_columns(marks, ["question_id", "answer_sha256", by, value], "combine_judges", "load_scores")
    if marks.empty:
        raise ConfigError(say("stats.no_row_with", who="combine_judges", by=by))
    answer = ["question_id", "answer_sha256", *[name for name in ("criterion",) if name in marks.columns]]
    # Categories would be multiplied out, and those of two runs may differ.
    plain = marks[[*answer, by]].astype(object).assign(mark=plain_floats(marks[value]), line=row_lines(marks))
    each = plain.groupby([*answer, by], sort=False)["mark"].mean()
    of_answer = each.groupby(level=answer, sort=False)
    together = of_answer.agg(
        judges_n="count", judges_mean="mean", judges_median="median", judges_low="min", judges_high="max"
    )
    n = together["judges_n"]
    within = of_answer.sum() - together["judges_low"] - together["judges_high"]
    trimmed = (within / (n - 2).where(n >= TRIMMED_FROM)).clip(together["judges_low"], together["judges_high"])
    # each judge passes an answer by the pass line of its own run
    line = plain.groupby([*answer, by], sort=False)["line"].last()
    share = reaches(each - line, 0).astype(float).where(each.notna()).groupby(level=answer, sort=False).mean()
    together = together.assign(
        judges_unread=of_answer.size() - n,
        judges_trimmed=trimmed,
        judges_majority=(share > 0.5).astype("boolean").mask(share.isna() | np.isclose(share, 0.5)),
    )
    found = together.loc[pd.MultiIndex.from_frame(plain[answer])].reset_index(drop=True)
    points = {name: "Float64" for name in found.columns if found[name].dtype == float}
    return marks.assign(**{name: found.astype(points)[name].array for name in found.columns})
