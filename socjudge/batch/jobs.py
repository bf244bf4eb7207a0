"""Keep a batch job on this machine: its run, journal, rounds and state."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base.messages import say
from ..base.storage import as_path
from ..errors import ConfigError
from ..judging.dataset import load_eval_dataset
from ..models.opening import OFFLINE
from ..records import EvaluationRun
from ..runs.assignment import Assignment, assign_rejudging, assign_suite
from ..runs.estimate import Estimate, estimate_run
from ..runs.finishing import finish_run
from ..runs.journal import Journal, open_journal
from ..runs.load import load_run
from ..runs.log_json import run_info_from_dict
from ..runs.logs import find_log
from ..runs.unfinished import SUFFIX as JOURNAL_SUFFIX
from .files import Line, RequestFile, write_requests
from .rounds import (
    BATCH_PRICE_FACTOR,
    add_failures,
    add_local_answers,
    asks_assistant,
    get_model,
    missing_lines,
    next_request,
)
from .state import SUFFIX, BatchState, Source, load_state, save_state, unfinished_batches

if TYPE_CHECKING:
    from ..runbooks.index import RunbookIndex

ENDED = ("completed", "failed", "expired", "cancelled")  # the states in which the service does no more work on a batch


@dataclass(frozen=True)
class BatchJob:
    """Describe a batch job.

    - path: the job's folder.
    - next_step: "submit", "wait" (for the service), "collect" or "done".
    - round: the number of the current round, from 1. files: the files of this round.
    - done: the number of judgements so far, of `total`.
    - estimate: calls, tokens and cost (at half the list price) of the files that are not yet submitted.
    - rest: calls, tokens and cost (at half the list price) of everything that is still to be requested.
    - notes: what the user should know, such as problems found when collecting.
    - run: the finished run, or None.
    """

    path: Path
    next_step: str
    round: int
    files: tuple[RequestFile, ...]
    done: int
    total: int
    estimate: Estimate
    rest: Estimate
    notes: tuple[str, ...] = ()
    run: EvaluationRun | None = None


def assign(source: Source, index: RunbookIndex | None = None) -> Assignment:
    """Return the `Assignment` of a run, made from the run's sources as they are now: its log, or its dataset and index.

    index: the index, if it is already open.

    Raises ConfigError if one of the sources cannot be read.
    """
    judge: dict[str, Any] = {
        "judge_model": source.judge_model,
        "judge_prompt": source.judge_prompt,
        "rubric": source.rubric,
    }
    if source.log:
        return assign_rejudging(load_run(source.log), **judge, judge_repeats=source.judge_repeats)
    questions = load_eval_dataset(source.dataset)
    if index is None:
        from ..runbooks.index import load_index

        # the index with which the answers were paid for, whatever the runbooks contain now
        index = load_index(source.index_dir)
    return assign_suite(
        questions, index=index, answers=None, **judge,
        assistant_model=source.assistant_model, assistant_prompt=source.assistant_prompt,
        answer_repeats=source.answer_repeats, judge_repeats=source.judge_repeats, k=source.k,
    )  # fmt: skip


def write_job(assignment: Assignment, source: Source, logs_dir: Path | str, *, requests_per_file: int) -> BatchJob:
    """Write a job with the request files of its first round (see `batch.prepare_batch`).

    If the job already exists, there are two cases. If its latest round was submitted, nothing is written. If not, this
    round is written again.
    """
    place, key = as_path(logs_dir), assignment.key
    folder = place.absolute()
    state = _find_job(folder, key)
    if state is None:
        run = asdict(replace(assignment.info, mode="batch"))
        # The job's folder is named after the journal, which is opened first.
        state = BatchState(folder / "new", run, key, assignment.total, source, requests_per_file)
        state.logs_url = ""
    with open_job(state, key) as journal:
        if not state.rounds:
            state = _find_job(folder, key) or state  # another process may just have made one
        if state.rounds and state.is_sent:
            return describe(state, notes=[say("batch.goes_on")])
        state.source, state.requests_per_file = source, requests_per_file
        is_new = not state.rounds
        if is_new:
            state.folder = folder / (journal.path.name.removesuffix(JOURNAL_SUFFIX) + SUFFIX)
        try:
            add_local_answers(assignment, journal)
            state.per_call = _estimate_calls(assignment, journal)
            state.folder.mkdir(exist_ok=True)
            state.rounds = state.rounds[:-1]
            add_round(state, assignment, journal)
            save_job(state, journal)
        except BaseException:
            if is_new:
                shutil.rmtree(state.folder, ignore_errors=True)
            journal.close(discard=journal.is_empty)
            raise
        return describe(state)


@contextlib.contextmanager
def open_job(state: BatchState, key: Mapping[str, Any]) -> Iterator[Journal]:
    """Lock the run's journal, and with it the job, while a `with` block runs. The block gets the journal.

    The job's state is read again from the disk. The journal is the one that this state names. If an unsuccessful live
    run has removed it, a new one is made.

    key: the run's identity, made from its sources as they are now.

    Raises ConfigError, with the differences, if the sources have changed since the job was prepared.
    """
    folder = state.folder.parent
    path = folder / state.journal
    info = run_info_from_dict(state.run, where=str(state.folder))
    try:
        journal = open_journal(
            folder, info, key, total=state.total,
            path=path if path.is_file() else None,
        )  # fmt: skip
    except ConfigError as error:
        if state.key == key:
            raise
        source = state.source
        made_from = source.log or say("batch.sources", dataset=source.dataset, index=source.index_dir)
        changed = say("batch.sources_changed", error=error, sources=made_from, folder=state.folder)
        raise ConfigError(changed) from None
    try:
        if state.rounds:  # read again, because nobody else can change it now
            vars(state).update(vars(load_state(state.folder)))
        state.run = asdict(journal.info)
        yield journal
    except ConfigError:
        journal.close(discard=journal.is_empty and not state.folder.exists())
        raise
    finally:
        journal.close()


def add_round(state: BatchState, assignment: Assignment, journal: Journal) -> None:
    """Write the request files of a new round: a request for each missing result that can be requested now."""
    number = len(state.rounds) + 1
    missing = list(missing_lines(assignment, journal, state.failures))

    def requests() -> Iterator[tuple[Line, str, dict[str, Any]]]:
        for line in sorted(missing, key=lambda line: get_model(assignment, line).name):
            model = get_model(assignment, line)
            refused = frozenset(state.learned.get(model.name, ()))
            request = next_request(assignment, journal, line)
            yield line, line.custom_id(number), model.body(request, refused)

    stem = f"{state.folder.stem}-r{number}"
    state.rounds.append(write_requests(state.folder, stem, requests(), max_requests=state.requests_per_file))


def save_job(state: BatchState, journal: Journal) -> None:
    """Write the job's state to the disk, with the journal's place and its number of judgements."""
    state.done = journal.n_done
    # A name lets the folder of logs be moved. A path is needed if the journal is elsewhere because the disk was full.
    beside = journal.path.parent == state.folder.parent
    state.journal = journal.path.name if beside else str(journal.path)
    save_state(state)


def finish_job(state: BatchState, assignment: Assignment, journal: Journal) -> EvaluationRun:
    """Write the log and remove the journal. In the log, every missing judgement is a row with status "failed"."""
    add_failures(assignment, journal, state.failures)
    journal.sync()
    journal.info = replace(journal.info, mode="batch")
    run = finish_run(journal, assignment, 0.0, state.logs_dir)
    journal.close(discard=True)
    return run


def find_run(state: BatchState) -> Path | None:
    """Return the path of the run's log if there is one, else None.

    There is a log if the run was finished live, or if the process was killed after it had written the log.
    """
    return find_log(state.run["run_id"], as_path(state.logs_dir), started_at=state.run["started_at"])


def remove_job(state: BatchState, run: EvaluationRun, notes: Sequence[str] = ()) -> BatchJob:
    """Remove a job whose run has a log, and the run's journal if there still is one. Return the job as done."""
    if (state.folder.parent / state.journal).is_file():
        with open_job(state, state.key) as journal:
            journal.close(discard=True)
    with contextlib.suppress(FileNotFoundError):  # another process has just removed it
        shutil.rmtree(state.folder)
    job = describe(state, notes=notes)
    return replace(job, next_step="done", done=job.total, run=run)


