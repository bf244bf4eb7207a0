"""Estimate the scores that people would give to many answers, from a judge's scores of all and people's scores of a
few.

The judge's scores of all answers narrow the interval, and people's scores correct the judge's bias. If the judge's
scores do not help, the estimate comes from people's scores alone. People's scores are called labels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy.stats  # type: ignore[import-untyped]
from numpy.typing import ArrayLike

from ..base.messages import say, sentences
from ..base.pass_rule import frame_rule, reaches
from .basics import (
    MIN_QUESTIONS,
    Floats,
    by_criterion,
    correlation,
    low_high,
    mean_interval,
    pass_rate_interval,
    skewed_interval,
)
from .people import beside_people, check_count

MIN_AGREED = 20  # labels that all have the judge's verdict; with only ten, the narrow interval covers too little
MANY_LABELS = 60  # with fewer labels that mostly are one score, the interval of a mean covers too little
WIDEST = 1.25  # a corrected interval that is this much wider than that of the labels alone is not used
_CHANCE = 0.001  # three tests at this level call a random draw a chosen one in at most 3 of 1,000 cases
_FLOOR = 0.05  # added to the variance p (1 - p) for the ends of the scale; 0.05 to 0.1 were best in simulations
_TINY = 1e-9


class Corrected(NamedTuple):
    """Hold an estimate with its interval, and the interval that people's scores (labels) alone give."""

    estimate: float
    low: float
    high: float
    labels_low: float
    labels_high: float
    correlation: float  # of the labels and the judge's scores; NaN if all values of one side are equal
    weight: float  # of the judge's scores; 0 if they do not help, and both intervals are then equal


def corrected_mean(labels: ArrayLike, judged: ArrayLike, all_judged: ArrayLike) -> Corrected:
    """Estimate the mean, 0–100, that people would give to all units (questions), from labels of a few random ones.
    `judged` has the judge's scores of the labelled units, `all_judged` its scores of all units."""
    y, f, everything = (np.asarray(x, dtype=float) for x in (labels, judged, all_judged))
    n = len(y)
    alone = mean_interval(y)
    mean = float(y.mean()) if n else math.nan
    r = correlation(y, f)
    # The result wherever the judge's scores do not help (arXiv 2505.20178, 2025).
    plain = Corrected(mean, *alone, *alone, r, 0.0)
    if n < MIN_QUESTIONS or len(everything) <= n or not r >= 1 / math.sqrt(n - 2) or math.isnan(alone[0]):
        return plain
    # The weight of least variance (PPI++: Angelopoulos, Duchi and Zrnic 2023, arXiv 2311.01453). It is the slope,
    # because the labelled units are among all units.
    w, spread = regression(y, f, everything)
    if spread < _TINY:
        return plain  # residuals that do not vary say nothing about the next one
    estimate = mean + w * float(everything.mean() - f.mean())
    # The variance of the labels around the line, and that of the mean of all the judge's scores.
    se = math.sqrt(spread / n + w * w * float(everything.var(ddof=1)) / len(everything))
    low, high = skewed_interval(estimate, se, n, n - 2, math.sqrt(spread))
    if high - low > WIDEST * (alone[1] - alone[0]):
        return plain
    return Corrected(min(max(estimate, 0), 100), low, high, *alone, r, w)


def regression(y: Floats, f: Floats, everything: Floats, *, weights: Floats | None = None) -> tuple[float, float]:
    """Compute the slope of the labels `y` on the judge's scores `f`, and the variance of labels around this line.
    The variance is that over all units; `everything` has the judge's scores of them. The weights are 1 on average."""
    n = len(y)
    v = np.ones(n) if weights is None else weights
    mean = float((v * y).mean())
    d = f - (v * f).mean()
    squares = float((v * d**2).sum())
    w = float((v * d) @ (y - mean)) / squares
    fitted = mean + w * d
    # For each unit, the line comes from the other units (cross-fitting): MacKinnon and White (1985), J. Econom. 29,
    # 305-325.
    left_out = v * (y - fitted) / np.maximum(1 - v / n - v * d**2 / squares, _TINY)
    # The variance that these residuals imply over all units. The larger of the two variances counts.
    implied = float((left_out**2 / _binomial_shape(fitted)).sum()) * float(
        _binomial_shape(mean + w * (everything - (v * f).mean())).mean()
    )
    return w, max(float((left_out**2).sum()), implied) / (n - 1)


