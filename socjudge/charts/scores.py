"""Draw the scores of a run, and of several judges side by side. Each function takes a frame and optionally axes, and
returns the axes.

Charts of several runs are in runs.py.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from ..base.messages import listed, say
from ..base.pass_rule import frame_rule, reaches, row_lines
from ..stats.basics import OVERALL, Floats, in_order, plain_floats
from ..stats.conclusion import LEVEL
from .style import (
    SMALL,
    band,
    draw_cells,
    japanese_axes,
    judge_colours,
    judge_key,
    judge_markers,
    known_category,
    label,
    need_scores,
    palette,
    pass_text,
    reach,
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
    need_scores(scores, "score", ["category", "criterion"], "plot_category_breakdown")
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
        score, question_id, and judge_model if the frame has it (each judge has its own colour and marker; all judges
        share one box).
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
    need_scores(scores, "score", ["criterion", "question_id"], "plot_score_distribution")
    lines = row_lines(scores)
    judges = in_order(scores["judge_model"]) if "judge_model" in scores else []
    colours, markers = judge_colours(judges), judge_markers(judges)
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
                colour, marker = colours.get(judge, palette().colours[0]), markers[judge] if len(judges) > 1 else "o"
                passing = reaches(own["score"] - own["line"], 0)
                for dots, face in ((own[passing], colour), (own[~passing], palette().paper)):
                    if len(dots):
                        places = across[dots.index]
                        ax.plot(places, dots["score"], marker, color=colour, markerfacecolor=face, markersize=4.5)
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
            judge_key(ax, judges, below=72)
    return ax


def _draw_box(ax: Axes, place: float, values: Floats) -> None:
    low, middle, high = pd.Series(values).quantile([0.25, 0.5, 0.75])
    ax.bar(place, high - low, 0.8, low, **band())
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
