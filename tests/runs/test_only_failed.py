"""`rejudge` with `only_failed`: rows without scores are judged again as the others were, and nothing else changes."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.command_line import socjudge_here
from support.runs import with_options
from support.service import KEY, AfterCalls, Reply, Service, error, judgement

from socjudge import (
    AssistantAnswer,
    ConfigError,
    EvalQuestion,
    EvaluationRun,
    Rubric,
    RunStopped,
    load_run,
    load_runs,
    rejudge,
    run_evaluation_suite,
    unfinished_runs,
)
from socjudge.base.verdict import run_verdict
from socjudge.errors import ProviderError
from socjudge.records import Completion, ModelRequest, Usage
from socjudge.runs.logs import save_evaluation_results

JUDGE = "gpt-4o-mini"
QUESTIONS = [EvalQuestion(i, "正常系", f"質問{i}です", ("要点",)) for i in range(6)]
ANSWERS = [AssistantAnswer(q.question, f"回答{q.id}", "文脈") for q in QUESTIONS]
REFUSED = error(400, "The response was filtered", code="content_filter")


def bad(refused: Collection[int] = (), unreadable: Collection[int] = ()) -> Any:
    """The judge: a refusal for some questions, no judgement for others, and 90 points for the rest."""

    def reply(request: dict[str, Any]) -> Reply | str:
        said = next(i for i in range(6) if f"質問{i}です" in request["messages"][0]["content"])
        return REFUSED if said in refused else "採点できません" if said in unreadable else judgement(90)

    return reply


def judged(tmp_path: Path, **keywords: Any) -> EvaluationRun:
    how = {"answers": ANSWERS, "judge_model": JUDGE, "max_concurrency": 1, "progress": False, **keywords}
    return run_evaluation_suite(QUESTIONS, logs_dir=tmp_path / "logs", **with_options(**how))


def again(run: EvaluationRun, tmp_path: Path, **keywords: Any) -> EvaluationRun:
    how = {"max_concurrency": 1, "progress": False, **keywords}
    return rejudge(run, only_failed=True, logs_dir=tmp_path / "logs", **with_options(**how))


def points(run: EvaluationRun) -> list[float | str]:
    marks = [result.evaluation for result in run.results]
    return [mark.average_score if mark.status == "ok" else mark.status for mark in marks]


def asked(service: Service) -> list[int]:
    texts = [request["messages"][0]["content"] for request in service.requests]
    return [int(found[1]) for text in texts if (found := re.search(r"質問(\d)です", text))]


@pytest.fixture
def torn(service: Service, tmp_path: Path) -> EvaluationRun:
    """A run whose question 1 was refused and question 3 was not read; the service then works and gives 80 points."""
    service.default = bad(refused=[1], unreadable=[3])
    run = judged(tmp_path)
    assert points(run) == [90, "failed", 90, "unparsable", 90, 90]
    service.requests.clear()
    service.default = judgement(80)
    return run


def test_rows_without_scores_are_judged_again_and_all_others_are_kept(
    torn: EvaluationRun, service: Service, tmp_path: Path
) -> None:
    run = again(load_run(torn.log_path or ""), tmp_path)
    assert asked(service) == [1, 3]
    assert points(run) == [90, 80, 90, 80, 90, 90]
    assert (run.info.judge_model, run.info.rejudged_from) == (JUDGE, torn.info.run_id)
    assert run.log_path != torn.log_path and load_run(run.log_path or "") == run
    kept = [(old.answer.answer, old.evaluation.rationale) for old in torn.results if old.evaluation.status == "ok"]
    assert kept == [(run.results[i].answer.answer, run.results[i].evaluation.rationale) for i in (0, 2, 4, 5)]


def test_what_the_kept_rows_cost_is_counted_once(torn: EvaluationRun, service: Service, tmp_path: Path) -> None:
    run = again(torn, tmp_path)
    assert run.info.judge_usage.calls == 2
    assert load_runs(tmp_path / "logs")["calls"].tolist() == [
        4 + 3,
        2,
    ]  # what could not be read was asked for three times


def test_each_repeat_is_a_row_of_its_own(service: Service, tmp_path: Path) -> None:
    service.script = [Reply(judgement(90)), REFUSED, *[Reply(judgement(90))] * 10]
    run = judged(tmp_path, judge_repeats=2)
    assert points(run).count("failed") == 1
    service.requests.clear()
    service.default = judgement(80)
    mended = again(run, tmp_path)
    assert (len(service.requests), points(mended).count(80), points(mended).count(90)) == (1, 1, 11)
    assert mended.info.judge_repeats == 2


@pytest.mark.parametrize(
    ("other", "told"),
    [
        ({"judge_model": "gpt-4o"}, "gpt-4o-mini→gpt-4o"),
        ({"judge_prompt": "guide-1-hardened"}, "prompt"),
        ({"rubric": Rubric(pass_threshold=80.0)}, "rubric .*70→80"),
        ({"rubric": Rubric(descriptions={"安全性": "危険な操作がない"})}, "rubric"),
        ({"judge_repeats": 3}, "1→3"),
    ],
    ids=["judge", "prompt", "line", "description", "repeats"],
)
def test_what_would_put_two_judges_into_one_log_is_refused(
    torn: EvaluationRun, service: Service, tmp_path: Path, other: dict[str, Any], told: str
) -> None:
    with pytest.raises(ConfigError, match=f"so that a log has one judge.*{told}"):
        again(torn, tmp_path, **other)
    assert service.requests == []


def test_the_runs_own_judge_may_be_named(torn: EvaluationRun, tmp_path: Path) -> None:
    assert points(again(torn, tmp_path, judge_model=JUDGE, rubric=torn.rubric)) == [90, 80, 90, 80, 90, 90]


def test_a_judge_that_nobody_knows_is_not_taken_for_any(torn: EvaluationRun, service: Service, tmp_path: Path) -> None:
    unknown = replace(torn, run=replace(torn.info, judge_model="unknown", judge_service="", judge_settings="unknown"))
    for given in ({}, {"judge_model": JUDGE}):
        with pytest.raises(ConfigError, match="so that a log has one judge"):
            again(unknown, tmp_path, **given)
    assert service.requests == []


class House:
    """A judge object of one's own, which gives no judgement of a question at first."""

    name, settings = "house-judge", "1"

    def __init__(self, fails: bool) -> None:
        self.fails = fails

    def complete(self, request: ModelRequest) -> Completion:
        fails = self.fails and "質問2です" in request.messages[0]["content"]
        return Completion("読めません" if fails else judgement(70), self.name, Usage(calls=1, cost_usd=0.0))


