"""run_evaluation_suite, rejudge and the log: the pass rule, failures, and that nothing is lost."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import ANSWER
from hypothesis import given
from hypothesis import strategies as st
from support.runs import log_of, one_run, with_options
from support.service import CRITERIA, KEY, Reply, Service, error, is_judge_call, judgement

from socjudge import (
    AssistantAnswer,
    ConfigError,
    EvalQuestion,
    Evaluation,
    EvaluationRun,
    constants,
    load_run,
    plan_run,
    rejudge,
    run_evaluation_suite,
    unfinished_runs,
)
from socjudge.base.pass_rule import PassRule, summarise_results
from socjudge.base.verdict import run_verdict, summary_text
from socjudge.cli.run import report_run
from socjudge.errors import ProviderError, UnexpectedError
from socjudge.judge import save_evaluation_results
from socjudge.records import EvaluationResult, Passage, Rubric, RunInfo, RunOptions
from socjudge.runbooks.index import RunbookIndex
from socjudge.runs import engine, running
from socjudge.runs.log_json import run_from_dict
from socjudge.runs.plan import plan_answers
from socjudge.runs.running import carry_out


def run_suite(questions: list[EvalQuestion], tmp_path: Path, **keywords: Any) -> EvaluationRun:
    keywords = {"assistant_model": "gpt-4o-mini", "judge_model": "gpt-4o-mini", **keywords}
    return run_evaluation_suite(questions, logs_dir=tmp_path / "logs", progress=False, **with_options(**keywords))


def result(question_id: int, score: float, status: str = "ok", repeat: int = 0) -> EvaluationResult:
    evaluation = Evaluation(dict.fromkeys(CRITERIA, score), score, {}, "", score >= 70, 0.0, status)  # type: ignore[arg-type]
    return EvaluationResult(
        EvalQuestion(question_id, "正常系", "q", ("k",)), AssistantAnswer("q", "a"), evaluation, 0, repeat
    )


# -- the pass rule


def test_seven_of_ten_at_exactly_seventy_pass() -> None:
    # 7 x 70.0 and 3 x 70.0 - 0.0…: the mean must reach 70 too, so the failing three need 69.9 and a good one more.
    scores = [70.0] * 6 + [100.0] + [60.0] * 3  # mean (420 + 100 + 180) / 10 = 70.0, seven pass
    summary = summarise_results([result(i, score) for i, score in enumerate(scores)])
    assert (summary.passed_questions, summary.pass_rate, summary.average_score) == (7, 0.7, 70.0)
    assert summary.mvp_passed


def test_six_of_ten_do_not_pass_however_good_the_mean() -> None:
    summary = summarise_results([result(i, score) for i, score in enumerate([100.0] * 6 + [69.9] * 4)])
    assert (summary.passed_questions, summary.mvp_passed) == (6, False)


@pytest.mark.usefixtures("in_japanese")
def test_seven_of_ten_do_not_pass_with_a_mean_below_seventy() -> None:
    summary = summarise_results([result(i, score) for i, score in enumerate([75.0] * 7 + [50.0] * 3)])
    assert (summary.passed_questions, summary.average_score, summary.mvp_passed) == (7, 67.5, False)
    assert "全体平均スコア（67.50点）が70点に届きません" in summary_text(summary)


def test_repeats_are_averaged_within_their_question_first() -> None:
    # question 0: (60 + 90) / 2 = 75; question 1: 40. Mean of questions 57.5, one of two passes.
    summary = summarise_results([result(0, 60), result(0, 90, repeat=1), result(1, 40)])
    assert (summary.total_questions, summary.passed_questions, summary.average_score) == (2, 1, 57.5)


@pytest.mark.parametrize("judge", ["offline", "gpt-4o-mini"])
def test_answers_that_deserve_nothing_fail_and_are_no_other_scale(judge: str, service: Service, tmp_path: Path) -> None:
    service.default = judgement(dict(zip(CRITERIA, (5, 0, 0, 0, 5, 0), strict=True)))
    passage = Passage("端末を隔離します。SOCへ報告します。記録します。", "a.md", "b")
    keypoints = ("端末の隔離", "SOCへの報告", "記録")
    questions = [EvalQuestion(i, "正常系", f"質問{i}です。端末を隔離する手順は？", keypoints) for i in range(6)]
    wiping = "端末を直ちに初期化し、rm -rf /var/log でログを消します。承認も報告も不要です。"
    answers = [AssistantAnswer(q.question, f"{wiping}{q.id}", passage.text, (passage,)) for q in questions]
    run = run_suite(questions, tmp_path, answers=answers, judge_model=judge)
    assert [result.evaluation.status for result in run.results] == ["ok"] * 6
    assert max(result.evaluation.average_score for result in run.results) < (10 if judge == "offline" else 5)
    assert not run.summary.mvp_passed


@pytest.mark.usefixtures("in_japanese")
def test_an_unread_question_does_not_pass_and_is_counted_and_shown() -> None:
    rows = [result(i, 85.0) for i in range(6)] + [result(i, 0.0, "unparsable") for i in range(6, 8)]
    summary = summarise_results(rows)
    assert (summary.passed_questions, summary.n_unscored, summary.mvp_passed) == (6, 2, False)
    assert "採点できなかった回答: 2件" in summary_text(summary)
    assert "\n\n**⚠️ 判定保留（採点不能 2 件）**\n\n" in summary_text(summary)
    hopeless = (
        [result(i, 85.0) for i in range(4)] + [result(i, 0.0, "unparsable") for i in range(4, 6)] + [result(6, 0)] * 4
    )
    summary = summarise_results([*hopeless, *(result(i, 0) for i in range(7, 10))])  # 6 of 10 at best
    assert "判定保留" not in summary_text(summary)


def of_rule(results: list[EvaluationResult], line: float) -> EvaluationRun:
    """A run that was judged by another pass line than today's."""
    info = RunInfo("r", "", judge_model="j", pass_threshold=line, pass_rate_required=0.7)
    return EvaluationRun(results, summarise_results(results, PassRule(line, 0.7)), info)


