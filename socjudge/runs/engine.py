"""Carry out a run: send each sample to the assistant and the judge, and write each result into the journal.

The engine runs in the background event loop and calls hosted models from there. Embedded models run in threads. If the
run has an executor, its workers make the calls (executor.py).
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import Executor
from dataclasses import replace
from itertools import chain
from typing import Any, TypeVar

from ..answering.assistant import prepare_answer
from ..answering.own_assistant import Assistant
from ..base.messages import say
from ..base.redact import surprise_text
from ..errors import (
    ConfigError,
    NoAnswer,
    ProviderError,
    RequestRefused,
    RunStopped,
    SocJudgeError,
    UnexpectedError,
)
from ..judging.asking import keeping
from ..judging.judge import failed_evaluation, judge_answer
from ..models import event_loop
from ..models.opening import Model
from ..models.pacing import RunGate
from ..records import AssistantAnswer, Completion, Evaluation, EvaluationResult, ModelRequest
from .executor import ask_through
from .journal import Journal
from .plan import Plan, Sample

T = TypeVar("T")
# judgements, with three replies each, after which a judge without any readable reply counts as unusable
MAX_UNREADABLE = 5


class Engine:
    """Carry out a run: request the answers and judgements that its journal does not have.
    A result enters the journal at once. A sample is one answer to judge."""

    def __init__(
        self,
        plan: Plan,
        journal: Journal,
        gate: RunGate,
        *,
        max_failures: int,
        executor: Executor | None = None,
    ) -> None:
        self._n_samples, self._sample_at, self._plan = plan.n_samples, plan.sample_at, plan
        self._journal, self._gate = journal, gate
        self._max_failures, self._executor = max_failures, executor
        self.n_left = plan.total - journal.n_done  # judgements still to come
        self._started = time.monotonic()
        self._worked = False  # until something has worked in this session, an outage counts as a wrong set-up
        # Who has ever answered, also in the journal. A refusal by one who never did counts as a wrong set-up.
        self._has_answered = {"judge": journal.has_judgements, "assistant": journal.has_answers}
        self._failures_in_a_row = self._unanswered_in_a_row = self._n_unreadable = 0
        self._version = journal.assistant_version if self._plan.own is not None else ""
        self._has_readable = journal.has_readable
        # Judgements that the service failed to deliver in this session. A resumed run requests them again.
        self.n_undelivered = 0
        self.last_failure: SocJudgeError | None = None  # of the service or of your own assistant
        self._uncounted: deque[EvaluationResult] = deque()

    @property
    def elapsed_s(self) -> float:
        """Return the seconds since this session began."""
        return time.monotonic() - self._started

    async def run(self, max_concurrency: int) -> None:
        """Make the judgements that the journal does not have yet, for at most `max_concurrency` samples at once.
        If the run ends early, the error that ended it is in `RunGate.reason`."""
        # Samples that failed in an earlier session come last.
        refused = {i for i in range(self._n_samples) if self._journal.has_failed(i)}
        new = (i for i in range(self._n_samples) if i not in refused)
        todo = (i for i in chain(new, sorted(refused)) if self._missing(i))
        # One answer at a time until one has been judged: a judge that cannot be called then costs only one answer.
        if self._plan.assistant is not None:
            while not self._worked and self._gate.reason is None and (first := next(todo, None)) is not None:
                await self._judge_sample(first)
        await self._work_off(todo, max_concurrency)
        if self._unanswered_in_a_row and not self._has_answered["assistant"]:
            self._stop_unanswered()

    def synced_results(self) -> list[EvaluationResult]:
        """Return the results that came since the last call, after making sure that they are on the disk.
        Call this from the thread that waits for the run: in the event loop, the disk would delay the calls."""
        batch = [self._uncounted.popleft() for _ in range(len(self._uncounted))]
        if batch:
            self._journal.sync()
        return batch

    async def _work_off(self, todo: Iterator[int], max_concurrency: int) -> None:
        count = min(max_concurrency, self._n_samples)
        more: list[asyncio.Task[None]] = []

        def add_worker() -> None:
            if len(more) < count - 1:  # none if one sample at a time was asked for; the gate limits the calls in flight
                more.append(asyncio.create_task(self._work(todo)))

        self._gate.on_wait = add_worker  # while a call waits because the service asked for it, another sample is begun
        await asyncio.gather(*(self._work(todo) for _ in range(count)))
        for task in more:
            await task

    async def _work(self, todo: Iterator[int]) -> None:
        for i in todo:
            if self._gate.reason is not None:
                return
            await self._judge_sample(i)

    def _missing(self, i: int) -> list[int]:
        return [repeat for repeat in range(self._plan.judge_repeats) if not self._journal.is_done(i, repeat)]

    async def _judge_sample(self, i: int) -> None:
        sample, repeats = self._sample_at(i), self._missing(i)
        answer = sample.stored or self._journal.answer(i)
        if answer is None:
            answer = await self._or_failed(i, sample, None, repeats, self._answer(sample))
            if answer is None:
                return
            self._has_answered["assistant"] = True
            self._unanswered_in_a_row = 0
            self._keep(self._journal.add_answer, i, answer)
        if answer.is_empty:
            silence = RequestRefused("the assistant gave no answer, so there is nothing to judge")
            self._worked = True
            self._add_failed(i, sample, answer, repeats, silence)
            return
        if len(repeats) == 1:
            await self._judge(i, sample, answer, repeats[0])
        else:
            await asyncio.gather(*(self._judge(i, sample, answer, repeat) for repeat in repeats))

    async def _judge(self, i: int, sample: Sample, answer: AssistantAnswer, repeat: int) -> None:
        judging = self._evaluation(i, sample, answer, repeat)
        evaluation = await self._or_failed(i, sample, answer, [repeat], judging)
        if evaluation is None:
            return
        if evaluation.status == "failed":  # after replies that could not be parsed, which the journal has
            self._fail(i, sample, answer, [repeat], ProviderError(evaluation.error))
            return
        self._add(i, EvaluationResult(sample.question, answer, evaluation, sample.answer_repeat, repeat))
        self._worked = self._has_answered["judge"] = True
        self._failures_in_a_row = 0
        self._has_readable |= evaluation.status == "ok"
        self._n_unreadable += evaluation.status != "ok"
        if not self._has_readable and self._n_unreadable >= MAX_UNREADABLE and self.n_left:
            self._gate.stop(
                ConfigError(
                    "{judge}: none of its first {count} judgements could be read, so the rest is not "
                    "asked for; the last one: {cause}. A reply that can be read has the form "
                    '{{"scores": {{"{criterion}": 0-100, …}}, "rationale": {{…}}, '
                    '"overall_comment": "…"}}. Choose another judge, or give it more room '
                    "(output_tokens); once the judge is fixed, taking up the run asks anew for what "
                    "could not be read",
                    judge=self._plan.judge.name,
                    count=self._n_unreadable,
                    cause=evaluation.error[:300],
                    criterion=self._plan.rubric.criteria[0],
                )
            )

    async def _or_failed(
        self, i: int, sample: Sample, answer: AssistantAnswer | None, repeats: list[int], work: Coroutine[Any, Any, T]
    ) -> T | None:
        """Return the result of `work`, a request for an answer (`answer` is None) or a judgement. None if it failed."""
        try:
            return await work
        except RunStopped:
            pass  # it is not done, so it is left for the next session
        except ConfigError as error:
            if error.of_one and self._has_answered["assistant" if answer is None else "judge"]:
                self._put_aside(i, sample, answer, repeats, error)
            else:
                self._gate.stop(error)
        except SocJudgeError as error:
            self._fail(i, sample, answer, repeats, error)
        except Exception as surprise:  # a bug in one row must not cost the others what they paid for
            self._fail(i, sample, answer, repeats, UnexpectedError(surprise_text(surprise)))
        return None

    def _fail(
        self, i: int, sample: Sample, answer: AssistantAnswer | None, repeats: list[int], error: SocJudgeError
    ) -> None:
        if isinstance(error, NoAnswer):  # of your own assistant; several in a row end the run
            is_old = self._journal.has_failed(i)  # failures of an earlier session come last, one after the other
            self._add_failed(i, sample, answer, repeats, error)
            self._unanswered_in_a_row += not is_old or not self._has_answered["assistant"]
            self.last_failure = error
            if self._unanswered_in_a_row >= self._max_failures and self.n_left:
                self._stop_unanswered()
            return
        if isinstance(error, RequestRefused):
            if error.about_content or self._has_answered["assistant" if answer is None else "judge"]:
                self._add_failed(i, sample, answer, repeats, error)
            else:  # it never replied and did not name the text as its reason, so it may refuse all questions
                self._gate.stop(error)
            return
        if isinstance(error, UnexpectedError):
            self._add_failed(i, sample, answer, repeats, error)
            self._failures_in_a_row += 1
            if self._failures_in_a_row >= self._max_failures and self.n_left:
                self._gate.stop(error)
            return
        # The service failed: there is no row, so that a resumed run requests the sample again.
        self._failures_in_a_row += 1
        self.n_undelivered += len(repeats)
        self.last_failure = error
        if not self._worked or (isinstance(error, ProviderError) and error.unreachable):
            self._gate.stop(error)
        elif self._failures_in_a_row >= self._max_failures and self.n_left:
            said = say(
                "{count} questions in a row failed, so the service is taken to be down; the last one: {cause}",
                count=self._failures_in_a_row,
                cause=error,
            )
            self._gate.stop(ProviderError(said))

    def _put_aside(
        self, i: int, sample: Sample, answer: AssistantAnswer | None, repeats: list[int], error: ConfigError
    ) -> None:
        """Record a refusal that has two possible causes: this one question is blocked, or the key was withdrawn."""
        # The question comes last in the next session. If it is refused again, it keeps its row and does not count.
        is_old = all(self._journal.is_refused(i, repeat) for repeat in repeats)
        self._add_failed(i, sample, answer, repeats, error)
        if is_old:
            return
        self._failures_in_a_row += 1
        self.n_undelivered += len(repeats)
        self.last_failure = error
        if self._failures_in_a_row >= self._max_failures and self.n_left:
            self._gate.stop(error)

    def _stop_unanswered(self) -> None:
        name, count = self._plan.own.name if self._plan.own else "", self._unanswered_in_a_row
        self._gate.stop(
            ProviderError(
                "assistant {name} gave no answer to {count} questions in a row, so the run has stopped ({cause})",
                name=name,
                count=count,
                cause=self.last_failure,
            )
        )

    def _add_failed(
        self, i: int, sample: Sample, answer: AssistantAnswer | None, repeats: list[int], error: SocJudgeError
    ) -> None:
        for repeat in repeats:
            evaluation = failed_evaluation(error, model=self._plan.judge.name, criteria=self._plan.rubric.criteria)
            answered = answer or AssistantAnswer(sample.question.question, "")
            self._add(i, EvaluationResult(sample.question, answered, evaluation, sample.answer_repeat, repeat))

    # -- the two kinds of work

    async def _answer(self, sample: Sample) -> AssistantAnswer:
        plan = self._plan
        if plan.own is not None:
            return await self._own_answer(plan.own, sample)
        assert plan.assistant is not None and plan.index is not None and plan.assistant_prompt is not None
        question = sample.question.question
        # Searching computes for milliseconds, during which the loop must not stand still.
        prepare = functools.partial(prepare_answer, index=plan.index, k=plan.k, prompt=plan.assistant_prompt)
        asked = await event_loop.in_thread(prepare, question)
        completion = await self._ask(plan.assistant, asked.request)
        return await event_loop.in_thread(asked.answer, completion)  # type: ignore[no-any-return]

    async def _own_answer(self, own: Assistant, sample: Sample) -> AssistantAnswer:
        answer = await own.answer(
            sample.question, sample.answer_repeat, self._gate, index=self._plan.index, k=self._plan.k
        )
        if answer.version and self._version and answer.version != self._version:
            before, after, journal = self._version, answer.version, self._journal.path
            raise ConfigError(
                "assistant {name} changed its version from {before} to {after} within the run, which has "
                'stopped; the answers of {before} can be judged as answers="{journal}", with the '
                "questions that have one",
                panel=(
                    "assistant {name} changed its version from {before} to {after} within the run, which "
                    "has stopped; the answers of {before} are kept in {journal}. Tick the box to start "
                    "anew, and run it again"
                ),
                name=own.name,
                before=before,
                after=after,
                journal=journal,
            )
        self._version = answer.version or self._version
        return answer

    async def _evaluation(self, i: int, sample: Sample, answer: AssistantAnswer, repeat: int) -> Evaluation:
        ask = keeping(
            lambda request: self._ask(self._plan.judge, request),
            self._journal.replies(i, repeat),
            lambda reply: self._keep(self._journal.add_reply, i, repeat, reply),
        )
        prompt, rubric = self._plan.judge_prompt, self._plan.rubric
        return await judge_answer(sample.question, answer, prompt=prompt, rubric=rubric, ask=ask)

    def _ask(self, model: Model, request: ModelRequest) -> Awaitable[Completion]:
        if self._executor is None:
            return model.complete_async(request, self._gate)
        return ask_through(self._executor, model, request, self._gate)

    def _add(self, i: int, result: EvaluationResult) -> None:
        # Earlier attempts at the same judgement were paid for too.
        usage = result.evaluation.usage + self._journal.paid_before(i, result.judge_repeat)
        result = self._journal.judged(replace(result, evaluation=replace(result.evaluation, usage=usage)))
        if self._keep(self._journal.add_result, i, result):
            self._uncounted.append(result)
            self.n_left -= 1

    def _keep(self, add: Callable[..., None], *what: Any) -> bool:
        """Return whether the journal took it. If not, end the run: further results would be paid for and lost."""
        try:
            add(*what, self.elapsed_s)
        except ConfigError as error:
            self._gate.stop(error)
            return False
        return True
