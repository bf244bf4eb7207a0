"""A model of somebody's own: the example of docs/reference.md, given as an object and by the name of an entry point."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT

import socjudge as sj
from socjudge.models.opening import _own_model
from socjudge.records import Completion, ModelRequest, Passage

QUESTION = sj.EvalQuestion(1, "正常系", "感染端末の初動は？", ("端末の隔離",))
CITED = sj.AssistantAnswer(QUESTION.question, "隔離します。", "隔離する。", (Passage("隔離する。", "a.md", "初動"),))


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder as pip would leave it, with the page's class and its entry point."""
    page = (ROOT / "docs" / "reference.md").read_text("utf-8").split("## A model of your own")[1]
    code, entry = (re.search(rf"```{kind}\n(.*?)```", page, re.DOTALL)[1] for kind in ("python", "toml"))  # type: ignore[index]
    folder = tmp_path / "site"
    (folder / "house_judge-1.dist-info").mkdir(parents=True)
    (folder / "house_judge.py").write_text(code, encoding="utf-8")
    (folder / "house_judge-1.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: house-judge\nVersion: 1\n"
    )
    line = entry.splitlines()[1].replace('"', "")
    (folder / "house_judge-1.dist-info" / "entry_points.txt").write_text(
        f"[socjudge.models]\n{line}\nbroken = house_judge:No\n"
    )
    monkeypatch.syspath_prepend(folder)
    _own_model.cache_clear()
    yield folder
    sys.modules.pop("house_judge", None)
    _own_model.cache_clear()


def test_the_example_of_the_page_judges_as_an_object_and_by_its_name(installed: Path) -> None:
    from house_judge import HouseJudge  # type: ignore[import-not-found]

    for judge in (HouseJudge(), "house-judge"):
        marks = sj.evaluate_answer(QUESTION, CITED, model=judge)
        assert (marks.status, marks.average_score, marks.model) == ("ok", 80, "house-judge")


def test_a_name_works_behind_an_executor(installed: Path, tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as workers:
        run = sj.run_evaluation_suite(
            [QUESTION], answers=[CITED], judge_model="house-judge", max_cost_usd=0.01, logs_dir=tmp_path,
            options=sj.RunOptions(executor=workers), progress=False,
        )  # fmt: skip
    assert (run.summary.average_score, run.judge_model, run.cost_usd) == (80, "house-judge", 0)


def test_a_name_that_cannot_be_loaded_says_what_its_package_names(installed: Path) -> None:
    with pytest.raises(sj.ConfigError, match=r"'broken' cannot be set up: house_judge:No: AttributeError"):
        sj.evaluate_answer(QUESTION, CITED, model="broken")


@pytest.mark.slow
def test_the_command_line_takes_the_name(installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{installed}")
    command = [
        sys.executable,
        "-m",
        "socjudge",
        "run",
        "-y",
        "--judge-model",
        "house-judge",
        "--assistant-model",
        "offline",
    ]
    told = subprocess.run([*command, "--logs-dir", str(tmp_path)], capture_output=True, text=True, cwd=ROOT)
    assert sj.load_run(next(tmp_path.glob("judge_eval_*.json"))).judge_model == "house-judge", told.stderr


@pytest.mark.slow
def test_the_material_is_what_the_request_says(samples: Path) -> None:
    asked: dict[str, Any] = {}

    class Listens:
        name, settings = "listens", ""

        def complete(self, request: ModelRequest) -> Completion:
            asked[request.task] = request.material
            raise sj.ConfigError("heard")

    for ask in (
        lambda: sj.evaluate_answer(QUESTION, CITED, model=Listens()),
        lambda: sj.handle_query(QUESTION.question, model=Listens()),
    ):
        with pytest.raises(sj.ConfigError, match="heard"):
            ask()
    for task, who in (("judge", "For a judge:"), ("answer", "For an assistant:")):
        told = " ".join((ModelRequest.__doc__ or "").split()).split(who)[1].partition(".")[0]
        names = re.findall(r"[a-z]+", re.sub("also |and |, which .*", "", told))
        assert set(asked[task]) == set(names)
