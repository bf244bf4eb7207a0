"""The settings of a project on the command line: shown, written by init, told where they are wrong; and its pages served."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT
from typer.testing import CliRunner

import socjudge as sj
from socjudge import constants, settings
from socjudge.cli.app import app

BAD = "[rubric]\npass_treshold = 80\n"
TOLD = r"socjudge.toml: there is no \[rubric\] pass_treshold; did you mean \[rubric\] pass_threshold\?"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """An empty project in the one in force until the test ends."""
    before = constants.PROJECT_DIR
    assert invoke("init", str(tmp_path / "mine"), "--empty").exit_code == 0
    constants.use_project(tmp_path / "mine")
    yield tmp_path / "mine"
    constants.use_project(before)


def invoke(*arguments: str) -> Any:
    return CliRunner().invoke(app, arguments)


def in_folder(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own, which finds the project from the folder that it is started in."""
    keep = {name: value for name, value in os.environ.items() if name not in ("SOCJUDGE_HOME", "OPENAI_API_KEY")}
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, cwd=folder, timeout=60,
        env={**keep, "PYTHONPATH": str(ROOT)}, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def test_settings_shows_each_value_and_where_it_comes_from(folder: Path) -> None:
    (folder / "socjudge.toml").write_text("[rubric]\npass_threshold = 80\n[defaults]\njudge_model='gpt-4o'", "utf-8")
    told = invoke("settings").output
    assert re.search(r"rubric.pass_threshold +80  \[socjudge.toml\]", told)
    assert re.search(r"rubric.pass_rate +0.7  \[built in\]", told)
    assert re.search(r"defaults.judge_model +gpt-4o  \[", told) and "auto (gpt-4o-mini where" in told
    assert told.count("  [") == len(settings.open_project().sources)


def test_a_new_project_has_every_setting_as_a_comment_and_each_may_be_taken_as_it_stands(folder: Path) -> None:
    written = (folder / "socjudge.toml").read_text("utf-8")
    assert written == settings.settings_file() and set(tomllib.loads(written)) == {
        "rubric",
        "dataset",
        "defaults",
        "report",
    }
    before = settings.open_project()
    assert set(before.sources.values()) == {"built-in"}
    (folder / "socjudge.toml").write_text(re.sub(r"(?m)^# (?=(\[|[a-z_]+ = ))", "", written), "utf-8")
    taken = sj.open_project(folder)
    changed = {name for name, value in taken.values.items() if value != before.values[name]}
    assert changed == {  # what an example had to be given for
        "rubric.judge_prompt", "defaults.answers", "defaults.judge_model", "defaults.assistant_model", "defaults.language",
        "report.title", "report.team",
    }  # fmt: skip
    assert {name for name, source in taken.sources.items() if source == "built-in"} == {"rubric.descriptions"}


@pytest.mark.few(2)
@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        ("-c", "import socjudge"), ("-m", "socjudge", "--help"), ("-m", "socjudge", "--version"),
        ("-m", "socjudge", "init", "other", "--empty"), ("-m", "socjudge", "doctor"), ("-m", "socjudge", "settings"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_a_bad_file_does_not_break_what_must_work_beside_it(folder: Path, command: tuple[str, ...]) -> None:
    for text in (BAD, "[rubric", "\udcff"):
        (folder / "socjudge.toml").write_text(text, "utf-8", errors="surrogateescape")
        done = in_folder(folder, *command)
        assert done.returncode == 0 and "Traceback" not in done.stderr, done
        if command[-1] in ("settings", "doctor"):
            assert "socjudge.toml" in done.stderr


@pytest.mark.slow
def test_a_bad_file_is_told_by_the_first_command_that_needs_it(folder: Path) -> None:
    (folder / "socjudge.toml").write_text(BAD, "utf-8")
    question = '[{"id": 1, "category": "正常系", "question": "初動は？", "expected_keypoints": ["隔離する"]}]'
    (folder / "eval" / "eval_dataset.json").write_text(question, "utf-8")
    done = in_folder(folder, "-m", "socjudge", "run", "--yes")
    assert done.returncode == 2 and re.search(TOLD, done.stderr), done
    assert "Traceback" not in done.stderr


def test_the_version_is_told() -> None:
    told = invoke("--version")
    assert (told.exit_code, told.output) == (0, f"socjudge {sj.__version__}\n")


@pytest.mark.slow
def test_the_shell_can_complete_a_command(tmp_path: Path) -> None:
    asked = {"_SOCJUDGE_COMPLETE": "complete_bash", "COMP_WORDS": "socjudge rej", "COMP_CWORD": "1"}
    done = subprocess.run(
        [sys.executable, "-c", "from socjudge.cli.app import main; main()"], capture_output=True, text=True,
        env={**os.environ, **asked}, cwd=tmp_path, check=True,
    )  # fmt: skip
    assert done.stdout.split() == ["rejudge"]


def test_the_panels_are_served_from_the_project_with_what_keeps_them_safe(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = []

    class Server:
        def __init__(self, command: list[str], *, cwd: Path, env: dict[str, str]) -> None:
            started.append((command[1:], cwd, env["SOCJUDGE_HOME"]))

        def wait(self) -> int:
            return 3

    monkeypatch.setattr("subprocess.Popen", Server)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    (folder / "notebooks" / "voila.json").unlink()
    assert invoke("app", "--theme=dark").exit_code == 3
    assert started == [(["-m", "voila", "app.ipynb", "--theme=dark"], folder / "notebooks", str(folder))]
    safe = (folder / "notebooks" / "voila.json").read_text("utf-8")
    assert '"ip": "127.0.0.1"' in safe and '"auto_token": true' in safe
    (folder / "notebooks" / "app.ipynb").unlink()
    refused = invoke("app")
    assert refused.exit_code == 2 and "--empty` adds them" in refused.output


def test_panels_that_cannot_be_served_say_what_to_install(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    refused = invoke("app")
    assert refused.exit_code == 2 and "pip install 'socjudge[lab]'" in refused.output