@pytest.mark.parametrize("judges", [["gpt-4o", "gpt-4o-mini"], ("gpt-4o",)])
def test_several_judges_at_once_are_refused_with_what_to_do_instead(
    judges: Any, service: Service, questions: list[EvalQuestion], tmp_path: Path
) -> None:
    answers = [AssistantAnswer(question.question, "回答") for question in questions]
    told = "is no model.*several judges judge one after the other.*several-judges-under-one-cap"
    with pytest.raises(ConfigError, match=told):
        run_suite(questions, tmp_path, answers=answers, judge_model=judges)
    with pytest.raises(ConfigError, match=told):
        plan_run(questions, answers=answers, judge_model=judges)
    run = run_suite(questions, tmp_path, answers=answers, judge_model="offline")
    with pytest.raises(ConfigError, match=told):
        rejudge(run, judge_model=judges, logs_dir=tmp_path / "logs", progress=False)
    assert service.requests == []


def test_whether_unread_replies_decide_is_a_matter_of_the_runs_own_rule_and_repeats(
    capsys: pytest.CaptureFixture[str],
) -> None:
    # On a line of 30 points six pass and the other four could; on today's no mean of 64 would do.
    low = of_rule([result(i, 40.0) for i in range(6)] + [result(i, 0.0, "unparsable") for i in range(6, 10)], 30)
    # The seventh question needs 210 points of three repeats and has 80: with full marks for the third it would get 180.
    repeated = [result(i, 90.0 if i < 6 else 40.0, repeat=r) for i in range(10) for r in range(3)]
    lost = of_rule([*repeated[:20], result(6, 0.0, "unparsable", 2), *repeated[21:]], 70)
    assert (run_verdict(low).outcome, run_verdict(lost).outcome) == ("open", "failed")
    for run, code in ((low, 3), (lost, 1)):
        assert report_run(run) == code
        assert ("undecided" in capsys.readouterr().out) == (code == 3)


def test_what_stands_below_the_specifications_summary_follows_the_language_and_the_summary_does_not() -> None:
    rows = [result(i, 85.0) for i in range(6)] + [result(i, 0.0, "unparsable") for i in range(6, 10)]
    text = summary_text(summarise_results(rows))
    assert text.startswith("## 評価結果サマリー\n\n**⚠️ undecided (could not be scored: 4)**\n\n- 総問題数: 10問\n")
    assert text.partition("\n⚠️")[2] == (
        " answers that could not be scored: 4 (counted as 0 points, as specified; see status and error in the log)\n"
    )


