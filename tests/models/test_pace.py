"""How many calls a service gets at once, and how often, by its replies: in virtual time, with the real code."""

from __future__ import annotations

import asyncio
import math
import random
import selectors
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest

from socjudge.errors import ProviderError, RunStopped
from socjudge.models.gate import RunGate
from socjudge.models.pace import Pace, Sent
from socjudge.models.pacing import Account, Retryable, send_with_retries
from socjudge.records import Completion, Usage

T = TypeVar("T")


class _Loop(asyncio.SelectorEventLoop):
    """Its clock jumps to the next timer: minutes of waiting pass in a moment, and always the same way."""

    def __init__(self) -> None:
        self.now = 0.0
        loop = self

        class Jump(selectors.DefaultSelector):  # type: ignore[misc, valid-type]
            def select(self, timeout: float | None = None) -> list[Any]:
                loop.now += max(timeout, 1e-6) if timeout else 0.0
                return []

        super().__init__(Jump())

    def time(self) -> float:
        return self.now


def run_virtually(work: Coroutine[Any, Any, T]) -> tuple[T, float]:
    """The result of `work`, and how many virtual seconds it took."""
    with asyncio.Runner(loop_factory=_Loop) as runner:
        found = runner.run(work)
        return found, runner.get_loop().time()


CALL_S, AT_ONCE = 0.2, 64
REPLY = Completion("", "m", Usage(1, 0, 0, 0.0))


@dataclass
class Limiter:
    """A service that takes 200 ms for a call, or refuses it. `refuses`: the wait that it asks for, by the time."""

    refuses: Callable[[float], Retryable | None]
    sent_at: list[float] = field(default_factory=list)
    refused: int = 0
    in_flight: int = 0
    opens_at: float = 0.0  # when the first connection is made; calls that are sent before arrive then

    async def send(self) -> Completion:
        loop = asyncio.get_running_loop()
        if loop.time() < self.opens_at:
            await asyncio.sleep(self.opens_at - loop.time())
        now = loop.time()
        self.sent_at.append(now)
        if failure := self.refuses(now):
            self.refused += failure.refused
            await asyncio.sleep(0.002)
            raise failure
        self.in_flight += 1
        await asyncio.sleep(CALL_S)
        self.in_flight -= 1
        return REPLY


async def work_off(service: Limiter, count: int, account: Account | None = None) -> None:
    """Make so many calls as a run does: 64 at once, and others while some wait as they were told."""
    account, run = account or Account(), RunGate(max_concurrency=AT_ONCE)
    todo, more = iter(range(count)), list[asyncio.Task[None]]()

    async def work() -> None:
        for _ in todo:
            await send_with_retries(service.send, what="m", account=account, gate=run)

    def add_worker() -> None:
        if len(more) < AT_ONCE - 1:
            more.append(asyncio.create_task(work()))

    run.on_wait = add_worker
    await asyncio.gather(*(work() for _ in range(AT_ONCE)))
    await asyncio.gather(*more)


def refused(wait_s: float | None) -> Retryable:
    return Retryable("429", refused=True, retry_after_s=wait_s)


def bucket(rate: float, burst: float, told: str) -> Callable[[float], Retryable | None]:
    tokens, at = burst, 0.0

    def refuses(now: float) -> Retryable | None:
        nonlocal tokens, at
        tokens, at = min(burst, tokens + rate * (now - at)), now
        if tokens < 1:
            left_s = (1 - tokens) / rate
            return refused({"seconds": math.ceil(left_s), "ms": max(left_s, 0.001), "absent": None}[told])
        tokens -= 1
        return None

    return refuses


@pytest.fixture(autouse=True)
def _real_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socjudge.models.pacing.BACKOFF_S", 0.5)
    random.seed(3)


@pytest.mark.parametrize("told", ["seconds", "ms", "absent"])
@pytest.mark.parametrize(("rate", "burst"), [(20, 5), (20, 20), (50, 5), (50, 20), (100, 5), (100, 20)])
def test_a_limiter_is_used_at_its_own_rate(rate: int, burst: int, told: str) -> None:
    service = Limiter(bucket(rate, burst, told))
    _, span_s = run_virtually(work_off(service, rate * 8 + burst))
    assert span_s <= 1.25 * (8 + CALL_S)
    assert service.refused <= 0.2 * len(service.sent_at)


