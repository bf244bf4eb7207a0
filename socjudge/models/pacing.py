"""Send a call: wait for the account's pace, retry what may pass, give up in words. The run's cap and stop are in `gate`.

All of this runs in the background event loop, so nothing here needs a lock. A model that is sent so extends `Model`.
"""

from __future__ import annotations

import asyncio
import random
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import KW_ONLY, dataclass, replace
from time import perf_counter
from typing import Any

from ..base.messages import say
from ..base.redact import redact as redact_keys
from ..base.redact import without_secrets
from ..base.service_errors import Told
from ..base.texts import encodable
from ..errors import NoAnswer, ProviderError
from ..records import REASONING, REJECTED, Completion, ModelRequest, Rubric, Usage
from . import event_loop
from .gate import RunGate, Streak
from .pace import FIRST_CALLS, Pace, Sent
from .prices import count_bytes, dearest_usd, most_usd_of, usage_of

MAX_TRIES = 5
MAX_REFUSALS = 10  # 429s of one call before giving up; the account slows down meanwhile
BACKOFF_S = 0.5  # seconds, doubled at each retry, with full jitter
MAX_BACKOFF_S = 20.0
MAX_WAIT_S = 60.0  # seconds; a longer Retry-After is reported, not waited for
MAX_BRIDGE_S = 5.0  # seconds, the longest backoff while a service is unavailable
CLOSED_S = 180.0  # seconds in which a service refused every call; a limit per minute is over by then
MOST_SEEN = 10_000  # replies that are remembered
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


class SeenReplies:
    """Remember which request each reply of a service answered, by the reply's id."""

    def __init__(self) -> None:
        self._replies: OrderedDict[str, tuple[str, int, int]] = OrderedDict()
        self._has_doubted = False

    def is_of_another(self, reply_id: object, model: str, request: ModelRequest, text: str) -> bool:
        """Return whether a reply has answered another request before, and so is not the reply to this one."""
        if not isinstance(reply_id, str) or not reply_id:
            return False
        asked = hash(tuple(message["content"] for message in request.messages))
        found = self._replies.setdefault(reply_id, (model, asked, hash(text)))
        if len(self._replies) > MOST_SEEN:
            self._replies.popitem(last=False)
        # A cache may answer the same request again. Some servers give every reply the same id, or draw it at random from
        # a few, so the text must be the same as well.
        if found[:2] == (model, asked) or found[2] != hash(text):
            return False
        if any(each[0] == model for name, each in self._replies.items() if name != reply_id):
            return True
        # No other id is known: perhaps the model always replies with this id and this text. So it is asked once more.
        is_first, self._has_doubted = not self._has_doubted, True
        return is_first


class Account:
    """Hold calls back to the pace that a service takes. All models and runs in this process that use the same key at
    the same address share one account."""

    def __init__(self, first_calls: int = FIRST_CALLS) -> None:
        self.pace = Pace(first_calls)
        self.seen = SeenReplies()
        self._door = asyncio.Lock()  # the calls of all runs pass it one by one, in their order
        self._changed = asyncio.Event()
        self.trouble: Retryable | None = None  # how the last call failed that is tried again
        self.refused = 0  # calls that were refused and have not ended

    async def enter(self, gate: RunGate) -> Sent:
        """Wait until the service takes a call of this run. If the run must stop while the call waits, its reason for
        stopping is raised."""
        async with self._door:
            gate.check()
            while self.pace.in_flight >= self.pace.places:
                self._changed.clear()
                await self._changed.wait()
                gate.check()
            loop = asyncio.get_running_loop()
            while (pause := self.pace.next_at - loop.time()) > 0:
                await asyncio.sleep(min(pause, LOOK_S))
                gate.check()
            return self.pace.send(loop.time(), was_idle=not self.refused)

    def end(self, sent: Sent, found: Completion | Retryable | None, timeout_s: float) -> None:
        """Record that a call has ended, and learn from it. None: its end tells nothing of the service's pace."""
        now = asyncio.get_running_loop().time()
        self.pace.in_flight -= 1
        if isinstance(found, Completion):
            self.trouble = None
            self.pace.succeeded(sent, now, timeout_s)
        elif found is not None and (found.refused or found.retry_after_s is not None):
            self.pace.refused(sent, now, found.retry_after_s)
        elif found is not None and found.timed_out:
            self.pace.timed_out(sent, now)
        self._changed.set()


_accounts: dict[tuple[str, str], Account] = {}


