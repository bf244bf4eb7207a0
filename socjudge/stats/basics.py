"""Compute intervals, tests and correlations of plain arrays, and the summary of a frame of scores.

Questions are the unit everywhere, because an interval is about all questions that resemble the given ones.
docs/statistics.md says when each number can be believed, benchmarks/calibration.py how often it was right.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import scipy.optimize  # type: ignore[import-untyped]
import scipy.stats  # type: ignore[import-untyped]
from numpy.typing import ArrayLike, NDArray

from ..base.messages import say, sentences
from ..base.texts import fold_name, plain_name
from ..errors import ConfigError
from ..records import OVERALL as OVERALL

Floats = NDArray[np.float64]

ANSWER = ["question_id", "answer_sha256"]  # the columns that tell an answer from another
FEWEST = 10  # questions; fewer have no interval, but their lowest and highest value
MIN_QUESTIONS = 8  # common or labelled questions; with fewer, neither a judge nor a bridge is measured
ENUMERATED = 16  # up to this many questions, all sign patterns are tried: 2 ** 15 = 32,768 of them
RARE, DISASTER = 0.1, 10.0  # one question in ten with 10 points: what an interval of a mean may not know of
FAR_BELOW = 40.0  # points below the median: a disaster among good answers
MANY = 60  # questions; so many show nearly always what one in ten is like
_TINY = 1e-9


def need_columns(frame: pd.DataFrame, names: Iterable[str], who: str, maker: str) -> None:
    """Raise ConfigError if a frame lacks a column that `who` needs. `maker` is the function that makes such frames."""
    missing = [name for name in dict.fromkeys(names) if name not in frame.columns]
    if missing:
        lacking, found = ", ".join(map(repr, missing)), ", ".join(map(str, frame.columns))
        raise ConfigError(
            "{who}: the frame has no column {missing}, only {found}; take the frame from {maker}, or add the column",
            who=who,
            missing=lacking,
            found=found,
            maker=maker,
        )
    if maker == "load_scores" and "criterion" in frame and (frame["criterion"] == OVERALL).any():
        raise ConfigError(
            "{who}: a criterion is named {overall}, as is the mean over all criteria in every table; rename it "
            "in the logs",
            who=who,
            overall=OVERALL,
        )


def in_order(column: pd.Series) -> list[Any]:
    """Return the distinct values of a column, in the order of its categories or else of their first occurrence."""
    present = column.dropna().unique().tolist()
    if not isinstance(column.dtype, pd.CategoricalDtype):
        return present
    return [value for value in column.cat.categories if value in set(present)]


def by_criterion(frame: pd.DataFrame, names: Iterable[Any]) -> pd.DataFrame:
    """Return the frame with `criterion` as an ordered categorical column, with the categories `names` in this order."""
    return frame.assign(criterion=pd.Categorical(frame["criterion"], categories=list(names), ordered=True))


def low_high(name: str, interval: tuple[float, float]) -> dict[str, float]:
    """Return an interval as two cells of a row, {name}_low and {name}_high."""
    return {f"{name}_low": interval[0], f"{name}_high": interval[1]}


def plain_floats(values: pd.Series) -> pd.Series:
    """Return the values as float64, with NaN for missing ones. ConfigError if one is no number, such as "N/A" of a CSV."""
    try:
        return values.astype("Float64").astype("float64")
    except (ValueError, TypeError):
        odd = values[values.notna() & pd.to_numeric(values, errors="coerce").isna()]
        raise ConfigError(
            "the column {name} has {value!r}, which is no number; correct it, or leave the cell empty if it is missing",
            name=values.name,
            value=str(odd.iloc[0] if len(odd) else values.iloc[0])[:40],
        ) from None


def mean_interval(values: ArrayLike) -> tuple[float, float]:
    """Compute a 95 % interval for the mean score, 0–100, of independent questions; near 0 or 100 it may end beyond them. It is
    (NaN, NaN) with fewer than two values, or if all are equal: they do not show how far away the next one is."""
    # A t interval that is adjusted for skewness: Hall (1992), J. R. Stat. Soc. B 54, 221-228; Johnson (1978), J. Am. Stat.
    # Assoc. 73, 536-544. An end beyond the scale is not moved: it shows how little so few questions say.
    x = np.asarray(values, dtype=float)
    n = len(x)
    sd = float(x.std(ddof=1)) if n > 1 else 0.0
    if sd < _TINY:
        return math.nan, math.nan
    return skewed_interval(float(x.mean()), sd / math.sqrt(n), n, n - 1, sd)


def difference_interval(differences: ArrayLike) -> tuple[float, float]:
    """Compute a 95 % t interval with continuity correction for the mean of paired differences of scores, in points.
    It is (NaN, NaN) with fewer than two differences, or if all are equal. Source: Cox 1970, Biometrika 57, 217-219."""
    d = np.asarray(differences, dtype=float)
    n = len(d)
    sd = float(d.std(ddof=1)) if n > 1 else 0.0
    if sd < _TINY:
        return math.nan, math.nan
    # Scores come in steps, so the mean of n differences moves in steps too: the smallest distance between two of them,
    # divided by n. It is 1 point for ten multiples of ten, and almost 0 for means of many scores. Each end gets half.
    steps = np.diff(np.unique(d.round(6)))
    half = float(steps.min()) / (2 * n) if len(steps) else 0.0
    mean, reach = float(d.mean()), noise_reach(n - 1) / math.sqrt(n)
    return mean - sd * reach - half, mean + sd * reach + half


def skewed_interval(mean: float, error: float, n: int, freedom: int, sd: float) -> tuple[float, float]:
    """Compute Hall's 95 % t interval for a mean of `n` scores with this standard error, of this freedom.
    `sd` is that of the scores."""
    # Ten values are too few to estimate their skewness. It is therefore that of a beta distribution on the scale with
    # their mean and sd: 0 for a mean in the middle, and large for a mean near an end with a large sd. In simulations of
    # scores near 100, a larger limit than 1 gave intervals that were too wide.
    share, spread = min(max(mean, 0), 100) / 100, sd / 100
    skewness = float(np.clip(2 * (1 - 2 * share) * spread / (share * (1 - share) + spread * spread), -1, 1))
    reach = noise_reach(freedom) / math.sqrt(n)

    def end(y: float) -> float:  # solves y = w + a w² + a² w³ / 3 + skewness / 6n for w = (mean - end) / error √n
        a = skewness / 3
        w = y if abs(skewness) < _TINY else (float(np.cbrt(1 + 3 * a * (y - skewness / (6 * n)))) - 1) / a
        return mean - error * math.sqrt(n) * w

    return end(reach), end(-reach)


def pass_rate_interval(passed: float, total: int, level: float = 0.95) -> tuple[float, float]:
    """Compute the Wilson (1927) interval for a share of questions as fractions, (NaN, NaN) if `total` is 0. `passed` may
    also be the sum of `total` shares. ValueError if it is not from 0 to `total`."""
    if not 0 <= passed <= total:
        raise ValueError(
            say("{passed} of {total} is no pass rate; expected 0 <= passed <= total", passed=passed, total=total)
        )
    if not total:
        return math.nan, math.nan
    # J. Am. Stat. Assoc. 22, 209-212
    share, z2 = passed / total, float(scipy.stats.norm.ppf(0.5 + level / 2)) ** 2
    centre = (share + z2 / (2 * total)) / (1 + z2 / total)
    half = math.sqrt(z2 * (share * (1 - share) / total + z2 / (4 * total * total))) / (1 + z2 / total)
    # the interval of 0 begins at 0, and that of 1 ends at 1; rounding would miss them
    return centre - half if passed else 0.0, centre + half if passed < total else 1.0


def share_ends(share: float, n: int, alpha: float) -> tuple[float, float]:
    """Compute one-sided lower and upper limits, each of level 1 - alpha, of the mean of n shares between 0 and 1.
    Source: Clopper and Pearson (1934), Biometrika 26, 404-413."""
    # The sum of the shares may take the place of the count, because shares between 0 and 1 vary no more than counts do
    # (Hoeffding 1963, J. Am. Stat. Assoc. 58, 13-30).
    x = share * n
    low = float(scipy.stats.beta.ppf(alpha, x, n - x + 1)) if x > 0 else 0.0
    high = float(scipy.stats.beta.ppf(1 - alpha, x + 1, n - x)) if x < n else 1.0
    return low, high


def share_power(share: float, n: int, alpha: float, above: float) -> float:
    """Compute the probability that the lower limit of `share_ends` is above `above`, for the true `share`."""
    counts = [k for k in range(n + 1) if share_ends(k / n, n, alpha)[0] > above]
    return float(scipy.stats.binom.pmf(counts, n, share).sum())


def sd_ends(sd: float, freedom: float, alpha: float) -> tuple[float, float]:
    """Compute one-sided limits of the sd of normal noise, each of level 1 - alpha, by chi-squared of this freedom."""
    low, high = (sd * math.sqrt(freedom / float(scipy.stats.chi2.ppf(p, freedom))) for p in (1 - alpha, alpha))
    return low, high


def noise_reach(freedom: float) -> float:
    """Compute how many sd a value lies from the mean at most in 95 % of cases, by Student's t."""
    return float(scipy.stats.t.ppf(0.975, freedom))


