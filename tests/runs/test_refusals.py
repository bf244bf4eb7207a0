"""A refused question is an answer of the service: a row, which ends no run and no resume."""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Sized
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from support.runs import with_options
from support.service import AfterCalls, Reply, Service, error, is_judge_call, judgement

from socjudge import (
    AssistantAnswer,
    ConfigError,
    EvalQuestion,
    EvaluationRun,
    RunStopped,
    constants,
    load_eval_dataset,
    rejudge,
    run_evaluation_suite,
    unfinished_runs,
)
from socjudge.errors import ProviderError
from socjudge.records import RunOptions
from socjudge.runbooks.index import RunbookIndex

FILTERED = error(400, "The response was filtered: Azure OpenAI's content management policy", code="content_filter")
UNTOLD = error(400, "Invalid model name passed in model=nosuch")
QUESTIONS = [EvalQuestion(n, "正常系", f"質問{n}です", ("端末の隔離",)) for n in range(1, 21)]
ANSWERS = [AssistantAnswer(q.question, "端末を隔離します。[出典: a.md > b]", "文脈") for q in QUESTIONS]


def judge_all(tmp_path: Path, **keywords: Any) -> EvaluationRun:
    keywords = {"answers": ANSWERS, "judge_model": "gpt-4o-mini", "max_concurrency": 1, **keywords}
    return run_evaluation_suite(QUESTIONS, logs_dir=tmp_path / "logs", progress=False, **with_options(**keywords))


def break_off(calls: Sized, most: int, tmp_path: Path, **keywords: Any) -> None:
    """Have a run stopped after so many calls."""
    with pytest.raises(RunStopped):
        judge_all(tmp_path, stop=AfterCalls(calls, most), **keywords)


def asked(request: dict[str, Any]) -> int:
    """The number of the question in a request."""
    said = request["messages"][0]["content"]
    return next(q.id for q in reversed(QUESTIONS) if f"{q.question}" in said)  # type: ignore[return-value]


def refusing(ids: Container[int], refusal: Reply = FILTERED) -> Callable[[dict[str, Any]], Reply]:
    return lambda request: refusal if asked(request) in ids else Reply(judgement(80))


def statuses(run: EvaluationRun) -> dict[Any, str]:
    return {result.question.id: result.evaluation.status for result in run.results if result.evaluation.status != "ok"}


def test_a_resume_with_refused_questions_finishes_and_asks_them_last(service: Service, tmp_path: Path) -> None:
    service.default = refusing({2, 4, 6})
    break_off(service.requests, 12, tmp_path)
    service.requests.clear()
    run = judge_all(tmp_path)
    assert statuses(run) == {2: "failed", 4: "failed", 6: "failed"}
    order = [asked(request) for request in service.requests]
    assert order == [*range(13, 21), 2, 4, 6]


@pytest.mark.slow
@pytest.mark.parametrize(
    "refusal",
    [
        error(400, "no", code="content_filter"),
        Reply(status=400, error={"message": "no", "type": "content_policy_violation", "code": None, "param": None}),
        error(422, "Output blocked by content filtering policy"),
        error(413, "Payload too large"),
        error(400, "This model's maximum context length is 8192 tokens"),
        error(403, "Your chosen model requires moderation and your input was flagged"),
        error(451, "Blocked", code="content_filter"),
        error(500, "internal error", code="content_filter"),
        error(400, "Content Exists Risk"),
        error(400, "flagged as potentially violating our usage policy", code="invalid_prompt"),
        Reply(status=400, error={"message": "no", "code": "BadRequest", "innererror": {"code": "ResponsibleAIPolicy"}}),
        Reply(body='{"error": {"message": "no", "code": 400, "metadata": {"raw": "content_filter"}}}'),
        error(400, "Violated guardrail policy"),
        Reply(body='{"choices": [], "prompt_feedback": {"block_reason": "PROHIBITED_CONTENT"}}'),
        Reply(body='{"choices": [], "prompt_filter_results": [{"prompt_index": 0}]}'),
        Reply(body='{"choices": [{"finish_reason": "content_filter", "message": null}]}'),
        Reply(body='{"choices": [{"finish_reason": "content_filter"}]}'),
        Reply("", finish_reason="sensitive"),
    ],
    ids=[
        "code",
        "type",
        "words",
        "413",
        "length",
        "403",
        "451",
        "500",
        "risk",
        "usage policy",
        "inner error",
        "of another service",
        "guardrail",
        "no choice, Gemini",
        "no choice",
        "no message",
        "message missing",
        "sensitive",
    ],
)
def test_what_names_content_is_a_refusal_from_the_first(service: Service, tmp_path: Path, refusal: Reply) -> None:
    service.default = refusing(range(1, 15), refusal)
    run = judge_all(tmp_path, max_failures=2)
    assert statuses(run) == dict.fromkeys(range(1, 15), "failed")


