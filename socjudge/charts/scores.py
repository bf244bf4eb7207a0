"""Draw the scores of a run. Each function takes a frame and optionally axes, and returns the axes.

Charts of several runs are in runs.py.
"""

from __future__ import annotations

import itertools
import math
from typing import Any, cast

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.transforms import offset_copy

from ..base.messages import say
from ..base.pass_rule import frame_rule, reaches, row_lines
from ..stats.basics import Floats, in_order, plain_floats
from .style import (
    draw_cells,
    japanese_axes,
    known_category,
    label,
    need_scores,
    palette,
    pass_text,
)

_MARK_HEIGHT = 2.0  # points of score that a drawn mark covers


def plot_category_breakdown(scores: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Draw the mean score per category and criterion as a heat map, with the number of judged answers in each cell.

    Parameters
    ----------
    scores
        One row per judged answer and criterion, from `load_scores` or `run.scores_frame()`; columns used: category,
        criterion, score. Unscored rows are left out of the means and of n. A cell without a score has a dash; the name
        of a category without any score has the text 未採点 (not scored).
    ax
        The axes to draw on; new ones if not given.

    Raises
    ------
    ValueError
        If no row has a score.

    Examples
    --------
    >>> import socjudge as sj
    >>> ax = sj.plot_category_breakdown(sj.load_scores("logs"))
    """
    need_scores(scores, ["category", "criterion"], "plot_category_breakdown")
    line = frame_rule(scores).line
    drawn = scores.assign(score=plain_floats(scores["score"]), category=known_category(scores["category"]))
    order = [*in_order(scores["category"].dropna()), say("no category")]
    drawn["category"] = pd.Categorical(drawn["category"], order)
    cells = drawn.groupby(["category", "criterion"], observed=True)["score"].agg(["mean", "count"])
    means, counts = cells["mean"].unstack(), cells["count"].unstack().fillna(0).astype(int)
    with japanese_axes(ax, 8, 1.4 + 0.45 * len(means)) as ax:
        draw_cells(ax, means, line)
        ax.set_xticks(range(len(means.columns)), [label(name) for name in means.columns])
        unscored = means.isna().all(axis=1)
        names = [label(name) + ("\n" + say("not scored") if unscored[name] else "") for name in means.index]
        ax.set_yticks(range(len(means.index)), names)
        ax.set_xlabel(say("criterion"))
        ax.set_ylabel(say("category"))
        ax.set_title(say("Mean score by category and criterion ({line})", line=pass_text(line)))
        for row, values in enumerate(means.to_numpy(dtype=float)):
            for column, mean in enumerate(values):
                missing = math.isnan(mean)
                text = "–" if missing else f"{mean:.0f}\nn={counts.to_numpy()[row, column]}"
                ax.text(column, row, text, ha="center", va="center", color=palette().ink if missing else "black")
    return ax


def plot_score_distribution(scores: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Draw every score of each criterion as a point, over a box of the quartiles and the median.

    A point is filled if the score is on or above the pass line, and hollow if it is below. Points that would overlap
    are drawn side by side. Below each criterion are the numbers of scores, of questions, and of missing scores (未採点).

    Parameters
    ----------
    scores
        One row per judged answer and criterion, from `load_scores` or `run.scores_frame()`; columns used: criterion,
        score, question_id, and judge_model if the frame has it (each judge has its own colour; all judges share one box).
    ax
        The axes to draw on; new ones if not given.

    Raises
    ------
    ValueError
        If no row has a score.

    Examples
    --------
    >>> import socjudge as sj
    >>> ax = sj.plot_score_distribution(sj.load_scores("logs"))
    """
    need_scores(scores, ["criterion", "question_id"], "plot_score_distribution")
    lines = row_lines(scores)
    judges = in_order(scores["judge_model"]) if "judge_model" in scores else []
    colours = dict(zip(judges, itertools.cycle(palette().colours), strict=False))
    drawn = scores.assign(score=plain_floats(scores["score"]), line=lines)
    drawn["judge"] = drawn["judge_model"].astype(object) if judges else ""
    criteria = in_order(drawn["criterion"])
    parts = [drawn[drawn["criterion"] == criterion] for criterion in criteria]
    with japanese_axes(ax, 8.5, 3.6) as ax:
        for place, part in enumerate(parts):
            scored = part.dropna(subset=["score"])
            if scored.empty:
                ax.text(place, lines.iloc[-1] / 2, say("not scored"), ha="center", color=palette().grey)
                continue
            _draw_box(ax, place, scored["score"].to_numpy())
            across = pd.Series(place + _side_by_side(scored["score"].tolist()), index=scored.index)
            for judge, own in scored.groupby("judge", sort=False, dropna=False):
                colour = colours.get(judge, palette().colours[0])
                passing = reaches(own["score"] - own["line"], 0)
                for dots, face in ((own[passing], colour), (own[~passing], palette().paper)):
                    if len(dots):
                        places = across[dots.index]
                        ax.plot(places, dots["score"], "o", color=colour, markerfacecolor=face, markersize=4.5)
        for line in lines.unique():
            ax.axhline(line, color=palette().ink, linestyle="--", linewidth=1)
        ax.set_xticks(range(len(parts)), [_counted(c, part) for c, part in zip(criteria, parts, strict=True)])
        ax.set_xlim(-0.6, len(parts) - 0.4)
        ax.set_ylim(-4, 104)
        ax.set_ylabel(say("score (points)"))
        words = "a dot is one score (hollow: below the {line}), boxes are quartiles and median, dashed: the pass line"
        ax.set_xlabel(say(words, line=pass_text(*lines)))
        ax.set_title(say("Scores by criterion"))
        if len(judges) > 1:
            dots = [Line2D([], [], color=colours[judge], marker="o", linestyle="") for judge in judges]
            # In points below the axes, so that it covers no label.
            under = offset_copy(ax.transAxes, cast(Figure, ax.figure), y=-72, units="points")
            at: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (0, 0), "bbox_transform": under}
            ax.legend(dots, list(map(label, judges)), ncols=2, frameon=False, borderaxespad=0, **at)
    return ax


