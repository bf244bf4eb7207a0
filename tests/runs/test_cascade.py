"""Two judges as one: the cheap one first, the dear one only where it is unsure, and both marks kept."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from decision_service import deciding, scored
from run_options import with_options
from service import AfterCalls, Reply, Service, error, judgement

import socjudge as sj
from socjudge.models.opening import open_model

QUESTIONS = [sj.EvalQuestion(n, "正常系", f"質問{n}です", ("端末の隔離",)) for n in range(1, 11)]
ANSWERS = [
    sj.AssistantAnswer(q.question, f"回答{q.id}です。[出典: a.md > b]", "[出典: a.md > b]\n文脈") for q in QUESTIONS
]
CHEAP, DEAR = "gpt-4o-mini", "gpt-4o"
# Of the cheap judge, by question; 65 and 75 are within ten points of 70.
MARKS = {1: 95, 2: 95, 3: 90, 4: 90, 5: 88, 6: 85, 7: 65, 8: 75, 9: 30, 10: 20}


def question_of(request: dict[str, Any]) -> int:
    text = request["messages"][0]["content"]
    return next(n for n in range(10, 0, -1) if f"質問{n}です" in text)


def judging(request: dict[str, Any]) -> Reply | str:
    return judgement(MARKS[question_of(request)] if request["model"] == CHEAP else 60)


def judge_all(tmp_path: Path, **keywords: Any) -> sj.EvaluationRun:
    keywords = {"judge_model": CHEAP, "unsure_judge": DEAR, "answers": ANSWERS, "max_concurrency": 1, **keywords}
    return sj.run_evaluation_suite(QUESTIONS, logs_dir=tmp_path / "logs", progress=False, **with_options(**keywords))


def asked(service: Service, model: str) -> list[int]:
    return [question_of(each) for each in service.requests if each["model"] == model]


def test_the_second_judge_is_asked_only_where_the_first_is_unsure(service: Service, tmp_path: Path) -> None:
    service.default = judging
    run = judge_all(tmp_path)
    assert asked(service, CHEAP) == list(range(1, 11)) and asked(service, DEAR) == [7, 8]
    marks = {result.question.id: result.evaluation for result in run.results}
    assert [marks[n].average_score for n in (1, 7, 8, 10)] == [95, 60, 60, 20]
    assert set(marks[8].first_scores.values()) == {75} and marks[8].first_model == "gpt-4o-mini-2024-07-18"
    assert not marks[1].first_model and not marks[1].first_scores
    assert run.log_path is not None and sj.load_run(run.log_path).results[7] == run.results[7]


@pytest.mark.slow
def test_every_view_names_the_mix_and_the_frames_know_whose_mark_it_is(service: Service, tmp_path: Path) -> None:
    service.default = judging
    run = judge_all(tmp_path)
    assert run.judge_model == "gpt-4o-mini > gpt-4o"
    assert run.info.judge_model_resolved == "gpt-4o-mini-2024-07-18, gpt-4o-2024-07-18"
    frame = sj.load_results(tmp_path / "logs")
    dear = frame[frame.judge_model_resolved == "gpt-4o-2024-07-18"]
    assert dear.question_id.tolist() == [7, 8] and set(frame.judge_model) == {"gpt-4o-mini > gpt-4o"}
    run.write_report(tmp_path / "report.html")
    assert "gpt-4o-mini &gt; gpt-4o" in (tmp_path / "report.html").read_text(encoding="utf-8")
    from socjudge.base.verdict import summary_text

    told = summary_text(run)
    assert "2 of which it was unsure have the marks of gpt-4o" in told and "different models" not in told


def test_the_cost_stands_beside_that_of_the_second_judge_alone(service: Service, tmp_path: Path) -> None:
    service.default = judging
    run = judge_all(tmp_path)
    both, dear = run.info.judge_usage, run.info.unsure_usage
    assert (both.calls, dear.calls, run.info.n_unsure) == (12, 2, 2)
    assert both.cost_usd is not None and dear.cost_usd is not None and 0 < dear.cost_usd < both.cost_usd
    from socjudge.base.verdict import summary_text

    assert f"gpt-4o alone would be about ${dear.cost_usd * 5:.4f}" in summary_text(run)
    how: dict[str, Any] = {"answers": ANSWERS}
    estimate = sj.estimate_run(QUESTIONS, judge_model=run.judge_model, **how)
    assert estimate.calls == 20 and estimate.lowest is not None and estimate.lowest.calls == 10
    assert estimate.cost_usd == pytest.approx(
        sum(sj.estimate_run(QUESTIONS, judge_model=each, **how).cost_usd or 0 for each in (CHEAP, DEAR))
    )


def test_what_the_first_judge_could_not_say_is_asked_of_the_second(service: Service, tmp_path: Path) -> None:
    service.default = lambda request: "…" if request["model"] == CHEAP else judgement(80)
    run = sj.run_evaluation_suite(
        QUESTIONS[:1], answers=ANSWERS[:1], judge_model=f"{CHEAP} > {DEAR}", logs_dir=tmp_path / "logs", progress=False
    )
    (marks,) = (result.evaluation for result in run.results)
    assert marks.status == "ok" and marks.average_score == 80 and marks.first_scores == {} and marks.attempts == 4


def test_a_decision_judge_is_unsure_by_its_probabilities(service: Service, tmp_path: Path) -> None:
    def reply(request: dict[str, Any]) -> Reply | str:
        if "messages" in request:
            return judgement(60)
        n = int(request["input"][1]["content"][0]["data"]["question"].removeprefix("質問").removesuffix("です"))
        # 90 points either way: spread out, the mean may lie below 70 (sd 30 / √6 = 12.2, of which 2 are 24.5).
        spread = (0.1, 0.0, 0.9) if n == 3 else (0.0, 0.2, 0.8)
        return deciding(lambda question: scored(question, spread))(request)

    service.default = reply
    run = judge_all(tmp_path, judge_model="decisions:gpt-6-luna")
    assert [result.question.id for result in run.results if result.evaluation.first_model] == [3]


@pytest.mark.parametrize("after", [3, 8, 9, 11])
def test_a_run_that_was_stopped_asks_neither_judge_twice(service: Service, tmp_path: Path, after: int) -> None:
    service.default = judging
    with pytest.raises(sj.RunStopped):
        judge_all(tmp_path, stop=AfterCalls(service.requests, after))
    run = judge_all(tmp_path)
    assert asked(service, CHEAP) == list(range(1, 11)) and asked(service, DEAR) == [7, 8]
    assert run.info.judge_usage.calls == 12 and run.info.n_unsure == 2


def test_an_outage_of_the_second_judge_is_no_result(service: Service, tmp_path: Path) -> None:
    service.default = lambda request: judging(request) if request["model"] == CHEAP else error(503, "down")
    with pytest.raises(sj.errors.ProviderError):
        judge_all(tmp_path)
    service.default = judging
    run = judge_all(tmp_path)
    assert asked(service, CHEAP) == list(range(1, 11))
    assert [result.evaluation.average_score for result in run.results][6:8] == [60, 60]


def test_an_answer_that_the_second_judge_refuses_has_no_mark(service: Service, tmp_path: Path) -> None:
    refusal = Reply(content="", finish_reason="content_filter")
    service.default = lambda request: judging(request) if request["model"] == CHEAP else refusal
    run = judge_all(tmp_path)
    assert [result.question.id for result in run.results if result.evaluation.status == "failed"] == [7, 8]
    assert run.info.judge_usage.calls == len(service.requests) == 12


def test_a_cap_is_for_both(service: Service, tmp_path: Path) -> None:
    service.default = judging
    dearest = open_model(f"{CHEAP} > {DEAR}")
    with pytest.raises(sj.errors.BudgetReached):
        judge_all(tmp_path, max_cost_usd=0.02)
    assert asked(service, CHEAP) == list(range(1, 8)) and asked(service, DEAR) == []
    assert dearest.name == "gpt-4o-mini > gpt-4o"


def test_another_second_judge_is_another_run(service: Service, tmp_path: Path) -> None:
    service.default = judging
    judge_all(tmp_path)
    judge_all(tmp_path, unsure_judge="gpt-4.1")
    assert len(asked(service, CHEAP)) == 20 and asked(service, "gpt-4.1") == [7, 8]


def test_it_is_chosen_on_the_command_line(service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from typer.testing import CliRunner

    from socjudge.cli.app import app

    service.default = judging
    (tmp_path / "questions.json").write_text(
        json.dumps([{"id": q.id, "category": q.category, "question": q.question, "expected_keypoints": ["隔離"]} for q in QUESTIONS]),
        encoding="utf-8",
    )  # fmt: skip
    rows = "question_id,answer,context\n" + "".join(f"{q.id},回答です,文脈\n" for q in QUESTIONS)
    (tmp_path / "answers.csv").write_text(rows, encoding="utf-8")
    command = ["run", "-y", "-q", "--dataset", "questions.json", "--answers", "answers.csv", "--judge-model", CHEAP]
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, [*command, "--unsure-judge", DEAR, "--logs-dir", "logs"])
    assert "gpt-4o-mini marked 10 answers" in done.output, done.output


UNFIT: dict[str, tuple[Callable[[], Any], str]] = {
    "the embedded judge": (lambda: open_model(f"offline > {DEAR}"), "two language models"),
    "the same judge twice": (lambda: open_model(f"{CHEAP} > {CHEAP}"), "one other"),
    "three judges": (lambda: open_model(f"{CHEAP} > {DEAR} > gpt-4.1"), "one other"),
    "a certificate": (
        lambda: sj.certify.certify_judge(list(zip(QUESTIONS, ANSWERS, strict=True)), judge_model=CHEAP, options=sj.RunOptions(unsure_judge=DEAR)), "cheap > dear",
    ),
}  # fmt: skip


@pytest.mark.parametrize("unfit", UNFIT)
def test_what_is_no_pair_of_judges_is_refused(service: Service, unfit: str) -> None:
    call, told = UNFIT[unfit]
    with pytest.raises(sj.ConfigError, match=told):
        call()


def test_what_is_left_of_two_judges_has_a_least_and_a_most(service: Service) -> None:
    whole = sj.estimate_run(QUESTIONS, answers=ANSWERS, judge_model=f"{CHEAP} > {DEAR}")
    assert whole.lowest is not None and (whole.lowest.calls, whole.calls) == (10, 20)
    left = whole.after(6, 10)  # the four that the first has not marked, and at most as many for the second
    assert left.lowest is not None and (left.lowest.calls, left.calls) == (4, 8)
    assert (whole + whole).after(5, 10).lowest == whole.lowest
