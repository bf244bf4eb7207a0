"""Define the command line of batches: `socjudge batch prepare | submit | status | collect`.

Exit codes: 0 done; 2 an error. Exit codes of collect: 0 passed; 1 not passed; 2 no verdict was possible, or any error;
3 not finished.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .. import constants
from ..base.messages import say
from ..base.showing import shown_path
from .shared import COSTS_MONEY, NOT_FINISHED, ask_to_run, echo, estimate_text, report_run, stop

if TYPE_CHECKING:
    from ..batch.jobs import BatchJob
    from ..runs.estimate import Estimate

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help=say("cli.batch_help"),
)

Job = Annotated[Path | None, typer.Argument(help=say("cli.batch_job"))]
LogsDir = Annotated[str | None, typer.Option(help=say("cli.logs_dir_option"))]


@app.command(help=say("cli.batch_prepare_help"))
def prepare(
    dataset: Annotated[Path | None, typer.Option(help=say("cli.dataset_option"))] = None,
    log: Annotated[str | None, typer.Option(help=say("cli.batch_log"))] = None,
    judge_model: Annotated[str, typer.Option(help=say("cli.batch_judge"))] = "auto",
    assistant_model: Annotated[str, typer.Option(help=say("cli.batch_assistant"))] = "auto",
    judge_prompt: Annotated[str | None, typer.Option(help=say("cli.judge_prompt_option"))] = None,
    assistant_prompt: Annotated[str | None, typer.Option(help=say("cli.assistant_prompt_option"))] = None,
    answer_repeats: Annotated[int, typer.Option(min=1, help=say("cli.answer_repeats_option"))] = 1,
    judge_repeats: Annotated[int, typer.Option(min=1, help=say("cli.judge_repeats_option"))] = 1,
    k: Annotated[int | None, typer.Option(min=1, help=say("cli.k_option"))] = None,
    requests_per_file: Annotated[int | None, typer.Option(min=1, help=say("cli.batch_requests"))] = None,
    runbooks: Annotated[Path | None, typer.Option(help=say("cli.runbooks_option"))] = None,
    index_dir: Annotated[Path | None, typer.Option(help=say("cli.index_dir_option"))] = None,
    logs_dir: LogsDir = None,
) -> None:
    """Write the requests of a run as files, and say what they will cost. Nothing is sent.

    Example: socjudge batch prepare --judge-model gpt-4o-mini --assistant-model offline
    """
    from ..batch.api import prepare_batch
    from ..batch.files import MAX_REQUESTS
    from ..runbooks.index import open_index

    index = None if log is not None else open_index(runbooks, index_dir=index_dir)
    job = prepare_batch(
        dataset, log=log, index=index, judge_model=judge_model, assistant_model=assistant_model,
        judge_prompt=judge_prompt, assistant_prompt=assistant_prompt, answer_repeats=answer_repeats,
        judge_repeats=judge_repeats, k=k, logs_dir=logs_dir,
        requests_per_file=MAX_REQUESTS if requests_per_file is None else requests_per_file,
    )  # fmt: skip
    _show(job)
    echo(say("cli.batch_rest", estimate=_price(job.rest)))


@app.command(help=say("cli.batch_submit_help"))
def submit(
    *,
    job: Job = None,
    logs_dir: LogsDir = None,
    max_cost_usd: Annotated[float | None, typer.Option(min=0, help=say("cli.max_cost_option"))] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help=say("cli.batch_yes"))] = False,
) -> None:
    """Send the prepared files of a batch job to the service. Nothing is sent twice."""
    from ..batch.api import submit_batch
    from ..batch.jobs import describe
    from ..batch.state import load_state

    folder = _find(job, logs_dir)
    waiting = describe(load_state(folder))
    if waiting.estimate.calls:
        echo(COSTS_MONEY + _price(waiting.estimate), err=True)
        ask_to_run(yes, question="cli.confirm_submit", declined="cli.nothing_submitted")
    _show(submit_batch(folder, max_cost_usd=max_cost_usd))


@app.command(help=say("cli.batch_status_help"))
def status(job: Job = None, logs_dir: LogsDir = None) -> None:
    """Show how many requests of a batch job the service has done."""
    from ..batch.api import batch_status

    _show(batch_status(_find(job, logs_dir)))


@app.command(help=say("cli.batch_collect_help"))
def collect(job: Job = None, logs_dir: LogsDir = None) -> None:
    """Fetch those replies of a batch job that the service has made so far.

    A batch job sends its requests in one or more rounds. After the last reply of a round, there are two cases. If the
    run is complete, write its log. Otherwise, write the files of the next round, which must be submitted.

    Exit code 0: passed; 1: not passed; 2: no verdict was possible, or any error; 3: not finished, and a message says
    what to do.
    """
    from ..batch.api import collect_batch

    collected = collect_batch(_find(job, logs_dir))
    if collected.run is None:
        _show(collected)
        raise typer.Exit(NOT_FINISHED)
    for note in collected.notes:
        echo(f"socjudge: {note}", err=True)
    report_run(collected.run)


def _find(job: Path | None, logs_dir: str | None) -> Path:
    """Return the folder of the job: `job` if it is given, or the folder of the only unfinished job.

    End the command if `job` is not given and there is no unfinished job, or more than one.
    """
    from ..batch.state import unfinished_batches

    if job is not None:
        return job
    logs_dir = logs_dir or str(constants.LOGS_DIR)
    found = unfinished_batches(logs_dir)
    if len(found) > 1:
        stop(say("cli.batch_which", folder=logs_dir, jobs=", ".join(map(str, found))))
    if not found:
        stop(say("cli.batch_none", folder=logs_dir))
    folder: Path = found[0]
    return folder


def _show(job: BatchJob) -> None:
    echo(say("cli.batch_state", path=shown_path(job.path), done=job.done, total=job.total, round=job.round))
    for file in job.files:
        told = say("cli.batch_file", name=file.name, requests=file.requests, size=file.size_bytes, status=file.status)
        if file.completed or file.failed:
            told += say("cli.batch_file_done", completed=file.completed, failed=file.failed)
        echo(f"  {told}" + (f" ({file.problem})" if file.problem else ""))
    for note in job.notes:
        echo(f"socjudge: {note}", err=True)
    if job.next_step == "wait":
        echo(say("cli.batch_wait"))
    elif job.next_step == "submit":
        echo(say("cli.batch_send", estimate=_price(job.estimate)))
    else:
        echo(say("cli.batch_take"))


def _price(estimate: Estimate) -> str:
    return estimate_text(estimate, "cli.price_half")
