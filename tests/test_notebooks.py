"""Charts in a real kernel: each cell that draws shows its picture. (nbval runs the notebooks themselves, in make test.)"""

from __future__ import annotations

import nbformat
import pytest
from conftest import ROOT
from nbclient import NotebookClient

pytestmark = pytest.mark.kernel

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def test_every_chart_of_a_notebook_is_shown() -> None:
    """As the second of two charts was not, when the first one's clean-up took the kernel's interactive mode back."""
    for path in NOTEBOOKS:
        if not path.name.startswith(("02", "04")):
            continue
        notebook = nbformat.read(path, as_version=4)
        NotebookClient(
            notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": path.parent}}
        ).execute()
        for cell in notebook.cells:
            if cell.cell_type == "code" and "sj.plot_" in cell.source:
                shown = [output for output in cell.outputs if "image/png" in output.get("data", {})]
                assert len(shown) == cell.source.count("sj.plot_"), cell.source
