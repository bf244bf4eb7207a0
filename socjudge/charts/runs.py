"""Draw the scores of several runs over time."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.text import Text

from ..base.conditions import CONDITIONS, Difference, conditions_of, differences, why_incomparable
from ..base.messages import listed, say
from ..base.pass_rule import reaches, row_lines
from ..base.texts import local_time
from ..stats.basics import OVERALL, in_order, question_means, summarise_scores
from .style import (
    MARKERS,
    SMALL,
    draw_cells,
    font_family,
    japanese_axes,
    japanese_text,
    label,
    need_scores,
    new_figure,
    palette,
    pass_text,
    points,
    question_rows,
    reach,
    size,
)

_ACROSS = 4  # small charts side by side
_CIRCLED = "①②③④⑤⑥⑦⑧⑨⑩⑪⑫⑬⑭⑮⑯⑰⑱⑲⑳"
_ROW = 5.5  # points of score that a line of words takes above 100


def plot_criterion_trend(scores: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Draw each criterion's mean score over the runs, oldest first, with the pass line.

    Whiskers are 95 % intervals over questions. Runs are evenly spaced. Their labels are the start in this machine's
    time zone, n (questions) and the number of missing scores. A run without a score is a gap. The legend has the latest
    mean of each criterion.

    A dotted line before a run has words for what changed since earlier runs, such as Judge: a→b, 抜粋の数 k (number of
    passages): 3→5, or 手順書: 追加 (runbooks: added) x.md. A condition that a log does not record counts as unchanged.

    Parameters
    ----------
    scores
        One row per judged answer and criterion, from `load_scores`; columns used: run_id, started_at, question_id,
        criterion, score, and the columns of a run's conditions, if the frame has them (base/conditions.py).
    ax
        The axes to draw on; new ones if left out.

    Raises
    ------
    ValueError
        If no row has a score.

    Examples
    --------
    >>> import socjudge as sj
    >>> ax = sj.plot_criterion_trend(sj.load_scores("logs"))
    """
    need_scores(scores, "score", ["run_id", "started_at", "question_id", "criterion"], "plot_criterion_trend")
    runs, lines = _runs(scores), _lines(scores)
    summary = summarise_scores(scores.astype({"run_id": object}), by=["run_id", "criterion"])
    criteria = in_order(scores["criterion"])
    lowest = float(summary[["mean", "ci_low"]].min().min())
    changes = _changes(scores, runs)
    with japanese_axes(ax, 9.5, 5 + 0.1 * len(changes)) as ax:
        for number, criterion in enumerate(criteria):
            part = summary[summary["criterion"] == criterion].set_index("run_id").reindex(runs["run_id"])
            _draw_trend(ax, part, str(criterion), number, (number - (len(criteria) - 1) / 2) * 0.6 / len(criteria))
        _draw_line(ax, list(lines.values()), 1)
        _label_runs(ax, runs["started_at"], _count_texts(summary, runs))
        floor = max(0, min(60, 10 * math.floor(lowest / 10)))
        ax.set_yticks(range(floor, 101, 10))
        ax.set_ylim(floor - 1, _mark_changes(ax, changes, len(runs)))
        ax.set_ylabel(say("mean score (points)"))
        title = say("Mean score by criterion and run (whiskers: 95% intervals over questions)")
        ax.set_title(f"{_trend_finding(scores, runs)}\n{title}")
        ax.legend(loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False, borderaxespad=0)
    return ax


