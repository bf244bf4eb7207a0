"""An evaluation project of one's own: what `socjudge init` lays out, and how a project is found."""

from __future__ import annotations

import json
import os
import re
import runpy
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
from socjudge import constants, load_eval_dataset, load_prompt, settings
from socjudge.cli.app import app
from socjudge.cli.project import _files


def init(*arguments: str | Path) -> str:
    done = CliRunner().invoke(app, ["init", *map(str, arguments)])
    assert done.exit_code == 0, done.output
    return done.output


def project_seen_from(folder: Path, **environment: str) -> Path:
    code = "from socjudge import constants; print(constants.PROJECT_DIR)"
    keep = {name: value for name, value in os.environ.items() if name != "SOCJUDGE_HOME"}
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=folder,
        env={**keep, "PYTHONPATH": str(ROOT), **environment},
    )  # fmt: skip
    return Path(found.stdout.strip())


@pytest.fixture
def back() -> object:
    """Commands of this test choose a project; the tests after it have the checkout's again."""
    before = constants.PROJECT_DIR
    yield
    constants.use_project(before)


def test_init_lays_out_a_project_that_answers_for_itself(tmp_path: Path, back: None) -> None:
    project = tmp_path / "わたしの 評価"
    assert "an evaluation project" in init(project)
    done = CliRunner().invoke(app, ["--project", str(project), "doctor"])
    assert (done.exit_code, done.stdout) == (0, "0 errors, 0 warnings, 0 notes\n")
    assert project / "logs" == constants.LOGS_DIR
    assert len(load_eval_dataset()) == 10
    assert load_prompt("strict-1").text
    assert (project / "eval/runbooks/malware_response.md").read_bytes() == (
        ROOT / "eval/runbooks/malware_response.md"
    ).read_bytes()
    assert "socjudge run" in (project / "README.md").read_text("utf-8")


