"""Draw several judges side by side, from the frames of stats/comparison.py and stats/agreement.py."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from ..base.messages import listed, say
from ..stats.basics import OVERALL, in_order
from ..stats.conclusion import LEVEL
from .style import (
    SMALL,
    band,
    japanese_axes,
    judge_colours,
    judge_key,
    judge_markers,
    label,
    need_scores,
    palette,
    reach,
)


def plot_judge_comparison(comparison: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Draw as a forest plot how far each judge's scores are from the baseline judge's, per criterion and overall.

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
    need_scores(comparison, "mean_difference", names, "plot_judge_comparison", "compare_judges")
    by = str(comparison.columns[list(comparison.columns).index("baseline") - 1])
    judges, criteria = in_order(comparison[by]), in_order(comparison["criterion"])
    colours, markers = judge_colours(judges), judge_markers(judges)
    slot = 0.84 / len(judges)
    lines = len(judges) * len(criteria)
    with japanese_axes(ax, 9.5, 2 + max(0.2 * lines, 0.36 * len(criteria)) + 0.12 * len(judges)) as ax:
        for row in comparison.to_dict("records"):
            place = criteria.index(row["criterion"]) + (judges.index(row[by]) - (len(judges) - 1) / 2) * slot
            _draw_difference(ax, place, 0.9 * slot, row, colours[row[by]], markers[row[by]])
        ax.use_sticky_edges = False  # otherwise whiskers would be cut at the edges of the bands
        ax.axvline(0, color=palette().ink, linewidth=1)
        ax.set_yticks(range(len(criteria)), [label(name, 20) for name in criteria])
        ax.set_ylim(len(criteria) - 0.5, -0.5)
        for edge in range(1, len(criteria)):
            heavy = OVERALL in (criteria[edge], criteria[edge - 1])
            ax.axhline(edge - 0.5, color=palette().grey, linewidth=0.8 if heavy else 0.3)
        ax.xaxis.set_major_formatter(lambda x, _: f"{x:+g}".replace("-", "−") if x else "0")
        words = (
            "difference from {baseline} (points, mean and 95% interval)\n"
            "so few questions cannot show a difference inside the grey band"
        )
        ax.set_xlabel(say(words, baseline=listed(label(value) for value in in_order(comparison["baseline"]))))
        words = "Differences in the scores of the same answers (filled: adjusted p < {level:.2g})"
        ax.set_title(say(words, level=1 - LEVEL))
        judge_key(ax, judges, below=52)
    return ax


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
    words = say("n={n}  no pair of scores", n=row["n"])
    if not math.isnan(mean):
        words = say("n={n}  differs, p={p:.3f}" if clear else "n={n}  not detected, p={p:.2f}", n=row["n"], p=p)
    ax.text(1.01, place, words, va="center", fontsize=SMALL, transform=ax.get_yaxis_transform())