@pytest.mark.parametrize("through", ["", "langchain"])
@pytest.mark.parametrize(
    "told",
    [
        {"message": "Unknown safety_identifier"},
        {"message": "Unknown soc-safety-judge", "metadata": {"model": "soc-safety-judge"}},
        {"message": "Unknown field", "detail": [{"loc": ["body"], "input": {"criteria": ["Safety"]}}]},
        {"message": "Unknown field", "content_filter_results": {}},
    ],
    ids=["parameter", "model", "what was sent", "key"],
)
def test_a_set_up_that_only_has_such_a_word_in_its_name_is_no_refusal(
    service: Service, tmp_path: Path, told: dict[str, Any], through: str
) -> None:
    from langchain_openai import ChatOpenAI

    service.default = Reply(status=400, error=told)
    judge: Any = ChatOpenAI(model="soc-safety-judge") if through else "soc-safety-judge"
    with pytest.raises(ProviderError, match="Unknown"):
        judge_all(tmp_path, judge_model=judge, max_concurrency=1)
    assert len(service.requests) == 1


@pytest.mark.slow
def test_a_block_of_dangerous_questions_that_the_filter_refuses_is_no_outage(service: Service, tmp_path: Path) -> None:
    questions = load_eval_dataset(constants.EVAL_DIR / "eval_dataset_extended.json")
    dangerous = [question for question in questions if question.category == "危険操作系"][:12]
    service.default = lambda request: (
        FILTERED if any(q.question in request["messages"][0]["content"] for q in dangerous) else Reply(judgement(80))
    )
    run = run_evaluation_suite(questions, answers=[AssistantAnswer(q.question, "回答", "文脈") for q in questions], progress=False, judge_model="gpt-4o-mini", logs_dir=tmp_path / "logs", options=RunOptions(max_concurrency=4))  # fmt: skip
    assert statuses(run) == {question.id: "failed" for question in dangerous}
    assert len(service.requests) == len(questions)


class _Refused(Exception):
    status_code = 400


class _Chat(BaseChatModel):
    """A LangChain model whose service refuses some questions as Azure words it."""

    model_name: str = "gpt-az"
    reply: str = judgement(80)
    refused: tuple[int, ...] = (1,)
    calls: list[int] = []  # noqa: RUF012

    @property
    def _llm_type(self) -> str:
        return "az"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"model_name": self.model_name}

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **_: Any) -> ChatResult:
        number = asked({"messages": [{"content": messages[-1].content}]})
        self.calls.append(number)
        if number in self.refused:
            raise _Refused("The response was filtered due to Azure OpenAI's content management policy")
        return ChatResult(generations=[ChatGeneration(message=AIMessage(self.reply))])


def test_a_question_refused_through_langchain_is_a_row_of_the_run_and_of_its_resume(tmp_path: Path) -> None:
    judge = _Chat(calls=[])
    break_off(judge.calls, 6, tmp_path, judge_model=judge)
    run = judge_all(tmp_path, judge_model=judge)
    assert statuses(run) == {1: "failed"}
    assert judge.calls.count(1) == 2 and judge.calls[-1] == 1


def test_a_reply_that_is_a_refusal_through_langchain_is_one(service: Service, tmp_path: Path) -> None:
    from langchain_openai import ChatOpenAI

    choice = {"message": {"role": "assistant", "content": None, "refusal": "I can't."}, "finish_reason": "stop"}
    service.default = refusing({1, 2}, Reply(body=json.dumps({"model": "gpt-4o-mini", "choices": [choice]})))
    run = judge_all(tmp_path, judge_model=ChatOpenAI(model="gpt-4o-mini"))
    assert statuses(run) == {1: "failed", 2: "failed"}
    assert len(service.requests) == 20