@pytest.mark.slow
def test_from_outside_of_the_project_the_log_is_named_in_full(
    tmp_path: Path, back: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, one = tmp_path / "mine", tmp_path / "one.json"
    init(project)
    question = {"id": 1, "category": "正常系", "question": "隔離の手順は？", "expected_keypoints": ["端末を隔離する"]}
    one.write_text(json.dumps([question], ensure_ascii=False), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    run = ["--project", str(project), "run", "--quiet", "--dataset", str(one), "--judge-model", "offline"]
    assert f"結果を {project}/logs/judge_eval_" in CliRunner().invoke(app, run).output


def test_an_empty_project_has_the_places_and_says_what_is_missing(tmp_path: Path, back: None) -> None:
    init(tmp_path / "new", "--empty")
    assert sorted(path.name for path in (tmp_path / "new/eval/runbooks").iterdir()) == [
        "prohibitions.json", "questions.json", "synonyms.json",
    ]  # fmt: skip
    done = CliRunner().invoke(app, ["--project", str(tmp_path / "new"), "run"])
    assert done.exit_code == 2
    assert "add at least one" in done.output


def test_init_leaves_every_file_as_it_is_and_mixes_no_example_into_ones_own(tmp_path: Path) -> None:
    (tmp_path / "eval").mkdir()
    mine = tmp_path / "eval" / "eval_dataset.json"
    mine.write_text("mine", "utf-8")
    refused = CliRunner().invoke(app, ["init", str(tmp_path)])
    assert refused.exit_code == 2
    assert "--empty" in refused.output
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["eval", "eval_dataset.json"]
    assert "Left as they were: eval/eval_dataset.json" in init(tmp_path, "--empty")
    assert mine.read_text("utf-8") == "mine"
    assert (tmp_path / "socjudge.toml").is_file()


def test_init_says_where_it_cannot_write(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", "utf-8")
    done = CliRunner().invoke(app, ["init", str(tmp_path / "file")])
    assert done.exit_code == 2
    assert "cannot be made" in done.output


def test_a_project_is_found_from_the_working_directory_upwards(tmp_path: Path) -> None:
    init(tmp_path / "own", "--empty")
    deep = tmp_path / "own" / "notebooks"
    assert project_seen_from(deep) == tmp_path / "own"
    assert project_seen_from(ROOT / "notebooks") == ROOT
    assert project_seen_from(tmp_path) == ROOT, "an editable install falls back on its checkout"
    assert project_seen_from(deep, SOCJUDGE_HOME=str(tmp_path)) == tmp_path, "SOCJUDGE_HOME goes first"


@pytest.mark.slow
def test_a_command_outside_of_any_project_says_whose_it_uses(
    tmp_path: Path, back: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SOCJUDGE_HOME", raising=False)

    def stderr(*arguments: str) -> str:
        return CliRunner().invoke(app, [*arguments, "doctor"]).stderr

    assert "is in no evaluation project" not in stderr()
    monkeypatch.chdir(tmp_path)
    assert f"is in no evaluation project, so {constants.PROJECT_DIR} is used" in stderr()
    init(tmp_path / "mine")
    assert "is in no evaluation project" not in stderr("--project", str(tmp_path / "mine"))


def test_project_must_be_a_folder(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["--project", str(tmp_path / "nowhere"), "doctor"])
    assert done.exit_code == 2
    assert re.search(r"nowhere: no such folder; `socjudge init", done.output)


def test_the_wheel_carries_what_init_lays_out_and_nothing_of_a_developers_own() -> None:
    carried = runpy.run_path(str(ROOT / "setup.py"), run_name="read")["CARRIED"]
    names = {path.relative_to(ROOT).as_posix() for pattern in carried for path in ROOT.glob(pattern)}
    laid_out = {name for name in _files(example=True) if (ROOT / name).is_file()} - {"README.md", ".gitignore"}
    assert laid_out <= names
    made = {f"eval/runbooks_index/{name}" for name in ("manifest.json", "passages.jsonl", "vectors.npy")}
    assert made <= names
    in_git = subprocess.run(["git", "ls-files", "-z"], capture_output=True, text=True, cwd=ROOT, check=True)
    tracked = set(in_git.stdout.split("\0"))
    assert {name for name in tracked if re.fullmatch(r"eval/examples/.*\.(json|gz)", name)} <= names
    assert names - made <= tracked


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "extra"),
    [
        ("import socjudge; socjudge.RunPanel", "lab"),
        ("from socjudge.models.opening import open_model; open_model('anthropic:claude')", "langchain"),
    ],
)
def test_a_missing_extra_is_named_with_the_command_that_installs_it(code: str, extra: str) -> None:
    absent = "import sys; sys.modules.update(dict.fromkeys(['ipywidgets', 'anywidget', 'langchain']))"
    found = subprocess.run(
        [sys.executable, "-c", f"{absent}\n{code}"], capture_output=True, text=True, cwd=ROOT,
        env={**os.environ, "OPENAI_API_KEY": "k"},
    )  # fmt: skip
    assert "ConfigError: " in found.stderr
    assert f"run: pip install 'socjudge[{extra}]'" in found.stderr


@pytest.mark.slow
def test_a_model_of_a_local_server_with_a_colon_in_its_name_needs_no_langchain() -> None:
    code = (
        "import sys; sys.modules['langchain'] = None\n"
        "from socjudge.models.opening import open_model; print(open_model('qwen2.5:7b').name)"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT,
        env={**os.environ, "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"},
    )  # fmt: skip
    assert found.stdout.strip() == "qwen2.5:7b", found.stderr


def test_the_providers_known_without_langchain_are_langchains() -> None:
    from langchain.chat_models import base

    from socjudge.models.langchain_model import PROVIDERS

    assert set(base._BUILTIN_PROVIDERS) >= PROVIDERS


# --- The settings of a project on the command line: shown, written by init, told where they are wrong; and its pages served

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