def jackknife_interval(
    estimate: float, left_out: ArrayLike, *, scale: str = "plain", raters: int = 2
) -> tuple[float, float]:
    """Compute a 95 % interval for a statistic from the values that it has with each question left out in turn.
    It is (NaN, NaN) with fewer than three questions, or if a value is not finite."""
    values = np.asarray(left_out, dtype=float)
    if len(values) < 3:
        return math.nan, math.nan
    k = raters

    # The scale "agreement" is for a coefficient of agreement among k raters: Fisher's z (1925), Statistical Methods,
    # section 38.
    def transformed(r: ArrayLike) -> Floats:
        r = np.asarray(r, dtype=float)
        return np.asarray(0.5 * np.log((1 + (k - 1) * r) / (1 - r))) if scale == "agreement" else r

    with np.errstate(divide="ignore", invalid="ignore"):
        centre, moved = float(transformed(estimate)), transformed(values)
    if not (math.isfinite(centre) and np.isfinite(moved).all()):
        return math.nan, math.nan
    # The squared standard error is n / (n - 1) times the usual jackknife variance (Efron and Stein 1981, Ann. Stat. 9,
    # 586-596). With ten questions, the interval covered the true agreement of two or three judges in 93-97 % of our
    # simulations. The usual jackknife interval did so in 91-96 %.
    reach = float(scipy.stats.t.ppf(0.975, len(values) - 2) * np.sqrt(((moved - centre) ** 2).sum()))
    ends = centre - reach, centre + reach
    if scale == "plain":
        return ends
    # The tanh form of the inverse, because e^{2z} would overflow for near-perfect agreement.
    low, high = (float((e := np.tanh(z)) * 2 / (k - (k - 2) * e)) for z in ends)
    return low, high


