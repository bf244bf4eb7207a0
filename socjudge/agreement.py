"""How far several judges or people agree: on the points, and on who passes."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from .errors import ConfigError
from .pass_rule import PASS_LINE
from .stats import (
    OVERALL,
    Floats,
    difference_interval,
    jackknife_interval,
    need_columns,
    pass_rate_interval,
    plain_floats,
    rank_correlation,
)

_UNIT = ["question_id", "answer_sha256"]


def krippendorff_alpha(ratings: ArrayLike) -> float:
    """Krippendorff's alpha for interval data: 1 is perfect, 0 what chance gives.

    ratings: one row per answer, one column per rater, NaN where not rated; rows with a single rating do not count.
    NaN where nothing can be paired or nothing varies. Source: Krippendorff (2011), Computing Krippendorff's
    Alpha-Reliability, section D, https://repository.upenn.edu/asc_papers/43."""
    x = np.asarray(ratings, dtype=float)
    x = x[np.isfinite(x).sum(axis=1) >= 2]
    counts = np.isfinite(x).sum(axis=1)
    total = int(counts.sum())
    if total == 0:
        return math.nan
    # Squared differences over all pairs of m values are 2 m times their sum of squares around the mean.
    within = np.nansum((x - np.nanmean(x, axis=1, keepdims=True)) ** 2, axis=1)
    observed = float((2 * counts * within / (counts - 1)).sum()) / total
    expected = 2 * float(np.nansum((x - np.nanmean(x)) ** 2)) / (total - 1)
    return 1 - observed / expected if expected > 1e-12 else math.nan


def icc_agreement(ratings: ArrayLike) -> float:
    """ICC(A,1): the reliability of one rater's points, a difference in level between raters counting as error.

    ratings: one row per answer, one column per rater, complete. NaN with fewer than two rows or raters, or where
    nothing varies. Equal to ICC(2,1). Sources: McGraw and Wong (1996), Psychol. Methods 1, 30-46, table 4; Shrout and
    Fleiss (1979), Psychol. Bull. 86, 420-428."""
    x = np.asarray(ratings, dtype=float)
    n, k = x.shape
    if n < 2 or k < 2:
        return math.nan
    rows, columns, mean = x.mean(axis=1, keepdims=True), x.mean(axis=0, keepdims=True), x.mean()
    between_rows = k * float(((rows - mean) ** 2).sum()) / (n - 1)
    between_raters = n * float(((columns - mean) ** 2).sum()) / (k - 1)
    error = float(((x - rows - columns + mean) ** 2).sum()) / ((n - 1) * (k - 1))
    total = between_rows + (k - 1) * error + k / n * (between_raters - error)
    return (between_rows - error) / total if total > 1e-12 else math.nan


def fleiss_kappa(labels: ArrayLike) -> float:
    """Fleiss' kappa of labels: one row per answer, one column per rater, complete. NaN where all labels are the same.

    Source: Fleiss (1971), Psychol. Bull. 76, 378-382."""
    x = np.asarray(labels)
    kinds = np.unique(x)
    if len(kinds) < 2 or x.shape[1] < 2:
        return math.nan
    k = x.shape[1]
    counts = (x[:, :, None] == kinds).sum(axis=1)
    observed = float(((counts * (counts - 1)).sum(axis=1) / (k * (k - 1))).mean())
    chance = float((counts.mean(axis=0) / k) @ (counts.mean(axis=0) / k))
    return (observed - chance) / (1 - chance)


def cohen_kappa(first: ArrayLike, second: ArrayLike) -> float:
    """Cohen's kappa of two raters' labels. NaN where both give one and the same label throughout.

    Source: Cohen (1960), Educ. Psychol. Meas. 20, 37-46."""
    a, b = np.asarray(first), np.asarray(second)
    kinds = np.union1d(a, b)
    if len(kinds) < 2:
        return math.nan
    chance = sum(float((a == kind).mean() * (b == kind).mean()) for kind in kinds)
    return (float((a == b).mean()) - chance) / (1 - chance)


def judge_agreement(
    scores: pd.DataFrame, labels: pd.DataFrame | None = None, *, by: str = "judge_model", level: float = 0.95
) -> pd.DataFrame:
    """Agreement of all judges (and people) at once, one row per criterion and one (総合) for the mean over criteria.

    scores: one row per judged answer and criterion; the values of `by` are the raters. labels: people's marks, one row
    per rater, answer and criterion, with the columns rater, question_id, answer_sha256, criterion and score (0–100).
    Repeats of a rater are averaged. Columns: criterion, n_raters, n (answers with two raters or more), n_questions,
    n_complete (answers with all raters, which ICC and verdicts use), n_missing (marks that could not be read); alpha,
    alpha_low, alpha_high (Krippendorff, interval data), icc_a1, icc_low, icc_high (ICC(A,1)); verdict_agreement (share
    of rater pairs with the same verdict at the pass line), base_rate (share of verdicts that pass), kappa (Fleiss);
    method, note (Japanese). Intervals leave out one question at a time (`jackknife_interval`).
    ConfigError with fewer than two raters or no common answer."""
    ratings = _ratings(scores, labels, by, "judge_agreement")
    rows = [_group_row(ratings, criterion, level) for criterion in _rows(ratings)]
    return _framed(rows, ratings)


