"""A headless Chromium for tests: the one of the system, with nothing of its own on the network."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
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


# --- A real JupyterLab for the browser tests, in Japanese, and how a person opens and runs a notebook in it


@contextmanager
def lab(folder: Path, environment: dict[str, str]) -> Iterator[str]:
    """JupyterLab over a folder, with settings of its own; gives its address."""
    own = folder / ".jupyter"
    settings = own / "settings" / "@jupyterlab" / "apputils-extension"
    settings.mkdir(parents=True)
    quiet = {"fetchNews": "false", "checkForUpdates": False, "doNotDisturbMode": True}
    (settings / "notification.jupyterlab-settings").write_text(json.dumps(quiet))
    environment = {**os.environ, "SOCJUDGE_LANG": "ja", **environment, **_own_places(own)}
    command = [
        sys.executable, "-m", "jupyter", "lab", "--no-browser", "--allow-root", "--port=0", "--ip=127.0.0.1",
        "--IdentityProvider.token=test", f"--ServerApp.root_dir={folder}",
    ]  # fmt: skip
    with _served(command, "http://127.0.0.1:", folder, environment) as told:
        yield told[told.index("http://127") :].split("/lab")[0].strip()


@contextmanager
def voila(
    folder: Path, *options: str, command: Sequence[str] = ("-m", "voila"), environment: Mapping[str, str] = os.environ
) -> Iterator[str]:
    """Voilà over a notebook of the folder, with the folder's voila.json; gives its address. command: what starts it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    started = [sys.executable, *command, *options, "--no-browser", f"--port={port}"]
    environment = {**environment, "SOCJUDGE_LANG": "ja", **_own_places(folder / ".jupyter")}
    with _served(started, "http://", folder, environment) as told:
        yield told


@contextmanager
def _served(command: list[str], address: str, folder: Path, environment: Mapping[str, str]) -> Iterator[str]:
    """The line in which a server tells its address; it runs until the context ends. Its words go into a file: a kernel that
    outlives it would hold a pipe open, and what nobody reads from a pipe stops the server."""
    with tempfile.NamedTemporaryFile() as words:
        process = subprocess.Popen(command, env=environment, stderr=words, cwd=folder)
        try:
            yield _told(process, Path(words.name), address)
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(20)


def _told(process: subprocess.Popen[bytes], words: Path, address: str) -> str:
    for _ in range(1200):
        said = words.read_text(errors="replace")
        for line in said.splitlines(keepends=True):
            if address in line and line.endswith("\n"):
                return line.strip()
        if process.poll() is not None:
            break
        time.sleep(0.1)
    raise AssertionError(f"the server told no address:\n{said[-4000:]}")


def _own_places(own: Path) -> dict[str, str]:
    """Folders of Jupyter that nothing else uses, as environment variables."""
    places = {
        "JUPYTER_CONFIG_DIR": "config", "JUPYTER_DATA_DIR": "data", "JUPYTER_RUNTIME_DIR": "runtime",
        "JUPYTERLAB_SETTINGS_DIR": "settings", "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
    }  # fmt: skip
    return {name: str(own / place) for name, place in places.items()}


def write_notebook(path: Path, *cells: str) -> None:
    import nbformat  # a second and a half: not for those who only collect the tests

    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in cells])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    nbformat.write(notebook, path)


def open_notebook(page: Any, url: str, name: str) -> None:
    page.goto(f"{url}/lab/tree/{name}?token=test&reset", wait_until="domcontentloaded")
    page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=60_000)
    page.wait_for_selector("text=Python 3 (ipykernel) | Idle", timeout=60_000)


def run_all(page: Any) -> None:
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_text("Run All Cells", exact=True).click()
