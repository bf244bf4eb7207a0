"""A real JupyterLab for the browser tests, in Japanese, and how a person opens and runs a notebook in it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any


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
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True, cwd=folder) as process:
        try:
            assert process.stderr is not None
            for line in process.stderr:
                if "http://127.0.0.1:" in line:
                    yield line[line.index("http://127.0.0.1:") :].split("/lab")[0].strip()
                    break
        finally:
            process.terminate()
            process.communicate()


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
    with subprocess.Popen(started, env=environment, stderr=subprocess.PIPE, text=True, cwd=folder) as process:
        try:
            assert process.stderr is not None
            for line in process.stderr:
                if "http://" in line:
                    yield line.strip()
                    break
        finally:
            process.terminate()
            process.communicate()


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
