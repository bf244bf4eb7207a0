"""One purse: a cap is for all that a call sets off, whatever services tell, and a price is that of what was asked for."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.certify_judge import probe
from support.own_prices import set_prices
from support.runs import with_options
from support.service import AfterCalls, Reply, Service, error, judgement

from socjudge import (
    AssistantAnswer,
    ConfigError,
    EvalQuestion,
    EvaluationRun,
    RunStopped,
    SocJudgeError,
    constants,
    handle_query,
    load_eval_dataset,
    load_prompt,
    load_runs,
    plan_run,
    rejudge,
    run_evaluation_suite,
    try_prompt,
)
from socjudge.answering.own_assistant import Assistant
from socjudge.certify import certify_judge
from socjudge.errors import BudgetReached
from socjudge.models.opening import open_model
from socjudge.models.prices import estimate_tokens
from socjudge.records import ModelRequest
from socjudge.runbooks.index import RunbookIndex

QUESTIONS = [EvalQuestion(n, "正常系", f"質問{n}です", ("端末の隔離",)) for n in range(1, 11)]
ANSWERS = [AssistantAnswer(q.question, "端末を隔離します。[出典: a.md > b]", "文脈") for q in QUESTIONS]


def reply(request: dict[str, Any], *, model: str = "", **usage: Any) -> Reply:
    """A judgement, with no usage unless given."""
    message = {"message": {"role": "assistant", "content": judgement(80)}, "finish_reason": "stop"}
    body: dict[str, Any] = {"model": model or request["model"], "choices": [message]}
    return Reply(body=json.dumps(body | ({"usage": usage} if usage else {})))


def silent(request: dict[str, Any]) -> Reply:
    return reply(request)


def judge_all(tmp_path: Path, judge: Any = "gpt-4o-mini", **keywords: Any) -> EvaluationRun:
    keywords = {"answers": ANSWERS, "max_concurrency": 2, **keywords}
    return run_evaluation_suite(
        QUESTIONS, judge_model=judge, logs_dir=tmp_path / "logs", progress=False, **with_options(**keywords)
    )


def most_usd(requests: list[dict[str, Any]]) -> float:
    """The most that calls can have cost at list prices, one by one."""
    total = 0.0
    for request in requests:
        asked = ModelRequest("judge", tuple(request["messages"]), {}, max_output_tokens=request["max_tokens"])
        total += open_model(request["model"]).most_usd(asked) or 0.0
    return total


def anchoring(given: Any, *, progress: bool, **how: Any) -> None:
    probe(given, "flags", **how)


def test_an_experiment_keeps_its_cap(service: Service, tmp_path: Path) -> None:
    service.default = silent
    given = list(zip(QUESTIONS[:5], ANSWERS[:5], strict=True))
    anchoring(given, judge_model="gpt-4o", max_cost_usd=0.5, logs_dir=tmp_path, progress=False)
    assert 0.4 < most_usd(service.requests) <= 0.5


@pytest.mark.parametrize(
    "experiment",
    [anchoring, pytest.param(certify_judge, marks=pytest.mark.slow)],
)
def test_an_experiment_that_breaks_off_pays_nothing_again_and_keeps_its_cap(
    service: Service, tmp_path: Path, experiment: Callable[..., Any]
) -> None:
    service.default = silent
    given = list(zip(QUESTIONS[:2], ANSWERS[:2], strict=True))[: 1 if experiment is certify_judge else 2]
    cap = "budget_usd" if experiment is certify_judge else "max_cost_usd"
    how: dict[str, Any] = {"judge_model": "gpt-4o", "progress": False, "max_concurrency": 1}
    experiment(given, **with_options(**how, logs_dir=tmp_path / "whole", **{cap: math.inf}))
    whole = len(service.requests)
    service.requests.clear()
    how |= {"logs_dir": tmp_path / "broken"}
    with pytest.raises(RunStopped):
        experiment(given, **with_options(**how, stop=AfterCalls(service.requests, whole - 1), **{cap: math.inf}))
    paid = len(service.requests)
    assert paid < whole
    if experiment is not certify_judge:  # which plans less for less money
        experiment(given, **with_options(**how, **{cap: most_usd(service.requests)}))
        assert len(service.requests) == paid
    experiment(given, **with_options(**how, **{cap: math.inf}))
    assert len(service.requests) == whole
    experiment(given, **with_options(**how, **{cap: math.inf}))  # it was finished: this is another
    assert len(service.requests) == 2 * whole


def test_a_finished_part_whose_cost_nobody_knows_is_no_free_one(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A judge without a price; one side of a trial is finished when a cap and a price come."""
    run, text = judge_all(tmp_path), load_prompt("guide-1").text + "\n厳しく。"
    how: dict[str, Any] = {"judge_model": "my-a", "logs_dir": tmp_path / "trial", "progress": False}
    service.script = [judgement(80)] * 10 + [error(401, "no")]
    with pytest.raises(SocJudgeError):
        try_prompt(run, text, **how)
    set_prices(tmp_path, monkeypatch, {"my-a": (1, 1)})
    with pytest.raises(ConfigError, match="nobody knows what my-a has cost"):
        try_prompt(run, text, max_cost_usd=1, **how)


