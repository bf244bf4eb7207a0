"""Define a dialogue with a model: a generator that yields requests, is sent the model's replies, and returns a result.

The judge and the assistant are dialogues. Each defines in one place what it asks and how it reads the replies. Other
code sends the requests: a single call, the loop of a run, or a batch that takes a day.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterable
from typing import Any, TypeVar

from ..errors import ProviderError, SocJudgeError
from ..records import Completion, ModelRequest, Usage

T = TypeVar("T")
Dialogue = Generator[ModelRequest, Completion, T]


class Finished(Exception):
    """Signal that a dialogue has ended. `value` is the dialogue's result, such as an answer or an evaluation."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


def advance(dialogue: Dialogue[Any], reply: Completion | ProviderError | None) -> ModelRequest:
    """Send a reply, or the error that came instead of it, to a dialogue. Return the dialogue's next request.

    reply: None to get the first request.

    Raises Finished when the dialogue has ended. If the dialogue cannot go on after an error, that error is raised.
    """
    try:
        if isinstance(reply, ProviderError):
            return dialogue.throw(reply)
        return next(dialogue) if reply is None else dialogue.send(reply)
    except StopIteration as stop:
        raise Finished(stop.value) from None


def replay(dialogue: Dialogue[Any], earlier: Iterable[Completion]) -> ModelRequest:
    """Send a dialogue the replies that an earlier session received. Return the first request that has no reply yet.

    Raises Finished if the dialogue ends with these replies.
    """
    request = advance(dialogue, None)
    for reply in earlier:
        request = advance(dialogue, reply)
    return request


def run_dialogue(dialogue: Dialogue[T], complete: Callable[[ModelRequest], Completion]) -> T:
    """Run a dialogue to its end and return its result.

    complete: a function that sends a request and returns the reply.
    """
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
    """Run a dialogue to its end in an event loop and return its result.

    - complete: an async function that sends a request and returns the reply.
    - earlier: the replies that were paid for in an earlier session; they are used first.
    - on_unfinished: a function that is called with each new reply after which the dialogue goes on.
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
    """Return what the calls of a failed request consumed. The cost is None (unknown) if some of them got no reply."""
    lost = error.lost_calls if isinstance(error, ProviderError) else 0
    told = getattr(error, "usage", None) or Usage()
    return told + Usage(lost_calls=lost, cost_usd=None if lost else 0.0)
