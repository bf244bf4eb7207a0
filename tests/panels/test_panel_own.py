"""Panels over an assistant of somebody's own: chosen in a list, told what goes where, judged and asked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.own_bot import Bot, Said, running

import socjudge as sj
from socjudge import constants, settings

DATASET = '[{"id": 1, "category": "正常系", "question": "初動は。", "expected_keypoints": ["隔離", "報告"]}]'


@pytest.fixture
def bot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bot]:
    """In a project with one question, this assistant as its default, and no runbooks."""
    before = settings.open_project().folder
    monkeypatch.setenv("BOT_KEY", "bot-key-0123456789")
    with running(lambda asked: Said({"text": "端末を隔離します[1]。", "docs": ["端末を隔離する。"]})) as found:
        (tmp_path / "eval").mkdir()
        (tmp_path / "eval" / "eval_dataset.json").write_text(DATASET, encoding="utf-8")
        (tmp_path / "socjudge.toml").write_text(
            f'[defaults]\nanswers = "bot"\n[assistants.bot]\nurl = "{found.url}"\nheaders = {{ X-Key = "${{BOT_KEY}}" }}\n'
            'body = { q = "{question}" }\nanswer = "text"\ncontexts = "docs[*]"\n',
            encoding="utf-8",
        )
        constants.use_project(tmp_path)
        yield found
    constants.use_project(before)


def test_the_run_panel_judges_it_without_an_index(bot: Bot) -> None:
    panel = sj.RunPanel()
    panel.judge_model.value = "offline"
    assert panel.answers.value == "@bot"
    assert "BOT_KEY" in panel.cost.value
    assert not bot.asked  # nothing before the click
    assert not panel.run_button.disabled
    assert panel.assistant_model.disabled
    assert not panel.answer_repeats.disabled
    panel.run_button.click()
    panel.session.wait(60)
    assert panel.session.state == "finished", panel.session.problem
    assert panel.run.info.assistant_model == "bot"
    assert len(bot.asked) == 1


@pytest.mark.slow
def test_a_file_in_the_settings_is_the_projects(bot: Bot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "given.csv").write_text("question_id,answer\n1,端末を隔離します。\n", encoding="utf-8")
    (tmp_path / "socjudge.toml").write_text('[defaults]\nanswers = "given.csv"\n', encoding="utf-8")
    (tmp_path / "logs").mkdir()
    monkeypatch.chdir(tmp_path / "logs")
    panel = sj.RunPanel()
    assert panel.answers.label == "answers of given.csv"
    panel.judge_model.value = "offline"
    panel.run_button.click()
    panel.session.wait(60)
    assert panel.session.state == "finished", panel.session.problem
    assert panel.run.results[0].answer.answer == "端末を隔離します。"


def test_ours_can_be_chosen_all_the_same(bot: Bot) -> None:
    panel = sj.RunPanel()
    panel.answers.value = ""
    assert panel.run_button.disabled  # it has no index


def test_the_ask_panel_asks_it(bot: Bot) -> None:
    panel = sj.AskPanel()
    panel.question.value = "初動は。"
    panel.ask()
    panel.wait(30)
    assert panel.answers[0].answer == "端末を隔離します[1]。"
    assert "端末を隔離します" in panel.chat.children[0].value
