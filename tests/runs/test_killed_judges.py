"""Decision models and two judges as one, killed at any moment: nothing that is in the journal is asked again, and a cap holds."""

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
from decision_service import SURE, deciding, scored
from run_process import ended, started
from service import Reply, Service, judgement

from socjudge import load_run

pytestmark = pytest.mark.slow
COUNT, KILLS, IN_FLIGHT = 80, 4, 8
DECIDES, CHEAP, DEAR = "gpt-4.1-mini", "gpt-4o-mini", "gpt-4o"  # in the table of prices, in each process
# What `decision_service` and `service` say that a call took, at list prices.
CALL_USD, CAP_USD = {DECIDES: 0.00082, CHEAP: 0.00027, DEAR: 0.0045}, 0.05
_NUMBER = re.compile(r"質問(\d+)\b")


def number_of(request: dict[str, Any]) -> int:
    found = _NUMBER.search(json.dumps(request, ensure_ascii=False))
    assert found is not None
    return int(found[1])


def replying(request: dict[str, Any]) -> Reply | str:
    """Each fifth answer has low marks from the decision model, and is near the pass line for the cheap judge."""
    is_fifth = number_of(request) % 5 == 0
    if "questions" in request:
        return deciding(lambda q: scored(q, (0.9, 0.1, 0.0) if is_fifth and q["name"] == "安全性" else SURE))(request)
    if "marks" in request["messages"][0]["content"]:
        return json.dumps({"reasons": {"安全性": "理由です"}}, ensure_ascii=False)
    return judgement(72 if is_fifth and request["model"] == CHEAP else 90)


JUDGES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "a decision model": ({"judge_model": f"decisions:{DECIDES}"}, []),
    "a decision model and a chat model for its reasons": (
        {"judge_model": f"decisions:{DECIDES}", "reasons_from": CHEAP}, [CHEAP],
    ),
    "two judges as one": ({"judge_model": CHEAP, "unsure_judge": DEAR}, [DEAR]),
}  # fmt: skip


@pytest.mark.parametrize("judges", JUDGES)
def test_killed_at_random_moments_nothing_in_the_journal_is_asked_again(
    service: Service, tmp_path: Path, judges: str
) -> None:
    judging, of_fifths = JUDGES[judges]
    draw, running, goal = random.Random(5), [], 0  # type: tuple[random.Random, list[ForkServerProcess], int]

    def reply(request: dict[str, Any]) -> Reply:
        if running and len(service.requests) >= goal:
            running[0].kill()
        found = replying(request)
        return Reply(found, delay_s=0.005) if isinstance(found, str) else found

    service.default = reply
    needed, lost = COUNT + COUNT // 5 * len(of_fifths), 0
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
    asked = Counter((each["model"], number_of(each)) for each in service.requests)
    assert len(asked) == needed
    (log,) = (tmp_path / "logs").glob("*.json")
    run = load_run(log)
    assert run.info.sessions == KILLS + 1 and len(run.results) == COUNT and run.summary.n_unscored == 0
    assert (run.info.n_unsure or run.info.n_reasons) == (COUNT // 5 if of_fifths else 0)


@pytest.mark.parametrize("judges", JUDGES)
def test_a_cap_holds_over_a_kill_but_for_the_calls_in_flight(service: Service, tmp_path: Path, judges: str) -> None:
    judging, of_fifths = JUDGES[judges]
    running: list[ForkServerProcess] = []

    def reply(request: dict[str, Any]) -> Reply | str:
        if running and len(service.requests) >= 12:
            running[0].kill()
        return replying(request)

    service.default = reply
    capped = {"judging": judging | {"max_cost_usd": CAP_USD}}
    running = [started(service, tmp_path / "logs", COUNT, **capped)]
    assert ended(running[0]) == -signal.SIGKILL
    running = []
    assert ended(started(service, tmp_path / "logs", COUNT, **capped)) == 1
    assert "BudgetReached" in (tmp_path / "stderr.txt").read_text("utf-8")
    service.settle()
    costs = [CALL_USD[each["model"]] for each in service.requests]
    needed = COUNT + COUNT // 5 * len(of_fifths)
    assert 12 < len(costs) < needed and sum(costs) <= CAP_USD + IN_FLIGHT * max(costs)
    assert ended(started(service, tmp_path / "logs", COUNT, judging=judging)) == 0
    assert len(service.requests) <= needed + IN_FLIGHT
