"""A model of somebody's own: the example of docs/reference.md, and what a request tells it."""

from __future__ import annotations

import multiprocessing
import os
import re
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT
from support.service import Service

import socjudge as sj
from socjudge import AssistantAnswer, EvalQuestion, RunOptions, SocJudgeError, evaluate_answer, run_evaluation_suite
from socjudge.errors import ProviderError
from socjudge.models import pacing
from socjudge.models.opening import open_model
from socjudge.records import Completion, ModelRequest, Passage

QUESTION = sj.EvalQuestion(1, "正常系", "感染端末の初動は？", ("端末の隔離",))
CITED = sj.AssistantAnswer(QUESTION.question, "隔離します。", "隔離する。", (Passage("隔離する。", "a.md", "初動"),))


def test_the_example_of_the_page_judges() -> None:
    page = (ROOT / "docs" / "reference.md").read_text("utf-8").split("## A model of your own")[1]
    code = re.search(r"```python\n(.*?)```", page, re.DOTALL)
    names: dict[str, Any] = {}
    exec(code[1], names)  # type: ignore[index]
    marks = sj.evaluate_answer(QUESTION, CITED, model=names["HouseJudge"]())
    assert (marks.status, marks.average_score, marks.model) == ("ok", 80, "house-judge")


@pytest.mark.slow
def test_the_material_is_what_the_request_says(samples: Path) -> None:
    asked: dict[str, Any] = {}

    class Listens:
        name, settings = "listens", ""

        def complete(self, request: ModelRequest) -> Completion:
            asked[request.task] = request.material
            raise sj.ConfigError("heard")

    for ask in (
        lambda: sj.evaluate_answer(QUESTION, CITED, model=Listens()),
        lambda: sj.handle_query(QUESTION.question, model=Listens()),
    ):
        with pytest.raises(sj.ConfigError, match="heard"):
            ask()
    for task, who in (("judge", "For a judge:"), ("answer", "For an assistant:")):
        told = " ".join((ModelRequest.__doc__ or "").split()).split(who)[1].partition(".")[0]
        names = re.findall(r"[a-z]+", re.sub("also |and |, which .*", "", told))
        assert set(asked[task]) == set(names)


# --- What belongs to a process: a fork's calls, and an own model or assistant that wants to end the process

ANSWER = AssistantAnswer(QUESTION.question, "端末を隔離します。", "端末を隔離する。")


def judged(model: Any) -> float:
    return evaluate_answer(QUESTION, ANSWER, model=model).average_score


def _in_a_fork(model: Any, told: Connection) -> None:
    try:
        told.send([judged(model) for _ in range(3)])
    except BaseException as error:
        told.send(repr(error))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
@pytest.mark.parametrize("opened", [False, True], ids=["by name", "opened before"])
def test_a_forked_process_is_told_to_start_otherwise_and_the_parent_goes_on(service: Service, opened: bool) -> None:
    model = open_model("gpt-4o-mini") if opened else "gpt-4o-mini"
    assert judged(model) == 80
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=_in_a_fork, args=(model, there))
    process.start()
    assert here.poll(60)
    assert re.match("ConfigError.*was forked from one that makes calls.*spawn", here.recv())
    process.join(10)
    assert [judged(model) for _ in range(3)] == [80, 80, 80]


class Exits:
    """A model that ends the process, as a command line that somebody wrapped does."""

    name, settings = "exits", "default"

    def complete(self, request: ModelRequest) -> Any:
        sys.exit("usage: judge [OPTIONS]")


def leave(question: str) -> str:
    raise SystemExit(f"no such option: {question}")


async def leave_later(question: str) -> str:
    raise SystemExit("no such option")


def test_a_model_that_wants_to_end_the_process_is_an_error_and_hangs_nothing(
    questions: list[EvalQuestion], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pacing, "BACKOFF_S", 0.001)
    answers = [AssistantAnswer(question.question, "回答") for question in questions]
    with pytest.raises(ProviderError, match=r"SystemExit: usage: judge"):
        run_evaluation_suite(questions, answers=answers, judge_model=Exits(), logs_dir=tmp_path, progress=False)


@pytest.mark.parametrize("ask", [leave, leave_later])
def test_an_own_assistant_that_wants_to_end_the_process_is_an_error_and_hangs_nothing(
    questions: list[EvalQuestion], tmp_path: Path, ask: Any
) -> None:
    with pytest.raises(SocJudgeError, match=r"SystemExit"):
        run_evaluation_suite(
            questions,
            answers=ask,
            judge_model="offline",
            logs_dir=tmp_path,
            progress=False,
            options=RunOptions(max_failures=2),
        )
