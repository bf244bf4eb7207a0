"""The page of HistoryExplorer on a change of the judge: costs first, a tick before each paid call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conftest import text
from service import Service, judgement

import socjudge as sj
from socjudge import HistoryExplorer

OLD, NEW = "gpt-4o-mini", "gpt-4.1-mini"
QUESTIONS = [sj.EvalQuestion(n, "正常系", f"質問{n:02}です", ("端末の隔離",)) for n in range(12)]
ANSWERS = [
    sj.AssistantAnswer(q.question, f"回答{q.id}です。[出典: a.md > b]", "[出典: a.md > b]\n文脈") for q in QUESTIONS
]


def judging(request: dict[str, Any]) -> str:
    n = next(q.id for q in QUESTIONS if q.question in request["messages"][0]["content"])
    mark = 40 + 5 * int(n)
    return judgement(mark if request["model"] == OLD else mark - 10)


@pytest.fixture
def panel(service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HistoryExplorer:
    monkeypatch.setattr(sj.constants, "LOGS_DIR", tmp_path / "logs")
    service.default = judging
    sj.run_evaluation_suite(QUESTIONS, answers=ANSWERS, judge_model=OLD, progress=False)
    service.requests.clear()
    made = HistoryExplorer(tmp_path / "logs")
    made.wait(60)
    return made


@pytest.mark.slow
def test_another_judge_is_asked_only_after_the_cost_was_shown_and_a_tick(
    service: Service, panel: HistoryExplorer
) -> None:
    box = panel.migration
    assert [value for _, value in box.old.options] == [OLD] and box.judge_button.disabled
    box.plan_button.click()
    assert "Choose both judges" in text(box.cost.value)
    box.new.value = NEW
    box.plan_button.click()
    assert "12 of 12 stored answers" in text(box.cost.value) and "24" in text(box.cost.value)
    box.judge_button.click()
    assert "tick the box" in box.status.value and service.requests == []
    box.allow_cost.value = True
    box.judge_button.click()
    box.wait(60)
    assert box.found is not None and len(service.requests) == 24, text(box.status.value)
    assert "corresponds to about 60" in text(box.result.value) and not box.allow_cost.value
    box.size.value = 10
    assert box.plan is None and box.judge_button.disabled  # its cost was not shown


@pytest.mark.slow
def test_a_judge_that_is_not_there_is_told(panel: HistoryExplorer, service: Service) -> None:
    from service import error

    box = panel.migration
    box.new.value = NEW
    box.plan_button.click()
    service.default = lambda request: judging(request) if request["model"] == OLD else error(404, f"no model {NEW}")
    box.allow_cost.value = True
    box.judge_button.click()
    box.wait(60)
    assert NEW in text(box.status.value) and box.found is None and not box.judge_button.disabled