@pytest.mark.parametrize("told_s", [None, 5.0, 60.0])
@pytest.mark.parametrize("accepted", [0, 100])
@pytest.mark.parametrize("has_assistant", [False, True])
def test_a_service_that_refuses_all_for_minutes_ends_the_run(
    has_assistant: bool, accepted: int, told_s: float | None
) -> None:
    judge = Limiter(lambda now: None if len(judge.sent_at) <= accepted else refused(told_s))
    assistant = Limiter(lambda now: None)
    run = RunGate(max_concurrency=8)

    async def answer_and_judge(todo: Iterator[int], ours: Account, theirs: Account) -> None:
        for _ in todo:
            try:
                if has_assistant:
                    await send_with_retries(assistant.send, what="a", account=theirs, gate=run)
                await send_with_retries(judge.send, what="j", account=ours, gate=run)
            except ProviderError as error:
                if error.is_closed:
                    run.stop(error)

    async def main() -> None:
        todo, ours, theirs = iter(range(accepted + 100)), Account(), Account()
        await asyncio.gather(*(answer_and_judge(todo, ours, theirs) for _ in range(8)), return_exceptions=True)

    _, span_s = run_virtually(main())
    assert "j: refused every call for" in str(run.reason)
    assert span_s < 300


def test_while_a_call_takes_minutes_refusals_do_not_say_that_the_service_is_closed() -> None:
    is_busy = False

    async def one_at_a_time() -> Completion:
        nonlocal is_busy
        if is_busy:
            raise refused(None)
        is_busy = True
        await asyncio.sleep(300)
        is_busy = False
        return REPLY

    async def main() -> list[Completion | BaseException]:
        account, run = Account(), RunGate(max_concurrency=8)
        calls = (send_with_retries(one_at_a_time, what="m", account=account, gate=run) for _ in range(12))
        return await asyncio.gather(*calls, return_exceptions=True)

    found, _ = run_virtually(main())
    assert not any("every call" in str(each) for each in found if isinstance(each, ProviderError))


def test_a_call_that_alone_is_refused_for_minutes_does_not_say_that_the_service_is_closed() -> None:
    async def main() -> ProviderError:
        account, run, large = Account(), RunGate(max_concurrency=1), Limiter(lambda now: refused(60.0))
        with pytest.raises(ProviderError) as given_up:
            await send_with_retries(large.send, what="m", account=account, gate=run)
        await send_with_retries(Limiter(lambda now: None).send, what="m", account=account, gate=run)
        return given_up.value

    error, span_s = run_virtually(main())
    assert not error.is_closed
    assert span_s < 300


@pytest.mark.parametrize("told", ["seconds", "ms", "absent"])
@pytest.mark.parametrize(("a_minute", "burst"), [(3, 1), (3, 3), (15, 1), (15, 15), (60, 1), (60, 60)])
def test_a_limiter_of_a_few_calls_a_minute_refuses_none_for_good(a_minute: int, burst: int, told: str) -> None:
    count = burst + max(30, a_minute)
    service = Limiter(bucket(a_minute / 60, burst, told))
    _, span_s = run_virtually(work_off(service, count))
    assert span_s <= 1.5 * (count - burst) * 60 / a_minute
    assert len(service.sent_at) <= 2.5 * count


@pytest.mark.parametrize("told", ["seconds", "ms", "absent"])
def test_a_first_connection_that_takes_its_time_does_not_make_the_limiter_look_slow(told: str) -> None:
    service, account = Limiter(bucket(20, 5, told), opens_at=0.2), Account()
    account.pace.succeeded(Sent(-0.2, 1, 1), 0.0, 120.0)  # so that many calls are sent before the first reply
    _, span_s = run_virtually(work_off(service, 20 * 8 + 5, account))
    assert span_s <= 1.25 * (8 + CALL_S)


def test_refusals_at_random_hold_back_only_the_calls_that_were_refused() -> None:
    draw = random.Random(1)
    _, clean_s = run_virtually(work_off(Limiter(lambda now: None), 1000))
    service = Limiter(lambda now: refused(1.0) if draw.random() < 0.05 else None)
    _, span_s = run_virtually(work_off(service, 1000))
    assert span_s <= 2 * clean_s


def test_a_service_that_is_closed_for_a_while_is_knocked_at_ever_more_seldom_and_used_at_once_when_it_opens() -> None:
    service = Limiter(lambda now: refused(22 - now) if 1 < now < 22 else None)
    _, span_s = run_virtually(work_off(service, 600))
    assert service.refused <= 30
    assert span_s <= 22 + 2 * 600 * CALL_S / AT_ONCE


