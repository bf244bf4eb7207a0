"""The command `socjudge`, in a process of its own or in this one."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import IO

import pytest
from conftest import ROOT

from socjudge import constants
from socjudge.cli.app import main

TERMINAL = {"NO_COLOR": "1", "COLUMNS": "120"}


def socjudge(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own, as a user starts it."""
    keep = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")}
    return subprocess.run(
        [sys.executable, "-m", "socjudge", *arguments],
        capture_output=True, text=True, cwd=ROOT, env={**keep, **TERMINAL, **environment},
        stdin=subprocess.DEVNULL, timeout=120,
    )  # fmt: skip


def socjudge_here(
    *arguments: str, stdin: IO[str] | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """The same in this process, which has the libraries and the embedder already: for what a command does and says."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings(), Path(os.devnull).open() as nothing:
        for name in [name for name in os.environ if name.startswith("OPENAI_")]:
            patch.delenv(name)
        for name, value in {**TERMINAL, **environment}.items():
            patch.setenv(name, value)
        patch.chdir(ROOT)
        for name, given in {
            "argv": ["socjudge", *arguments],
            "stdin": stdin or nothing,
            "stdout": out,
            "stderr": err,
        }.items():
            patch.setattr(sys, name, given)
        warnings.simplefilter("default", UserWarning)  # a line on stderr, as everywhere but under pytest
        project = constants.PROJECT_DIR
        with pytest.raises(SystemExit) as ended:
            main()
        if project != constants.PROJECT_DIR:  # by --project, for this command alone
            constants.use_project(project)
    told = [stream.detach().getvalue().decode() for stream in (out, err)]  # type: ignore[attr-defined]
    return subprocess.CompletedProcess(arguments, int(ended.value.code or 0), *told)
