"""Define the commands for results of other tools: `socjudge import | check`. No model is called."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from ..base.messages import listed, say
from ..base.showing import shown_path
from .shared import echo, stop

Column = Annotated[list[str] | None, typer.Option("--column", help=say("cli.import_column"))]
Scale = Annotated[str | None, typer.Option(help=say("cli.import_scale"))]


def import_file(
    path: Annotated[Path, typer.Argument(help=say("cli.import_path"))],
    mark: Annotated[list[str] | None, typer.Option("--mark", help=say("cli.import_mark"))] = None,
    column: Column = None,
    scale: Scale = None,
    logs_dir: Annotated[str | None, typer.Option(help=say("cli.logs_dir_option"))] = None,
) -> None:
    """Save the results of another tool as logs, one log for each pair of judge and assistant.

    Example: socjudge import results.json && socjudge report
    """
    from ..history.imports.importing import import_runs
    from ..runs.logs import save_evaluation_results

    columns: dict[str, Any] = dict(map(_pair, column or ()))
    if mark:
        columns["marks"] = mark
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        runs = import_runs(path, columns=columns or None, scale=_scale(scale))
    for run in runs:
        log = save_evaluation_results(run, logs_dir)
        told: dict[str, Any] = {
            "judge": run.judge_model,
            "assistant": run.run.assistant_model,
            "count": len(run.results),
        }
        echo(say("cli.imported", log=shown_path(log), criteria=listed(run.rubric.criteria), **told))
    echo(say("cli.import_next", log=log.name), err=True)


def check(
    path: Annotated[Path, typer.Argument(help=say("cli.check_path"))],
    judge: Annotated[str, typer.Option(help=say("cli.check_judge"))],
    human: Annotated[str, typer.Option(help=say("cli.check_human"))],
    line: Annotated[float | None, typer.Option(help=say("cli.check_line"))] = None,
) -> None:
    """Compare the verdicts in two columns of a file: those of a judge, and those of people. No project is needed.

    Example: socjudge check answers.csv --judge SCORE --human LABEL --line 70
    """
    from ..history.imports.importing import read_columns
    from ..stats.quick_check import check_judge, check_text

    marks = read_columns(path, (judge, human))
    table = check_judge(*marks, line=line)
    kinds = {"passed": "cli.check_of_passed", "failed": "cli.check_of_failed", "all": "cli.check_of_all"}
    echo(say("cli.check_head"))
    for row in table.itertuples(index=False):
        told = "–" if row.n_more else f"{row.share:.0%} ({row.low:.0%}–{row.high:.0%})"
        echo(say("cli.check_row", kind=say(kinds[str(row.of)]), same=row.n_same, n=row.n, share=told))
    echo("\n" + check_text(table))


def _pair(told: str) -> tuple[str, str]:
    what, _, name = told.partition("=")
    if not name:
        stop(say("cli.import_no_pair", told=told))
    return what, name


def _scale(told: str | None) -> float | tuple[float, float] | None:
    if told is None:
        return None
    try:
        ends = [float(part) for part in told.split(",")]
    except ValueError:
        ends = []
    if len(ends) not in (1, 2):
        stop(say("history.import_scale", scale=told))
    return ends[0] if len(ends) == 1 else (ends[0], ends[1])
