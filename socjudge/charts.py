"""Frames as charts: each function takes a frame and perhaps axes, and returns the axes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib import font_manager
from matplotlib.axes import Axes

from . import constants


@contextmanager
def japanese_text() -> Iterator[None]:
    """Within it, charts render Japanese with the bundled IPAexGothic; global settings stay as they are."""
    with plt.rc_context({"font.family": _font_family(), "axes.unicode_minus": False}):
        yield


def _font_family() -> str:
    # Importing matplotlib_fontja changes global settings, so only its font file is taken.
    from importlib.util import find_spec

    spec = find_spec("matplotlib_fontja")
    assert spec is not None and spec.origin is not None  # a dependency
    file = next(Path(spec.origin).parent.rglob("ipaexg.ttf"))
    font_manager.fontManager.addfont(str(file))
    return font_manager.FontProperties(fname=str(file)).get_name()


def plot_category_breakdown(scores: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Mean score per category and criterion as a heat map, with the number of judged answers in each cell.

    scores: one row per judged answer and criterion, as `run_scores` gives it. Unscored rows are left out of the
    means and of n. ValueError if no row has a score."""
    scored = scores.dropna(subset=["score"])
    if scored.empty:
        raise ValueError("no row has a score; look at the column 'status' for why")
    cells = scored.groupby(["category", "criterion"], observed=True)["score"].agg(["mean", "count"])
    means, counts = cells["mean"].unstack().astype(float), cells["count"].unstack().fillna(0).astype(int)
    with japanese_text():
        if ax is None:
            _, ax = plt.subplots(figsize=(8, 1.6 + 0.6 * len(means)), layout="constrained")
        # cividis: readable in print and with any colour vision.
        image = ax.imshow(means, cmap="cividis", vmin=0, vmax=100, aspect="auto")
        ax.set_xticks(range(len(means.columns)), means.columns)
        ax.set_yticks(range(len(means.index)), means.index)
        ax.set_xlabel("評価観点")
        ax.set_ylabel("カテゴリ")
        ax.set_title(f"カテゴリ別・観点別の平均スコア（合格ライン {constants.JUDGE_PASS_THRESHOLD:g}点）")
        for row in range(means.shape[0]):
            for column in range(means.shape[1]):
                mean = float(means.to_numpy()[row, column])
                text = "–" if pd.isna(mean) else f"{mean:.0f}\nn={counts.to_numpy()[row, column]}"
                ax.text(column, row, text, ha="center", va="center", color="black" if mean > 55 else "white")
        ax.figure.colorbar(image, ax=ax, label="平均スコア（点）")
        # Text takes its font when it is made, the tick labels of the colour bar only when it is drawn.
        for label in [*ax.get_xticklabels(), *ax.get_yticklabels()]:
            label.set_fontfamily(_font_family())
    return ax
