"""Every chart on the logs of eval/examples, light and dark, to be looked at: `python docs/images/draw_charts.py FOLDER`.

After the folder, names of charts may follow. SOCJUDGE_LANG=en draws them in English."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt

import socjudge as sj

EXAMPLES = Path(__file__).resolve().parents[2] / "eval" / "examples"
BASELINE = "gpt-4.1-2025-04-14"
ANSWER = "1. 端末を隔離する。[出典: malware_response.md > 初動対応]\n2. 上長に連絡する。[出典: malware_response.md > 初動対応]"
STYLES = {"": "default", "_dark": "dark_background"}
DPI = 100


def charts() -> dict[str, Callable[[], Any]]:
    """What draws each chart, by its name."""
    series, judges = (sj.load_scores(EXAMPLES / name) for name in ("series", "judges"))
    results = sj.load_results(EXAMPLES / "series")
    latest = results["run_id"].iloc[-1]
    run, own = series[series["run_id"] == latest], results[results["run_id"] == latest].head(20)
    some = series[series["question_id"].isin(series["question_id"].unique()[:30])]
    comparison = sj.compare_judges(judges, baseline=BASELINE)
    return {
        "category_breakdown": lambda: sj.plot_category_breakdown(run),
        "score_distribution": lambda: sj.plot_score_distribution(run),
        "score_distribution_of_judges": lambda: sj.plot_score_distribution(judges),
        "gate_confidence": lambda: sj.charts.plot_gate_confidence(sj.stats.gate_confidence(own, by="question")),
        "criterion_trend": lambda: sj.plot_criterion_trend(series),
        "question_strip": lambda: sj.plot_question_strip(some),
        "judge_comparison": lambda: sj.charts.plot_judge_comparison(comparison),
        "probe_matrix": lambda: sj.charts.plot_probe_matrix(probes()),
    }


def probes() -> Any:
    """The embedded judge on four answers."""
    answers = [(each, sj.AssistantAnswer(each.question, ANSWER)) for each in sj.load_eval_dataset()[:4]]
    with tempfile.TemporaryDirectory() as logs:
        return sj.certify.summarise_changes(
            sj.certify.probe_judge(answers, judge_model="offline", logs_dir=logs, progress=False).findings
        )


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
