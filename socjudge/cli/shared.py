"""What all commands share: how an error ends one, how a path and a finished run are shown, exit codes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Never

import typer

from .. import constants
from ..errors import SocJudgeError
from ..records import EvaluationRun, is_embedded

PASSED, NOT_PASSED, COULD_NOT_JUDGE = 0, 1, 2


def open_index_or_exit(runbooks: Path | None, index_dir: Path | None) -> Any:
    from ..runbooks.index import open_index

    return or_exit(open_index, runbooks, index_dir=index_dir)


def report_run(finished: EvaluationRun) -> Never:
    from ..base.verdict import REFERENCE_NOTE, best_case, summary_text

    for result in finished.results:
        evaluation = result.evaluation
        if evaluation.status == "ok":
            icon, score = ("✅" if evaluation.passed else "❌"), f"{evaluation.average_score:5.1f}点"
        else:
            icon, score = "⚠️", f"採点不能（{evaluation.error[:60]}）"
        typer.echo(f"{icon} {result.question.id}. {score}  {result.question.category}  {result.question.question}")
    typer.echo(f"\n評価完了！結果を {shown(finished.log_path)} に保存しました\n")
    typer.echo(summary_text(finished.summary))
    if is_embedded(finished.run.judge_model_resolved):
        typer.secho(REFERENCE_NOTE, fg="bright_black")
    info, cost = finished.run, finished.usage.cost_usd
    spent = "unknown" if cost is None else f"${cost:.4f}"
    typer.echo(
        f"Judge: {info.judge_model_resolved}, assistant: {info.assistant_model_resolved}, "
        f"prompt: {info.judge_prompt_id}, cost: {spent}, {info.wall_time_s:.1f} s",
        err=True,
    )
    if finished.summary.mvp_passed:
        raise typer.Exit(PASSED)
    # Not passed only because replies could not be read is no verdict on the assistant.
    undecided = finished.summary.n_unscored and best_case(finished.results).mvp_passed
    raise typer.Exit(COULD_NOT_JUDGE if undecided else NOT_PASSED)


def shown(path: Path | None) -> str:
    if path is not None and path.is_relative_to(constants.PROJECT_DIR):
        return str(path.relative_to(constants.PROJECT_DIR))
    return str(path)


def or_exit(function: Any, *args: Any, **keywords: Any) -> Any:
    """The function's result; an error that socjudge explains ends the command with its message alone."""
    try:
        return function(*args, **keywords)
    except SocJudgeError as error:
        stop(str(error))


def stop(message: str) -> Never:
    typer.echo(f"socjudge: {message}", err=True)
    raise typer.Exit(COULD_NOT_JUDGE)
