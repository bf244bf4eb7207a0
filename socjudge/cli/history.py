"""Define the command line of the logs: `socjudge doctor | compare | report`. No model is called."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ..base.messages import say
from ..errors import ConfigError
from ..settings import current_project
from .shared import NOT_PASSED, echo, stop

LEVELS = {"error": "cli.level_error", "warning": "cli.level_warning", "note": "cli.level_note"}
FOUND_PROBLEMS = 1

LogsDir = Annotated[str | None, typer.Option(help=say("cli.logs_read_option"))]


class FailOn(StrEnum):
    """Hold the values that the option `--fail-on` of `compare` can have."""

    REGRESSION = "regression"


def doctor(
    logs_dir: LogsDir = None,
    notes: Annotated[bool, typer.Option("--notes", help=say("cli.notes_option"))] = False,
) -> None:
    """List the problems of the logs in a folder, and what to do about each problem. Nothing is changed.

    Exit code 0: no problems; 1: errors or warnings were found; 2: the folder could not be read.
    """
    from ..history.doctor import check_logs, check_verdicts
    from ..history.frames import load_results
    from ..models.endings import project_ending

    has_settings = True
    try:
        current_project()
    except ConfigError as error:  # the logs can still be looked at
        has_settings = False
        echo(f"socjudge: {error}\n", err=True)
    problems = check_logs(logs_dir)
    verdicts = check_verdicts(load_results(logs_dir))
    shown = problems if notes else problems[problems["level"] != "note"]
    for row in shown.to_dict("records"):
        place = f": {row['where']}" if row["where"] else ""
        level = say(LEVELS[row["level"]])
        echo(f"{level}: {row['log']}{place}\n    {row['what']}\n    → {row['remedy']}")
    for row in verdicts[verdicts["n_missing"] > 0].to_dict("records"):
        echo(f"{row['log']}: {row['note']}")
    counts = {level: int((problems["level"] == level).sum()) for level in LEVELS}
    echo(say("cli.level_counts", error=counts["error"], warning=counts["warning"], note=counts["note"]))
    if counts["note"] and not notes:
        echo(say("cli.notes_hidden"), err=True)
    if has_settings and (ending := project_ending()):
        echo(ending, err=True)
    raise typer.Exit(FOUND_PROBLEMS if counts["error"] or counts["warning"] else 0)


def report(
    path: Annotated[Path, typer.Argument(help=say("cli.report_path"))] = Path("report.html"),
    logs_dir: LogsDir = None,
    log: Annotated[str | None, typer.Option(help=say("cli.report_log"))] = None,
    baseline: Annotated[str | None, typer.Option(help=say("cli.report_baseline"))] = None,
    lang: Annotated[str, typer.Option(help=say("cli.report_lang"))] = "ja",
) -> None:
    """Write one self-contained HTML file about a run: its verdict, charts, every answer, and the change since an
    earlier run.

    Example: socjudge report report.html --log judge_eval_20260101_090000.json
    """
    from ..report.page import write_report

    echo(say("cli.written", path=write_report(path, logs_dir, run_id=log, baseline=baseline, lang=lang)))


def compare(
    before: Annotated[str, typer.Argument(help=say("cli.compare_before"))],
    after: Annotated[str, typer.Argument(help=say("cli.compare_after"))],
    logs_dir: LogsDir = None,
    fail_on: Annotated[FailOn | None, typer.Option(help=say("cli.fail_on_option"))] = None,
) -> None:
    """Compare two runs, and print whether what was changed between them helped.

    Exit code without `--fail-on regression`: 0. With it, 0: no result became worse; 1: a result became worse; 2: this
    cannot be decided. After any error, the exit code is 2.
    """
    from ..report.effect import compare_runs

    found = compare_runs(before, after, logs_dir=logs_dir)
    echo(repr(found))
    if fail_on and found.regressions:
        echo("\n" + "\n".join(found.regressions))
        raise typer.Exit(NOT_PASSED)
    if fail_on and found.doubt:
        stop(say("report.regression_unknown", reason=found.doubt))
    if fail_on:
        echo("\n" + say("report.regression_none"))
