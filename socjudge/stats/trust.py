"""What is wrong with a judge, and which of its criteria may be trusted: tests against people's marks, with their number
paid for."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy.stats  # type: ignore[import-untyped]

from ..base.messages import say, sentences
from ..base.pass_rule import frame_rule, reaches
from ..errors import ConfigError
from .basics import OVERALL, Floats, holm_adjust, plain_floats
from .people import Beside, beside_people, judges_of

MIN_QUESTIONS = 8  # labelled; with fewer no test is made
MARGIN = 10.0  # points that a trusted judge may lie from people on average
CORRELATION = 0.5  # with people that a trusted judge must surely exceed
MAX_NOISE = 5.0  # points, sd between repeats of the same answer
MIN_SPREAD = 0.7  # the judge's sd over people's
MAX_UNREAD = 0.02  # share of marks
MOST_NEEDED = 10_000
_ALPHA = 0.05

FLAWS = {
    "bias": "stats.flaw_bias",
    "leniency": "stats.flaw_leniency",
    "compression": "stats.flaw_compression",
    "noise": "stats.flaw_noise",
    "length": "stats.flaw_length",
    "flags": "stats.flaw_flags",
    "blindness": "stats.flaw_blindness",
    "halo": "stats.flaw_halo",
    "unread": "stats.flaw_unread",
}
_LIMITS: dict[str, Any] = {"spread": MIN_SPREAD, "noise": MAX_NOISE, "correlation": CORRELATION, "unread": MAX_UNREAD}


class _Test(NamedTuple):
    flaw: str
    criterion: str
    n: int
    estimate: float
    p: float


def judge_flaws(
    scores: pd.DataFrame,
    labels: pd.DataFrame,
    *,
    by: str = "judge_model",
    lengths: Mapping[str, float] | None = None,
    flags: Mapping[str, float] | None = None,
) -> pd.DataFrame:
    """Which known flaws each judge shows against people's marks, one row per judge, flaw and criterion.

    Parameters
    ----------
    scores
        One row per judged answer and criterion, from `load_scores`; repeats of the judge show its noise.
    labels
        People's marks, from `load_labels`.
    by
        What names a judge.
    lengths
        Characters of each answer by answer_sha256, for the preference for long answers.
    flags
        How many flags the assistant raised, by answer_sha256, for marks that follow the flags.

    Returns
    -------
    DataFrame
        - the column of `by`
        - flaw: bias, leniency, compression, noise, length, flags, blindness, halo, unread
        - criterion; 総合 for halo and unread
        - n: questions (leniency: verdicts that differ; noise: degrees of freedom; unread: marks)
        - estimate: bias, noise in points; leniency the share of differing verdicts that pass wrongly; compression the
          judge's sd over people's; length, flags, blindness correlations; halo the mean correlation between criteria
          less people's; unread a share
        - p_value; p_holm: adjusted over all rows of the judge
        - found: p_holm is below 0.05
        - method, note (in the language of the messages)

        What cannot be tested (too few labels, no repeats, no lengths) has no row.

    Raises
    ------
    ConfigError
        With fewer than 8 labelled questions, or where labels are of other answers or criteria.

    Notes
    -----
    Not found is not absent: docs/validation.md says which sizes are found how often. Questions are the unit. Tests:
    Student's t (bias; length and flags as the correlation with judge - people); McNemar (1947), Psychometrika 12,
    153-157 (leniency); Pitman and Morgan (1939), Biometrika 31, 9-19 (compression); chi-squared (noise); Fisher's z
    (blindness); jackknife over questions (halo); binomial (unread); Holm (1979).

    Examples
    --------
    >>> import pandas as pd
    >>> import socjudge as sj
    >>> one = pd.DataFrame({"question_id": range(20), "answer_sha256": range(20), "criterion": "安全性"})
    >>> labels = one.assign(rater="佐藤", score=[(29 * q) % 41 + 40 for q in range(20)])
    >>> scores = one.assign(judge_model="A", score=labels["score"] + 12 + one["question_id"] % 3)
    >>> flaws = sj.judge_flaws(scores, labels)
    >>> flaws.loc[flaws["found"], ["flaw", "criterion", "n", "estimate"]].round(1)
           flaw criterion   n  estimate
    0      bias       安全性  20      13.0
    1  leniency       安全性   7       1.0
    """
    who = "judge_flaws"
    line = frame_rule(scores).line
    rows = []
    for judge in judges_of(scores, by, who):
        part = scores[scores[by] == judge]
        side = _enough(beside_people(scores, labels, judge, by=by, who=who), who)
        tests = [*_against_people(side, line, lengths or {}, flags or {}), *_alone(part, side)]
        adjusted = holm_adjust([test.p for test in tests])
        for test, p_holm in zip(tests, adjusted, strict=True):
            found = bool(p_holm < _ALPHA)
            rows.append(
                {
                    by: judge,
                    "flaw": test.flaw,
                    "criterion": test.criterion,
                    "n": test.n,
                    "estimate": test.estimate,
                    "p_value": test.p,
                    "p_holm": float(p_holm),
                    "found": found,
                    "method": f"Holm over {len(tests)} tests",
                    "note": say(FLAWS[test.flaw], **_LIMITS) if found else say("stats.flaw_not_found"),
                }
            )
    return pd.DataFrame(rows)


def judge_trust(
    scores: pd.DataFrame,
    labels: pd.DataFrame,
    *,
    by: str = "judge_model",
    margin: float = MARGIN,
    correlation: float = CORRELATION,
) -> pd.DataFrame:
    """Whether each criterion's marks of a judge may be trusted, by people's marks alone; one row per judge and criterion.

    Parameters
    ----------
    scores, labels, by
        As in `judge_flaws`.
    margin
        Points that the judge may lie from people on average.
    correlation
        With people that it must exceed.

    Returns
    -------
    DataFrame
        - the column of `by`, criterion
        - n: labelled questions
        - bias, bias_low, bias_high: judge - people, points; the interval is simultaneous over criteria
        - correlation, correlation_low, correlation_high: the same
        - p_value, p_holm: that the judge is not to be trusted
        - labels_needed: questions (two digits) with which 信頼できる or 信頼できない could be said if bias, scatter and correlation
          stayed what they are; missing where it is said already, cannot be told, or takes more than 10,000
        - verdict: 信頼できる (surely within the margin and above the correlation), 信頼できない (surely not), 条件つき (surely
          above the correlation, the bias not surely small: use corrected_means), else 分からない
        - method, note (in the language of the messages)

    Raises
    ------
    ConfigError
        With fewer than 8 labelled questions, where labels are of other answers or criteria, or a limit out of range.

    Notes
    -----
    All of a criterion's conditions must be shown (intersection-union), so that its p is the largest of theirs: two
    one-sided t tests for the bias (Schuirmann 1987, J. Pharmacokinet. Biopharm. 15, 657-680), Fisher's z for the
    correlation, taken no nearer than the jackknife over questions has it. Holm (1979) over the criteria keeps the chance
    of a wrong 信頼できる on any of them at 0.05. Probes and injections are not in it. labels_needed: n = (t s / gap)^2 from
    the same tests, s being the sd of judge - people, and for the correlation its error as of one question.

    Examples
    --------
    >>> import pandas as pd
    >>> import socjudge as sj
    >>> one = pd.DataFrame({"question_id": range(30), "answer_sha256": range(30), "criterion": "安全性"})
    >>> labels = one.assign(rater="佐藤", score=[(29 * q) % 41 + 40 for q in range(30)])
    >>> scores = one.assign(judge_model="A", score=labels["score"] + 3 * (one["question_id"] % 3) - 2)
    >>> sj.judge_trust(scores, labels)[["criterion", "n", "bias", "verdict"]]
      criterion   n  bias verdict
    0       安全性  30   1.0   信頼できる
    """
    who = "judge_trust"
    if not (margin > 0 and 0 <= correlation < 1):
        raise ConfigError(say("stats.margin", who=who, margin=margin, correlation=correlation))
    rows = []
    for judge in judges_of(scores, by, who):
        side = _enough(beside_people(scores, labels, judge, by=by, who=who), who)
        criteria = [name for name in side.judge.columns if name != OVERALL]
        pairs = {criterion: _pairs(side, criterion) for criterion in criteria}
        found = [_trust(*pairs[criterion], margin, correlation, len(criteria)) for criterion in criteria]
        adjusted = holm_adjust([row["p_value"] for row in found])
        for criterion, row, p_holm in zip(criteria, found, adjusted, strict=True):
            told = _with_verdict(row, float(p_holm), margin, correlation)
            needed = _labels_needed(told, len(criteria), margin, correlation)
            if not math.isnan(needed):
                told["note"] = sentences(told["note"], say("stats.trust_needed", count=needed))
            rows.append({by: judge, "criterion": criterion, **told, "labels_needed": needed})
    return pd.DataFrame(rows)


def _enough(side: Beside, who: str) -> Beside:
    most = max(len(_pairs(side, criterion)[0]) for criterion in side.judge.columns)
    if most < MIN_QUESTIONS:
        raise ConfigError(say("stats.few_questions", who=who, most=most, least=MIN_QUESTIONS))
    return side


def _pairs(side: Beside, criterion: str) -> tuple[Floats, Floats]:
    """People's and the judge's mark of each question that both marked, answers averaged."""
    both = pd.DataFrame({"people": side.people[criterion], "judge": side.judge[criterion]}).dropna()
    means = both.groupby(level=0).mean()
    return means["people"].to_numpy(), means["judge"].to_numpy()


def _against_people(
    side: Beside, line: float, lengths: Mapping[str, float], flags: Mapping[str, float]
) -> Iterator[_Test]:
    criteria = [name for name in side.judge.columns if name != OVERALL]
    for criterion in criteria:
        y, f = _pairs(side, criterion)
        n = len(y)
        if n < MIN_QUESTIONS:
            continue
        yield _Test("bias", criterion, n, float((f - y).mean()), _t_test(f - y))
        both = side.people[criterion].notna() & side.judge[criterion].notna()
        people, judge = (reaches(x.loc[both, criterion], line) for x in (side.people, side.judge))
        wrong, differing = int((judge & ~people).sum()), int((judge != people).sum())
        if differing:
            p = float(scipy.stats.binom.sf(wrong - 1, differing, 0.5))
            yield _Test("leniency", criterion, differing, wrong / differing, p)
        if np.ptp(y) > 0:
            spread = float(f.std() / y.std())
            yield _Test("compression", criterion, n, spread, _narrower(f / MIN_SPREAD, y))
            r = _correlation(y, f)
            z = (math.atanh(np.clip(r, -0.999, 0.999)) - math.atanh(CORRELATION)) * math.sqrt(n - 3)
            yield _Test("blindness", criterion, n, r, float(scipy.stats.norm.cdf(z)))
        for flaw, known, tail in (("length", lengths, "greater"), ("flags", flags, "two-sided")):
            if known:
                yield from _following(side, criterion, flaw, known, tail)
    yield from _halo(side, criteria)


def _following(side: Beside, criterion: str, flaw: str, known: Mapping[str, float], tail: str) -> Iterator[_Test]:
    """Whether judge - people goes with something known of the answers."""
    values = pd.Series(
        [known.get(sha, math.nan) for sha in side.judge.index.get_level_values(1)], side.judge.index, float
    )
    apart = side.judge[criterion] - side.people[criterion]
    both = pd.DataFrame(
        {"known": np.log(values.clip(lower=1)) if flaw == "length" else values, "apart": apart}
    ).dropna()
    means = both.groupby(level=0).mean()
    if len(means) < MIN_QUESTIONS or (means.nunique() < 2).any():
        return
    found = scipy.stats.pearsonr(means["known"], means["apart"], alternative=tail)
    yield _Test(flaw, criterion, len(means), float(found.statistic), float(found.pvalue))


def _halo(side: Beside, criteria: list[str]) -> Iterator[_Test]:
    both = (side.judge[criteria].notna() & side.people[criteria].notna()).all(axis=1)
    ours, theirs = (x.loc[both, criteria].groupby(level=0).mean().to_numpy() for x in (side.judge, side.people))
    n = len(ours)
    if len(criteria) < 3 or n < MIN_QUESTIONS or min(ours.std(axis=0).min(), theirs.std(axis=0).min()) == 0:
        return
    kept = [np.delete(np.arange(n), i) for i in range(n)]
    with np.errstate(divide="ignore", invalid="ignore"):
        apart = [_linked(ours[rows]) - _linked(theirs[rows]) for rows in kept]
    estimate, left_out = _linked(ours) - _linked(theirs), np.array(apart)
    error = math.sqrt(float(((left_out - estimate) ** 2).sum()))
    if not (math.isfinite(error) and error > 0):
        return
    yield _Test("halo", OVERALL, n, estimate, float(scipy.stats.t.sf(estimate / error, n - 2)))


def _linked(marks: Floats) -> float:
    """The mean correlation between columns."""
    table = np.atleast_2d(np.corrcoef(marks.T))
    return float(table[np.triu_indices(len(table), 1)].mean())


def _alone(part: pd.DataFrame, side: Beside) -> Iterator[_Test]:
    """What the judge's own marks show: noise between repeats, and replies that could not be read."""
    score = plain_floats(part["score"])
    criterion = part["criterion"].astype(object)
    keys = [part["question_id"], part["answer_sha256"].astype(object), criterion]
    squares = (score - score.groupby(keys).transform("mean")) ** 2
    count = score.groupby(keys).transform("count")
    freedom = ((count - 1) / count).where(score.notna(), 0.0)  # of each mark, so that those of an answer add up
    for name in side.judge.columns.drop(OVERALL):
        free = round(float(freedom[criterion == name].sum()))
        if free >= MIN_QUESTIONS:
            total = float(squares[criterion == name].sum())
            p = float(scipy.stats.chi2.sf(total / MAX_NOISE**2, free))
            yield _Test("noise", name, free, math.sqrt(total / free), p)
    unread, total_marks = int(score.isna().sum()), len(score)
    p = float(scipy.stats.binom.sf(unread - 1, total_marks, MAX_UNREAD))
    yield _Test("unread", OVERALL, total_marks, unread / total_marks, p)


