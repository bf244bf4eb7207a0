"""For `pytest --nbval-lax notebooks` too, which reads nothing below tests/: the rules of tests/support/notebook_rules.py, and
an end for each test that hangs."""

from __future__ import annotations

import faulthandler
import signal
import tempfile
from collections.abc import Iterator

import pytest

pytest_plugins = ["support.notebook_rules"]
LONGEST_S = 600  # seconds


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Iterator[None]:
    """A test that hangs fails, and says where each thread stands; the next one begins."""

    def end(*_: object) -> None:
        with tempfile.TemporaryFile("w+") as stacks:
            faulthandler.dump_traceback(stacks)
            stacks.seek(0)
            pytest.fail(f"still running after {LONGEST_S} s:\n{stacks.read()}", pytrace=False)

    if hasattr(signal, "SIGALRM"):
        signal.signal(signal.SIGALRM, end)
        signal.alarm(LONGEST_S)
    try:
        return (yield)
    finally:
        if hasattr(signal, "SIGALRM"):
            signal.alarm(0)
