"""Every chart on the logs of eval/examples, light and dark, to be looked at: `python docs/images/draw_charts.py FOLDER`.

After the folder, names of charts may follow. SOCJUDGE_LANG=en draws them in English."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt

import socjudge as sj

EXAMPLES = Path(__file__).resolve().parents[2] / "eval" / "examples"
STYLES = {"": "default", "_dark": "dark_background"}
DPI = 100


def charts() -> dict[str, Callable[[], Any]]:
    """What draws each chart, by its name."""
    series, judges = (sj.load_scores(EXAMPLES / name) for name in ("series", "judges"))
    run = series[series["run_id"] == series["run_id"].iloc[-1]]
    some = series[series["question_id"].isin(series["question_id"].unique()[:30])]
    return {
        "category_breakdown": lambda: sj.plot_category_breakdown(run),
        "score_distribution": lambda: sj.plot_score_distribution(run),
        "score_distribution_of_judges": lambda: sj.plot_score_distribution(judges),
        "criterion_trend": lambda: sj.plot_criterion_trend(series),
        "question_strip": lambda: sj.plot_question_strip(some),
    }


def main() -> None:
    mpl.use("agg")
    folder, names = Path(sys.argv[1]), sys.argv[2:]
    folder.mkdir(parents=True, exist_ok=True)
    for name, draw in charts().items():
        for suffix, style in STYLES.items() if name in names or not names else ():
            with plt.style.context(style):
                drawn = draw()
                getattr(drawn, "figure", drawn).savefig(folder / f"{name}{suffix}.png", dpi=DPI)
                plt.close("all")


if __name__ == "__main__":
    main()
