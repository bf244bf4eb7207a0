"""A project of one's own on an installed package: its settings in one file, no line of Python, and every command agrees."""

from __future__ import annotations

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from conftest import ANSWER, ROOT
from report_logs import words
from service import KEY, Service, is_judge_call, judgement_of, serving

pytestmark = pytest.mark.slow

SETTINGS = """[rubric]
criteria = ["根拠性", "正確性", "網羅性", "安全性", "引用明示", "簡潔性", "迅速性"]
pass_threshold = 80.0
pass_rate = 0.5
[rubric.descriptions]
"迅速性" = "着手までの時間が示されているか"
[dataset]
categories = ["連絡系", "正常系"]
[defaults]
judge_model = "my-judge"
assistant_model = "offline"
max_cost_usd = 0.50
language = "ja"
[report]
title = "わが社のボット"
[prices."my-judge"]
input = 1.0
output = 2.0
"""
QUESTIONS = [
    {"id": 1, "category": "連絡系", "question": "マルウェアを検知しました。誰に連絡しますか。", "expected_keypoints": ["SOCリーダー"]},
    {"id": 2, "category": "正常系", "question": "マルウェア検知アラートの初動を教えてください。", "expected_keypoints": ["端末の隔離"]},
]  # fmt: skip


@pytest.fixture
def judge() -> Iterator[Service]:
    """A judge that gives each criterion that it is asked for 75 points, and 迅速性 96."""
    marks = {"迅速性": 96, "": 75}
    with serving(lambda request: judgement_of(request, marks) if is_judge_call(request) else ANSWER) as running:
        yield running


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """The package as a wheel lays it out, outside of any checkout."""
    place = tmp_path / "site-packages"
    shutil.copytree(ROOT / "socjudge", place / "socjudge", ignore=shutil.ignore_patterns("__pycache__"))
    for pattern in runpy.run_path(str(ROOT / "setup.py"), run_name="read")["CARRIED"]:
        for path in ROOT.glob(pattern):
            target = place / "socjudge" / "example" / path.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
    return place


def test_a_rubric_of_ones_own_holds_in_every_command_without_a_line_of_python(
    package: Path, tmp_path: Path, judge: Service
) -> None:
    keep = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI_", "SOCJUDGE_"))}
    service = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": judge.base_url}

    def socjudge(*arguments: str, code: int = 0, **environment: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "socjudge", *arguments], capture_output=True, text=True, timeout=120,
            cwd=project if project.is_dir() else tmp_path, stdin=subprocess.DEVNULL,
            env={**keep, "PYTHONPATH": str(package), **environment},
        )  # fmt: skip
        assert done.returncode == code, (arguments, done)
        assert "Traceback" not in done.stderr
        return done.stdout

    project = tmp_path / "mine"
    socjudge("init", "mine", "--empty")
    shutil.copy(ROOT / "eval" / "runbooks" / "malware_response.md", project / "eval" / "runbooks")
    (project / "eval" / "eval_dataset.json").write_text(json.dumps(QUESTIONS, ensure_ascii=False), "utf-8")
    (project / "socjudge.toml").write_text(SETTINGS, "utf-8")
    assert "連絡系 1、正常系 1" in socjudge("check-dataset")
    assert re.search(r"rubric.pass_threshold +80 ", socjudge("settings"))

    socjudge("run", "--yes", "--quiet", code=2)  # no key: the judge that the file names is not replaced
    # (6 × 75 + 96) / 7 = 78: passed at the specification's 70 points, not at this project's 80.
    ran = socjudge("run", "--yes", "--quiet", code=1, **service)
    again = socjudge("rejudge", str(_logs(project)[0]), "--yes", "--quiet", code=1, **service)
    for told in (ran, again):
        assert "❌ MVP不合格" in told and "2問中1問以上が平均80点以上" in told and "78.0" in told
    prompts = {request["messages"][0]["content"] for request in judge.requests if request["model"] == "my-judge"}
    assert len(prompts) == 2 and all("7つの観点" in text and "7. **迅速性**" in text for text in prompts)

    first, second = _logs(project)
    for log in (first, second):
        run = json.loads(log.read_text("utf-8"))
        assert list(run["results"][0]["evaluation"]["scores"])[-1] == "迅速性"
        assert (run["run"]["pass_threshold"], run["run"]["judge_prompt_id"]) == (80, "rubric-1")
        assert run["run"]["rubric"]["descriptions"] == {"迅速性": "着手までの時間が示されているか"}
        assert run["run"]["project"] == "mine" and len(run["run"]["settings_sha256"]) == 64

    # A changed mind: the runs keep what they were judged by, in every view.
    (project / "socjudge.toml").write_text(SETTINGS.replace("80.0", "60.0").replace("0.5\n", "0.9\n", 1), "utf-8")
    socjudge("doctor")
    socjudge("report", "page.html", code=0)
    page = words((project / "page.html").read_text("utf-8"))
    assert "❌ MVP不合格" in page and "平均80点以上" in page and "わが社のボット" in page and "迅速性" in page
    assert "平均60点" not in page
    compared = socjudge("compare", first.name, second.name)
    assert "変化なし" in compared and "60" not in compared
    socjudge("history", "export", "export")
    runs = pd.concat([pd.read_parquet(path) for path in (project / "export" / "runs").rglob("*.parquet")])
    assert runs["pass_threshold"].tolist() == [80, 80] and not runs["mvp_passed"].any()
    kept = socjudge("rejudge", str(first), "--yes", "--quiet", code=1, **service)
    assert "平均80点以上" in kept


def _logs(project: Path) -> list[Path]:
    return sorted((project / "logs").glob("judge_eval_*.json"))
