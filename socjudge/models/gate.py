"""What a run's calls may take. Only the background event loop uses a gate, so nothing here needs a lock."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..errors import BudgetReached, ConfigError, RunStopped, SocJudgeError
from ..records import ModelRequest
from ..settings import open_project

TIMEOUT_S = 120.0  # seconds; a reasoning model may think for a minute
# seconds that a service that worked before may be unavailable, for example while it restarts and loads its model
PATIENCE_S = 60.0
OUTPUT_TOKENS = 4000  # tokens that requests ask for unless told otherwise


@dataclass(frozen=True)
class CallSettings:
    output_tokens: int  # the most in a reply, hidden reasoning included
    timeout_s: float  # the longest wait for a reply
    patience_s: float  # how long a service that worked before may be unavailable

    def fit(self, request: ModelRequest) -> ModelRequest:
        """Scale the request's output limit: twice OUTPUT_TOKENS becomes twice `output_tokens`."""
        if self.output_tokens == OUTPUT_TOKENS:
            return request
        room = round(request.max_output_tokens * self.output_tokens / OUTPUT_TOKENS)
        return replace(request, max_output_tokens=room)


def get_settings(
    output_tokens: int | None = None, timeout_s: float | None = None, patience_s: float | None = None
) -> CallSettings:
    """Return the settings for calls. What is not given is in the environment (SOCJUDGE_TIMEOUT_S …) or the default."""
    return CallSettings(
        int(_number("output_tokens", output_tokens, OUTPUT_TOKENS, least=1)),
        _number("timeout_s", timeout_s, TIMEOUT_S, least=0.1),
        _number("patience_s", patience_s, PATIENCE_S, least=0.0),
    )


def _number(name: str, given: Any, usual: float, *, least: float) -> float:
    if given is None:
        name = f"SOCJUDGE_{name.upper()}"
        given = os.environ.get(name) or usual
    with contextlib.suppress(TypeError, ValueError):
        if least <= float(given) < math.inf:
            return float(given)
    raise ConfigError(
        "{name} is {found!r}, expected a number of {least:g} or more", name=name, found=given, least=least
    )


@dataclass
class Budget:
    """What several runs, one after the other, may spend together, and what each has spent."""

    max_usd: float | None = None  # None: no limit
    spent: dict[str, float] = field(default_factory=dict)  # by run id, so that an earlier session counts once

    @classmethod
    def of(cls, given: Budget | float | None) -> Budget:
        """Return the budget, or make one from a limit in US dollars. None is the project's limit, infinity no limit."""
        return given if isinstance(given, Budget) else cls(open_project().cost_cap(given))

    def note(self, run_id: str, usd: float) -> None:
        self.spent[run_id] = max(usd, self.spent.get(run_id, 0.0))


@dataclass(eq=False)
class Reserve:
    usd: float
    is_sent: bool = False  # whether the journal counts it


@dataclass
class Streak:
    """What a service did with a run's calls since it last accepted one."""

    refused_since: float = math.inf  # when it began to refuse every call (429)
    n_given_up: int = 0


class RunGate:
    """Make a run's calls wait until its concurrency and its budget allow them, or stop them, at once by `signal`."""

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
        self.streaks: defaultdict[object, Streak] = defaultdict(Streak)  # by account
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
        return self.budget.spent.get(self._run_id, 0.0)

    def stop(self, reason: SocJudgeError | None = None) -> None:
        """Let no further call be sent, but raise the first `reason`. Calls in flight finish."""
        self.reason = self.reason or reason or RunStopped("the run was stopped")
        self._stopping.set()
        self._settled.set()

    def check(self) -> None:
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
            while True:
                self.check()
                limit, spent, most = self.budget.max_usd, sum(self.budget.spent.values()), most_usd()
                # Under a cap, a call of unknown cost goes alone: its reply tells what the next ones may cost.
                is_told = most is not None or self.in_flight == 0
                if limit is None or (is_told and spent + self._reserved_usd + (most or 0.0) <= limit):
                    break
                if self.in_flight == 0:
                    words = (
                        "the budget of ${limit:g} leaves no room for another call: ${spent:.4f} are spent and the "
                        "next call could cost up to ${next_usd:.4f}"
                    )
                    self.stop(BudgetReached(words, limit=limit, spent=spent, next_usd=most or 0.0))
                    continue
                self._settled.clear()
                await self._settled.wait()
        except BaseException:
            self._places.release()
            raise
        self.in_flight += 1
        self._reserved_usd += most or 0.0
        return Reserve(most or 0.0)

    def send(self, reserve: Reserve, most_usd: Callable[[], float | None]) -> bool:
        """Return whether a call may be sent, although a dearer model may have answered since its cost was reserved.
        Record under a cap that it is, so that a run that is killed now counts it when it is resumed."""
        if self.budget.max_usd is None:
            return True
        if (most_usd() or 0.0) > reserve.usd:
            return False
        if reserve.usd:
            reserve.is_sent = True
            self.sent_usd += reserve.usd
            self._note()
        return True

    def leave(self, reserve: Reserve, cost_usd: float | None) -> None:
        """Record that a call has ended. If its cost is unknown, it may have been billed, and counts as the most."""
        self.in_flight -= 1
        self._reserved_usd -= reserve.usd
        self.sent_usd -= reserve.usd * reserve.is_sent
        if not self.in_flight:
            self._reserved_usd = self.sent_usd = 0.0  # without what rounding has left
        self.budget.spent[self._run_id] = self.spent_usd + (reserve.usd if cost_usd is None else cost_usd)
        self._settled.set()
        self._places.release()
