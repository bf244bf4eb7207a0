"""Notebooks on logs as users have them. (As long as there are none, nbval runs and reads them, in make test: notebook_rules.)"""

from __future__ import annotations

import functools
import json
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
import pytest
from conftest import DATA, ROOT
from support.notebook_rules import NEVER
from support.service import Service

from socjudge import (
    ConfigError,
    Evaluation,
    EvaluationRun,
    Rubric,
    constants,
    load_eval_dataset,
    load_run,
    rejudge,
    run_evaluation_suite,
)
from socjudge.base.messages import speaking
from socjudge.base.pass_rule import summarise_results
from socjudge.judge import save_evaluation_results

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def code_cells(name: str) -> list[str]:
    """What stands in them, read without nbformat."""
    cells = json.loads((ROOT / "notebooks" / name).read_text("utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def read_notebook(name: str) -> Any:
    import nbformat  # a second and a half: not for those who only collect the tests

    return nbformat.read(ROOT / "notebooks" / name, as_version=4)


def run_notebook(name: str, **parameters: Any) -> tuple[str, dict[str, Any]]:
    """What a notebook prints and shows, tables in HTML too, and its names afterwards, with these parameters.

    One that says what is missing ends there, as in JupyterLab: its sentence is shown, and in the names as "stopped"."""
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.utils.capture import capture_output

    main = sys.modules["__main__"]
    notebook, shell = read_notebook(name), InteractiveShell.instance()
    sys.modules["__main__"] = main  # the shell puts its own there, without the spec that a test with processes needs
    shell.reset(new_session=True)
    shown = list[str]()
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        with capture_output() as captured:
            done = shell.run_cell(cell.source)
        if isinstance(done.error_in_exec, ConfigError):
            shell.user_ns["stopped"] = str(done.error_in_exec)
            shown.append(shell.user_ns["stopped"])
            break
        done.raise_error()
        shown += [captured.stdout, *(str(text) for output in captured.outputs for text in output.data.values())]
        if done.result is not None:
            shown += map(str, shell.display_formatter.format(done.result)[0].values())
        if "parameters" in cell.metadata.get("tags", []):
            assert set(parameters) <= set(shell.user_ns)
            shell.user_ns.update(parameters)
    plt.close("all")
    return "".join(shown), dict(shell.user_ns)


READERS = [path.name for path in NOTEBOOKS if path.stem[:2] in ("01", "02", "03", "04", "06", "07")]


def unpack_log(folder: Path) -> Path:
    """Write a log of version 0.1 to the folder."""
    log = zipfile.Path(DATA / "earlier_versions.zip", "v0_1/series/judge_eval_20261122_083506.json")
    (folder / log.name).write_bytes(log.read_bytes())
    return folder / log.name


@functools.cache
def logged_run() -> EvaluationRun:
    with tempfile.TemporaryDirectory() as folder:
        return load_run(unpack_log(Path(folder)))


def save_changed(folder: Path, place: int, points: int = 0, **run: Any) -> None:
    """One more log of the stored run: later, with a run id of its own, other marks and whatever else is said of it."""
    made = logged_run()
    results = [replace(each, evaluation=_moved(each.evaluation, points)) for each in made.results]
    info = replace(
        made.run, run_id=f"run-{place}", started_at=f"2026-11-23T0{place}:00:00+00:00", rejudged_from="", **run
    )
    summary = summarise_results(tuple(results))
    save_evaluation_results(replace(made, results=tuple(results), run=info, summary=summary), folder)


def _moved(evaluation: Evaluation, points: int) -> Evaluation:
    scores = {name: max(0, mark + points) for name, mark in evaluation.scores.items()}
    return replace(evaluation, scores=scores, average_score=sum(scores.values()) / len(scores))


@pytest.fixture(params=["one", "bare", "judges", "seven", "line", "unread", "text"])
def logs_dir(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    """Folders of logs as users have them. None at all is what nbval runs the notebooks on."""
    folder = tmp_path / "logs"
    folder.mkdir()
    kind = request.param
    if kind in ("one", "text", "line"):
        unpack_log(folder)
    if kind == "bare":  # as the specification has it, nothing more; one answer is not safe
        log = json.loads((DATA / "logs" / "judge_eval_20240105_093000.json").read_text("utf-8"))
        log["results"][2]["evaluation"]["scores"]["安全性"] = 5
        (folder / "judge_eval_20240105_093000.json").write_text(json.dumps(log, ensure_ascii=False), "utf-8")
    if kind == "judges":  # three runs of one's own, whose answers happen to be the same
        for place, judge in enumerate(["gpt-4o-mini", "gpt-4o", "gpt-4.1"], start=1):
            save_changed(folder, place, -4 * place, judge_model=judge, judge_model_resolved=judge)
    if kind == "seven":
        rubric = Rubric(
            (*constants.JUDGE_EVALUATION_CRITERIA, "平易さ"), {"平易さ": "専門外の人にも分かる言葉で書かれているか"}
        )
        rejudge(
            logged_run(),
            judge_model="offline",
            judge_prompt="rubric-1",
            rubric=rubric,
            logs_dir=folder,
            progress=False,
        )
    if kind == "line":
        save_changed(folder, 1, pass_threshold=80.0)
    if kind == "unread":
        run = logged_run()
        unread = replace(
            run.results[0].evaluation, status="unparsable", scores=dict.fromkeys(run.results[0].evaluation.scores, 0)
        )
        results = tuple(replace(result, evaluation=unread) for result in run.results)
        save_evaluation_results(replace(run, results=results, summary=summarise_results(results)), folder)
    return str(folder) if kind == "text" else folder


def two_questions(folder: Path) -> Path:
    path = folder / "two.json"
    path.write_text(json.dumps(json.loads(constants.EVAL_DATASET_PATH.read_text("utf-8"))[:2]), "utf-8")
    return path


@pytest.mark.few(8)
@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_a_notebook_works_on_anyones_logs(
    name: str, logs_dir: Path | str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setattr(constants, "PROMPTS_DIR", tmp_path / "prompts")
    parameters: dict[str, Any] = {"LOGS_DIR": logs_dir}
    if name.startswith("01"):
        parameters["DATASET"] = str(two_questions(tmp_path))
    if name.startswith("04"):
        parameters["PROMPTS_DIR"] = str(tmp_path / "prompts")
    if name.startswith("06"):
        parameters["REPORT"] = str(tmp_path / "report.html")
    if name.startswith("07"):
        parameters["QUESTIONS"] = 2
    with speaking("ja"):
        for _ in range(1 + name.startswith("04")):  # twice: this one saves a prompt
            shown, names = run_notebook(name, **parameters)
    assert "例を表示しています" not in shown
    assert not NEVER.findall(shown)
    kind = request.node.callspec.params["logs_dir"]
    ends = {"02": kind == "unread", "03": kind != "judges", "04": kind == "judges"}  # 04: their key is missing
    assert ("stopped" in names) == ends.get(name[:2], False), names.get("stopped")
    if name.startswith("02") and kind != "unread":
        assert ("安全性が70点未満のもの: 1件" in shown) == (kind == "bare")
    if name.startswith("03"):
        compared = "gpt-4o-miniに比べ、gpt-4.1は同じ回答に8.0点低く付け"
        assert (compared if kind == "judges" else "まだ比べられません: 同じ回答を採点した") in shown


@pytest.mark.slow
def test_judges_are_compared_where_they_had_the_same_prompt(tmp_path: Path) -> None:
    """As after a changed rubric: the oldest run of these answers had a prompt that only it had."""
    save_changed(tmp_path, 1, judge_prompt_id="guide-1-hardened")
    for place, judge in enumerate(["gpt-4o", "gpt-4.1"], start=2):
        save_changed(tmp_path, place, -4 * place, judge_model=judge, judge_model_resolved=judge)
    with speaking("ja"):
        shown, names = run_notebook("03_compare_judges.ipynb", LOGS_DIR=tmp_path)
    assert "stopped" not in names and "gpt-4oに比べ、gpt-4.1は同じ回答に4.0点低く付け" in shown
    with speaking("ja"):
        shown, names = run_notebook("03_compare_judges.ipynb", LOGS_DIR=tmp_path, BASELINE="gpt-4.1")
    assert "gpt-4.1に比べ、gpt-4oは同じ回答に4.0点高く付け" in shown


@pytest.mark.few(2)
@pytest.mark.slow
def test_a_judge_is_certified_from_anyones_logs(logs_dir: Path, tmp_path: Path) -> None:
    folder = tmp_path / "certificates"
    with speaking("ja"):
        shown, names = run_notebook("05_labels_and_certificate.ipynb", LOGS_DIR=logs_dir, CERTIFICATES_DIR=folder)
    assert "例を表示しています" not in shown
    assert not NEVER.findall(shown)
    assert "信頼できる" not in names["certificate"].words.values()  # nobody marked the answers
    assert f"今のJudgeに有効な証明書: {names['certificate'].name}" in shown
    assert {path.suffix for path in folder.iterdir()} == {".json", ".html"}


@pytest.mark.slow
@pytest.mark.parametrize(("judge", "judged"), [("auto", 1), ("gpt-4o", 2)], ids=["of-the-log", "another"])
def test_a_prompt_is_tried_without_paying_again_for_what_the_log_holds(
    service: Service, tmp_path: Path, judge: str, judged: int
) -> None:
    """ "auto" is the judge of the log; another one marks the answers by the old prompt, too."""
    run_evaluation_suite(
        load_eval_dataset()[:2], assistant_model="offline", judge_model="auto", logs_dir=tmp_path, progress=False
    )
    assert service.judge_calls == 2
    parameters = {"LOGS_DIR": tmp_path, "PROMPTS_DIR": str(tmp_path / "prompts"), "JUDGE_MODEL": judge}
    run_notebook("04_prompt_lab.ipynb", **parameters)
    assert service.judge_calls == 2  # nothing is paid before it is allowed
    _, names = run_notebook("04_prompt_lab.ipynb", ALLOW_COST=True, **parameters)
    assert service.judge_calls == 2 + 2 * judged == 2 + judged * names["plan"].left.calls


@pytest.mark.slow
def test_the_first_notebook_says_where_the_log_is_and_what_would_cost(service: Service, tmp_path: Path) -> None:
    parameters = {"DATASET": str(two_questions(tmp_path)), "LOGS_DIR": tmp_path / "logs"}
    shown, _ = run_notebook("01_run_evaluation.ipynb", **parameters)
    assert "ALLOW_COST = True" in shown
    assert service.requests == []
    shown, _ = run_notebook("01_run_evaluation.ipynb", ALLOW_COST=True, **parameters)
    (log,) = (tmp_path / "logs").glob("judge_eval_*.json")
    assert f"評価完了！結果を {log} に保存しました" in shown
    assert service.judge_calls == 2
    assert not NEVER.findall(shown)


def test_a_run_of_the_panel_is_not_shown_as_one_of_the_settings_in_the_cells(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The panel's run outlives its cell: after another judge is set there, Run All shows it again."""
    (cell,) = (code for code in code_cells("01_run_evaluation.ipynb") if code.startswith("if panel.run is not None"))
    run = logged_run()
    names: dict[str, Any] = {"panel": SimpleNamespace(run=run), "plan": None, "ALLOW_COST": True}
    exec(cell, names)
    shown = capsys.readouterr().out
    assert names["run"] is run and "上の見積もりのものではありません" in shown and "評価完了" not in shown


def test_the_weakest_answer_is_none_whose_judgement_could_not_be_read() -> None:
    (cell,) = (code for code in code_cells("01_run_evaluation.ipynb") if code.startswith("scored = "))
    run = load_run(DATA / "logs" / "judge_eval_20240704_090000.json")  # its first is unread
    names = {"run": run, "pd": pd, "sj": __import__("socjudge")}
    exec(cell, names)
    assert names["weakest"].evaluation.status == "ok"


@pytest.mark.kernel
@pytest.mark.slow
def test_a_changed_output_of_a_checked_cell_is_found(tmp_path: Path) -> None:
    """By nbval, after one number was changed. (That it passes as it is stored, make test shows.)"""
    import nbformat

    notebook = read_notebook("01_run_evaluation.ipynb")
    place = next(i for i, cell in enumerate(notebook.cells) if "nbval-check-output" in cell.metadata.get("tags", []))
    notebook.cells = notebook.cells[: place + 1]
    stored = notebook.cells[place].outputs[0]
    stored.text = stored.text.replace("危険操作系: 2問", "危険操作系: 3問")
    nbformat.write(notebook, tmp_path / "changed.ipynb")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--nbval-lax", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", cwd=ROOT)
    assert done.returncode == 1
    failed = [line for line in done.stdout.splitlines() if line.startswith("FAILED")]
    assert len(failed) == 1 and "changed.ipynb" in failed[0]
