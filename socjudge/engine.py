"""The inside of a run: samples go through the assistant and the judge, and each result into the journal.

It runs in the background loop. Models with a service are called from the loop itself; the embedded ones run in
threads beside it; with an executor, answers and judgements are made by whatever stands behind that."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import functools
import os
import socket
import threading
import time
import uuid
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from . import __version__, background, constants
from .assistant import OUTPUT_TOKENS, answering, format_context
from .dialogue import Dialogue, Finished, advance, hold_async
from .errors import BudgetReached, ConfigError, ProviderError, RequestRefused, RunStopped, SocJudgeError
from .journal import Journal
from .judge import failed_evaluation, judging
from .pacing import MAX_TRIES, RunGate
from .prompts import Prompt, assistant_values, fill
from .providers import Model, complete_async, most_usd, open_model
from .records import AssistantAnswer, Completion, EvalQuestion, Evaluation, EvaluationResult, Flags, ModelRequest, Usage
from .redact import redact
from .texts import encodable

if TYPE_CHECKING:
    from .retrieval import RunbookIndex

T = TypeVar("T")


@dataclass(frozen=True)
class Sample:
    """One answer to be judged: asked for, or stored."""

    question: EvalQuestion
    answer_repeat: int
    stored: AssistantAnswer | None = None


@dataclass(frozen=True)
class Plan:
    """What all samples of a run have in common. assistant: None if all answers are stored."""

    judge: Model
    judge_prompt: Prompt
    judge_repeats: int
    assistant: Model | None
    assistant_prompt: Prompt | None
    index: RunbookIndex | None
    k: int


class Engine:
    """A run under way. Results are in the journal at once, and counted when `take` has brought them to the disk."""

    def __init__(
        self,
        n_samples: int,
        sample_at: Callable[[int], Sample],
        plan: Plan,
        journal: Journal,
        gate: RunGate,
        *,
        max_failures: int,
        executor: Executor | None = None,
    ) -> None:
        self._n_samples, self._sample_at = n_samples, sample_at
        self._plan, self._journal, self._gate = plan, journal, gate
        self._max_failures = max_failures
        self._executor = executor
        self._id = uuid.uuid4().hex
        self._terms = {m.name: _get_terms(m) for m in (plan.judge, plan.assistant) if m is not None and executor}
        self._submitted: set[concurrent.futures.Future[_Done]] = set()
        self._started = time.monotonic()
        self._worked = False  # until something has, a failure is about the set-up
        self._failures_in_a_row = 0
        self._uncounted: deque[EvaluationResult] = deque()

    @property
    def elapsed_s(self) -> float:
        """Seconds since this session began."""
        return time.monotonic() - self._started

    async def run(self, max_concurrency: int) -> None:
        """Judge what the journal does not have yet; why it ended early, if it did, is the gate's `reason`.

        Where answers are asked for, the first sample goes alone: a judge that cannot be called then costs one answer,
        not one for each place."""
        todo = (i for i in range(self._n_samples) if self._missing(i))
        async with self._recalling():
            if self._plan.assistant is not None and (first := next(todo, None)) is not None:
                await self._judge_sample(first)
            await asyncio.gather(*(self._work(todo) for _ in range(min(max_concurrency, self._n_samples))))

    def take(self) -> list[EvaluationResult]:
        """The results that came since the last time, now safely on disk. For the waiting thread, not the loop: there,
        waiting for the disk would hold up the calls."""
        batch = [self._uncounted.popleft() for _ in range(len(self._uncounted))]
        if batch:
            try:
                self._journal.sync()
            except OSError as problem:
                background.wait(self._move(problem))
                self._journal.sync()
        return batch

    async def _move(self, problem: OSError) -> None:
        self._journal.move(problem)

    async def _work(self, todo: Iterator[int]) -> None:
        for i in todo:
            if self._gate.reason is not None:
                return
            await self._judge_sample(i)

    def _missing(self, i: int) -> list[int]:
        """The judge repeats of a sample that are still to be made."""
        return [repeat for repeat in range(self._plan.judge_repeats) if not self._journal.is_done(i, repeat)]

    async def _judge_sample(self, i: int) -> None:
        sample, repeats = self._sample_at(i), self._missing(i)
        answer = sample.stored or self._journal.answer(i)
        if answer is None:
            answer = await self._or_failed(i, sample, None, repeats, self._answer(sample))
            if answer is None:
                return
            self._journal.add_answer(i, answer, self.elapsed_s)
        if not answer.answer.strip():
            silence = RequestRefused("the assistant gave no answer, so there is nothing to judge")
            self._fail(i, sample, answer, repeats, silence)
            return
        if len(repeats) == 1:
            await self._judge(i, sample, answer, repeats[0])
        else:
            await asyncio.gather(*(self._judge(i, sample, answer, repeat) for repeat in repeats))

    async def _judge(self, i: int, sample: Sample, answer: AssistantAnswer, repeat: int) -> None:
        marks = self._marks(i, sample, answer, repeat)
        evaluation = await self._or_failed(i, sample, answer, [repeat], marks)
        if evaluation is None:
            return
        self._add(i, EvaluationResult(sample.question, answer, evaluation, sample.answer_repeat, repeat))
        self._worked, self._failures_in_a_row = True, 0

    async def _or_failed(
        self,
        i: int,
        sample: Sample,
        answer: AssistantAnswer | None,
        repeats: list[int],
        work: Coroutine[Any, Any, T],
    ) -> T | None:
        """The work's result, or None when it failed: then the failure is a row, or the end of the run."""
        try:
            return await work
        except RunStopped:
            pass  # not done, so it is left for the next session
        except ConfigError as error:
            self._gate.stop(error)
        except SocJudgeError as error:
            self._fail(i, sample, answer, repeats, error)
        except Exception as surprise:  # one row's bug must not cost the others what they paid for
            said = redact(f"unexpected {type(surprise).__name__}: {surprise}")[:300]
            self._fail(i, sample, answer, repeats, ProviderError(said))
        return None

    def _fail(
        self, i: int, sample: Sample, answer: AssistantAnswer | None, repeats: list[int], error: SocJudgeError
    ) -> None:
        concerns_service = not isinstance(error, RequestRefused)
        if concerns_service and not self._worked:
            self._gate.stop(error)
            return
        for repeat in repeats:
            evaluation = failed_evaluation(error, model=self._plan.judge.name)
            answered = answer or AssistantAnswer(sample.question.question, "")
            self._add(i, EvaluationResult(sample.question, answered, evaluation, sample.answer_repeat, repeat))
        self._worked = True
        if concerns_service:
            self._failures_in_a_row += 1
            if self._failures_in_a_row >= self._max_failures:
                said = f"{self._failures_in_a_row} questions in a row failed, so the service is taken to be down"
                self._gate.stop(ProviderError(f"{said}; the last one: {error}"))

    # -- the two kinds of work

    async def _answer(self, sample: Sample) -> AssistantAnswer:
        plan = self._plan
        assert plan.assistant is not None and plan.index is not None and plan.assistant_prompt is not None
        question = sample.question.question
        if self._executor is not None:
            most = self._most_usd(plan.assistant, self._longest_request(question))
            answer: AssistantAnswer = await self._elsewhere(
                plan.assistant, most, prompt=plan.assistant_prompt, question=sample.question,
                index_dir=plan.index.index_dir.absolute(), fingerprint=plan.index.fingerprint, k=plan.k,
            )  # fmt: skip
            return answer
        dialogue = answering(question, index=plan.index, k=plan.k, prompt=plan.assistant_prompt)
        # Searching takes milliseconds of computing, for which the loop should not stand still.
        request = await background.in_thread(advance, dialogue, None)
        reply: Completion | ProviderError = await complete_async(plan.assistant, request, self._gate)
        try:
            await background.in_thread(advance, dialogue, reply)
        except Finished as finished:
            return finished.value  # type: ignore[no-any-return]
        raise AssertionError("the assistant asks once")

    async def _marks(self, i: int, sample: Sample, answer: AssistantAnswer, repeat: int) -> Evaluation:
        plan = self._plan
        if self._executor is not None:
            return await self._marks_from_elsewhere(i, sample, answer, repeat)
        return await hold_async(
            judging(sample.question, answer, prompt=plan.judge_prompt),
            lambda request: complete_async(plan.judge, request, self._gate),
            earlier=self._journal.replies(i, repeat),
            on_unfinished=lambda completion: self._journal.add_reply(i, repeat, completion, self.elapsed_s),
        )

    # -- behind an executor

    async def _marks_from_elsewhere(self, i: int, sample: Sample, answer: AssistantAnswer, repeat: int) -> Evaluation:
        """As `_marks`. One errand is one call, so that a reply that has to be asked for again is kept meanwhile."""
        plan, paid = self._plan, self._journal.replies(i, repeat)
        while True:
            request = None
            if self._gate.max_cost_usd is not None:
                request = _next_request(judging(sample.question, answer, prompt=plan.judge_prompt), paid)
            done: Evaluation | Completion = await self._elsewhere(
                plan.judge, self._most_usd(plan.judge, request), prompt=plan.judge_prompt,
                question=sample.question, answer=answer, paid=tuple(paid),
            )  # fmt: skip
            if isinstance(done, Evaluation):
                return done
            self._journal.add_reply(i, repeat, done, self.elapsed_s)
            paid.append(done)

    def _most_usd(self, model: Model, request: ModelRequest | None) -> float | None:
        """The most that one call can cost, if that matters to this run."""
        return None if request is None else most_usd(model, request)

    def _longest_request(self, question: str) -> ModelRequest | None:
        """The longest request for an answer that a worker can send: which passages it finds is not known here."""
        plan = self._plan
        if self._gate.max_cost_usd is None or plan.assistant_prompt is None:
            return None
        values = assistant_values(encodable(question), self._longest_context, Flags())
        message = {"role": "user", "content": fill(plan.assistant_prompt.text, values)}
        return ModelRequest("answer", (message,), {}, max_output_tokens=OUTPUT_TOKENS)

    @functools.cached_property
    def _longest_context(self) -> str:
        passages = self._plan.index.passages if self._plan.index is not None else []
        by_length = sorted(passages, key=lambda passage: len(format_context([passage]).encode()))
        return format_context(by_length[-self._plan.k :])

    async def _elsewhere(self, model: Model, most: float | None, **material: Any) -> Any:
        """What an errand brings back. most: the most that one call can cost, US dollars."""
        lost = 0
        while True:
            await self._gate.enter(most)
            cost: float | None = None
            try:
                errand = _Errand(self._id, uuid.uuid4().hex, model.name, self._terms[model.name], most, **material)
                done = await self._submit(errand)
                cost = done.cost_usd
            finally:
                self._gate.leave(most, cost)
            value = done.value
            if isinstance(value, BudgetReached):  # what was set aside is lost; another try needs as much again
                lost += 1
                if lost < MAX_TRIES:
                    continue
                value = ProviderError(f"{model.name}: no reply to {lost} calls")
            if isinstance(value, ProviderError):
                value.lost_calls += lost
            if isinstance(value, SocJudgeError):
                raise value
            return replace(value, usage=value.usage + Usage(lost_calls=lost))

    async def _submit(self, errand: _Errand) -> _Done:
        """Have the errand run. RunStopped if it was taken back; ConfigError if the executor is gone, ProviderError
        if it lost this errand alone: the work itself raises nothing."""
        assert self._executor is not None
        try:
            future = self._executor.submit(_run_errand, errand)
        except Exception as problem:  # it was shut down, or its processes are gone
            raise _gone(problem) from None
        self._submitted.add(future)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError as cancelled:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            self._gate.check()
            raise _gone(cancelled) from None
        except concurrent.futures.BrokenExecutor as problem:
            raise _gone(problem) from None
        except Exception as problem:
            said = redact(f"{type(problem).__name__}: {problem}")[:300]
            failure = ProviderError(f"the executor failed ({said}); does every worker have socjudge {__version__}?")
            failure.lost_calls = 1  # nobody can tell whether the call was made
            raise failure from None
        finally:
            self._submitted.discard(future)

    @contextlib.asynccontextmanager
    async def _recalling(self) -> AsyncIterator[None]:
        """Meanwhile, as soon as the run is to stop, what no worker has begun is taken back."""
        if self._executor is None:
            yield
            return
        watching = asyncio.create_task(self._recall(self._executor))
        try:
            yield
        finally:
            watching.cancel()

    async def _recall(self, executor: Executor) -> None:
        with contextlib.suppress(SocJudgeError):
            while True:
                await self._gate.sleep(3600)
        _stop_errands(self._id)  # threads work in this process
        # Dask's futures can be cancelled while they run, which would lose a call that is paid for.
        client = getattr(executor, "_client", None)
        if client is None:
            for future in self._submitted:
                future.cancel()
            return
        with contextlib.suppress(Exception):  # the cluster may be gone, and with it what there was to take back
            await background.in_thread(functools.partial(client.run, _stop_errands, self._id, wait=False))

    def _add(self, i: int, result: EvaluationResult) -> None:
        self._journal.add_result(i, result, self.elapsed_s)
        self._uncounted.append(result)


