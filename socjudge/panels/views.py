"""Show runs as HTML in panels: one that is planned, under way or finished, and the history. base/showing.py defines how a
single record is shown, in a panel or in a cell."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from ..base.messages import listed, say, sentences
from ..base.pass_rule import frame_rule, run_rule
from ..base.showing import (
    answered_by,
    block,
    clipped,
    escape,
    estimate_text,
    money,
    question_html,
    run_html,
    shown_path,
    table_html,
)
from ..base.verdict import FINISHED, Verdict, frame_undecided, run_verdict
from ..certify.certificate import run_certificate
from ..constants import PROJECT_MARK
from ..records import EXAMPLE_MODE, EvaluationResult, EvaluationRun, Rubric, is_embedded, total_usage
from ..report.contents import shown_time
from ..report.page import write_report
from ..report.words import conclusion
from ..runs.forecast import RunPlan, cost_notes
from ..runs.logs import RESCUED
from ..settings import open_project
from ..stats.basics import summarise_scores
from ..stats.gate import gate_confidence
from ..stats.matrix import run_verdicts
from .state.session import Progress, Session, State

# The specification's words, which are Japanese in every language.
COSTS_MONEY = "⚠️ <b>注意</b>: LLM as a Judgeの実行には<b>コストがかかります</b>（{questions}問 × Judge呼び出し）"
RUNNING = "⏳ 評価を実行中... これには数分かかる場合があります"
DETAILS = "📋 詳細結果を見る"

DOWNLOAD_BYTES = 20 * 2**20  # a larger report is not embedded in the page
MAX_DETAILS = 50  # an answer with its context takes about 4 kB, and nobody reads more of them


def cost_html(plans: Sequence[RunPlan]) -> str:
    """Return the number of calls that are left of all plans and their price as HTML, with the specification's warning
    where money is spent, and the names of models whose price nobody knows."""
    left = total_usage(plan.left for plan in plans)
    already = sum(plan.already for plan in plans)
    if not left.calls and not already:
        return block("", say("With these settings the embedded default (not an LLM) is used: no calls, no cost."))
    key = "Estimate of what is left: {calls}" if already else "Estimate: {calls}"
    lines = [say(key, calls=estimate_text(left)), *map(escape, cost_notes(*(plan.plan for plan in plans)).splitlines())]
    if not left.calls or left.cost_usd == 0:
        return block("", *lines)
    questions = sum(plan.n_questions for plan in plans)
    return block("warn", COSTS_MONEY.format(questions=questions), *lines)


def rule_html(rubric: Rubric) -> str:
    """Return the criteria and the pass rule of the next run as HTML, with the file and line where they are set."""
    project, lines = open_project(), list[str]()
    with contextlib.suppress(OSError, UnicodeDecodeError):  # the project has no file of settings
        lines = (project.folder / PROJECT_MARK).read_text("utf-8").splitlines()
    places = [
        say("{path}, line {line}", path=PROJECT_MARK, line=number)
        for number, line in enumerate(lines, start=1)
        if line.split("=")[0].strip() in ("criteria", "pass_threshold")
    ]
    if rubric != project.rubric:
        where = say("as the chosen run has them")
    elif places:
        where = listed(places)
    else:
        where = say("the specification's; [rubric] in {path} changes them", path=PROJECT_MARK)
    told = say(
        "Criteria: {criteria}. Pass line {line:g} points, for {rate:.0%} of the questions and for the overall mean ({where})",
        criteria=listed(rubric.criteria),
        line=rubric.pass_threshold,
        rate=rubric.pass_rate,
        where=where,
    )
    return block("muted", escape(told))


def index_html(session: Session, has_index: bool, changed: Sequence[str], *, is_needed: bool) -> str:
    """Return HTML that says whether there is an index, and the names of the runbooks that changed since it was built."""
    progress = session.progress
    if session.state == "building":
        count = f" {progress.done}/{progress.total}" if progress.total else ""
        return block("", say("⏳ Building the index...{count}", count=count))
    if has_index:
        return block("", say("✅ The index is built"))
    if not is_needed:
        return ""
    if not changed:
        return block("", say("⚠️ The index is not built yet"))
    words = "⚠️ Runbooks changed after the index was built ({files}); press “Build the index”"
    return block("", escape(say(words, files=clipped(listed(changed)))))


def boss_text(run: EvaluationRun) -> str:
    """Return one paragraph of plain text about a run, for somebody who was not there, with the report's conclusion."""
    info, verdict = run.run, run_verdict(run)
    what = say(
        "{title} of {day} (judge: {judge}, answers: {assistant}).",
        title=open_project().report_title or say("Evaluation of the runbook assistant"),
        day=info.started_at[:10],
        judge=answered_by(info.judge_model, info.judge_model_resolved),
        assistant=info.assistant_model,
    )
    gate, means = gate_confidence(run.results_frame()).iloc[0], summarise_scores(run.scores_frame(), by="criterion")
    told = conclusion(run, gate, means)[0]
    warnings = [say("{text}.", text=text) for text in (verdict.warning, verdict.note) if text]
    return sentences(what, told, *warnings)