def test_judging_what_failed_costs_what_it_asks_for_and_its_cap_is_for_that(service: Service, tmp_path: Path) -> None:
    refused = error(400, "filtered", code="content_filter")
    service.default = lambda request: refused if "質問5です" in request["messages"][0]["content"] else judgement(80)
    run = judge_all(tmp_path)
    service.default = judgement(80)
    each = 0.00027
    again = rejudge(run, only_failed=True, logs_dir=tmp_path / "logs", progress=False, max_cost_usd=0.005)
    assert [r.evaluation.status for r in again.results] == ["ok"] * 10
    assert (run.cost_usd, again.cost_usd) == (pytest.approx(9 * each), pytest.approx(each))
    assert load_runs(tmp_path / "logs")["cost_usd"].sum() == pytest.approx(10 * each)
    assert again.run.judge_usage.calls == 1


@pytest.fixture
def prices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_prices(tmp_path, monkeypatch, {"corp-judge": (100, 100)})


@pytest.mark.usefixtures("prices")
@pytest.mark.parametrize(("asked", "usd"), [("corp-judge", 0.12), ("gpt-4o", 0.0045)])
def test_a_call_costs_what_was_asked_for_whatever_name_answers(
    service: Service, tmp_path: Path, asked: str, usd: float
) -> None:
    told = {"prompt_tokens": 1000, "completion_tokens": 200}
    service.default = lambda request: reply(request, model="gpt-4.1-nano", **told)
    assert judge_all(tmp_path, asked).cost_usd == pytest.approx(10 * usd)


@pytest.mark.usefixtures("prices")
def test_the_cap_counts_the_dearer_of_the_names(service: Service, tmp_path: Path) -> None:
    service.default = lambda request: reply(request, model="corp-judge", prompt_tokens=1000, completion_tokens=200)
    with pytest.raises(BudgetReached):
        judge_all(tmp_path, "gpt-4o-mini", max_cost_usd=1.2, max_concurrency=1)
    assert len(service.requests) == 5  # at $0.12 each, and the next may cost up to about $0.64


@pytest.mark.parametrize("told", [(1, 1), (0, 1), (1000, 1), (10, 200)])
def test_fewer_tokens_than_the_texts_can_have_are_unknown(
    service: Service, tmp_path: Path, told: tuple[int, int]
) -> None:
    service.default = lambda request: reply(request, prompt_tokens=told[0], completion_tokens=told[1])
    assert judge_all(tmp_path).cost_usd is None
    service.requests.clear()
    with pytest.raises(BudgetReached):
        judge_all(tmp_path, "gpt-4o", max_cost_usd=0.4, fresh=True)
    assert most_usd(service.requests) <= 0.4


@pytest.mark.parametrize(
    "told",
    [{"total_tokens": 4800}, {"total_tokens": 1300, "completion_tokens_details": {"reasoning_tokens": 3500}}],
    ids=["total", "details"],
)
@pytest.mark.parametrize("through", ["", "langchain"])
def test_reasoning_that_is_counted_beside_the_reply_is_billed_too(
    service: Service, tmp_path: Path, told: dict[str, Any], through: str
) -> None:
    from langchain_openai import ChatOpenAI

    service.default = lambda request: reply(request, prompt_tokens=1000, completion_tokens=300, **told)
    judge = ChatOpenAI(model="gpt-4o") if through else "gpt-4o"
    with pytest.raises(BudgetReached):
        judge_all(tmp_path, judge, max_cost_usd=0.2, max_concurrency=1)
    assert len(service.requests) == 4  # $0.0405 each