def _binomial_shape(marks: Floats) -> Floats:
    """Labels vary least at the ends of the scale: in proportion to p (1 - p) plus a constant, for p = score / 100."""
    p = (marks / 100).clip(0, 1)
    return np.asarray(p * (1 - p) + _FLOOR)


def corrected_rate(labels: ArrayLike, judged: ArrayLike, all_judged: ArrayLike) -> Corrected:
    """Estimate the share that people would pass, from people's verdicts of a few units and the judge's verdicts of all.
    The labelled units are drawn at random, or at random within those that the judge passes and those that it fails."""
    y, f, everything = (np.asarray(x, dtype=bool) for x in (labels, judged, all_judged))
    n = len(y)
    alone = pass_rate_interval(int(y.sum()), n)
    r = correlation(y.astype(float), f.astype(float))
    plain = Corrected(float(y.mean()) if n else math.nan, *alone, *alone, r, 0.0)
    if n < MIN_QUESTIONS or len(everything) <= n or not r >= 1 / math.sqrt(n - 2):
        return plain
    # The mean of two rates, weighted by the shares of their groups in all units: people's pass rate of what the judge
    # passes, and of what it fails. It equals the estimate of `corrected_mean` for verdicts 0 and 1. Rogan and Gladen's
    # formula (1978, Am. J. Epidemiol. 107, 71-76), which arXiv 2511.21140 builds on, divides by tpr + tnr - 1, which is
    # not known to be above 0 at ten labels.
    share = float(everything.mean())
    z = float(scipy.stats.norm.ppf(0.975))
    # With few labels, a rate of 0 or 1 has no variance of its own, so the intervals are those of Jeffreys (Brown, Cai
    # and DasGupta 2001, Stat. Sci. 16, 101-133). They are too wide if many labels all have the judge's verdict.
    interval = _unanimous if n >= MIN_AGREED and bool((y == f).all()) else _jeffreys
    rates, down, up = [], 0.0, 0.0
    for part, weight in ((y[f], share), (y[~f], 1 - share)):
        rate, (low, high) = float(part.mean()), interval(int(part.sum()), len(part))
        rates.append(rate)
        down += (weight * (rate - low)) ** 2
        up += (weight * (high - rate)) ** 2
    # MOVER joins them with the variance of the judge's share: Zou and Donner (2008), Stat. Med. 27, 1693-1702.
    gap = rates[0] - rates[1]
    sampling = (z * gap) ** 2 * share * (1 - share) / len(everything)
    estimate = share * rates[0] + (1 - share) * rates[1]
    # A share lies between 0 and 1, as the intervals of both rates do; only their joining can miss that.
    low, high = max(estimate - math.sqrt(down + sampling), 0.0), min(estimate + math.sqrt(up + sampling), 1.0)
    if high - low > WIDEST * (alone[1] - alone[0]):
        return plain
    return Corrected(estimate, low, high, *alone, r, gap)


def _jeffreys(hits: int, total: int) -> tuple[float, float]:
    low, high = scipy.stats.beta.ppf([0.025, 0.975], hits + 0.5, total - hits + 0.5)
    return (float(low) if hits else 0.0), (float(high) if hits < total else 1.0)


def _unanimous(hits: int, total: int) -> tuple[float, float]:
    """Compute the likelihood ratio interval of a rate of which none or all of the `total` units are hits."""
    reach = math.exp(-float(scipy.stats.chi2.ppf(0.95, 1)) / 2 / total)
    return (reach, 1.0) if hits else (0.0, 1 - reach)


