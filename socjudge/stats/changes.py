"""Changes of a mark: from where on one is more than noise, how often they happen, and whether two sets are the same."""

from __future__ import annotations

import math

import numpy as np
import scipy.stats  # type: ignore[import-untyped]
from numpy.typing import ArrayLike


def repeat_limit(sd: float, freedom: int, repeats: float, *, level: float = 0.95) -> float:
    """How far a single mark is from the mean of `repeats` others of the same answer, at most, in `level` of the cases.

    sd: of single marks, points, estimated with that many degrees of freedom. NaN without any: then nobody knows. It is
    the prediction interval of one more observation, t · sd · sqrt(1 + 1 / repeats)."""
    if freedom < 1:
        return math.nan
    return float(scipy.stats.t.ppf(0.5 + level / 2, freedom)) * sd * math.sqrt(1 + 1 / repeats)


def share_interval(share: float, n: int, *, level: float = 0.95) -> tuple[float, float]:
    """Wilson's interval for a mean share of n answers, as (low, high), 0–1; NaN for none.

    Unlike `pass_rate_interval` it takes a share between two counts: of answers in which only some places moved.
    Source: Wilson (1927), J. Am. Stat. Assoc. 22, 209-212."""
    if not n:
        return math.nan, math.nan
    z2 = float(scipy.stats.norm.ppf(0.5 + level / 2)) ** 2
    centre = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = math.sqrt(z2 * (share * (1 - share) / n + z2 / (4 * n * n))) / (1 + z2 / n)
    return max(0.0, centre - half), min(1.0, centre + half)


def equivalence_p(differences: ArrayLike, margin: float) -> float:
    """The larger p of two one-sided t tests that the mean of paired differences lies within `margin` points of 0.

    NaN with fewer than two, and where all are equal: they do not say how far the next would be.
    Source: Schuirmann (1987), J. Pharmacokinet. Biopharm. 15, 657-680."""
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
    """The one-sided lower and upper ends, each of level 1 - alpha, of a mean share over n answers.

    Clopper and Pearson (1934), Biometrika 26, 404-413, with the sum of the shares in place of the count: shares between
    0 and 1 scatter no more than counts do (Hoeffding 1963, J. Am. Stat. Assoc. 58, 13-30)."""
    x = share * n
    low = float(scipy.stats.beta.ppf(alpha, x, n - x + 1)) if x > 0 else 0.0
    high = float(scipy.stats.beta.ppf(1 - alpha, x + 1, n - x)) if x < n else 1.0
    return low, high


def share_power(share: float, n: int, alpha: float, above: float) -> float:
    """How likely n answers, of which each counts with this chance, show by `share_ends` that the share is above a limit."""
    counts = [k for k in range(n + 1) if share_ends(k / n, n, alpha)[0] > above]
    return float(scipy.stats.binom.pmf(counts, n, share).sum())


def sd_ends(sd: float, freedom: float, alpha: float) -> tuple[float, float]:
    """The one-sided lower and upper ends, each of level 1 - alpha, of an sd with that many degrees of freedom, by
    chi-squared: of normal noise."""
    low, high = (sd * math.sqrt(freedom / float(scipy.stats.chi2.ppf(p, freedom))) for p in (1 - alpha, alpha))
    return low, high
