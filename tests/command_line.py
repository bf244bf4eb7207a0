"""The command `socjudge` in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys

from conftest import ROOT


def socjudge(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    keep = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")}
    return subprocess.run(
        [sys.executable, "-m", "socjudge", *arguments],
        capture_output=True, text=True, cwd=ROOT, env={**keep, "NO_COLOR": "1", "COLUMNS": "120", **environment},
        stdin=subprocess.DEVNULL, timeout=120,
    )  # fmt: skip
