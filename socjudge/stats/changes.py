"""Tell when a change of marks is more than noise, how often changes happen, and whether two sets of marks are equal."""

from __future__ import annotations

import math

import numpy as np
import scipy.stats  # type: ignore[import-untyped]
from numpy.typing import ArrayLike


def repeat_limit(sd: float, freedom: int, repeats: float, *, level: float = 0.95) -> float:
    """Return how far a single mark is at most from the mean of `repeats` others of its answer, in `level` of the cases.

    sd: of single marks, points, estimated with `freedom` degrees of freedom. Returns NaN if freedom is below 1, because
    then nobody knows the noise. It is the prediction interval of one more observation, t · sd · sqrt(1 + 1 / repeats).
    """
    if freedom < 1:
        return math.nan
    return float(scipy.stats.t.ppf(0.5 + level / 2, freedom)) * sd * math.sqrt(1 + 1 / repeats)


def share_interval(share: float, n: int, *, level: float = 0.95) -> tuple[float, float]:
    """Compute Wilson's interval for a mean share of n answers, as (low, high), 0–1; NaN for no answers.

    Unlike `pass_rate_interval` it accepts a share between two counts, which occurs if only some places of an answer
    moved. Source: Wilson (1927), J. Am. Stat. Assoc. 22, 209-212.
    """
    if not n:
        return math.nan, math.nan
    z2 = float(scipy.stats.norm.ppf(0.5 + level / 2)) ** 2
    centre = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = math.sqrt(z2 * (share * (1 - share) / n + z2 / (4 * n * n))) / (1 + z2 / n)
    return max(0.0, centre - half), min(1.0, centre + half)


def equivalence_p(differences: ArrayLike, margin: float) -> float:
    """Return the p that the mean of paired differences is not within `margin` points of 0.

    It is the larger p of two one-sided t tests. Returns NaN with fewer than two differences, and if all are equal: they
    do not say how far away the next would be. Source: Schuirmann (1987), J. Pharmacokinet. Biopharm. 15, 657-680.
    """
    d = np.asarray(differences, dtype=float)
    if len(d) < 2 or np.ptp(d) == 0:
        return math.nan
    se, freedom = float(d.std(ddof=1)) / math.sqrt(len(d)), len(d) - 1
    above, below = (
        scipy.stats.t.sf((d.mean() + margin) / se, freedom),
        scipy.stats.t.cdf((d.mean() - margin) / se, freedom),
    )
    return float(max(above, below))


def share_ends(share: float, n: int, alpha: float) -> tuple[float, float]:
    """Compute the one-sided lower and upper ends, each of level 1 - alpha, of a mean share over n answers.

    Clopper and Pearson (1934), Biometrika 26, 404-413, with the sum of the shares in place of the count: shares between
    0 and 1 vary no more than counts do (Hoeffding 1963, J. Am. Stat. Assoc. 58, 13-30).
    """
    x = share * n
    low = float(scipy.stats.beta.ppf(alpha, x, n - x + 1)) if x > 0 else 0.0
    high = float(scipy.stats.beta.ppf(1 - alpha, x + 1, n - x)) if x < n else 1.0
    return low, high


def share_power(share: float, n: int, alpha: float, above: float) -> float:
    """Compute how likely n answers show by `share_ends` that the share is above the limit `above`.

    share: the chance of each answer to count.
    """
    counts = [k for k in range(n + 1) if share_ends(k / n, n, alpha)[0] > above]
    return float(scipy.stats.binom.pmf(counts, n, share).sum())


def sd_ends(sd: float, freedom: float, alpha: float) -> tuple[float, float]:
    """Compute the one-sided lower and upper ends, each of level 1 - alpha, of the sd of normal noise, by chi-squared.

    freedom: the degrees of freedom with which sd was estimated.
    """
    low, high = (sd * math.sqrt(freedom / float(scipy.stats.chi2.ppf(p, freedom))) for p in (1 - alpha, alpha))
    return low, high
