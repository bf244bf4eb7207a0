"""Runs killed at any moment: nothing that is in the journal is asked again, and a cap holds."""

from __future__ import annotations

import json
import random
import re
import signal
from collections import Counter
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import pytest
from support.command_line import ended, started
from support.decision_service import SURE, deciding, scored
from support.service import Reply, Service, judgement

from socjudge import load_run

pytestmark = pytest.mark.slow
COUNT, KILLS, IN_FLIGHT = 80, 4, 8
DECIDES, CHAT = "gpt-4.1-mini", "gpt-4o-mini"  # in the table of prices, in each process
# What `decision_service` and `service` say that a call took, at list prices.
CALL_USD, CAP_USD = {DECIDES: 0.00082, CHAT: 0.00027}, {DECIDES: 0.05, CHAT: 0.02}
_NUMBER = re.compile(r"質問(\d+)\b")


def number_of(request: dict[str, Any]) -> int:
    found = _NUMBER.search(json.dumps(request, ensure_ascii=False))
    assert found is not None
    return int(found[1])


def replying(request: dict[str, Any]) -> Reply | str:
    """The chat model's first reply to each fifth answer cannot be parsed."""
    if "questions" in request:
        return deciding(lambda question: scored(question, SURE))(request)
    return "…" if number_of(request) % 5 == 0 and len(request["messages"]) == 1 else judgement(90)


NEEDED = {DECIDES: COUNT, CHAT: COUNT + COUNT // 5}
JUDGES = {DECIDES: f"decisions:{DECIDES}", CHAT: CHAT}


@pytest.mark.parametrize("model", JUDGES)
def test_killed_at_random_moments_nothing_in_the_journal_is_asked_again(
    service: Service, tmp_path: Path, model: str
) -> None:
    judging, needed, lost = {"judge_model": JUDGES[model]}, NEEDED[model], 0
    draw, running, goal = random.Random(5), [], 0  # type: tuple[random.Random, list[ForkServerProcess], int]

    def reply(request: dict[str, Any]) -> Reply:
        if running and len(service.requests) >= goal:
            running[0].kill()
        found = replying(request)
        return Reply(found, delay_s=0.005) if isinstance(found, str) else found

    service.default = reply
    for _ in range(KILLS):
        goal = len(service.requests) + draw.randint(3, 18)
        running = [started(service, tmp_path / "logs", COUNT, judging=judging)]
        assert ended(running[0]) == -signal.SIGKILL, (tmp_path / "stderr.txt").read_text("utf-8")
        running = []
        service.settle()
        (journal,) = (tmp_path / "logs").glob("*.partial.jsonl")
        lines = [json.loads(line) for line in journal.read_bytes().splitlines() if line.endswith(b"}")]
        held = sum("reply" in line for line in lines) + sum("row" in line for line in lines)
        assert 0 <= len(service.requests) - held - lost <= IN_FLIGHT
        lost = len(service.requests) - held
    assert ended(started(service, tmp_path / "logs", COUNT, judging=judging)) == 0
    assert len(service.requests) == needed + lost and lost <= KILLS * IN_FLIGHT
    asked = Counter((number_of(each), len(each.get("messages", ()))) for each in service.requests)
    assert len(asked) == needed
    (log,) = (tmp_path / "logs").glob("*.json")
    run = load_run(log)
    assert run.info.sessions == KILLS + 1 and len(run.results) == COUNT and run.summary.n_unscored == 0
    assert sum(result.evaluation.attempts for result in run.results) == needed


@pytest.mark.parametrize("model", JUDGES)
def test_a_cap_holds_over_a_kill_but_for_the_calls_in_flight(service: Service, tmp_path: Path, model: str) -> None:
    judging: dict[str, Any] = {"judge_model": JUDGES[model]}
    running: list[ForkServerProcess] = []

    def reply(request: dict[str, Any]) -> Reply | str:
        if running and len(service.requests) >= 12:
            running[0].kill()
        return replying(request)

    service.default = reply
    capped = {"judging": judging | {"max_cost_usd": CAP_USD[model]}}
    running = [started(service, tmp_path / "logs", COUNT, **capped)]
    assert ended(running[0]) == -signal.SIGKILL
    running = []
    assert ended(started(service, tmp_path / "logs", COUNT, **capped)) == 1
    assert "BudgetReached" in (tmp_path / "stderr.txt").read_text("utf-8")
    service.settle()
    n_asked = len(service.requests)
    assert 12 <= n_asked < NEEDED[model] and n_asked * CALL_USD[model] <= CAP_USD[model] + IN_FLIGHT * CALL_USD[model]
    assert ended(started(service, tmp_path / "logs", COUNT, judging=judging)) == 0
    assert len(service.requests) <= NEEDED[model] + IN_FLIGHT
