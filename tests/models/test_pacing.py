"""How fast and how dear a run may be: refusals, retries, the budget, a sick service."""

from __future__ import annotations

import random
import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.own_prices import set_prices
from support.runs import with_options
from support.service import KEY, Reply, Service, error, judgement

from socjudge import (
    AssistantAnswer,
    ConfigError,
    EvalQuestion,
    EvaluationRun,
    load_run,
    run_evaluation_suite,
    unfinished_runs,
)
from socjudge.errors import BudgetReached, ProviderError
from socjudge.models import event_loop as background
from socjudge.models import opening as providers
from socjudge.models import pacing
from socjudge.models.gate import RunGate
from socjudge.models.pace import WAVE
from socjudge.models.pacing import Account, Retryable, send_with_retries
from socjudge.records import Completion, ModelRequest, Usage

CALL_USD = 0.00027  # what the loopback service says it used, at gpt-4o-mini's price


def run_judge(count: int, tmp_path: Path, **keywords: Any) -> EvaluationRun:
    questions = [EvalQuestion(i, "正常系", f"質問{i}", ("要点",)) for i in range(count)]
    answers = [AssistantAnswer(q.question, f"回答{q.id}", "文脈") for q in questions]
    keywords = {"judge_model": "gpt-4o-mini", "progress": False, **keywords}
    return run_evaluation_suite(questions, answers=answers, logs_dir=tmp_path / "logs", **with_options(**keywords))


def number(request: dict[str, Any]) -> int:
    """Which of the questions a call is about."""
    found = re.search(r"質問(\d+)", request["messages"][0]["content"])
    assert found is not None
    return int(found[1])


def test_without_refusals_all_places_are_used(service: Service, tmp_path: Path) -> None:
    all_are_here = threading.Barrier(20)

    def reply(request: dict[str, Any]) -> str:
        if number(request) >= 20:
            all_are_here.wait(30)
        return judgement(80)

    service.default = reply
    run_judge(40, tmp_path, max_concurrency=20)
    assert service.max_at_once == 20


@pytest.mark.slow
@pytest.mark.parametrize("ceiling", [2, 8, 64])
def test_a_server_that_queues_loses_no_question_whatever_the_ceiling(
    service: Service, tmp_path: Path, ceiling: int
) -> None:
    one = threading.Lock()

    def reply(request: dict[str, Any]) -> Reply:
        with one:
            time.sleep(0.2)
        return Reply(judgement(80))

    service.default = reply
    judge = providers.OpenAIModel("slow", base_url=service.base_url)
    run = run_judge(
        16, tmp_path, judge_model=judge, max_concurrency=ceiling, timeout_s=2
    )  # 16 at once would take 3.2 s
    assert {r.evaluation.status for r in run.results} == {"ok"}
    assert service.max_at_once < 16


@pytest.mark.slow
def test_a_real_limit_is_never_overrun(service: Service, tmp_path: Path) -> None:
    lock, state = threading.Lock(), {"tokens": 5.0, "at": time.monotonic(), "in a row": 0, "most": 0}

    def reply(request: dict[str, Any]) -> Reply:  # a token bucket of 5 that gets 50 a second
        with lock:
            now = time.monotonic()
            state["tokens"] = min(5.0, state["tokens"] + 50 * (now - state["at"]))
            state["at"] = now
            state["in a row"] = 0 if state["tokens"] >= 1 else state["in a row"] + 1
            state["most"] = max(state["most"], state["in a row"])
            if state["tokens"] < 1:
                return error(429, "Rate limit reached", retry_after="0.1")
            state["tokens"] -= 1
        return Reply(judgement(80))

    service.default = reply
    run = run_judge(120, tmp_path, max_concurrency=32)
    assert {r.evaluation.status for r in run.results} == {"ok"}
    # Those in flight when it said so; then it is knocked at after 2, 4, 8 and 16 ms, and has the next after 20.
    assert state["most"] <= 32 + WAVE + 4
    assert service.refused < 120


