"""Write a run, with explanations, as one HTML file.

The file is made from frames and charts, and loads nothing from outside when it is opened.
"""

from __future__ import annotations

import base64
import functools
import hashlib
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, cast, get_args

import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from .. import constants
from .._version import __version__
from ..base.atomic_files import replacing
from ..base.messages import Language, explained, language, os_reason, say, speaking
from ..base.pass_rule import frame_rule, reaches
from ..base.showing import symbols
from ..base.storage import as_path
from ..base.texts import local_time, visible
from ..base.verdict import asked_in, judges_asked_in, rate_text, rule_text, summary_verdict
from ..certify.certificate import Binding, Certificate, certificate_line, certificate_on, certificates_folder
from ..charts.runs import plot_criterion_trend, plot_question_strip
from ..charts.scores import plot_category_breakdown, plot_gate_confidence, plot_score_distribution
from ..charts.style import chart_url
from ..errors import ConfigError
from ..history.columns import RUN_NAMES
from ..history.frames import History, load_history, load_runs, run_history
from ..records import EvaluationRun, is_embedded
from ..runs.load import load_run
from ..settings import open_project
from ..stats.basics import OVERALL, in_order, summarise_scores
from ..stats.gate import gate_confidence, gate_questions
from . import contents
from .effect import named_log, named_run
from .words import BOXES, GATE_VERDICTS, LINES, cautions, conclusion, glossary, run_facts, suggestion

TREND_RUNS = 12  # a chart of the page's width can label this many
# answers on the page; more would make a file that a phone cannot open, and a hundred sheets of paper
MOST_ANSWERS = 200
ON_PAPER = 5  # answers that did not pass are printed in full
MOST_NAMED = 20  # questions that are named beside the verdict
MOST_ROWS = 100  # rows of a chart with one row per question

_MARK = b'<meta name="generator" content="socjudge '  # written by report.html.j2


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
        judged answers, failed ones first. The other answers go into a second file in the same folder, such as
        report_rest.html.
    run_or_log
        A run (`run.write_report(path)` does the same), the name or path of a log, or a folder of logs, whose newest log
        is taken; the project's own folder if left out. The report of a log also shows the earlier runs of its folder as
        a trend.
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
    before = None if baseline is None else _scores(run_history(_run_given(baseline)))
    if isinstance(run_or_log, EvaluationRun):
        return history_report(path, run_history(run_or_log), run_or_log.run.run_id, before=before, lang=lang)
    checked_page(path)  # before the logs are read
    return history_report(path, *_of_log(as_path(run_or_log or constants.LOGS_DIR)), before=before, lang=lang)


def history_report(
    path: Path | str, history: History, run_id: str, *, before: pd.DataFrame | None = None, lang: str | None = None
) -> Path:
    """Write the report of a run of a history, which must have its texts, as `write_report` does.
    `before` are the scores of the run to compare with."""
    tongue = lang or language()
    if tongue not in get_args(Language):
        raise ConfigError("lang is {found!r}, expected 'ja' or 'en'", found=lang)
    tongue, path = cast(Language, tongue), checked_page(path)
    is_chosen = before is not None
    scores = _scores(history)
    if scores.empty:
        raise ConfigError("write_report: the run has no scores; load a run with results, or widen the filters")
    runs = scores.drop_duplicates("run_id").sort_values("started_at", kind="stable", na_position="first")
    place = runs["run_id"].tolist().index(run_id)
    if before is None and (earlier := contents.previous(scores, runs.iloc[: place + 1])):
        before = scores[scores["run_id"] == earlier]
    if before is not None and before["run_id"].iloc[0] == run_id:
        raise ConfigError("write_report: the run and its baseline are both {run!r}; choose two runs", run=run_id)
    own, run = scores[scores["run_id"] == run_id], contents.run_of(scores, run_id)
    record = history.runs[history.runs["run_id"] == run_id].iloc[0]
    answers = history.results[history.results["run_id"] == run_id]
    criteria = in_order(own["criterion"])

    rule = frame_rule(answers)
    rest_path = path.with_name(f"{path.stem}_rest{path.suffix}")
    if len(answers) > MOST_ANSWERS:
        check_replaceable(rest_path)
    trend = scores[scores["run_id"].isin(runs["run_id"].iloc[max(0, place + 1 - TREND_RUNS) : place + 1])]
    summary, best = contents.summaries_of(answers, rule, asked_in(own))
    total = summary.total_questions
    gate = gate_confidence(answers).iloc[0]
    is_offline = is_embedded(run["judge_model_resolved"])
    with speaking(tongue):
        rows = contents.rows_shown(answers, own, criteria, rule.line)
        summary = replace(summary, n_to_read=sum(bool(row["verdict"].warning) for row in rows))
        verdict = summary_verdict(
            summary,
            is_reference=is_offline,
            judges_asked=judges_asked_in(own),
            missing=contents.missing_in(own),
        )
        certified, certificate = _certified(scores, run_id)
        project = open_project()
        render = functools.partial(
            page_environment().get_template("report.html.j2").render,
            made_at=datetime.now().astimezone(),
            title=project.report_title,
            team=project.report_team,
            flag_words=contents.FLAGS,
            overall=OVERALL,
            line=rule.line,
            rule_words=rule_text(total, rule, lang=tongue),
            needed=rule.needed(total),
            reaches=reaches,
            run=run,
            verdict=verdict,
            rate=rate_text(summary, verdict),
            summary=summary,
            best=best,
            best_verdict=summary_verdict(best),
            answer_verdicts=list({row["verdict"].outcome: row["verdict"] for row in rows}.values()),
            gate_verdicts=GATE_VERDICTS,
            gate=gate,
            criteria=criteria,
            is_offline=is_offline,
            facts=[
                *run_facts(run, answers, record),
                *([(say("Judge's certificate"), certificate.name)] if certificate else []),
            ],
            means=contents.means_of(own),
            charts=_charts(own, answers, gate),
            trend=_trend(trend),
            failures=[row for row in rows if row["verdict"].outcome != "passed"],
            most_named=MOST_NAMED,
            on_paper=ON_PAPER,
            total_rows=len(rows),
            first_name=path.name,
            comparison=None if before is None else contents.comparison_of(before, own),
            is_chosen=is_chosen,
            conclusion=conclusion(own, answers, summary, verdict, gate, rule),
            cautions=cautions(run, answers, summary, gate, record),
            certificate_line=certified,
            suggestion=suggestion(verdict, certificate, gate, rule),
            glossary=glossary(),
            boxes=BOXES,
            lines=LINES,
        )
        if len(rows) > MOST_ANSWERS:
            pages = {
                rest_path: render(rows=rows[MOST_ANSWERS:], is_rest=True, rest_name=""),
                path: render(rows=rows[:MOST_ANSWERS], is_rest=False, rest_name=rest_path.name),
            }
        else:
            pages = {path: render(rows=rows, is_rest=False, rest_name="")}
    for place_of_page, html in pages.items():
        write_page(place_of_page, html)
    return path