# -- what an executor runs, wherever that is


_Terms = tuple[tuple[str, Any], ...]
_PID = os.getpid()
_HOST = socket.gethostname()
_loading, _lock = threading.Lock(), threading.Lock()
_stopped: set[str] = set()
_gates: dict[str, weakref.WeakSet[RunGate]] = {}


@dataclass(frozen=True)
class _Errand:
    """One call to a model and what it is for: records and names, no key and no open connection.

    answer: the one to be judged; None if an answer is wanted. paid: replies that could not be read.
    most_usd: the most that may be spent, None without a budget."""

    run_id: str
    id: str
    model: str
    terms: _Terms
    most_usd: float | None
    prompt: Prompt
    question: EvalQuestion
    answer: AssistantAnswer | None = None
    paid: tuple[Completion, ...] = ()
    index_dir: Path = Path()
    fingerprint: str = ""
    k: int = 0

    def __dask_tokenize__(self) -> str:
        """Dask makes equal calls once; repeats are asked for to see how they differ."""
        return self.id


@dataclass(frozen=True)
class _Done:
    """What became of an errand. value: an answer or an evaluation; a reply that has to be asked for again; or why
    there is none, because a raised error would be printed with its arguments, or repeated, on the way."""

    value: AssistantAnswer | Evaluation | Completion | SocJudgeError
    cost_usd: float