def pairwise_agreement(
    scores: pd.DataFrame, labels: pd.DataFrame | None = None, *, by: str = "judge_model", level: float = 0.95
) -> pd.DataFrame:
    """Agreement of each two judges (or people), one row per pair and criterion; arguments as in `judge_agreement`.

    Columns: first, second, criterion, n (answers both rated), n_questions, n_missing; bias (second - first, points,
    mean over questions), bias_low, bias_high (t interval); loa_low, loa_high (Bland and Altman's limits of agreement,
    between which 95 % of single differences lie: bias ± 1.96 sd); rank_agreement (Spearman over answers), icc_a1;
    verdict_agreement, agreement_low, agreement_high (Wilson; too narrow where a question has several answers),
    base_rate_first, base_rate_second (share that passes), kappa (Cohen); method, note (Japanese).
    Source of the limits: Bland and Altman (1986), Lancet 327, 307-310."""
    ratings = _ratings(scores, labels, by, "pairwise_agreement")
    raters = list(dict.fromkeys(ratings["rater"]))
    rows = [
        _pair_row(ratings, criterion, first, second, level)
        for first, second in combinations(raters, 2)
        for criterion in _rows(ratings)
    ]
    return _framed([row for row in rows if row["n"]], ratings)


def _ratings(scores: pd.DataFrame, labels: pd.DataFrame | None, by: str, who: str) -> pd.DataFrame:
    """One row per rater, answer and criterion (and 総合): columns rater, question_id, answer_sha256, criterion, score,
    missing (how many marks could not be read)."""
    need_columns(scores, [by, *_UNIT, "criterion", "score"], who)
    parts = [scores.assign(rater=scores[by])]
    if labels is not None:
        need_columns(labels, ["rater", *_UNIT, "criterion", "score"], f"{who}, labels")
        if both := set(labels["rater"]) & set(scores[by]):  # or they would be averaged as repeats of one rater
            raise ConfigError(
                f"{who}: {', '.join(sorted(both))} marks as a judge and in labels; rename the rater's file"
            )
        parts.append(labels)
    columns = ["rater", *_UNIT, "criterion", "score"]
    # Two frames' categories differ, so that the names go together as plain objects.
    names = dict.fromkeys(["rater", "answer_sha256", "criterion"], object)
    marks = pd.concat([part[columns].astype(names) for part in parts], ignore_index=True)
    marks = marks.assign(score=plain_floats(marks["score"]), missing=marks["score"].isna())
    keys = ["rater", *_UNIT, "criterion"]
    marks = marks.groupby(keys, as_index=False, sort=False).agg({"score": "mean", "missing": "sum"})
    raters = marks["rater"].nunique()
    if raters < 2:
        raise ConfigError(
            f"{who}: there is one rater, {by} {marks['rater'].iloc[0]!r}; add scores of another, or labels"
        )
    if not marks.groupby([*_UNIT, "criterion"])["rater"].nunique().gt(1).any():
        raise ConfigError(
            f"{who}: no answer was rated by two of the {raters} raters; "
            "use rejudge(run, judge_model=…), which marks the stored answers of a run again"
        )
    # The mean over criteria compares only where raters used the same ones.
    shared = marks.groupby("criterion")["rater"].nunique()
    common = marks[marks["criterion"].isin(shared[shared == raters].index)]
    grouped = common.groupby(["rater", *_UNIT], sort=False)
    complete = grouped["score"].count() == common["criterion"].nunique()
    overall = grouped.agg({"score": "mean", "missing": "sum"})
    overall = overall.assign(score=overall["score"].where(complete), criterion=OVERALL).reset_index()
    column = scores["criterion"]
    known = list(column.cat.categories) if isinstance(column.dtype, pd.CategoricalDtype) else []
    present = dict.fromkeys(marks["criterion"])
    order = [*(name for name in known if name in present), *(name for name in present if name not in known), OVERALL]
    table = pd.concat([marks, overall], ignore_index=True)
    return table.assign(criterion=pd.Categorical(table["criterion"], categories=order, ordered=True))


def _rows(ratings: pd.DataFrame) -> list[str]:
    present = set(ratings["criterion"])
    return [name for name in ratings["criterion"].cat.categories if name in present]


def _framed(rows: list[dict[str, Any]], ratings: pd.DataFrame) -> pd.DataFrame:
    frame = pd.DataFrame(rows)
    categories = ratings["criterion"].cat.categories
    return frame.assign(criterion=pd.Categorical(frame["criterion"], categories=categories, ordered=True))