def plot_criterion_multiples(scores: pd.DataFrame) -> Figure:
    """Draw each criterion's mean score over the runs as a small chart of its own, all on one scale.

    The first chart has the mean of all criteria. A filled dot is a mean on or above the pass line, and a hollow dot is
    a mean below it. Whiskers are 95 % intervals over questions. A dotted line with a number shows that something
    changed before a run. The text below the charts explains the numbers. The title lists the criteria that are below
    the pass line in the latest run.

    Parameters
    ----------
    scores
        As for `plot_criterion_trend`.

    Raises
    ------
    ValueError
        If no row has a score.

    Examples
    --------
    >>> import socjudge as sj
    >>> figure = sj.charts.plot_criterion_multiples(sj.load_scores("logs"))
    """
    need_scores(scores, "score", ["run_id", "started_at", "question_id", "criterion"], "plot_criterion_multiples")
    scores = scores.astype({"run_id": object})
    runs, lines = _runs(scores), _lines(scores)
    single = summarise_scores(scores, by=["run_id", "criterion"])
    overall = summarise_scores(scores, by="run_id").assign(criterion=OVERALL)
    means = pd.concat([overall, single])
    names = [OVERALL, *(str(name) for name in in_order(scores["criterion"]))]
    changes, told = _changes(scores, runs, width=120), conditions_of(scores)
    numbers = {place: number for number, place in enumerate(dict.fromkeys(place for place, _ in changes), start=1)}
    floor = max(0, min(60, 10 * math.floor(float(means[["mean", "ci_low"]].min().min()) / 10)))
    rows = math.ceil(len(names) / _ACROSS)
    with japanese_text():
        figure = new_figure(11.5, 1.2 + 1.9 * rows + 0.17 * len(numbers))
        axes = figure.subplots(rows, _ACROSS, sharex=True, sharey=True, squeeze=False).ravel()
        below = []
        for ax, name in zip(axes, names, strict=False):
            part = means[means["criterion"] == name].set_index("run_id").reindex(runs["run_id"])
            if _draw_small(ax, part, name, lines, numbers, told):
                below.append(name)
        for ax in axes[len(names) :]:
            ax.set_axis_off()
        for ax in axes[len(names) - _ACROSS : len(names)]:
            _label_days(ax, runs["started_at"])
        axes[0].set_ylim(floor - 2, 102)
        finding = (
            say("Below the pass line in the latest run: {names}", names=listed(below))
            if below
            else say("All criteria reach the pass line in the latest run")
        )
        known = sorted(set(lines.values()))
        line = say("that run's pass line") if len(known) > 1 else say("{line:g}", line=known[0])
        title = say(
            "Mean score by criterion and run (●: {line} or more, ○: less, whiskers: 95% intervals over questions)",
            line=line,
        )
        figure.suptitle(f"{finding}\n{title}", fontsize=11)
        explained = [
            f"{_CIRCLED[number - 1 : number] or number} {listed(words for at, words in changes if at == place)}"
            for place, number in numbers.items()
        ]
        if explained:
            figure.supxlabel("\n".join(explained), fontsize=SMALL, ha="left", x=0.01)
        for text in figure.findobj(Text):
            text.set_fontfamily(font_family())
    return figure


def _draw_small(
    ax: Axes,
    part: pd.DataFrame,
    name: str,
    lines: dict[Any, float],
    numbers: dict[int, int],  # {x position of a run: the number that stands for the changes before it}
    told: Mapping[Any, dict[str, str]],  # {run id: conditions of the run}
) -> bool:
    """Return whether the latest mean is below the pass line."""
    mean, places, own = part["mean"], np.arange(len(part)), list(lines.values())
    known = mean.dropna()
    passed = reaches(mean.fillna(0.0) - own, 0).to_numpy()
    _draw_line(ax, own, 0.8)
    _draw_means(ax, places, part, color=palette().grey, linewidth=0.8, elinewidth=0.8, zorder=2)
    for is_good, colour in ((True, palette().colours[0]), (False, palette().colours[5])):
        some = (passed == is_good) & mean.notna().to_numpy()
        face = colour if is_good else palette().paper
        ax.plot(places[some], mean[some], "o", color=colour, markerfacecolor=face, markersize=4.5, zorder=3)
    for place, number in numbers.items():
        ax.axvline(place - 0.5, color=palette().grey, linestyle=":", linewidth=0.8, zorder=0)
        mark = _CIRCLED[number - 1 : number] or str(number)
        ax.annotate(
            mark,
            (place - 0.5, 0),
            xycoords=("data", "axes fraction"),
            xytext=(2, 2),
            textcoords="offset points",
            fontsize=SMALL,
        )
    line = lines[known.index[-1]] if len(known) else own[-1]
    is_below = bool(len(known)) and not reaches(known.iloc[-1], line)
    latest = points(known.iloc[-1], line) if len(known) else say("unscored")
    title = f"{label(name, 20)}  {latest}"
    if len(known) > 1 and not why_incomparable(told[known.index[-2]], told[known.index[-1]]):
        change = round(known.iloc[-1] - known.iloc[-2], 1) + 0.0  # avoids -0.0
        title = say(
            "{name}  {points} ({change:+.1f} since the last run)", name=label(name, 20), points=latest, change=change
        )
    ax.set_title(title, fontsize=9, loc="left", color=palette().colours[5] if is_below else palette().ink)
    ax.spines[["top", "right"]].set_visible(False)
    return is_below


