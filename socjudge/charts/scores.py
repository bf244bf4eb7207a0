"""Draw the scores of a run. Each function takes a frame and optionally axes, and returns the axes.

Charts of several runs are in runs.py, charts of several judges in judges.py.
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from ..base.messages import say
from ..base.pass_rule import frame_rule, reaches, row_lines
from ..errors import ConfigError
from ..stats.basics import Floats, in_order, plain_floats
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
    points,
    question_rows,
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
        ax.set_title(f"{_cells_finding(means, line)}\n{say('Mean score by category and criterion')}")
        for row, values in enumerate(means.to_numpy(dtype=float)):
            for column, mean in enumerate(values):
                missing = math.isnan(mean)
                text = "–" if missing else f"{mean:.0f}\nn={counts.to_numpy()[row, column]}"
                ax.text(column, row, text, ha="center", va="center", color=palette().ink if missing else "black")
    return ax


def _cells_finding(means: pd.DataFrame, line: float) -> str:
    known = means.stack().dropna()
    lowest = known.min()
    category, criterion = known.index[int(known.to_numpy().argmin())]
    if not reaches(lowest, line):
        below = int((~reaches(known, line)).sum())
        words = "{below} of {total} cells are below the {line}; lowest: {points} for {criterion} in {category}"
        return say(
            words, line=pass_text(line), total=len(known), below=below, points=points(lowest, line),
            category=label(category, 14), criterion=label(criterion, 14),
        )  # fmt: skip
    return say("All cells reach the {line}; the lowest has {points}", line=pass_text(line), points=points(lowest, line))


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
        ax.set_title(f"{_scores_finding(drawn)}\n{say('Scores by criterion')}")
        if len(judges) > 1:
            judge_key(ax, judges, below=72)
    return ax


def _scores_finding(scores: pd.DataFrame) -> str:
    known, line = scores.dropna(subset=["score"]), pass_text(*scores["line"])
    low = (~reaches(known["score"] - known["line"], 0)).groupby(known["criterion"], observed=True).agg(["sum", "size"])
    if not low["sum"].sum():
        return say("All scores reach the {line}", line=line)
    place = int((low["sum"] / low["size"]).to_numpy().argmax())
    count, total = low.iloc[place]
    words = "Most scores below the {line}: {criterion} ({count} of {total})"
    return say(words, line=line, criterion=label(low.index[place], 14), total=total, count=count)


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


def plot_gate_confidence(questions: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Draw each question's mean score in one run beside the pass line, with its noise and its chance to pass again.

    - A symbol at the mean, filled if the question passes, with whiskers of noise_sd on both sides. noise_sd is the
      standard deviation of this mean when the run is repeated. The whiskers end at 0 and 100.
    - A diamond as the symbol, and ◆ before the name, if the question decides the verdict.
    - p_pass_rerun, the chance that the question passes when the run is repeated, as text.

    Unscored questions have the text 未採点 (not scored).

    Parameters
    ----------
    questions
        The rows of one run from `gate_confidence` by question; columns used: question_id, category and run_id (if the frame has
        them), mean, noise_sd, p_pass_rerun, decides.
    ax
        The axes to draw on; new ones if left out.

    Raises
    ------
    ValueError
        If no question has a mean.
    ConfigError
        If the frame has rows of several runs.

    Examples
    --------
    >>> import pandas as pd
    >>> import socjudge as sj
    >>> means = [90, 85, 80, 95, 90, 85, 72, 60, 50, 40]
    >>> results = pd.DataFrame({"question_id": range(10), "average_score": means})
    >>> ax = sj.charts.plot_gate_confidence(sj.stats.gate_confidence(results, noise=5.0, by="question"))
    """
    who = "plot_gate_confidence"
    need_scores(questions, "mean", ["question_id", "noise_sd", "p_pass_rerun", "decides"], who, "gate_confidence")
    if questions["question_id"].duplicated().any():
        raise ConfigError(
            "plot_gate_confidence: the frame has {count} runs; draw one: questions[questions.run_id == …]",
            count=questions["run_id"].nunique() if "run_id" in questions else "2+",
        )
    rows, line = question_rows(questions), frame_rule(questions).line
    numbers = questions.set_index("question_id")[["mean", "noise_sd", "p_pass_rerun"]].apply(plain_floats)
    decides = set(questions.loc[questions["decides"].astype(bool), "question_id"])
    with japanese_axes(ax, 9, 1.8 + 0.32 * len(rows)) as ax:
        for place, question in enumerate(rows):
            mean, noise, chance = numbers.loc[question]
            _draw_question(ax, place, mean, noise, question in decides, line)
            words = _chance_text(mean, chance, line)
            ax.text(1.02, place, words, va="center", fontsize=SMALL, transform=ax.get_yaxis_transform())
        ax.axvline(line, color=palette().ink, linestyle="--", linewidth=1)
        signs = ["◆ " if question in decides else "" for question in rows]
        ax.set_yticks(range(len(rows)), [sign + text for sign, text in zip(signs, rows.values(), strict=True)])
        ax.set_ylim(len(rows) - 0.5, -0.5)
        words = (
            "mean score (points; hollow: fails); dashed: the {line}\n"
            "bars: noise of another run (±1 standard deviation); ◆: decides the verdict"
        )
        ax.set_xlabel(say(words, line=pass_text(line)))
        ax.set_title(_gate_title(numbers, line))
    return ax


def _draw_question(ax: Axes, place: int, mean: float, noise: float, decides: bool, line: float) -> None:
    if math.isnan(mean):
        grey, paper = palette().grey, palette().paper
        ax.text(line, place, say("not scored"), ha="center", va="center", color=grey, backgroundcolor=paper)
        return
    colour = palette().colours[5 if decides else 0]
    face, marker = colour if reaches(mean, line) else palette().paper, "D" if decides else "o"
    whiskers = reach(mean, *np.clip([mean - noise, mean + noise], 0, 100))
    ax.errorbar(mean, place, xerr=whiskers, color=colour, marker=marker, markerfacecolor=face, elinewidth=1.2)


def _chance_text(mean: float, chance: float, line: float) -> str:
    if math.isnan(mean):
        return "–"
    if math.isnan(chance):
        return say("{points}  no repeats", points=points(mean, line))
    # A simulation cannot show a chance of 0 or 1.
    words = "<0.01" if chance < 0.005 else ">0.99" if chance > 0.995 else f"{chance:.2f}"
    return say("{points}  passes again: {chance}", points=points(mean, line), chance=words)


def _gate_title(numbers: pd.DataFrame, line: float) -> str:
    means = numbers["mean"].dropna()
    unscored = len(numbers) - len(means)
    title = say("{passed} of {total} questions pass", total=len(means), passed=int(reaches(means, line).sum()))
    return title + (say(", {count} unscored", count=unscored) if unscored else "")
