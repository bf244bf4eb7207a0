"""Define the command line of the logs: `socjudge doctor | compare | report`. No model is called."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from .. import constants
from ..base.messages import say
from ..errors import ConfigError
from ..settings import open_project
from . import options as given
from .options import log_path, option
from .shared import NOT_PASSED, PASSED, echo


def doctor(logs_dir: given.LogsDir = None, dataset: given.Dataset = None, runbooks: given.Runbooks = None) -> None:
    from ..history.doctor import LEVELS, check_dataset, check_logs, check_runbooks
    from ..models.endings import project_ending

    checks: list[Any] = []
    ending = ""
    try:
        open_project()
        checks += [check_dataset(dataset)] if dataset or constants.EVAL_DATASET_PATH.is_file() else []
        checks += [check_runbooks(runbooks)] if runbooks or constants.RUNBOOKS_DIR.is_dir() else []
        ending = project_ending()
    except ConfigError as error:  # the settings are at fault; the logs can still be looked at
        echo(f"socjudge: {error}\n", err=True)
    if logs_dir or constants.LOGS_DIR.is_dir() or not checks:
        checks.append(check_logs(logs_dir))
    found = [row for check in checks for row in check.to_dict("records")]
    for row in found:
        place = f": {row['where']}" if row["where"] else ""
        echo(f"{say(row['level'])}: {row['file']}{place}\n    {row['what']}\n    → {row['remedy']}")
    counts = {level: sum(row["level"] == level for row in found) for level in LEVELS}
    echo(say("{error} errors, {warning} warnings, {note} notes", **counts))
    if ending:
        echo(ending, err=True)
    raise typer.Exit(NOT_PASSED if counts["error"] or counts["warning"] else PASSED)


def report(
    path: Annotated[Path, typer.Argument(help=say("The HTML file to write."))] = Path("report.html"),
    log: given.Log = None,
    logs_dir: given.LogsDir = None,
    baseline: Annotated[
        str | None,
        option("Name of the log to compare with; default: the last with the same judge, prompt and assistant."),
    ] = None,
    lang: Annotated[str | None, option("'ja' or 'en'; default: the language of the messages.")] = None,
) -> None:
    from ..report.page import write_report

    named, before = (name and log_path(name, logs_dir) for name in (log, baseline))
    echo(say("{path} written", path=write_report(path, named or logs_dir, baseline=before, lang=lang)))


def compare(
    before: Annotated[str, typer.Argument(help=say("The log before the change: its name or path."))],
    after: Annotated[str, typer.Argument(help=say("The log after the change: its name or path."))],
    logs_dir: given.LogsDir = None,
) -> None:
    from ..report.effect import compare_runs

    echo(repr(compare_runs(before, after, logs_dir=logs_dir)))