def _t_test(values: Floats, line: float = 0.0, tail: str = "two-sided") -> float:
    if np.ptp(values) < 1e-9:  # nothing varies: that says nothing about the next
        return math.nan if abs(values[0] - line) > 1e-9 else 1.0
    return float(scipy.stats.ttest_1samp(values, line, alternative=tail).pvalue)


def _narrower(x: Floats, y: Floats) -> float:
    """One-sided p that paired x scatter less than y (Pitman and Morgan)."""
    sums, differences = x + y, x - y
    if np.ptp(sums) == 0 or np.ptp(differences) == 0:
        return math.nan
    return float(scipy.stats.pearsonr(sums, differences, alternative="less").pvalue)


def _correlation(x: Floats, y: Floats) -> float:
    """0 where the judge gives one mark throughout: it cannot tell answers apart."""
    return float(np.corrcoef(x, y)[0, 1]) if np.ptp(x) > 0 and np.ptp(y) > 0 else 0.0


def _trust(y: Floats, f: Floats, margin: float, least: float, criteria: int) -> dict[str, Any]:
    n = len(y)
    row: dict[str, Any] = {"n": n, "bias": float((f - y).mean()) if n else math.nan}
    if n < MIN_QUESTIONS or np.ptp(y) < 1e-9 or np.ptp(f - y) < 1e-9:
        nothing = dict.fromkeys(
            ["bias_low", "bias_high", "correlation", "correlation_low", "correlation_high"], math.nan
        )
        return {**row, **nothing, "p_value": 1.0}
    d = f - y
    tail = 1 - _ALPHA / criteria / 2
    reach = float(scipy.stats.t.ppf(tail, n - 1)) * float(d.std(ddof=1)) / math.sqrt(n)
    r = _correlation(y, f)
    z = math.atanh(float(np.clip(r, -0.999, 0.999)))
    left_out = np.array([_correlation(np.delete(y, i), np.delete(f, i)) for i in range(n)])
    jackknife = math.sqrt(float(((np.arctanh(left_out.clip(-0.999, 0.999)) - z) ** 2).sum()))
    error = max(1 / math.sqrt(n - 3), jackknife)
    wide = float(scipy.stats.t.ppf(tail, n - 2)) * error
    p = max(
        _t_test(d, -margin, "greater"),
        _t_test(d, margin, "less"),
        float(scipy.stats.t.sf((z - math.atanh(least)) / error, n - 2)),
    )
    return {
        **row,
        "bias_low": row["bias"] - reach,
        "bias_high": row["bias"] + reach,
        "correlation": r,
        "correlation_low": math.tanh(z - wide),
        "correlation_high": math.tanh(z + wide),
        "p_value": p,
    }