def get_account(base_url: str, api_key: str) -> Account:
    return _accounts.setdefault((base_url, api_key), Account())


# What a failed try means. If the service asks for a wait that is longer than MAX_WAIT_S, the call is given up at once.
#
#   failure                                          next try                           given up after
#   refused (429), with a wait that was asked for    after that wait                    MAX_REFUSALS
#   refused (429), without                           after a backoff, which is short    MAX_REFUSALS
#                                                    while others are accepted
#   refused (429), like every call for CLOSED_S                                         at once; the second one ends
#                                                                                       the run
#   unavailable, by an account that worked before    after MAX_BRIDGE_S at most         `patience_s` of the run
#   any other                                        after a backoff, or as asked for   MAX_TRIES


async def send_with_retries(
    send: Callable[[], Awaitable[Completion]],
    *,
    what: str,  # the service's name in errors
    account: Account,
    gate: RunGate | None = None,
    most_usd: Callable[[], float | None] = lambda: 0.0,  # of one try, by what the run has seen so far
    # what an answered try counts in the budget
    counted_usd: Callable[[Completion], float | None] = lambda completion: completion.usage.cost_usd,
    timeout_s: float | None = None,  # if it differs from the run's
) -> Completion:
    """Call `send` until it returns a completion. Return the completion with the causes of the retries.
    ProviderError if the last try fails too, or if the service asks for a wait that is too long."""
    gate = gate or RunGate()
    causes: list[str] = []
    lost = refusals = backoffs = 0
    failing_since = 0.0
    try:
        while True:
            found = await _try(send, account, gate, most_usd, counted_usd, timeout_s or gate.settings.timeout_s)
            if found is None:
                continue
            if isinstance(found, Completion):
                gate.streaks[account] = Streak()
                usage = replace(found.usage, lost_calls=lost)
                return replace(found, retries=tuple(causes), usage=usage) if causes else found
            failure, now = found, asyncio.get_running_loop().time()
            if not causes:
                gate.in_trouble += 1
                failing_since = now
            causes.append(str(failure))
            gate.retries, gate.cause, account.trouble = gate.retries + 1, str(failure), failure
            lost += failure.may_be_billed
            account.refused += failure.refused and not refusals
            refusals += failure.refused
            streak, refused_s = gate.streaks[account], 0.0
            if failure.refused:
                streak.refused_since = min(streak.refused_since, now)
                # A call in flight may be one that was accepted and takes minutes.
                refused_s = 0.0 if account.pace.in_flight else now - streak.refused_since
            wait_s = failure.retry_after_s or 0.0
            bridging = failure.down and account.pace.worked and now - failing_since < gate.settings.patience_s
            is_last = not bridging and (len(causes) - refusals >= MAX_TRIES or refusals >= MAX_REFUSALS)
            if is_last or wait_s > MAX_WAIT_S or refused_s >= CLOSED_S:
                streak.n_given_up += 1
                error = _given_up(what, failure, len(causes), lost, refused_s)
                # The first call may be refused for what it is, for example because it is larger than a quota.
                error.is_closed = failure.unreachable or (refused_s >= CLOSED_S and streak.n_given_up > 1)
                raise error
            if not wait_s:  # also for 0, because ten calls without a pause help nobody
                longest = MAX_BRIDGE_S if failure.down else MAX_BACKOFF_S
                backoffs += 1  # a wait that the service asked for does not mean that the service is broken
                # While the service accepts other calls, this one may soon be tried again.
                doubled = min(backoffs, account.pace.in_a_row if failure.refused else 20)
                wait_s = random.uniform(0, min(BACKOFF_S * 2**doubled, longest))
            else:
                gate.on_wait()
            await gate.sleep(wait_s)
    finally:
        account.refused -= bool(refusals)
        gate.in_trouble -= bool(causes)
        if not gate.in_trouble:
            account.trouble = None


async def _try(
    send: Callable[[], Awaitable[Completion]],
    account: Account,
    gate: RunGate,
    most_usd: Callable[[], float | None],
    counted_usd: Callable[[Completion], float | None],
    timeout_s: float,
) -> Completion | Retryable | None:
    """Call `send` once, when the run and the account allow it. In any case, add the cost to the budget.
    None: nothing was sent, because a dearer model has answered meanwhile, and more must be reserved."""
    reserve = await gate.enter(most_usd)
    cost: float | None = 0.0  # for an error that is not retried: the request was refused, not processed
    found: Completion | Retryable | None = None
    try:
        sent = await account.enter(gate)
        try:
            gate.check()
            if not gate.send(reserve, most_usd):
                return None
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
        gate.leave(reserve, most_usd() if cost is None else cost)
    return found