def test_a_judge_object_must_be_given_and_not_only_its_name(service: Service, tmp_path: Path) -> None:
    run = judged(tmp_path, judge_model=House(fails=True))
    with pytest.raises(ConfigError, match="so that a log has one judge"):
        again(run, tmp_path)
    assert points(again(run, tmp_path, judge_model=House(fails=False))) == [70] * 6
    assert service.requests == []


def test_a_question_without_an_answer_stays_a_failed_row(service: Service, tmp_path: Path) -> None:
    service.default = bad(refused=[1])
    answers = [*ANSWERS[:4], replace(ANSWERS[4], answer=""), ANSWERS[5]]
    run = judged(tmp_path, answers=answers)
    service.requests.clear()
    service.default = judgement(80)
    mended = again(run, tmp_path)
    assert points(mended) == [90, 80, 90, 90, "failed", 90] and asked(service) == [1]
    with pytest.raises(ConfigError, match="no row to judge again.*without an answer run the evaluation again"):
        again(mended, tmp_path)


def test_a_log_that_lacks_rows_is_judged_again_as_a_whole_or_not_at_all(torn: EvaluationRun, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="expected 12 judged answers, and the log has 6"):
        again(replace(torn, run=replace(torn.info, judge_repeats=2)), tmp_path)


def test_a_run_in_doubt_stays_in_doubt(torn: EvaluationRun, tmp_path: Path) -> None:
    one_of_two = replace(torn, run=replace(torn.info, judges_asked=2))
    run = again(one_of_two, tmp_path)
    assert run.summary.mvp_passed and run_verdict(run).outcome == "open"
    assert run_verdict(load_run(run.log_path or "")).outcome == "open"


def test_it_is_resumed_after_a_stop(torn: EvaluationRun, service: Service, tmp_path: Path) -> None:
    with pytest.raises(RunStopped):
        again(torn, tmp_path, stop=AfterCalls(service.requests, 1))
    (unfinished,) = unfinished_runs(tmp_path / "logs")
    assert (unfinished.done, unfinished.total) == (5, 6)
    assert points(again(torn, tmp_path)) == [90, 80, 90, 80, 90, 90]
    assert asked(service) == [1, 3] and unfinished_runs(tmp_path / "logs") == []


def test_neither_a_whole_rejudging_nor_another_run_takes_its_kept_rows(
    torn: EvaluationRun, service: Service, tmp_path: Path
) -> None:
    service.default = judgement(70)
    other = rejudge(torn, judge_model=JUDGE, logs_dir=tmp_path / "logs", progress=False)  # the same answers and judge
    results = [replace(row, evaluation=replace(row.evaluation, status="failed")) for row in other.results[:2]]
    other = replace(other, results=(*results, *other.results[2:]))
    with pytest.raises(RunStopped):
        again(torn, tmp_path, stop=AfterCalls(service.requests, 6 + 1))
    assert points(again(other, tmp_path)) == [70] * 6
    service.requests.clear()
    whole = rejudge(torn, judge_model=JUDGE, logs_dir=tmp_path / "logs", progress=False)
    assert len(service.requests) == 6 and points(whole) == [70] * 6