def test_a_filter_without_a_status_is_a_refusal_too(tmp_path: Path) -> None:
    class Filtering(_Chat):
        def _generate(self, *messages: Any, **keywords: Any) -> ChatResult:
            try:
                return super()._generate(*messages, **keywords)
            except _Refused:
                said = "Azure has not provided the response due to a content filter being triggered"
                raise ValueError(said) from None

    judge = Filtering(calls=[])
    assert statuses(judge_all(tmp_path, judge_model=judge)) == {1: "failed"}
    assert judge.calls.count(1) == 1


@pytest.mark.slow
def test_an_assistant_that_refuses_a_question_can_be_taken_up(index: RunbookIndex, tmp_path: Path) -> None:
    assistant = _Chat(calls=[], reply="端末を隔離します。")
    how: dict[str, Any] = {"answers": None, "index": index, "assistant_model": assistant, "judge_model": "offline"}
    break_off(assistant.calls, 4, tmp_path, **how)
    run = judge_all(tmp_path, **how)
    assert statuses(run) == {1: "failed"}
    assert assistant.calls.count(1) == 2


def test_judging_what_failed_goes_past_what_is_refused_for_good(service: Service, tmp_path: Path) -> None:
    service.default = refusing({2, 5})
    run = judge_all(tmp_path)
    service.default = refusing({2})
    service.requests.clear()
    again = rejudge(run, only_failed=True, logs_dir=tmp_path / "logs", progress=False)
    assert statuses(again) == {2: "failed"} and len(service.requests) == 2


def test_an_untold_400_for_everything_costs_one_call_at_each_start(service: Service, tmp_path: Path) -> None:
    service.default = UNTOLD
    for _ in range(2):
        with pytest.raises(ProviderError, match="Invalid model name"):
            judge_all(tmp_path)
    assert len(service.requests) == 2
    assert unfinished_runs(tmp_path / "logs") == []


@pytest.mark.slow
def test_an_untold_400_after_something_was_answered_is_a_row(service: Service, tmp_path: Path) -> None:
    """No list of words knows how each service refuses: what has answered others is not set up wrong."""
    service.default = refusing({8}, UNTOLD)
    break_off(service.requests, 7, tmp_path)
    service.requests.clear()
    assert statuses(judge_all(tmp_path)) == {8: "failed"}
    assert asked(service.requests[0]) == 8  # nothing had been answered in this session
    service.default = refusing(range(2, 21), UNTOLD)
    run = judge_all(tmp_path, fresh=True, max_failures=3)
    assert statuses(run) == dict.fromkeys(range(2, 21), "failed")


@pytest.mark.parametrize("through", ["", "langchain"])
@pytest.mark.parametrize("status", [403, 404])
def test_a_question_that_a_firewall_blocks_is_asked_again_last_and_is_a_row_then(
    service: Service, tmp_path: Path, status: int, through: str
) -> None:
    from langchain_openai import ChatOpenAI

    service.default = refusing({3}, Reply(status=status, body="<html><title>Request blocked</title></html>"))
    judge: Any = ChatOpenAI(model="gpt-4o-mini") if through else "gpt-4o-mini"
    with pytest.raises(ProviderError, match=str(status)):
        judge_all(tmp_path, judge_model=judge)
    assert [asked(request) for request in service.requests] == [*range(1, 21)]
    assert statuses(judge_all(tmp_path, judge_model=judge)) == {3: "failed"}
    assert [asked(request) for request in service.requests[20:]] == [3]


def test_a_key_that_is_withdrawn_midway_ends_the_run_which_can_be_taken_up(service: Service, tmp_path: Path) -> None:
    service.default = refusing(range(5, 21), error(403, "No access"))
    with pytest.raises(ConfigError, match="OPENAI_API_KEY"):
        judge_all(tmp_path, max_failures=3)
    assert len(service.requests) == 7
    service.default = refusing(())
    assert statuses(judge_all(tmp_path)) == {}


