"""Judging again until the verdict is certain: only what decides it, bounded, taken up, and told in log and words."""

from __future__ import annotations

import json
import random
import re
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_options import with_options
from service import Reply, Service, error, judgement

from socjudge import (
    AssistantAnswer,
    ConfigError,
    EvalQuestion,
    EvaluationRun,
    RunStopped,
    estimate_run,
    load_run,
    rejudge,
    run_evaluation_suite,
)
from socjudge.base.pass_rule import PassRule
from socjudge.base.verdict import certainty_text
from socjudge.records import Completion, ModelRequest, Usage
from socjudge.runs.certainty import FIRST, MOST
from socjudge.stats import gate_confidence, gate_progress

QUESTIONS = [EvalQuestion(i, "正常系", f"質問{i}", ("要点",)) for i in range(10)]
ANSWERS = [AssistantAnswer(q.question, f"回答の番号は<{q.id}>です", "文脈") for q in QUESTIONS]
SURE = {i: (88, 90) for i in range(8)} | {8: (40, 44), 9: (30, 31)}
NEAR = {i: (88, 90) for i in range(6)} | {6: (66, 75), 7: (74, 65), 8: (40, 44), 9: (30, 31)}


class Judge:
    """Replies with an answer's marks in turn, again and again; `asked` counts by question."""

    def __init__(self, marks: dict[int, Any]) -> None:
        self.marks, self.asked, self._lock = marks, Counter[int](), threading.Lock()

    def __call__(self, request: dict[str, Any]) -> Reply | str:
        found = re.search(r"回答の番号は<(\d+)>", json.dumps(request["messages"], ensure_ascii=False))
        assert found
        question = int(found[1])
        with self._lock:
            place = self.asked[question]
            self.asked[question] += 1
        mark = self.marks[question][place % len(self.marks[question])]
        return judgement(mark) if isinstance(mark, int) else mark


def judge_all(tmp_path: Path, **keywords: Any) -> EvaluationRun:
    keywords = {"judge_model": "gpt-4o-mini", "until_certain": True, "progress": False, **keywords}
    return run_evaluation_suite(QUESTIONS, answers=ANSWERS, logs_dir=tmp_path / "logs", **with_options(**keywords))


def test_a_clear_run_ends_after_two_judgements_each(service: Service, tmp_path: Path) -> None:
    service.default = Judge(SURE)
    run = judge_all(tmp_path)
    assert len(service.requests) == len(run.results) == 20
    assert run.summary.mvp_passed
    assert (run.info.stopped_because, set(run.info.repeats.values())) == ("certain pass", {2})


@pytest.mark.usefixtures("in_japanese")
def test_only_what_decides_is_judged_again_and_the_log_tells(service: Service, tmp_path: Path) -> None:
    service.default = judge = Judge(NEAR)
    run = judge_all(tmp_path)
    assert judge.asked == Counter({q.id: run.info.repeats[str(q.id)] for q in QUESTIONS})
    assert all(judge.asked[question] == FIRST for question in range(6))  # far from the line
    assert max(judge.asked[6], judge.asked[7]) > FIRST
    assert run.info.stopped_because in ("settled", "most", "certain pass", "certain fail")
    assert run.log_path is not None
    read = load_run(run.log_path)
    assert (read.run.repeats, read.run.stopped_because) == (run.info.repeats, run.info.stopped_because)
    said = certainty_text(read.run)
    assert f"計{sum(judge.asked.values())}回（1問に2〜{max(judge.asked.values())}回）" in said
    assert "反復は質問を増やす代わりになりません" in said
    assert said in run._repr_html_()  # type: ignore[operator]


def test_a_run_of_fixed_repeats_says_nothing_of_certainty(service: Service, tmp_path: Path) -> None:
    run = judge_all(tmp_path, until_certain=False)
    assert (run.info.stopped_because, run.info.repeats, certainty_text(run.info)) == ("", {}, "")
    assert "repeats" not in run.info._repr_html_().replace("judge_repeats", "").replace("answer_repeats", "")  # type: ignore[operator]


def test_judge_repeats_is_the_most_for_one_answer(service: Service, tmp_path: Path) -> None:
    service.default = judge = Judge(NEAR)
    run = judge_all(tmp_path, judge_repeats=3)
    assert max(judge.asked.values()) == 3
    assert run.run.judge_repeats == 3
    with pytest.raises(ConfigError, match="judge_repeats is the most for one answer; it is 2, expected 3 or more"):
        judge_all(tmp_path, judge_repeats=2)


