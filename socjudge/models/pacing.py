"""Control how fast calls are sent: by retries, the account's limit, and the run's concurrency, budget and stop signal.

All of this runs in the background event loop, so nothing here needs a lock. A model with these limits extends
`PacedModel`.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import math
import os
import random
import sys
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from time import perf_counter
from typing import Any

from ..base.messages import say
from ..base.redact import redact as redact_keys
from ..base.redact import without_secrets
from ..base.service_errors import Told
from ..errors import BudgetReached, ConfigError, NoAnswer, ProviderError, RunStopped, SocJudgeError
from ..records import REASONING, REJECTED, Completion, ModelRequest, Rubric, Usage
from . import event_loop
from .belonging import SeenReplies
from .budget import Budget
from .pace import FIRST_CALLS, Pace, Sent
from .prices import dearest_usd, most_usd_of

MAX_TRIES = 5
MAX_REFUSALS = 10  # 429s of one call before giving up; the account slows down meanwhile
BACKOFF_S = 0.5  # seconds, doubled at each retry, with full jitter
MAX_BACKOFF_S = 20.0
MAX_WAIT_S = 60.0  # seconds; a longer Retry-After is reported, not waited for
TIMEOUT_S = 120.0  # seconds; a reasoning model may think for a minute
# seconds that a service that worked before may be unavailable, for example while it restarts and loads its model
PATIENCE_S = 60.0
MAX_BRIDGE_S = 5.0  # seconds, the longest backoff while a service is unavailable
OUTPUT_TOKENS = 4000  # tokens that requests ask for unless told otherwise
LOOK_S = 0.1  # seconds between two looks whether the run must stop, while the next call waits
# What services say of a reply that they did not finish: OpenRouter, vLLM, SGLang, DeepSeek, Zhipu.
BROKEN = {"error", "abort", "aborted", "cancelled", "canceled", "insufficient_system_resource", "network_error"}


@dataclass(eq=False, repr=False)
class Retryable(Exception):
    """Signal a failure that may be temporary, so that the call is tried again."""

    cause: str  # what failed, for the user
    _: KW_ONLY
    refused: bool = False  # the service answered "too many requests" (429)
    retry_after_s: float | None = None  # the wait that the service asked for
    may_be_billed: bool = False  # the request may have been processed although no reply came
    timed_out: bool = False
    down: bool = False  # the service is unavailable
    unreachable: bool = False  # no connection could be made

    def __post_init__(self) -> None:
        super().__init__(self.cause)
        self.down |= self.unreachable


@dataclass(frozen=True)
class CallSettings:
    """Hold the limits of calls."""

    output_tokens: int  # the most in a reply, hidden reasoning included
    timeout_s: float  # the longest wait for a reply
    patience_s: float  # how long a service that worked before may be unavailable

    def fit(self, request: ModelRequest) -> ModelRequest:
        """Return the request with its output limit scaled: twice OUTPUT_TOKENS becomes twice `output_tokens`."""
        if self.output_tokens == OUTPUT_TOKENS:
            return request
        room = round(request.max_output_tokens * self.output_tokens / OUTPUT_TOKENS)
        return replace(request, max_output_tokens=room)


def get_settings(
    output_tokens: int | None = None, timeout_s: float | None = None, patience_s: float | None = None
) -> CallSettings:
    """Return the settings for calls. If one is not given, SOCJUDGE_OUTPUT_TOKENS, SOCJUDGE_TIMEOUT_S or
    SOCJUDGE_PATIENCE_S is taken, or else the default. ConfigError for an invalid number."""
    return CallSettings(
        int(_setting("output_tokens", output_tokens, OUTPUT_TOKENS, 1)),
        _setting("timeout_s", timeout_s, TIMEOUT_S, 0.1),
        _setting("patience_s", patience_s, PATIENCE_S, 0.0),
    )


def _setting(name: str, given: float | None, usual: float, least: float) -> float:
    where = name if given is not None else f"SOCJUDGE_{name.upper()}"
    value: Any = os.environ.get(where) or usual if given is None else given
    try:
        if least <= float(value) < math.inf:
            return float(value)
    except (TypeError, ValueError):
        pass
    raise ConfigError(
        "{name} is {found!r}, expected a number of {least:g} or more", name=where, found=value, least=least
    )


class Account:
    """Hold calls back to the pace that a service takes. All models and runs in this process that use the same key at
    the same address share one account."""

    def __init__(self, first_calls: int = FIRST_CALLS) -> None:
        self.pace = Pace(first_calls)
        self.seen = SeenReplies()
        self._door = asyncio.Lock()  # the calls of all runs pass it one by one, in their order
        self._changed = asyncio.Event()
        self.is_refusing = False  # whether the service refused the last call, so that calls wait

    async def enter(self, run: RunGate) -> Sent:
        """Wait until the service takes a call of this run. If the run must stop while the call waits, its reason for
        stopping is raised."""
        async with self._door:
            run.check()
            while self.pace.in_flight >= (places := self.pace.places):
                run.limit = places
                self._changed.clear()
                await self._changed.wait()
                run.check()
            while (pause := self.pace.next_at - _now()) > 0:
                await asyncio.sleep(min(pause, LOOK_S))
                run.check()
            run.limit = places
            return self.pace.send(_now())

    def end(self, sent: Sent, found: Completion | Retryable | None, timeout_s: float) -> None:
        """Record that a call has ended, and learn from it. None: its end tells nothing of the service's pace."""
        self.pace.leave()
        if isinstance(found, Completion):
            self.is_refusing = False
            self.pace.succeeded(sent, _now(), timeout_s)
        elif found is not None and (found.refused or found.retry_after_s is not None):
            self.is_refusing = True
            self.pace.refused(sent, _now(), found.retry_after_s)
        elif found is not None and found.timed_out:
            self.pace.timed_out(sent, _now())
        self._changed.set()


