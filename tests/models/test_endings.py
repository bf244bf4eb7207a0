"""A model whose maker has announced its end: said where that model is asked, before the day and after it."""

from __future__ import annotations

from datetime import date
from typing import Any, cast

import pytest
from support.service import KEY, Service, error

from socjudge import ConfigError, EvalQuestion, constants, plan_run
from socjudge.models import endings
from socjudge.models.endings import MODEL_ENDS, ending_line, project_ending
from socjudge.models.opening import open_model
from socjudge.records import Completion, ModelRequest, Usage

NAME = "gpt-4o-mini"
OURS = "https://api.openai.com/v1"
ELSEWHERE = ("http://127.0.0.1:8000/v1", "https://me.openai.azure.com/openai/v1", "https://api.openai.com.example/v1")
BEFORE, AFTER = date(2026, 12, 31), date(2027, 2, 1)


def on(day: date, monkeypatch: pytest.MonkeyPatch) -> None:
    class Day(date):
        @classmethod
        def today(cls) -> Any:
            return day

    monkeypatch.setattr(endings, "date", Day)


def test_the_day_stands_with_its_source() -> None:
    day, source = MODEL_ENDS[NAME]
    assert day == date(2027, 1, 14) and source.startswith("https://")


@pytest.mark.parametrize("address", ["", OURS, f"{OURS}/"])
def test_the_end_is_said_where_the_model_is_asked_at_its_makers(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", address)
    assert "the last day of gpt-4o-mini is 2027-01-14" in ending_line(NAME)
    assert "docs/reference.md" in ending_line(NAME) and "Another judge" in ending_line(NAME)
    assert ending_line("gpt-6") == ending_line("offline") == ""


@pytest.mark.parametrize("address", ELSEWHERE)
def test_another_address_may_keep_the_model(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", address)
    assert ending_line(NAME) == ""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert project_ending() == "" and ending_line(NAME, open_model(NAME).service) == ""


@pytest.mark.slow
def test_the_estimate_says_it_once_for_the_models_that_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    told = "the last day of gpt-4o-mini is 2027-01-14"
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    questions = [EvalQuestion(1, "正常系", "初動は？", ("隔離",))]
    both = plan_run(questions, assistant_model=NAME, judge_model=NAME)
    assert told in both.cost_note and len(both.cost_note.splitlines()) == 1 and told in both._repr_html_()
    assert told in plan_run(questions, assistant_model="offline", judge_model=NAME).cost_note
    assert plan_run(questions, assistant_model="offline", judge_model="offline").cost_note == ""

    class Own:
        name = NAME

        def complete(self, request: ModelRequest) -> Completion:
            return Completion("", NAME, Usage())

    assert plan_run(questions, assistant_model="offline", judge_model=cast(Any, Own())).cost_note == ""


def test_the_project_says_it_only_if_it_asks_such_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    assert project_ending() == ""  # no key: the embedded default
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert len(project_ending().splitlines()) == 1  # judge and assistant are the same model
    monkeypatch.setattr(constants, "DEFAULT_ASSISTANT_MODEL", "gpt-6")
    assert "is 2027-01-14" in project_ending()
    monkeypatch.setattr(constants, "DEFAULT_JUDGE_MODEL", "gpt-6")
    assert project_ending() == ""


@pytest.mark.parametrize(
    ("day", "told"), [(BEFORE, "no such model or path"), (AFTER, "the last day of .* is 2027-01-14")]
)
def test_a_model_that_is_not_found_after_its_day_has_ended(
    day: date, told: str, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    on(day, monkeypatch)
    monkeypatch.setattr(endings, "MAKER", service.base_url)  # as if the maker answered
    service.default = error(404, f"The model {NAME} does not exist", code="model_not_found")
    with pytest.raises(ConfigError, match=told) as caught:
        ask(NAME)
    assert ("Recipes" in str(caught.value)) == (day == AFTER)


def test_a_model_that_another_address_does_not_have_has_not_ended(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    on(AFTER, monkeypatch)
    service.default = error(404, f"The model {NAME} does not exist", code="model_not_found")
    with pytest.raises(ConfigError, match="no such model or path"):
        ask(NAME)


def ask(model: str) -> None:
    from socjudge import AssistantAnswer, evaluate_answer

    question = EvalQuestion(1, "正常系", "初動は？", ("隔離",))
    evaluate_answer(question, AssistantAnswer("初動は？", "隔離します。", "文脈"), model=model)