def _run_errand(errand: _Errand) -> _Done:
    gate = RunGate(max_cost_usd=errand.most_usd)
    value: AssistantAnswer | Evaluation | Completion | SocJudgeError
    try:
        _admit(errand.run_id, gate)
        model = open_model(errand.model)
        _check_terms(model, errand.terms)
        value = _one_reply(errand, model, gate)
    except ConfigError as error:
        value = ConfigError(f"{error} (on the worker {_HOST})")
    except SocJudgeError as error:
        value = error
    except Exception as surprise:  # only here are the keys known that its text may hold
        value = ProviderError(redact(f"unexpected {type(surprise).__name__}: {surprise}")[:300])
    return _Done(value, gate.spent_usd)


def _one_reply(errand: _Errand, model: Model, gate: RunGate) -> AssistantAnswer | Evaluation | Completion:
    dialogue: Dialogue[AssistantAnswer] | Dialogue[Evaluation]
    if errand.answer is not None:
        dialogue = judging(errand.question, errand.answer, prompt=errand.prompt)
    else:
        with _loading:  # once for all threads
            index = _load_index(errand.index_dir, errand.fingerprint)
        dialogue = answering(errand.question.question, index=index, k=errand.k, prompt=errand.prompt)
    request = _next_request(dialogue, errand.paid)
    reply: Completion | ProviderError
    try:
        reply = background.wait(complete_async(model, request, gate))
    except ProviderError as error:
        reply = error
    try:
        advance(dialogue, reply)
    except Finished as finished:
        return finished.value  # type: ignore[no-any-return]
    assert isinstance(reply, Completion)  # a dialogue ends with an error
    return reply


