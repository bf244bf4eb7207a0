"""Provide what all charts share: the Japanese font, labels that cannot break a chart, and fixed colours and markers."""

from __future__ import annotations

import base64
import io
import itertools
import math
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib import font_manager, rc_params_from_file, rcParamsDefault
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, TwoSlopeNorm, to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.transforms import offset_copy

from ..base.messages import say
from ..base.pass_rule import reaches
from ..records import is_embedded
from ..stats.basics import Floats, in_order, need_columns

SMALL = 8  # points: notes and numbers beside the marks


@dataclass(frozen=True)
class Palette:
    """Hold the colours of a chart."""

    ink: str  # lines and text
    paper: str  # the inside of hollow symbols
    grey: str  # less important things
    band: str  # areas behind the symbols
    colours: tuple[str, ...]  # judges and criteria


# Okabe and Ito (2008), https://jfly.uni-koeln.de/color/, without black, which is for lines and text. On light paper the
# seventh is Tol's wine red, because their yellow is too light. On dark paper the blue is lighter. Any colour vision can
# tell them apart.
_ON_LIGHT = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#882255")
_ON_DARK = ("#1A88CC", *_ON_LIGHT[1:-1], "#F0E442")
MARKERS = ("o", "s", "^", "D", "v", "P", "<", ">", "h", "p")
_OFFLINE = "*"  # for the embedded default; not a cross, because that means 不合格
_STYLE = Path(__file__).with_name("chart.mplstyle")

# Whether charts are drawn for `chart_url`, without pyplot.
_apart = ContextVar("_apart", default=False)
_lock = threading.RLock()  # matplotlib's settings are global, so two threads would undo each other's


def palette() -> Palette:
    """Return the colours for matplotlib's current style. A style counts as dark if its text is light."""
    ink, paper = plt.rcParams["text.color"], plt.rcParams["axes.facecolor"]
    red, green, blue = to_rgb(ink)
    # Its relative luminance, approximately as WCAG defines it, from 0 (black) to 1 (white).
    if 0.2126 * red**2.2 + 0.7152 * green**2.2 + 0.0722 * blue**2.2 > 0.5:
        return Palette(ink, paper, "#a6a6a6", "#242424", _ON_DARK)
    return Palette(ink, paper, "#666666", "#e4e4e4", _ON_LIGHT)


def band() -> dict[str, Any]:
    """Return matplotlib's arguments for an area behind the symbols. Its thin edge is visible on any background."""
    return {"facecolor": palette().band, "edgecolor": palette().grey, "linewidth": 0.5, "zorder": 0}


def judge_colours(names: Iterable[Any]) -> dict[Any, str]:
    """Choose a colour for each judge of a chart, in the order of its legend. The offline judge is grey."""
    return _in_turn(names, palette().colours, palette().grey)


def judge_markers(names: Iterable[Any]) -> dict[Any, str]:
    """Choose a marker for each judge, which tells judges apart in grey print, or if they have the same colour."""
    return _in_turn(names, MARKERS, _OFFLINE)


def _in_turn(names: Iterable[Any], looks: Sequence[str], of_offline: str) -> dict[Any, str]:
    given = list(dict.fromkeys(names))
    others = [name for name in given if not is_embedded(name)]
    taken = dict(zip(others, itertools.cycle(looks), strict=False))
    return {name: taken.get(name, of_offline) for name in given}


@contextmanager
def japanese_text() -> Iterator[None]:
    """Draw the Japanese text of charts with the bundled font IPAexGothic inside a `with` block.

    matplotlib's settings are restored after the block. Another thread that wants to draw at the same time waits until
    the block ends.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> import socjudge as sj
    >>> with sj.charts.japanese_text():
    ...     title = plt.figure().suptitle("評価の推移")
    """
    with _settings():
        yield


@contextmanager
def _settings(**more: Any) -> Iterator[None]:
    with _lock:
        _font_file()
        settings: dict[Any, Any] = {**rc_params_from_file(_STYLE, use_default_template=False), **more}
        before = {name: plt.rcParams[name] for name in settings}
        # Not plt.rc_context: it would also undo what the first figure sets, namely that charts show in a notebook.
        plt.rcParams.update(settings)
        try:
            yield
        finally:
            plt.rcParams.update(before)


def chart_url(plot: Callable[[pd.DataFrame], Axes], frame: pd.DataFrame) -> str:
    """Draw the frame with `plot`, in any thread. Return the data URL of an SVG that needs no installed font."""
    buffer = io.BytesIO()
    # The background is always white, because reports are printed. Panels and pages recolour their charts for a dark
    # screen.
    with _settings(**{name: rcParamsDefault[name] for name in plt.style.library["dark_background"]}):
        # Without pyplot, because a notebook shows its figures as output of whichever cell ends next.
        token = _apart.set(True)
        try:
            figure = cast(Figure, plot(frame).figure)
        finally:
            _apart.reset(token)
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return "data:image/svg+xml;base64," + base64.b64encode(buffer.getvalue()).decode()


class _Figure(Figure):
    """Draw with the settings of the style, which a notebook's own have replaced by then."""

    def draw(self, renderer: Any) -> None:
        with _settings():
            super().draw(renderer)


def new_figure(width: float, height: float) -> Figure:
    """Make a figure of this size in inches. pyplot manages the figure, unless it is drawn for `chart_url`."""
    if _apart.get():
        return Figure(figsize=(width, height), layout="constrained")
    return plt.figure(figsize=(width, height), layout="constrained", FigureClass=_Figure)


