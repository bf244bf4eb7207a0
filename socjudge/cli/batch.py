"""The command line of batches: `socjudge batch prepare | submit | status | collect`.

Exit codes: 0 done; 2 an error. Of collect: 0 passed, 1 not passed, 2 could not judge (also any error), 3 not finished."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .. import constants
from .shared import open_index_or_exit, or_exit, report_run, shown, stop

if TYPE_CHECKING:
    from ..batch.jobs import BatchJob
    from ..runs.estimate import Estimate

NOT_FINISHED = 3

app = typer.Typer(
    no_args_is_help=True,
    help=(
        "Large runs at half the price: OpenAI's Batch endpoint answers within a day. Prepare the requests, submit "
        "them, and collect the replies; what is still missing then is the next round, to be submitted again. Where "
        "the assistant is asked too, its answers are the first round and the judgements the second."
    ),
)

Job = Annotated[Path | None, typer.Argument(help="The job's folder, judge_eval_….batch; else the only one there is.")]
LogsDir = Annotated[
    str | None, typer.Option(help="Where the log goes: a folder, or a URL such as s3://bucket/logs; default: logs.")
]


@app.command()
def prepare(
    dataset: Annotated[Path | None, typer.Option(help="The questions (JSON); default: eval/eval_dataset.json.")] = None,
    log: Annotated[str | None, typer.Option(help="Judge the stored answers of this log instead.")] = None,
    judge_model: Annotated[str, typer.Option(help="The model that judges: a plain OpenAI model.")] = "auto",
    assistant_model: Annotated[
        str, typer.Option(help="The model that answers: likewise, or 'offline', which answers at once.")
    ] = "auto",
    judge_prompt: Annotated[str | None, typer.Option(help="Prompt id or .txt file; default: guide-1.")] = None,
    answer_repeats: Annotated[int, typer.Option(min=1, help="Answers per question.")] = 1,
    judge_repeats: Annotated[int, typer.Option(min=1, help="Judgements per answer.")] = 1,
    k: Annotated[int, typer.Option(min=1, help="Passages per question.")] = 5,
    requests_per_file: Annotated[
        int | None, typer.Option(min=1, help="Smaller files, if your account may not have so many tokens waiting.")
    ] = None,
    runbooks: Annotated[Path | None, typer.Option(help="Folder with the runbooks; default: eval/runbooks.")] = None,
    index_dir: Annotated[Path | None, typer.Option(help="Where the index is kept; default: .socjudge/index.")] = None,
    logs_dir: LogsDir = None,
) -> None:
    """Write the requests of a run as files, and say what they will cost; nothing is sent.

    Example: socjudge batch prepare --judge-model gpt-4o-mini --assistant-model offline"""
    from ..batch.api import prepare_batch
    from ..batch.files import MAX_REQUESTS

    index = None if log is not None else open_index_or_exit(runbooks, index_dir)
    job = or_exit(
        prepare_batch, dataset, log=log, index=index, judge_model=judge_model, assistant_model=assistant_model,
        judge_prompt=judge_prompt, answer_repeats=answer_repeats, judge_repeats=judge_repeats, k=k, logs_dir=logs_dir,
        requests_per_file=MAX_REQUESTS if requests_per_file is None else requests_per_file,
    )  # fmt: skip
    _show(job)
    typer.echo(f"In all, later rounds too: {_price(job.rest)}")


@app.command()
def submit(
    job: Job = None,
    logs_dir: LogsDir = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before it costs money.")] = False,
) -> None:
    """Send the prepared files of a job to the service; nothing is sent twice."""
    from ..batch.api import submit_batch
    from ..batch.jobs import describe
    from ..batch.state import load_state

    folder = _find(job, logs_dir)
    waiting = describe(or_exit(load_state, folder))
    if waiting.estimate.calls:
        typer.echo(f"⚠️ LLM as a Judgeの実行にはコストがかかります: {_price(waiting.estimate)}.", err=True)
        if not yes:
            if not sys.stdin.isatty():
                stop("nobody is there to confirm; pass --yes to submit it from a script")
            if not typer.confirm("Submit it?", err=True):
                stop("nothing was submitted")
    _show(or_exit(submit_batch, folder))


@app.command()
def status(job: Job = None, logs_dir: LogsDir = None) -> None:
    """Show how far the service is with a job."""
    from ..batch.api import batch_status

    _show(or_exit(batch_status, _find(job, logs_dir)))


@app.command()
def collect(job: Job = None, logs_dir: LogsDir = None) -> None:
    """Take over what has come; write the next round's files, or, when nothing is missing, the log.

    Exit code 0: passed; 1: not passed; 2: could not judge, or an error; 3: not finished, see what is printed."""
    from ..batch.api import collect_batch

    collected = or_exit(collect_batch, _find(job, logs_dir))
    if collected.run is None:
        _show(collected)
        raise typer.Exit(NOT_FINISHED)
    for note in collected.notes:
        typer.echo(f"socjudge: {note}", err=True)
    report_run(collected.run)


def _find(job: Path | None, logs_dir: str | None) -> Path:
    """The folder that was named, or the only one there is."""
    from ..batch.state import unfinished_batches

    if job is not None:
        return job
    logs_dir = logs_dir or str(constants.LOGS_DIR)
    found = or_exit(unfinished_batches, logs_dir)
    if len(found) > 1:
        stop(f"{logs_dir}: which one? " + ", ".join(map(str, found)))
    if not found:
        stop(f"{logs_dir}: no unfinished batch job; make one with socjudge batch prepare")
    folder: Path = found[0]
    return folder


def _show(job: BatchJob) -> None:

    typer.echo(f"{shown(job.path)}: {job.done} of {job.total} judged answers, round {job.round}")
    for file in job.files:
        done = f", {file.completed} done, {file.failed} failed" if file.completed or file.failed else ""
        problem = f" ({file.problem})" if file.problem else ""
        typer.echo(f"  {file.name}: {file.requests} requests, {file.size_bytes:,} bytes, {file.status}{done}{problem}")
    for note in job.notes:
        typer.echo(f"socjudge: {note}", err=True)
    if job.next_step == "wait":
        typer.echo("Next: wait for the service, up to 24 hours; then socjudge batch collect")
    elif job.next_step == "submit":
        typer.echo(f"Next: socjudge batch submit ({_price(job.estimate)})")
    else:
        typer.echo("Next: socjudge batch collect")


def _price(estimate: Estimate) -> str:
    price = "unknown" if estimate.cost_usd is None else f"about ${estimate.cost_usd:.3f} at half the list price"
    tokens = f"{estimate.input_tokens:,} tokens in, {estimate.output_tokens:,} out"
    return f"{estimate.calls} calls, about {tokens}; cost {price}"
