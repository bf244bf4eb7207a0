"""The cap of a run holds, counted in dollars at the service: whatever answers, whatever it says, and after kills."""

from __future__ import annotations

import json
import math
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.command_line import ended, started
from support.own_prices import set_prices
from support.runs import with_options
from support.service import Reply, Service, error, judgement

from socjudge import AssistantAnswer, ConfigError, EvalQuestion, RunStopped, plan_run, run_evaluation_suite
from socjudge.answering.own_assistant import Assistant
from socjudge.errors import BudgetReached, SocJudgeError
from socjudge.models.prices import price_usd
from socjudge.records import Usage
from socjudge.runs.unfinished import UnfinishedRun, unfinished_runs

QUESTIONS = [EvalQuestion(n, "正常系", f"質問{n}です", ("端末の隔離",)) for n in range(60)]
ANSWERS = [AssistantAnswer(q.question, "端末を隔離します。[出典: a.md > b]", "文脈") for q in QUESTIONS]
AT_ONCE = 8


class Billing:
    """Replies as a gateway that routes to another model, and adds up what it bills: by the model that answers, for the
    tokens that it counts, whether it says them or not."""

    def __init__(self, model: str, *, says_usage: bool, tokens: tuple[int, int] = (1000, 4000)) -> None:
        self.model, self.says_usage, self.tokens = model, says_usage, tokens
        self.calls, self.lock = 0, threading.Lock()

    @property
    def call_usd(self) -> float:
        price = price_usd(self.model, *self.tokens)
        assert price is not None
        return price

    @property
    def usd(self) -> float:
        return self.calls * self.call_usd

    def __call__(self, request: dict[str, Any]) -> Reply:
        with self.lock:
            self.calls += 1
        message = {"message": {"role": "assistant", "content": judgement(80)}, "finish_reason": "stop"}
        body: dict[str, Any] = {"model": self.model, "choices": [message]}
        if self.says_usage:
            body["usage"] = dict(zip(("prompt_tokens", "completion_tokens"), self.tokens, strict=True))
        return Reply(body=json.dumps(body), delay_s=0.02)


def judge_all(tmp_path: Path, judge: Any, cap: Any, **keywords: Any) -> Any:
    keywords = {"answers": ANSWERS, "max_concurrency": AT_ONCE, **keywords}
    return run_evaluation_suite(
        QUESTIONS, judge_model=judge, logs_dir=tmp_path / "logs", progress=False, max_cost_usd=cap,
        **with_options(**keywords),
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("asked", "answers", "cap"), [("gpt-4.1-nano", "o1-pro", 2.0), ("gpt-4o-mini", "gpt-4o", 0.2)])
@pytest.mark.parametrize("says_usage", [True, False])
def test_a_dearer_model_that_answers_passes_the_cap_by_the_first_calls_alone(
    service: Service, tmp_path: Path, asked: str, answers: str, cap: float, says_usage: bool
) -> None:
    service.default = billing = Billing(answers, says_usage=says_usage)
    with pytest.raises(BudgetReached):
        judge_all(tmp_path, asked, cap)
    first = 2 * billing.call_usd  # calls in flight before anything is known of a service
    assert billing.usd <= cap + first
    billed = billing.usd
    for _ in range(3):  # what was learned is not forgotten by the next start
        with pytest.raises(BudgetReached):
            judge_all(tmp_path, asked, cap)
    assert billing.usd == billed


@pytest.mark.slow
@pytest.mark.parametrize("says_usage", [True, False])
def test_a_price_of_zero_is_that_of_the_model_asked_alone(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says_usage: bool
) -> None:
    set_prices(tmp_path, monkeypatch, {"house-7b": (0, 0)})
    service.default = billing = Billing("gpt-4.1", says_usage=says_usage)
    with pytest.raises(BudgetReached):
        judge_all(tmp_path, "house-7b", 0.01)
    assert billing.calls <= 2


@pytest.mark.slow
def test_a_dearer_model_that_comes_in_the_middle_is_counted_from_its_first_reply(
    service: Service, tmp_path: Path
) -> None:
    cheap, dear = Billing("gpt-4.1-nano", says_usage=True), Billing("o1-pro", says_usage=False)
    service.default = lambda request: (cheap if cheap.calls < 30 else dear)(request)
    with pytest.raises(BudgetReached):
        judge_all(tmp_path, "gpt-4.1-nano", 2.0)
    assert dear.calls <= AT_ONCE


@pytest.mark.slow
def test_a_dearer_model_behind_langchain_or_an_object_is_counted(service: Service, tmp_path: Path) -> None:
    from langchain_openai import ChatOpenAI

    service.default = billing = Billing("o1-pro", says_usage=False)
    with pytest.raises(BudgetReached):
        judge_all(tmp_path, ChatOpenAI(model="gpt-4.1-nano"), 2.0)
    assert billing.usd <= 2.0 + 2 * billing.call_usd


class Bot:
    """An assistant that bills a dollar for each answer, and says so, or a later one that costs more."""

    def __init__(self, *usd: float, fails: bool = False) -> None:
        self.usd, self.fails, self.calls, self.billed, self.lock = usd, fails, 0, 0.0, threading.Lock()

    def __call__(self, question: str) -> dict[str, Any]:
        with self.lock:
            cost_usd = self.usd[min(self.calls, len(self.usd) - 1)]
            self.calls += 1
            self.billed += cost_usd
            number = self.calls
        if self.fails and number > 1:
            raise TimeoutError("the answer was made, and did not arrive")
        return {"answer": "隔離します。", "contexts": ["隔離する。"], "cost_usd": cost_usd}