def describe(state: BatchState, *, notes: Sequence[str] = ()) -> BatchJob:
    """Return a BatchJob with what the job's state says, and with these notes."""
    files = state.files
    unsent = [file for file in files if not file.batch_id]
    if not files or any(file.status in ENDED and not file.collected for file in files):
        step = "collect"
    else:
        step = "submit" if unsent else "wait"
    answers = sum(file.answers for file in unsent)
    unanswered = sum(file.answers for file in files if not file.collected)
    return BatchJob(
        state.folder, step, len(state.rounds), tuple(files), state.done, state.total,
        _estimate(state, answers, sum(file.requests for file in unsent) - answers),
        _estimate(state, unanswered, state.total - state.done), tuple(notes),
    )  # fmt: skip


def _find_job(folder: Path, key: Mapping[str, Any]) -> BatchState | None:
    """Return the state of the batch job in this folder of logs whose run has this key. Return None if there is none.

    If the run of the job was finished live, the job is removed, and the result is None.
    """
    for state in map(load_state, unfinished_batches(folder)):
        if state.key == key:
            if find_run(state) is None:
                return state
            shutil.rmtree(state.folder)
    return None


def _estimate_calls(assignment: Assignment, journal: Journal) -> dict[str, dict[str, float | None]]:
    """Return the estimated tokens and cost of one call: of a request for an answer (key "answer") and for a judgement
    ("judge").

    "answer" is left out if the batch requests no answers. The cost is half the list price. It is None if the price is
    unknown.
    """
    samples, plan = [assignment.sample_at(i) for i in range(assignment.n_samples)], assignment.plan
    questions = [sample.question for sample in samples]
    answers = [answer for i, sample in enumerate(samples) if (answer := sample.stored or journal.answer(i))]
    estimates = {
        "judge": estimate_run(
            questions, answers=answers if len(answers) == len(samples) else None, assistant_model=OFFLINE,
            judge_model=plan.judge, judge_prompt=plan.judge_prompt, rubric=plan.rubric, k=plan.k,
        )
    }  # fmt: skip
    if plan.assistant is not None and asks_assistant(assignment):
        estimates["answer"] = estimate_run(
            questions, assistant_model=plan.assistant, judge_model=OFFLINE, rubric=plan.rubric, k=plan.k
        )
    return {
        kind: {
            "input_tokens": estimate.input_tokens / estimate.calls,
            "output_tokens": estimate.output_tokens / estimate.calls,
            "cost_usd": None if estimate.cost_usd is None else estimate.cost_usd / estimate.calls * BATCH_PRICE_FACTOR,
        }
        for kind, estimate in estimates.items()
    }


def _estimate(state: BatchState, answers: int, judgements: int) -> Estimate:
    """Estimate the calls, tokens and cost of this many requests for answers and for judgements. The cost is None if a
    price is unknown.
    """
    calls = [(state.per_call[kind], count) for kind, count in (("answer", answers), ("judge", judgements)) if count]
    tokens_in, tokens_out = (
        round(sum((each[name] or 0.0) * count for each, count in calls)) for name in ("input_tokens", "output_tokens")
    )
    prices = [(each["cost_usd"], count) for each, count in calls]
    known = all(price is not None for price, _ in prices)
    cost = sum((price or 0.0) * count for price, count in prices) if known else None
    return Estimate(answers + judgements, tokens_in, tokens_out, cost)