@pytest.mark.slow
@pytest.mark.parametrize("calls", [5, 20, 24])
def test_what_was_broken_off_asks_only_for_what_is_missing(service: Service, tmp_path: Path, calls: int) -> None:
    service.default = Judge(NEAR)
    whole = judge_all(tmp_path / "whole", max_concurrency=1)
    asked = len(service.requests)
    service.requests.clear()
    stop, judge = threading.Event(), Judge(NEAR)

    def reply(request: dict[str, Any]) -> Reply | str:
        if len(service.requests) >= calls:
            stop.set()
        return judge(request)

    service.default = reply
    with pytest.raises(RunStopped):
        judge_all(tmp_path, max_concurrency=1, stop=stop)
    assert len(service.requests) == calls
    run = judge_all(tmp_path, max_concurrency=1)
    assert len(service.requests) == asked
    assert run.run.sessions == 2
    assert (run.run.repeats, run.run.stopped_because) == (whole.run.repeats, whole.run.stopped_because)
    assert [r.evaluation.scores for r in run.results] == [r.evaluation.scores for r in whole.results]
    assert list((tmp_path / "logs").glob("*.partial.jsonl")) == []


def test_a_kill_between_log_and_journal_leaves_one_log(service: Service, tmp_path: Path) -> None:
    service.default = Judge(SURE)
    kept: list[bytes] = []

    def keep(_: Any) -> None:
        (journal,) = (tmp_path / "logs").glob("*.partial.jsonl")
        kept.append(journal.read_bytes())

    run = judge_all(tmp_path, on_result=keep)
    assert run.log_path is not None
    over = json.dumps({"over": True}).encode() + b"\n"  # the line that the journal has before its log is written
    run.log_path.with_name(f"{run.log_path.stem}.partial.jsonl").write_bytes(kept[-1] + over)
    again = judge_all(tmp_path)
    assert again.run.run_id != run.run.run_id  # a run of its own, and not a second log of the first
    assert len(list((tmp_path / "logs").glob("*"))) == 2


def test_a_fixed_run_that_was_broken_off_can_be_ended_so(service: Service, tmp_path: Path) -> None:
    """Whichever of the ten judgements of an answer were there by then."""
    stop, judge = threading.Event(), Judge(SURE)

    def reply(request: dict[str, Any]) -> Reply | str:
        if len(service.requests) >= 13:
            stop.set()
        return judge(request)

    service.default = reply
    with pytest.raises(RunStopped):
        judge_all(tmp_path, until_certain=False, judge_repeats=10, stop=stop)
    before = judge.asked.copy()
    run = judge_all(tmp_path, judge_repeats=10)
    assert judge.asked == {question: max(FIRST, before[question]) for question in range(10)}
    assert judge.asked == {int(name): count for name, count in run.run.repeats.items()}


@pytest.mark.usefixtures("in_japanese")
def test_the_budget_ends_it_with_a_log_once_every_answer_was_judged(service: Service, tmp_path: Path) -> None:
    service.default = judge = Judge(NEAR)
    # A call may cost $0.0024 + what the prompt takes; 1,000 tokens in and 200 out did cost $0.00027.
    run = judge_all(tmp_path, max_cost_usd=0.0095, max_concurrency=1)
    assert run.info.stopped_because == "budget"
    assert run.cost_usd is not None
    assert run.cost_usd <= 0.0095
    assert sum(judge.asked.values()) == len(run.results) >= 20
    assert "費用の上限に達しました" in certainty_text(run.info)


def test_a_refused_question_is_not_asked_for_again_and_again(service: Service, tmp_path: Path) -> None:
    refused = error(400, "filtered", code="content_filter")
    service.default = judge = Judge(SURE | {3: (refused,)})
    run = judge_all(tmp_path)
    assert judge.asked[3] == FIRST
    assert run.info.stopped_because == "unread"
    assert {r.evaluation.status for r in run.results if r.question.id == 3} == {"failed"}


def test_stored_answers_of_a_log_can_be_judged_until_it_is_certain(service: Service, tmp_path: Path) -> None:
    first = judge_all(tmp_path, until_certain=False)
    service.default = Judge(SURE)
    again = rejudge(first, judge_model="gpt-4o-mini", until_certain=True, logs_dir=tmp_path / "logs", progress=False)
    assert (again.info.stopped_because, len(again.results)) == ("certain pass", 20)


