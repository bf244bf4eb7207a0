"""Carry out a run: send each sample to the assistant and the judge, and write each result into the journal.

The engine runs in the background event loop and calls hosted models from there. Embedded models run in threads. If the
run has an executor, its workers make the calls (executor.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections import deque
from collections.abc import Awaitable, Iterator
from concurrent.futures import Executor
from dataclasses import replace
from itertools import chain

from ..answering.assistant import prepare_answer
from ..answering.own_assistant import Assistant
from ..base.redact import surprise_text
from ..errors import ConfigError, RequestRefused, RunStopped, SocJudgeError, UnexpectedError
from ..judging.judge import failed_evaluation, judge_answer, keeping
from ..models import event_loop
from ..models.gate import RunGate
from ..models.opening import Model
from ..records import AssistantAnswer, Completion, Evaluation, EvaluationResult, ModelRequest
from .executor import ask_through
from .failures import Failures, Who
from .journal import Journal
from .plan import Plan, Sample


class Engine:
    """Request the answers and judgements that the journal of a run does not have. A sample is one answer to judge."""

    def __init__(
        self, plan: Plan, journal: Journal, gate: RunGate, *, max_failures: int, executor: Executor | None = None
    ) -> None:
        self._plan, self._journal, self._gate, self._executor = plan, journal, gate, executor
        self.n_left = plan.total - journal.n_done  # judgements still to come
        is_judged, own = bool(journal.n_done or journal.unparsable), plan.own.name if plan.own else ""
        replied: dict[Who, bool] = {"judge": is_judged, "assistant": bool(journal.answers)}
        self.failures = Failures(max_failures, replied, journal.n_done > 0, judge=plan.judge.name, own=own)
        versions = (answer.version for answer in journal.answers.values())
        self._version = next(filter(None, versions), "") if plan.own is not None else ""
        self._uncounted: deque[EvaluationResult] = deque()

    async def run(self, max_concurrency: int) -> None:
        """Work on at most `max_concurrency` samples at once. `RunGate.reason` has the error that ended the run early."""
        # Samples that failed in an earlier session come last.
        refused = {sample for sample, _ in self._journal.again}
        new = (i for i in range(len(self._plan.samples)) if i not in refused)
        todo = (i for i in chain(new, sorted(refused)) if self._missing(i))
        # One answer at a time until one has been judged: a judge that cannot be called then costs only one answer.
        if self._plan.assistant is not None:
            while not self.failures.worked and self._gate.reason is None and (first := next(todo, None)) is not None:
                await self._judge_sample(first)
        count = min(max_concurrency, len(self._plan.samples))
        more: list[asyncio.Task[None]] = []

        def add_worker() -> None:
            if len(more) < count - 1:  # none if one sample at a time was asked for; the gate limits the calls in flight
                more.append(asyncio.create_task(self._work(todo)))

        self._gate.on_wait = add_worker  # while a call waits because the service asked for it, another sample is begun
        await asyncio.gather(*(self._work(todo) for _ in range(count)))
        for task in more:
            await task
        if not self.failures.has_answered["assistant"] and (reason := self.failures.unanswered()):
            self._gate.stop(reason)

    def synced_results(self) -> list[EvaluationResult]:
        """Return the results since the last call, once they are on the disk, which would delay the event loop."""
        batch = [self._uncounted.popleft() for _ in range(len(self._uncounted))]
        if batch:
            self._journal.sync()
        return batch

    async def _work(self, todo: Iterator[int]) -> None:
        for i in todo:
            if self._gate.reason is not None:
                return
            await self._judge_sample(i)

    def _missing(self, i: int) -> list[int]:
        return [repeat for repeat in range(self._plan.judge_repeats) if not self._journal.is_done(i, repeat)]

    async def _judge_sample(self, i: int) -> None:
        sample, repeats = self._plan.samples[i], self._missing(i)
        answer = sample.stored or self._journal.answers.get(i)
        if answer is None:
            with self._failing(i, None, repeats):
                answer = await self._answer(sample)
            if answer is None:
                return
            self.failures.answered()
            self._keep(answer, i)
        if answer.is_empty:
            silence = "the assistant gave an empty answer, so there is nothing to judge; see what it returns for this question"
            if sample.stored and answer.retries:
                silence = "there is no answer to judge: {cause}"
            self.failures.worked = True
            error = RequestRefused(silence, about_content=True, cause="; ".join(answer.retries))
            self._fail(i, answer, repeats, error)
            return
        await asyncio.gather(*(self._judge(i, answer, repeat) for repeat in repeats))

    async def _judge(self, i: int, answer: AssistantAnswer, repeat: int) -> None:
        plan, sample = self._plan, self._plan.samples[i]
        ask = keeping(
            lambda request: self._ask(plan.judge, request),
            self._journal.unparsable.get((i, repeat), ()),
            lambda reply: self._keep(reply, i, repeat),
        )
        evaluation: Evaluation | None = None
        with self._failing(i, answer, [repeat]):
            evaluation = await judge_answer(
                sample.question, answer, prompt=plan.judge_prompt, rubric=plan.rubric, ask=ask
            )
        if evaluation is None:
            return
        self._add(i, EvaluationResult(sample.question, answer, evaluation, sample.answer_repeat, repeat))
        if reason := self.failures.judged(evaluation.status, evaluation.error, self.n_left):
            self._gate.stop(reason)

    @contextlib.contextmanager
    def _failing(self, i: int, answer: AssistantAnswer | None, repeats: list[int]) -> Iterator[None]:
        """Note the failure of a request for an answer (`answer` is None) or a judgement."""
        try:
            yield
        except RunStopped:
            pass  # it is not done, so it is left for the next session
        except SocJudgeError as error:
            self._fail(i, answer, repeats, error)
        except Exception as surprise:  # a bug in one row must not cost the others what they paid for
            self._fail(i, answer, repeats, UnexpectedError(surprise_text(surprise)))

    def _fail(self, i: int, answer: AssistantAnswer | None, repeats: list[int], error: SocJudgeError) -> None:
        who: Who = "assistant" if answer is None else "judge"
        is_old = all(self._journal.before(i, repeat)[0] == "failed" for repeat in repeats)
        if self.failures.has_row(error, who):
            sample = self._plan.samples[i]
            evaluation = failed_evaluation(error, model=self._plan.judge.name, criteria=self._plan.rubric.criteria)
            answered = answer or AssistantAnswer(sample.question.question, "")
            for repeat in repeats:
                self._add(i, EvaluationResult(sample.question, answered, evaluation, sample.answer_repeat, repeat))
        reason = self.failures.count(error, who, n=len(repeats), is_old=is_old, n_left=self.n_left)
        if reason is not None:
            self._gate.stop(reason)

    async def _answer(self, sample: Sample) -> AssistantAnswer:
        plan, question = self._plan, sample.question.question
        if plan.own is not None:
            return await self._own_answer(plan.own, sample)
        assert plan.assistant is not None and plan.index is not None and plan.assistant_prompt is not None
        # Searching computes for milliseconds, during which the loop must not stand still.
        prepare = functools.partial(prepare_answer, index=plan.index, k=plan.k, prompt=plan.assistant_prompt)
        asked = await event_loop.in_thread(prepare, question)
        completion = await self._ask(plan.assistant, asked.request)
        return await event_loop.in_thread(asked.answer, completion)  # type: ignore[no-any-return]

    async def _own_answer(self, own: Assistant, sample: Sample) -> AssistantAnswer:
        answer = await own.answer(sample.question.question, self._gate)
        if answer.version and self._version and answer.version != self._version:
            words = (
                "assistant {name} changed its version from {before} to {after} within the run, so the run has stopped; "
                "start it again with fresh=True"
            )
            raise ConfigError(words, name=own.name, before=self._version, after=answer.version)
        self._version = answer.version or self._version
        return answer

    def _ask(self, model: Model, request: ModelRequest) -> Awaitable[Completion]:
        if self._executor is None:
            return model.complete_async(request, self._gate)
        return ask_through(self._executor, model, request, self._gate)

    def _add(self, i: int, result: EvaluationResult) -> None:
        # Earlier attempts at the judgement were paid for too.
        usage = result.evaluation.usage + self._journal.before(i, result.judge_repeat)[1]
        result = replace(result, evaluation=replace(result.evaluation, usage=usage))
        if self._keep(result, i, result.judge_repeat):
            self._uncounted.append(result)
            self.n_left -= 1

    def _keep(self, what: AssistantAnswer | Completion | EvaluationResult, i: int, repeat: int = 0) -> bool:
        """Return whether the journal took it. If not, end the run: further results would be paid for and lost."""
        try:
            self._journal.add(what, i, repeat)
        except ConfigError as error:
            self._gate.stop(error)
            return False
        return True