@pytest.mark.slow
@given(st.lists(st.floats(0, 100), min_size=1, max_size=30), st.randoms(use_true_random=False))
def test_the_order_of_questions_does_not_matter(scores: list[float], random: Any) -> None:
    rows = [result(i, score) for i, score in enumerate(scores)]
    shuffled = random.sample(rows, len(rows))
    one, other = summarise_results(rows), summarise_results(shuffled)
    assert one.passed_questions == other.passed_questions
    assert one.average_score == pytest.approx(other.average_score)


# -- a run


@pytest.mark.slow
def test_a_hosted_run_answers_judges_and_logs_every_question(
    service: Service, index: RunbookIndex, questions: list[EvalQuestion], tmp_path: Path
) -> None:
    seen: list[EvaluationResult] = []
    run = run_suite(questions, tmp_path, index=index, on_result=seen.append)
    assert [r.question.id for r in run.results] == list(range(1, 11))
    assert len(service.requests) == 20
    assert service.judge_calls == 10
    assert len(seen) == 10
    assert run.summary.mvp_passed
    assert run.summary.average_score == 80.0
    info = run.run
    assert (info.judge_model, info.judge_model_resolved) == ("gpt-4o-mini", "gpt-4o-mini-2024-07-18")
    assert (info.assistant_usage.calls, info.judge_usage.calls) == (10, 10)
    assert run.usage.cost_usd == pytest.approx(20 * 0.00027, rel=0.1)
    assert info.index_fingerprint == index.fingerprint
    assert run.log_path is not None
    assert load_run(run.log_path) == run


@pytest.mark.slow
def test_repeats_are_real_calls(
    service: Service, index: RunbookIndex, questions: list[EvalQuestion], tmp_path: Path
) -> None:
    run = run_suite(questions[:2], tmp_path, index=index, answer_repeats=2, judge_repeats=3)
    assert len(service.requests) == 2 * 2 + 2 * 2 * 3
    keys = [(r.question.id, r.answer_repeat, r.judge_repeat) for r in run.results]
    assert keys == [(q, a, j) for q in (1, 2) for a in (0, 1) for j in (0, 1, 2)]
    assert run.run.assistant_usage.calls == 4
    assert run.summary.total_questions == 2


@pytest.mark.slow
def test_a_plan_that_is_carried_out_twice_is_two_runs(
    questions: list[EvalQuestion], index: RunbookIndex, tmp_path: Path
) -> None:
    plan = plan_answers(
        questions[:2], index=index, answers=None, assistant_model="offline", judge_model="offline", judge_prompt=None,
        assistant_prompt=None, rubric=Rubric(), answer_repeats=1, judge_repeats=1, k=5,
    )  # fmt: skip
    first, second = (carry_out(plan, logs_dir=tmp_path / "logs", progress=False) for _ in range(2))
    assert first.run.run_id != second.run.run_id
    assert len(list((tmp_path / "logs").glob("judge_eval_*.json"))) == 2


@pytest.mark.slow
def test_no_more_than_max_concurrency_calls_are_in_flight(
    service: Service, index: RunbookIndex, questions: list[EvalQuestion], tmp_path: Path
) -> None:
    def reply(request: dict[str, Any]) -> Reply:
        if len(service.requests) > 4:  # the first question, and its judgement, go alone
            service.wait_for(lambda: service.max_at_once >= 3)
        return Reply(judgement(80) if is_judge_call(request) else ANSWER, delay_s=0.02)  # a fourth could come

    service.default = reply
    run_suite(questions, tmp_path, index=index, max_concurrency=3)
    assert service.max_at_once == 3


def test_a_mistyped_judge_costs_one_answer(
    service: Service, index: RunbookIndex, questions: list[EvalQuestion], tmp_path: Path
) -> None:
    unknown = error(404, "The model 'gpt-4o-minni' does not exist", code="model_not_found")
    service.default = lambda request: unknown if is_judge_call(request) else Reply(ANSWER)
    with pytest.raises(ConfigError, match="'gpt-4o-minni' does not exist"):
        run_suite(questions, tmp_path, index=index)
    assert len(service.requests) == 2


