"""Provide what all charts share: the Japanese font, labels that cannot break a chart, and fixed colours."""

from __future__ import annotations

import base64
import io
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib import font_manager, rc_params_from_file, rcParamsDefault
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, TwoSlopeNorm, to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Text

from ..base.messages import say
from ..stats.basics import need_columns

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


@contextmanager
def japanese_text(**more: Any) -> Iterator[None]:
    """Draw the Japanese text of charts with the bundled font IPAexGothic inside a `with` block.

    matplotlib's settings are restored after the block. Another thread that wants to draw at the same time waits until
    the block ends. `more` are further settings of matplotlib.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> import socjudge as sj
    >>> with sj.charts.japanese_text():
    ...     title = plt.figure().suptitle("評価の推移")
    """
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
    with japanese_text(**{name: rcParamsDefault[name] for name in plt.style.library["dark_background"]}):
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
        with japanese_text():
            super().draw(renderer)


def new_figure(width: float, height: float) -> Figure:
    """Make a figure of this size in inches. pyplot manages the figure, unless it is drawn for `chart_url`."""
    if _apart.get():
        return Figure(figsize=(width, height), layout="constrained")
    return plt.figure(figsize=(width, height), layout="constrained", FigureClass=_Figure)


@contextmanager
def japanese_axes(ax: Axes | None, width: float, height: float) -> Iterator[Axes]:
    """Provide axes to draw on, with the Japanese font. If `ax` is None, new axes of this size in inches are made."""
    with japanese_text():
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


def need_scores(scores: pd.DataFrame, others: Iterable[str], who: str) -> None:
    """Raise ConfigError if the frame lacks a column that the function `who` needs, and ValueError if it has no row, or
    no score to draw."""
    need_columns(scores, ["score", *others], who, "load_scores")
    if scores.empty:
        raise ValueError(say("{who}: the frame has no row; widen the filters, or load a run with results", who=who))
    if scores["score"].isna().all():
        raise ValueError(say("{who}: no row has a score; look at the column 'status' for why", who=who))


def known_category(categories: pd.Series) -> pd.Series:
    """Return the categories as text. A missing one becomes "no category", so that no chart leaves out its questions."""
    return categories.astype(object).where(categories.notna(), say("no category"))


# Any colour vision tells apart the orange below the pass line and the blue from the line on. No colour is so dark that black
# text on it would be hard to read. In grey print the darkest orange and blue look alike, but the points tell them apart.
_CELLS = LinearSegmentedColormap.from_list(
    "pass line", [(0, "#f2954f"), (0.5, "#fde3c8"), (0.5, "#e3eef8"), (1, "#74a9dc")]
)


def draw_cells(ax: Axes, means: pd.DataFrame, line: float) -> None:
    """Draw means (0–100) as coloured cells. Cells without a mean stay empty.
    The colour changes at the pass line `line`."""
    norm = TwoSlopeNorm(line, min(0, line - 1), max(100, line + 1))
    ax.imshow(means.astype(float), cmap=_CELLS, norm=norm, aspect="auto")