def sign_flip_p(differences: ArrayLike, *, samples: int = 9_999, seed: int = 0) -> float:
    """Compute the two-sided p-value of the hypothesis that paired differences have mean zero, by flipping their signs.
    It is never 0, and NaN without differences. Source: Fisher (1935), The Design of Experiments, section 21."""
    d = np.asarray(differences, dtype=float)
    n = len(d)
    if n == 0:
        return math.nan
    # Without a true difference, d and -d are taken as equally likely. This holds for two judgements by one judge.
    # Sums in another order differ in the last bit.
    observed = abs(float(d.sum())) - _TINY * max(1.0, float(np.abs(d).sum()))
    if n <= ENUMERATED:
        # Exact: p is a multiple of 2 / 2ⁿ, so five differences cannot give a p below 0.0625. The other half of the
        # patterns are the negatives of these, with the same absolute sum.
        patterns = (np.arange(2 ** (n - 1))[:, None] >> np.arange(n)) & 1
        return float((np.abs((1 - 2 * patterns) @ d) >= observed).mean())
    rng = np.random.default_rng(seed)
    chunk = max(1, 2_000_000 // n)
    reached = 0
    for start in range(0, samples, chunk):
        signs = 1 - 2 * rng.integers(0, 2, (min(chunk, samples - start), n), dtype=np.int8)
        reached += int((np.abs(signs @ d) >= observed).sum())
    # The observed pattern counts as one of those drawn: Phipson and Smyth (2010), doi 10.2202/1544-6115.1585.
    return (reached + 1) / (samples + 1)


def holm_adjust(p_values: ArrayLike) -> Floats:
    """Adjust p-values for their number by Holm's step-down method. NaN stays NaN and does not count as a test.
    Source: Holm (1979), Scand. J. Stat. 6, 65-70."""
    p = np.asarray(p_values, dtype=float)
    adjusted = np.full(p.shape, math.nan)
    order = np.argsort(p)[: int(np.isfinite(p).sum())]  # NaN sorts last
    steps = p[order] * np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1)
    return adjusted


