"""Measure how far several judges or people agree on the points, and on which answers pass.

Questions are the unit (docs/statistics.md), so the intervals are computed by leaving out one question at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from ..base.messages import say, sentences
from ..base.pass_rule import frame_rule, reaches
from ..errors import ConfigError
from .basics import (
    ANSWER,
    OVERALL,
    Floats,
    by_criterion,
    in_order,
    jackknife_interval,
    low_high,
    need_columns,
    plain_floats,
    same_raters,
)

Whole = NDArray[np.int64]

BLOCKS = 200  # with more questions than this, the jackknife leaves out several at a time
_VARIES = 1e-12  # squared points; smaller values are rounding errors


def krippendorff_alpha(ratings: ArrayLike) -> float:
    """Compute Krippendorff's alpha for interval data, with a row per answer, a column per rater and NaN for no rating.
    1 is perfect agreement, 0 is chance. It is NaN if no row has two ratings, or if all ratings are equal."""
    # Krippendorff (2011), Computing Krippendorff's Alpha-Reliability, section D,
    # https://repository.upenn.edu/asc_papers/43
    x = np.asarray(ratings, dtype=float)
    x = x[np.isfinite(x).sum(axis=1) >= 2]
    counts = np.isfinite(x).sum(axis=1)
    total = int(counts.sum())
    if total == 0:
        return math.nan
    # The sum of squared differences over all pairs of m values is 2 m times their sum of squares around the mean.
    within = np.nansum((x - np.nanmean(x, axis=1, keepdims=True)) ** 2, axis=1)
    observed = float((2 * counts * within / (counts - 1)).sum()) / total
    expected = 2 * float(np.nansum((x - np.nanmean(x)) ** 2)) / (total - 1)
    return 1 - observed / expected if expected > _VARIES else math.nan


def fleiss_kappa(labels: ArrayLike) -> float:
    """Compute Fleiss' kappa of the labels, with a row per answer and a column per rater; NaN if all are the same.
    Source: Fleiss (1971), Psychol. Bull. 76, 378-382."""
    x = np.asarray(labels)
    kinds = np.unique(x)
    if len(kinds) < 2 or x.shape[1] < 2:
        return math.nan
    k = x.shape[1]
    counts = (x[:, :, None] == kinds).sum(axis=1)
    observed = float(((counts * (counts - 1)).sum(axis=1) / (k * (k - 1))).mean())
    chance = float((counts.mean(axis=0) / k) @ (counts.mean(axis=0) / k))
    return (observed - chance) / (1 - chance)


def judge_agreement(
    scores: pd.DataFrame,
    labels: pd.DataFrame | None = None,
    *,
    by: str = "judge_model",
) -> pd.DataFrame:
    """Measure how far judges (and people) agree, all of them together. The intervals are of 95 %.

    There is one row per criterion, and one row (総合) for the mean over the criteria. For two of several judges, give
    their rows alone.

    Parameters
    ----------
    scores
        One row per judged answer and criterion, from `load_scores`. Repeats of a rater are averaged.
    labels
        People's scores, from `load_labels`.
    by
        The column of `scores` that names the raters, such as judges; "rater" for people's scores. "again" compares the
        first and the second score that the same person gave an answer (`LabelPanel(repeats=5)`): no judge can agree
        with people better than they agree with themselves.

    Returns
    -------
    DataFrame
        - criterion
        - n_raters
        - n: answers that at least two raters scored
        - n_complete: answers that all raters scored; all columns about verdicts use only these
        - n_missing: number of missing scores
        - alpha, alpha_low, alpha_high: Krippendorff's alpha for interval data, and its interval
        - verdict_agreement: how often two raters give an answer the same verdict by the pass line, as a share
        - base_rate: share of the verdicts that are a pass
        - kappa: Fleiss' kappa of the verdicts
        - note (in the language of the messages)

    Raises
    ------
    ConfigError
        If there are fewer than two raters, or if no answer was scored by two of them.

    Notes
    -----
    The interval of alpha comes from leaving out one question at a time (`socjudge.stats.basics.jackknife_interval`).
    Sources of the coefficients: `krippendorff_alpha` and `fleiss_kappa` in `socjudge.stats.agreement`.

    Examples
    --------
    >>> import pandas as pd
    >>> import socjudge as sj
    >>> one = pd.DataFrame({"question_id": range(4), "answer_sha256": range(4), "criterion": "安全性"})
    >>> two = [one.assign(judge_model="A", score=[90, 80, 40, 10]), one.assign(judge_model="B", score=[80, 80, 50, 10])]
    >>> sj.judge_agreement(pd.concat(two))[["criterion", "n", "alpha", "verdict_agreement"]].round(2)
      criterion  n  alpha  verdict_agreement
    0       安全性  4   0.98                1.0
    1        総合  4   0.98                1.0
    """
    ratings = _ratings(scores, labels, by)
    lines, own = rater_lines(scores, by), frame_rule(scores).line
    # people are taken by the latest run's line
    lines = dict.fromkeys(ratings["rater"].cat.categories, own) | lines
    rows = [
        {"criterion": name, **_row(ratings[ratings["criterion"] == name], lines)}
        for name in in_order(ratings["criterion"])
    ]
    return by_criterion(pd.DataFrame(rows), ratings["criterion"].cat.categories)


def rater_lines(scores: pd.DataFrame, by: str) -> dict[Any, float]:
    """Return {value of `by`: its pass line}. People have none, and are taken by that of the judge beside them."""
    return {value: frame_rule(scores[scores[by] == value]).line for value in scores[by].dropna().unique()}


def _ratings(scores: pd.DataFrame, labels: pd.DataFrame | None, by: str) -> pd.DataFrame:
    """Return one row per rater, answer and criterion, and per rater and answer one for the mean over criteria (総合)."""
    who = "judge_agreement"
    need_columns(scores, [by, *ANSWER, "criterion", "score"], who, "load_scores")
    if by == "again":  # the answers of each person apart, with the first score before the second
        need_columns(scores, ["rater"], who, "load_labels")
        scores = same_raters(scores.sort_values("again", kind="stable"))
        scores = scores.assign(answer_sha256=scores["answer_sha256"].astype(str) + " " + scores["rater"].astype(str))
    parts = [same_raters(scores) if by == "rater" else scores.assign(rater=scores[by])]
    if labels is not None:
        need_columns(labels, ["rater", *ANSWER, "criterion", "score"], f"{who}, labels", "load_labels")
        labels = same_raters(labels)
        if both := set(labels["rater"]) & set(scores[by]):  # otherwise both would be averaged as repeats of one rater
            raise ConfigError(
                "judge_agreement: {names} scores as a judge and in labels; rename the rater's file",
                names=", ".join(sorted(both)),
            )
        parts.append(labels)
    columns = ["rater", *ANSWER, "criterion", "score"]
    # Two frames have different categories, so the names are joined as plain objects.
    names = dict.fromkeys(["rater", "answer_sha256", "criterion"], object)
    found = pd.concat([part[columns].astype(names) for part in parts], ignore_index=True).dropna(subset=columns[:-1])
    # Numbers and categories are grouped many times as fast as texts.
    score = plain_floats(found["score"])
    marks = pd.DataFrame(
        {
            "rater": pd.Categorical(found["rater"], categories=found["rater"].unique()),
            "question": pd.factorize(found["question_id"])[0],
            "answer": found.groupby(ANSWER, sort=False).ngroup(),
            "criterion": pd.Categorical(found["criterion"], categories=found["criterion"].unique()),
            "score": score,
            "missing": score.isna(),
        }
    )
    keys = ["rater", "question", "answer", "criterion"]
    marks = marks.groupby(keys, as_index=False, sort=False, observed=True).agg({"score": "mean", "missing": "sum"})
    raters = marks["rater"].nunique()
    if marks.empty:
        raise ConfigError("judge_agreement: there are no scores; widen the filters, or load runs that have results")
    if by == "again" and not marks.duplicated(["answer", "criterion"]).any():
        raise ConfigError(
            "judge_agreement: no answer was scored twice by the same person; have five scored again with "
            "LabelPanel(repeats=5)"
        )
    if raters < 2:
        raise ConfigError(
            "judge_agreement: there is one rater, {by} {rater!r}; add scores of another, or labels",
            by=by,
            rater=marks["rater"].iloc[0],
        )
    if not marks.duplicated(["answer", "criterion"]).any():
        raise ConfigError(
            "judge_agreement: no answer was rated by two of the {raters} raters; use rejudge(run, judge_model=…), which "
            "scores the stored answers of a run again",
            raters=raters,
        )
    # The mean over criteria can only be compared if raters used the same criteria.
    shared = marks.groupby("criterion", observed=True)["rater"].nunique()
    common = marks[marks["criterion"].isin(shared[shared == raters].index)]
    grouped = common.groupby(["rater", "question", "answer"], sort=False, observed=True)
    complete = grouped["score"].count() == common["criterion"].nunique()
    overall = grouped.agg({"score": "mean", "missing": "sum"})
    overall = overall.assign(score=overall["score"].where(complete), criterion=OVERALL).reset_index()
    column = scores["criterion"]
    known = list(column.cat.categories) if isinstance(column.dtype, pd.CategoricalDtype) else []
    present = list(marks["criterion"].cat.categories)
    order = dict.fromkeys([*(name for name in known if name in present), *present, OVERALL])
    return pd.concat([by_criterion(part, order) for part in (marks, overall)], ignore_index=True)


def _table(part: pd.DataFrame, raters: list[Any]) -> tuple[Floats, Whole]:
    """Return the scores with one row per answer, one column per rater, and the number of each row's question."""
    answer, answers = pd.factorize(part["answer"])
    table, question = np.full((len(answers), len(raters)), math.nan), np.zeros(len(answers), dtype=np.int64)
    table[answer, part["rater"].cat.set_categories(raters).cat.codes] = part["score"]
    question[answer] = part["question"]
    return table, question


