"""Make the HTML of the history panel: the table of runs, the comparison of two runs, charts, the link to a report."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from ...base.messages import say
from ...base.pass_rule import frame_rule
from ...base.showing import block, escape, question_html, table_html
from ...base.texts import local_time
from ...base.verdict import Verdict, part_text
from ...history.examples import EXAMPLE_MODE
from ...records import EvaluationResult, is_embedded
from ..state.explorer import RunPair

DOWNLOAD_BYTES = 20 * 2**20  # a larger report is not embedded in the page

# Wide content scrolls inside its own box. Charts are drawn for white paper. In a dark theme, light and dark are swapped
# and hues stay; every colour keeps a contrast of 3:1 (tests/charts/test_charts.py).
_STYLE = """<style>
.socjudge-history-explorer option:checked { background: #1565c0 linear-gradient(#1565c0, #1565c0);
  -webkit-text-fill-color: #fff; }
[data-jp-theme-light="false"] .socjudge-history-explorer input { color-scheme: dark; }
.socjudge .wide { overflow-x: auto; } .socjudge .wide:focus-visible { outline: 2px solid var(--jp-brand-color1, #1976d2); }
.socjudge table { border-collapse: collapse; margin: .4em 0; font-size: inherit; color: inherit; }
.socjudge th, .socjudge td { padding: .25em .7em; text-align: left; vertical-align: top; overflow-wrap: break-word;
  max-width: 22em; border-bottom: 1px solid var(--jp-border-color2, #ddd); }
.socjudge th, .socjudge .number, .socjudge .short { white-space: nowrap; } .socjudge .number { text-align: right; }
.socjudge .name { min-width: 8em; } .socjudge .reason { min-width: 20em; }
.socjudge .chart { background: #fff; padding: .8em; border: 1px solid var(--jp-border-color2, #ddd); max-width: 64em; }
.socjudge .chart img { display: block; width: 100%; min-width: 48em; }
[data-jp-theme-light="false"] .socjudge .chart { background: #121212; }
[data-jp-theme-light="false"] .socjudge .chart img { filter: invert(.93) hue-rotate(180deg); }
.socjudge h3, .socjudge h4 { font-size: 1.05em; margin: .6em 0 .2em; }
.socjudge a { color: var(--jp-content-link-color, #1565c0); }
</style>"""


def started(moment: Any) -> str:
    """Return a run's start (a Timestamp, or NaT if it is unknown) as text, in the time zone of this machine."""
    return say("start unknown") if pd.isna(moment) else local_time(pd.Timestamp(moment).to_pydatetime())


def run_label(run: Mapping[Any, Any]) -> str:
    """Return a label for a row of `load_runs`: one line of plain text, which is not escaped yet."""
    again = say(" (judged again)") if run["rejudged_from"] else ""
    time = run["log"] if pd.isna(run["started_at"]) else started(run["started_at"])
    return f"{_example(run)}{time}  {run['judge_model']} / {run['prompt_id']}{again}"


def _example(run: Mapping[Any, Any]) -> str:
    return say("[example] ") if run["mode"] == EXAMPLE_MODE else ""


def chart_html(url: str, alt: str, note: str) -> str:
    """Return HTML with a chart (its data URL) on a white background, and a note (plain text) below it.
    `alt` says what the chart shows, for people who cannot see it."""
    picture = f'<img src="{url}" alt="{escape(alt)}">'
    return block("", _STYLE + _wide(picture, say("Figure"), "chart") + f"<small>{escape(note)}</small>")


def runs_html(runs: pd.DataFrame, total: int) -> str:
    """Return rows of `run_table` as an HTML table. They may be only some of all `total` runs."""
    head = (
        say("Started"),
        "Judge",
        say("Prompt"),
        say("Assistant"),
        say("Mean and 95 % interval"),
        say("Passed"),
        say("pass line"),
        say("Verdict (all questions)"),
        say("Not scored"),
        say("Log"),
    )
    rows = [
        (
            (_example(run) + started(run["started_at"]), "short"),
            (run["judge_model"], "name"),
            (run["prompt_id"] + (say(" (judged again)") if run["rejudged_from"] else ""), "name"),
            (run["assistant_model"], "name"),
            (_mean(run), "number"),
            (say("{passed}/{questions}", passed=run["passed"], questions=run["questions"]), "number"),
            (f"{run['pass_threshold']:g}", "number"),
            (_verdict(run), "short"),
            (say("{count} answers", count=run["n_unscored"]), "number"),
            (run["log"], "short"),
        )
        for run in runs.to_dict("records")
    ]
    shown = (
        ""
        if total == len(runs)
        else say("{shown} of {total} are shown; filter to see the others.", total=total, shown=len(runs))
    )
    note = (
        say("for reference (not scored by an LLM)") if any(is_embedded(judge) for judge in runs["judge_model"]) else ""
    )
    return block("", _STYLE + _wide(table_html(head, rows), say("Runs")), *filter(None, (shown, note)))


def pair_html(pair: RunPair, chart: str) -> str:
    """Return the comparison of two runs as HTML: their labels, the conditions that differ, and the differences.
    Runs that cannot be compared have the reason and their mean scores instead of the chart (HTML)."""
    conditions = [((name, "short"), (one, "name"), (other, "name")) for name, one, other in pair.conditions]
    baseline, other = side_names()
    head = say("Condition"), baseline, other
    parts = [
        f"{baseline}: {escape(run_label(pair.first))}<br>{other}: {escape(run_label(pair.second))}",
        _wide(table_html(head, conditions), say("What differs"))
        if conditions
        else f"<p>{say('No recorded condition differs.')}</p>",
    ]
    if pair.comparison is not None:
        parts.append(pair.comparison._repr_html_())
    parts += [f'<p class="warn">⚠️ {escape(pair.reason)}</p>', _means(pair)] if pair.reason else [chart]
    return block("", _STYLE + "".join(parts))


def answers_html(pair: RunPair, question: str, sides: Iterable[Sequence[EvaluationResult]]) -> str:
    """Return the results (`sides`) of two runs on one question (its id) as HTML, side by side."""
    columns = ""
    for word, run, results in zip(side_names(), (pair.first, pair.second), sides, strict=True):
        line = frame_rule(pd.DataFrame([run])).line
        found = "".join(question_html(result, line=line, opened=True) for result in results)
        found = found or say("This question was not run.")
        columns += f"<section><h4>{word}: {escape(run_label(run))}</h4>{found}</section>"
    title = say("Question {question}", question=question)
    return block("", f'{_STYLE}<h3>{escape(title)}</h3><div class="sides">{columns}</div>')


def report_html(path: Path, *, replaced: bool, part: str) -> str:
    """Return HTML that says where the report was saved, with a link that downloads it.
    `part` names its categories of questions if it has only some of them; otherwise it is empty."""
    lines = [escape(say("📄 Report saved: {path}", path=path))]
    if replaced:
        lines.append(say("It replaces the report that was written before."))
    if part:
        lines.append(escape(say("It is about the questions of {part} only, and so is its verdict.", part=part)))
    if path.stat().st_size <= DOWNLOAD_BYTES:  # a link, because the browser may be on another machine
        data = base64.b64encode(path.read_bytes()).decode()
        words = escape(say("Download ({name})", name=path.name))
        lines.append(f'<a download="{escape(path.name)}" href="data:text/html;base64,{data}">{words}</a>')
    return block("good", _STYLE + lines[0], *lines[1:])


def _means(pair: RunPair) -> str:
    sides = [
        {row["criterion"]: row for row in pair.means[pair.means["run_id"] == run["run_id"]].to_dict("records")}
        for run in (pair.first, pair.second)
    ]
    rows = [
        ((name, "short"), *((_mean(side[name]) if name in side else "–", "number") for side in sides))
        for name in dict.fromkeys([*sides[0], *sides[1]])
    ]
    head = (say("Criterion"), *(say("{side} (mean and 95 % interval)", side=side) for side in side_names()))
    return _wide(table_html(head, rows), say("Means by criterion"))


def side_names() -> tuple[str, str]:
    """Return the words that name the two runs of a comparison, the baseline first."""
    return say("Baseline"), say("Compared")


def question_text(row: Mapping[Any, Any]) -> str:
    """Return a row of `RunPair.questions` as one line of plain text, for a list of choices."""
    same = "" if row["same_answer"] else say(" (other answer)")
    return f"{row['question_id']}  {row['category']}  {_points(row['first'])} → {_points(row['second'])}{same}"


def _wide(inner: str, name: str, kind: str = "") -> str:
    # With a tabindex, the keyboard can scroll the element too. The name is for people who cannot see it.
    return f'<div class="wide {kind}" role="region" aria-label="{escape(name)}" tabindex="0">{inner}</div>'


def _mean(row: Mapping[Any, Any]) -> str:
    if pd.isna(row["mean"]):
        return say("no scores")
    interval = say("no interval")
    if not (pd.isna(row["ci_low"]) or pd.isna(row["ci_high"])):
        interval = say("{low} to {high}", low=f"{row['ci_low']:.1f}", high=f"{row['ci_high']:.1f}")
    return say(
        "{mean:.1f} ({interval}, {questions} questions)", mean=row["mean"], interval=interval, questions=row["n"]
    )


def _points(value: Any) -> str:
    return "–" if pd.isna(value) else f"{value:.1f}"


def _verdict(run: Mapping[Any, Any]) -> str:
    if pd.isna(run["mvp_passed"]):
        return say("unknown")
    verdict = Verdict("open" if run["is_open"] else "passed" if run["mvp_passed"] else "failed")
    part = part_text(run["n_results"], run["asked"])
    said = say("{verdict} ({reason})", verdict=verdict.said, reason=part) if part else verdict.said
    # A longer note about verdicts for reference stands once, below the table of runs.
    return f"{said} {say('for reference')}" if is_embedded(run["judge_model"]) else said