def _draw_line(ax: Axes, lines: Sequence[float], width: float) -> None:
    look: dict[str, Any] = {"color": palette().ink, "linestyle": "--", "linewidth": width, "zorder": 1}
    if len(set(lines)) == 1:
        ax.axhline(lines[0], label=pass_text(*lines), **look)
    else:
        places = np.arange(len(lines))
        ax.hlines(lines, places - 0.5, places + 0.5, label=pass_text(*lines), **look)


def _label_days(ax: Axes, started: Iterable[pd.Timestamp]) -> None:
    local = [time.to_pydatetime().astimezone() for time in started]
    is_one_day = len({time.date() for time in local}) == 1
    places = range(0, len(local), math.ceil(len(local) / 5))
    texts = [f"{local[place]:%H:%M}" if is_one_day else f"{local[place].month}/{local[place].day}" for place in places]
    ax.set_xticks(places, texts, fontsize=SMALL)
    ax.tick_params(labelbottom=True)
    ax.set_xlim(-0.6, len(local) - 0.4)


def _trend_finding(scores: pd.DataFrame, runs: pd.DataFrame) -> str:
    means = summarise_scores(scores.astype({"run_id": object}), by="run_id").set_index("run_id")["mean"]
    known = means.reindex(runs["run_id"]).dropna()
    first, last = f"{known.iloc[0]:.1f}", f"{known.iloc[-1]:.1f}"
    if len(known) == 1:
        return say("The overall mean is {mean}", mean=first)
    told = conditions_of(scores)
    if why := why_incomparable(told[known.index[0]], told[known.index[-1]]):
        return say(
            "The latest overall mean is {mean} (not comparable with the first run: {why} differ)", mean=last, why=why
        )
    return (
        say("The overall mean is still {mean}", mean=first)
        if first == last
        else say("The overall mean went from {first} to {last}", first=first, last=last)
    )


def _draw_trend(ax: Axes, part: pd.DataFrame, criterion: str, number: int, shift: float) -> None:
    known = part["mean"].dropna()
    latest = f"{known.iloc[-1]:.0f}" if len(known) else say("unscored")
    _draw_means(
        ax,
        np.arange(len(part)) + shift,
        part,
        label=f"{label(criterion, 20)}  {latest}",
        color=palette().colours[number % len(palette().colours)],
        marker=MARKERS[number % len(MARKERS)],
        markersize=5 if len(part) <= 20 else 3,
        linewidth=0.8,
        elinewidth=0.8,
    )


def _runs(scores: pd.DataFrame) -> pd.DataFrame:
    return scores.drop_duplicates("run_id").sort_values("started_at", kind="stable").astype({"run_id": object})


def _count_texts(summary: pd.DataFrame, runs: pd.DataFrame) -> list[str]:
    counts = summary.groupby("run_id").agg({"n": "max", "n_missing": "sum"}).reindex(runs["run_id"])
    return [
        f"n={n}" + ("\n" + say("unscored: {count}", count=missing) if missing else "")
        for n, missing in counts.itertuples(index=False)
    ]


