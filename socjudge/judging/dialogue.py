"""A dialogue with a model, as a generator: it yields requests, is sent completions, and returns what it was held for.

So the judge and the assistant say once what they ask and how they read the replies; who sends the requests (one
call, the loop of a run, a batch that takes a day) is decided elsewhere."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterable
from typing import Any, TypeVar

from ..errors import ProviderError, SocJudgeError
from ..records import Completion, ModelRequest, Usage

T = TypeVar("T")
Dialogue = Generator[ModelRequest, Completion, T]


class Finished(Exception):
    """The dialogue's result, in `value`."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


def advance(dialogue: Dialogue[Any], reply: Completion | ProviderError | None) -> ModelRequest:
    """The dialogue's next request after a reply (None: its first one), or after the failure to get one.

    Raises Finished when it is over, and the failure itself if the dialogue cannot do without a reply."""
    try:
        if isinstance(reply, ProviderError):
            return dialogue.throw(reply)
        return next(dialogue) if reply is None else dialogue.send(reply)
    except StopIteration as stop:
        raise Finished(stop.value) from None


def run_dialogue(dialogue: Dialogue[T], complete: Callable[[ModelRequest], Completion]) -> T:
    """The dialogue's result, each request being answered by `complete`."""
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
    """As `run_dialogue`, in an event loop. earlier: replies that were paid for before, taken first; on_unfinished: called
    with each new reply that did not end the dialogue."""
    reply: Completion | ProviderError | None = None
    try:
        request = advance(dialogue, None)
        for paid in earlier:
            request = advance(dialogue, paid)
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
    """What calls without a reply that counts consumed: of those without any nobody knows, unless there were none."""
    lost = error.lost_calls if isinstance(error, ProviderError) else 0
    told = getattr(error, "usage", None) or Usage()
    return told + Usage(lost_calls=lost, cost_usd=None if lost else 0.0)