def corrected_means(scores: pd.DataFrame, labels: pd.DataFrame) -> pd.DataFrame:
    """Estimate the mean score that people would give to all judged answers, from people's scores (labels) of a few.

    There is one row per judge and criterion, and one row (総合) for the mean over the criteria. The intervals are of 95 %.

    Parameters
    ----------
    scores
        One row per judged answer and criterion, from `load_scores`: of the labelled answers and of many more.
    labels
        People's scores, from `load_labels`, of 10 to 40 answers that were drawn at random.

    Returns
    -------
    DataFrame
        - judge_model, criterion
        - n: labelled questions; n_judged: questions with a score of the judge; n_missing: judged answers without a
          score
        - judge_mean: the judge's mean over all questions, 0–100; label_mean: people's mean over the labelled questions
        - mean, ci_low, ci_high: the estimate of people's mean over all questions, 0–100
        - correlation: of people's scores and the judge's scores over the labelled questions
        - weight: of the judge's scores; 0 if the labels alone are used
        - note (in the language of the messages)

    Raises
    ------
    ConfigError
        If no criterion has 8 labelled questions, or if all labels are of answers or criteria that the judge did not
        judge.

    Notes
    -----
    The unit is the question: the answers to one question are averaged, the labelled answers and all judged answers
    separately. The interval is about all questions that resemble these. The estimate is the mean label + w (the judge's
    mean over all questions - its mean over the labelled questions) with the weight w. Sources:
    `socjudge.stats.correction.corrected_mean`. benchmarks/statistics.md says how often the interval is right.

    The labels alone are used if there are fewer than 8, if they are all equal, if all questions are labelled, if the
    correlation is below 1 / √(n - 2), or if the interval would be more than 1.25 times as wide as that of the labels
    alone. The mean is biased if the labelled answers were chosen by their scores, and misses rare failures if fewer than
    60 labels mostly are the same score. `note` then says so. `corrected_pass_rate` is right in the second case.

    Examples
    --------
    >>> import pandas as pd
    >>> import socjudge as sj
    >>> one = pd.DataFrame({"question_id": range(60), "answer_sha256": range(60), "criterion": "安全性"})
    >>> scores = one.assign(judge_model="A", score=[(37 * q) % 61 + 35 for q in range(60)])
    >>> labels = one.head(12).assign(rater="佐藤", score=scores["score"].head(12) - 5 + one["question_id"] % 2)
    >>> found = sj.stats.corrected_means(scores, labels).query("criterion == '安全性'")
    >>> found[["n", "n_judged", "label_mean", "mean", "ci_low", "ci_high"]].round(1)
        n  n_judged  label_mean  mean  ci_low  ci_high
    0  12        60        56.1  60.6    55.4     65.8
    """
    return _corrected(scores, labels, "mean", _mean_of)


def corrected_pass_rate(scores: pd.DataFrame, labels: pd.DataFrame) -> pd.DataFrame:
    """Estimate the share of all judged answers that people would pass, from people's scores (labels) of a few.

    There is one row per judge and criterion.

    Parameters
    ----------
    scores, labels
        As in `corrected_means`. The labelled answers may also be drawn at random among those that the judge passes, and
        among those that it fails.

    Returns
    -------
    DataFrame
        - judge_model; criterion: 総合 is the mean over the criteria, which decides whether an answer passes
        - n: labelled answers; n_judged: answers with a score of the judge; n_missing: judged answers without a score
        - judge_rate: share of all answers that the judge passes; label_rate: share of the labelled answers that people
          pass
        - rate, ci_low, ci_high: the estimated share of all answers that people would pass
        - correlation: of people's verdicts and the judge's verdicts
        - weight: people's pass rate of the answers that the judge passes minus that of the answers that it fails; 0 if
          the labels alone are used
        - note (in the language of the messages)

    Raises
    ------
    ConfigError
        As `corrected_means`, with labelled answers in place of questions.

    Notes
    -----
    The unit is the answer; the interval is too narrow if a question has several answers. Formula and sources:
    `socjudge.stats.correction.corrected_rate`. The labels alone are used in the same cases as in
    `corrected_means`, and if the judge gives all labelled answers the same verdict.

    Examples
    --------
    >>> import pandas as pd
    >>> import socjudge as sj
    >>> one = pd.DataFrame({"question_id": range(60), "answer_sha256": range(60), "criterion": "安全性"})
    >>> scores = one.assign(judge_model="A", score=[(37 * q) % 61 + 35 for q in range(60)])
    >>> labels = one.head(16).assign(rater="佐藤", score=scores["score"].head(16) - 5)
    >>> found = sj.stats.corrected_pass_rate(scores, labels).query("criterion == '安全性'")
    >>> found[["n", "n_judged", "judge_rate", "label_rate", "rate"]].round(2)
        n  n_judged  judge_rate  label_rate  rate
    0  16        60        0.43        0.25  0.29
    """
    return _corrected(scores, labels, "rate", _rate_of)


_WHO = {"mean": "corrected_means", "rate": "corrected_pass_rate"}