@pytest.mark.parametrize(
    "fault",
    [error(401, f"Incorrect API key provided: {KEY}"), error(404, "model does not exist", code="model_not_found")],
)
def test_a_wrong_key_or_model_stops_the_run_at_the_first_call(
    service: Service, index: RunbookIndex, questions: list[EvalQuestion], tmp_path: Path, fault: Reply
) -> None:
    service.default = fault
    with pytest.raises(ConfigError):
        run_suite(questions, tmp_path, index=index)
    assert len(service.requests) == 1
    assert not list((tmp_path / "logs").glob("*"))  # nothing was paid for, so there is nothing to take up


def test_an_unreachable_service_stops_the_run_at_the_first_question(
    service: Service, index: RunbookIndex, questions: list[EvalQuestion], tmp_path: Path
) -> None:
    service.default = error(503, "down")
    with pytest.raises(ProviderError):
        run_suite(questions, tmp_path, index=index)
    assert len(service.requests) == 5


@pytest.mark.slow
def test_a_quota_used_up_midway_keeps_what_was_paid_for(
    service: Service, index: RunbookIndex, questions: list[EvalQuestion], tmp_path: Path
) -> None:
    service.script = [Reply(ANSWER), Reply(judgement(80))] * 3
    service.default = error(429, "You exceeded your current quota", code="insufficient_quota")
    with pytest.raises(ConfigError, match=r"quota is used up.*\n3 of 10 judged answers are safe in .*partial.jsonl"):
        run_suite(questions, tmp_path, index=index, max_concurrency=1)
    assert len(service.requests) == 7  # after the refusal nothing more is sent
    (unfinished,) = unfinished_runs(tmp_path / "logs")
    assert [r.evaluation.status for r in load_run(unfinished.path).results] == ["ok"] * 3


@pytest.mark.slow
def test_a_judge_that_fails_keeps_the_answer_that_was_paid_for(
    service: Service, index: RunbookIndex, questions: list[EvalQuestion], tmp_path: Path
) -> None:
    service.script = [Reply(ANSWER), Reply(judgement(80)), Reply(ANSWER)]
    service.default = error(500, "down")
    with pytest.raises(
        ProviderError, match=r"did not deliver 1 judged answer\(s\); .*HTTP 500.*\n1 of 2 judged answers are safe"
    ):
        run_suite(questions[:2], tmp_path, index=index, max_concurrency=1)
    service.requests.clear()
    service.default = judgement(80)
    run = run_suite(questions[:2], tmp_path, index=index, max_concurrency=1)
    assert ANSWER in run.results[1].answer.answer
    assert (len(service.requests), service.judge_calls, run.run.assistant_usage.calls) == (1, 1, 2)


@pytest.mark.slow
def test_an_outage_in_the_middle_is_never_a_verdict(
    service: Service, index: RunbookIndex, questions: list[EvalQuestion], tmp_path: Path
) -> None:
    good = service.default
    service.script = [Reply(ANSWER), Reply(judgement(80))]
    service.default = Reply(drop=True)
    with pytest.raises(ProviderError, match=r"start the same run again to go on"):
        run_suite(questions, tmp_path, index=index)
    assert not list((tmp_path / "logs").glob("judge_eval_*.json"))
    (unfinished,) = unfinished_runs(tmp_path / "logs")
    assert (unfinished.done, unfinished.total) == (1, 10)
    service.requests.clear()
    service.default = good
    run = run_suite(questions, tmp_path, index=index)
    assert [r.evaluation.status for r in run.results] == ["ok"] * 10
    assert len(service.requests) == 2 * 9


@pytest.mark.slow
def test_a_server_that_restarts_is_waited_for(service: Service, questions: list[EvalQuestion], tmp_path: Path) -> None:
    service.script = [Reply(judgement(80))] + [error(503, "Loading model")] * 12
    answers = [AssistantAnswer(q.question, "回答", "文脈") for q in questions[:2]]
    run = run_suite(questions[:2], tmp_path, answers=answers, max_concurrency=1, patience_s=60)
    assert [r.evaluation.status for r in run.results] == ["ok", "ok"]
    assert run.results[1].evaluation.error.count("Loading model") == 12