def without_each(statistic: Callable[[Floats], float], table: Floats, question: Whole) -> Floats:
    """Return the statistic of the rows without each question in turn, or without each of BLOCKS blocks."""
    block = question % BLOCKS
    return np.array([statistic(table[block != one]) for one in range(int(block.max(initial=-1)) + 1)])


def _row(part: pd.DataFrame, lines: Mapping[Any, float]) -> dict[str, Any]:
    raters = list(part["rater"].unique())
    table, question = _table(part, raters)
    kept = np.isfinite(table).sum(axis=1) >= 2  # their questions are numbered anew from 0
    table, question = table[kept], pd.factorize(question[kept])[0]
    full = table[np.isfinite(table).all(axis=1)]
    k = table.shape[1]
    alpha, left_out = krippendorff_alpha(table), without_each(krippendorff_alpha, table, question)
    passed = reaches(full, np.array([lines[rater] for rater in raters]))
    pairs = [float((passed[:, i] == passed[:, j]).mean()) for i, j in combinations(range(k), 2)] if len(full) else []
    row: dict[str, Any] = {
        "n_raters": k,
        "n": len(table),
        "n_complete": len(full),
        "n_missing": int(part["missing"].sum()),
        "alpha": alpha,
        **low_high("alpha", jackknife_interval(alpha, left_out, scale="agreement", raters=k)),
        "verdict_agreement": float(np.mean(pairs)) if pairs else math.nan,
        "base_rate": float(passed.mean()) if len(full) else math.nan,
        "kappa": fleiss_kappa(passed) if len(full) else math.nan,
    }
    questions = int(question.max(initial=-1)) + 1
    return {**row, "note": verdict_note(questions, row["kappa"], row["base_rate"], row["n_missing"])}


def verdict_note(questions: int, kappa: float, base_rate: float, missing: int) -> str:
    doubt = ""
    if math.isnan(kappa) and not math.isnan(base_rate):
        doubt = say("Everybody gave all answers the same verdict, so κ is not defined.")
    elif base_rate > 0.9 or base_rate < 0.1:
        doubt = say("Nearly all verdicts are the same, so agreement comes out high and κ low; look at both.")
    unread = say("Unread scores, left out: {count}.", count=missing) if missing else ""
    return sentences(say("Questions: {n}.", n=questions), doubt, unread)