@pytest.mark.slow
@pytest.mark.parametrize("concurrency", [None, 16])
@pytest.mark.parametrize("fails", [False, True])
def test_an_own_assistant_that_says_what_it_costs_keeps_to_the_cap(
    tmp_path: Path, concurrency: int | None, fails: bool
) -> None:
    bot = Bot(1.0, fails=fails)
    own = Assistant(bot, name="bot", version="1", concurrency=concurrency)
    for _ in range(2):
        with pytest.raises(RunStopped):
            judge_all(tmp_path, "offline", 3.5, answers=own, max_concurrency=16)
        assert bot.billed == 3.0


@pytest.mark.slow
def test_an_own_assistant_that_becomes_dearer_passes_the_cap_by_the_calls_in_flight_alone(tmp_path: Path) -> None:
    bot = Bot(*[0.01] * 10, 1.0)
    own = Assistant(bot, name="bot", version="1", concurrency=4)
    with pytest.raises(BudgetReached):
        judge_all(tmp_path, "offline", 2.5, answers=own, max_concurrency=16)
    assert bot.billed <= 2.5 + 4 * 1.0


@pytest.mark.slow
def test_what_stored_answers_have_cost_is_not_what_this_run_costs(tmp_path: Path) -> None:
    given = [replace(answer, usage=Usage(1, 100, 100, 0.5)) for answer in ANSWERS[:2]]
    run = run_evaluation_suite(QUESTIONS[:2], answers=given, judge_model="offline", logs_dir=tmp_path, progress=False)
    assert run.run.most_usd == 0.0


@pytest.mark.slow
def test_a_gateways_timeout_counts_as_a_call_that_may_have_been_billed(service: Service, tmp_path: Path) -> None:
    service.default = error(504, "upstream timed out")
    with pytest.raises(SocJudgeError):
        run_evaluation_suite(
            QUESTIONS[:1],
            answers=ANSWERS[:1],
            judge_model="gpt-4o",
            max_cost_usd=0.1,
            logs_dir=tmp_path,
            progress=False,
        )
    most = price_usd("gpt-4o", 1000, 4000)
    assert most is not None and len(service.requests) <= 0.1 / most + 1


@pytest.mark.slow
def test_kills_with_calls_in_flight_do_not_pass_the_cap(service: Service, tmp_path: Path) -> None:
    """Each call is billed when it comes, and the process is killed while some are in flight."""
    billing = Billing("gpt-4o", says_usage=True)
    goal, running, cap = 0, list[Any](), 1.5

    def reply(request: dict[str, Any]) -> Reply:
        found = billing(request)
        if running and billing.calls >= goal:
            running[0].kill()
        return Reply(body=found.body, delay_s=0.3)

    service.default = reply
    logs = tmp_path / "logs"
    how: dict[str, Any] = {"judge_model": "gpt-4o", "max_cost_usd": cap}
    for _ in range(4):
        goal = billing.calls + AT_ONCE
        running = [started(service, logs, 200, judging=how)]
        code = ended(running[0])
        running = []
        service.settle()
        assert billing.usd <= cap
        (journal,) = logs.glob("*.partial.jsonl")
        assert UnfinishedRun(journal).spent_usd >= billing.usd - 1e-9
        if code != -signal.SIGKILL:
            break
    ended(started(service, logs, 200, judging=how))
    assert 0.5 * cap < billing.usd <= cap
    (left,) = unfinished_runs(logs)
    assert left.spent_usd <= cap


@pytest.mark.slow
def test_what_was_in_flight_is_taken_back_when_it_ends(service: Service, tmp_path: Path) -> None:
    """A call that ended counts what it cost, in the journal too, and without a cap none is noted before it ends."""
    service.default = lambda request: (
        error(400, "filtered", code="content_filter") if "質問3です" in str(request) else judgement(80)
    )
    stop = threading.Event()
    with pytest.raises(RunStopped):
        judge_all(tmp_path, "gpt-4o-mini", 1.0, on_result=lambda _: stop.set(), stop=stop)
    (left,) = unfinished_runs(tmp_path / "logs")
    lines = [json.loads(line) for line in left.path.read_text("utf-8").splitlines()]
    assert left.spent_usd == pytest.approx(left.cost_usd) and lines[-1]["open_usd"] == 0
    assert max(line.get("open_usd", 0) for line in lines) > 0
    again = threading.Event()
    with pytest.raises(RunStopped):
        judge_all(tmp_path / "no-cap", "gpt-4o-mini", None, on_result=lambda _: again.set(), stop=again)
    (path,) = (tmp_path / "no-cap" / "logs").glob("*.partial.jsonl")
    kinds = [set(json.loads(line)) for line in path.read_text("utf-8").splitlines()]
    assert sum(kind <= {"t", "spent_usd", "open_usd"} for kind in kinds) <= 1  # the last one


@pytest.mark.parametrize("cap", ["0.5", True, False, math.nan, -1, -math.inf, 1 + 2j, [1], {}])
def test_odd_caps_are_refused_as_in_the_settings(service: Service, tmp_path: Path, cap: Any) -> None:
    starts: list[Callable[[], Any]] = [
        lambda: judge_all(tmp_path, "gpt-4o-mini", cap),
        lambda: plan_run(QUESTIONS, answers=ANSWERS, judge_model="gpt-4o-mini").run(max_cost_usd=cap, progress=False),
    ]
    for start in starts:
        with pytest.raises(ConfigError, match="max_cost_usd = .* will not do: write a number of US dollars"):
            start()
    assert service.requests == [] and not os.path.exists(tmp_path / "logs")