def test_a_judge_that_never_answered_may_be_set_up_wrong_although_the_assistant_answered(
    service: Service, index: RunbookIndex, tmp_path: Path
) -> None:
    service.default = lambda request: UNTOLD if is_judge_call(request) else "端末を隔離します。"
    for _ in range(2):
        with pytest.raises(ProviderError, match="Invalid model name"):
            judge_all(tmp_path, answers=None, index=index, assistant_model="gpt-4o-mini")
    assert service.judge_calls == 2 and len(service.requests) == 3  # the answer was kept


@pytest.mark.parametrize(
    "withheld",
    [
        Reply("", finish_reason="content_filter"),
        Reply(
            body=json.dumps(
                {
                    "model": "gpt-4o-mini",
                    "choices": [{"message": {"content": None, "refusal": "I can't."}, "finish_reason": "stop"}],
                    "usage": {"prompt_tokens": 1000, "completion_tokens": 200},
                }
            )
        ),
    ],
    ids=["filter", "refusal"],
)
def test_a_reply_that_the_filter_withheld_is_a_refusal_that_was_paid_for(
    service: Service, tmp_path: Path, withheld: Reply
) -> None:
    service.default = refusing(range(1, 9), withheld)
    run = judge_all(tmp_path)
    assert statuses(run) == dict.fromkeys(range(1, 9), "failed")
    assert len(service.requests) == run.run.judge_usage.calls == 20
    assert run.cost_usd == pytest.approx(20 * (1000 * 0.15 + 200 * 0.6) / 1e6)
    again = rejudge(run, only_failed=True, logs_dir=tmp_path / "logs", progress=False)
    assert len(service.requests) == 28 and statuses(again) == statuses(run)


def test_what_a_refused_question_cost_before_is_in_the_log_after_a_resume(service: Service, tmp_path: Path) -> None:
    service.default = refusing({1}, Reply("", finish_reason="content_filter"))
    break_off(service.requests, 3, tmp_path)
    service.default = refusing(())
    run = judge_all(tmp_path)
    assert statuses(run) == {}
    assert run.run.judge_usage.calls == len(service.requests)


@pytest.mark.parametrize(
    "refusal", [FILTERED, error(400, "the request is not valid"), Reply("", finish_reason="content_filter")]
)
def test_a_judge_that_refuses_to_mark_again_what_could_not_be_read_has_refused_the_question(
    service: Service, tmp_path: Path, refusal: Reply
) -> None:
    def reply(request: dict[str, Any]) -> Reply:
        if asked(request) != 5:
            return Reply(judgement(80))
        return refusal if len(request["messages"]) > 1 else Reply("採点できません")

    service.default = reply
    break_off(service.requests, 9, tmp_path)
    run = judge_all(tmp_path)
    assert statuses(run) == {5: "failed"}
    assert "reply 1:" in run.results[4].evaluation.error
    charged = [request for request in service.requests if refusal.status == 200 or len(request["messages"]) == 1]
    assert run.run.judge_usage.calls == len(charged) == 19 + 2 * (2 if refusal.status == 200 else 1)
    service.default = refusing(())
    assert statuses(rejudge(run, only_failed=True, logs_dir=tmp_path / "logs", progress=False)) == {}


def test_a_block_that_cannot_be_read_after_a_break_is_not_an_unfit_judge(service: Service, tmp_path: Path) -> None:
    service.default = refusing(())
    break_off(service.requests, 8, tmp_path)
    service.default = refusing(range(9, 15), Reply("お答えできません"))
    assert statuses(judge_all(tmp_path)) == dict.fromkeys(range(9, 15), "unparsable")


def test_a_judge_that_refuses_all_is_a_run_without_a_verdict(service: Service, tmp_path: Path) -> None:
    service.default = FILTERED
    run = judge_all(tmp_path)
    assert run.summary.n_unscored == len(service.requests) == 20
    with pytest.raises(ConfigError, match="no row to judge again"):
        rejudge(judge_all(tmp_path, judge_model="offline", fresh=True), only_failed=True, logs_dir=tmp_path)