@pytest.mark.parametrize("takes", [1, 4])
def test_a_service_that_takes_few_calls_at_a_time_and_refuses_the_rest_gets_few(takes: int) -> None:
    service = Limiter(lambda now: refused(None) if service.in_flight >= takes else None)
    _, span_s = run_virtually(work_off(service, 50 * takes))
    assert span_s <= 1.25 * 50 * CALL_S
    assert service.refused <= 20 + 0.2 * 50 * takes


def test_what_an_account_takes_is_remembered_by_the_next_run() -> None:
    service, account = Limiter(bucket(20, 5, "absent")), Account()

    async def twice() -> int:
        await work_off(service, 100, account)
        first = service.refused
        await work_off(service, 100, account)
        return first

    first, _ = run_virtually(twice())
    assert service.refused - first < first


def test_what_a_server_that_works_on_one_call_at_a_time_is_asked_for_is_answered_in_time() -> None:
    pace = Pace()
    assert pace.places == 2  # nothing is known of it
    pace.succeeded(Sent(0.0, 1, 1), 2.0, 8.0)
    assert pace.places == 2  # two calls of 2 s after each other take half of 8 s
    pace.succeeded(Sent(0.0, 2, 2), 4.0, 8.0)
    assert pace.places == 2
    pace.succeeded(Sent(0.0, 3, 2), 6.0, 8.0)  # it became slower: 2 · 4 s / 6 s
    assert pace.places == pytest.approx(4 / 3)
    pace.timed_out(Sent(1.0, 4, 2), 9.0)
    assert pace.places == 1


def test_a_fast_service_is_used_at_once_and_one_wave_of_time_outs_halves_it_once() -> None:
    pace = Pace()
    pace.succeeded(Sent(0.0, 1, 1), 0.2, 120.0)
    assert pace.places == pytest.approx(300)  # 60 s of calls of 0.2 s
    sent = [pace.send(1.0) for _ in range(64)]
    for each in sent:
        pace.in_flight -= 1
        pace.timed_out(each, 121.0)
    assert pace.places == 32
    pace.succeeded(Sent(122.0, 65, 32), 122.2, 120.0)  # it grows by one per round: 1/32 for each of the 32
    assert pace.places == pytest.approx(32 + 1 / 32)


def test_a_single_refusal_slows_nothing_and_those_of_calls_in_flight_together_count_once() -> None:
    pace = Pace()
    pace.succeeded(Sent(0.0, 1, 1), 0.2, 120.0)
    sent = [pace.send(1 + i / 100) for i in range(10)]
    free_at = pace.next_at
    for each in sent:
        pace.refused(each, 2.0, 30.0)
    assert (pace.gap_s, pace.next_at, pace.in_a_row) == (0.0, free_at, 1)


def test_calls_that_may_all_go_out_at_once_go_out_one_by_one() -> None:
    async def main() -> list[float]:
        account, run, left = Account(), RunGate(), list[float]()
        account.pace.succeeded(Sent(-0.2, 1, 1), 0.0, 120)  # a known service, with room for many

        async def call() -> None:
            await account.enter(run)
            left.append(asyncio.get_running_loop().time())

        await asyncio.gather(*(call() for _ in range(8)))
        waiting = asyncio.ensure_future(account.enter(run))
        await asyncio.sleep(0)
        waiting.cancel()  # takes no place
        await asyncio.wait([waiting])
        assert account.pace.in_flight == 8
        return left

    left, _ = run_virtually(main())
    assert left == pytest.approx([0.002 * i for i in range(8)], rel=0.01)


@pytest.mark.parametrize("waits_for", ["a place", "its time"])
def test_a_stopped_run_passes_its_turn_on_to_another_of_the_same_account(waits_for: str) -> None:
    async def main() -> None:
        account, stopped, other = Account(1), RunGate(), RunGate()
        sent = await account.enter(other)
        waiting = [asyncio.ensure_future(account.enter(run)) for run in (stopped, other)]
        await asyncio.sleep(0)
        if waits_for == "its time":
            account.pace.next_at = 50.0
            account.end(sent, None, 120)
            await asyncio.sleep(1)
        stopped.stop()
        if waits_for == "a place":
            account.end(sent, None, 120)
        with pytest.raises(RunStopped):
            await waiting[0]
        assert asyncio.get_running_loop().time() < 2
        await waiting[1]
        assert account.pace.in_flight == 1

    run_virtually(main())
