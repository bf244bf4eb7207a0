"""Charts in a real kernel: each cell that draws shows its picture. (nbval runs the notebooks themselves, in make test.)"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import nbformat
import pandas as pd
import pytest
from conftest import ROOT
from nbclient import NotebookClient
from service import Service

from socjudge import EvalQuestion, load_run, run_evaluation_suite
from socjudge.runbooks.index import RunbookIndex

pytestmark = pytest.mark.kernel

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def test_the_weakest_answer_is_none_whose_judgement_could_not_be_read() -> None:
    notebook = nbformat.read(ROOT / "notebooks" / "01_run_evaluation.ipynb", as_version=4)
    cell = next(cell.source for cell in notebook.cells if cell.source.startswith("scored = "))
    run = load_run(ROOT / "tests" / "data" / "logs" / "judge_eval_20240704_090000.json")  # its first is unread
    names = {"run": run, "pd": pd, "display": lambda _: None}
    exec(cell, names)
    assert names["weakest"].evaluation.status == "ok"
    exec(cell, names | {"run": replace(run, results=())})


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


@pytest.mark.parametrize("name", ["02_criterion_trends", "03_category_breakdown", "04_compare_judges"])
def test_a_history_whose_only_run_has_no_score_is_told_in_words(
    name: str, tmp_path: Path, service: Service, index: RunbookIndex, questions: list[EvalQuestion]
) -> None:
    service.default = "読めない"
    run_evaluation_suite(
        questions[:2],
        index=index,
        assistant_model="offline",
        judge_model="gpt-4o-mini",
        logs_dir=tmp_path,
        progress=False,
    )
    notebook = nbformat.read(ROOT / "notebooks" / f"{name}.ipynb", as_version=4)
    cell = next(cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", ()))
    cell.source += f"\nfrom pathlib import Path\nLOGS_DIR = Path({str(tmp_path)!r})"
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": ROOT / "notebooks"}}).execute()
    said = [output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", ())]
    assert any("採点できた回答が" in text or "2通りに採点した記録がありません" in text for text in said)
