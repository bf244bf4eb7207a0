"""Draw as a matrix how probes changed a judge's scores, from the frame of `summarise_changes`."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from ..base.messages import listed, say
from ..stats.basics import in_order
from .style import SMALL, japanese_axes, label, need_scores


def plot_probe_matrix(summary: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Draw how far each probe moved the judge's score for each criterion.

    A probe changes good answers in one way, and usually makes them worse. There is a row per probe and a column per
    criterion.

    - Each cell has the mean change in points. It is darker if the score fell further. An empty cell means that there is
      no score.
    - A border around a cell means that the score must fall. Brackets mean that the score may change.
    - A triangle means that a score moved in a way that is not allowed for this probe.
    - On the right of each row, for each criterion whose score must fall: the mean change, and the share of answers in
      which the score fell clearly, with its interval and n. Then the mean change over the criteria whose scores must
      stay, and how many scores moved in a way that is not allowed.

    Parameters
    ----------
    summary
        From `summarise_changes`; columns used: title, criterion, expected, n, n_no_room, mean_change, detected,
        detected_low, detected_high, n_forbidden.
    ax
        The axes to draw on; new ones if left out.

    Raises
    ------
    ValueError
        If no probe has a score.

    Examples
    --------
    >>> import socjudge as sj
    >>> question = sj.load_eval_dataset()[0]
    >>> answer = sj.AssistantAnswer(question.question, "1. 端末を隔離する。[出典: malware_response.md > 初動対応]")
    >>> probing = sj.certify.probe_judge([(question, answer)], judge_model="offline", logs_dir="logs/certify", progress=False)
    >>> ax = sj.charts.plot_probe_matrix(sj.certify.summarise_changes(probing.findings))
    """
    names = ["title", "criterion", "expected", "n", "n_no_room", "detected", "detected_low", "detected_high"]
    names.append("n_forbidden")
    need_scores(summary, "mean_change", names, "plot_probe_matrix", "summarise_changes")
    judged = summary[summary["n"] > 0]
    probes, criteria = in_order(judged["title"]), in_order(judged["criterion"])
    means = judged.pivot(index="title", columns="criterion", values="mean_change").loc[probes, criteria]
    with japanese_axes(ax, 12, 1.6 + 0.3 * len(probes)) as ax:
        # White where nothing fell, dark where all was lost. Readable in print, with any colour vision, in any style.
        ax.imshow(-means.astype(float), cmap="Blues", vmin=0, vmax=100, aspect="auto")
        for row in judged.to_dict("records"):
            _draw_cell(ax, criteria.index(row["criterion"]), probes.index(row["title"]), row)
        for place, title in enumerate(probes):
            told = _at_the_right(judged[judged["title"] == title])
            ax.text(1.01, place, told, va="center", fontsize=SMALL, transform=ax.get_yaxis_transform())
        ax.set_xticks(range(len(criteria)), [label(name, 12) for name in criteria])
        ax.set_yticks(range(len(probes)), [label(name, 30) for name in probes])
        ax.xaxis.tick_top()
        ax.set_title(
            say("Change of the scores when one thing in an answer changes (frame: must fall, brackets: may move)")
        )
    return ax


def _draw_cell(ax: Axes, x: int, y: int, row: dict[Any, Any]) -> None:
    change = row["mean_change"]
    if math.isnan(change):
        return
    told = f"({_points(change)})" if row["expected"].startswith("may") else _points(change)
    ax.text(x, y, told, ha="center", va="center", fontsize=SMALL, color="white" if change < -55 else "black")
    if row["expected"] == "falls":
        ax.add_patch(Rectangle((x - 0.47, y - 0.44), 0.94, 0.88, fill=False, edgecolor="#D55E00", linewidth=2))
    elif row["n_forbidden"]:
        ax.plot(x + 0.4, y - 0.3, marker="v", markersize=4, color="#666666")


def _points(change: float) -> str:
    return f"{change:+.0f}".replace("-", "−") if round(change) else "0"


def _at_the_right(rows: pd.DataFrame) -> str:
    parts = []
    for row in rows[rows["detected"].notna()].to_dict("records"):
        share, low, high = row["detected"], row["detected_low"], row["detected_high"]
        change, n = _points(row["mean_change"]), row["n"] - row["n_no_room"]
        words = "aimed at {change}, seen {share:.0%} ({low:.0%}–{high:.0%}, n={n})"
        parts.append(say(words, change=change, share=share, low=low, high=high, n=n))
    elsewhere = rows.loc[rows["expected"] == "stays", "mean_change"].mean()
    if not math.isnan(elsewhere):
        parts.append(say("elsewhere {change}", change=_points(elsewhere)))
    wrong = int(rows["n_forbidden"].sum())
    return listed([*parts, *([say("{count} wrong moves (▼)", count=wrong)] if wrong else [])])
