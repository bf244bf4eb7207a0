"""How fast calls go out: retries, the account's limit, and what a run allows (calls at once, money, the stop signal).

All of it lives in the background loop, so nothing here needs a lock. `PacedModel` is what models are made of that
want all this."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import math
import random
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import replace
from time import perf_counter

from ..errors import BudgetReached, ProviderError, RunStopped, SocJudgeError
from ..records import Completion, ModelRequest
from . import event_loop

MAX_TRIES = 5
MAX_REFUSALS = 10  # of 429 in a row; the account slows down meanwhile
BACKOFF_S = 0.5  # doubled at each retry, full jitter
MAX_BACKOFF_S = 20.0
MAX_WAIT_S = 60.0  # a Retry-After beyond this is reported instead of slept through
GROWTH = 0.1  # what a call that went through adds to a limit while refusals are recent
CLEAN_S = 5.0  # so long after the last refusal, each call adds one


class Retryable(Exception):
    """A failure that may pass. refused: the service said "too many" (429); retry_after_s: what it asked for;
    may_be_billed: the request may have been processed although no reply came."""

    def __init__(
        self, cause: str, *, refused: bool = False, retry_after_s: float | None = None, may_be_billed: bool = False
    ) -> None:
        super().__init__(cause)
        self.refused, self.retry_after_s, self.may_be_billed = refused, retry_after_s, may_be_billed


class Account:
    """How many calls at once a service takes from us, learned from its refusals by all models and runs that share it.

    There is no limit until the first refusal. Each refusal lowers it by one, so that a wave of them cuts it to what
    the service let through; each success raises it, by one when refusals are long past."""

    def __init__(self) -> None:
        self.limit = math.inf
        self.in_flight = 0
        self._paused_until = 0.0
        self._refused_at = -math.inf
        self._queue: deque[asyncio.Future[None]] = deque()

    async def enter(self, run: RunGate) -> None:
        """Wait until another call may go out."""
        try:
            while True:
                while (pause := self._paused_until - time.monotonic()) > 0:
                    await run.sleep(pause)
                if self.in_flight < self.limit:
                    self.in_flight += 1
                    return
                turn = asyncio.get_running_loop().create_future()
                self._queue.append(turn)
                await turn
                run.check()
        except BaseException:
            self._wake()  # the turn may have been given already; then it is another's
            raise

    def leave(self) -> None:
        """A call is over."""
        self.in_flight -= 1
        self._wake()

    def succeeded(self) -> None:
        """A call went through: room for more."""
        if self.limit < math.inf:
            clean = time.monotonic() - self._refused_at > CLEAN_S
            self.limit += 1 if clean else GROWTH

    def refused(self, retry_after_s: float | None) -> None:
        """The service said "too many": fewer at once, and none before it wants them."""
        self.limit = max(1.0, min(self.limit, self.in_flight) - 1)
        self._refused_at = time.monotonic()
        self.pause(retry_after_s)

    def pause(self, seconds: float | None) -> None:
        """Nothing goes out for so long."""
        self._paused_until = max(self._paused_until, time.monotonic() + min(seconds or 0.0, MAX_WAIT_S))

    def _wake(self) -> None:
        free = self.limit - self.in_flight
        while self._queue and free > 0:
            turn = self._queue.popleft()
            if not turn.done():
                turn.set_result(None)
                free -= 1


@functools.lru_cache(maxsize=256)
def get_account(base_url: str, api_key: str) -> Account:
    """The account behind a key, shared by all its models."""
    return Account()


class RunGate:
    """What each call of a run has to pass: the stop signal, the ceiling on calls in flight, the budget.

    max_cost_usd is held by setting aside the most that a call can cost before it goes out. spent_usd: what the run
    has cost so far, calls included that may have been billed without a reply. signal: once it is set, in whatever thread,
    no further call goes out."""

    def __init__(
        self,
        *,
        max_concurrency: int | None = None,
        max_cost_usd: float | None = None,
        spent_usd: float = 0.0,
        signal: threading.Event | None = None,
    ) -> None:
        self.max_cost_usd = max_cost_usd
        self.spent_usd = spent_usd
        self.in_flight = 0
        self.reason: SocJudgeError | None = None
        self._signal = signal
        self._reserved_usd = 0.0
        self._places = None if max_concurrency is None else asyncio.Semaphore(max_concurrency)
        self._stopping, self._settled = asyncio.Event(), asyncio.Event()

    def stop(self, reason: SocJudgeError | None = None) -> None:
        """Let no further call out; those in flight go on. The first reason counts."""
        self.reason = self.reason or reason or RunStopped("the run was stopped")
        self._stopping.set()
        self._settled.set()

    def check(self) -> None:
        """Raise the reason if the run is to stop."""
        if self.reason is None and self._signal is not None and self._signal.is_set():
            self.stop()
        if self.reason is not None:
            raise self.reason

    async def sleep(self, seconds: float) -> None:
        """Sleep, unless the run is to stop."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)
        self.check()

    async def enter(self, most_usd: float | None) -> None:
        """Wait for a place and for the money. most_usd: the most that the call can cost, None if unknown."""
        self.check()
        if self._places is not None:
            await self._places.acquire()
        try:
            await self._set_aside(most_usd)
        except BaseException:
            self._free()
            raise
        self.in_flight += 1

    def leave(self, most_usd: float | None, cost_usd: float | None) -> None:
        """A call is over. cost_usd: what it cost, None if the service did not say."""
        self.in_flight -= 1
        self._reserved_usd -= most_usd or 0.0
        self.spent_usd += (most_usd or 0.0) if cost_usd is None else cost_usd
        self._settled.set()
        self._free()

    def _free(self) -> None:
        if self._places is not None:
            self._places.release()

    async def _set_aside(self, most_usd: float | None) -> None:
        while True:
            self.check()
            if self.max_cost_usd is None:
                break
            if self.spent_usd + self._reserved_usd + (most_usd or 0.0) <= self.max_cost_usd:
                break
            if self.in_flight == 0:
                self.stop(
                    BudgetReached(
                        f"the budget of ${self.max_cost_usd:g} leaves no room for another call: ${self.spent_usd:.4f} "
                        f"are spent and the next call could cost up to ${most_usd or 0.0:.4f}"
                    )
                )
                continue
            self._settled.clear()
            await self._settled.wait()
        self._reserved_usd += most_usd or 0.0