def _run_given(given: EvaluationRun | Path | str) -> EvaluationRun:
    return given if isinstance(given, EvaluationRun) else named_run(given, None)


def _scores(history: History) -> pd.DataFrame:
    """Return the scores, with the runbooks of their runs, so that runbooks that changed can be named."""
    runbooks = dict(zip(history.runs["run_id"], history.runs["runbooks"], strict=True))
    scores = history.scores.astype(dict.fromkeys({*RUN_NAMES} - {"started_at"}, object))
    return scores.assign(runbooks=scores["run_id"].map(runbooks))


def _of_log(given: Path) -> tuple[History, str]:
    """Return the history that the report of a log needs, and the run_id of the log. A folder stands for its newest log."""
    log = None if given.is_dir() or given == constants.LOGS_DIR else named_log(given, None)
    folder = log.parent if log else given
    runs = load_runs(folder).sort_values("started_at", kind="stable", na_position="first")
    if runs.empty:
        raise ConfigError("{folder}: no log to report on; `socjudge run` makes one", folder=folder)
    names = runs["log"].tolist()
    if log and log.name not in names:  # it cannot be read, or another log of the same run is used
        return run_history(run := load_run(log)), run.run.run_id
    place = names.index(log.name) if log else len(names) - 1
    # Texts are the largest part of a log, so only those of these runs are read.
    recent = names[max(0, place + 1 - TREND_RUNS) : place + 1]
    return load_history(folder, logs=set(recent), text=True), runs["run_id"].iloc[place]


def _certified(scores: pd.DataFrame, run_id: str) -> tuple[str, Certificate | None]:
    own, run = scores[scores["run_id"] == run_id], contents.run_of(scores, run_id)
    criteria = in_order(own["criterion"])
    names = ("judge_service", "judge_settings", "socjudge_version", "mode")
    # A certificate applies only to one judge with its service and settings. Without these columns, none applies.
    known = {name: str(own[name].iloc[0]) if name in own else "" for name in names}
    binding = Binding(
        run["judge_model"], known["judge_service"], run["prompt_sha256"], tuple(criteria), known["socjudge_version"],
        run["judge_model_resolved"], known["judge_settings"],
    )  # fmt: skip
    started = "" if pd.isna(run["started_at"]) else run["started_at"].isoformat()
    folder = certificates_folder(known["mode"])
    try:
        found = certificate_on(binding, started, folder=folder)
    except ConfigError:  # the certificate line says why
        found = None
    line = certificate_line(binding, started, folder=folder)
    # The name contains a hash. The page shows it among the facts of the run.
    return line.replace(found.name, say("there is one"), 1) if found else line, found


# -- charts


