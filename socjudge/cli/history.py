"""Define the command line of the logs: `socjudge doctor | compare | report`. No model is called."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from .. import constants
from ..base.messages import say
from ..errors import ConfigError
from ..settings import open_project
from .shared import echo

LEVELS = {"error": "error", "warning": "warning", "note": "note"}
FOUND_PROBLEMS = 1

LogsDir = Annotated[str | None, typer.Option(help=say("The folder of the logs; default: logs."))]


def doctor(
    logs_dir: LogsDir = None,
    dataset: Annotated[
        Path | None, typer.Option(help=say("The questions (JSON, CSV or Excel); default: eval/eval_dataset.json."))
    ] = None,
    runbooks: Annotated[
        Path | None,
        typer.Option(help=say("Folder with the runbooks (.md, .txt, Word, PDF, …); default: eval/runbooks.")),
    ] = None,
) -> None:
    """List what is wrong with the questions, the runbooks and the logs, and what to do about it. Nothing is changed.
    Exit code 0: no problems; 1: errors or warnings were found; 2: the folder of the logs could not be read."""
    from ..history.doctor import check_dataset, check_logs, check_runbooks
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
        echo(f"{say(LEVELS[row['level']])}: {row['file']}{place}\n    {row['what']}\n    → {row['remedy']}")
    counts = Counter(row["level"] for row in found)
    echo(
        say(
            "{error} errors, {warning} warnings, {note} notes",
            error=counts["error"],
            warning=counts["warning"],
            note=counts["note"],
        )
    )
    if ending:
        echo(ending, err=True)
    raise typer.Exit(FOUND_PROBLEMS if counts["error"] or counts["warning"] else 0)


def report(
    path: Annotated[Path, typer.Argument(help=say("The HTML file to write."))] = Path("report.html"),
    logs_dir: LogsDir = None,
    log: Annotated[str | None, typer.Option(help=say("Name of the log to report on; default: the newest."))] = None,
    baseline: Annotated[
        str | None,
        typer.Option(
            help=say("Name of the log to compare with; default: the last with the same judge, prompt and assistant.")
        ),
    ] = None,
    lang: Annotated[str | None, typer.Option(help=say("'ja' or 'en'; default: the language of the messages."))] = None,
) -> None:
    """Write one self-contained HTML file about a run: its verdict, charts, every answer, and what changed."""
    from ..report.effect import named_log
    from ..report.page import write_report

    given, before = (name and named_log(name, logs_dir) for name in (log, baseline))
    echo(say("{path} written", path=write_report(path, given or logs_dir, baseline=before, lang=lang)))


def compare(
    before: Annotated[str, typer.Argument(help=say("The log before the change: its name or path."))],
    after: Annotated[str, typer.Argument(help=say("The log after the change: its name or path."))],
    logs_dir: LogsDir = None,
) -> None:
    """Compare two runs, and print whether what was changed between them helped."""
    from ..report.effect import compare_runs

    echo(repr(compare_runs(before, after, logs_dir=logs_dir)))