async def send_with_retries(
    send: Callable[[], Awaitable[Completion]],
    *,
    what: str,
    account: Account,
    run: RunGate | None = None,
    most_usd: Callable[[], float | None] = lambda: None,
) -> Completion:
    """The completion, with the causes of its retries; ProviderError when the tries are used up.

    what: names the service in errors. most_usd: tells the most that one try can cost."""
    run = run or RunGate()
    most = most_usd() if run.max_cost_usd is not None else None
    causes: list[str] = []
    lost = refusals = 0
    while True:
        completion, failure = await _try(send, account, run, most)
        if completion is not None:
            account.succeeded()
            usage = replace(completion.usage, lost_calls=lost)
            return replace(completion, retries=tuple(causes), usage=usage)
        assert failure is not None
        causes.append(str(failure))
        lost += failure.may_be_billed
        refusals += failure.refused
        wait_s = failure.retry_after_s
        if wait_s is not None and wait_s > MAX_WAIT_S:
            raise _given_up(f"{what}: {failure}; it asks to wait {wait_s:.0f} s, try again then", lost)
        if len(causes) - refusals == MAX_TRIES or refusals == MAX_REFUSALS:
            raise _given_up(f"{what}: failed {len(causes)} times, last with: {failure}", lost)
        if wait_s is None:
            wait_s = random.uniform(0, min(BACKOFF_S * 2 ** len(causes), MAX_BACKOFF_S))
        await run.sleep(wait_s)


async def _try(
    send: Callable[[], Awaitable[Completion]], account: Account, run: RunGate, most_usd: float | None
) -> tuple[Completion | None, Retryable | None]:
    """One try: the completion, or the failure that may pass."""
    await run.enter(most_usd)
    cost: float | None = 0.0  # an error that is not retried was refused, not processed
    try:
        await account.enter(run)
        try:
            run.check()
            sent = perf_counter()
            completion = replace(await send(), seconds=perf_counter() - sent)
            cost = completion.usage.cost_usd or None  # "nothing" is only believed of a call that can cost nothing
            return completion, None
        except Retryable as failure:
            cost = None if failure.may_be_billed else 0.0
            if failure.refused:
                account.refused(failure.retry_after_s)
            elif failure.retry_after_s is not None:
                account.pause(failure.retry_after_s)
            return None, failure
        except asyncio.CancelledError:
            cost = None
            raise
        finally:
            account.leave()
    finally:
        run.leave(most_usd, cost)


def _given_up(message: str, lost_calls: int) -> ProviderError:
    error = ProviderError(message)
    error.lost_calls, error.gave_up = lost_calls, True
    return error


class PacedModel:
    """What a model has to do besides sending one request: `name`, `_send` and `most_usd` are its own."""

    name: str
    where: str  # names the service in errors

    def __init__(self, name: str, where: str, account: Account) -> None:
        self.name, self.where = name, where
        self._account = account

    def complete(self, request: ModelRequest) -> Completion:
        """The reply; see `opening.Model.complete`."""
        return event_loop.wait(self.complete_async(request))

    async def complete_async(self, request: ModelRequest, run: RunGate | None = None) -> Completion:
        """The reply, as part of a run; for the background loop."""
        run = run or RunGate()
        return await send_with_retries(
            lambda: self._send(request, run), what=self.where, account=self._account, run=run,
            most_usd=lambda: self.most_usd(request),
        )  # fmt: skip

    def most_usd(self, request: ModelRequest) -> float | None:
        """The most that one call can cost, US dollars; None where that is unknown."""
        raise NotImplementedError

    async def _send(self, request: ModelRequest, run: RunGate) -> Completion:
        """The reply to one try. Raises Retryable where another one may help."""
        raise NotImplementedError
