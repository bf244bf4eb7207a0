"""Draw several judges side by side, from the frames of stats/comparison.py and stats/agreement.py."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from ..base.messages import listed, say
from ..base.pass_rule import row_lines
from ..stats.basics import OVERALL, Floats, in_order, need_columns, plain_floats
from ..stats.comparison import LEVEL
from .style import (
    SMALL,
    band,
    japanese_axes,
    judge_colours,
    judge_key,
    judge_markers,
    label,
    need_marks,
    palette,
    pass_text,
    points,
    question_rows,
    reach,
    size,
)


def plot_judge_comparison(comparison: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Draw how far each judge's scores are from the baseline judge's scores, per criterion and overall, as a forest
    plot.

    - For each criterion and judge: the mean paired difference with its interval. The symbol is filled if the adjusted
      p-value is below 0.05.
    - A grey band around 0 marks the differences that were too small to detect.
    - On the right: n (questions), and 差あり (a difference) or 検出できず (none detected) with the adjusted p-value.

    Parameters
    ----------
    comparison
        From `compare_judges`; columns used: the column that names the compared judges (it stands just before baseline),
        baseline, criterion, n, mean_difference, ci_low, ci_high, p_holm, detectable_difference.
    ax
        The axes to draw on; new ones if left out.

    Returns
    -------
    Axes

    Raises
    ------
    ValueError
        If no row has a difference.

    Examples
    --------
    >>> import socjudge as sj
    >>> comparison = sj.compare_judges(sj.load_scores("logs"), baseline="guide-1", by="prompt_id")
    >>> ax = sj.charts.plot_judge_comparison(comparison)
    """
    names = ["baseline", "criterion", "n", "ci_low", "ci_high", "p_holm", "detectable_difference"]
    need_marks(comparison, "mean_difference", names, "plot_judge_comparison", "compare_judges")
    by = _compared(comparison)
    judges, criteria = in_order(comparison[by]), in_order(comparison["criterion"])
    slot = 0.84 / len(judges)
    lines = len(judges) * len(criteria)
    with japanese_axes(ax, 9.5, 2 + max(0.2 * lines, 0.36 * len(criteria)) + 0.12 * len(judges)) as ax:
        for row in comparison.to_dict("records"):
            place = criteria.index(row["criterion"]) + (judges.index(row[by]) - (len(judges) - 1) / 2) * slot
            _draw_difference(ax, place, 0.9 * slot, row, *_look(row[by], judges))
        ax.use_sticky_edges = False  # otherwise whiskers would be cut at the edges of the bands
        ax.axvline(0, color=palette().ink, linewidth=1)
        ax.set_yticks(range(len(criteria)), [label(name, 20) for name in criteria])
        ax.set_ylim(len(criteria) - 0.5, -0.5)
        for edge in range(1, len(criteria)):
            heavy = OVERALL in (criteria[edge], criteria[edge - 1])
            ax.axhline(edge - 0.5, color=palette().grey, linewidth=0.8 if heavy else 0.3)
        ax.xaxis.set_major_formatter(lambda x, _: f"{x:+g}".replace("-", "−") if x else "0")
        ax.set_xlabel(say("charts.comparison_axis", baseline=_names(comparison["baseline"])))
        ax.set_title(say("charts.comparison_title", level=1 - LEVEL))
        judge_key(ax, judges, below=52)
    return ax


def _look(judge: Any, judges: Sequence[Any]) -> tuple[str, str]:
    return judge_colours(judges)[judge], judge_markers(judges)[judge]


def _draw_difference(ax: Axes, place: float, height: float, row: dict[Any, Any], colour: str, marker: str) -> None:
    mean, visible, p = row["mean_difference"], row["detectable_difference"], row["p_holm"]
    clear = p < 1 - LEVEL
    if not math.isnan(visible):
        ax.barh(place, 2 * visible, height, -visible, **band())
    elif row["ci_low"] != row["ci_high"]:  # too few questions to detect any difference
        ax.axhspan(place - height / 2, place + height / 2, **band())
    if not math.isnan(mean):
        whiskers, face = reach(mean, row["ci_low"], row["ci_high"]), colour if clear else palette().paper
        ax.errorbar(mean, place, xerr=whiskers, color=colour, marker=marker, markerfacecolor=face, elinewidth=1.2)
    words = say("charts.comparison_no_pair", n=row["n"])
    if not math.isnan(mean):
        words = say("charts.comparison_differs" if clear else "charts.comparison_undetected", n=row["n"], p=p)
    ax.text(1.01, place, words, va="center", fontsize=SMALL, transform=ax.get_yaxis_transform())