def _label_runs(ax: Axes, started: Iterable[pd.Timestamp], more: Sequence[str] = (), below: str = "") -> None:
    # Day and clock as this machine shows them, whatever zone the frame uses.
    local = [time.to_pydatetime().astimezone() for time in started]
    texts = [f"{time:%H:%M}\n{time.month}/{time.day}" for time in local]
    if more:
        texts = [f"{text}\n{extra}" for text, extra in zip(texts, more, strict=True)]
    places = range(0, len(local), math.ceil(len(local) / 12))
    ax.set_xticks(places, [texts[place] for place in places], fontsize=SMALL)
    ax.set_xlim(-0.6, len(local) - 0.4)
    years = "–".join(dict.fromkeys(str(time.year) for time in (local[0], local[-1])))
    when = say("start of the run ({years}, {zone}), oldest first", years=years, zone=local_time(local[-1])[20:])
    ax.set_xlabel("\n".join([when, *([below] if below else [])]))


def _changes(scores: pd.DataFrame, runs: pd.DataFrame, *, width: int = 48) -> list[tuple[int, str]]:
    """A condition is compared with its value in the latest earlier run whose log records it."""
    found, told, conditions = [], dict[str, str](), conditions_of(scores)
    for place, run_id in enumerate(runs["run_id"]):
        now = conditions[run_id]
        known = [each for each in differences(told, now) if each.before and each.after]
        for group in dict.fromkeys(each.condition.group for each in known):
            first = next(each for each in known if each.condition.group == group)
            # A hash shows that something changed, but tells a reader nothing.
            is_named = not first.condition.column.endswith(("sha256", "fingerprint"))
            found.append((place, _change_words(first, width) if is_named else _changed(first)))
            for each in CONDITIONS:  # after a change, earlier values no longer count
                if each.group == group:
                    told.pop(each.column, None)
        told |= now
    return found


def _change_words(change: Difference, width: int) -> str:
    name, before, after = change.words()
    if change.condition.column in ("runbooks", "criteria"):
        return label(change.phrase(), width)
    return f"{name}: {label(before, width // 2)}→{label(after, width // 2)}"


def _changed(change: Difference) -> str:
    return say("{what} changed", what=say(change.condition.group))


def _mark_changes(ax: Axes, changes: list[tuple[int, str]], runs: int) -> float:
    """Write the changes above 100 points, in as many rows as needed. Return the y value at which they end."""
    scale = runs / size(ax)[0]  # runs per typographic point
    rows: list[float] = []  # where each row of words ends
    for place, words in changes:
        line, width = place - 0.5, (_width(words) + 8) * scale
        right = line + width <= runs - 0.5
        start = line if right else max(-0.5, line - width)
        row = next((row for row, end in enumerate(rows) if end <= start), len(rows))
        rows[row : row + 1] = [start + width]
        ax.axvline(line, color=palette().grey, linestyle=":", linewidth=1, zorder=0)
        at, side = (start + 4 * scale, "left") if right else (start + width - 4 * scale, "right")
        box = {"facecolor": palette().paper, "linewidth": 0, "pad": 0.5}
        ax.text(at, 102 + _ROW * row, words, fontsize=SMALL, ha=side, va="bottom", bbox=box)
    return 102 + _ROW * len(rows)


def _width(text: str) -> float:
    """Estimate the width of a text at the small font size, in typographic points."""
    return SMALL * sum(1 if unicodedata.east_asian_width(c) in "WFA" else 0.58 for c in text)


