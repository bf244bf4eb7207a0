"""`options.executor`: calls to models by other machines, each with its own key. A request and a name travel."""

from __future__ import annotations

import asyncio
import functools
import socket
import uuid
from concurrent.futures import BrokenExecutor, Executor
from dataclasses import dataclass, replace

from .._version import __version__
from ..base.redact import redact, surprise_text
from ..errors import BudgetReached, ConfigError, ProviderError, RequestRefused, SocJudgeError, UnexpectedError
from ..models import event_loop
from ..models.gate import CallSettings, RunGate
from ..models.opening import Model, open_model
from ..models.pacing import MAX_TRIES
from ..records import Completion, ModelRequest, Usage

Terms = tuple[str, str, float | None]  # version, address, price: the same on all machines of a run
Outcome = tuple[Completion | SocJudgeError, float]  # the number is the call's cost in US dollars


@dataclass(frozen=True)
class RemoteCall:
    """One request to a model, by name, and the most that it may cost in US dollars (None: no limit)."""

    id: str
    model: str
    terms: Terms
    most_usd: float | None
    settings: CallSettings
    request: ModelRequest

    def __dask_tokenize__(self) -> str:
        return self.id  # Dask makes calls with equal tokens only once, but equal calls are repeats


async def ask_through(executor: Executor, model: Model, request: ModelRequest, gate: RunGate) -> Completion:
    """An `ask` whose call a worker of the executor makes. After a stop, calls that were handed over are finished."""
    lost, fitted = 0, gate.settings.fit(request)
    while True:
        reserve = await gate.enter(most_usd := functools.partial(model.reserve_usd, fitted, gate))
        cost: float | None = None
        try:
            most = None if gate.budget.max_usd is None else reserve.usd
            call = RemoteCall(uuid.uuid4().hex, model.name, _terms_of(model), most, gate.settings, request)
            if not gate.send(reserve, most_usd):
                cost = 0.0
                continue
            reply, cost = await _submit(executor, call)
            if isinstance(reply, Completion):
                gate.models[request.task].add(reply.model)
        finally:
            gate.leave(reserve, cost)
        if isinstance(reply, BudgetReached):  # what was reserved is lost, and another try needs as much again
            lost += 1
            if lost < MAX_TRIES:
                continue
            reply = ProviderError("{model}: no reply to {count} calls", model=model.name, count=lost)
        if isinstance(reply, ProviderError):
            reply.lost_calls += lost
        if isinstance(reply, SocJudgeError):
            raise reply
        return replace(reply, usage=reply.usage + Usage(lost_calls=lost)) if lost else reply


async def _submit(executor: Executor, call: RemoteCall) -> Outcome:
    is_sent = False
    try:
        future = executor.submit(run_remote_call, call)
        is_sent = True
        return await asyncio.wrap_future(future)
    except (Exception, asyncio.CancelledError) as problem:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        said = redact(f"{type(problem).__name__}: {problem}".removesuffix(": "))[:300]
        if not is_sent or isinstance(problem, (BrokenExecutor, asyncio.CancelledError)):
            raise ConfigError(
                "the executor is gone ({said}): was it shut down or restarted, or did its processes die, as of too "
                "little memory? Start the same run again with a new one",
                said=said,
            ) from None
        words = "the executor failed ({said}); does every worker have socjudge {version}?"
        failure = RequestRefused(words, said=said, version=__version__, about_content=False)
        failure.lost_calls = 1  # nobody can tell whether the call was made
        raise failure from None


def run_remote_call(call: RemoteCall) -> Outcome:
    """Make the call on a worker. An error is returned: an executor would print it, or make the call again."""
    gate = RunGate(budget=call.most_usd, settings=call.settings)
    try:
        return event_loop.wait(_open_checked(call.model, call.terms).complete_async(call.request, gate)), gate.spent_usd
    except ConfigError as problem:
        error: SocJudgeError = ConfigError(
            "{error} (on the worker {worker})", error=problem, worker=socket.gethostname()
        )
    except SocJudgeError as problem:
        error = problem.with_traceback(None)
        error.__cause__ = error.__context__ = None  # they would travel too, and the SDK's hold the request with its key
    except Exception as surprise:  # only this process knows the keys that the text may contain
        error = UnexpectedError(surprise_text(surprise))
    return error, gate.spent_usd


def _terms_of(model: Model) -> Terms:
    sample = ModelRequest("judge", ({"role": "user", "content": "x" * 1000},), {})
    return __version__, model.service, model.most_usd(sample)


@functools.lru_cache(maxsize=8)
def _open_checked(name: str, terms: Terms) -> Model:
    model = open_model(name)
    if (here := _terms_of(model)) != terms:
        raise ConfigError(
            "version of socjudge, address and price of {model} are {here} on a worker and {there} where the run was "
            "started; make them the same on every machine (docs/reference.md#many-machines)",
            model=name,
            here=here,
            there=terms,
        )
    return model
