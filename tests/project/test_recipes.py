"""The recipes of docs/reference.md do what they say."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from conftest import ROOT

import socjudge as sj
from socjudge import constants

SECTION = (ROOT / "docs" / "reference.md").read_text("utf-8").split("\n## Recipes\n")[1].split("\n## ")[0]
RECIPES = {
    title.strip(): re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    for title, _, text in (part.partition("\n") for part in SECTION.split("\n### ")[1:])
}


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a dataset and the logs of two runs, in which the recipes are run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(constants, "LOGS_DIR", tmp_path / "logs")
    (tmp_path / "logs").mkdir()
    for log in sorted((ROOT / "eval" / "examples" / "judges").glob("judge_eval_*.json"))[:2]:
        shutil.copy(log, tmp_path / "logs")
    return tmp_path


def run(title: str) -> dict[str, Any]:
    """What the names of the recipe stand for after it was run."""
    names: dict[str, Any] = {}
    (code,) = RECIPES[title]
    exec(compile(code, title, "exec"), names)
    return names


@pytest.mark.parametrize("title", RECIPES)
def test_a_recipe_has_at_most_ten_lines(title: str) -> None:
    assert all(len(code.strip().splitlines()) <= 10 for code in RECIPES[title])


def test_the_scores_of_another_tool_are_compared_with_those_of_a_judge(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    questions = sj.load_eval_dataset()[:3]
    monkeypatch.setattr(sj, "load_eval_dataset", lambda: questions)
    scores: list[dict[str, float | None]] = [
        {"安全性": 0.9, "簡潔性": 1},
        {"安全性": None, "簡潔性": 0.5},
        {"簡潔性": 0},
    ]
    theirs = [
        {"id": question.id, "answer": f"端末を隔離します（{question.id}）。", "scores": marks, "latency": 1.5}
        for question, marks in zip(questions, scores, strict=True)
    ]
    (project / "theirs.json").write_text(json.dumps(theirs, ensure_ascii=False), encoding="utf-8")
    frame = run("Another tool's scores as a frame")["scores"]
    mine = frame[frame["judge_model"] == "their-tool"].set_index(["question_id", "criterion"])["score"]
    assert mine.dropna().to_dict() == {(1, "安全性"): 90, (1, "簡潔性"): 100, (2, "簡潔性"): 50, (3, "簡潔性"): 0}
    compared = sj.compare_judges(frame, baseline="their-tool").set_index("criterion")
    assert compared["n"].to_dict()["簡潔性"] == 3 and compared["n"].to_dict()["安全性"] == 1
    assert compared["baseline_mean"]["簡潔性"] == 50


def test_answers_go_to_a_spreadsheet_and_come_back_as_labels(project: Path) -> None:
    run("Answers for people to score in a spreadsheet")
    rows = pd.read_csv(project / "marks.csv", dtype=str)
    scores = sj.load_scores(project / "logs")
    assert rows[["answer_sha256", "criterion"]].nunique().tolist() == [scores["answer_sha256"].nunique(), 1]
    rows.assign(rater="佐藤", score=40).to_csv(project / "marks.csv", index=False, encoding="cp932", errors="replace")
    labels = sj.history.load_labels(project / "marks.csv")
    assert labels["score"].eq(40).all() and len(labels) == len(rows)
    agreement = sj.stats.pairwise_agreement(scores, labels)
    compared = agreement.loc[agreement["second"] == "佐藤", "first"]
    assert set(compared) == set(scores["judge_model"])


def test_a_text_that_a_spreadsheet_would_run_is_kept_from_it(project: Path) -> None:
    (path, *_) = (project / "logs").glob("judge_eval_*.json")
    log = json.loads(path.read_text("utf-8"))
    log["results"][0] |= {"answer": "=1+1", "answer_sha256": "0" * 64}
    path.write_text(json.dumps(log), "utf-8")
    run("Answers for people to score in a spreadsheet")
    assert (pd.read_csv(project / "marks.csv")["answer"] == "'=1+1").sum() == 1


def test_frames_are_saved_for_other_programs(project: Path) -> None:
    run("Frames for other programs")
    scores = sj.load_scores(project / "logs")
    kept, text = pd.read_parquet(project / "scores.parquet"), pd.read_csv(project / "scores.csv")
    for frame in (kept, text):
        assert frame["score"].astype(float).tolist() == scores["score"].astype(float).tolist()
        assert list(frame.columns) == list(scores.columns)
