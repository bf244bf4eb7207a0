"""What earlier versions had and this one has not: the error for an unknown name, and where its use is told now."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import typer
from conftest import ROOT
from support.command_line import socjudge_here

import socjudge as sj
from socjudge import constants, settings
from socjudge.base import former_names
from socjudge.base.former_names import instead_of
from socjudge.cli.app import app
from socjudge.errors import ConfigError

FORMER = former_names._INSTEAD


def _known() -> set[str]:
    """The commands, options, arguments and public names that there are, in the form of the table."""
    found = {name for space in (sj, sj.stats, sj.charts, sj.certify, sj.history) for name in dir(space)}
    found |= {field.name for field in fields(sj.RunOptions)}
    found |= {name for made in (sj.run_evaluation_suite, sj.rejudge) for name in inspect.signature(made).parameters}
    commands: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    options = {option for command in commands.values() for param in command.params for option in param.opts}
    return found | options | {f"socjudge {name}" for name in commands}


def test_no_name_that_there_is_stands_among_the_former_ones() -> None:
    assert not FORMER.keys() & _known()


@pytest.mark.parametrize("name", FORMER)
def test_where_a_former_name_is_sent_is_there(name: str) -> None:
    for page, title in re.findall(r"((?:docs|notebooks)/[\w./]+\w)(?:#([\w-]+))?", FORMER[name]):
        heads = re.findall(r"(?m)^##+ (.*)$", (ROOT / page).read_text("utf-8"))
        assert not title or title in {re.sub(r"[^\w-]", "", head.lower().replace(" ", "-")) for head in heads}


def test_a_public_name_that_went_is_told_with_its_place() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'judge_flaws'\. Instead: .*docs/statistics\.md"):
        sj.stats.judge_flaws  # type: ignore[attr-defined]  # noqa: B018


def test_a_misspelt_public_name_is_told_with_the_nearest() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'load_answer'\. Did you mean 'load_answers'"):
        sj.load_answer  # type: ignore[attr-defined]  # noqa: B018


def test_a_setting_that_went_is_told_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "socjudge.toml").write_text("[defaults]\nlike = true\n", encoding="utf-8")
    said = socjudge_here("--project", str(tmp_path), "settings")
    assert "socjudge.toml" in said.stderr and "docs/reference.md" in said.stderr


@pytest.mark.parametrize(
    ("typed", "place"),
    [
        (["index", "--write-questions"], "questions-of-the-passages"),
        (["history", "export", "all.parquet"], "frames-for-other-programs"),
        (["run", "--fail-on", "regression"], "socjudge compare BEFORE AFTER"),
        (["check", "--judge", "gpt-4o"], "another-tools-scores-as-a-frame"),
        (["batch", "submit"], "run_evaluation_suite"),
        (["run", "--repair", "log.json"], "socjudge rejudge --log LOG --only-failed"),
    ],
)
def test_an_option_or_a_command_that_went_is_told_with_its_place(typed: list[str], place: str) -> None:
    said = socjudge_here(*typed)
    assert said.returncode == 2
    assert "No such" in said.stderr and place in said.stderr


@pytest.mark.parametrize(("change", "told"), [({"like": "dify"}, "an-assistant-behind-http")])
def test_a_key_of_an_assistants_table_that_went_is_told_with_its_place(change: dict[str, str], told: str) -> None:
    table = {"url": "http://127.0.0.1:9/{question}", "answer": "$", **change}
    with pytest.raises(ConfigError, match=told):
        sj.Assistant(table, name="bot")


@pytest.mark.slow
def test_two_judges_as_one_are_told_with_their_place(tmp_path: Path) -> None:
    answered = (sj.EvalQuestion(1, "正常系", "初動は。", ("隔離",)), sj.AssistantAnswer("初動は。", "隔離します。"))
    (tmp_path / "socjudge.toml").write_text('[defaults]\njudge_model = "gpt-4o-mini > gpt-4o"\n', encoding="utf-8")
    before = settings.open_project().folder
    constants.use_project(tmp_path)
    try:
        for model in ("gpt-4o-mini > gpt-4o", "auto"):
            with pytest.raises(ConfigError, match="#judge-again-near-the-line"):
                sj.evaluate_answer(*answered, model=model, rubric=sj.Rubric())
    finally:
        constants.use_project(before)


def test_other_names_have_nothing_instead() -> None:
    assert instead_of("no_such_name") == ""
