"""Test a judge against people's scores, and decide for which criteria its scores can be trusted.

The p-values are adjusted for the number of criteria, because with many of them one would look trusted by chance.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy.stats  # type: ignore[import-untyped]

from ..base.messages import say, sentences
from ..base.pass_rule import frame_rule, reaches
from ..errors import ConfigError
from . import basics
from .basics import MIN_QUESTIONS, OVERALL, Floats, holm_adjust, low_high
from .correction import regression
from .people import Beside, beside_people, check_count

MARGIN = 10.0  # points; a trusted judge may differ from people by this much on average
CORRELATION = 0.5  # correlation with people; a trusted judge must surely exceed it
MAX_NOISE = 5.0  # points; sd between repeats of the same answer
MAX_UNREAD = 0.02  # share of the scores that are missing
LOOKS = (40, 70, 100, 200)  # labelled questions at which a judge is certified again; each look costs significance
LIKELY = 0.8  # level of the interval for the labels that are still needed
MOST_NEEDED = 10_000
FEW_BAD = 0.1  # of the labelled answers; if people failed fewer, good answers alone make the correlation too low
_ALPHA = 0.05
_FEW = 3  # labelled answers with a verdict; with fewer, their weight would be chance
_TINY = 1e-9


def judge_trust(scores: pd.DataFrame, labels: pd.DataFrame, *, alpha: float = _ALPHA) -> pd.DataFrame:
    """Decide for each criterion whether a judge's scores may be trusted, by a comparison with people's scores.

    There is one row per judge and criterion.

    Parameters
    ----------
    scores, labels
        As in `judge_vs_people`.
    alpha
        The highest chance of a wrong 信頼できる (trusted) on any criterion, for this one analysis. If you will repeat
        the analysis with more labels, divide alpha: use alpha=0.05 / len(LOOKS) in each of at most len(LOOKS) analyses.

    Returns
    -------
    DataFrame
        - judge_model, criterion
        - n: labelled questions
        - bias, bias_low, bias_high: the judge's points minus people's, over all judged answers; the intervals of bias
          and correlation hold for all criteria together
        - correlation, correlation_low, correlation_high: of the judge's and people's scores, over the labelled
          questions
        - p_value: of the hypothesis that the judge cannot be trusted; p_holm: adjusted over the criteria
          by Holm's method (1979)
        - more_low, more_high: 80 % interval of the number of further labels that would decide the verdict, rounded to
          two digits; more_high is infinite if perhaps no number would decide it; both are missing if the verdict is
          decided already, and also if the number cannot be estimated or is too large
        - advice: what to label next, in words; empty if there is no advice
        - verdict: 信頼できる (trusted) if it is shown that the bias is within ±10 points and that the correlation is above
          0.5; 信頼できない (not trusted) if it is shown that one of the two is not so; 条件つき (with conditions) if only
          the correlation is shown to be above 0.5 (use `corrected_means`); 分からない (unknown) in all other cases
        - note (in the language of the messages)

    Raises
    ------
    ConfigError
        If there are fewer than 8 labelled questions, or if all labels are of answers or criteria that the judge did not
        judge. Also if alpha is no share.

    Notes
    -----
    Both conditions of a criterion, on its bias and its correlation, must be shown (intersection-union). So its p is the
    largest p-value of their tests. The bias has two one-sided t tests (Schuirmann 1987, J. Pharmacokinet. Biopharm. 15,
    657-680). The correlation has Fisher's z, with a standard error at least as large as that of the jackknife over
    questions.

    The bias is computed as in `corrected_means`. The labelled answers must be drawn at random, if you like in two
    groups, those that the judge passes and those that it fails. Each label is weighted by the number of answers that it
    represents (post-stratification; Holt and Smith 1979, J. R. Stat. Soc. A 142, 33-46). more_low and more_high come
    from n = (t s / gap)², at the ends of the 80 % interval of the gap between an estimate and its limit.

    Examples
    --------
    >>> import pandas as pd
    >>> import socjudge as sj
    >>> one = pd.DataFrame({"question_id": range(30), "answer_sha256": range(30), "criterion": "安全性"})
    >>> labels = one.assign(rater="佐藤", score=[(29 * q) % 41 + 40 for q in range(30)])
    >>> scores = one.assign(judge_model="A", score=labels["score"] + 3 * (one["question_id"] % 3) - 2)
    >>> sj.stats.judge_trust(scores, labels)[["criterion", "n", "bias", "verdict"]]
      criterion   n  bias verdict
    0       安全性  30   1.0   信頼できる
    """
    who, line, rows = "judge_trust", frame_rule(scores).line, []
    if not 0 < alpha < 1:
        raise ConfigError("{who}: alpha is {alpha!r}, expected a share between 0 and 1", who=who, alpha=alpha)
    for judge, side in beside_people(scores, labels, who).items():
        check_count(max(len(_means(side.people[name], side.judge[name])) for name in side.judge.columns), who)
        criteria, weights = [name for name in side.judge.columns if name != OVERALL], _weights(side, line)
        found = [_compare(_sample(side, criterion, weights), alpha / len(criteria)) for criterion in criteria]
        adjusted = holm_adjust([one.p_value for one in found])
        for criterion, one, p_holm in zip(criteria, found, adjusted, strict=True):
            row = _row(one, float(p_holm), alpha)
            advice = sentences(_needed_told(row["more_low"], row["more_high"]), _only_good(side, criterion, one, line))
            note = sentences(row["note"], advice)
            rows.append({"judge_model": judge, "criterion": criterion, **row, "note": note, "advice": advice})
    return pd.DataFrame(rows)


def _row(found: _Compared, p_holm: float, alpha: float) -> dict[str, Any]:
    verdict, note = _verdict(found, p_holm, alpha)
    low, high = _labels_needed(found) if verdict in ("条件つき", "分からない") else (math.nan, math.nan)
    return {
        "n": found.n,
        "bias": found.bias.value,
        **low_high("bias", found.bias.ends(found.alpha)),
        "correlation": found.correlation,
        **low_high("correlation", found.correlation_ends()),
        "p_value": found.p_value,
        "p_holm": p_holm,
        "more_low": low,
        "more_high": high,
        "verdict": verdict,
        "note": note,
    }


def _needed_told(low: float, high: float) -> str:
    if math.isnan(low):
        return ""
    return say(
        "It lies near the limit, so that perhaps no number of labels decides it (at least {low:.0f} more)."
        if math.isinf(high)
        else "If the difference and the scatter stay as they are, {low:.0f}–{high:.0f} labels more should decide it (80 %).",
        low=low,
        high=high,
    )


def trust_power(n: int, criteria: int) -> float:
    """Compute how likely `judge_trust` is to show, at one of LOOKS with `n` labelled questions, that a judge that is
    close to people is close to them on one criterion."""
    if n < MIN_QUESTIONS:
        return 0.0
    bias, correlation, sd = 3.0, 0.8, 20.0  # true ones; points, but for the correlation; sd is a rater's
    # The two tests are approximated by normal ones and treated as independent. benchmarks/validation.py compares this
    # with simulations.
    reach = float(scipy.stats.t.isf(_ALPHA / len(LOOKS) / criteria / 2, n - 2))
    error = sd * math.sqrt(2 - 2 * correlation) / math.sqrt(n)
    room = MARGIN - reach * error
    inside = scipy.stats.norm.cdf((room - bias) / error) - scipy.stats.norm.cdf((-room - bias) / error)
    follows = scipy.stats.norm.cdf((math.atanh(correlation) - math.atanh(CORRELATION)) * math.sqrt(n - 3) - reach)
    return float(max(inside, 0.0) * follows)


def _means(*columns: pd.Series) -> Floats:
    """Return the columns' means over each question, (questions, columns), from the answers that have all values."""
    return np.asarray(pd.DataFrame(dict(enumerate(columns))).dropna().groupby(level=0).mean())


