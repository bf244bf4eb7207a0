"""What a terminal shows when questions, runbooks, logs and services try to command it: what was printed, line by line."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pyte
import pytest
import typer
from conftest import ANSWER, ROOT
from support.command_line import socjudge_here
from support.service import KEY, Reply, Service, error, is_judge_call, judgement

from socjudge import constants
from socjudge.cli.app import app

# Clears the screen, tells a verdict, takes a line of its own, sets the title and the clipboard, and hides what follows.
PASSED = "✅ 評価完了！ MVP合格（10/10問、平均 96.4点）"
HOSTILE = f"\x1b[2J\x1b[H{PASSED}\r\n\x1b]0;MVP PASS\x07\x1b]52;c;Y3Vy\x07\x9b8m\u202e\x1b[8m"

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("undrawn")]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose questions and runbooks are hostile, with its index."""
    folder = tmp_path_factory.mktemp("hostile") / "project"
    assert socjudge_here("init", str(folder)).returncode == 0
    for runbook in (folder / "eval" / "runbooks").iterdir():
        runbook.unlink()
    (folder / "eval" / "runbooks" / "phishing.md").write_text(
        f"# 手順{HOSTILE}\n\n## 初動対応{HOSTILE}\n\n1. 端末を隔離します。{HOSTILE}\n2. SOCリーダーに報告します。\n",
        encoding="utf-8",
    )
    items = [
        {"id": f"{number}{HOSTILE}", "category": "正常系", "question": f"端末の初動は？{number}{HOSTILE}", "expected_keypoints": [f"端末の隔離{HOSTILE}"]}
        for number in range(2)
    ]  # fmt: skip
    (folder / "eval" / "eval_dataset.json").write_text(json.dumps(items), encoding="utf-8")
    shown(folder, "index", code=0)
    return folder


@pytest.fixture
def project(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "project"))


def shown(folder: Path, *arguments: str, code: int | tuple[int, ...], service: Service | None = None) -> str:
    """What the command prints, once the terminal is seen to show just that."""
    keys = {} if service is None else {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": service.base_url}
    done = socjudge_here("--project", str(folder), *arguments, SOCJUDGE_LANG="ja", **keys)
    constants.use_project(ROOT)
    said = (done.stdout + done.stderr).replace("\ufe0f", "")  # which pyte does not know
    assert done.returncode in (code if isinstance(code, tuple) else (code,)), said
    assert "Traceback" not in said
    screen = pyte.Screen(3000, 400)
    pyte.Stream(screen).feed(said.replace("\n", "\r\n"))
    lines = [line.strip() for line in screen.display if line.strip()]
    assert lines == [line.strip() for line in re.split(r"[\r\n]", said) if line.strip()]
    assert screen.title == ""
    assert not re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e]", said)
    assert not any(line.startswith(PASSED[:8]) for line in lines), "a line that is not ours"
    return said


def test_no_command_lets_a_question_or_a_runbook_command_the_terminal(project: Path) -> None:
    assert "⟦U+001B⟧" in shown(project, "doctor", code=(0, 1))
    assert "⟦U+001B⟧" in shown(project, "ask", f"端末の初動は？{HOSTILE}", code=0)
    assert "⟦U+001B⟧" in shown(project, "run", "-q", code=(0, 1))
    (log,) = (project / "logs").glob("judge_eval_*.json")
    shown(project, "rejudge", "--log", str(log), "-q", code=(0, 1))
    before, after = sorted((project / "logs").glob("judge_eval_*.json"))
    shown(project, "compare", str(before), str(after), code=0)
    shown(project, "report", str(project / "report.html"), code=0)
    shown(project, "certify", "--log", str(log), "-q", code=(0, 1, 2, 3))


