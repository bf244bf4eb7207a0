"""Draw the scores of several runs over time."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from ..base.conditions import CONDITIONS, Difference, conditions_of, differences, why_incomparable
from ..base.messages import listed, say
from ..base.pass_rule import reaches, row_lines
from ..base.texts import local_time
from ..stats.basics import OVERALL, in_order, summarise_scores
from ..stats.matrix import UNSCORED, question_matrix, run_names
from .style import (
    SMALL,
    draw_cells,
    japanese_axes,
    japanese_text,
    known_category,
    label,
    need_scores,
    new_figure,
    palette,
    pass_text,
    use_japanese,
)

_ACROSS = 4  # small charts side by side
_CIRCLED = "①②③④⑤⑥⑦⑧⑨⑩⑪⑫⑬⑭⑮⑯⑰⑱⑲⑳"
_NEEDED = ["run_id", "started_at", "question_id", "criterion"]


def plot_criterion_trend(scores: pd.DataFrame) -> Axes:
    """Draw each criterion's mean score over the runs, oldest first, as a small chart of its own, all on one scale.

    The first chart has the mean of all criteria. A filled dot is a mean on or above the pass line, and a hollow dot is
    a mean below it. Whiskers are 95 % intervals over questions; runs with fewer than ten questions have none. A run is
    grey if it cannot be compared with the latest one, because judge, judge prompt, criteria or dataset differ. A dotted
    line with a number shows that something changed before a run. The text below the charts explains the numbers. Times
    are in this machine's time zone. The name of a criterion below the pass line in the latest run is orange.

    Parameters
    ----------
    scores
        One row per judged answer and criterion, from `load_scores`; columns used: run_id, started_at, question_id,
        criterion, score, and the columns of a run's conditions, if the frame has them (base/conditions.py).

    Returns
    -------
    Axes
        The first of the small charts; its `figure` has them all.

    Raises
    ------
    ValueError
        If no row has a score.

    Examples
    --------
    >>> import socjudge as sj
    >>> ax = sj.plot_criterion_trend(sj.load_scores("logs"))
    """
    need_scores(scores, _NEEDED, "plot_criterion_trend")
    scores = scores.astype({"run_id": object})
    runs, told = _runs(scores), conditions_of(scores)
    local = _local(runs)
    lines = dict(zip(runs["run_id"], row_lines(runs), strict=True))
    overall = summarise_scores(scores, by="run_id").assign(criterion=OVERALL)
    means = pd.concat([overall, summarise_scores(scores, by=["run_id", "criterion"])])
    names = [OVERALL, *(str(name) for name in in_order(scores["criterion"]))]
    latest = told[runs["run_id"].iloc[-1]]
    is_alike = np.array([not why_incomparable(told[run_id], latest) for run_id in runs["run_id"]])
    changes = _changes(scores, runs)
    numbers = {place: number for number, place in enumerate(dict.fromkeys(place for place, _ in changes), start=1)}
    rows = math.ceil(len(names) / _ACROSS)
    with japanese_text():
        figure = new_figure(9.5, 1.3 + 1.7 * rows + 0.17 * len(numbers))
        axes = figure.subplots(rows, _ACROSS, sharex=True, sharey=True, squeeze=False).ravel()
        for ax, name in zip(axes, names, strict=False):
            part = means[means["criterion"] == name].set_index("run_id").reindex(runs["run_id"])
            is_low = _draw_small(ax, part, list(lines.values()), is_alike, numbers)
            colour = palette().colours[5] if is_low else palette().ink
            ax.set_title(_small_title(part["mean"], name, lines, told), fontsize=9, loc="left", color=colour)
        for ax in axes[len(names) :]:
            ax.set_axis_off()
        for ax in axes[max(len(names) - _ACROSS, 0) : len(names)]:
            _label_days(ax, local)
        lowest = float(means[["mean", "ci_low"]].min().min())
        axes[0].set_ylim(max(0, min(60, 10 * math.floor(lowest / 10))) - 2, 102)
        figure.suptitle(_trend_title(lines, is_alike), fontsize=10)
        explained = [
            f"{_mark(number)} {listed(words for at, words in changes if at == place)}"
            for place, number in numbers.items()
        ]
        figure.supxlabel("\n".join([_started(local), *explained]), fontsize=SMALL, ha="left", x=0.01)
        use_japanese(figure)
    first: Axes = axes[0]  # not the figure, which a notebook would show twice
    return first


def _trend_title(lines: dict[Any, float], is_alike: np.ndarray[Any, Any]) -> str:
    words = "Mean score by criterion and run (●: on or above the {line}, ○: below, whiskers: 95% intervals)"
    title = say(words, line=pass_text(*lines.values()))
    grey = "" if is_alike.all() else "\n" + say("Grey runs cannot be compared with the latest one.")
    return title + grey


def _draw_small(
    ax: Axes, part: pd.DataFrame, lines: list[float], is_alike: np.ndarray[Any, Any], numbers: dict[int, int]
) -> bool:
    """Return whether the latest mean is below the pass line. `numbers` are {place of a run: number of the change}."""
    mean, places = part["mean"].to_numpy(dtype=float), np.arange(len(part))
    passed, grey = reaches(mean, np.array(lines)), palette().grey
    look: dict[str, Any] = {"color": palette().ink, "linestyle": "--", "linewidth": 0.8, "zorder": 1}
    ax.plot(np.arange(len(lines) + 1) - 0.5, [*lines, lines[-1]], drawstyle="steps-post", **look)
    ends = np.array([part["mean"] - part["ci_low"], part["ci_high"] - part["mean"]], dtype=float)
    whiskers = ends.clip(0)  # rounding can put an end on the wrong side of the mean
    ax.errorbar(places, mean, whiskers, color=grey, linewidth=0.8, elinewidth=0.8, zorder=2)
    for is_good, colour in ((True, palette().colours[0]), (False, palette().colours[5])):
        for some, shown in ((is_alike, colour), (~is_alike, grey)):
            dots = some & (passed == is_good) & ~np.isnan(mean)
            face = shown if is_good else palette().paper
            if dots.any():
                ax.plot(places[dots], mean[dots], "o", color=shown, markerfacecolor=face, markersize=4.5, zorder=3)
    for place, number in numbers.items():
        ax.axvline(place - 0.5, color=grey, linestyle=":", linewidth=0.8, zorder=0)
        at: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "xytext": (2, 2), "textcoords": "offset points"}
        ax.annotate(_mark(number), (place - 0.5, 0), fontsize=SMALL, **at)
    ax.spines[["top", "right"]].set_visible(False)
    known = np.flatnonzero(~np.isnan(mean))
    return bool(len(known)) and not passed[known[-1]]


def _small_title(mean: pd.Series, name: str, lines: dict[Any, float], told: Mapping[Any, dict[str, str]]) -> str:
    known = mean.dropna()
    if known.empty:
        return f"{label(name, 20)}  {say('not scored')}"
    latest = _points(known.iloc[-1], lines[known.index[-1]])
    if len(known) < 2 or why_incomparable(told[known.index[-2]], told[known.index[-1]]):
        return f"{label(name, 20)}  {latest}"
    change = round(known.iloc[-1] - known.iloc[-2], 1) + 0.0  # avoids -0.0
    words = "{name}  {points} ({change:+.1f} since the last run)"
    return say(words, name=label(name, 20), points=latest, change=change)


def _points(mean: float, line: float) -> str:
    """Return a mean as text without decimals. A mean below the pass line is never rounded up to the line."""
    return f"{math.floor(mean) if not reaches(mean, line) and reaches(round(mean), line) else mean:.0f}"


def _mark(number: int) -> str:
    return _CIRCLED[number - 1 : number] or str(number)


def _label_days(ax: Axes, local: Sequence[datetime]) -> None:
    is_one_day = len({time.date() for time in local}) == 1
    places = range(0, len(local), math.ceil(len(local) / 5))
    texts = [f"{local[place]:%H:%M}" if is_one_day else f"{local[place].month}/{local[place].day}" for place in places]
    ax.set_xticks(places, texts, fontsize=SMALL)
    ax.tick_params(labelbottom=True)
    ax.set_xlim(-0.6, len(local) - 0.4)


def _local(runs: pd.DataFrame) -> list[datetime]:
    """Return when the runs began, by day and clock as this machine shows them, whatever zone the frame uses."""
    return [time.to_pydatetime().astimezone() for time in runs["started_at"]]


def _started(local: Sequence[datetime]) -> str:
    years = "–".join(dict.fromkeys(str(time.year) for time in (local[0], local[-1])))
    return say("start of the run ({years}, {zone}), oldest first", years=years, zone=local_time(local[-1])[20:])


def _runs(scores: pd.DataFrame) -> pd.DataFrame:
    return scores.drop_duplicates("run_id").sort_values("started_at", kind="stable").astype({"run_id": object})


def _changes(scores: pd.DataFrame, runs: pd.DataFrame) -> list[tuple[int, str]]:
    """Return (place of a run, what changed before it). A condition is compared with its value in the latest earlier run
    whose log records it."""
    found, told, conditions = [], dict[str, str](), conditions_of(scores)
    for place, run_id in enumerate(runs["run_id"]):
        now = conditions[run_id]
        known = [each for each in differences(told, now) if each.before and each.after]
        for group in dict.fromkeys(each.condition.group for each in known):
            first = next(each for each in known if each.condition.group == group)
            # A hash shows that something changed, but tells a reader nothing.
            is_named = not first.condition.column.endswith(("sha256", "fingerprint"))
            words = _change_words(first) if is_named else say("{what} changed", what=say(group))
            found.append((place, words))
            for each in CONDITIONS:  # after a change, earlier values no longer count
                if each.group == group:
                    told.pop(each.column, None)
        told |= now
    return found


def _change_words(change: Difference) -> str:
    if change.condition.column in ("runbooks", "criteria"):
        return label(change.phrase(), 120)
    name, before, after = change.words()
    return f"{name}: {label(before, 60)}→{label(after, 60)}"  # each side is cut, so that both are seen


def plot_question_strip(scores: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Draw each question's mean score over all criteria in each run, as a table of coloured cells.

    There is one row per question and one column per run, oldest first. Below a column is its judge; if they differ
    between the runs, also judge prompt, assistant, its prompt and version, k and pass line; and last the start. A cell
    has ○ (at or above the pass line), × (below it) or △ (undecided: it depends on missing scores, or the log contradicts
    itself), and the mean, with * if some of its scores are missing. It is hatched if all its scores are missing (未採点),
    and empty if the run did not ask the question. With more than 24 runs, the cells show only the symbol.

    Parameters
    ----------
    scores
        One row per judged answer and criterion, from `load_scores`; columns used: run_id, started_at, question_id,
        criterion, score, and, if they are there, category, judge_model, assistant_model, prompt_id and
        assistant_version. Repeats are averaged.
    ax
        The axes to draw on; new ones if left out.

    Raises
    ------
    ValueError
        If no row has a score.

    Examples
    --------
    >>> import socjudge as sj
    >>> ax = sj.plot_question_strip(sj.load_scores("logs"))
    """
    need_scores(scores, _NEEDED, "plot_question_strip")
    runs, rows = _runs(scores), _question_rows(scores)
    lines = dict(zip(runs["run_id"], row_lines(runs), strict=True))
    cells = question_matrix(scores).set_index(["question_id", "run_id"])
    signs, means, missing = (
        cells[name].unstack().reindex(list(rows), columns=runs["run_id"]) for name in ("sign", "mean", "missing")
    )
    with japanese_axes(ax, 9, 2.2 + 0.26 * len(rows)) as ax:
        own = list(lines.values())
        draw_cells(ax, means - own + own[-1], own[-1])  # the colour turns at each run's own line
        for row, found in enumerate(zip(signs.to_numpy(), means.to_numpy(), missing.to_numpy(), strict=True)):
            for column, (sign, mean, unread) in enumerate(zip(*found, strict=True)):
                told = _points(mean, own[column]) if len(runs) <= 24 and mean == mean else ""
                _draw_cell(ax, row, column, sign, told + ("*" if unread > 0 else ""))
        _label_columns(ax, runs, run_names(scores))
        ax.set_xlim(-0.5, len(runs) - 0.5)
        ax.set_yticks(range(len(rows)), list(rows.values()))
        ax.set_title(say("Mean score by question ({line})", line=pass_text(*own)))
    return ax