def _trend(scores: pd.DataFrame) -> dict[str, Any] | None:
    runs = scores.drop_duplicates("run_id").sort_values("started_at", kind="stable", na_position="first")
    if len(runs) < 2 or scores["score"].isna().all():
        return None
    means = summarise_scores(scores, by="run_id").set_index("run_id").to_dict("index")
    rows = [contents.run_of(scores, name) | means[name] for name in runs["run_id"]]
    alt = say(
        "{count} runs over time; overall mean {last:.1f} in the latest (see the table)",
        count=len(rows),
        last=rows[-1]["mean"],
    )
    dated = scores.dropna(subset=["started_at"])
    plots = [plot_criterion_trend, plot_question_strip] if dated["run_id"].nunique() > 1 else []
    left_out = ""
    if plots and dated["question_id"].nunique() > MOST_ROWS:
        plots.remove(plot_question_strip)
        left_out = say("More than {count} questions: their chart over time is left out.", count=MOST_ROWS)
    return {"rows": rows, "left_out": left_out, "charts": [_chart(plot, dated, alt) for plot in plots]}


def _charts(own: pd.DataFrame, answers: pd.DataFrame, gate: pd.Series) -> dict[str, Any]:
    if own["score"].isna().all():
        return {}
    by_criterion, by_category = (_listed(summarise_scores(own, by=by)) for by in ("criterion", "category"))
    found = {
        "marks": _chart(plot_score_distribution, own, say("Scores per criterion. Means: {means}", means=by_criterion)),
        "categories": _chart(
            plot_category_breakdown,
            own,
            say("Means per category and criterion. Categories: {means}", means=by_category),
        ),
    }
    if not pd.isna(gate["p_rerun"]) and answers["question_id"].nunique() <= MOST_ROWS:
        alt = say(
            "Each question's mean and its noise between repeats. Questions that decide the verdict: {questions}",
            questions=gate["deciding_questions"] or say("none"),
        )
        found["gate"] = _chart(plot_gate_confidence, gate_questions(answers), alt)
    return found


def _listed(summary: pd.DataFrame) -> str:
    return ", ".join(
        f"{name} {mean:.1f}" for name, mean in summary[[summary.columns[0], "mean"]].itertuples(index=False)
    )


def _chart(plot: Callable[[pd.DataFrame], Any], frame: pd.DataFrame, alt: str) -> dict[str, str]:
    return {"src": chart_url(plot, frame), "alt": alt}


# -- the page


@functools.cache  # compiling a template takes longer than filling a report
def page_environment() -> Environment:
    """Return the environment of the templates. It escapes all values, and makes invisible characters visible."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined,
        finalize=lambda value: visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.globals |= {"say": say, "language": language, "version": __version__, "asset": _asset}
    environment.filters["points"] = lambda value: "–" if pd.isna(value) else f"{value:.1f}"
    environment.filters["signed"] = lambda value: "–" if pd.isna(value) else f"{value:+.1f}"
    environment.filters["or_unknown"] = lambda value: say("unknown") if value in ("", "unknown") else value
    environment.filters["time"] = lambda value: (
        say("unknown") if pd.isna(value) else local_time(pd.Timestamp(value).to_pydatetime())
    )
    # A simulation cannot show a chance of 0 or 1.
    environment.filters["chance"] = lambda p: "<0.01" if p < 0.005 else ">0.99" if p > 0.995 else f"{p:.2f}"
    environment.tests["missing"] = lambda value: value is None or bool(pd.isna(value))
    return environment


def _asset(name: str) -> dict[str, Any]:
    """The page's Content-Security-Policy names the hash, so that the browser accepts only this text."""
    text = (symbols() if name == "report.css" else "") + (Path(__file__).parent / name).read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return {"text": Markup(text), "csp": f"'sha256-{digest}'"}


def checked_page(path: Path | str) -> Path:
    """Return the path to which a page can be written.
    Raises ConfigError if its folder is missing, or if a folder or a file that must not be replaced is there."""
    path = Path(path)
    if not path.parent.is_dir():
        raise ConfigError(
            "{path}: there is no folder {folder} to put the report in; make it first", path=path, folder=path.parent
        )
    if path.is_dir():
        raise ConfigError(
            "{path}: is a folder; give the report a name, such as {example}", path=path, example=path / "report.html"
        )
    check_replaceable(path)
    return path


def check_replaceable(path: Path) -> None:
    """Raise ConfigError if socjudge did not write the file at this path. Such a file must not be replaced."""
    try:
        with path.open("rb") as file:
            is_ours = _MARK in file.read(4096)
    except FileNotFoundError:
        return
    except IsADirectoryError:
        is_ours = False
    except OSError as error:
        raise ConfigError(
            "{path}: cannot be looked at ({reason}); give the report another name", path=path, reason=os_reason(error)
        ) from None
    if not is_ours:
        raise ConfigError(
            "{path}: is there already and no report of socjudge; give another name, or remove it", path=path
        )


def write_page(path: Path, html: str) -> None:
    """Write a page as a whole or not at all. Raises ConfigError if this fails."""
    with explained("{path}: the report cannot be written ({reason})", path=path), replacing(path) as file:
        file.write(html.encode("utf-8"))
