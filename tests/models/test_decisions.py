"""Decision models as judges: one request per answer, marks from probabilities, and doubt wherever they do not add up."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.decision_service import INPUT_TOKENS, OUTPUT_TOKENS, SURE, deciding, refused, scored
from support.own_prices import set_prices
from support.runs import with_options
from support.service import CRITERIA, AfterCalls, Reply, Service, is_judge_call, judgement

import socjudge as sj
from socjudge.errors import UnparsableJudgement
from socjudge.models.decision_model import translate

QUESTIONS = [sj.EvalQuestion(n, "正常系", f"質問{n}です", ("端末の隔離",)) for n in range(1, 11)]
ANSWERS = [
    sj.AssistantAnswer(q.question, f"端末{q.id}を隔離します。[出典: a.md > b]", "[出典: a.md > b]\n端末を隔離する。")
    for q in QUESTIONS
]
JUDGE = "decisions:gpt-6-luna"
PRICES = {"gpt-6-luna": (0.5, 4.0)}
COST_USD = (INPUT_TOKENS * 0.5 + OUTPUT_TOKENS * 4.0) / 1e6
Answers = list[dict[str, Any]]


@pytest.fixture(autouse=True)
def _prices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_prices(tmp_path, monkeypatch, PRICES)


def judge_all(tmp_path: Path, judge: Any = JUDGE, **keywords: Any) -> sj.EvaluationRun:
    keywords = {"answers": ANSWERS, **keywords}
    return sj.run_evaluation_suite(
        QUESTIONS, judge_model=judge, logs_dir=tmp_path / "logs", progress=False, **with_options(**keywords)
    )


def test_ten_answers_take_ten_requests_with_the_six_criteria_in_each(service: Service, tmp_path: Path) -> None:
    service.default = deciding()
    run = judge_all(tmp_path)
    assert [[question["name"] for question in each["questions"]] for each in service.requests] == [CRITERIA] * 10
    first = service.requests[0]
    assert [level["label"] for level in first["questions"][1]["levels"]] == [
        "0点: 重大な誤りがある", "50点: 一部不正確な表現がある", "100点: 完全に正確",
    ]  # fmt: skip
    material = first["input"][1]["content"][0]["data"]
    assert material["answer"].startswith("端末") and material["expected_keypoints"] == ["端末の隔離"]
    assert {*material} == {"question", "context", "answer", "flags", "expected_keypoints"}
    marks = run.results[0].evaluation
    assert dict(marks.scores) == dict.fromkeys(CRITERIA, 90)  # 0 × 0 + 50 × .2 + 100 × .8
    assert run.summary.passed_questions == 10 and run.info.judge_model == JUDGE
    usage = run.info.judge_usage
    assert (usage.calls, usage.input_tokens, usage.output_tokens) == (10, 10 * INPUT_TOKENS, 10 * OUTPUT_TOKENS)
    assert usage.cost_usd == pytest.approx(10 * COST_USD)


def test_the_log_has_the_probabilities_from_which_the_mark_was_made(service: Service, tmp_path: Path) -> None:
    service.default = deciding()
    run = judge_all(tmp_path)
    assert run.log_path is not None
    block = json.loads(run.log_path.read_text(encoding="utf-8"))["results"][0]["evaluation"]
    assert block["rationale"]["正確性"] == "the expected value of 0 points 0%, 50 points 20%, 100 points 80%"
    assert "no reasons" in block["overall_comment"]


def test_a_refused_criterion_is_missing_and_asked_once(service: Service, tmp_path: Path) -> None:
    service.default = deciding(lambda q: refused(q) if q["name"] == "安全性" else scored(q, SURE))
    run = judge_all(tmp_path)
    marks = run.results[0].evaluation
    assert len(service.requests) == 10 and marks.missing == {"安全性": "refused"} and marks.status == "ok"
    assert marks.scores["安全性"] is None and marks.average_score == 90
    assert run.summary.n_partial == 10 and run.summary.n_open == 0  # 450 / 6 = 75 passes whatever the sixth is
    frame = run.scores_frame()
    assert frame[frame.criterion == "安全性"].score.isna().all() and frame.score.notna().sum() == 50


def test_an_answer_on_which_all_is_refused_gets_no_mark_and_no_second_request(service: Service, tmp_path: Path) -> None:
    service.default = deciding(refused)
    run = judge_all(tmp_path)
    assert len(service.requests) == 10
    assert {result.evaluation.status for result in run.results} == {"failed"} and run.summary.n_unscored == 10
    assert run.info.judge_usage.cost_usd == pytest.approx(10 * COST_USD)


def _with_first(**changes: Any) -> Callable[[Answers], Answers]:
    return lambda answers: [answers[0] | changes, *answers[1:]]


def _levels(change: Callable[[Answers], Answers]) -> Callable[[Answers], Answers]:
    return lambda answers: [answers[0] | {"probabilities": change(answers[0]["probabilities"])}, *answers[1:]]


PLANTED: dict[str, tuple[Callable[[Answers], Answers], str]] = {
    "an answer too few": (lambda answers: answers[:-1], "did not answer"),
    "an answer too many": (lambda answers: [*answers, answers[0]], "did not answer"),
    "two answers swapped": (lambda answers: [answers[1], answers[0], *answers[2:]], "did not answer"),
    "no name": (_with_first(name=None), "did not answer"),
    "another kind": (lambda answers: [{"type": "predicate", "name": "根拠性", "probability": 1}, *answers[1:]], "agreed shape"),
    "probabilities beyond 1": (_levels(lambda rows: [row | {"probability": 0.5} for row in rows]), "contradict"),
    "a negative probability": (
        _levels(lambda rows: [row | {"probability": p} for row, p in zip(rows, (-0.2, 0.6, 0.6), strict=True)]), "contradict",
    ),
    "a level twice": (_levels(lambda rows: [rows[0], rows[1], rows[1]]), "agreed shape"),
    "a level left out": (_levels(lambda rows: rows[1:]), "agreed shape"),
    "labels turned round": (
        _levels(lambda rows: [row | {"label": other["label"]} for row, other in zip(rows, rows[::-1], strict=True)]), "agreed shape",
    ),
    "another expected value": (_with_first(score=0.2), "contradict"),
    "an expected value that is none": (_with_first(score=float("nan")), "contradict"),
}  # fmt: skip


@pytest.mark.parametrize("planted", PLANTED)
def test_a_reply_that_contradicts_itself_is_no_mark(service: Service, tmp_path: Path, planted: str) -> None:
    spoil, told = PLANTED[planted]
    service.default = deciding(spoil=spoil)
    marks = sj.evaluate_answer(QUESTIONS[0], ANSWERS[0], model=JUDGE)
    assert marks.status == "unparsable" and told in marks.error
    assert len(service.requests) == marks.attempts == 3 and "probabilit" in marks.raw_text
    service.script = [deciding(spoil=spoil)(service.requests[0])]
    service.default = deciding()
    marks = sj.evaluate_answer(QUESTIONS[0], ANSWERS[0], model=JUDGE)
    assert marks.status == "ok" and marks.attempts == 2 and told in marks.error
    assert service.requests[-1] == service.requests[-2]  # it is asked the same again


def test_five_levels_are_another_judge(service: Service, tmp_path: Path) -> None:
    service.default = deciding(lambda question: scored(question, (0, 0, 0, 0.9, 0.1)[-len(question["levels"]) :]))
    run = judge_all(tmp_path, "decisions-5:gpt-6-luna")
    labels = [level["label"] for level in service.requests[0]["questions"][1]["levels"]]
    assert labels == ["0点: 重大な誤りがある", "25点", "50点: 一部不正確な表現がある", "75点", "100点: 完全に正確"]
    assert (
        run.results[0].evaluation.scores["正確性"] == 77
    )  # 75 × .9 + 100 × .1 = 77.5, and a fraction does not reach a line
    assert run.info.judge_settings != judge_all(tmp_path).info.judge_settings
    assert run.info.judge_usage.cost_usd == pytest.approx(10 * COST_USD)


def test_criteria_of_ones_own_are_asked_in_the_words_of_their_descriptions(service: Service, tmp_path: Path) -> None:
    service.default = deciding()
    rubric = sj.Rubric(("網羅性", "敬体"), {"敬体": "です・ます調か\n- 100点: すべて敬体\n- 50点: 混ざる\n- 0点: 常体"})
    judge_all(tmp_path, rubric=rubric)
    asked = service.requests[0]["questions"][1]
    assert asked["instructions"] == "観点「敬体」: です・ます調か"
    assert [level["label"] for level in asked["levels"]] == ["0点: 常体", "50点: 混ざる", "100点: すべて敬体"]


def test_the_log_has_the_id_by_which_the_service_knows_the_call(service: Service, tmp_path: Path) -> None:
    decide = deciding()

    def replying(request: dict[str, Any]) -> Reply:
        number = request["input"][1]["content"][0]["data"]["question"].strip("質問です")
        return replace(decide(request), headers={"x-request-id": f"req_{number}"})

    service.default = replying
    run = judge_all(tmp_path)
    assert run.log_path is not None
    found = [result.evaluation.request_id for result in sj.load_run(run.log_path).results]
    assert found == [f"req_{question.id}" for question in QUESTIONS]


def test_a_run_that_was_stopped_is_taken_up_without_asking_twice(service: Service, tmp_path: Path) -> None:
    service.default = deciding()
    with pytest.raises(sj.RunStopped):
        judge_all(tmp_path, max_concurrency=1, stop=AfterCalls(service.requests, 4))
    run = judge_all(tmp_path, max_concurrency=1)
    assert len(service.requests) == 10 and len(run.results) == 10 and run.info.sessions == 2


def test_a_cap_holds(service: Service, tmp_path: Path) -> None:
    service.default = deciding()
    with pytest.raises(sj.errors.BudgetReached):
        judge_all(tmp_path, max_concurrency=1, max_cost_usd=0.02)
    assert 0 < len(service.requests) * COST_USD <= 0.02 and len(service.requests) < 10
    estimate = sj.plan_run(QUESTIONS, answers=ANSWERS, judge_model=JUDGE).left
    assert estimate.calls == 10 and estimate.cost_usd is not None and estimate.cost_usd > 10 * OUTPUT_TOKENS * 4e-6


@pytest.mark.slow
def test_it_judges_beside_others_and_is_compared_with_them(service: Service, tmp_path: Path) -> None:
    decide = deciding()
    service.default = lambda request: judgement(70) if "messages" in request else decide(request)
    run = judge_all(tmp_path)
    again = sj.rejudge(run, judge_model="gpt-4o-mini", logs_dir=tmp_path / "logs", progress=False)
    assert sum("questions" in each for each in service.requests) == sum(map(_is_chat, service.requests)) == 10
    logs = [each.log_path for each in (run, again)]
    assert {sj.load_run(path).info.judge_model for path in logs if path} == {JUDGE, "gpt-4o-mini"}
    compared = sj.compare_judges(sj.load_scores(tmp_path / "logs"), baseline="gpt-4o-mini")
    assert set(compared.mean_difference) == {20.0}
    sj.write_report(tmp_path / "report.html", run)
    assert JUDGE in (tmp_path / "report.html").read_text(encoding="utf-8")


def _is_chat(request: dict[str, Any]) -> bool:
    return "messages" in request and is_judge_call(request)


@pytest.mark.slow
def test_it_is_certified_as_every_judge(service: Service, tmp_path: Path) -> None:
    service.default = deciding(lambda question: scored(question, (0.0, 0.0, 1.0)))
    certificate = sj.certify.certify_judge(
        list(zip(QUESTIONS, ANSWERS, strict=True)),
        judge_model=JUDGE,
        size=2,
        logs_dir=tmp_path / "logs",
        progress=False,
    )
    assert certificate.binding.judge_model == JUDGE
    assert "信頼できる" not in certificate.words.values()  # it gives full marks to everything, damaged or not


@pytest.mark.slow
def test_it_writes_no_answers(service: Service, tmp_path: Path) -> None:
    with pytest.raises(sj.ConfigError, match="only judges"):
        judge_all(tmp_path, "offline", answers=None, assistant_model=JUDGE)


def test_what_a_service_refuses_is_told_and_no_key_with_it(service: Service, tmp_path: Path) -> None:
    from support.service import KEY, error

    service.default = error(404, f"The model gpt-6-luna does not exist for {KEY}", code="model_not_found")
    with pytest.raises(sj.ConfigError) as told:
        judge_all(tmp_path)
    assert "gpt-6-luna" in str(told.value) and KEY not in str(told.value)


PART = st.none() | st.booleans() | st.floats() | st.text(max_size=3) | st.lists(st.integers(), max_size=3)
ROW = st.fixed_dictionaries({}, optional={"value": PART, "label": PART, "probability": PART}) | PART
REPLY = st.tuples(*(
    st.fixed_dictionaries({"name": st.just(name)}, optional={
        "type": st.just("score") | PART, "score": PART, "probabilities": st.lists(ROW, max_size=3) | PART,
    }) | PART for name in CRITERIA
))  # fmt: skip


@settings(max_examples=60)
@given(PART | REPLY)
def test_whatever_else_comes_is_unread_and_no_error(reply: Any) -> None:
    with pytest.raises(UnparsableJudgement):
        translate(reply, sj.Rubric(), 3)


@settings(max_examples=60)
@given(st.lists(st.integers(0, 1000), min_size=3, max_size=3).filter(any))
def test_a_mark_is_the_expected_value_between_0_and_100(weights: list[int]) -> None:
    from socjudge.prompts.for_rubric import anchors_of

    found = [each / sum(weights) for each in weights]
    asked = [
        {"name": n, "levels": [{"label": label} for label in ls]} for n, (_, ls) in anchors_of(sj.Rubric(), 3).items()
    ]
    judgement, _ = translate([scored(question, found) for question in asked], sj.Rubric(), 3)
    (mark,) = set(judgement["scores"].values())
    assert -1e-9 <= 50 * found[1] + 100 * found[2] - mark < 1 + 1e-9