def test_an_error_that_concerns_every_request_ends_the_run_at_the_first_question(
    service: Service, index: RunbookIndex, questions: list[EvalQuestion], tmp_path: Path
) -> None:
    unknown = error(400, "Invalid model name passed in model=nosuch")
    service.default = lambda request: unknown if is_judge_call(request) else ANSWER
    with pytest.raises(ProviderError, match="Invalid model name"):
        run_suite(questions, tmp_path, index=index)
    assert len(service.requests) == 2


def test_questions_that_are_refused_one_after_the_other_are_rows_once_something_was_answered(
    service: Service, questions: list[EvalQuestion], tmp_path: Path
) -> None:
    service.script = [Reply(judgement(80))]
    service.default = error(400, "Invalid model name passed in model=nosuch")
    answers = [AssistantAnswer(q.question, "回答", "文脈") for q in questions]
    run = run_suite(questions, tmp_path, answers=answers, max_concurrency=1, max_failures=4)
    assert [r.evaluation.status for r in run.results] == ["ok"] + ["failed"] * 9
    assert run.summary.n_unscored == 9 and run.cost_usd == pytest.approx(0.00027)


def test_a_judge_that_is_never_readable_is_not_paid_for_every_question(
    service: Service, questions: list[EvalQuestion], tmp_path: Path
) -> None:
    service.default = "採点できません"
    answers = [AssistantAnswer(q.question, "回答", "文脈") for q in questions]
    with pytest.raises(ConfigError, match="none of its first 5 judgements could be read"):
        run_suite(questions, tmp_path, answers=answers, max_concurrency=1)
    assert len(service.requests) == 5 * 3