def plot_question_strip(scores: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Draw each question's mean score over all criteria in each run, as a table of coloured cells.

    There is one row per question and one column per run, oldest first. A cell has ○ (at or above the pass line) or ×
    (below it) and the mean, with * if some of its scores are missing. It is hatched if all its scores are missing
    (未採点), and empty if the run did not ask the question. With more than 24 runs, the cells show only ○ and ×,
    without the mean.

    Parameters
    ----------
    scores
        One row per judged answer and criterion, from `load_scores`; columns used: run_id, started_at, question_id,
        criterion, score, and category if there is one. Repeats are averaged.
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
    need_scores(scores, "score", ["run_id", "started_at", "question_id", "criterion"], "plot_question_strip")
    runs, rows, lines = _runs(scores), question_rows(scores), _lines(scores)
    scores = scores.astype({"run_id": object})
    means = question_means(scores, ["run_id"]).pivot(index="question_id", columns="run_id", values="score")
    missing = scores["score"].isna().groupby([scores["question_id"], scores["run_id"]], observed=True).sum().unstack()
    means, missing = (table.reindex(index=list(rows), columns=runs["run_id"]) for table in (means, missing))
    with japanese_axes(ax, 9, 2 + 0.26 * len(rows)) as ax:
        own = list(lines.values())
        draw_cells(ax, _on_one_line(means, lines), own[-1])
        for row, (found, lacking) in enumerate(zip(means.to_numpy(), missing.to_numpy(), strict=True)):
            for column, (mean, unread) in enumerate(zip(found, lacking, strict=True)):
                _draw_cell(ax, row, column, mean, unread, own[column], narrow=len(runs) > 24)
        _label_runs(
            ax, runs["started_at"], below=say("○ passes   × fails   hatched: unscored   *: some scores missing")
        )
        ax.set_xlim(-0.5, len(runs) - 0.5)
        ax.set_yticks(range(len(rows)), list(rows.values()))
        finding = _strip_finding(means, lines, conditions_of(scores))
        ax.set_title(f"{finding}\n{say('Mean score by question ({line})', line=pass_text(*lines.values()))}")
    return ax


def _lines(scores: pd.DataFrame) -> dict[Any, float]:
    """Return {run id: pass line}, the oldest run first."""
    runs = _runs(scores)
    return dict(zip(runs["run_id"], row_lines(runs), strict=True))


def _on_one_line(means: pd.DataFrame, lines: dict[Any, float]) -> pd.DataFrame:
    """Rescale means, for the colours only, so that each run's pass line becomes the latest run's."""
    latest = list(lines.values())[-1]
    scaled = {name: np.interp(means[name], [0, line, 100], [0, latest, 100]) for name, line in lines.items()}
    return pd.DataFrame(scaled, means.index)


def _strip_finding(means: pd.DataFrame, lines: dict[Any, float], told: Mapping[Any, dict[str, str]]) -> str:
    known = {name: means[name].dropna() for name in lines}
    now, latest = list(known.items())[-1]
    if latest.empty:
        return say("The latest run is unscored")
    failed = latest.index[~reaches(latest, lines[now])]
    words = (
        say("{count} questions fail in the latest run", count=len(failed))
        if len(failed)
        else say("All questions pass in the latest run")
    )
    earlier = [name for name in known if name != now and len(known[name].index.intersection(latest.index))]
    if not earlier:
        return words
    before = earlier[-1]
    why = why_incomparable(told[before], told[now])
    if why or lines[before] != lines[now]:
        return say(
            "{latest} (not comparable with the run before: {why} differ)",
            latest=words,
            why=why or say("pass line"),
        )
    common = known[before].index.intersection(latest.index)
    was, is_now = reaches(known[before][common], lines[before]), reaches(latest[common], lines[now])
    lost, won = int((was & ~is_now).sum()), int((~was & is_now).sum())
    return say("{latest}; since the run before {lost} lost, {won} won back", latest=words, lost=lost, won=won)


def _draw_cell(ax: Axes, row: int, column: int, mean: float, missing: float, line: float, *, narrow: bool) -> None:
    if math.isnan(missing):
        return
    if math.isnan(mean):
        look: dict[str, Any] = {"fc": palette().paper, "ec": palette().grey, "hatch": "////", "lw": 0}
        ax.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, **look))
        text, colour = "" if narrow else say("unscored"), palette().ink
    else:
        text, colour = "○" if reaches(mean, line) else "×", "black"
        text += ("" if narrow else points(mean, line)) + ("*" if missing else "")
    box = {"facecolor": palette().paper, "linewidth": 0, "pad": 1} if text and math.isnan(mean) else None
    ax.text(column, row, text, ha="center", va="center", color=colour, fontsize=SMALL, bbox=box)


def _draw_means(ax: Axes, places: Any, part: pd.DataFrame, **look: Any) -> None:
    whiskers = reach(part["mean"], part["ci_low"], part["ci_high"])
    ax.errorbar(places, part["mean"].to_numpy(), whiskers, **look)