def _labels_needed(row: dict[str, Any], criteria: int, margin: float, least: float) -> float:
    """With how many labels the tests would decide if nothing but their number changed; NaN where none is to be said."""
    if row["verdict"] not in ("条件つき", "分からない") or math.isnan(row["bias_low"]):
        return math.nan
    n = row["n"]
    shown, refused = (scipy.stats.t.ppf(1 - _ALPHA / criteria / sides, n - 2) for sides in (1, 2))
    widths = scipy.stats.t.ppf(1 - _ALPHA / criteria / 2, [n - 1, n - 2])
    bias_error = (row["bias_high"] - row["bias_low"]) / 2 / widths[0]
    z, high = (math.atanh(row[name]) for name in ("correlation", "correlation_high"))
    gaps = (margin - abs(row["bias"])) / bias_error, (z - math.atanh(least)) / ((high - z) / widths[1])  # in errors
    bad = [gap for gap in gaps if gap <= 0]
    gap, level = (max(bad, key=abs), refused) if bad else (min(gaps), shown)
    needed = max(n * (level / gap) ** 2, n + 1) if gap else math.inf
    if needed > MOST_NEEDED:
        return math.nan
    unit = 10 ** max(0, math.floor(math.log10(needed)) - 1)  # two digits: the estimate knows no more
    return float(math.ceil(needed / unit) * unit)