def _given_up(what: str, last: Retryable, count: int, lost_calls: int, refused_s: float) -> ProviderError:
    wait_s = last.retry_after_s or 0.0
    if wait_s > MAX_WAIT_S:
        sentence = "{what}: {failure}; it asks to wait {seconds:.0f} s, try again then"
    elif refused_s >= CLOSED_S:
        sentence = "{what}: refused every call for {minutes:.0f} minutes, last with: {failure}; is a quota used up?"
    else:
        sentence = "{what}: failed {count} times, last with: {failure}"
    error = ProviderError(sentence, what=what, failure=last, count=count, seconds=wait_s, minutes=refused_s / 60)
    error.lost_calls, error.gave_up = lost_calls, True
    return error


class Model:
    """Call a model with retries, at a pace that its service accepts, and remove keys from its texts.
    Each kind of model extends this class, and provides `_send` (one try)."""

    name: str
    where: str  # the service's name in errors
    service: str = ""  # the host, for the log
    address: str = ""  # that is called, for the price; "" if nobody can tell
    settings: str = "default"  # what tells models of one name apart
    is_lexical: bool = False  # whether it only compares words

    def __init__(self, name: str, where: str, account: Account, keys: Iterable[str] = ()) -> None:
        self.name, self.where = name, where
        self.own_name = name.partition(":")[2] or name  # the name that the service knows
        self._account, self._keys = account, tuple(keys)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    @property
    def waits_for(self) -> str:
        """Return why calls wait to be tried again, as shown to the user; "" if none waits."""
        failure = self._account.trouble
        return "" if failure is None else say("{cause}; trying again", cause=failure.cause[:200])

    def complete(self, request: ModelRequest) -> Completion:
        return event_loop.wait(self.complete_async(request))

    async def complete_async(self, request: ModelRequest, gate: RunGate | None = None) -> Completion:
        """Return the reply to a request of a run. Call this in the background event loop.
        If `gate` is None, no limit of a run applies: no budget, no stop signal, no limit on concurrent calls."""
        gate = gate or RunGate()
        request = gate.settings.fit(request)

        def counted_usd(completion: Completion) -> float | None:
            gate.models[request.task].add(completion.model)
            # A cost of 0 is only believed for a call that can cost nothing.
            return dearest_usd(completion.usage, self.address, self.name, completion.model) or None

        return await send_with_retries(
            lambda: self._send(request, gate),
            what=self.where,
            account=self._account,
            gate=gate,
            most_usd=lambda: self.reserve_usd(request, gate),
            counted_usd=counted_usd,
        )

    def reserve_usd(self, request: ModelRequest, gate: RunGate) -> float | None:
        """Return the most that one call can cost if it is answered, and billed, as the model that was asked for or as
        any model that has answered in this run."""
        billed = self.as_billed(request)
        others = (most_usd_of(name, billed, self.address, by_anyone=True) for name in gate.models[request.task])
        return max((usd for usd in (self.most_usd(request), *others) if usd is not None), default=None)

    def check_rubric(self, rubric: Rubric) -> None:
        """Raise ConfigError if this model cannot judge by this rubric."""

    def as_billed(self, request: ModelRequest) -> ModelRequest:
        """Return the request with the texts and the output limit that are really sent."""
        return request

    def most_usd(self, request: ModelRequest) -> float | None:
        """Return the most that one call can cost in US dollars. Return None if unknown."""
        return most_usd_of(self.name, self.as_billed(request), self.address)

    async def _send(self, request: ModelRequest, gate: RunGate) -> Completion:
        """Send the request once and return the reply. Raises Retryable if another try may help."""
        raise NotImplementedError

    def completion(
        self,
        text: str,
        model: object,
        used: Any,
        reason: str,
        request: ModelRequest,
        *,
        came: int | None = None,
        **more: Any,
    ) -> Completion:
        """Return a reply with what it cost, without keys. `model` and `used` are the names and the counts that it told,
        and `came` is the size in bytes of what it counts as written (None: of the text)."""
        resolved = model if isinstance(model, str) and model else self.name
        came = len(text.encode(errors="ignore")) if came is None else came
        sent = count_bytes(request.messages)
        usage = usage_of(used or {}, self.name, resolved, self.address, sent=sent, came=came)
        return Completion(self.without_keys(encodable(text)), self.without_keys(resolved), usage, reason, **more)

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