def _compared(frame: pd.DataFrame) -> str:
    """Return the name of the column that holds the compared judges, prompts or runs.

    compare_judges and verdict_flips put this column just before the column `baseline`.
    """
    return str(frame.columns[list(frame.columns).index("baseline") - 1])


def _names(values: pd.Series) -> str:
    return listed(label(value) for value in in_order(values))


def plot_verdict_flips(flips: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Draw each question that passes with one judge and fails with another, as a line across the pass line.

    The line leads from the baseline judge's mean, a hollow circle, to the other judge's mean, which has that judge's
    own marker. If there is no such question, so that `flips` has no rows, the chart shows a sentence that says so. No
    error is raised.

    Parameters
    ----------
    flips
        From `verdict_flips`; columns used: the column that names the compared judges (it stands just before baseline),
        baseline, question_id, category (if there is one), baseline_mean, mean, direction.
    ax
        The axes to draw on; new ones if left out.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import socjudge as sj
    >>> flips = sj.verdict_flips(sj.load_scores("logs"), baseline="guide-1", by="prompt_id")
    >>> ax = sj.charts.plot_verdict_flips(flips)
    """
    names = ["baseline", "question_id", "baseline_mean", "mean", "direction"]
    need_columns(flips, names, "plot_verdict_flips", "verdict_flips")
    if flips.empty:
        return _say(ax, say("charts.flips_none"))
    by = _compared(flips)
    judges = in_order(flips[by])
    questions, lines = question_rows(flips), row_lines(flips)
    was_lines = flips.get("baseline_pass_threshold", lines)
    rows = flips.assign(_line=lines, _was_line=was_lines).to_dict("records")
    rows.sort(key=lambda row: (list(questions).index(row["question_id"]), judges.index(row[by])))
    with japanese_axes(ax, 9, 2 + 0.3 * len(rows) + 0.12 * len(judges)) as ax:
        for place, row in enumerate(rows):
            colour, marker = _look(row[by], judges)
            ends = (row["baseline_mean"], row["mean"])
            ax.plot(ends, (place, place), color=colour, linewidth=1.5, zorder=1)
            ax.plot(ends[0], place, "o", color=palette().grey, markerfacecolor=palette().paper)
            ax.plot(ends[1], place, marker, color=colour)
            before, after = points(ends[0], row["_was_line"]), points(ends[1], row["_line"])
            words = say("charts.flips_row", direction=row["direction"], before=before, after=after)
            ax.text(1.01, place, words, va="center", fontsize=SMALL, transform=ax.get_yaxis_transform())
        for line in {*lines, *was_lines}:
            ax.axvline(line, color=palette().ink, linestyle="--", linewidth=1)
        ax.set_yticks(range(len(rows)), [questions[row["question_id"]] for row in rows])
        ax.set_ylim(len(rows) - 0.5, -0.5)
        ax.set_xlabel(say("charts.flips_axis", baseline=_names(flips["baseline"]), line=pass_text(*lines, *was_lines)))
        ax.set_title(say("charts.flips_title", count=len(questions)))
        judge_key(ax, judges)
    return ax


def _say(ax: Axes | None, words: str) -> Axes:
    """Return axes that show the sentence `words` and nothing else. New axes are made if `ax` is None."""
    with japanese_axes(ax, 9, 1.2) as ax:
        ax.text(0.5, 0.5, words, ha="center", va="center", transform=ax.transAxes)
        ax.set_axis_off()
    return ax


def plot_cost_agreement(
    comparison: pd.DataFrame, agreement: pd.DataFrame, *, reference: Any = None, ax: Axes | None = None
) -> Axes:
    """Draw each judge's cost per question against the share of its verdicts that agree with a reference.

    - One labelled symbol per judge, with the interval of this share and n (answers). The offline judge is at cost 0.
    - A dotted line at the cost of the reference, if it is the baseline judge and its cost is known.
    - On the right, a separate strip for judges of unknown cost (費用不明).

    The cost axis is logarithmic (linear near 0) if the most expensive judge costs more than 10 times as much as the
    cheapest judge that is not free.

    Parameters
    ----------
    comparison
        From `compare_judges`; columns used: the column that names the compared judges (it stands just before baseline),
        baseline, criterion, cost_usd_per_question, baseline_cost_usd_per_question. Only rows of 総合 (overall)
        count.
    agreement
        From `pairwise_agreement` of the same scores; columns used: first, second, criterion, n, verdict_agreement,
        agreement_low, agreement_high. Only rows of 総合 count.
    reference
        A judge, or a person who scored the answers, such as "佐藤"; the baseline judge if left out. If the reference is a
        person, the baseline judge has a symbol too.
    ax
        The axes to draw on; new ones if left out.

    Returns
    -------
    Axes

    Raises
    ------
    ValueError
        If no judge scored the same answers as the reference.

    Examples
    --------
    >>> import socjudge as sj
    >>> scores = sj.load_scores("logs")
    >>> comparison = sj.compare_judges(scores, baseline="guide-1", by="prompt_id")
    >>> ax = sj.charts.plot_cost_agreement(comparison, sj.stats.pairwise_agreement(scores, by="prompt_id"))
    """
    who = "plot_cost_agreement"
    costs = ["criterion", "baseline", "cost_usd_per_question", "baseline_cost_usd_per_question"]
    need_columns(comparison, costs, f"{who}, comparison", "compare_judges")
    pair = ["first", "second", "criterion", "n", "verdict_agreement", "agreement_low", "agreement_high"]
    need_columns(agreement, pair, f"{who}, agreement", "pairwise_agreement")
    overall = comparison[comparison["criterion"] == OVERALL]
    if reference is None and len(overall):
        reference = overall["baseline"].iloc[0]
    judges = _cost_points(overall, agreement[agreement["criterion"] == OVERALL], reference)
    if judges.empty:
        raise ValueError(say("charts.no_shared_answer", reference=reference))
    own = _own_cost(overall, reference)
    with japanese_axes(ax, 9, 5) as ax:
        ax.set_ylim(min(0.5, judges["low"].min()) - 0.04, 1.04)
        _scale_costs(ax, [*judges["cost"], own])
        across = judges["cost"]
        if across.isna().any():
            across = across.fillna(_unknown_strip(ax, alone=bool(across.isna().all()) and math.isnan(own)))
        look = {judge: _look(judge, list(judges.index)) for judge in judges.index}
        for judge, point in judges.assign(x=across).iterrows():
            whiskers = reach(point["y"], point["low"], point["high"])
            ax.errorbar(point["x"], point["y"], whiskers, color=look[judge][0], marker=look[judge][1], elinewidth=0.8)
        texts = [
            say("charts.cost_label", judge=label(judge), share=share, n=n)
            for judge, share, n in zip(judges.index, judges["y"], judges["n"], strict=True)
        ]
        _label_right(ax, across.to_numpy(), judges["y"].to_numpy(), texts)
        ax.yaxis.set_major_formatter("{x:.0%}")
        ax.set_xlabel(say("charts.cost_axis"))
        if not math.isnan(own):
            ax.axvline(own, color=palette().grey, linestyle=":", linewidth=1, zorder=0)
            ax.set_xlabel(say("charts.cost_axis_own", reference=label(reference), cost=_dollars(own)))
        ax.set_ylabel(say("charts.cost_agreement", reference=label(reference)))
        ax.set_title(say("charts.cost_title"))
    return ax


def _cost_points(overall: pd.DataFrame, agreement: pd.DataFrame, reference: Any) -> pd.DataFrame:
    """Return a frame with one row per judge that was compared with the reference. The index has the judges' names.

    Columns: cost (US dollars per question, NaN if unknown); y (the share of verdicts that agree with the reference);
    low and high (the interval of y); n (answers).
    """
    costs = dict(zip(overall["baseline"], plain_floats(overall["baseline_cost_usd_per_question"]), strict=True))
    costs |= dict(zip(overall[_compared(overall)], plain_floats(overall["cost_usd_per_question"]), strict=True))
    rows = {}
    for row in agreement.to_dict("records"):
        pair = [row["first"], row["second"]]
        if reference not in pair:
            continue
        judge = pair[1 - pair.index(reference)]
        if judge in costs and not pd.isna(row["verdict_agreement"]):
            ends = row["verdict_agreement"], row["agreement_low"], row["agreement_high"]
            rows[judge] = (costs[judge], *ends, row["n"])
    return pd.DataFrame.from_dict(rows, orient="index", columns=["cost", "y", "low", "high", "n"], dtype=float)


def _own_cost(overall: pd.DataFrame, reference: Any) -> float:
    """Return the reference's cost per question in US dollars.

    Return NaN if this cost is unknown, or if the reference is not the baseline judge.
    """
    own = plain_floats(overall.loc[overall["baseline"] == reference, "baseline_cost_usd_per_question"])
    return float(own.iloc[0]) if len(own) else math.nan


def _dollars(cost: float) -> str:
    return f"{cost:.6f}".rstrip("0").rstrip(".")


def _scale_costs(ax: Axes, costs: Sequence[float]) -> None:
    paid = [cost for cost in costs if cost > 0]
    top = max(paid, default=1.0)
    if paid and top > 10 * min(paid):
        ax.set_xscale("symlog", linthresh=min(paid))
        ax.minorticks_off()
        ax.set_xlim(-0.2 * min(paid), top * 1.6)
    else:
        ax.set_xlim(-0.05 * top, top * 1.1)
    ax.xaxis.set_major_formatter(lambda cost, _: _dollars(cost))


def _unknown_strip(ax: Axes, *, alone: bool) -> float:
    """Add a strip on the right for judges of unknown cost. Return the x value of its middle.

    alone: whether no cost is known. The strip then fills the whole width.
    """
    left, right = ax.get_xlim()
    if alone:
        ax.set_xticks([])
        ax.axvspan(left, right, **band())
        ax.text(0.5, 0.02, say("charts.cost_unknown"), ha="center", transform=ax.transAxes)
        ax.set_xlim(left, right)
        return (left + right) / 2
    ax.set_xticks([tick for tick in ax.get_xticks() if left <= tick <= right])
    transform = ax.xaxis.get_transform()
    low, edge = transform.transform(np.array([left, right]))
    middle, end = map(float, transform.inverted().transform(edge + (edge - low) * np.array([0.1, 0.2])))
    ax.axvspan(right, end, **band())
    ax.text(middle, 0.02, say("charts.cost_unknown"), ha="center", transform=ax.get_xaxis_transform())
    ax.set_xlim(left, end)
    return middle


def _label_right(ax: Axes, x: Floats, y: Floats, texts: list[str]) -> None:
    """Draw a column of labels to the right of the axes, with a thin line from each label to its point.

    x, y: the coordinates of the points. Labels that would overlap are moved apart.
    """
    low, high = ax.get_ylim()
    gap = 2.6 * SMALL / size(ax)[1]  # the height of two lines of text
    for place, text, point in zip(_apart((y - low) / (high - low), gap), texts, zip(x, y, strict=True), strict=True):
        arrow = {"arrowstyle": "-", "color": palette().grey, "linewidth": 0.5, "shrinkB": 4}
        style: dict[str, Any] = {"va": "center", "fontsize": SMALL, "arrowprops": arrow}
        ax.annotate(text, point, (1.03, place), textcoords="axes fraction", **style)


def _apart(values: Floats, gap: float) -> Floats:
    """Return the values, moved just enough to be at least `gap` apart. Their order stays the same."""
    order = np.argsort(values, kind="stable")
    moved = values[order].astype(float)
    for _ in range(200):
        lacking = (gap - np.diff(moved)).clip(0) / 2
        moved[:-1] -= lacking
        moved[1:] += lacking
    placed = np.empty_like(moved)
    placed[order] = moved
    return placed