def _now() -> float:
    return asyncio.get_running_loop().time()


def get_account(base_url: str, api_key: str) -> Account:
    """Return the `Account` that all models in this process share if they use this key at this address."""
    return _account_of(base_url, api_key, os.getpid())


@functools.lru_cache(maxsize=256)
def _account_of(base_url: str, api_key: str, pid: int) -> Account:
    return Account()


@dataclass(eq=False)
class Reserve:
    """What a run keeps back for one call, in US dollars."""

    usd: float
    sent_usd: float = 0.0  # what the journal says of it


class RunGate:
    """Make a run's calls wait until its limit on concurrent calls and its budget allow them, or stop them for good.
    Once `signal` is set, in any thread, no further call is sent."""

    def __init__(
        self,
        *,
        max_concurrency: int | None = None,
        budget: Budget | float | None = None,
        run_id: str = "",
        signal: threading.Event | None = None,
        settings: CallSettings | None = None,
        models: Mapping[str, set[str]] | None = None,
        answer_usd: float | None = None,
        note: Callable[[], None] = lambda: None,
    ) -> None:
        self.settings = settings or get_settings()
        # The models that have answered, {task: names}, and the most that an answer of your own assistant has cost: the
        # next calls may cost as much, whatever was asked for.
        self.models = {"judge": set[str](), "answer": set[str](), **(models or {})}
        self.answer_usd = answer_usd
        self._note = note  # called under a cap when a call that may cost something is sent
        self.sent_usd = 0.0  # under a cap, the most that the calls that were sent and have not ended can cost
        # For display. in_trouble: calls that are being retried.
        self.retries = self.in_trouble = 0
        self.cause = ""  # of the last retry
        self.limit = math.inf  # of the account that was called last
        self.on_wait: Callable[[], None] = lambda: None  # called before a call waits because the service asked for it
        self.budget, self._run_id = budget if isinstance(budget, Budget) else Budget(budget), run_id
        self.in_flight = 0
        self.reason: SocJudgeError | None = None
        self._signal = signal
        self._reserved_usd = 0.0  # the most that the calls in flight can cost
        self._places = asyncio.Semaphore(sys.maxsize if max_concurrency is None else max_concurrency)
        self._stopping, self._settled = asyncio.Event(), asyncio.Event()

    @property
    def spent_usd(self) -> float:
        """Return what the run has cost so far, in US dollars."""
        return self.budget.spent_by(self._run_id)

    def stop(self, reason: SocJudgeError | None = None) -> None:
        """Let no further call be sent, but raise `reason`, or a RunStopped if left out. Calls in flight finish.
        If this is called again, the first reason is kept."""
        self.reason = self.reason or reason or RunStopped("the run was stopped")
        self._stopping.set()
        self._settled.set()

    def check(self) -> None:
        """Raise the reason for stopping, if the run is to stop."""
        if self.reason is None and self._signal is not None and self._signal.is_set():
            self.stop()
        if self.reason is not None:
            raise self.reason

    async def sleep(self, seconds: float) -> None:
        """Sleep this number of seconds. If the run is to stop, wake at once and raise the reason."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)
        self.check()

    async def enter(self, most_usd: Callable[[], float | None]) -> Reserve:
        """Wait until the run's limits allow a call. most_usd: the most that the call can cost now, or None if unknown."""
        self.check()
        await self._places.acquire()
        try:
            reserve = await self._set_aside(most_usd)
        except BaseException:
            self._places.release()
            raise
        self.in_flight += 1
        return reserve

    def is_enough(self, reserve: Reserve, most_usd: Callable[[], float | None]) -> bool:
        """Return whether a call may be sent, although a dearer model may have answered since its cost was reserved."""
        return self.budget.max_usd is None or (most_usd() or 0.0) <= reserve.usd

    def send(self, reserve: Reserve) -> None:
        """Record under a cap that a call is sent, so that a run that is killed now counts it when it is resumed."""
        if self.budget.max_usd is not None and reserve.usd:
            reserve.sent_usd = reserve.usd
            self.sent_usd += reserve.usd
            self._note()

    def leave(self, reserve: Reserve, cost_usd: float | None) -> None:
        """Record that a call has ended. If its cost is unknown, it may have been billed, and counts as the most."""
        self.in_flight -= 1
        self._reserved_usd -= reserve.usd
        self.sent_usd -= reserve.sent_usd
        if not self.in_flight:
            self._reserved_usd = self.sent_usd = 0.0  # without what rounding has left
        self.budget.add(self._run_id, reserve.usd if cost_usd is None else cost_usd)
        self._settled.set()
        self._places.release()

    async def _set_aside(self, most_usd: Callable[[], float | None]) -> Reserve:
        while True:
            self.check()
            limit, spent, most = self.budget.max_usd, self.budget.spent_usd, most_usd()
            # Under a cap, a call of unknown cost goes alone: its reply tells what the next ones may cost.
            is_told = most is not None or self.in_flight == 0
            if limit is None or (is_told and spent + self._reserved_usd + (most or 0.0) <= limit):
                self._reserved_usd += most or 0.0
                return Reserve(most or 0.0)
            if self.in_flight == 0:
                self.stop(
                    BudgetReached(
                        "the budget of ${limit:g} leaves no room for another call: ${spent:.4f} are spent and the "
                        "next call could cost up to ${next_usd:.4f}",
                        limit=limit,
                        spent=spent,
                        next_usd=most or 0.0,
                    )
                )
                continue
            self._settled.clear()
            await self._settled.wait()


