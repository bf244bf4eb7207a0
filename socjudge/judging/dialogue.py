"""Run a dialogue with a model, as a generator: it yields requests, is sent completions, and returns its result.

The judge and the assistant each define in one place what they ask and how they read the replies. Who sends the requests
(one call, the loop of a run, a batch that takes a day) is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterable
from typing import Any, TypeVar

from ..errors import ProviderError, SocJudgeError
from ..records import Completion, ModelRequest, Usage

T = TypeVar("T")
Dialogue = Generator[ModelRequest, Completion, T]


class Finished(Exception):
    """Raised when a dialogue is over; `value` is its result."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


def advance(dialogue: Dialogue[Any], reply: Completion | ProviderError | None) -> ModelRequest:
    """Send a reply, or the failure to get a reply, to the dialogue and return the dialogue's next request.

    reply: None for the first request. Raises Finished when the dialogue is over. Raises the failure itself if the
    dialogue cannot continue without a reply.
    """
    try:
        if isinstance(reply, ProviderError):
            return dialogue.throw(reply)
        return next(dialogue) if reply is None else dialogue.send(reply)
    except StopIteration as stop:
        raise Finished(stop.value) from None


def replay(dialogue: Dialogue[Any], earlier: Iterable[Completion]) -> ModelRequest:
    """Start the dialogue, send it the replies that were paid for before, and return the request without a reply."""
    request = advance(dialogue, None)
    for reply in earlier:
        request = advance(dialogue, reply)
    return request


def run_dialogue(dialogue: Dialogue[T], complete: Callable[[ModelRequest], Completion]) -> T:
    """Run the dialogue to its end and return its result; `complete` answers each request."""
    reply: Completion | ProviderError | None = None
    try:
        while True:
            request = advance(dialogue, reply)
            try:
                reply = complete(request)
            except ProviderError as error:
                reply = error
    except Finished as finished:
        return finished.value  # type: ignore[no-any-return]


async def run_dialogue_async(
    dialogue: Dialogue[T],
    complete: Callable[[ModelRequest], Awaitable[Completion]],
    *,
    earlier: Iterable[Completion] = (),
    on_unfinished: Callable[[Completion], None] = lambda completion: None,
) -> T:
    """Run the dialogue to its end in an event loop and return its result; `complete` answers each request.

    earlier: replies that were paid for before, used first; on_unfinished: called with each new reply that did not end
    the dialogue.
    """
    reply: Completion | ProviderError | None = None
    try:
        request = replay(dialogue, earlier)
        while True:
            try:
                reply = await complete(request)
            except ProviderError as error:
                reply = error
            request = advance(dialogue, reply)
            if isinstance(reply, Completion):
                on_unfinished(reply)
    except Finished as finished:
        return finished.value  # type: ignore[no-any-return]


def lost_usage(error: SocJudgeError) -> Usage:
    """Return what the calls without a usable reply consumed.

    The cost is unknown (None) if there were calls without any reply.
    """
    lost = error.lost_calls if isinstance(error, ProviderError) else 0
    told = getattr(error, "usage", None) or Usage()
    return told + Usage(lost_calls=lost, cost_usd=None if lost else 0.0)
