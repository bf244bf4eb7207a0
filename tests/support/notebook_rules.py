"""How nbval runs the notebooks: each in an empty project of its own, in Japanese and without a key, whatever logs and settings this
machine has. What every cell shows is read; the cells tagged nbval-check-output show what is stored (`make gallery` stores it)."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]

# Nobody reads this on a screen: a hole in a table, a number that is none, a number of criteria that may be another (but for the
# specification's prompt, which has six).
NEVER = re.compile(r"<NA>|&lt;NA&gt;|\bnan\b|\bNaN\b|\bNaT\b|Traceback|6つの観点(?!から回答を評価)|6観点")

# What differs from time to time, and from machine to machine, in what is otherwise the same.
PASSING = {
    rf"{re.escape(str(ROOT))}/": "",
    rf"{re.escape(tempfile.gettempdir())}/(?:tmp|socjudge-)\w+/": "",
    r"Styler at 0x[0-9a-f]+": "Styler",
}
LOOKS = {r"<style[^<]*</style>": "", r"<(/?\w+)\s[^<>]*>": r"<\1>"}  # of a table: not compared


def _is_cell(item: pytest.Item) -> bool:
    return item.path.suffix == ".ipynb"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    notebook: Any = item.parent
    if not _is_cell(item) or notebook.kernel is not None:
        return (yield)
    project = tempfile.TemporaryDirectory(prefix="socjudge-", ignore_cleanup_errors=True)
    shutil.copytree(ROOT / "eval", Path(project.name) / "eval")
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.endswith(("_API_KEY", "_BASE_URL"))]:
            patch.delenv(name)
        patch.setenv("SOCJUDGE_HOME", project.name)
        patch.setenv("SOCJUDGE_LANG", "ja")
        done = yield  # starts the kernel
    notebook.addfinalizer(project.cleanup)
    notebook.sanitize_patterns |= PASSING | LOOKS
    return done


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: Any) -> Iterator[None]:
    done = yield
    if _is_cell(item):
        shown = [output.get("data", {}) for output in item.test_outputs]
        texts = [output.text for output in item.test_outputs if "text" in output]
        texts += [str(text) for data in shown for kind, text in data.items() if kind.startswith("text/")]
        assert not NEVER.findall("\n".join(texts)), item.cell.source
        # Every chart is shown: a second one was not, when the first one's clean-up took the kernel's interactive mode back.
        drawn = len(re.findall(r"sj\.(?:charts\.)?plot_\w+\(", item.cell.source))
        assert sum("image/png" in data for data in shown) == drawn, item.cell.source
    return done
