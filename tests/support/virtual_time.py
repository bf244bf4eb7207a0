"""An event loop whose clock jumps to the next timer: minutes of waiting pass in a moment, and always the same way."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Loop(asyncio.SelectorEventLoop):
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
