"""Make runs through OpenAI's Batch endpoint, at half the list price and within a day: prepare, submit, collect.

A job is a folder beside the run's journal, and every reply is written into that journal. A run that was begun as a
batch can therefore be finished live, and a live run can be finished as a batch. Each function can be called again after
an interruption at any moment. No file of a job contains an API key.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import openai
from openai.types import Batch

from .. import constants
from ..base.messages import os_reason, say
from ..base.redact import redact
from ..base.storage import as_path
from ..errors import ConfigError, ProviderError, RequestRefused, SocJudgeError
from ..prompts.saved import judge_prompt_of
from ..prompts.templates import Prompt, load_prompt
from ..records import Rubric
from ..runs.assignment import Assignment
from ..runs.journal import Journal
from ..runs.load import load_run
from ..settings import cost_cap, default_k, project_rubric
from .files import MAX_REQUESTS, Failure, RequestFile, load_requests, parse_custom_id, parse_replies
from .jobs import (
    ENDED,
    BatchJob,
    add_round,
    assign,
    describe,
    find_run,
    finish_job,
    open_job,
    remove_job,
    save_job,
    write_job,
)
from .rounds import add_reply, check_models, get_model, is_missing
from .service import download, open_client, submit_file, update_file
from .state import BatchState, Source, load_state

if TYPE_CHECKING:
    from ..runbooks.index import RunbookIndex


def prepare_batch(
    dataset: Path | str | None = None,
    *,
    log: Path | str | None = None,
    index: RunbookIndex | None = None,
    judge_model: str = "auto",
    assistant_model: str = "auto",
    judge_prompt: Prompt | str | Path | None = None,
    assistant_prompt: Prompt | str | Path | None = None,
    rubric: Rubric | None = None,
    answer_repeats: int = 1,
    judge_repeats: int = 1,
    k: int | None = None,
    logs_dir: Path | str | None = None,
    requests_per_file: int = MAX_REQUESTS,
) -> BatchJob:
    """Write the requests of a run as files for the Batch endpoint. Nothing is sent.

    - dataset: the questions; EVAL_DATASET_PATH if left out.
    - log: a log. Its stored answers are judged, as `rejudge` does, and no questions are asked.
    - judge_model: the name of an OpenAI model.
    - assistant_model: the name of an OpenAI model, or "offline", which answers at once on this machine.
    - requests_per_file: the most requests in one file. Give a low number if the account may have only few tokens
      waiting in the service's queue.

    The other arguments are as in `run_evaluation_suite`. A batch uses the same journal as a live run with the same
    arguments, so results that such a run already has are not requested again. If the job of this run already exists,
    there are two cases: a submitted job is returned unchanged, and any other job is written again.

    Raises ConfigError if an argument is invalid, there is no key, a model has no batch endpoint, a folder cannot be
    written, or another process is making the same run.
    """
    logs_dir = logs_dir or constants.LOGS_DIR
    if dataset is not None and log is not None:
        raise ConfigError(say("batch.both_given"))
    if not isinstance(judge_model, str) or not isinstance(assistant_model, str):
        raise ConfigError(say("batch.no_names"))
    if not 1 <= requests_per_file <= MAX_REQUESTS:
        raise ConfigError(say("batch.file_size", count=requests_per_file, most=MAX_REQUESTS))
    if log is not None:
        earlier = load_run(log)
        judge_prompt, rubric = judge_prompt or judge_prompt_of(earlier.run), rubric or earlier.rubric
    rubric = rubric or project_rubric()
    source = Source(judge_model, load_prompt(judge_prompt, rubric=rubric), rubric, judge_repeats)
    if log is not None:
        source.log = _absolute(log)
    else:
        if index is None:
            from ..runbooks.index import open_index

            index = open_index()
        source.dataset = _absolute(dataset or constants.EVAL_DATASET_PATH)
        source.index_dir = _absolute(index.index_dir)
        source.assistant_model = assistant_model
        source.assistant_prompt = load_prompt(assistant_prompt, kind="assistant")
        source.answer_repeats, source.k = answer_repeats, default_k() if k is None else k
    assignment = assign(source, index)
    check_models(assignment)
    # "auto" is resolved now, so that it stays the same model.
    source.judge_model = assignment.plan.judge.name
    source.assistant_model = assignment.plan.assistant.name if assignment.plan.assistant is not None else ""
    with _disk_errors():
        return write_job(assignment, source, logs_dir, requests_per_file=requests_per_file)


def submit_batch(path: Path | str, *, max_cost_usd: float | None = None) -> BatchJob:
    """Upload the request files of the job in this folder, and let the service make a batch of each. This costs money.

    Nothing is submitted twice, even if this is called again.

    max_cost_usd: the cap in US dollars on the run's cost so far plus the estimated cost of these files. It is the
    project's cap if left out; infinity for no cap.

    Raises ConfigError:

    - if there is no such job, or its run was finished or continued live;
    - if the cap is too low, or if a price is unknown and there is a cap;
    - if the key is missing or refused;
    - if the environment names another service than the job was prepared for.

    Raises ProviderError if the service failed; submit again later.
    """
    state = load_state(path)
    client = open_client(state)
    with _disk_errors(), open_job(state, state.key) as journal:
        if find_run(state) is not None:
            raise ConfigError(say("batch.is_finished", folder=state.folder))
        if not state.is_sent and journal.n_done > state.done:
            raise ConfigError(say("batch.outdated", folder=state.folder, count=journal.n_done - state.done))
        estimate, cap, spent_usd = describe(state).estimate, cost_cap(max_cost_usd), journal.spent_usd
        cost = estimate.cost_usd
        if cap is not None and estimate.calls and (cost is None or spent_usd + cost > cap):
            told = say("batch.unknown_amount") if cost is None else f"${cost:.4f}"
            raise ConfigError(say("batch.over_cap", cost=told, spent=spent_usd, cap=cap))
        for file in state.files:
            if not file.batch_id:
                submit_file(client, state, file)
        return describe(state)


def batch_status(path: Path | str) -> BatchJob:
    """Return the state of the job in this folder as the service reports it. The job itself is not changed.

    Raises ConfigError if there is no such job, or if the key is missing or refused. Raises ProviderError if the service
    failed.
    """
    state = load_state(path)
    client = open_client(state)
    for file in state.files:
        if file.batch_id and not file.collected:
            update_file(client, file)
    return describe(state)


def collect_batch(path: Path | str) -> BatchJob:
    """Fetch the replies to the submitted files, also from batches that expired or were cancelled midway.

    When the replies to all files of a round have arrived, there are two cases. If nothing is missing, the log is
    written, the job's folder is removed, and `run` is the finished run. Otherwise, the files of the next round are
    written; submit them with `submit_batch`. They repeat the requests that failed or whose reply could not be parsed,
    and request judgements of new answers. A request that failed in three rounds becomes a row with status "failed". If
    the service refuses a whole file, this does not count as a failure of its requests.

    In the log, the calls of a batch cost half the list price and have a `processing_time` of 0. `wall_time_s` does not
    include the waiting.

    Raises ConfigError if there is no such job or no key, or if the dataset, log, index or version of socjudge has
    changed since the job was prepared. Raises ProviderError if the service failed, or refused all files of the round.
    """
    state = load_state(path)
    client = open_client(state)
    with _disk_errors():
        if (logged := find_run(state)) is not None:
            return remove_job(state, load_run(logged))
        assignment = assign(state.source)
        notes: list[str] = []
        with open_job(state, assignment.key) as journal:
            sent = state.files
            for file in sent:
                if file.batch_id and not file.collected:
                    batch = update_file(client, file)
                    if batch.status in ENDED:
                        notes += _collect(client, state, assignment, journal, file, batch)
                        journal.sync()
                        file.collected = True
                    save_job(state, journal)
            if not all(file.collected for file in sent):
                return describe(state, notes=notes)
            add_round(state, assignment, journal)
            if not state.files:
                return remove_job(state, finish_job(state, assignment, journal), notes)
            save_job(state, journal)
    if sent and all(file.status == "failed" for file in sent):
        problems = "; ".join(dict.fromkeys(file.problem for file in sent))
        raise ProviderError(say("batch.all_refused", reason=problems))
    return describe(state, notes=notes)


def _absolute(place: Path | str) -> str:
    path = as_path(place)
    return str(path.absolute())


def _collect(
    client: openai.OpenAI, state: BatchState, assignment: Assignment, journal: Journal, file: RequestFile, batch: Batch
) -> list[str]:
    """Write the replies of an ended batch into the journal, and record its failed requests in `state`.

    Return notes to show to the user.
    """
    number, path = len(state.rounds), state.folder / file.name
    sent = {custom_id for custom_id, _ in load_requests(path)}
    failures: dict[str, Failure] = {}
    strays: list[str] = []
    notes: list[str] = []
    for file_id in filter(None, (batch.output_file_id, batch.error_file_id)):
        raw = download(client, file_id)
        if raw is None:  # the service keeps them for 30 days
            notes.append(say("batch.file_gone", file=file_id))
        for custom_id, reply in parse_replies(raw or b""):
            line = parse_custom_id(custom_id, number) if custom_id in sent else None
            if line is None:
                strays.append(redact(custom_id)[:60] or say("batch.without_id"))
            elif isinstance(reply, Failure):
                failures.setdefault(custom_id, reply)
            elif is_missing(assignment, journal, line):
                try:
                    completion = get_model(assignment, line).read(reply)
                    retries = tuple(state.failures.get(line.name, ()))
                    add_reply(assignment, journal, line, replace(completion, retries=retries))
                except (SocJudgeError, OSError):
                    raise
                except Exception as surprise:  # an odd line must not lose the other replies, which are paid for
                    problem = redact(f"{type(surprise).__name__}: {surprise}")[:250]
                    failures.setdefault(custom_id, Failure(say("batch.no_completion", problem=problem)))
    if strays:
        notes.append(say("batch.strays", file=file.name, count=len(strays), few=_few(strays)))
    if batch.status == "failed":
        notes.append(say("batch.file_refused", file=file.name, reason=file.problem))
        return notes
    reasons = Counter(_failed(state, assignment, journal, path, failures, batch.status))
    if reasons:
        few = _few([f"{count} × {reason}" for reason, count in reasons.most_common()])
        notes.append(say("batch.requests_failed", file=file.name, count=reasons.total(), few=few))
    return notes


def _failed(
    state: BatchState, assignment: Assignment, journal: Journal, path: Path, failures: dict[str, Failure], status: str
) -> Iterator[str]:
    """Record in `state` why requests of a file have no usable reply. Yield one reason for each such request.

    If the service refused a parameter of a request, the request does not count as failed. The next round leaves the
    parameter out.

    - path: the request file.
    - failures: {custom id: the failure that the service reported}.
    - status: the batch's status. It is the reason for requests that are not in `failures`.
    """
    for custom_id, body in load_requests(path):
        line = parse_custom_id(custom_id, len(state.rounds))
        if line is None or not is_missing(assignment, journal, line):
            continue
        failure = failures.get(custom_id, Failure(say("batch.no_reply_in_batch", status=status)))
        reason = f"{failure.message} ({failure.status_code})" if failure.status_code else failure.message
        model = get_model(assignment, line)
        if failure.status_code in (400, 422):
            with contextlib.suppress(RequestRefused):
                # A parameter that the service refuses is left out next time. The line is not to blame.
                refused = model.refused_parameter(failure, body)
                known = state.learned.setdefault(model.name, [])
                known += [refused] if refused not in known else []
                yield say("batch.sent_without", reason=reason, parameter=refused)
                continue
        state.failures.setdefault(line.name, []).append(reason)
        yield reason


def _few(texts: Sequence[str]) -> str:
    few = ", ".join(texts[:3])
    return say("batch.more", few=few, count=len(texts) - 3) if len(texts) > 3 else few


@contextlib.contextmanager
def _disk_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        raise ConfigError(where + say("batch.not_written", reason=os_reason(error))) from None