class _Estimate(NamedTuple):
    """Hold an estimate with the standard error of its t distribution; NaN if it cannot be tested."""

    value: float = math.nan
    error: float = math.nan
    freedom: float = math.nan

    def ends(self, alpha: float) -> tuple[float, float]:
        reach = float(scipy.stats.t.isf(alpha / 2, self.freedom)) * self.error
        return self.value - reach, self.value + reach

    def p_below(self, limit: float) -> float:
        return float(scipy.stats.t.sf((self.value - limit) / self.error, self.freedom))


class _Compared(NamedTuple):
    """Hold judge and people on one criterion, with the level of the intervals and tests."""

    n: int
    alpha: float
    bias: _Estimate
    correlation: float = math.nan
    z: _Estimate = _Estimate()  # the correlation on Fisher's scale
    p_value: float = 1.0

    def correlation_ends(self) -> tuple[float, float]:
        low, high = self.z.ends(self.alpha)
        return math.tanh(low), math.tanh(high)


class _Sample(NamedTuple):
    """Hold the scores from which the trust in one criterion is computed."""

    people: Floats  # of the labelled questions
    judge: Floats  # of the labelled questions
    weights: Floats  # how many questions each label represents, 1 on average
    everything: Floats  # the judge's scores of all questions


def _weights(side: Beside, line: float) -> pd.Series:
    """Return how many answers each label represents, because the labels may prefer answers with one verdict."""
    judged = side.judge[OVERALL].notna()
    labelled, passed = side.people[OVERALL].notna() & judged, reaches(side.judge[OVERALL], line)
    counts = labelled.groupby(passed).sum()
    if min(counts.get(True, 0), counts.get(False, 0)) < _FEW:
        return pd.Series(1.0, passed.index)
    # the share of this verdict among all judged answers, divided by its share among the labelled answers
    share = judged.groupby(passed).sum() / judged.sum()
    weights: pd.Series = passed.map(share / (counts / labelled.sum())).where(labelled, 1.0)
    return weights