def _without_each(statistic: Callable[[Floats], float], table: pd.DataFrame) -> list[float]:
    """The statistic of the table with each question left out in turn."""
    questions = table.index.get_level_values("question_id")
    return [statistic(table[questions != question].to_numpy()) for question in questions.unique()]


def _group_row(ratings: pd.DataFrame, criterion: str, level: float) -> dict[str, Any]:
    part = ratings[ratings["criterion"] == criterion]
    table = part.pivot(index=_UNIT, columns="rater", values="score").astype(float)
    table = table[table.notna().sum(axis=1) >= 2]
    full = table.dropna()
    k = table.shape[1]
    alpha, icc = krippendorff_alpha(table.to_numpy()), icc_agreement(full.to_numpy())
    alpha_ends = jackknife_interval(
        alpha, _without_each(krippendorff_alpha, table), level=level, scale="agreement", raters=k
    )
    icc_ends = jackknife_interval(icc, _without_each(icc_agreement, full), level=level, scale="agreement", raters=k)
    passed = full.to_numpy() >= PASS_LINE
    pairs = [float((passed[:, i] == passed[:, j]).mean()) for i, j in combinations(range(k), 2)] if len(full) else []
    row: dict[str, Any] = {
        "criterion": criterion,
        "n_raters": k,
        "n": len(table),
        "n_questions": table.index.get_level_values("question_id").nunique(),
        "n_complete": len(full),
        "n_missing": int(part["missing"].sum()),
        "alpha": alpha,
        "alpha_low": alpha_ends[0],
        "alpha_high": alpha_ends[1],
        "icc_a1": icc,
        "icc_low": icc_ends[0],
        "icc_high": icc_ends[1],
        "verdict_agreement": float(np.mean(pairs)) if pairs else math.nan,
        "base_rate": float(passed.mean()) if len(full) else math.nan,
        "kappa": fleiss_kappa(passed) if len(full) else math.nan,
        "method": f"Krippendorff alpha (interval), ICC(A,1), {level:.0%} jackknife over questions; Fleiss kappa at the pass line",
    }
    return {**row, "note": _verdict_note(row["n_questions"], row["kappa"], row["base_rate"], row["n_missing"])}


def _pair_row(ratings: pd.DataFrame, criterion: str, first: Any, second: Any, level: float) -> dict[str, Any]:
    part = ratings[(ratings["criterion"] == criterion) & ratings["rater"].isin([first, second])]
    table = part.pivot(index=_UNIT, columns="rater", values="score").astype(float)
    table = table.reindex(columns=[first, second]).dropna()
    n = len(table)
    a, b = table[first].to_numpy(), table[second].to_numpy()
    by_question = (table[second] - table[first]).groupby("question_id").mean().to_numpy()
    bias_low, bias_high = difference_interval(by_question, level=level)
    bias = float(by_question.mean()) if n else math.nan
    spread = 1.96 * float((b - a).std(ddof=1)) if n > 1 else math.nan
    passes_a, passes_b = a >= PASS_LINE, b >= PASS_LINE
    same = int((passes_a == passes_b).sum())
    low, high = pass_rate_interval(same, n, level) if n else (math.nan, math.nan)
    kappa = cohen_kappa(passes_a, passes_b) if n else math.nan
    missing = int(part["missing"].sum())
    rates = [float(x.mean()) if n else math.nan for x in (passes_a, passes_b)]
    return {
        "first": first,
        "second": second,
        "criterion": criterion,
        "n": n,
        "n_questions": len(by_question),
        "n_missing": missing,
        "bias": bias,
        "bias_low": bias_low,
        "bias_high": bias_high,
        "loa_low": bias - spread,
        "loa_high": bias + spread,
        "rank_agreement": rank_correlation(a, b),
        "icc_a1": icc_agreement(table.to_numpy()),
        "verdict_agreement": same / n if n else math.nan,
        "agreement_low": low,
        "agreement_high": high,
        "base_rate_first": rates[0],
        "base_rate_second": rates[1],
        "kappa": kappa,
        "method": "Bland-Altman; Spearman; ICC(A,1); Cohen kappa at the pass line",
        "note": _verdict_note(len(by_question), kappa, float(np.mean(rates)), missing),
    }


def _verdict_note(questions: int, kappa: float, base_rate: float, missing: int) -> str:
    note = f"{questions}問。"
    if math.isnan(kappa) and not math.isnan(base_rate):
        note += f"全員がすべて{'合格' if base_rate > 0.5 else '不合格'}としたため κ は定義されません。"
    elif base_rate > 0.9 or base_rate < 0.1:
        note += "合否がほぼ片方に偏るため、一致率は高く κ は低く出ます。両方を見てください。"
    return note + (f"未採点 {missing} 件は除外。" if missing else "")
