"""Run what talks to a service in one event loop of its own, so that it works in scripts and in notebook cells."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from ..errors import ConfigError

T = TypeVar("T")
HEARTBEAT_S = 0.1  # seconds; Jupyter's interrupt is only noticed when the waiting thread wakes up

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_pool: ThreadPoolExecutor | None = None
_pid = 0  # a forked child does not have its parent's threads


def get_loop() -> asyncio.AbstractEventLoop:
    """Return the background event loop. It is started on first use. ConfigError in a fork of a process that has one."""
    global _loop, _pool, _pid
    if _pid not in (0, os.getpid()):
        raise ConfigError(
            "this process was forked from one that makes calls, and would share half of its connections and threads; start "
            'processes with multiprocessing.get_context("spawn") (an executor: ProcessPoolExecutor(mp_context=…))'
        )
    with _lock:
        if _loop is None:
            _loop, _pid = asyncio.new_event_loop(), os.getpid()
            _pool = ThreadPoolExecutor(1024, thread_name_prefix="socjudge")  # threads are created on demand
            threading.Thread(target=_run, args=[_loop], name="socjudge-loop", daemon=True).start()
        return _loop


def _run(loop: asyncio.AbstractEventLoop) -> None:
    while True:
        try:
            return loop.run_forever()
        except (SystemExit, KeyboardInterrupt):  # only this task's caller gets the error; other tasks go on
            pass


def start(coroutine: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
    try:
        return asyncio.run_coroutine_threadsafe(coroutine, get_loop())
    except ConfigError:
        coroutine.close()
        raise


def wait(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run the coroutine in the background event loop and return its result. An interrupt (Ctrl-C) cancels it."""
    future = start(coroutine)
    try:
        while not concurrent.futures.wait([future], HEARTBEAT_S).done:
            pass
        return future.result()
    finally:
        future.cancel()


async def in_thread(function: Any, *arguments: Any) -> Any:
    """Run a function in a thread. SystemExit, KeyboardInterrupt and StopIteration in it become a RuntimeError."""
    return await asyncio.get_running_loop().run_in_executor(_pool, _contained, function, *arguments)


def _contained(function: Any, *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except (SystemExit, KeyboardInterrupt, StopIteration) as error:  # these would end the loop, or hang the future
        raise RuntimeError(f"{type(error).__name__}: {error}") from None