def _next_request(dialogue: Dialogue[Any], paid: Sequence[Completion]) -> ModelRequest:
    request = advance(dialogue, None)
    for reply in paid:
        request = advance(dialogue, reply)
    return request


def _admit(run_id: str, gate: RunGate) -> None:
    if os.getpid() != _PID:
        raise ConfigError(
            "the executor forks processes, which then share half of this one's connections and threads; use "
            'ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn"))'
        )
    with _lock:
        if run_id in _stopped:
            raise RunStopped("the run was stopped")
        _gates.setdefault(run_id, weakref.WeakSet()).add(gate)


def _stop_errands(run_id: str) -> None:
    """Let this process begin no further errand of a run, and try no call again."""
    with _lock:
        _stopped.add(run_id)
        for gate in _gates.pop(run_id, ()):
            background.get_loop().call_soon_threadsafe(gate.stop)


def _get_terms(model: Model) -> _Terms:
    """What has to be the same on all machines for a run to be one run."""
    sample = ModelRequest("judge", ({"role": "user", "content": "x" * 1000},), {})
    return (
        ("socjudge's version", __version__),
        ("JUDGE_EVALUATION_CRITERIA", "、".join(constants.JUDGE_EVALUATION_CRITERIA)),
        ("JUDGE_PASS_THRESHOLD", constants.JUDGE_PASS_THRESHOLD),
        ("BACKGROUND_SECTIONS", "、".join(constants.BACKGROUND_SECTIONS)),
        ("OPENAI_BASE_URL", getattr(model, "service", "")),
        (f"the price of {model.name} (prices.toml)", most_usd(model, sample)),
    )


def _check_terms(model: Model, terms: _Terms) -> None:
    for (name, there), (_, here) in zip(terms, _get_terms(model), strict=False):
        if there != here:
            raise ConfigError(
                f"{name} is {here!r} on a worker and {there!r} where the run was started; make it the same on every "
                "machine (docs/scaling.md)"
            )


def _gone(problem: BaseException) -> ConfigError:
    said = redact(f"{type(problem).__name__}: {problem}".removesuffix(": "))[:300]
    return ConfigError(
        f"the executor is gone ({said}): was it shut down or restarted, or did its processes die, as of too little "
        "memory? Start the same run again with a new one"
    )


@functools.lru_cache(maxsize=2)
def _load_index(index_dir: Path, fingerprint: str) -> RunbookIndex:
    from .retrieval import load_index

    index = load_index(index_dir)
    if index.fingerprint != fingerprint:
        raise ConfigError(
            f"{index_dir}: the index on a worker is not the one that the run was started with; copy the folder to "
            "every machine, or put it on a shared disk"
        )
    return index
