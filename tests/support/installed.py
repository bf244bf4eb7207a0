"""A project of one's own on a package that is laid out as by a wheel: one socjudge.toml, and a judge on loopback."""

from __future__ import annotations

import json
import os
import runpy
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from conftest import ANSWER, ROOT

from support.service import KEY, Service, is_judge_call, judgement_of, serving

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
k = 7
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


@contextmanager
def judging() -> Iterator[Service]:
    """A judge that gives each criterion that it is asked for 75 points, and 迅速性 96."""
    marks = {"迅速性": 96, "": 75}
    with serving(lambda request: judgement_of(request, marks) if is_judge_call(request) else ANSWER) as running:
        yield running


@dataclass(frozen=True)
class Installed:
    """A project folder and where the package is that its commands use."""

    project: Path
    package: Path

    def environment(self, judge: Service | None = None) -> dict[str, str]:
        """Of this process, but for what it says of services and projects. judge: the service that is configured."""
        keep = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI_", "SOCJUDGE_"))}
        service = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": judge.base_url} if judge else {}
        return {**keep, "PYTHONPATH": str(self.package), **service}

    def socjudge(self, *arguments: str, judge: Service | None = None, code: int = 0) -> str:
        """What the command prints; it must end with that code."""
        done = subprocess.run(
            [sys.executable, "-m", "socjudge", *arguments], capture_output=True, text=True, timeout=120,
            cwd=self.project, stdin=subprocess.DEVNULL, env=self.environment(judge),
        )  # fmt: skip
        assert done.returncode == code, (arguments, done)
        assert "Traceback" not in done.stderr
        return done.stdout

    @property
    def logs(self) -> list[Path]:
        return sorted((self.project / "logs").glob("judge_eval_*.json"))


def install(folder: Path) -> Installed:
    """The package outside of any checkout, and a project `mine` with one runbook, two questions and `SETTINGS`."""
    made = Installed(folder / "mine", folder / "site-packages")
    shutil.copytree(ROOT / "socjudge", made.package / "socjudge", ignore=shutil.ignore_patterns("__pycache__"))
    for pattern in runpy.run_path(str(ROOT / "setup.py"), run_name="read")["CARRIED"]:
        for path in ROOT.glob(pattern):
            target = made.package / "socjudge" / "example" / path.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
    made.project.mkdir()
    made.socjudge("init", ".", "--empty")
    shutil.copy(ROOT / "eval" / "runbooks" / "malware_response.md", made.project / "eval" / "runbooks")
    (made.project / "eval" / "eval_dataset.json").write_text(json.dumps(QUESTIONS, ensure_ascii=False), "utf-8")
    (made.project / "socjudge.toml").write_text(SETTINGS, "utf-8")
    return made