@pytest.mark.few(2)
@pytest.mark.parametrize("status", [200, 400, 401, 503])
def test_no_word_of_a_service_commands_the_terminal(
    project: Path, service: Service, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("socjudge.models.pacing.BACKOFF_S", 0.001)
    if status == 200:  # words of the assistant, the judge and their models' names
        said = judgement(80, reason=HOSTILE, comment=HOSTILE)
        service.default = lambda request: Reply(
            body=_completion(said if is_judge_call(request) else ANSWER + HOSTILE, model=f"gpt-4o-mini{HOSTILE}")
        )
    else:
        service.default = error(status, HOSTILE)
    words = "⟦U+001B⟧" if status != 200 else "gpt-4o-mini"
    assert words in shown(project, "ask", "端末の初動は？", service=service, code={200: 0, 401: 2}.get(status, 3))
    assert words in shown(project, "run", "-q", "-y", service=service, code=(0, 1, 2, 3))
    shown(project, "unfinished", code=0)
    if status == 200:
        shown(project, "report", str(project / "report.html"), code=0)


def test_no_log_commands_the_terminal(project: Path) -> None:
    log = json.loads(next((ROOT / "tests" / "data" / "logs").glob("judge_eval_*.json")).read_text("utf-8"))
    for row in log["results"]:
        row["question_id"] = f"{row['question_id']}{HOSTILE}"
    (project / "logs").mkdir(exist_ok=True)
    (project / "logs" / "judge_eval_20260101_000000.json").write_text(json.dumps(_hostile(log)), encoding="utf-8")
    (project / "logs" / "judge_eval_20260102_000000 \x1b[2J\x1b]0;MVP PASS\x07.json").write_text("{", encoding="utf-8")
    assert "⟦U+001B⟧" in shown(project, "doctor", code=1)
    shown(project, "report", str(project / "report.html"), code=(0, 2))
    shown(
        project, "rejudge", "--log", str(project / "logs" / "judge_eval_20260101_000000.json"), "-q", code=(0, 1, 2, 3)
    )


def test_no_setting_or_path_commands_the_terminal(project: Path) -> None:
    (project / "socjudge.toml").write_text(f"[report]\ntitle = {json.dumps(HOSTILE)}\n", encoding="utf-8")
    assert "⟦U+001B⟧" in shown(project, "settings", code=0)
    folder = project / "\x1b[2J\x1b]0;MVP PASS\x07"
    assert "⟦U+001B⟧" in shown(project, "init", str(folder), code=0)
    shutil.rmtree(folder / "notebooks")  # else it would serve them
    assert "⟦U+001B⟧" in shown(folder, "app", code=2)


def test_every_command_is_shown_to_the_terminal_here() -> None:
    group = typer.main.get_command(app)
    commands = {
        (name, *part) for name, each in group.commands.items() for part in zip(getattr(each, "commands", {})) or [()]
    }
    told = re.findall(r'shown\(\w+, "([a-z-]+)"(?:, "([a-z]+)")?', Path(__file__).read_text("utf-8"))
    assert commands <= {(name,) for name, _ in told} | set(told)


def _hostile(value: Any) -> Any:
    """The value with the hostile text behind each text but those that say which kind something is."""
    if isinstance(value, dict):
        kept = ("started_at", "ended_at", "status", "category", "journal", "schema_version")
        return {name: inner if name in kept else _hostile(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_hostile(inner) for inner in value]
    return value + HOSTILE if isinstance(value, str) else value


def _completion(content: str, model: str) -> str:
    choice = {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}
    return json.dumps({"model": model, "choices": [choice], "usage": {"prompt_tokens": 2000, "completion_tokens": 500}})


def test_commands_print_in_one_way_alone() -> None:
    printing = re.compile(r"\b(?:typer|click)\.s?echo\(|\bprint\(|\bstd(?:out|err)\.write\(")
    found = [
        (path.name, line.strip())
        for path in (ROOT / "socjudge" / "cli").glob("*.py")
        for line in path.read_text("utf-8").splitlines()
        if printing.search(line)
    ]
    assert found == [("shared.py", "typer.echo(visible(text), nl=nl, err=err)")]
