"""A headless Chromium for tests: the one of the system, with nothing of its own on the network."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ARGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
HINT = "no Chromium for the browser tests; get one with: sudo apt-get install chromium fonts-ipaexfont"


def chromium_path() -> str:
    """Where Chromium is; without one the test is skipped, or fails where CI=true."""
    found = next(
        (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), ""
    )
    if not found and os.environ.get("CI") == "true":
        pytest.fail(HINT)
    if not found:
        pytest.skip(HINT)
    return found


@contextmanager
def chromium() -> Iterator[Any]:
    """A running browser (playwright's `Browser`), closed at the end; if a test fails, what its pages showed is told."""
    path = chromium_path()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(ARGS))
        try:
            yield browser
        except Exception as error:
            for page in (page for context in browser.contexts for page in context.pages):
                error.add_note(f"{page.url} showed:\n{page.inner_text('body')[-6000:]}")
            raise
        finally:
            browser.close()


class Watched:
    """A page, and everything that a harmless page does not do: requests, console errors, dialogs, exceptions."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.requests: list[str] = []
        self.troubles: list[str] = []
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.troubles.append(str(error)))
        page.on("dialog", self._dialog)

    def _console(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.troubles.append(message.text)

    def _dialog(self, dialog: Any) -> None:
        self.troubles.append(f"dialog: {dialog.message}")
        dialog.dismiss()


@contextmanager
def opened(browser: Any, file: Path, **context: Any) -> Iterator[Watched]:
    """The file in a tab of its own, from the disk. context: viewport, color_scheme, java_script_enabled, …"""
    tab = browser.new_context(**context)
    try:
        watched = Watched(tab.new_page())
        watched.page.goto(file.as_uri())
        yield watched
    finally:
        tab.close()


def sideways(page: Any) -> int:
    """How many pixels the page can be scrolled sideways."""
    return int(page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))