def test_several_answers_per_question_are_refused_before_anything_is_sent(
    service: Service, index: Any, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="leave answer_repeats at 1"):
        run_evaluation_suite(
            QUESTIONS, index=index, answer_repeats=2, until_certain=True, logs_dir=tmp_path, progress=False,
            assistant_model="gpt-4o-mini", judge_model="gpt-4o-mini",
        )  # fmt: skip
    assert service.requests == []
    assert list(tmp_path.glob("*.jsonl")) == []


def test_the_estimate_has_a_lowest_and_a_highest() -> None:
    estimate = estimate_run(QUESTIONS, answers=ANSWERS, judge_model="gpt-4o-mini", until_certain=True)
    assert estimate.lowest is not None
    assert (estimate.lowest.calls, estimate.calls) == (10 * FIRST, 10 * MOST)
    assert estimate.lowest.cost_usd == pytest.approx((estimate.cost_usd or 0) * FIRST / MOST)
    assert "at least" in estimate._repr_html_()
    both = estimate + estimate_run(QUESTIONS, answers=ANSWERS, judge_model="gpt-4o-mini")
    assert both.lowest is not None
    assert (both.lowest.calls, both.calls) == (30, 110)


@settings(max_examples=20)
@given(st.integers(0, 2**32), st.sampled_from([60.0, 75.0, 90.0]), st.floats(0, 15))
def test_asking_ends_within_the_most_and_says_what_the_means_say(seed: int, level: float, spread: float) -> None:
    rng = np.random.default_rng(seed)
    truth = np.clip(level + spread * rng.standard_normal(10), 5, 95)
    marks = np.clip(truth[:, None] + 4 * rng.standard_normal((10, MOST)), 0, 100).round()
    so_far = {question: list(marks[question, :FIRST]) for question in range(10)}
    while (found := gate_progress(so_far, rule=PassRule(70, 0.7), cap=MOST)).ask:
        for question in found.ask[:2]:
            so_far[question].append(marks[question, len(so_far[question])])
    assert max(map(len, so_far.values())) <= MOST
    assert found.calls == sum(map(len, so_far.values()))
    if found.verdict != "判定保留":
        assert found.passes == (found.verdict == "合格")


UNREADABLE = ("採点できません",) * 3  # a judgement is asked for three times


def test_a_mark_that_could_not_be_read_is_asked_for_again_before_a_pass_is_certain(
    service: Service, tmp_path: Path
) -> None:
    service.default = judge = Judge(SURE | {6: (71, *UNREADABLE, 90, 91)})
    run = judge_all(tmp_path, max_concurrency=1)
    assert judge.asked[6] >= 1 + 3 + 1
    assert run.summary.n_unscored == 0
    assert run.run.judge_usage.calls == len(service.requests)
    assert run.summary.mvp_passed == (run.info.stopped_because == "certain pass")


@pytest.mark.slow
@pytest.mark.usefixtures("in_japanese")
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 8))])
def test_no_view_calls_certain_what_the_log_does_not_say(tmp_path: Path, seed: int) -> None:
    """A judge that gives 76-80 always and cannot be read in 15 of 100 judgements, asked again or not."""
    rng = random.Random(seed)

    class Honest:
        name = settings = "honest"

        def __init__(self) -> None:
            self.is_unread = False

        def complete(self, request: ModelRequest) -> Completion:
            if len(request.messages) == 1:
                self.is_unread = rng.random() < 0.15
            said = "すみません、採点できません。" if self.is_unread else judgement(rng.choice([76, 78, 80]))
            return Completion(said, "honest", Usage(1, 1, 1, 0.0), "stop")

    run = judge_all(tmp_path, judge_model=Honest(), max_concurrency=1)
    passed = run.summary.mvp_passed
    certain = run.info.stopped_because.startswith("certain")
    assert not certain or passed == (run.info.stopped_because == "certain pass")
    assert not (certain and run.summary.is_open)
    row = gate_confidence(run.results_frame()).iloc[0]
    assert (row["mvp_passed"], row["passed"]) == (passed, run.summary.passed_questions)
    assert row["verdict"] in ({"合格", "判定保留"} if passed else {"不合格", "判定保留"})
    page = run.write_report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert passed or "「合格」が確実" not in page + certainty_text(run.info)
