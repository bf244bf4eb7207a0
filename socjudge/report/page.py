"""Write a run, with explanations, as one HTML file.

The file is made from the run itself. Only its statistics and charts are made from frames. The file loads nothing from
outside when it is opened.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import warnings
from datetime import datetime
from pathlib import Path
from typing import Any, cast, get_args

import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from .. import constants
from .._version import __version__
from ..base.files import as_path, checked_page, write_page
from ..base.messages import Language, language, say, speaking
from ..base.pass_rule import reaches, run_rule
from ..base.showing import symbols
from ..base.texts import visible
from ..base.verdict import of_criteria, rate_text, reason_text, rule_text, run_verdict, summary_verdict
from ..certify.certificate import run_certificate
from ..errors import ConfigError
from ..history.frames import load_runs, load_scores
from ..records import EvaluationRun
from ..runs.logs import load_run, named_log
from ..settings import open_project
from ..stats.basics import OVERALL, summarise_scores
from ..stats.gate import gate_confidence
from .contents import compared, counted, means_of, points, previous_log, rows_of, run_charts, shown_time, trend_of
from .words import BOXES, GATE_VERDICTS, LINES, cautions, conclusion, glossary, run_facts, suggestion

TREND_RUNS = 12  # a chart of the page's width can label this many
# answers on the page; more would make a file that a phone cannot open, and a hundred sheets of paper
MOST_ANSWERS = 200
ON_PAPER = 5  # answers that did not pass are printed in full

PAGE_MARK = b'<meta name="generator" content="socjudge '  # written by head.html.j2


def write_report(
    path: Path | str,
    run_or_log: EvaluationRun | Path | str | None = None,
    *,
    baseline: EvaluationRun | Path | str | None = None,
    lang: str | None = None,
) -> Path:
    """Write the report of one run as a self-contained HTML file, and return its path.

    Parameters
    ----------
    path
        The file. Its folder must exist. An existing file is replaced only if socjudge wrote it. The file has up to 200
        judged answers, failed ones first, because a phone cannot open a larger page.
    run_or_log
        A run, the name or path of a log, or a folder of logs, whose newest log is taken; the project's own folder if
        left out. The report of a log also shows the earlier runs of its folder as a trend.
    baseline
        The run to compare with: a run, or the name or path of its log. If left out, it is the latest earlier run of the
        folder with the same questions, judge, judge prompt and assistant; if there is none, nothing is compared.
    lang
        "ja" or "en" (criteria and categories stay Japanese); the language of the messages if left out.

    Raises
    ------
    ConfigError
        If the folder or a log is missing or cannot be read; if the file exists and socjudge did not write it.

    Examples
    --------
    >>> from pathlib import Path
    >>> import socjudge as sj
    >>> run = sj.load_run(min(Path("logs").glob("*.json")))
    >>> sj.write_report("report.html", run).name
    'report.html'
    """
    tongue, history = lang or language(), None
    if tongue not in get_args(Language):
        raise ConfigError("lang is {found!r}, expected 'ja' or 'en'", found=lang)
    path = checked_page(path, PAGE_MARK)  # before the logs are read
    if isinstance(run_or_log, EvaluationRun):
        run = run_or_log
    else:
        run, history = _of_log(as_path(run_or_log or constants.LOGS_DIR))
    if not run.results:
        raise ConfigError(
            "write_report: the run has no judged answers; take a run that has some, or leave out fewer of them"
        )
    is_chosen = baseline is not None
    if baseline is not None and not isinstance(baseline, EvaluationRun):
        baseline = load_run(named_log(baseline))
    if baseline is None and history is not None and run.log_path and (log := previous_log(history, run.run.run_id)):
        baseline = load_run(run.log_path.with_name(log))
    with speaking(cast(Language, tongue)):
        rows = rows_of(run)
        html = (
            page_environment()
            .get_template("report.html.j2")
            .render(
                _contents(run, history, baseline),
                project=open_project(),
                made_at=datetime.now().astimezone(),
                overall=OVERALL,
                info=run.run,
                line=run_rule(run.run).line,
                rows=rows[:MOST_ANSWERS],
                total_rows=len(rows),
                criteria=list(rows[0].scores),
                on_paper=ON_PAPER,
                is_chosen=is_chosen,
            )
        )
    write_page(path, html)
    return path


def log_before(log: Path) -> Path | None:
    """Return the log of the run with which the report of a log compares it, if nobody chose one."""
    run, history = _of_log(log)
    name = "" if history is None else previous_log(history, run.run.run_id)
    return log.with_name(name) if name else None


def _of_log(given: Path) -> tuple[EvaluationRun, pd.DataFrame | None]:
    """Return the run of a log, or of the newest log in a folder, and the scores of this run and of those before it in
    the folder, the oldest first. They are None if the run is not among those of the folder."""
    if given.is_dir() or given == constants.LOGS_DIR:
        runs = load_runs(given).sort_values("started_at", kind="stable", na_position="first")
        if runs.empty:
            raise ConfigError("{folder}: there are no logs yet; make one with socjudge run", folder=given)
        log = given / runs["log"].iloc[-1]
    else:
        log = named_log(given)
    run = load_run(log)
    with warnings.catch_warnings(action="ignore"):  # of other logs, which were told of before or are not asked for
        scores = load_scores(log.parent).astype({"run_id": object})
    scores = scores.sort_values("started_at", kind="stable", na_position="first")
    ids = list(dict.fromkeys(scores["run_id"]))
    if run.run.run_id not in ids:  # its log cannot be read, or another log of the same run is used
        return run, None
    return run, scores[scores["run_id"].isin(ids[: ids.index(run.run.run_id) + 1])]


def _contents(run: EvaluationRun, history: pd.DataFrame | None, baseline: EvaluationRun | None) -> dict[str, Any]:
    logged, (run, best) = run.summary, counted(run)
    rule, verdict, scores, total = run_rule(run.run), run_verdict(run), run.scores_frame(), run.summary.total_questions
    gate = gate_confidence(run.results_frame()).iloc[0]
    by_criterion = summarise_scores(scores, by="criterion")
    certificate, line = run_certificate(run)
    return {
        "run": run, "verdict": verdict, "rate": rate_text(run.summary, verdict), "gate": gate, "best": best,
        "best_verdict": summary_verdict(best), "gate_verdicts": GATE_VERDICTS,
        "rule_words": rule_text(total, rule), "needed": rule.needed(total),
        "conclusion": conclusion(run, gate, by_criterion),
        "suggestion": suggestion(verdict, certificate, gate, rule), "cautions": cautions(run, logged),
        "facts": run_facts(run, certificate), "means": means_of(scores, by_criterion),
        # The name contains a hash. The page shows it among the facts of the run.
        "certificate_line": line.replace(certificate.name, say("there is one"), 1) if certificate else line,
        "charts": run_charts(scores),
        "trend": {} if history is None else trend_of(history, TREND_RUNS),
        "comparison": None if baseline is None else compared(baseline, run),
        "glossary": glossary(), "boxes": BOXES, "lines": LINES,
    }  # fmt: skip


# -- the page
@functools.cache  # compiling a template takes longer than filling a report
def page_environment() -> Environment:
    """Return the environment of the templates. It escapes all values, and makes invisible characters visible."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {
        "say": say,
        "language": language,
        "version": __version__,
        "asset": _asset,
        "reaches": reaches,
        "reason_text": reason_text,
        "of_criteria": of_criteria,
    }
    environment.filters |= {
        "points": points,
        "signed": lambda value: points(value, "+.1f"),
        "or_unknown": lambda value: say("unknown") if value in ("", "unknown") else value,
        "time": shown_time,
        "outcomes": lambda rows: {row.verdict.outcome: row.verdict.said for row in rows}.items(),
    }
    # A simulation cannot show a chance of 0 or 1.
    environment.filters["chance"] = lambda p: "<0.01" if p < 0.005 else ">0.99" if p > 0.995 else f"{p:.2f}"
    environment.tests["missing"] = lambda value: value is None or bool(pd.isna(value))
    return environment


def _asset(name: str) -> dict[str, Any]:
    """The page's Content-Security-Policy names the hash, so that the browser accepts only this text."""
    text = (symbols() if name == "report.css" else "") + (Path(__file__).parent / name).read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return {"text": Markup(text), "csp": f"'sha256-{digest}'"}