def detectable_difference(sd: float, n: int, *, alpha: float = 0.05) -> float:
    """Compute the smallest true mean difference that `n` paired differences with this sd show with probability 0.8.
    It has the unit of sd, NaN if none can be shown. Source: Cohen (1988), Statistical Power Analysis, chapter 2."""
    if n < 2 or not sd > _TINY:  # differences that do not vary do not show what could be detected
        return math.nan
    if n <= ENUMERATED:
        # The sign-flip test has only some possible levels. The largest that is not above alpha is used: for n = 10 and
        # alpha = 0.05 / 6, it is 8 / 1024.
        alpha = math.floor(alpha * 2 ** (n - 1) + _TINY) / 2 ** (n - 1)
        if alpha == 0:
            return math.nan
    freedom, line = n - 1, float(scipy.stats.t.isf(alpha / 2, n - 1))

    def lacking(shift: float) -> float:
        # The wrong direction does not count, because nobody would call that seeing the difference.
        return float(scipy.stats.nct.sf(line, freedom, shift)) - 0.8

    return float(scipy.optimize.brentq(lacking, 0, 2 * line + 2)) * sd / math.sqrt(n)


def correlation(first: Floats, second: Floats, weights: Floats | None = None) -> float:
    """Compute Pearson's correlation. It is NaN with fewer than three pairs, or if one array has only equal values."""
    if len(first) < 3 or np.ptp(first) < _TINY or np.ptp(second) < _TINY:
        return math.nan
    table = np.cov(first, second, aweights=weights)
    return float(np.clip(table[0, 1] / math.sqrt(table[0, 0] * table[1, 1]), -1, 1))


def question_means(scores: pd.DataFrame, by: Sequence[str] = ()) -> pd.DataFrame:
    """Return the mean score of each question, 0–100 or NaN, within each group of equal values in the columns `by`.
    Every answer, criterion and question has the same weight, however often it was judged."""
    question = list(dict.fromkeys([*by, "question_id"]))
    cell = list(dict.fromkeys([*question, "criterion"]))
    kept_apart = ("run_id", "judge_model", "prompt_id", "answer_sha256", "answer_repeat")
    answer = list(dict.fromkeys([*cell, *(name for name in kept_apart if name in scores.columns)]))
    means = scores.assign(score=plain_floats(scores["score"]))
    # The judge's repeats first, then the answers to a question, each criterion by itself, and last the criteria.
    for keys in (answer, cell, question):
        means = means.groupby(keys, observed=True, dropna=False)["score"].mean().reset_index()
    return means


