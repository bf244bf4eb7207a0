"""A model of somebody's own: the example of docs/reference.md, and what a request tells it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT

import socjudge as sj
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
