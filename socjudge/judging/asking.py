"""How a judgement asks its model: `await ask(request)`.

One piece of code thus serves a single call, and a run that first uses the replies it has paid for (`keeping`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable

from ..errors import ProviderError, SocJudgeError
from ..records import Completion, ModelRequest, Usage

Ask = Callable[[ModelRequest], Awaitable[Completion]]


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


def lost_usage(error: SocJudgeError) -> Usage:
    """What the calls of a failed request consumed; the cost is None if some of them got no reply."""
    lost = error.lost_calls if isinstance(error, ProviderError) else 0
    told = getattr(error, "usage", None) or Usage()
    return told + Usage(lost_calls=lost, cost_usd=None if lost else 0.0)