def summarise_scores(scores: pd.DataFrame, by: str | Sequence[str] = "criterion") -> pd.DataFrame:
    """Compute mean scores with their intervals, one row per group.

    Parameters
    ----------
    scores
        One row per judged answer and criterion, from `load_scores`; columns used: those of `by`, question_id, score.
    by
        One column name or several, such as "criterion", "category", ["run_id", "criterion"]; () for a single row over
        all scores.

    Returns
    -------
    DataFrame
        If a group has no score, n is 0, and mean, sd and interval are missing.

        - the columns of `by`
        - n: questions
        - n_missing: number of missing scores
        - mean: 0–100; repeats are averaged within their question first
        - sd: of the means of the questions
        - ci_low, ci_high: 95 % interval, 0–100; missing below ten questions, as the note says
        - lowest, highest: of the means of the questions
        - note (in the language of the messages)

    Notes
    -----
    The interval is Student's t with Hall's transformation for skewness. It is about all questions that resemble these,
    and does not say how the mean changes if the same questions are asked again.

    Examples
    --------
    >>> import pandas as pd
    >>> import socjudge as sj
    >>> marks = {"question_id": [1, 1, 2, 2], "criterion": ["安全性", "簡潔性"] * 2, "score": [80, 60, 100, 70]}
    >>> sj.summarise_scores(pd.DataFrame(marks))[["criterion", "n", "mean"]]
      criterion  n  mean
    0       安全性  2  90.0
    1       簡潔性  2  65.0
    """
    columns = [by] if isinstance(by, str) else list(by)
    need_columns(scores, ["question_id", "criterion", "score", *columns], "summarise_scores", "load_scores")
    keys = columns or ["everything"]  # a constant column, which makes one group
    marks = scores.assign(everything=0, missing=scores["score"].isna())
    # Both in the order of the categories.
    unread = marks.groupby(keys, observed=True, dropna=False)["missing"].sum().tolist()
    grouped = question_means(scores, columns).assign(everything=0).groupby(keys, observed=True, dropna=False)["score"]
    known = [means.dropna().to_numpy() for _, means in grouped]
    # A t interval of fewer is wider than the scores.
    ends = [mean_interval(x) if len(x) >= FEWEST else (math.nan, math.nan) for x in known]
    notes = [_summary_note(x, missing, low) for x, missing, (low, _) in zip(known, unread, ends, strict=True)]
    table = grouped.agg(n="count", mean="mean", sd="std", lowest="min", highest="max").reset_index()
    low, high = ([end[side] for end in ends] for side in (0, 1))
    table = table.assign(n_missing=unread, ci_low=low, ci_high=high, note=notes)
    figures = ["n", "n_missing", "mean", "sd", "ci_low", "ci_high", "lowest", "highest", "note"]
    return table[[*columns, *figures]].astype({name: scores[name].dtype for name in columns})


def _summary_note(x: Floats, missing: int, low: float) -> str:
    if not len(x):
        return say("Nothing has a score (unread scores: {count}).", count=missing)
    doubt = ""
    if len(x) < FEWEST:
        doubt = say("Fewer than {least} questions have no interval, only a lowest and a highest mean.", least=FEWEST)
    elif np.ptp(x) < _TINY:
        doubt = say("All questions have the same points, so their scatter is not known and there is no interval.")
    elif np.isin(x, (0, 100)).mean() >= 0.5:
        doubt = say("At least half of them have 100 or 0 points, so the interval is rather wide.")
    rare = ""
    if len(x) < MANY and (1 - RARE) * x.mean() + RARE * DISASTER < low:
        rare = say(
            "If one answer in ten were a disaster ({points:g} points), {n} questions could show none of them (probability "
            "{p:.0%}), and the true mean would then lie below this interval.",
            points=DISASTER,
            n=len(x),
            p=(1 - RARE) ** len(x),
        )
    bad = int((x < np.median(x) - FAR_BELOW).sum())
    if len(x) < MANY and 0 < 4 * bad <= len(x):
        low_share, high_share = pass_rate_interval(bad, len(x))
        rare = say(
            "{count} of {n} questions lie more than {points:g} points below the middle one, and the mean hangs on how often "
            "that happens ({low:.0%} to {high:.0%} of all questions, 95 % interval).",
            count=bad,
            n=len(x),
            points=FAR_BELOW,
            low=low_share,
            high=high_share,
        )
    unread = say("Unread scores, not in the mean: {count}.", count=missing) if missing else ""
    return sentences(say("Questions in the mean: {n}.", n=len(x)), doubt, rare, unread)


def same_raters(labels: pd.DataFrame) -> pd.DataFrame:
    """Return the labels with one name for each person: the spelling that occurs first, or None if nothing is visible.
    Spellings of one name differ only in blanks, punctuation, width, case, invisible characters or さん."""
    spelt: dict[str, str] = {}
    names: dict[Any, str | None] = {}
    for name in labels["rater"].dropna().unique():
        plain = plain_name(str(name))
        names[name] = spelt.setdefault(fold_name(plain) or plain, plain) or None
    return labels.assign(rater=labels["rater"].astype(object).map(names))
