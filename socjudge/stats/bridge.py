"""Convert points on an old judge's scale to a new judge's scale, for the day when the old model is shut down.

The two scales are joined by linear equating. Regression is not used: it would treat the old judge's scores as exact and
make the slope too small. The notes of `bridge_judges` have the sources.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import scipy.stats  # type: ignore[import-untyped]
from numpy.typing import ArrayLike

from ..base.messages import say, sentences
from ..base.pass_rule import frame_rule, reaches
from ..errors import ConfigError
from .basics import (
    OVERALL,
    Floats,
    by_criterion,
    difference_interval,
    in_order,
    jackknife_interval,
    low_high,
    mean_interval,
    need_columns,
    question_means,
)
from .comparison import LEVEL, pair_scores

MIN_QUESTIONS = 8  # with fewer, the slope is often not known to ±0.5 even if two judges agree well (docs/statistics.md)
_METHOD = f"linear equating of the same answers (ratio of sds); {LEVEL:.0%} jackknife over questions"


def bridge_judges(scores: pd.DataFrame, *, old: Any, new: Any, by: str = "judge_model") -> pd.DataFrame:
    """Compute the lines that convert the old judge's points to the new judge's points.

    There is one row per criterion, and one row (総合) for the mean over the criteria.

    Parameters
    ----------
    scores
        One row per judged answer and criterion, from `load_scores`.
    old, new
        The values of `by` that name the two judges. Both must have judged the same stored answers.
    by
        The column that names a judge.

    Returns
    -------
    DataFrame
        - criterion
        - n: questions
        - n_answers: answers that both judges scored
        - n_missing: number of missing scores
        - shift: the new judge's points minus the old judge's, mean over questions; shift_low, shift_high: its t
          interval
        - slope, slope_low, slope_high, intercept: of the line new points = intercept + slope × old points
        - pass_line, pass_line_low, pass_line_high: the points on the new scale that correspond to the pass line (such
          as 70) on the old scale
        - correlation: of the two judges' scores
        - verdict_changes: answers to which the two judges give different verdicts if both use the old pass line
        - verdict_changes_bridged: answers to which they give different verdicts if the new judge uses pass_line
        - method, note (in the language of the messages)

    Raises
    ------
    ConfigError
        If there are fewer than 8 common questions, or if the two judges judged different answers.

    Notes
    -----
    The line maps the mean and sd of the old points over the answers to those of the new points. This is linear
    equating, which gives the same line in both directions. It is errors-in-variables regression for two judges of equal
    reliability. Ordinary regression would treat the old scores as exact and make the slope too small. slope, intercept
    and pass_line are missing if the correlation is not shown to be above 0. It is then not shown that the two judges
    measure the same thing.

    Sources: Kolen and Brennan (2014), Test Equating, 2.4; Ricker (1973), J. Fish. Res. Board Can. 30, 409-434.

    Examples
    --------
    >>> import pandas as pd
    >>> import socjudge as sj
    >>> one = pd.DataFrame({"question_id": range(8), "answer_sha256": range(8), "criterion": "安全性"})
    >>> marks = pd.Series([90, 85, 80, 70, 60, 50, 40, 20])
    >>> two = [one.assign(judge_model="A", score=marks), one.assign(judge_model="B", score=10 + 0.8 * marks)]
    >>> bridge = sj.stats.bridge_judges(pd.concat(two), old="A", new="B")
    >>> bridge[["criterion", "n", "shift", "slope", "intercept", "pass_line"]].round(1)
      criterion  n  shift  slope  intercept  pass_line
    0       安全性  8   -2.4    0.8       10.0       66.0
    1        総合  8   -2.4    0.8       10.0       66.0
    """
    pairs, at = _pairs(scores, old, new, by, "bridge_judges"), frame_rule(scores).line
    rows = [_bridge_row(pairs[pairs["criterion"] == name], name, at) for name in in_order(pairs["criterion"])]
    return by_criterion(pd.DataFrame(rows), pairs["criterion"].cat.categories)


def bridged_trend(scores: pd.DataFrame, *, old: Any, new: Any, by: str = "judge_model") -> pd.DataFrame:
    """Return the mean scores of both judges' runs on the new judge's scale. There is one row per run, oldest first.

    The lines of `bridge_judges`, here called the bridge, convert the points of the old judge's runs.

    Parameters
    ----------
    scores, old, new, by
        As in `bridge_judges`. `scores` also needs the columns run_id and started_at. Runs without a time come last.

    Returns
    -------
    DataFrame
        - run_id, started_at
        - judge: the value of `by`
        - n: questions
        - n_missing: number of missing scores
        - own_mean: mean of the points that the run's own judge gave, 0–100
        - mean: own_mean on the new judge's scale
        - ci_low, ci_high: interval of mean; for the old judge's runs it includes the uncertainty of the bridge
        - bridged: whether the bridge converted the run's points
        - overlap: whether the new judge judged only answers that the old judge judged too; such a run is part of the
          bridge and does not show a newer state of the assistant
        - seam: whether the run is the first one of the new judge
        - pass_threshold: the pass line of the run
        - method, note (in the language of the messages)

    Examples
    --------
    >>> import socjudge as sj
    >>> trend = sj.stats.bridged_trend(sj.load_scores("logs"), old="guide-1", new="strict-1", by="prompt_id")
    >>> trend[["judge", "bridged", "seam"]].tail(2)
          judge  bridged   seam
    6   guide-1     True  False
    7  strict-1    False   True
    """
    who = "bridged_trend"
    need_columns(scores, ["run_id", "started_at"], who, "load_scores")
    pairs = _pairs(scores, old, new, by, who)
    overall = _overall(pairs)
    lines = equating_lines(overall["first"], overall["second"], overall["question_id"])
    if np.isnan(lines[0]).any():
        raise ConfigError(say("stats.no_common_scale", who=who, old=old, new=new, count=len(overall)))
    part = scores[scores[by].isin([old, new])]
    known = _answers(scores[scores[by] == old])
    rows: list[dict[str, Any]] = []
    means = question_means(part, ["run_id"]).groupby("run_id", observed=True)["score"]
    runs = part.groupby(["started_at", "run_id", by], observed=True, sort=True, dropna=False)
    for (_, run_id, judge), run in runs:
        x = means.get_group(run_id).dropna().to_numpy()
        own = float(x.mean()) if len(x) else math.nan
        bridged = judge == old
        low, high = mean_interval(x, level=LEVEL)
        mean = own
        if bridged:
            moved = _at(lines, own)
            mean = float(moved[0])
            bridge = jackknife_interval(mean, moved[1:], level=LEVEL)
            freedom = len(x) - 1, len(lines) - 3  # the same as in the two intervals; each side keeps its own length
            low = max(mean - _together((own - low) * lines[0, 1], mean - bridge[0], *freedom), 0)
            high = min(mean + _together((high - own) * lines[0, 1], bridge[1] - mean, *freedom), 100)
        row = {
            "run_id": run_id,
            "started_at": run["started_at"].iloc[0],
            "judge": judge,
            "n": len(x),
            "n_missing": int(run["score"].isna().sum()),
            "own_mean": own,
            "mean": mean,
            **low_high("ci", (low, high)),
            "bridged": bridged,
            "overlap": bool(judge == new and _answers(run) <= known),
            "pass_threshold": frame_rule(run).line,
            "seam": bool(judge == new) and all(before["judge"] != new for before in rows),
            "method": f"{_METHOD}, added to the run's interval (Welch)" if bridged else "as judged",
        }
        rows.append({**row, "note": _trend_note(row)})
    return pd.DataFrame(rows)


def questions_missing(reach: float, n: int, enough: float) -> int:
    """Return how many more questions are needed until an interval reaches at most `enough` points to either side.

    - reach: the present half-length of the interval, in points.
    - n: the number of questions from which it comes.

    Returns 0 if no more are needed. The length of an interval is proportional to 1 / √n. Instead of `reach`, its 95 %
    upper limit is used (chi-squared with n - 1 degrees of freedom). A few questions may be alike by chance, which makes
    their interval too short. Without the upper limit, a pass line that counted as known was off by more than `enough`
    in 31 % of the cases with twenty answers.
    """
    sure = reach * math.sqrt((n - 1) / scipy.stats.chi2.ppf(0.05, n - 1))
    return max(math.ceil(n * (sure / enough) ** 2) - n, 0)


def _pairs(scores: pd.DataFrame, old: Any, new: Any, by: str, who: str) -> pd.DataFrame:
    if old == new:
        raise ConfigError(say("stats.same_judge", who=who, old=old, by=by))
    pairs = pair_scores(scores, old, new, by=by, who=who)
    count = _overall(pairs)["question_id"].nunique()
    if count < MIN_QUESTIONS:
        raise ConfigError(say("stats.few_for_bridge", who=who, old=old, new=new, count=count, least=MIN_QUESTIONS))
    return pairs


def _overall(pairs: pd.DataFrame) -> pd.DataFrame:
    return pairs[pairs["criterion"] == OVERALL].dropna(subset=["first", "second"])


def _answers(scores: pd.DataFrame) -> set[tuple[Any, str]]:
    return set(zip(scores["question_id"], scores["answer_sha256"], strict=True))


def equating_lines(old: ArrayLike, new: ArrayLike, questions: ArrayLike) -> Floats:
    """Compute the line new points = intercept + slope × old points, as rows (intercept, slope).

    - old, new: the points of each answer.
    - questions: the question of each answer.

    The first row is from all answers. Each further row leaves out one question. If the correlation of old and new is
    not shown to be above 0 (Fisher's z, 95 %), the result is a single row of NaN.
    """
    x, y, ids = np.asarray(old, dtype=float), np.asarray(new, dtype=float), np.asarray(questions)
    kinds = list(dict.fromkeys(ids.tolist()))
    r = _correlation(x, y)
    if not math.atanh(np.clip(r, -1 + 1e-12, 1 - 1e-12)) > 1.96 / math.sqrt(max(len(kinds) - 3, 1)):
        return np.full((1, 2), math.nan)
    kept = [np.ones(len(ids), dtype=bool), *(ids != kind for kind in kinds)]
    with np.errstate(divide="ignore", invalid="ignore"):
        slopes = np.array([y[keep].std() / x[keep].std() for keep in kept])
        intercepts = np.array([y[keep].mean() - m * x[keep].mean() for keep, m in zip(kept, slopes, strict=True)])
    return np.column_stack([intercepts, slopes])


def _correlation(x: Floats, y: Floats) -> float:
    """Compute the correlation of two arrays. Return 0 if one of them does not vary."""
    return float(np.corrcoef(x, y)[0, 1]) if len(x) > 1 and np.ptp(x) > 0 and np.ptp(y) > 0 else 0.0


def _at(lines: Floats, old: float) -> Floats:
    """Return the new judge's points that correspond to `old` points of the old judge, one value for each line.

    lines: from `equating_lines`.
    """
    return np.asarray(lines[:, 0] + lines[:, 1] * old)


def _together(first: float, second: float, first_freedom: int, second_freedom: int) -> float:
    """Return the half-length of the t interval of a sum, from the half-lengths of the t intervals of its two parts.

    The parts must be independent. Returns NaN if `first` is NaN. Source: Welch (1947), Biometrika 34, 28-35.
    """
    if math.isnan(first):
        return first
    a, b = (reach / _t(freedom) for reach, freedom in ((first, first_freedom), (second, second_freedom)))
    freedom = (a**2 + b**2) ** 2 / (a**4 / first_freedom + b**4 / second_freedom)
    return _t(freedom) * math.hypot(a, b)


def _t(freedom: float) -> float:
    return float(scipy.stats.t.ppf(0.5 + LEVEL / 2, freedom))


def _bridge_row(part: pd.DataFrame, criterion: str, at: float) -> dict[str, Any]:
    scored = part.dropna(subset=["first", "second"])
    shifts = (scored["second"] - scored["first"]).groupby(scored["question_id"]).mean().to_numpy()
    x, y = scored["first"].to_numpy(), scored["second"].to_numpy()
    lines = equating_lines(x, y, scored["question_id"])
    line = _at(lines, at)
    old_passed = reaches(scored["first"], at)
    changes = int((old_passed != reaches(scored["second"], at)).sum())
    bridged = int((old_passed != reaches(scored["second"], line[0])).sum()) if math.isfinite(line[0]) else None
    row = {
        "criterion": criterion,
        "n": len(shifts),
        "n_answers": len(scored),
        "n_missing": int(part["missing"].sum()),
        "shift": float(shifts.mean()) if len(shifts) else math.nan,
        **low_high("shift", difference_interval(shifts, level=LEVEL)),
        "slope": lines[0, 1],
        **low_high("slope", jackknife_interval(lines[0, 1], lines[1:, 1], level=LEVEL)),
        "intercept": lines[0, 0],
        "pass_line": line[0],
        **low_high("pass_line", jackknife_interval(line[0], line[1:], level=LEVEL)),
        "correlation": _correlation(x, y),
        "verdict_changes": changes,
        "verdict_changes_bridged": bridged,
        "method": _METHOD,
    }
    return {**row, "note": _bridge_note(row, at)}


def _bridge_note(row: dict[str, Any], at: float) -> str:
    shift = {"n": row["n"], "shift": row["shift"]}
    low, high = row["shift_low"], row["shift_high"]
    told = [
        say("stats.bridge_shift_interval", **shift, low=low, high=high)
        if math.isfinite(low)
        else say("stats.bridge_shift", **shift)
    ]
    if math.isnan(row["slope"]):
        return sentences(*told, say("stats.bridge_none"))
    low, high = row["pass_line_low"], row["pass_line_high"]
    told.append(say("stats.bridge_line", line=at, new_line=row["pass_line"], low=low, high=high))
    kept, moved = row["verdict_changes"], row["verdict_changes_bridged"]
    told.append(say("stats.bridge_changes", line=at, kept=kept, moved=moved))
    if row["n_missing"]:
        told.append(say("stats.unread_left_out", count=row["n_missing"]))
    return sentences(*told)


def _trend_note(row: dict[str, Any]) -> str:
    return sentences(
        say("stats.trend_seam") if row["seam"] else "",
        say("stats.trend_bridged", points=row["own_mean"]) if row["bridged"] else "",
        say("stats.trend_overlap") if row["overlap"] else "",
        say("stats.questions", n=row["n"]),
        say("stats.unread_not_in_mean", count=row["n_missing"]) if row["n_missing"] else "",
    )
