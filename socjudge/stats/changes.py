"""Measure when a change of scores is more than noise, how often scores change, and whether two means are equal."""

from __future__ import annotations

import math

import numpy as np
import scipy.stats  # type: ignore[import-untyped]
from numpy.typing import ArrayLike


def repeat_limit(sd: float, freedom: int, repeats: float, *, level: float = 0.95) -> float:
    """Return how far noise alone moves a score from the mean of `repeats` other scores of the same answer, in points.

    With noise alone, a share `level` of the scores stays within this limit.

    - sd: standard deviation of single scores in points.
    - freedom: the degrees of freedom with which sd was estimated.

    Returns NaN if freedom is below 1, because the noise is then unknown. The limit is the half-length of the prediction
    interval of one more observation, t · sd · sqrt(1 + 1 / repeats).
    """
    if freedom < 1:
        return math.nan
    return float(scipy.stats.t.ppf(0.5 + level / 2, freedom)) * sd * math.sqrt(1 + 1 / repeats)


def share_interval(share: float, n: int, *, level: float = 0.95) -> tuple[float, float]:
    """Compute Wilson's interval for a mean over n answers, each with a share between 0 and 1, as (low, high), 0–1.

    An answer has such a share if it was changed in several places and only some of these changes moved the score. The
    number of hits, n · share, therefore need not be whole. `pass_rate_interval` needs a whole number. Returns (NaN,
    NaN) if n is 0. Source: Wilson (1927), J. Am. Stat. Assoc. 22, 209-212.
    """
    if not n:
        return math.nan, math.nan
    z2 = float(scipy.stats.norm.ppf(0.5 + level / 2)) ** 2
    centre = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = math.sqrt(z2 * (share * (1 - share) / n + z2 / (4 * n * n))) / (1 + z2 / n)
    return max(0.0, centre - half), min(1.0, centre + half)


def equivalence_p(differences: ArrayLike, margin: float) -> float:
    """Compute the p-value of the hypothesis that the mean of paired differences is `margin` points or more away from 0.

    It is the larger p-value of two one-sided t tests. Returns NaN with fewer than two differences, or if all are equal:
    they do not show how far away the next one would be. Source: Schuirmann (1987), J. Pharmacokinet. Biopharm. 15,
    657-680.
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
    """Compute one-sided lower and upper limits, each of level 1 - alpha, of a mean over n answers with shares between 0
    and 1.

    The method is that of Clopper and Pearson (1934), Biometrika 26, 404-413, with the sum of the shares in place of the
    count. This is allowed because shares between 0 and 1 vary no more than counts do (Hoeffding 1963, J. Am. Stat.
    Assoc. 58, 13-30).
    """
    x = share * n
    low = float(scipy.stats.beta.ppf(alpha, x, n - x + 1)) if x > 0 else 0.0
    high = float(scipy.stats.beta.ppf(1 - alpha, x + 1, n - x)) if x < n else 1.0
    return low, high


def share_power(share: float, n: int, alpha: float, above: float) -> float:
    """Compute the probability that the lower limit of `share_ends` for n answers is above the value `above`.

    - share: the true probability of the event that is counted in each answer.
    - alpha: as in `share_ends`.
    """
    counts = [k for k in range(n + 1) if share_ends(k / n, n, alpha)[0] > above]
    return float(scipy.stats.binom.pmf(counts, n, share).sum())


def sd_ends(sd: float, freedom: float, alpha: float) -> tuple[float, float]:
    """Compute one-sided lower and upper limits of the sd of normal noise, each of level 1 - alpha, by chi-squared.

    freedom: the degrees of freedom with which sd was estimated.
    """
    low, high = (sd * math.sqrt(freedom / float(scipy.stats.chi2.ppf(p, freedom))) for p in (1 - alpha, alpha))
    return low, high
