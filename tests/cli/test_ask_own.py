"""Assistants of one's own on the command line: asked, judged, and written into socjudge.toml."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.command_line import socjudge
from support.own_bot import Bot, Said, running
from typer.testing import CliRunner

import socjudge as sj
from socjudge import constants, settings
from socjudge.cli.app import app
from socjudge.errors import ConfigError
from socjudge.models.opening import open_model

KEY = "bot-key-0123456789"
DATASET = """[{"id": 1, "category": "正常系", "question": "初動は。", "expected_keypoints": ["隔離", "報告"]},
 {"id": 2, "category": "正常系", "question": "報告先は。", "expected_keypoints": ["報告", "リーダー"]}]"""


@pytest.fixture
def bot() -> Iterator[Bot]:
    reply = {
        "reply": {"id": "x1", "text": "端末を隔離します[1]。"},
        "sources": [{"body": "端末を隔離する。", "name": "m.md"}],
    }
    with running(lambda asked: Said(reply)) as found:
        yield found


@pytest.fixture
def project(tmp_path: Path, bot: Bot, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """One with questions and an assistant, and no runbooks."""
    (tmp_path / "eval").mkdir()
    (tmp_path / "eval" / "eval_dataset.json").write_text(DATASET, encoding="utf-8")
    (tmp_path / "socjudge.toml").write_text(
        f'[assistants.bot]\nurl = "{bot.url}"\nheaders = {{ Authorization = "Bearer ${{BOT_KEY}}" }}\n'
        'body = { q = "{question}" }\nanswer = "reply.text"\ncontexts = "sources[*].body"\nsources = "sources[*].name"\n',
        encoding="utf-8",
    )
    before = settings.open_project().folder
    monkeypatch.setenv("BOT_KEY", KEY)
    constants.use_project(tmp_path)
    yield tmp_path
    constants.use_project(before)


def command(*arguments: str, **how: Any) -> Any:
    return CliRunner().invoke(app, [*arguments], **how)


def test_a_table_is_judged_without_any_runbook(project: Path, bot: Bot) -> None:
    said = command("run", "--answers", "bot", "--judge-model", "offline", "--quiet")
    assert said.exit_code in (0, 1, 3), said.output
    assert [asked["q"] for asked in bot.asked] == ["初動は。", "報告先は。"]
    assert "BOT_KEY" in said.output
    assert "cost: none for the judge, unknown for the assistant" in said.output
    (log,) = (project / "logs").glob("judge_eval_*.json")
    assert sj.load_run(log).info.assistant_model == "bot"
    assert not any(KEY in file.read_text("utf-8") for file in project.rglob("*") if file.is_file())


def test_what_costs_nothing_is_not_said_to_cost(project: Path, bot: Bot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with (project / "socjudge.toml").open("a", encoding="utf-8") as file:
        file.write('[prices."mine@http://127.0.0.1:9/v1"]\ninput = 0\noutput = 0\n')
    said = command("run", "--answers", "bot", "--judge-model", "mine")
    assert said.exit_code == 5 and not bot.asked
    assert "2 calls" in said.output and "cost: none" in said.output and "What bot costs is not counted" in said.output
    assert "コストがかかります" not in said.output


def test_the_settings_may_name_whose_answers_are_judged(project: Path, bot: Bot) -> None:
    with (project / "socjudge.toml").open("a", encoding="utf-8") as file:
        file.write('[defaults]\nanswers = "bot"\n')
    assert "[1]" in command("ask", "初動は。").output
    command("run", "--judge-model", "offline", "--quiet")
    assert len(bot.asked) == 3


def test_a_file_of_answers_is_judged(project: Path, bot: Bot) -> None:
    file = project / "answers.csv"
    file.write_text("question_id,answer\n1,端末を隔離します。\n", encoding="cp932")
    said = command("run", "--answers", str(file), "--judge-model", "offline", "--quiet")
    assert said.exit_code == 2
    assert "id 2" in said.output
    file.write_text("question,answer\n初動は,端末を隔離します。\n報告先は？,SOCリーダーです。\n", encoding="utf-8")
    command("run", "--answers", str(file), "--judge-model", "offline", "--quiet")
    assert len(list((project / "logs").glob("judge_eval_*.json"))) == 1
    assert not bot.asked


@pytest.mark.parametrize("setting", ['[defaults]\nanswers = "given.csv"', '[defaults]\nanswers = "my.py:ask"'])
def test_a_file_in_the_settings_is_the_projects_wherever_the_command_is_started(
    project: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    for folder, said in ((project, "ここ"), (elsewhere, "よそ")):
        (folder / "given.csv").write_text(f"question_id,answer\n1,{said}。\n2,{said}。\n", encoding="utf-8")
        (folder / "my.py").write_text(f"def ask(question):\n    return '{said}。'\n", encoding="utf-8")
    (project / "socjudge.toml").write_text(setting, encoding="utf-8")
    monkeypatch.chdir(elsewhere)
    command("--project", str(project), "run", "--judge-model", "offline", "--quiet")
    (log,) = (project / "logs").glob("judge_eval_*.json")
    assert {result.answer.answer for result in sj.load_run(log).results} == {"ここ。"}


def test_asking_shows_what_a_judge_would_be_shown(project: Path, bot: Bot) -> None:
    said = command("ask", "--answers", "bot", "初動は。")
    assert "端末を隔離します[1]。" in said.output
    assert "端末を隔離します[出典: m.md]。" in said.output
    assert len(bot.asked) == 1


def test_an_unset_variable_ends_the_command_before_anything_is_sent(
    project: Path, bot: Bot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BOT_KEY")
    said = command("run", "--answers", "bot")
    assert said.exit_code == 2
    assert "BOT_KEY" in said.output
    assert not bot.asked


def test_an_address_is_tried_once_guessed_and_written(project: Path, bot: Bot) -> None:
    said = command("init", str(project), "--assistant", f"{bot.url}/ask", input="second\nq\nBOT_KEY\n\n\n")
    assert said.exit_code == 0, said.output
    table = settings.open_project().assistants["second"]
    assert table == {
        "url": f"{bot.url}/ask", "body": {"q": "{question}"}, "headers": {"Authorization": "Bearer ${BOT_KEY}"},
        "answer": "reply.text", "contexts": "sources[*].body",
    }  # fmt: skip
    assert KEY not in (project / "socjudge.toml").read_text("utf-8")
    assert sj.Assistant("second").ask("初動は。").context


def test_a_service_that_needs_more_is_told_where_examples_of_tables_are(project: Path, bot: Bot) -> None:
    before = (project / "socjudge.toml").read_text("utf-8")
    bot.reply = lambda asked: Said({"message": "inputs is required"}, status=400)
    said = command("init", str(project), "--assistant", f"{bot.url}/ask", input="second\nq\n\n")
    assert said.exit_code == 2
    assert "inputs is required" in said.output and "docs/reference.md" in said.output
    assert (project / "socjudge.toml").read_text("utf-8") == before


@pytest.mark.slow
def test_without_a_terminal_an_address_is_written_with_what_is_suggested(project: Path, bot: Bot) -> None:
    (project / "socjudge.toml").write_text("", encoding="utf-8")
    done = socjudge("init", str(project), "--assistant", f"{bot.url}/ask", SOCJUDGE_LANG="ja")
    assert (done.returncode, "アシスタントの名前 [bot]: bot" in done.stderr) == (0, True), done.stderr
    constants.use_project(project)
    assert settings.open_project().assistants["bot"] == {
        "url": f"{bot.url}/ask", "body": {"question": "{question}"},
        "answer": "reply.text", "contexts": "sources[*].body",
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
def test_ctrl_c_at_a_question_ends_the_command_in_one_line(project: Path, bot: Bot) -> None:
    import pty

    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "socjudge", "run", "--answers", "bot", "--judge-model", "gpt-4o-mini"]
    process = subprocess.Popen(
        command, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        env={**os.environ, "SOCJUDGE_LANG": "ja", "OPENAI_API_KEY": "k"}, cwd=project,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # which tests in the background inherit ignored
    )  # fmt: skip
    assert process.stdout is not None
    said = ""
    while not said.endswith("[y/N]: "):
        said += process.stdout.read(1)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)[0]
    os.close(ours)
    os.close(theirs)
    assert (process.returncode, said) == (130, "\n中止しました\n")
    assert not bot.asked


@pytest.mark.parametrize("given", ["http://127.0.0.1:9/ask", test_a_file_of_answers_is_judged])
def test_what_answers_by_itself_is_told_that_it_is_no_model(given: Any) -> None:
    with pytest.raises(ConfigError, match="answers="):
        open_model(given, task="answer")


def test_a_reformatted_table_is_the_same_assistant(project: Path) -> None:
    before = sj.Assistant("bot").fingerprint
    file = project / "socjudge.toml"
    lines = file.read_text("utf-8").splitlines()
    file.write_text("# my bot\n" + "\n\n".join([lines[0], *sorted(lines[1:])]).replace(" = ", "="), encoding="utf-8")
    assert sj.Assistant("bot").fingerprint == before