async def send_with_retries(
    send: Callable[[], Awaitable[Completion]],
    *,
    what: str,  # the service's name in errors
    account: Account,
    run: RunGate | None = None,
    most_usd: Callable[[], float | None] = lambda: 0.0,  # of one try, by what the run has seen so far
    # what an answered try counts in the budget
    counted_usd: Callable[[Completion], float | None] = lambda completion: completion.usage.cost_usd,
    timeout_s: float | None = None,  # if it differs from the run's
) -> Completion:
    """Call `send` until it returns a completion. Return the completion with the causes of the retries.
    ProviderError if the last try fails too, or if the service asks for a wait that is too long."""
    run = run or RunGate()
    causes: list[str] = []
    lost = refusals = backoffs = 0
    failing_since = 0.0
    try:
        while True:
            found = await _try(send, account, run, most_usd, counted_usd, timeout_s or run.settings.timeout_s)
            if found is None:
                continue
            if isinstance(found, Completion):
                usage = replace(found.usage, lost_calls=lost)
                return replace(found, retries=tuple(causes), usage=usage) if causes else found
            failure, now = found, _now()
            if not causes:
                run.in_trouble += 1
                failing_since = now
            causes.append(str(failure))
            run.retries, run.cause = run.retries + 1, str(failure)
            lost += failure.may_be_billed
            refusals += failure.refused
            wait_s = failure.retry_after_s
            if wait_s is not None and wait_s > MAX_WAIT_S:
                raise _given_up(
                    say(
                        "{what}: {failure}; it asks to wait {seconds:.0f} s, try again then",
                        what=what,
                        failure=failure,
                        seconds=wait_s,
                    ),
                    lost,
                )
            bridging = failure.down and account.pace.worked and now - failing_since < run.settings.patience_s
            if not bridging and (len(causes) - refusals >= MAX_TRIES or refusals >= MAX_REFUSALS):
                last = say("last with: {cause}", cause=failure)
                error = _given_up(
                    say("{what}: failed {count} times, {last}", what=what, count=len(causes), last=last), lost
                )
                error.unreachable = failure.unreachable
                raise error
            if not wait_s:  # also for 0, because ten calls without a pause help nobody
                longest = MAX_BRIDGE_S if failure.down else MAX_BACKOFF_S
                backoffs += 1  # a wait that the service asked for does not mean that the service is broken
                # While the service accepts other calls, this one may soon be tried again.
                doubled = min(backoffs, account.pace.in_a_row if failure.refused else 20)
                wait_s = random.uniform(0, min(BACKOFF_S * 2**doubled, longest))
            else:
                run.on_wait()
            await run.sleep(wait_s)
    finally:
        run.in_trouble -= bool(causes)