def status_html(session: Session, state: State, button: str) -> str:
    """Return HTML that says how far a session is in this state, or why it ended, and that `button` resumes a stopped
    run."""
    progress, problem = session.progress, [*map(escape, session.problem.splitlines())]
    numbers = _numbers(progress) if progress.total else say("Getting ready")
    match state:
        case "running":
            left_s = progress.left_s if progress.done < progress.total else None
            lines = [RUNNING, numbers + (say(", about {seconds:.0f} s left", seconds=left_s) if left_s else "")]
            if progress.latest:
                lines.append(escape(say("Judged last: question {question}", question=progress.latest)))
            if waits := session.waits_for:
                lines.append(escape(waits))
            return block("", *lines)
        case "stopping":
            return block("warn", say("Stopping; waiting for the calls that are under way"), numbers)
        case "stopped":
            why = 'Stopped ({numbers}). Press "{button}" again to go on'
            if session.problem:
                why = 'Stopped, as the most that it may cost is reached ({numbers}). Raise it and press "{button}" to go on'
            elif session.changed_late:
                why = (
                    'Stopped, as a change of settings came later than the click on "{button}" ({numbers}). Check the '
                    "settings and press it again"
                )
            return block("warn", say(why, numbers=numbers, button=button), *problem)
        case "failed":
            failed = say("⚠️ Judging cannot go on ({numbers})", numbers=numbers) if progress.total else say("⚠️ Error")
            return block("bad", failed, *problem)
        case "finished":
            return block("good", say("✅ Judged ({numbers})", numbers=numbers))
    return ""


def _numbers(progress: Progress) -> str:
    text = f"{progress.done}/{progress.total}"
    if progress.before:
        text += say(" ({count} of them before)", count=progress.before)
    if progress.mean is not None:
        text += say(", mean {mean:.1f}", mean=progress.mean)
    if progress.cost_usd is None or progress.cost_usd:
        text += say(", cost {cost}", cost=money(progress.cost_usd))
    if progress.unread:
        text += say(", {count} not scored", count=progress.unread)
    return text


def summary_html(run: EvaluationRun) -> str:
    """Return, as HTML, the specification's success line and its summary. It is green even if the run did not pass.
    The line has the colour of a warning if the log is in the fallback folder."""
    saved = [FINISHED.format(path=escape(shown_path(run.log_path)))]
    rescued = run.log_path is not None and run.log_path.parent.name.startswith(RESCUED)
    if rescued:
        saved.append(
            say(
                "⚠️ The folder of logs could not be written to, so the log is in a temporary folder; move it "
                "before it is gone"
            )
        )
    return block("warn" if rescued else "good", *saved) + run_html(run, run_certificate(run)[1])


def results_html(run: EvaluationRun) -> str:
    """Return a run as HTML: the summary, and 「📋 詳細結果を見る」 (see the detailed results). Of more than MAX_DETAILS
    results, only the unscored ones and then the weakest are shown, with a note on the rest."""
    results, left_out, line = run.results, "", run_rule(run.run).line
    if len(results) > MAX_DETAILS:
        words = say(
            "{shown} of {total:,} answers are shown, those that could not be scored first, then the "
            "weakest. The other {left:,} are in {path}; HistoryExplorer shows them one by one.",
            total=len(results),
            shown=MAX_DETAILS,
            left=len(results) - MAX_DETAILS,
            path=shown_path(run.log_path),
        )
        left_out = f"<p>{escape(words)}</p>"
        results = sorted(results, key=lambda r: (r.evaluation.status == "ok", r.evaluation.average_score))
    questions = "".join(question_html(result, line=line) for result in results[:MAX_DETAILS])
    return summary_html(run) + block("", f"<details><summary>{DETAILS}</summary>{left_out}{questions}</details>")


# -- the history


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


def chart_html(url: str, alt: str) -> str:
    """A chart, by its data URL. `alt` says what it shows, for people who cannot see it."""
    name = escape(alt)
    picture = f'<img src="{url}" alt="{name}">'
    return block("", f'<div class="wide chart" role="region" aria-label="{name}" tabindex="0">{picture}</div>')


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
