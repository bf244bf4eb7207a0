"""How long what people wait for takes with large runs: a report, the explorer's clicks, an offline run.

    python benchmarks/large_runs.py report | explorer | panel | offline

Each in a process of its own; seconds of CPU, which other work on the machine stretches least."""

from __future__ import annotations

import json
import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]

from packed_data import unpacked

from socjudge import (
    AssistantAnswer,
    EvalQuestion,
    Evaluation,
    EvaluationRun,
    build_index,
    load_eval_dataset,
    load_run,
    run_evaluation_suite,
    write_report,
)
from socjudge.base.pass_rule import summarise_results
from socjudge.constants import JUDGE_EVALUATION_CRITERIA, QUESTION_CATEGORIES
from socjudge.judge import save_evaluation_results
from socjudge.records import EvaluationResult, RunInfo

TEXT = "1. SOC当番は端末を隔離します。 [出典: malware_response.md > 初動対応]\n2. 責任者に連絡します。\n" * 4


def timed(label: str, work: Callable[[], Any]) -> Any:
    start = time.process_time()
    found = work()
    print(f"{label}: {time.process_time() - start:.2f} s")
    return found


def make_run(count: int, number: int) -> EvaluationRun:
    """A run of so many answers with marks around 78."""
    draw = random.Random(number)
    results = []
    for i in range(count):
        marks = [min(100, max(0, round(draw.gauss(78, 12)))) for _ in JUDGE_EVALUATION_CRITERIA]
        mean = sum(marks) / len(marks)
        category = QUESTION_CATEGORIES[i % len(QUESTION_CATEGORIES)]
        results.append(
            EvaluationResult(
                EvalQuestion(i, category, f"質問{i}にはどう対応すればよいですか。", ("隔離", "連絡")),
                AssistantAnswer(f"質問{i}", TEXT, "文脈。" * 300),
                Evaluation(
                    scores=dict(zip(JUDGE_EVALUATION_CRITERIA, marks, strict=True)),
                    rationale=dict.fromkeys(JUDGE_EVALUATION_CRITERIA, "抜粋のとおりです。" * 3),
                    average_score=mean, overall_comment="総評です。" * 5, passed=mean >= 70, processing_time=1.0,
                ),
            )
        )  # fmt: skip
    info = RunInfo(f"run-{number}", f"2026-01-{number:02}T09:00:00+09:00", judge_model="gpt-4o-mini", mode="llm")
    return EvaluationRun(tuple(results), summarise_results(results), info)


def report(folder: Path) -> None:
    for count in (1_000, 10_000):
        run = load_run(save_evaluation_results(make_run(count, 1), folder / str(count)))
        path = timed(f"report of {count:,} answers", lambda run=run, to=folder / f"{count}.html": write_report(to, run))
        print(f"  {path.stat().st_size / 1e6:.1f} MB")


def explorer(folder: Path) -> None:
    from socjudge.panels.history import CHARTS, HistoryExplorer

    for number in (1, 2, 3):
        save_evaluation_results(make_run(5_000, number), folder)
    panel = timed("explorer of three runs of 5,000 answers opens", lambda: _drawn(HistoryExplorer(folder)))
    runs = [value for _, value in panel.first.options]
    clicks: dict[str, tuple[Any, Any]] = {f"chart {name}": (panel.chart, name) for name in CHARTS}
    clicks |= {"another order": (panel.order, "mean"), "one category": (panel.categories, [QUESTION_CATEGORIES[0]])}
    clicks |= {"all categories": (panel.categories, [""]), "other runs": (panel.first, runs[-1])}
    for label, (control, value) in clicks.items():
        timed(f"  {label}", lambda control=control, value=value: _clicked(panel, control, value))
    timed("  another question", lambda: _clicked(panel, panel.question, panel.question.options[100][1]))


def _clicked(panel: Any, control: Any, value: Any) -> None:
    control.value = value
    _drawn(panel)


def _drawn(panel: Any) -> Any:
    panel.wait(300)
    return panel


def run_panel(folder: Path) -> None:
    from socjudge.panels.run import RunPanel

    panel = RunPanel(logs_dir=folder, index_dir=build_index(index_dir=folder / "index").index_dir)
    run = make_run(5_000, 1)
    panel.session.run = run
    panel.session.state = "finished"
    timed("results of 5,000 answers are shown", panel.session.tell)
    print(f"  {len(panel.results.value) / 1e6:.2f} MB of HTML")


def offline(folder: Path) -> None:
    base = load_eval_dataset()
    asked = [json.loads(line)["question"] for line in (unpacked() / "night_dev.jsonl").open(encoding="utf-8")]
    questions = [replace(base[i % len(base)], id=i, question=text) for i, text in enumerate(asked[:100])]
    index = build_index(index_dir=folder / "index")
    options: dict[str, Any] = {
        "index": index,
        "judge_model": "offline",
        "assistant_model": "offline",
        "progress": False,
    }
    run_evaluation_suite(questions[:1], logs_dir=folder / "first", **options)  # loads the models
    start = time.process_time()
    run_evaluation_suite(questions, logs_dir=folder / "logs", **options)
    print(f"offline run: {(time.process_time() - start) / len(questions):.3f} s per question ({len(questions)})")


if __name__ == "__main__":
    work = {"report": report, "explorer": explorer, "panel": run_panel, "offline": offline}
    with tempfile.TemporaryDirectory() as name:
        work[sys.argv[1]](Path(name))
    print(f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")