def _with_verdict(row: dict[str, Any], p_holm: float, margin: float, least: float) -> dict[str, Any]:
    row = {**row, "p_holm": p_holm}
    n = row["n"]
    if math.isnan(row["bias_low"]):
        few = n < MIN_QUESTIONS
        verdict = "分からない"
        note = say("stats.trust_few", n=n, least=MIN_QUESTIONS) if few else say("stats.trust_all_same", n=n)
    elif p_holm <= _ALPHA:
        verdict, note = "信頼できる", say("stats.trust_shown", n=n, margin=margin, least=least)
    elif row["bias_low"] > margin or row["bias_high"] < -margin:
        verdict, note = "信頼できない", say("stats.trust_apart", n=n, bias=row["bias"], margin=margin)
    elif row["correlation_high"] < least:
        note = say("stats.trust_unrelated", n=n, correlation=row["correlation"], least=least)
        verdict = "信頼できない"
    elif row["correlation_low"] > least:
        verdict, note = "条件つき", say("stats.trust_ranked", n=n, margin=margin)
    else:
        verdict, note = "分からない", say("stats.trust_open", n=n)
    return {
        **row,
        "verdict": verdict,
        "method": f"two one-sided t tests (±{margin:g}), Fisher z ({least:g}), Holm over criteria at {_ALPHA:g}",
        "note": note,
    }