def _draw_box(ax: Axes, place: float, values: Floats) -> None:
    low, middle, high = pd.Series(values).quantile([0.25, 0.5, 0.75])
    look: dict[str, Any] = {"facecolor": palette().band, "edgecolor": palette().grey, "linewidth": 0.5, "zorder": 0}
    ax.bar(place, high - low, 0.8, low, **look)  # its thin edge is visible on any background
    ax.hlines(middle, place - 0.4, place + 0.4, color=palette().grey, linewidth=2, zorder=1)


def _side_by_side(values: list[float]) -> Floats:
    """Return how far each point moves sideways (within ±0.4), so that no point hides another of similar height."""
    highest: list[float] = []  # the highest point of each column, from the middle outwards
    column = {}
    for place in sorted(range(len(values)), key=values.__getitem__):
        free = (number for number, top in enumerate(highest) if values[place] - top >= _MARK_HEIGHT)
        column[place] = next(free, len(highest))
        highest[column[place] : column[place] + 1] = [values[place]]
    step = min(0.09, 0.8 / len(highest))
    sides = [(number + 1) // 2 * (step if number % 2 else -step) for number in range(len(highest))]
    return np.array([sides[column[place]] for place in range(len(values))])


def _counted(criterion: object, part: pd.DataFrame) -> str:
    missing = int(part["score"].isna().sum())
    questions = part["question_id"].nunique()
    found = say("{marks} scores\n{questions} questions", marks=len(part) - missing, questions=questions)
    unscored = say("{count} unscored", count=missing) if missing else ""
    return "\n".join(filter(None, [label(criterion, 14), found, unscored]))
