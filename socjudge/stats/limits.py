"""Compute limits of a share and of the sd of noise."""

from __future__ import annotations

import math

import scipy.stats  # type: ignore[import-untyped]


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
    """Compute the probability that the lower limit of `share_ends` for n answers is above the value `above`.
    `share` is the true probability of the event that is counted in each answer."""
    counts = [k for k in range(n + 1) if share_ends(k / n, n, alpha)[0] > above]
    return float(scipy.stats.binom.pmf(counts, n, share).sum())


def sd_ends(sd: float, freedom: float, alpha: float) -> tuple[float, float]:
    """Compute one-sided lower and upper limits of the sd of normal noise, each of level 1 - alpha, by chi-squared.
    `freedom` is the degrees of freedom with which sd was estimated."""
    low, high = (sd * math.sqrt(freedom / float(scipy.stats.chi2.ppf(p, freedom))) for p in (1 - alpha, alpha))
    return low, high


def noise_reach(freedom: float) -> float:
    """Compute how many sd a value lies from the mean at most in 95 % of cases, by Student's t."""
    return float(scipy.stats.t.ppf(0.975, freedom))