def _question_rows(frame: pd.DataFrame) -> dict[Any, str]:
    """Return {question id: label}, in the order of the categories and then of the ids. A label has the category too."""
    rows = frame.drop_duplicates("question_id")
    if "category" not in rows:
        return {question: label(question) for question in sorted(rows["question_id"], key=_natural)}
    place = {category: number for number, category in enumerate(in_order(rows["category"]))}
    rows = rows.assign(category=known_category(rows["category"]))
    pairs = list(zip(rows["question_id"], rows["category"], strict=True))
    pairs.sort(key=lambda pair: (place.get(pair[1], len(place)), _natural(pair[0])))
    return {question: f"{label(question, 20)}  {label(category, 20)}" for question, category in pairs}


def _natural(question: Any) -> list[Any]:
    """Return a key for sorting question ids that puts q2 before q10."""
    return [int(part) if place % 2 else part for place, part in enumerate(re.split(r"(\d+)", str(question)))]


def _label_columns(ax: Axes, runs: pd.DataFrame, names: Mapping[Any, str]) -> None:
    """Write below each column the judge, what else tells its run from the others, and last the start."""
    local = _local(runs)
    texts = [
        "\n".join([*(label(part, 18) for part in names[run_id].split(" / ")), f"{time:%H:%M} {time.month}/{time.day}"])
        for run_id, time in zip(runs["run_id"], local, strict=True)
    ]
    places = range(0, len(local), math.ceil(len(local) / 24))
    ax.set_xticks(places, [texts[place] for place in places], fontsize=SMALL, rotation=90 if len(local) > 5 else 0)
    signs = say("○ passes   △ undecided   × fails   hatched: unscored   *: some scores missing")
    ax.set_xlabel(f"{_started(local)}\n{signs}", fontsize=SMALL)


def _draw_cell(ax: Axes, row: int, column: int, sign: Any, mean: str) -> None:
    look: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": SMALL}
    if sign == UNSCORED:
        hatch: dict[str, Any] = {"fc": palette().paper, "ec": palette().grey, "hatch": "////", "lw": 0}
        ax.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, **hatch))
        box = {"facecolor": palette().paper, "linewidth": 0, "pad": 1}
        ax.text(column, row, say("not scored"), color=palette().ink, bbox=box, **look)
    elif isinstance(sign, str):  # otherwise the run did not ask the question
        ax.text(column, row, sign + mean, color="black", **look)