async def _try(
    send: Callable[[], Awaitable[Completion]],
    account: Account,
    run: RunGate,
    most_usd: Callable[[], float | None],
    counted_usd: Callable[[Completion], float | None],
    timeout_s: float,
) -> Completion | Retryable | None:
    """Call `send` once, when the run and the account allow it. In any case, add the cost to the budget.
    None: nothing was sent, because a dearer model has answered meanwhile, and more must be reserved."""
    reserve = await run.enter(most_usd)
    cost: float | None = 0.0  # for an error that is not retried: the request was refused, not processed
    found: Completion | Retryable | None = None
    try:
        sent = await account.enter(run)
        try:
            run.check()
            if not run.is_enough(reserve, most_usd):
                return None
            run.send(reserve)
            started = perf_counter()
            found = replace(await send(), seconds=perf_counter() - started)
            cost = counted_usd(found)
        except Retryable as failure:
            found, cost = failure, None if failure.may_be_billed else 0.0
        except ProviderError as error:  # from a model that retries by itself
            # An assistant of your own that gave no answer may have worked for it.
            cost = None if isinstance(error, NoAnswer) else error.lost_calls * reserve.usd
            raise
        except asyncio.CancelledError:
            cost = None
            raise
        finally:
            account.end(sent, found, timeout_s)
    finally:
        run.leave(reserve, most_usd() if cost is None else cost)
    return found


def _given_up(message: str, lost_calls: int) -> ProviderError:
    error = ProviderError(message)
    error.lost_calls, error.gave_up = lost_calls, True
    return error