def test_reasoning_within_the_reply_is_counted_once(service: Service, tmp_path: Path) -> None:
    told = {"total_tokens": 1300, "completion_tokens_details": {"reasoning_tokens": 200}}
    service.default = lambda request: reply(request, prompt_tokens=1000, completion_tokens=300, **told)
    assert judge_all(tmp_path).run.judge_usage.output_tokens == 10 * 300


@pytest.mark.parametrize(
    "made", [{"n": 5}, {"extra_body": {"n": 5}}, {"bind": {"n": 5}}, {"bind": {"max_tokens": 20_000}}]
)  # fmt: skip
def test_the_cap_counts_what_a_langchain_model_is_set_to_send(
    service: Service, tmp_path: Path, made: dict[str, Any]
) -> None:
    from langchain_openai import ChatOpenAI

    service.default = silent
    bound = made.pop("bind", {})
    judge = ChatOpenAI(model="gpt-4o", max_tokens=4000, **made).bind(**bound)  # type: ignore[call-arg]
    with pytest.raises(BudgetReached):
        judge_all(tmp_path, judge, max_cost_usd=0.5, max_concurrency=1)
    assert len(service.requests) == 2  # 20,000 tokens come to $0.20


@pytest.mark.slow
def test_the_estimate_follows_k_as_the_prompts_that_are_sent_do(
    index: RunbookIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    questions = load_eval_dataset()
    how: dict[str, Any] = {"assistant_model": "offline", "judge_model": "gpt-4o-mini"}
    template = plan_run(questions, **how, k=1).left.input_tokens
    for k in (10, 30):  # below ten, most of what search finds is among the followed sections
        told = plan_run(questions, **how, k=k).left.input_tokens - template
        contexts = [
            [handle_query(q.question, index=index, model="offline", k=n).context for q in questions] for n in (1, k)
        ]
        really = sum(map(estimate_tokens, contexts[1])) - sum(map(estimate_tokens, contexts[0]))
        assert 0.7 < told / really < 2.0


def test_the_estimate_follows_prompt_and_criteria(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    how: dict[str, Any] = {"answers": ANSWERS, "judge_model": "gpt-4o-mini"}
    six = plan_run(QUESTIONS, **how).left
    monkeypatch.setattr(constants, "JUDGE_EVALUATION_CRITERIA", constants.JUDGE_EVALUATION_CRITERIA[:3])
    assert plan_run(QUESTIONS, **how).left.output_tokens < 0.65 * six.output_tokens


def test_what_a_resume_will_ask_again_is_left_to_pay(service: Service, tmp_path: Path) -> None:
    from socjudge import unfinished_runs

    service.default = "採点できません"
    with pytest.raises(ConfigError, match="could be read"):
        judge_all(tmp_path, max_concurrency=1)
    (waiting,) = unfinished_runs(tmp_path / "logs")
    assert waiting.done == 0
    left = plan_run(QUESTIONS, answers=ANSWERS, judge_model="gpt-4o-mini", logs_dir=tmp_path / "logs").left
    service.requests.clear()
    service.default = judgement(80)
    judge_all(tmp_path)
    assert len(service.requests) == left.calls == 10


def test_a_stop_keeps_what_was_spent(service: Service, tmp_path: Path) -> None:
    service.default = silent
    with pytest.raises(RunStopped):
        judge_all(tmp_path, "gpt-4o", stop=AfterCalls(service.requests, 3), max_concurrency=1)
    with pytest.raises(BudgetReached):
        judge_all(tmp_path, "gpt-4o", max_cost_usd=0.3)
    assert most_usd(service.requests) <= 0.3


def test_the_estimate_of_an_own_assistant_says_what_it_assumes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    own = Assistant(
        lambda question: {"answer": "隔離します。", "contexts": ["長い手順。" * 400] * 8}, name="my-bot", version="1"
    )
    for answers, is_told in ((own, True), (["隔離します。"] * 10, False), (None, False)):
        found = plan_run(QUESTIONS, answers=answers, assistant_model="offline", judge_model="gpt-4o-mini")
        assert ("my-bot" in found.cost_note and "500 tokens" in found.cost_note) == is_told