def test_while_calls_wait_as_the_service_asked_other_questions_are_asked(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.script = [error(429, "Rate limit reached", retry_after="0.5")] * 2
    service.default = Reply(judgement(80), delay_s=0.05)
    run = run_judge(30, tmp_path, max_concurrency=2)
    assert {r.evaluation.status for r in run.results} == {"ok"}
    asked = [number(request) for request in service.requests]
    assert sorted(asked[:3]) == [0, 1, 2]  # and not one of the refused again
    for refused in (0, 1):
        first, again = (at for name, at in zip(asked, service.times, strict=True) if name == refused)
        assert again - first >= 0.5
    assert service.max_at_once == 2


def test_a_wait_that_the_service_asked_for_makes_no_later_backoff_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = Retryable("429", refused=True, retry_after_s=0.001)
    script = [refused, Retryable("500"), refused, refused, Retryable("500")]
    longest: list[float] = []
    monkeypatch.setattr(random, "uniform", lambda low, high: longest.append(high) or 0.0)

    async def send() -> Completion:
        if script:
            raise script.pop(0)
        return Completion("", "m", Usage())

    found = background.wait(send_with_retries(send, what="m", account=Account()))
    assert found.retries == ("429", "500", "429", "429", "500")
    assert longest == [2 * pacing.BACKOFF_S, 4 * pacing.BACKOFF_S]


@pytest.mark.parametrize("threads", [0, 2], ids=["in the loop", "executor"])
def test_processing_time_is_that_of_the_calls_that_were_answered(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    now = [0.0]
    monkeypatch.setattr(pacing, "perf_counter", lambda: now[0])

    def taking(seconds: float, reply: Reply) -> Callable[[dict[str, Any]], Reply]:
        def answer(request: dict[str, Any]) -> Reply:
            now[0] += seconds
            return reply

        return answer

    good = taking(0.25, Reply(judgement(80)))
    refused = taking(9.0, error(429, "slow down", retry_after="0.01"))
    # The first is refused first; the second is unreadable first; the rest only wait for their turn.
    service.script = [refused, good, taking(2.0, Reply("読めない"))]  # type: ignore[list-item]
    service.default = good
    with ThreadPoolExecutor(max(threads, 1)) as pool:
        run = run_judge(5, tmp_path, max_concurrency=1, executor=pool if threads else None)
    assert [r.evaluation.processing_time for r in run.results] == [0.25, 2.25, 0.25, 0.25, 0.25]


@pytest.mark.slow
def test_with_many_faults_all_are_scored_and_only_what_the_faults_explain_is_asked_again(
    service: Service, tmp_path: Path
) -> None:
    draw, lock = random.Random(11), threading.Lock()
    seen = {"refused": 0, "broken": 0, "cut": 0}

    def reply(request: dict[str, Any]) -> Reply:
        with lock:
            number = draw.random()
        for kind, share in (("refused", 0.05), ("broken", 0.07), ("cut", 0.10)):
            if number < share:
                with lock:
                    seen[kind] += 1
                faults = {
                    "refused": error(429, "Rate limit reached"),
                    "broken": error(500, "The server had an error"),
                    "cut": Reply(judgement(90)[:-60]),
                }
                return faults[kind]
        return Reply(judgement(80))

    service.default = reply
    run = run_judge(300, tmp_path, max_concurrency=16)
    assert [r.evaluation.average_score for r in run.results] == [80.0] * 300  # no cut reply was taken
    assert len(service.requests) == 300 + sum(seen.values())
    causes = " ".join(r.evaluation.error for r in run.results)
    assert causes.count("retried: HTTP 429") == seen["refused"] > 0
    assert causes.count("retried: HTTP 500") == seen["broken"] > 0
    assert causes.count("reply 1:") + causes.count("reply 2:") == seen["cut"] > 0


@pytest.mark.slow
def test_a_service_that_breaks_down_ends_the_run_and_the_rest_is_asked_later(service: Service, tmp_path: Path) -> None:
    service.script = [Reply(judgement(80))] * 5
    service.default = error(503, "Overloaded")
    with pytest.raises(ProviderError, match=r"4 questions in a row failed.*Overloaded.*\n5 of 50 judged answers"):
        run_judge(50, tmp_path, max_concurrency=2, max_failures=4)
    assert len(service.requests) <= 5 + 6 * pacing.MAX_TRIES
    service.default = judgement(80)
    run = run_judge(50, tmp_path, max_failures=4)
    assert {r.evaluation.status for r in run.results} == {"ok"}


def test_a_wrong_key_is_one_clear_error_however_many_calls_were_out(service: Service, tmp_path: Path) -> None:
    service.default = error(401, f"Incorrect API key provided: {KEY}")
    with pytest.raises(ConfigError, match="check OPENAI_API_KEY") as caught:
        run_judge(100, tmp_path, max_concurrency=10)
    assert KEY not in str(caught.value)
    assert len(service.requests) <= 10
    assert unfinished_runs(tmp_path / "logs") == []


# -- money


@pytest.mark.slow
def test_the_budget_is_never_exceeded_and_a_higher_one_goes_on(service: Service, tmp_path: Path) -> None:
    draw = random.Random(5)
    service.default = lambda request: "読めない" if draw.random() < 0.3 else judgement(80)
    cap = 0.04
    with pytest.raises(BudgetReached, match=r"the budget of \$0.04 leaves no room for another call") as caught:
        run_judge(200, tmp_path, max_concurrency=8, max_cost_usd=cap)
    spent = len(service.requests) * CALL_USD
    assert 0.5 * cap < spent <= cap
    (unfinished,) = unfinished_runs(tmp_path / "logs")
    assert unfinished.cost_usd == pytest.approx(spent)
    assert "start the same run again to go on" in str(caught.value)
    with pytest.raises(BudgetReached):  # what was spent before counts
        run_judge(200, tmp_path, max_concurrency=8, max_cost_usd=cap)
    assert len(service.requests) * CALL_USD <= cap
    run = run_judge(200, tmp_path, max_cost_usd=1.0)
    assert run.usage.cost_usd == pytest.approx(len(service.requests) * CALL_USD)


def test_calls_without_a_reply_count_against_the_budget(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.default = Reply(drop=True)
    model = providers.OpenAIModel("gpt-4o-mini", api_key=KEY, base_url=service.base_url)
    with pytest.raises(BudgetReached):
        run_judge(50, tmp_path, judge_model=model, max_concurrency=1, max_cost_usd=0.01)
    # Each may have been billed at the most it can cost: 4,000 tokens out alone are $0.0024.
    assert len(service.requests) <= 4


def test_a_budget_needs_a_known_price_and_the_settings_can_give_it(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match=r"price of 'my-7b' is unknown.*\[prices"):
        run_judge(3, tmp_path, judge_model="my-7b", max_cost_usd=1.0)
    assert service.requests == []
    set_prices(tmp_path, monkeypatch, {"my-7b": (1.0, 2.0)})
    run = run_judge(3, tmp_path, judge_model="my-7b", max_cost_usd=1.0)
    # 1,000 tokens in at $1 and 200 out at $2 per million, three times.
    assert run.usage.cost_usd == pytest.approx(3 * 0.0014)


class Own:
    """A model object of somebody else, with a part of the protocol. faults: raised first, one a call."""

    name = "mine"

    def __init__(self, *faults: Exception, cost_usd: float | None = 1.0) -> None:
        self.usage, self.faults, self.calls = Usage(1, 1000, 100, cost_usd), list(faults), 0

    def complete(self, request: ModelRequest) -> Completion:
        self.calls += 1
        if self.faults:
            raise self.faults.pop(0)
        return Completion(judgement(80), self.name, self.usage)


class Priced(Own):
    def most_usd(self, request: ModelRequest) -> float:
        return 1.5


def test_an_object_whose_price_is_unknown_takes_no_budget_and_works_without(tmp_path: Path) -> None:
    model = Own()
    with pytest.raises(ConfigError, match=r"max_cost_usd cannot be held: the price of 'mine' is unknown.*most_usd"):
        run_judge(3, tmp_path, judge_model=model, max_cost_usd=0.5)
    assert model.calls == 0
    assert run_judge(3, tmp_path, judge_model=model).usage.cost_usd == 3.0


@pytest.mark.slow
@pytest.mark.parametrize("cost", [1.0, 0.0, None, -5.0, float("nan")])
def test_the_budget_holds_for_an_object_that_tells_its_price(tmp_path: Path, cost: float | None) -> None:
    model = Priced(cost_usd=cost)
    with pytest.raises(BudgetReached):
        run_judge(20, tmp_path, judge_model=model, max_cost_usd=4.0)
    # At $1.00 three calls, since a fourth could cost $1.50; two where it does not say what they cost.
    assert model.calls == (3 if cost == 1.0 else 2)


def test_the_settings_can_give_the_price_of_an_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_prices(tmp_path, monkeypatch, {"mine": (0.0, 250.0)})
    model = Own()  # 4,000 tokens out at $250 a million: $1 a call
    with pytest.raises(BudgetReached):
        run_judge(20, tmp_path, judge_model=model, max_cost_usd=4.0)
    assert model.calls == 4


@pytest.mark.slow
def test_an_object_is_tried_again_like_our_own_models(tmp_path: Path) -> None:
    refused = ConnectionError("busy")
    refused.status_code = 429  # type: ignore[attr-defined]
    model = Own(ConnectionError("reset"), ProviderError("down"), refused)
    run = run_judge(1, tmp_path, judge_model=model)
    (marks,) = [result.evaluation for result in run.results]
    assert (marks.status, model.calls, marks.usage.lost_calls) == ("ok", 4, 2)
    assert marks.error.count("retried: ") == 3
    model = Own(*[ConnectionError("reset")] * 100)
    with pytest.raises(ProviderError, match="mine: failed 5 times, last with: ConnectionError: reset"):
        run_judge(1, tmp_path, judge_model=model)
    assert model.calls == pacing.MAX_TRIES


def test_what_we_gave_up_behind_an_object_is_not_tried_all_over_again(service: Service, tmp_path: Path) -> None:
    class Wrapper:
        name = "wrapper"
        complete = staticmethod(providers.open_model("gpt-4o-mini").complete)

    service.default = error(500, "down")
    with pytest.raises(ProviderError, match="failed 5 times"):
        run_judge(1, tmp_path, judge_model=Wrapper())
    assert len(service.requests) == pacing.MAX_TRIES


def test_an_object_that_returns_no_completion_is_told_what_to_return(tmp_path: Path) -> None:
    class Text(Own):
        def complete(self, request: ModelRequest) -> Any:
            return "80"

    with pytest.raises(ConfigError, match="mine returned a str; `complete` returns a Completion"):
        run_judge(1, tmp_path, judge_model=Text())


@pytest.mark.slow
def test_the_budget_holds_for_a_langchain_object_or_is_refused(service: Service, tmp_path: Path) -> None:
    from langchain_core.language_models import FakeListChatModel
    from langchain_openai import ChatOpenAI

    with pytest.raises(ConfigError, match="max_cost_usd cannot be held"):
        run_judge(1, tmp_path, judge_model=FakeListChatModel(responses=["x"]), max_cost_usd=1.0)
    service.default = Reply(drop=True)  # each may have been billed at the most
    # 4,000 tokens out are $0.0024, 400 are $0.00024; the prompt is at most about $0.0005.
    for limit, at_most in ((None, 4), (400, 14)):
        service.requests.clear()
        judge = ChatOpenAI(model="gpt-4o-mini", max_tokens=limit)
        with pytest.raises((BudgetReached, ProviderError)):
            run_judge(50, tmp_path, judge_model=judge, max_concurrency=1, max_cost_usd=0.01, fresh=True)
        assert {request["max_completion_tokens"] for request in service.requests} == {limit or 4000}
        assert len(service.requests) <= at_most


calls = st.lists(
    st.tuples(st.floats(0.1, 1.0), st.sampled_from(["ok", "ok", "lost", "refused", "none"])), min_size=1, max_size=30
)


@pytest.mark.slow
@given(calls, st.floats(0.5, 8.0), st.integers(1, 6))
@settings(max_examples=50)
def test_whatever_calls_cost_the_budget_holds(plan: list[tuple[float, str]], cap: float, at_once: int) -> None:
    # Each call can cost 1.0 at most; "lost" ones are billed without a reply, "refused" ones are not billed.
    billed = 0.0

    async def send(share: float, kind: str) -> Completion:
        nonlocal billed
        await pacing.asyncio.sleep(0)
        if kind == "refused":
            raise Retryable("429", refused=True, retry_after_s=0.0)
        billed += share
        if kind == "lost":
            raise Retryable("timeout", may_be_billed=True, retry_after_s=0.0)
        return Completion("", "m", Usage(1, 0, 0, None if kind == "none" else share))

    async def main() -> None:
        run, account = RunGate(max_concurrency=at_once, budget=cap), Account()
        await pacing.asyncio.gather(
            *(
                send_with_retries(
                    lambda share=share, kind=kind: send(share, kind),  # type: ignore[misc]
                    what="m", account=account, gate=run, most_usd=lambda: 1.0,
                )
                for share, kind in plan
            ),
            return_exceptions=True,
        )  # fmt: skip
        assert run.in_flight == account.pace.in_flight == 0

    background.wait(main())
    assert billed <= cap + 1e-9


def test_a_partial_run_can_be_read(service: Service, tmp_path: Path) -> None:
    service.script = [Reply(judgement(80))] * 3
    service.default = error(401, "no")
    with pytest.raises(ConfigError):
        run_judge(10, tmp_path, max_concurrency=1)
    (unfinished,) = unfinished_runs(tmp_path / "logs")
    partial = load_run(unfinished.path)
    assert (len(partial.results), partial.summary.average_score, partial.log_path) == (3, 80.0, None)
