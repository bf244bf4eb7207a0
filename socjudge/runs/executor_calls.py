"""Make a run's calls to models through an executor. Each call is sent to a worker as a `RemoteCall`."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import functools
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from typing import Any

from .._version import __version__
from ..base.messages import say
from ..base.redact import redact
from ..base.texts import encodable
from ..errors import BudgetReached, ConfigError, ProviderError, RequestRefused, RunStopped, SocJudgeError
from ..judging.assistant import OUTPUT_TOKENS
from ..judging.citations import format_context
from ..judging.dialogue import replay
from ..judging.judge import judging
from ..models import event_loop
from ..models.opening import Model
from ..models.pacing import MAX_TRIES, RunGate
from ..prompts.templates import assistant_values, fill
from ..records import AssistantAnswer, Completion, EvalQuestion, Evaluation, Flags, ModelRequest, Usage
from ..runbooks.guide import MOST_PASSAGES
from .assignment import Plan
from .remote_calls import Outcome, RemoteCall, get_terms, run_remote_call, stop_remote_calls


class ExecutorCalls:
    """Make a run's calls to models through an executor. The methods must be called in the background event loop."""

    def __init__(self, executor: Executor, plan: Plan, gate: RunGate) -> None:
        self._executor, self._plan, self._gate = executor, plan, gate
        self._id = uuid.uuid4().hex
        self._terms = {model.name: get_terms(model) for model in (plan.judge, plan.assistant) if model is not None}
        self._submitted: set[concurrent.futures.Future[Outcome]] = set()

    async def answer(self, question: EvalQuestion) -> AssistantAnswer:
        """Return the assistant's answer to a question. A worker of the executor requests it."""
        plan = self._plan
        assert plan.assistant is not None and plan.index is not None and plan.assistant_prompt is not None
        most = self._most_usd(plan.assistant, self._longest_request(question.question))
        answer: AssistantAnswer = await self._send(
            plan.assistant, most, prompt=plan.assistant_prompt, question=question,
            index_dir=plan.index.index_dir.absolute(), fingerprint=plan.index.fingerprint, k=plan.k,
        )  # fmt: skip
        return answer

    async def marks(
        self,
        question: EvalQuestion,
        answer: AssistantAnswer,
        earlier: Sequence[Completion],
        on_unfinished: Callable[[Completion], None],
    ) -> Evaluation:
        """Return the judge's scores for an answer.

        A remote call makes a single request. If the reply cannot be parsed, it is kept here and sent along with the
        next remote call.

        - earlier: the judge's replies to this answer that were paid for earlier and could not be parsed.
        - on_unfinished: a function that is called with each new reply after which the judge must be asked again.
        """
        plan, paid = self._plan, list(earlier)
        while True:
            request = None
            if self._gate.budget.max_usd is not None:
                request = replay(judging(question, answer, prompt=plan.judge_prompt, rubric=plan.rubric), paid)
            done: Evaluation | Completion = await self._send(
                plan.judge, self._most_usd(plan.judge, request), prompt=plan.judge_prompt,
                question=question, answer=answer, rubric=plan.rubric, paid=tuple(paid),
            )  # fmt: skip
            if isinstance(done, Evaluation):
                return done
            on_unfinished(done)
            paid.append(done)

    async def recall_on_stop(self) -> None:
        """Wait until the run is to stop, and then withdraw the calls that no worker has begun."""
        with contextlib.suppress(SocJudgeError):
            while True:
                await self._gate.sleep(3600)
        stop_remote_calls(self._id)  # an executor of threads works in this process
        # Dask also cancels futures that are running, and what they paid for is lost. Its workers are told to stop.
        client = getattr(self._executor, "_client", None)
        if client is not None:
            try:
                told = await event_loop.in_thread(client.run, stop_remote_calls, self._id)
            except Exception:  # the cluster is gone, so nothing can be withdrawn
                return
            if told:
                return
        for future in list(self._submitted):
            future.cancel()

    def _most_usd(self, model: Model, request: ModelRequest | None) -> float | None:
        """Return the most that the call for this request can cost, in US dollars.

        Return None if there is no request, or if the model's price is unknown.
        """
        return None if request is None else model.most_usd(self._gate.settings.fit(request))

    def _longest_request(self, question: str) -> ModelRequest | None:
        """Build the longest request that a worker may send for an answer to this question, to know its highest cost.

        Only the worker finds the passages, so the longest passages are assumed here. Return None if the run has no
        cost cap.
        """
        plan = self._plan
        if self._gate.budget.max_usd is None or plan.assistant_prompt is None:
            return None
        values = assistant_values(encodable(question), self._longest_context, Flags())
        message = {"role": "user", "content": fill(plan.assistant_prompt.text, values)}
        return ModelRequest("answer", (message,), {}, max_output_tokens=OUTPUT_TOKENS)

    @functools.cached_property
    def _longest_context(self) -> str:
        passages = self._plan.index.passages if self._plan.index is not None else []
        by_length = sorted(passages, key=lambda passage: len(format_context([passage]).encode()))
        return format_context(by_length[-self._plan.k - MOST_PASSAGES :])

    async def _send(self, model: Model, most: float | None, **material: Any) -> Any:
        """Make a remote call to the model. Return the call's value, or raise its error.

        most: the most that the call can cost, in US dollars, or None if unknown. material: further fields of the
        RemoteCall.
        """
        lost = 0
        while True:
            await self._gate.enter(most)
            cost: float | None = None
            try:
                call = RemoteCall(
                    self._id, uuid.uuid4().hex, model.name, self._terms[model.name], most, self._gate.settings, **material
                )  # fmt: skip
                value, cost = await self._submit(call)
            finally:
                self._gate.leave(most, cost)
            if isinstance(value, BudgetReached):  # the reserved amount is lost; another try needs as much again
                lost += 1
                if lost < MAX_TRIES:
                    continue
                value = ProviderError(say("runs.executor_no_reply", model=model.name, count=lost))
            if isinstance(value, ProviderError):
                value.lost_calls += lost
            if isinstance(value, SocJudgeError):
                raise value
            return replace(value, usage=value.usage + Usage(lost_calls=lost)) if lost else value

    async def _submit(self, call: RemoteCall) -> Outcome:
        """Submit the call to the executor and return its outcome.

        An error inside the call is not raised: it is part of the outcome. Raises RunStopped if the call was withdrawn
        because the run stops, ConfigError if the executor is gone, and RequestRefused if the executor lost only this
        call.
        """
        try:
            future = self._executor.submit(run_remote_call, call)
        except Exception as problem:  # the executor was shut down, or its processes are gone
            raise _gone(problem) from None
        self._submitted.add(future)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError as cancelled:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            if self._gate.reason is not None:
                raise RunStopped(say("runs.stopped")) from None
            raise _gone(cancelled) from None
        except concurrent.futures.BrokenExecutor as problem:
            raise _gone(problem) from None
        except Exception as problem:
            said = redact(f"{type(problem).__name__}: {problem}")[:300]
            failure = RequestRefused(say("runs.executor_failed", said=said, version=__version__), about_content=False)
            failure.lost_calls = 1  # nobody can tell whether the call was made
            raise failure from None
        finally:
            self._submitted.discard(future)


def _gone(problem: BaseException) -> ConfigError:
    said = redact(f"{type(problem).__name__}: {problem}".removesuffix(": "))[:300]
    return ConfigError(say("runs.executor_gone", said=said))