def test_a_service_that_is_away_keeps_what_there_is_for_the_next_start(
    torn: EvaluationRun, service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("socjudge.models.pacing.BACKOFF_S", 0.001)
    service.default = error(503, "down")
    with pytest.raises(ProviderError):
        again(torn, tmp_path, patience_s=0)
    service.default = judgement(80)
    assert points(again(torn, tmp_path)) == [90, 80, 90, 80, 90, 90]


def test_the_command_shows_what_the_rest_costs_and_takes_the_logs_judge(
    torn: EvaluationRun, service: Service, tmp_path: Path
) -> None:
    keys = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": service.base_url}
    command = ["rejudge", "--log", str(torn.log_path), "--only-failed", "--logs-dir", str(tmp_path / "logs"), "-q"]
    asking = socjudge_here(*command, **keys)
    assert asking.returncode == 5 and "2 calls" in asking.stderr and service.requests == []
    other = socjudge_here(*command, "-y", "--judge-model", "gpt-4o", **keys)
    assert other.returncode == 2 and "gpt-4o-mini→gpt-4o" in other.stderr
    done = socjudge_here(*command, "-y", **keys)
    assert done.returncode == 0 and sorted(asked(service)) == [1, 3]
    logs = sorted((tmp_path / "logs").glob("judge_eval_*.json"))
    assert [json.loads(path.read_text("utf-8"))["run"]["judge_model"] for path in logs] == [JUDGE, JUDGE]
    nothing = socjudge_here("rejudge", "--log", str(logs[-1]), "--only-failed", "-q", **keys)
    assert nothing.returncode == 2 and "no row to judge again" in nothing.stderr


def test_the_command_says_what_an_interrupted_one_has_left(
    torn: EvaluationRun, service: Service, tmp_path: Path
) -> None:
    with pytest.raises(RunStopped):
        again(torn, tmp_path, stop=AfterCalls(service.requests, 1))
    command = ["rejudge", "--log", str(torn.log_path), "--only-failed", "--logs-dir", str(tmp_path / "logs"), "-q"]
    asking = socjudge_here(*command, OPENAI_API_KEY=KEY, OPENAI_BASE_URL=service.base_url)
    assert "1 calls" in asking.stderr and len(service.requests) == 1


# --- A part of a run has no verdict, wherever it comes from and whatever is made of it


def is_part(run: EvaluationRun, judged: int, asked: int) -> bool:
    """Whether the run, and what is loaded of its log, is a part without a verdict."""
    told = [
        (each.summary.judged, each.summary.asked, run_verdict(each).outcome)
        for each in (run, load_run(run.log_path or ""))
    ]
    return told == [(judged, asked, "open")] * 2


def logged(run: EvaluationRun, folder: Path) -> EvaluationRun:
    return replace(run, log_path=save_evaluation_results(run, folder))


@pytest.fixture
def stopped(service: Service, tmp_path: Path) -> EvaluationRun:
    """Four of six judged: the journal of a run that was stopped."""
    with pytest.raises(RunStopped):
        judged(tmp_path, stop=AfterCalls(service.requests, 3))
    (left,) = unfinished_runs(tmp_path / "logs")
    run = load_run(left.path)
    assert left.total == 6 and 0 < len(run.results) < 6
    return run


def test_an_unfinished_run_has_no_verdict(stopped: EvaluationRun, tmp_path: Path) -> None:
    there = len(stopped.results)
    assert stopped.summary.asked == 6 and f"{there} of 6 judged" in run_verdict(stopped).reason
    assert is_part(logged(stopped, tmp_path / "saved"), there, 6)
    assert load_runs(tmp_path / "saved")[["n_results", "asked", "is_open"]].values.tolist() == [[there, 6, True]]


def test_the_whole_run_has_its_verdict_again(stopped: EvaluationRun, tmp_path: Path) -> None:
    run = judged(tmp_path)
    assert (run.summary.judged, run.summary.asked, run_verdict(run).outcome) == (6, 6, "passed")
    assert load_run(run.log_path or "") == run


@pytest.mark.slow
@pytest.mark.parametrize("only_failed", [True, False])
def test_a_part_that_is_judged_again_stays_a_part(only_failed: bool, torn: EvaluationRun, tmp_path: Path) -> None:
    some = replace(torn, results=torn.results[:4])
    how: dict[str, Any] = {"only_failed": only_failed, "logs_dir": tmp_path / "logs", "progress": False}
    again = rejudge(some, **how, judge_model=JUDGE)
    assert again.summary.total_questions == 4 and is_part(again, 4, 6)
    if not only_failed:  # also of a log of an earlier version, and with repeats
        older = replace(torn.run, asked=None)
        assert is_part(rejudge(replace(some, run=older), **how, judge_model=JUDGE, judge_repeats=2), 8, 12)


def test_an_interrupted_rejudging_of_a_part_knows_what_the_run_asked(
    torn: EvaluationRun, service: Service, tmp_path: Path
) -> None:
    some = replace(torn, results=torn.results[:4])
    before = len(service.requests)
    with pytest.raises(RunStopped):
        rejudge(some, judge_model=JUDGE, logs_dir=tmp_path / "again", progress=False,
                **with_options(max_concurrency=1, stop=AfterCalls(service.requests, before + 2)))  # fmt: skip
    (left,) = unfinished_runs(tmp_path / "again")
    assert (left.total, load_run(left.path).summary.asked) == (4, 6)
