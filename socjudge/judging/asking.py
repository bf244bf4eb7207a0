"""How a judgement asks its model: `await ask(request)`.

One piece of code thus serves a single call, a run that first uses the replies it has paid for (`keeping`), and a batch
that stops at the first request without a reply (`replaying`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable

from ..errors import ProviderError, SocJudgeError
from ..records import Completion, ModelRequest, Usage

Ask = Callable[[ModelRequest], Awaitable[Completion]]


class Unanswered(Exception):
    """The replies are used up, and `request` is the next one to send."""

    def __init__(self, request: ModelRequest) -> None:
        super().__init__()
        self.request = request


def keeping(ask: Ask, earlier: Iterable[Completion], keep: Callable[[Completion], object]) -> Ask:
    """An `ask` that gives the earlier replies first, and keeps each new reply that another request follows."""
    left, last = deque(earlier), list[Completion]()

    async def asking(request: ModelRequest) -> Completion:
        while last:
            keep(last.pop())
        if left:
            return left.popleft()
        last.append(await ask(request))
        return last[0]

    return asking


def replaying(replies: Iterable[Completion], error: Exception | None = None) -> Ask:
    """An `ask` that gives these replies, and then raises the error, or Unanswered."""
    left = iter(replies)

    async def asking(request: ModelRequest) -> Completion:
        if (reply := next(left, None)) is None:
            raise error or Unanswered(request)
        return reply

    return asking


def lost_usage(error: SocJudgeError) -> Usage:
    """What the calls of a failed request consumed; the cost is None if some of them got no reply."""
    lost = error.lost_calls if isinstance(error, ProviderError) else 0
    told = getattr(error, "usage", None) or Usage()
    return told + Usage(lost_calls=lost, cost_usd=None if lost else 0.0)