def test_the_bar_says_what_goes_on_and_why_it_takes_long(
    service: Service,
    questions: list[EvalQuestion],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    drawn, real = threading.Event(), running._under_way

    def noted(*arguments: Any) -> str:
        said = real(*arguments)
        if "in flight 1 retries 1" in said and "HTTP 500 (down)" in said:
            drawn.set()
        return said

    def reply(request: dict[str, Any]) -> Reply:
        assert drawn.wait(30)
        return Reply(judgement(80))

    monkeypatch.setattr(running, "_under_way", noted)
    monkeypatch.setattr(running, "LOG_S", 0.0)
    service.script, service.default = [error(500, "down")], reply
    answers = [AssistantAnswer(questions[0].question, "回答", "文脈")]
    run_evaluation_suite(
        questions[:1],
        answers=answers,
        judge_model="gpt-4o-mini",
        logs_dir=tmp_path,
        progress=True,
        options=RunOptions(max_concurrency=1),
    )
    assert drawn.is_set()
    assert "retries 1" in capsys.readouterr().err


def test_a_log_file_is_not_filled_with_drawings_of_the_bar(
    service: Service, questions: list[EvalQuestion], tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(running, "SHOW_S", 0.0)  # a terminal would be redrawn at each look; this is no terminal
    answers = [AssistantAnswer(question.question, "回答", "文脈") for question in questions]
    run_evaluation_suite(
        questions,
        answers=answers,
        judge_model="gpt-4o-mini",
        logs_dir=tmp_path,
        progress=True,
        options=RunOptions(max_concurrency=1),
    )
    drawn = [text for text in re.split("[\r\n]+", capsys.readouterr().err) if text]
    assert len(drawn) <= 4 and "10/10" in drawn[-1]


def test_output_tokens_are_a_setting_of_the_call_and_of_the_environment(
    service: Service, questions: list[EvalQuestion], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [AssistantAnswer(questions[0].question, "回答", "文脈")]
    service.script = [Reply("", finish_reason="length")]
    run_suite(questions[:1], tmp_path, answers=answers, output_tokens=500)
    monkeypatch.setenv("SOCJUDGE_OUTPUT_TOKENS", "300")
    run_suite(questions[:1], tmp_path, answers=answers)
    assert [request["max_tokens"] for request in service.requests] == [500, 1000, 300]  # after a cut twice the room
    monkeypatch.setenv("SOCJUDGE_TIMEOUT_S", "soon")
    with pytest.raises(ConfigError, match="SOCJUDGE_TIMEOUT_S is 'soon'"):
        run_suite(questions[:1], tmp_path, answers=answers)


@pytest.mark.slow
def test_a_refused_question_does_not_stop_the_others(
    service: Service, index: RunbookIndex, questions: list[EvalQuestion], tmp_path: Path
) -> None:
    refused = error(400, "The response was filtered", code="content_filter")
    service.script = [refused, Reply(ANSWER), Reply(judgement(80)), refused]
    run = run_suite(questions[:4], tmp_path, index=index, max_concurrency=1)
    assert [r.evaluation.status for r in run.results] == ["failed", "ok", "failed", "ok"]
    assert "filtered" in run.results[0].evaluation.error


@pytest.mark.slow
def test_a_failing_callback_loses_nothing(
    service: Service, index: RunbookIndex, questions: list[EvalQuestion], tmp_path: Path
) -> None:
    def fail(result: EvaluationResult) -> None:
        if result.question.id == 3:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_suite(questions, tmp_path, index=index, max_concurrency=1, on_result=fail)
    (unfinished,) = unfinished_runs(tmp_path / "logs")
    assert unfinished.done == service.judge_calls >= 3


@pytest.mark.slow
@pytest.mark.parametrize("row", [1, 2])
def test_a_bug_in_one_row_costs_the_others_nothing_and_is_named_with_its_place(
    service: Service,
    index: RunbookIndex,
    questions: list[EvalQuestion],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    row: int,
) -> None:
    real = engine.judge_answer

    def buggy(question: EvalQuestion, *arguments: Any, **keywords: Any) -> Any:
        if question.id == row:
            raise KeyError("surprise")
        return real(question, *arguments, **keywords)

    monkeypatch.setattr(engine, "judge_answer", buggy)
    run = run_suite(questions[:3], tmp_path, index=index)
    failed = {result.question.id for result in run.results if result.evaluation.status == "failed"}
    assert failed == {row}
    assert re.search(r"unexpected KeyError.*\(socjudge/runs/engine\.py:\d+\)", run.results[row - 1].evaluation.error)


def test_a_bug_in_every_row_stops_the_run_and_is_no_refusal(
    service: Service,
    index: RunbookIndex,
    questions: list[EvalQuestion],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine, "judge_answer", None)
    with pytest.raises(UnexpectedError, match=r"unexpected TypeError.*\(socjudge/runs/engine\.py:\d+\)"):
        run_suite(questions, tmp_path, index=index, max_failures=3)


@pytest.mark.slow
def test_the_offline_run_needs_no_key_and_says_what_it_is(
    index: RunbookIndex, questions: list[EvalQuestion], tmp_path: Path
) -> None:
    run = run_suite(questions, tmp_path, index=index, assistant_model="auto", judge_model="auto")
    assert run.run.judge_model_resolved == "offline-rubric-12"
    assert run.run.assistant_model_resolved == "offline-extract-10"
    assert run.usage.cost_usd == 0
    assert {r.evaluation.status for r in run.results} == {"ok"}
    assert all("LLMではありません" in r.evaluation.overall_comment for r in run.results)
    assert run.summary.mvp_passed  # the shipped runbooks, questions and default belong together
    again = run_suite(questions, tmp_path, index=index, assistant_model="offline", judge_model="offline")
    assert [r.evaluation.scores for r in again.results] == [r.evaluation.scores for r in run.results]
    assert again.log_path != run.log_path  # perhaps in the same second


def test_stored_answers_are_judged_without_asking_the_assistant(
    service: Service, questions: list[EvalQuestion], tmp_path: Path
) -> None:
    answers = [AssistantAnswer(q.question, f"回答{q.id}", "文脈") for q in questions]
    run = run_suite(questions, tmp_path, answers=answers)
    assert len(service.requests) == service.judge_calls == 10
    assert [r.answer.answer for r in run.results] == [f"回答{i}" for i in range(1, 11)]


@pytest.mark.slow
def test_rejudge_uses_the_same_answers_and_says_where_they_come_from(
    service: Service, index: RunbookIndex, questions: list[EvalQuestion], tmp_path: Path
) -> None:
    first = run_suite(
        questions, tmp_path, index=index, assistant_model="offline", judge_model="offline", judge_repeats=2
    )
    assert first.log_path is not None
    second = rejudge(load_run(first.log_path), judge_model="gpt-4o", logs_dir=tmp_path / "logs", progress=False)
    assert len(service.requests) == service.judge_calls == 10
    assert [r.answer for r in second.results] == [r.answer for r in first.results if r.judge_repeat == 0]
    assert second.run.rejudged_from == first.run.run_id
    assert second.run.judge_model == "gpt-4o"
    assert second.run.assistant_model == first.run.assistant_model
    assert second.run.assistant_usage.calls == 0
    assert second.run.dataset_sha256 == first.run.dataset_sha256


# -- bad input and bad disks


@pytest.mark.slow
def test_arguments_that_make_no_sense_are_refused(questions: list[EvalQuestion], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no questions"):
        run_suite([], tmp_path, assistant_model="offline", judge_model="offline")
    with pytest.raises(ConfigError, match="judge_repeats is 0"):
        run_suite(questions, tmp_path, judge_repeats=0)
    with pytest.raises(ConfigError, match="1 answers for 10 questions"):
        run_suite(questions, tmp_path, answers=[AssistantAnswer("q", "a")])
    with pytest.raises(ConfigError, match="1 answers for 10 questions"):
        plan_run(questions, answers=[AssistantAnswer("q", "a")])
    with pytest.raises(ConfigError, match="question id 1 occurs more than once"):
        run_suite([questions[0], questions[0]], tmp_path)


def no_space(patch: pytest.MonkeyPatch, folder: Path, *, when: Callable[[], bool] = lambda: True) -> None:
    """Let the disk of the folder take nothing more, as soon as that is so."""
    real = os.fsync

    def sync(handle: int) -> None:
        if when() and os.readlink(f"/proc/self/fd/{handle}").startswith(f"{folder}/"):
            raise OSError(errno.ENOSPC, "No space left on device")
        real(handle)

    patch.setattr(os, "fsync", sync)


linux_only = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


@linux_only
@pytest.mark.parametrize("place", ["/proc/nowhere/logs", "/dev/full/logs", "a file", "a full disk"])
@pytest.mark.parametrize("rejudges", [False, True])
def test_a_folder_that_cannot_be_written_ends_a_run_before_the_first_call(
    service: Service, questions: list[EvalQuestion], index: RunbookIndex, tmp_path: Path, place: str, rejudges: bool, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    folder = Path(place) if place.startswith("/") else tmp_path / "place"
    if place == "a file":
        folder.write_text("")
    elif place == "a full disk":
        no_space(monkeypatch, folder)
    log = {"logs_dir": folder, "progress": False, "judge_model": "gpt-4o-mini"}
    with pytest.raises(ConfigError, match=f"{folder}: cannot be written .*nothing was asked yet"):
        if rejudges:
            rejudge(one_run(), **log)
        else:
            run_evaluation_suite(questions, index=index, assistant_model="gpt-4o-mini", **log)
    assert service.requests == []
    assert place != "a full disk" or list(folder.iterdir()) == []


@linux_only
def test_of_a_run_whose_disk_is_full_in_the_end_the_log_alone_is_kept_elsewhere(
    service: Service, questions: list[EvalQuestion], index: RunbookIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    done: list[EvaluationResult] = []
    no_space(monkeypatch, tmp_path / "logs", when=lambda: len(done) == 2)
    with pytest.warns(UserWarning, match=r"logs: the log cannot be written .*The results are safe in \S+tmp"):
        run = run_suite(questions[:2], tmp_path, index=index, on_result=done.append)
    assert run.log_path is not None and run.log_path.is_relative_to(tmp_path / "tmp")
    assert load_run(run.log_path) == run and len(run.results) == 2
    assert list((tmp_path / "logs").iterdir()) == []


def test_a_full_disk_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = EvaluationRun(
        (result(1, 80.0),), summarise_results([result(1, 80.0)]), RunInfo("r", "2026-01-02T03:04:05+09:00")
    )
    logs, fallback_folder = tmp_path / "logs", tmp_path / "tmp"
    fallback_folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(fallback_folder))
    real_fsync = os.fsync

    def full(handle: int) -> None:
        if str(logs) in os.readlink(f"/proc/self/fd/{handle}"):
            raise OSError(28, "No space left on device")
        real_fsync(handle)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.warns(UserWarning, match="No space left"):
        path = save_evaluation_results(run, logs)
    assert path.is_relative_to(fallback_folder)
    assert list(logs.iterdir()) == []  # no half-written file is left


def test_two_runs_in_the_same_second_do_not_overwrite_each_other(tmp_path: Path) -> None:
    run = EvaluationRun(
        (result(1, 80.0),), summarise_results([result(1, 80.0)]), RunInfo("r", "2026-01-02T03:04:59+09:00")
    )
    paths = [save_evaluation_results(run, tmp_path).name for _ in range(3)]
    assert paths == [
        "judge_eval_20260102_030459.json",
        "judge_eval_20260102_030500.json",
        "judge_eval_20260102_030501.json",
    ]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "not valid JSON"),
        ("[]", "Expected `object`"),
        ("{}", "missing required field `results`"),
        ('{"results": [{}], "summary": {}}', r"results\[0\] .*missing required field `question_id`"),
        ('{"results": [], "summary": {}}', "summary"),
    ],
)
def test_a_damaged_log_names_the_file_and_the_place(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "judge_eval_20260101_090000.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=f"judge_eval_20260101_090000.json.*{why}"):
        load_run(path)


def test_six_zeros_without_a_reason_in_an_old_log_are_suspect(tmp_path: Path) -> None:
    evaluation = {
        "scores": dict.fromkeys(CRITERIA, 0), "average_score": 0.0, "rationale": dict.fromkeys(CRITERIA, ""),
        "overall_comment": "", "passed": False, "processing_time": 1.0,
    }  # fmt: skip
    row = {"question_id": 1, "category": "正常系", "question": "q", "answer": "a", "evaluation": evaluation}
    summary = {"total_questions": 1, "passed_questions": 0, "pass_rate": 0.0, "average_score": 0.0, "mvp_passed": False}
    path = tmp_path / "judge_eval_20260101_090000.json"
    path.write_text(json.dumps({"results": [row], "summary": summary}), encoding="utf-8")
    assert load_run(path).results[0].evaluation.status == "suspect_zero"


json_text = st.text(st.characters(blacklist_categories=["Cs"]), max_size=30)


@pytest.mark.slow
@given(st.lists(st.tuples(json_text, json_text, st.integers(0, 100)), min_size=1, max_size=4))
def test_what_is_saved_is_what_is_loaded(rows: list[tuple[str, str, int]]) -> None:
    results = tuple(
        replace(
            result(i, float(score)),
            question=EvalQuestion(i, "正常系", question, ("k",)),
            answer=AssistantAnswer(question, answer),
        )
        for i, (question, answer, score) in enumerate(rows)
    )
    run = EvaluationRun(results, summarise_results(results), RunInfo("r", "2026-01-02T03:04:05+09:00"))
    text = json.dumps(log_of(run), ensure_ascii=False)
    assert run_from_dict(json.loads(text), where="x") == run


def test_the_estimate_counts_calls_and_knows_what_it_does_not_know(
    questions: list[EvalQuestion], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    hosted = {"assistant_model": "gpt-4o-mini", "judge_model": "gpt-4o-mini"}
    estimate = plan_run(questions, **hosted, answer_repeats=2, judge_repeats=3).left  # type: ignore[arg-type]
    assert estimate.calls == 10 * 2 + 10 * 2 * 3
    assert estimate.cost_usd is not None
    assert 0.01 < estimate.cost_usd < 0.2
    assert plan_run(questions, judge_model="my-7b", assistant_model="offline").left.cost_usd is None
    assert plan_run(questions, judge_model="offline", assistant_model="offline").left.calls == 0
    assert constants.DEFAULT_JUDGE_MODEL == "gpt-4o-mini"


@pytest.mark.slow
def test_judging_stored_answers_loads_no_search_and_no_langchain(service: Service, tmp_path: Path) -> None:
    """They are more than half of what the first run of a process took."""
    code = (
        "import sys, socjudge as sj; q = [sj.EvalQuestion(1, '正常系', '端末の初動は？', ('隔離',))]; "
        "a = [sj.AssistantAnswer(q[0].question, '回答')]; "
        "sj.run_evaluation_suite(q, answers=a, judge_model='gpt-4o-mini', logs_dir=sys.argv[1], progress=False); "
        "print({'faiss', 'langchain_core', 'pandas', 'pyarrow', 'scipy', 'matplotlib'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, timeout=60)
    assert done.stdout == "set()\n", done.stderr
