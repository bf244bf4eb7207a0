"""Background work of which only the newest request counts, for a panel that is clicked faster than it can draw."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable

from ...base.redact import surprise_text


class NewestOnly:
    """Call `work` in its own thread after each `ask`; requests that come meanwhile become one more call.

    `work` can see in `is_stale` that something newer was requested, and give up. If it raises, that is a warning, and
    the next request is handled as usual.
    """

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._waiting = False

    def ask(self) -> None:
        """Request the work once more, from its beginning."""
        with self._changed:
            self._waiting = True
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="socjudge-latest", daemon=True)
                self._thread.start()

    @property
    def is_stale(self) -> bool:
        """Whether something newer was requested since the current work began."""
        return self._waiting

    @property
    def is_here(self) -> bool:
        """Whether the caller is the work itself."""
        return threading.current_thread() is self._thread

    def wait(self, timeout_s: float | None = None) -> None:
        """Wait until nothing is left to do, or for so many seconds."""
        with self._changed:
            self._changed.wait_for(lambda: self._thread is None, timeout_s)

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._waiting:
                    self._thread = None
                    self._changed.notify_all()
                    return
                self._waiting = False
            try:
                self._work()
            except Exception as surprise:  # or nothing that is asked later would ever be done
                warnings.warn(surprise_text(surprise), stacklevel=2)
