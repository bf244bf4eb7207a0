"""The inside of a run: samples go through the assistant and the judge, and each result into the journal.

It runs in the background loop. Models with a service are called from the loop itself; the embedded ones run in
threads beside it; with an executor, answers and judgements are made by whatever stands behind that."""

from __future__ import annotations

import asyncio
import functools
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from . import background
from .assistant import answering, handle_query
from .dialogue import Finished, advance, hold_async
from .errors import ConfigError, ProviderError, RequestRefused, RunStopped, SocJudgeError
from .journal import Journal
from .judge import MAX_REPLIES, evaluate_answer, failed_evaluation, judging
from .pacing import RunGate
from .prompts import Prompt
from .providers import Model, complete_async, most_usd
from .records import AssistantAnswer, Completion, EvalQuestion, Evaluation, EvaluationResult, ModelRequest
from .redact import redact

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
            arguments = (question, plan.index.index_dir, plan.index.fingerprint, plan.assistant.name, plan.k)
            request = _longest_request(question + plan.assistant_prompt.text)
            answer: AssistantAnswer = await self._elsewhere(
                plan.assistant, request, 1, _answer_there, *arguments, plan.assistant_prompt
            )
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
            request = _longest_request(plan.judge_prompt.text + answer.context + answer.answer)
            evaluation: Evaluation = await self._elsewhere(
                plan.judge, request, MAX_REPLIES,
                _judge_there, sample.question, answer, plan.judge.name, plan.judge_prompt,
            )  # fmt: skip
            return evaluation
        return await hold_async(
            judging(sample.question, answer, prompt=plan.judge_prompt),
            lambda request: complete_async(plan.judge, request, self._gate),
            earlier=self._journal.replies(i, repeat),
            on_unfinished=lambda completion: self._journal.add_reply(i, repeat, completion, self.elapsed_s),
        )

    async def _elsewhere(self, model: Model, request: ModelRequest, calls: int, function: Any, *arguments: Any) -> Any:
        """The function's result, made behind the executor; the most that its calls can cost is set aside."""
        most = most_usd(model, request) if self._gate.max_cost_usd is not None else None
        most = most * calls if most is not None else None
        await self._gate.enter(most)
        cost: float | None = None
        try:
            assert self._executor is not None
            done = await asyncio.wrap_future(self._executor.submit(function, *arguments))
            cost = done.usage.cost_usd
            return done
        except SocJudgeError:
            cost = 0.0
            raise
        finally:
            self._gate.leave(most, cost)

    def _add(self, i: int, result: EvaluationResult) -> None:
        self._journal.add_result(i, result, self.elapsed_s)
        self._uncounted.append(result)


def _longest_request(text: str) -> ModelRequest:
    """A request that is about as long as what a worker will send, to tell the most that it can cost."""
    from .judge import OUTPUT_TOKENS

    room = "。" * 4000  # passages or keypoints
    return ModelRequest("judge", ({"role": "user", "content": text + room},), {}, max_output_tokens=2 * OUTPUT_TOKENS)


# What an executor runs. Arguments are records and names: no key, no open connection.


def _judge_there(question: EvalQuestion, answer: AssistantAnswer, model: str, prompt: Prompt) -> Evaluation:
    return evaluate_answer(question, answer, model=model, prompt=prompt)


def _answer_there(
    question: str, index_dir: Path, fingerprint: str, model: str, k: int, prompt: Prompt
) -> AssistantAnswer:
    return handle_query(question, index=_index_there(index_dir, fingerprint), model=model, k=k, prompt=prompt)


@functools.lru_cache(maxsize=2)
def _index_there(index_dir: Path, fingerprint: str) -> RunbookIndex:
    from .retrieval import load_index

    index = load_index(index_dir)
    if index.fingerprint != fingerprint:
        raise ConfigError(
            f"{index_dir}: the index on a worker is not the one that the run was started with; copy the folder to "
            "every machine, or put it on a shared disk"
        )
    return index