class PacedModel:
    """Call a model with retries, at a pace that its service accepts, and remove keys from its texts.
    Each kind of model extends this class, and provides `_send` (one try) and `most_usd`."""

    name: str
    where: str  # the service's name in errors
    service: str = ""  # the host, for the log
    address: str = ""  # that is called, for the price; "" if nobody can tell
    settings: str = "default"  # what tells models of one name apart
    is_lexical: bool = False  # whether it only compares words
    _timeout_s: float | None = None  # the longest wait for a reply, if it is not the run's

    def __init__(self, name: str, where: str, account: Account, keys: Iterable[str] = ()) -> None:
        self.name, self.where = name, where
        self._account = account
        self._keys = tuple(keys)

    @property
    def is_refused(self) -> bool:
        """Return whether the service refused the last call ("too many requests"), so that calls wait."""
        return self._account.is_refusing

    def complete(self, request: ModelRequest) -> Completion:
        """Return the reply to a request (see `opening.Model.complete`)."""
        return event_loop.wait(self.complete_async(request))

    async def complete_async(self, request: ModelRequest, run: RunGate | None = None) -> Completion:
        """Return the reply to a request of a run. Call this in the background event loop.
        If `run` is None, no limit of a run applies: no budget, no stop signal, no limit on concurrent calls."""
        run = run or RunGate()
        request = run.settings.fit(request)

        def counted_usd(completion: Completion) -> float | None:
            run.models[request.task].add(completion.model)
            # A cost of 0 is only believed for a call that can cost nothing.
            return dearest_usd(completion.usage, self.name, completion.model) or None

        return await send_with_retries(
            lambda: self._send(request, run), what=self.where, account=self._account, run=run,
            most_usd=lambda: self.reserve_usd(request, run), counted_usd=counted_usd, timeout_s=self._timeout_s,
        )  # fmt: skip

    def reserve_usd(self, request: ModelRequest, run: RunGate) -> float | None:
        """Return the most that one call can cost if it is answered, and billed, as the model that was asked for or as
        any model that has answered in this run."""
        billed = self.as_billed(request)
        prices = [self.most_usd(request), *(most_usd_of(name, billed) for name in run.models[request.task])]
        return max((usd for usd in prices if usd is not None), default=None)

    async def check_name(self) -> None:
        """Raise ConfigError if the service reports that it does not have this model. The check costs nothing."""

    def check_rubric(self, rubric: Rubric) -> None:
        """Raise ConfigError if this model cannot judge by this rubric."""

    def as_billed(self, request: ModelRequest) -> ModelRequest:
        """Return the request with the texts and the output limit that are really sent."""
        return request

    def most_usd(self, request: ModelRequest) -> float | None:
        """Return the most that one call can cost in US dollars. Return None if unknown."""
        raise NotImplementedError

    async def _send(self, request: ModelRequest, run: RunGate) -> Completion:
        """Send the request once and return the reply. Raises Retryable if another try may help."""
        raise NotImplementedError

    def check_reply(self, completion: Completion, reply_id: object, request: ModelRequest) -> None:
        """Raise Retryable if a reply is no whole reply to this request. A judge's JSON shows by itself if it is whole."""
        reason = completion.finish_reason
        if reason in BROKEN:
            cause = say("the service broke the reply off (finish_reason: {reason})", reason=reason)
        elif request.task == "answer" and reason == REASONING:
            cause = say(
                "the reply is empty: the server takes all of it for hidden reasoning (docs/reference.md#servers)"
            )
        elif self._account.seen.is_of_another(reply_id, self.name, request, completion.text):
            cause = say(
                "the reply {id} has answered another request before; does a cache or a proxy mix up the replies?",
                id=str(reply_id)[:60],
            )
        else:
            return
        raise Retryable(cause, may_be_billed=True)

    def rejected(self, told: Told, request: ModelRequest) -> Completion:
        """Return a judge's reply that the service rejected, to be treated like any that cannot be parsed."""
        if request.task == "answer":
            raise Retryable(self.redact(told.words)[:300], may_be_billed=True)
        causes = (self.redact(told.words)[:300],)
        return Completion(self.without_keys(told.output), self.name, Usage(1, 0, 0, None), REJECTED, causes)

    def redact(self, text: str) -> str:
        """Return the text on one line, without this model's keys and without all other known keys."""
        return " ".join(redact_keys(self.without_keys(text)).split())

    def without_keys(self, text: str) -> str:
        """Return a model's text without the keys that were sent to the service. Everything else in the text stays."""
        return without_secrets(text, self._keys)