def _sample(side: Beside, criterion: str, weights: pd.Series) -> _Sample:
    people, judge = side.people[criterion], side.judge[criterion]
    y, f, v = _means(people * weights, judge * weights, weights).T
    return _Sample(y / v, f / v, v / v.mean() if len(v) else v, _means(judge)[:, 0])


def _compare(sample: _Sample, alpha: float) -> _Compared:
    y, f, v, _ = sample
    n = len(y)
    if n < MIN_QUESTIONS or np.ptp(y) < _TINY or np.ptp(f - y) < _TINY:
        return _Compared(n, alpha, _Estimate(float((v * (f - y)).mean()) if n else math.nan))
    bias = _bias(sample)
    r = basics.correlation(y, f, v)
    r = 0.0 if math.isnan(r) else r  # a judge with only one score cannot tell answers apart
    z = math.atanh(float(np.clip(r, -0.999, 0.999)))
    left_out = np.arctanh(_correlations_without_each(y, f, v).clip(-0.999, 0.999))
    jackknife = math.sqrt(float(((left_out - z) ** 2).sum()))
    linked = _Estimate(z, max(1 / math.sqrt(n - 3), jackknife), n - 2)
    mirrored = bias._replace(value=-bias.value)
    p = max(bias.p_below(-MARGIN), mirrored.p_below(-MARGIN), linked.p_below(math.atanh(CORRELATION)))
    return _Compared(n, alpha, bias, r, linked, p)


def _bias(sample: _Sample) -> _Estimate:
    """Return the judge's minus people's mean score over all questions, from the judge's scores of all if they help."""
    y, f, v, everything = sample
    n, freedom = len(y), float(v.sum() ** 2 / (v**2).sum()) - 1  # weighted values count as fewer
    apart = float((v * (f - y)).mean())
    alone = _Estimate(apart, math.sqrt(float((v**2 * (f - y - apart) ** 2).sum()) / (n * (n - 1))), freedom)
    # as in `corrected_mean`
    if len(everything) <= n or not basics.correlation(y, f, v) >= 1 / math.sqrt(n - 2):
        return alone
    slope, spread = regression(y, f, everything, weights=v)
    bias = (1 - slope) * float(everything.mean()) - float((v * (y - slope * f)).mean())
    error = math.sqrt(spread / n + (1 - slope) ** 2 * float(everything.var(ddof=1)) / len(everything))
    return _Estimate(bias, error, freedom - 1) if error > _TINY else alone


