"""Decide when to stop judging the same answers again.

Judging can stop when the verdict is sure, or when no further repeat could make it sure. The evidence is an e-value and
not a p-value, because you may look at an e-value after every judgement and stop at any time. The notes of
`gate_progress` have the sources.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.special  # type: ignore[import-untyped]

from ..base.messages import say
from ..base.pass_rule import PassRule, reaches, rule_of
from ..errors import ConfigError
from ..settings import project_rubric
from .basics import Floats

FIRST = 2  # repeats of every question before any verdict, because their differences show the noise
CAP = 10  # most repeats of one question
ALPHA = 0.05  # how often a firm verdict may be wrong, whenever one stops
SETTLED = 0.005  # judging stops when all repeats up to the cap would reverse the verdict with at most this chance
_WIDTH = 1.5  # sd of the mixture over distances from the line, in units of the noise; 1 to 2 were alike in simulations


class Progress(NamedTuple):
    """Hold the state of repeated judgements of the same answers.

    - verdict: 合格 (passed) or 不合格 (failed) if it is sure, else 判定保留 (undecided).
    - passes: whether the run passes by the mean scores so far.
    - ask: the questions to judge again, the most useful first. It is empty if the verdict is sure, and also if further
      judgements would hardly make it sure.
    - may_turn: an upper limit of the chance that `passes` changes if all questions are judged up to the cap.
    - for_pass, for_fail: the evidence (e-values). A verdict is sure once its evidence reaches `needed`.
    - noise: the sd of repeated judgements of one answer, in points.
    - calls: the number of judgements so far.
    """

    verdict: str
    passes: bool
    ask: tuple[Any, ...]
    may_turn: float
    for_pass: float
    for_fail: float
    needed: float
    noise: float
    calls: int


def gate_progress(
    marks: Mapping[Any, Sequence[float | None]],
    *,
    rule: PassRule | None = None,
    noise: float | None = None,
    alpha: float = ALPHA,
    cap: int = CAP,
) -> Progress:
    """Compute whether the pass verdict on the same answers is sure. If it is not, say which questions to judge again.

    Parameters
    ----------
    marks
        For each question, the mean score (0–100) of each of its judgements so far. It is None if the judge's reply
        could not be parsed.
    rule
        The pass rule; if not given, the project's rule as it is now.
    noise
        The sd of repeated judgements of one answer, in points, if it is known. If not given, it is estimated from
        `marks`, pooled over questions.
    alpha
        The highest chance (0–1) that a sure verdict is wrong, however often you look and whenever you stop.
    cap
        The highest number of judgements of one question, including those that could not be parsed.

    Returns
    -------
    Progress
        The verdict stays 判定保留 (undecided) if there is a question for which no reply could be parsed. It also does if
        the noise is not given and cannot be estimated.

    Raises
    ------
    ConfigError
        If there are no questions, scores are outside 0–100, or noise, alpha or cap is out of range.

    Notes
    -----
    The verdict is about the mean scores that endless judgements of these answers would have. Repeats do not replace
    questions: whether ten other questions would pass is a different matter (see pass_rate_low of `gate_confidence`).

    Judging stops when the verdict is sure. It also stops after half of all repeats up to the cap, if the other half
    would change the present result with a chance of at most 0.005. The verdict then stays 判定保留, as it mostly would with
    all repeats.

    The evidence of one question is a one-sided normal mixture over its distance from the line, with the noise
    integrated out. If the question is on the line, the evidence is a martingale, so you may look at it after every
    judgement. The rule needs k of n questions above the line. The evidence for this comes from the n - k + 1 questions
    with the least evidence: half the mean of their evidence plus half the product. For a pass, there must also be
    enough evidence that the overall mean is above the line. Noise is assumed normal and equal for all questions
    (docs/validation.md: if it is not).

    Sources: Robbins (1970), Ann. Math. Stat. 41, 1397-1409, and Lai (1976), Ann. Stat. 4, 265-280 (mixtures, also with
    unknown noise); Vovk and Wang (2021), Ann. Stat. 49, 1736-1754 (means and products of e-values); Lan, Simon and
    Halperin (1982), Commun. Stat. C 1, 207-219 (stopping when the remaining repeats would not change the verdict). The
    betting method of Waudby-Smith and Ramdas (2024, J. R. Stat. Soc. B 86, 1-27) needs no normal noise, but it needs
    more than ten scores: one score of 85 multiplies the evidence against 70 by at most 1.2.

    Examples
    --------
    >>> import socjudge as sj
    >>> steady = {q: [88, 90] for q in range(8)} | {8: [40, 44], 9: [30, 31]}
    >>> sj.stats.gate_progress(steady).verdict
    '合格'
    >>> sj.stats.gate_progress(steady | {0: [66, 73], 1: [72, 66]}).ask[:2]
    (0, 1)
    """
    rule = rule or rule_of(project_rubric())
    if not marks:
        raise ConfigError(say("stats.progress_empty"))
    if not (0 < alpha < 1 and cap >= FIRST and (noise is None or noise > 0)):
        raise ConfigError(say("stats.progress_settings", alpha=alpha, cap=cap, noise=noise, first=FIRST))
    names, calls = list(marks), np.array([len(values) for values in marks.values()])
    read = [np.array([value for value in values if value is not None], dtype=float) for values in marks.values()]
    for name, values in zip(names, read, strict=True):
        if not ((values >= 0) & (values <= 100)).all():
            raise ConfigError(say("stats.progress_marks", name=name, marks=values.tolist()))
    counts = np.array([len(values) for values in read], dtype=float)
    needed, n = 1 / alpha, len(names)
    squares, freedom = _noise(read, noise, rule.line)
    open_ = [names[i] for i in np.argsort(calls, kind="stable") if counts[i] < FIRST and calls[i] < cap]
    if open_ or not counts.all() or not squares > 0:
        return Progress("判定保留", False, tuple(open_), 1.0, 0.0, 0.0, needed, math.nan, int(calls.sum()))
    distance = np.array([values.mean() for values in read]) - rule.line
    must, above_line = rule.needed(n), reaches(distance, 0.0)
    passes = bool(rule.is_met(int(above_line.sum()), n, rule.line + float(distance.mean())))
    above, below = (evidence(side * distance, counts, squares, freedom) for side in (1, -1))
    # The overall mean counts each question equally, however often it was judged.
    of_mean = float(distance.mean()), float(n**2 / (1 / counts).sum())
    mean_above, mean_below = (float(evidence(side * of_mean[0], of_mean[1], squares, freedom)) for side in (1, -1))
    for_pass = min(_at_least(above, must), mean_above)
    for_fail = (_at_least(below, n - must + 1) + mean_below) / 2
    verdict = "合格" if for_pass >= needed else "不合格" if for_fail >= needed else "判定保留"
    may_turn, weight = _turning(distance, counts, cap - calls, math.sqrt(squares / freedom), freedom, must, passes)
    if verdict != "判定保留" or (may_turn <= SETTLED and calls.sum() >= n * cap / 2):
        weight = np.zeros(n)
    elif may_turn <= SETTLED:
        weight = _holding_back(above if passes else below, must if passes else n - must + 1) * (calls < cap)
    ask = tuple(names[i] for i in np.argsort(-weight, kind="stable") if weight[i] > 0)
    return Progress(
        verdict, passes, ask, may_turn, for_pass, for_fail, needed, math.sqrt(squares / freedom), int(calls.sum())
    )


def evidence(mean: Any, count: Any, squares: float, freedom: float) -> Floats:
    """Compute the evidence (an e-value) that the true mean of some scores is above 0.

    - mean, count: the mean of the scores, and how many there are.
    - squares: the sum of squares from which the noise is estimated.
    - freedom: the degrees of freedom of that sum.

    The noise is normal. The mixture is half-normal over the true mean in units of the noise, and the noise has its
    invariant prior (Lai 1976).
    """
    x, k = np.asarray(mean, dtype=float), np.asarray(count, dtype=float)
    spread = 1 + k * _WIDTH**2
    rest = squares + k * x**2 / spread
    size = -np.log(spread) / 2 + (freedom + 1) / 2 * np.log((squares + k * x**2) / rest)
    side = scipy.special.stdtr(freedom + 1, x * np.sqrt(k * (spread - 1) / spread * (freedom + 1) / rest))
    return np.asarray(2 * side * np.exp(np.minimum(size, 600.0)))


def _at_least(values: Floats, must: int) -> float:
    """Compute the evidence (an e-value) that at least `must` of some hypotheses are false.

    values: the e-value against each hypothesis.

    The result is infinite if `must` is 0 or less, and 0 if `must` is more than the number of hypotheses.
    """
    if must <= 0:
        return math.inf
    if must > len(values):
        return 0.0
    weakest = np.sort(values)[: len(values) - must + 1]
    return float((weakest.mean() + weakest.prod()) / 2)


def _holding_back(values: Floats, must: int) -> Floats:
    """Return for each question a weight that says how much its low evidence holds back a sure verdict.

    values, must: as in `_at_least`, with one e-value per question.

    `_at_least` uses only the lowest e-values. A question has a weight above 0 if its e-value is one of them, and else
    0. Of these questions, the one with the largest e-value has the largest weight: it will be the first to leave them.
    """
    weight = np.zeros(len(values))
    weakest = np.argsort(values, kind="stable")[: len(values) - must + 1]
    weight[weakest] = np.arange(1, len(weakest) + 1)
    return weight


def _noise(read: list[Floats], noise: float | None, line: float) -> tuple[float, float]:
    """Return the sum of squares from which the noise of a repeat near the pass line is estimated, and its degrees of
    freedom.

    - read: the parsed scores of each question.
    - noise: the sd of a repeat in points if it is known, or None.
    - line: the pass line, in points.

    Both results are 0 if there are too few scores to estimate the noise.
    """
    if noise is not None:
        return noise**2 * 1e6, 1e6  # so many degrees of freedom that the noise counts as known
    freedom = float(sum(max(len(values) - 1, 0) for values in read))
    if freedom < 3:
        return 0.0, 0.0
    # Marks near an end of the scale scatter less than those near the line, roughly as shares do. If they do not, this
    # overestimates the noise.
    at_line = _binomial(line)
    squares = sum(
        float(((values - values.mean()) ** 2).sum()) * max(at_line / _binomial(float(values.mean())), 1.0)
        for values in read
        if len(values)
    )
    # Marks come in steps. If none differed yet, a later one still may.
    steps = np.diff(np.unique(np.concatenate(read).round(6)))
    step = float(steps.min()) if len(steps) else 1.0
    return max(squares, freedom * step**2 / 4), freedom


def _binomial(mark: float) -> float:
    p = min(max(mark / 100, 0.05), 0.95)
    return p * (1 - p)


def _turning(
    distance: Floats, counts: Floats, left: Any, noise: float, freedom: float, must: int, passes: bool
) -> tuple[float, Floats]:
    """Return an upper limit of the chance that the remaining repeats change whether the run passes. Also return how
    much each question adds to this chance.

    - distance: of each question's mean from the pass line, in points.
    - counts: the number of each question's scores so far.
    - left: the number of each question's remaining repeats.
    - noise, freedom: the sd of a repeat, and its degrees of freedom.
    - must: the number of questions that must pass.
    - passes: whether the run passes now.
    """
    left = np.maximum(left, 0).astype(float)
    # For the mean of all repeats, given those so far. What is left scatters around a mean that is itself not known.
    scatter = noise * np.sqrt(left / (counts * (counts + left)))
    with np.errstate(divide="ignore", invalid="ignore"):
        passing = np.where(scatter > 0, scipy.special.stdtr(freedom, distance / scatter), reaches(distance, 0.0))
        spread = math.sqrt(float((scatter**2).sum())) / len(distance)
        mean_passing = float(scipy.special.stdtr(freedom, distance.mean() / spread)) if spread > 0 else float(passes)
    chances = _counted(passing)
    enough = float(chances[-1, must:].sum())
    may_turn = (1 - enough) + (1 - mean_passing) if passes else min(enough, mean_passing)
    is_open = np.minimum(passing, 1 - passing)
    pivotal = chances[:-1, must - 1] if must else np.zeros(len(passing))
    # A question that decides nothing by itself may still move the mean.
    of_mean = min(mean_passing, 1 - mean_passing) * scatter / max(float(scatter.sum()), 1e-300)
    return min(may_turn, 1.0), np.where(left > 0, is_open * pivotal + of_mean, 0.0)


def _counted(chances: Floats) -> Floats:
    """Compute the chances that exactly 0, 1, 2, … of several independent events happen.

    chances: the chance of each event.

    In row i of the result, the i-th event is left out. The last row has all events.
    """
    n = len(chances)
    found = np.zeros((n + 1, n + 1))
    found[:, 0] = 1.0
    for i, chance in enumerate(chances):
        own = np.full((n + 1, 1), chance)
        own[i] = 0.0  # the i-th event is left out: it never happens
        found[:, 1:] = found[:, 1:] * (1 - own) + found[:, :-1] * own
        found[:, :1] *= 1 - own
    return found