@contextmanager
def japanese_axes(ax: Axes | None, width: float, height: float) -> Iterator[Axes]:
    """Provide axes to draw on, with the Japanese font. If `ax` is None, new axes of this size in inches are made."""
    with _settings():
        ax = new_figure(width, height).subplots() if ax is None else ax
        yield ax
        use_japanese(ax)


def use_japanese(drawn: Axes | Figure) -> None:
    """Set the Japanese font for all texts. matplotlib makes the tick labels only when it draws."""
    for text in drawn.findobj(Text):
        text.set_fontfamily(plt.rcParams["font.family"])  # type: ignore[attr-defined]
    for ax in [drawn] if isinstance(drawn, Axes) else drawn.axes:
        ax.tick_params(which="both", labelfontfamily=plt.rcParams["font.family"][0])


@cache
def _font_file() -> str:
    """Return the file of the bundled font, which matplotlib knows from then on."""
    # Importing matplotlib_fontja changes global settings, so only its font file is taken.
    from importlib.util import find_spec

    spec = find_spec("matplotlib_fontja")
    assert spec is not None and spec.origin is not None  # the package is a dependency, so it exists
    path = str(next(Path(spec.origin).parent.rglob("ipaexg.ttf")))
    font_manager.fontManager.addfont(path)
    return path


@cache
def _glyphs() -> frozenset[int]:
    return frozenset(font_manager.get_font(_font_file()).get_charmap())


def label(text: object, width: int = 40) -> str:
    """Return a name from a model, log or dataset as one plain line of at most `width` characters. A $ is escaped."""
    line = " ".join(str(text).split())
    line = line if len(line) <= width else line[: width - 1].rstrip() + "…"
    line = re.sub("^_", "＿", line)  # a legend leaves out names that start with an underscore
    # A $ would start a formula. The width is that before escaping.
    return "".join(c if ord(c) in _glyphs() else "〓" for c in line).replace("$", r"\$")


def pass_text(*lines: float) -> str:
    """Return the pass line in words, for titles and legends. Of several, the lowest and the highest are named."""
    low, high = min(lines), max(lines)
    return (
        say("pass line {line:g}", line=high)
        if low == high
        else say("pass line {low:g}–{high:g}, of each run", low=low, high=high)
    )


def points(mean: float, line: float) -> str:
    """Return a mean as text without decimals. A mean below the pass line is never rounded up to the line."""
    return f"{math.floor(mean) if not reaches(mean, line) and reaches(round(mean), line) else mean:.0f}"


def reach(mean: Any, low: Any, high: Any) -> Floats:
    """Return the lengths of whiskers that lead from `mean` to `low` and to `high`, in the form that errorbar takes."""
    # Rounding can put `low` above the mean, or `high` below it.
    return np.array([mean - low, high - mean], dtype=float).clip(0).reshape(2, -1)


def need_scores(frame: pd.DataFrame, column: str, others: Iterable[str], who: str, maker: str = "load_scores") -> None:
    """Raise ConfigError if the frame lacks a column, and ValueError if it has no row, or no value of `column` to draw.
    `who` is the function that needs the columns, and `maker` the one that makes such frames."""
    need_columns(frame, [column, *others], who, maker)
    if frame.empty:
        raise ValueError(say("{who}: the frame has no row; widen the filters, or load a run with results", who=who))
    if frame[column].isna().all():
        raise ValueError(
            say("{who}: no row has a {column}; look at the column 'status' or 'note' for why", who=who, column=column)
        )


def known_category(categories: pd.Series) -> pd.Series:
    """Return the categories as text. A missing one becomes "no category", so that no chart leaves out its questions."""
    return categories.astype(object).where(categories.notna(), say("no category"))


def question_rows(frame: pd.DataFrame) -> dict[Any, str]:
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


# Any colour vision tells apart the orange below the pass line and the blue from the line on. No colour is so dark that black
# text on it would be hard to read. In grey print the darkest orange and blue look alike, but the points tell them apart.
_CELLS = LinearSegmentedColormap.from_list(
    "pass line", [(0, "#f2954f"), (0.5, "#fde3c8"), (0.5, "#e3eef8"), (1, "#74a9dc")]
)


def draw_cells(ax: Axes, means: pd.DataFrame, line: float) -> None:
    """Draw means (0–100) as coloured cells, with a colour bar. Cells without a mean stay empty.
    The colour changes at the pass line `line`."""
    norm = TwoSlopeNorm(line, min(0, line - 1), max(100, line + 1))
    image = ax.imshow(means.astype(float), cmap=_CELLS, norm=norm, aspect="auto")
    bar = ax.figure.colorbar(image, ax=ax, label=say("mean score (points)"))
    bar.ax.set_yscale("linear")
    bar.ax.set_ylim(0, 100)
    bar.set_ticks(sorted({0, 50, 100, line}))
    bar.ax.axhline(line, color="black", linestyle="--", linewidth=1)
    use_japanese(bar.ax)


def judge_key(ax: Axes, names: Iterable[Any], *, below: float = 40) -> None:
    """Draw a legend of the judges, `below` typographic points under the axes, so that it covers no axis label."""
    colours, markers = judge_colours(names), judge_markers(names)
    handles = [Line2D([], [], color=colours[name], marker=markers[name], linestyle="") for name in colours]
    under = offset_copy(ax.transAxes, cast(Figure, ax.figure), y=-below, units="points")
    place: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (0, 0), "bbox_transform": under}
    ax.legend(handles, [label(name) for name in colours], ncols=2, frameon=False, borderaxespad=0, **place)