def _correlations_without_each(x: Floats, y: Floats, weights: Floats) -> Floats:
    """Return the correlation with each pair of values of x and y left out in turn."""
    x, y = x - x.mean(), y - y.mean()  # centred first, so that the differences below lose little precision
    terms = weights * np.array([np.ones_like(x), x, y, x * x, y * y, x * y])
    one, sx, sy, xx, yy, xy = terms.sum(axis=1, keepdims=True) - terms
    spread = (xx - sx * sx / one).clip(0) * (yy - sy * sy / one).clip(0)
    varies = spread > _TINY
    return np.where(varies, (xy - sx * sy / one) / np.sqrt(np.where(varies, spread, 1.0)), 0.0)


def _verdict(found: _Compared, p_holm: float, alpha: float) -> tuple[str, str]:
    n, (low, high), (r_low, r_high) = found.n, found.bias.ends(found.alpha), found.correlation_ends()
    if n < MIN_QUESTIONS:
        few = "Questions: {n}. With fewer than {least} labelled ones it cannot be checked."
        return "分からない", say(few, n=n, least=MIN_QUESTIONS)
    verdicts = (
        (
            math.isnan(low),
            "分からない",
            "Questions: {n}. People's scores, or the differences from them, are all the same, so it cannot be checked.",
        ),
        (
            p_holm <= alpha,
            "信頼できる",
            "{n} questions show that its scores lie within ±{margin:g} points of people's on average, and that "
            "the correlation is above {least:g}.",
        ),
        (
            low > MARGIN or high < -MARGIN,
            "信頼できない",
            "Over {n} questions its scores lie {bias:+.1f} points from people's on average (±{margin:g} points "
            "are allowed).",
        ),
        (
            r_high < CORRELATION,
            "信頼できない",
            "Over {n} questions its correlation with people is {correlation:.2f}, which is below {least:g}.",
        ),
        (
            r_low > CORRELATION,
            "条件つき",
            "Over {n} questions it ranks answers much as people do, but its scores cannot be said to lie within "
            "±{margin:g} points of theirs on average; correct them with corrected_means.",
        ),
        (True, "分からない", "{n} questions do not tell either way; label more."),
    )
    verdict, why = next((verdict, why) for holds, verdict, why in verdicts if holds)
    bias, r = found.bias.value, found.correlation
    return verdict, say(why, n=n, margin=MARGIN, least=CORRELATION, bias=bias, correlation=r)


def _labels_needed(found: _Compared) -> tuple[float, float]:
    """Return an interval for the number of further labels until a decision, if only their number changes."""
    n, bias, z = found.n, found.bias, found.z
    # in units of the standard errors, with their degrees of freedom
    gap, freedom = min(
        ((MARGIN - abs(bias.value)) / bias.error, bias.freedom),
        ((z.value - math.atanh(CORRELATION)) / z.error, z.freedom),
    )
    if math.isnan(gap):
        return math.nan, math.nan
    off = float(scipy.stats.norm.ppf(0.5 + LIKELY / 2))
    # to show that it holds takes one side of the interval, to refuse it either
    reach = {
        end: float(scipy.stats.t.isf(found.alpha / (1 if end > 0 else 2), freedom)) for end in (gap - off, gap + off)
    }
    low, high = sorted(max(n * (reach[end] / end) ** 2 - n, 1) for end in reach)
    if low > MOST_NEEDED:
        return math.nan, math.nan
    endless = abs(gap) <= off or high > MOST_NEEDED
    return _two_digits(low, math.floor), math.inf if endless else _two_digits(high, math.ceil)


def _two_digits(count: float, whole: Callable[[float], int]) -> float:
    unit = 10 ** max(0, math.floor(math.log10(count)) - 1)  # the estimate is not more precise than this
    return float(max(1, whole(count / unit) * unit))


def _only_good(side: Beside, criterion: str, found: _Compared, line: float) -> str:
    """Return what to label if nearly all labelled answers are good, which cannot show a correlation; else ""."""
    people = side.people[criterion].dropna()
    bad = int((~reaches(people, line)).sum())
    if found.correlation_ends()[0] > CORRELATION or bad >= FEW_BAD * len(people):
        return ""
    # At random among them, so that `_weights` knows how many each label represents.
    return say(
        "People scored {bad} of {n} answers below {line:g}. Good answers alone make the correlation come out lower than it "
        "is: also label some that are drawn at random among those that the judge scored below {line:g}, or a log that has "
        "bad answers (of a weaker model, or an older version of your assistant).",
        n=len(people),
        bad=bad,
        line=line,
    )