def _corrected(scores: pd.DataFrame, labels: pd.DataFrame, of: str, estimate: Any) -> pd.DataFrame:
    who, line = _WHO[of], frame_rule(scores).line
    rows = []
    for judge, side in beside_people(scores, labels, who).items():
        for criterion in side.judge.columns:
            marks = side.judge[criterion]
            found, y, everything, doubt = estimate(marks.dropna(), side.people[criterion].dropna(), line)
            rows.append(
                {
                    "judge_model": judge,
                    "criterion": criterion,
                    "n": len(y),
                    "n_judged": len(everything),
                    "n_missing": int(marks.isna().sum()),
                    f"judge_{of}": float(everything.mean()) if len(everything) else math.nan,
                    f"label_{of}": float(y.mean()) if len(y) else math.nan,
                    of: found.estimate,
                    **low_high("ci", (found.low, found.high)),
                    "correlation": found.correlation,
                    "weight": found.weight,
                    "note": sentences(_note(found, len(y), len(everything)), doubt, side.unused),
                }
            )
    check_count(max((row["n"] for row in rows), default=0), who)
    frame = pd.DataFrame(rows)
    return by_criterion(frame, dict.fromkeys(frame["criterion"]))


# with people's values, all the judge's values, and a note of doubt
_Estimated = tuple[Corrected, pd.Series, pd.Series, str]


def _mean_of(judge: pd.Series, people: pd.Series, line: float) -> _Estimated:
    labelled = people.index.intersection(judge.index)
    f, y = (x[labelled].groupby(level=0).mean() for x in (judge, people))
    everything = judge.groupby(level=0).mean()
    # Few labels that mostly are one score do not show rare other scores. benchmarks/statistics.md says how often.
    n, same, doubt = len(y), int(y.value_counts().max()) if len(y) else 0, ""
    if n < MANY_LABELS and 2 * same > n:
        doubt = say(
            "{same} of {n} labels are one score: rare failures may not be among them, and the interval of the mean "
            "may be too narrow. Use that of the pass rate (corrected_pass_rate), or label 60.",
            n=n,
            same=same,
        )
    rest = everything[everything.index.difference(y.index)]
    return corrected_mean(y, f, everything), y, everything, sentences(doubt, _chosen_told(line, (f, rest)))


def _rate_of(judge: pd.Series, people: pd.Series, line: float) -> _Estimated:
    labelled = people.index.intersection(judge.index)
    f, y, everything = (reaches(x, line) for x in (judge[labelled], people[labelled], judge))
    doubt = ""
    if judge.index.get_level_values(0).has_duplicates:
        doubt = say("Some questions have several answers, so the interval may be too narrow.")
    # Here, those that the judge passes and those that it fails may have been drawn separately.
    sides = judge[labelled], judge[judge.index.difference(labelled)]
    passed, failed = ([x[reaches(x, line) == verdict] for x in sides] for verdict in (True, False))
    doubt = sentences(doubt, _chosen_told(line, passed, failed))
    return corrected_rate(y, f, everything), y, everything, doubt


def is_chosen(labelled: ArrayLike, rest: ArrayLike, line: float) -> bool:
    """Return whether the judge's scores show that the labelled units were not drawn at random: they are higher or lower than
    the rest, nearer to the pass line, or more alike. Source: Mann and Whitney (1947), Ann. Math. Stat. 18, 50-60."""
    f, others = np.asarray(labelled, dtype=float), np.asarray(rest, dtype=float)
    if len(f) < 2 or len(others) < 2:
        return False
    middle = float(np.median(np.concatenate([f, others])))
    views = [(f, others), *((abs(f - at), abs(others - at)) for at in (line, middle))]
    return any(float(scipy.stats.mannwhitneyu(*sides).pvalue) < _CHANCE for sides in views)


def _chosen_told(line: float, *sides: Sequence[ArrayLike]) -> str:
    if not any(is_chosen(labelled, rest, line) for labelled, rest in sides):
        return ""
    return say(
        "The judge's scores of the labelled ones are unlike those of the rest (p < {p:g}), so they were not drawn at "
        "random, and the estimate is not to be believed. Label some that are drawn at random.",
        p=_CHANCE,
    )


def _note(found: Corrected, n: int, total: int) -> str:
    # a correlation that is too low or unknown, too few labels, or nothing else to estimate: the columns show which
    why = "" if found.weight else say("The judge's scores cannot narrow this, so it is from the labels alone.")
    return sentences(say("People labelled {n} of {total}.", n=n, total=total), why)
