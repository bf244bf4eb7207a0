"""Make the HTML of the history panel: the table of runs, answers side by side, the link to a report."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from ...base.messages import say
from ...base.pass_rule import frame_rule
from ...base.showing import answered_by, block, escape, question_html, table_html
from ...base.verdict import Verdict, frame_undecided
from ...records import EXAMPLE_MODE, EvaluationResult, is_embedded
from ...report.contents import shown_time
from ...report.page import write_report
from ...stats.matrix import run_verdicts

DOWNLOAD_BYTES = 20 * 2**20  # a larger report is not embedded in the page


def run_label(run: Mapping[Any, Any]) -> str:
    """Return a label for a row of `load_runs`: one line of plain text, which is not escaped yet."""
    again = say(" (judged again)") if run["rejudged_from"] else ""
    time = run["log"] if pd.isna(run["started_at"]) else shown_time(run["started_at"])[:16]
    return f"{_example(run)}{time}  {run['judge_model']} / {run['prompt_id']} ← {run['assistant_model']}{again}"


def _example(run: Mapping[Any, Any]) -> str:
    return say("[example] ") if run["mode"] == EXAMPLE_MODE else ""


def head_text(run: Mapping[Any, Any], names: Mapping[Any, str]) -> str:
    """Return the heading of a run's column, from its row of `load_runs` and `run_names`: what tells it apart, then when
    it began."""
    moment = shown_time(run["started_at"])
    return f"{_example(run)}{names[run['run_id']]}\n{moment[5:16] if moment[:4].isdigit() else moment}"


def runs_html(runs: pd.DataFrame, scores: pd.DataFrame, line: float) -> str:
    """Return a table of runs, the newest first, from `load_runs` and `load_scores`, with the verdict on each, and with
    what would pass at another pass line (points)."""
    recorded, found = (run_verdicts(scores, line=each).to_dict("index") for each in (None, line))
    head = [
        say("Run"), say("Mean"), say("pass line"), say("Passed"), say("Verdict"),
        say("At {line:g} points", line=line), say("Verdict at {line:g} points", line=line),
    ]  # fmt: skip
    rows = [
        [
            (run_label(run), "name"), (_mean(before["mean"]), "number"), (f"{before['line']:g}", "number"),
            (_passed(before), "number"), (_verdict(run), "short"), (_passed(now), "number"),
            (_noted(Verdict(now["outcome"]).said, run), "short"),
        ]
        for run in runs.iloc[::-1].to_dict("records")
        if (before := recorded.get(run["run_id"])) and (now := found.get(run["run_id"]))
    ]  # fmt: skip
    notes = [say("Only to look at: computed from the stored scores. No log, report or certificate changes.")]
    if any(map(_is_reference, runs.to_dict("records"))):
        notes.append(say("for reference (not scored by an LLM)"))
    # With a tabindex, the keyboard can scroll the element too. The name is for people who cannot see it.
    wide = f'<div class="wide" role="region" aria-label="{say("Runs")}" tabindex="0">{table_html(head, rows)}</div>'
    return block("", wide, *notes)


def answers_html(runs: Sequence[Mapping[Any, Any]], sides: Iterable[Sequence[EvaluationResult]]) -> str:
    """Return the results (`sides`) of runs (rows of `load_runs`) on one question as HTML, side by side."""
    columns = ""
    for run, results in zip(runs, sides, strict=True):
        line = frame_rule(pd.DataFrame([run])).line
        found = "".join(question_html(result, line=line, opened=True) for result in results)
        found = found or say("This question was not run.")
        columns += f"<section><h4>{escape(run_label(run))}</h4>{found}</section>"
    return block("", f'<div class="sides">{columns}</div>')


def save_report(logs_dir: Path, log: Path, baseline: Path | None = None) -> str:
    """Write the report of a log into `logs_dir/reports`. Return HTML that says so, with a link that downloads it."""
    folder = logs_dir / "reports"
    folder.mkdir(exist_ok=True)
    path = write_report(folder / f"{log.name.split('.json')[0]}.html", log, baseline=baseline)
    lines = [escape(say("📄 Report saved: {path}", path=path))]
    if path.stat().st_size <= DOWNLOAD_BYTES:  # a link, because the browser may be on another machine
        data = base64.b64encode(path.read_bytes()).decode()
        words = escape(say("Download ({name})", name=path.name))
        lines.append(f'<a download="{escape(path.name)}" href="data:text/html;base64,{data}">{words}</a>')
    return block("good", *lines)


def _mean(points: float) -> str:
    return say("no scores") if pd.isna(points) else f"{points:.1f}"


def _passed(found: Mapping[Any, Any]) -> str:
    words = say("{passed}/{questions}", passed=found["passed"], questions=found["questions"])
    return words + (say(" (undecided: {count})", count=found["undecided"]) if found["undecided"] else "")


def _verdict(run: Mapping[Any, Any]) -> str:
    if pd.isna(run["mvp_passed"]):
        return say("unknown")
    verdict = Verdict("open" if run["is_open"] else "passed" if run["mvp_passed"] else "failed")
    reason = frame_undecided(pd.DataFrame([run]))
    said = say("{verdict} ({reason})", verdict=verdict.said, reason=reason) if reason else verdict.said
    return _noted(said, run)


def _noted(said: str, run: Mapping[Any, Any]) -> str:
    # A longer note about verdicts for reference stands once, below the table of runs.
    return f"{said} {say('for reference')}" if _is_reference(run) else said


def _is_reference(run: Mapping[Any, Any]) -> bool:
    return is_embedded(answered_by(run["judge_model"], run["judge_model_resolved"]))
