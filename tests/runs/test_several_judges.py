"""Several judges over the same answers: made once, marked by each, taken up, and one that fails loses nothing of the others."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from run_options import with_options
from service import Reply, Service, error, is_judge_call, judgement

from socjudge import (
    AssistantAnswer,
    ConfigError,
    EvalQuestion,
    EvaluationRun,
    RunOptions,
    RunStopped,
    estimate_run,
    load_prompt,
    load_results,
    run_evaluation_suite,
    unfinished_runs,
)
from socjudge.errors import BudgetReached, ProviderError
from socjudge.records import Rubric
from socjudge.runbooks.index import RunbookIndex
from socjudge.runs.estimate import Estimate
from socjudge.runs.several_judges import assign_judges, estimate_judges_left, judged_already
from socjudge.settings import default_k
from socjudge.stats import combine_judges

JUDGES = ["gpt-4o-mini", "gpt-4o", "gpt-4.1"]
MARKS = {"gpt-4o-mini": 90, "gpt-4o": 60, "gpt-4.1": 80}
QUESTIONS = [EvalQuestion(i, "正常系", f"質問{i}", ("要点",)) for i in range(4)]
STORED = [AssistantAnswer(q.question, f"回答{q.id}", "文脈") for q in QUESTIONS]


def replies(**special: Callable[[], Reply | str]) -> Callable[[dict[str, Any]], Reply | str]:
    """Each judge with its own mark; answers that are all different. special: a judge's replies, - and . as _."""
    count = iter(range(10_000))

    def reply(request: dict[str, Any]) -> Reply | str:
        if not is_judge_call(request):
            return f"{next(count)}番目の回答です。 [出典: malware_response.md > 初動対応]"
        name = request["model"]
        named = special.get(name.replace("-", "_").replace(".", "_"))
        return named() if named else judgement(MARKS[name])

    return reply


def judge_all(tmp_path: Path, **keywords: Any) -> EvaluationRun:
    keywords = {"judge_model": JUDGES, "answers": STORED, "progress": False, **keywords}
    return run_evaluation_suite(QUESTIONS, logs_dir=tmp_path / "logs", **with_options(**keywords))


def left_to_pay(
    tmp_path: Path, *, index: RunbookIndex | None = None, answers: Any = STORED, assistant_model: str = "auto"
) -> Estimate:
    answering = {
        "answers": answers, "assistant_model": assistant_model, "assistant_prompt": None, "answer_repeats": 1, "k": default_k(),
    }  # fmt: skip
    what: dict[str, Any] = {
        "judging": {"judge_prompt": None, "rubric": Rubric(), "judge_repeats": 1},
        "answering": answering,
    }
    assignments, over = assign_judges(QUESTIONS, JUDGES, index=index, **what)
    already = judged_already(assignments, over, tmp_path / "logs")
    return estimate_judges_left(QUESTIONS, JUDGES, already, len(QUESTIONS), **what)


def calls(service: Service) -> dict[str, int]:
    judged = [request["model"] for request in service.requests if is_judge_call(request)]
    return {judge: judged.count(judge) for judge in JUDGES}


def logs(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "logs").glob("judge_eval_*.json"))


def test_a_finished_judge_is_found_from_another_folder_too(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A notebook says logs_dir="../logs", the command line is started above."""
    (tmp_path / "notebooks").mkdir()
    how: dict[str, Any] = {"answers": STORED, "judge_model": JUDGES, "progress": False}
    down = {"model": JUDGES[-1]}
    service.default = lambda request: error(401, "no") if request["model"] == down["model"] else judgement(80)
    monkeypatch.chdir(tmp_path / "notebooks")
    with pytest.warns(UserWarning, match=JUDGES[-1]):
        run_evaluation_suite(QUESTIONS, logs_dir="../logs", **with_options(**how))
    service.requests.clear()
    down["model"] = ""
    monkeypatch.chdir(tmp_path)
    run_evaluation_suite(QUESTIONS, logs_dir="logs", **with_options(**how))
    assert {request["model"] for request in service.requests} == {JUDGES[-1]}


def test_all_judges_have_the_prompt_that_the_run_began_with(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "mine.txt"
    text = load_prompt("guide-1").text
    path.write_text(text, encoding="utf-8")

    def save_anew(_: Any) -> None:
        path.write_text(text + "\n厳しく採点してください。", encoding="utf-8")

    run = run_evaluation_suite(QUESTIONS, answers=STORED, judge_model=JUDGES, judge_prompt=path, logs_dir=tmp_path / "logs", progress=False, options=RunOptions(on_result=save_anew))  # fmt: skip
    assert len({each.run.judge_prompt_sha256 for each in (run, *run.others)}) == 1


def test_each_answer_is_made_once_and_marked_by_each(service: Service, index: RunbookIndex, tmp_path: Path) -> None:
    service.default = replies()
    run = judge_all(tmp_path, answers=None, index=index, assistant_model="gpt-4o-mini")
    assert calls(service) == dict.fromkeys(JUDGES, 4)
    assert len(service.requests) == 4 + 12
    runs = [run, *run.others]
    assert [each.judge_model for each in runs] == JUDGES
    assert [each.run.rejudged_from for each in runs] == ["", run.run.run_id, run.run.run_id]
    assert len({tuple(r.answer.answer for r in each.results) for each in runs}) == 1
    assert [each.run.assistant_usage.calls for each in runs] == [4, 0, 0]  # paid once, counted once
    assert len(logs(tmp_path)) == 3
    assert [path.name for path in (tmp_path / "logs").iterdir() if path not in logs(tmp_path)] == []


def test_every_single_mark_stands_in_the_frames_beside_the_combined_ones(service: Service, tmp_path: Path) -> None:
    service.default = replies()
    run = judge_all(tmp_path)
    for frame in (run.results_frame(), load_results(tmp_path / "logs")):
        assert frame.groupby("judge_model", observed=True)["average_score"].first().to_dict() == MARKS
        combined = combine_judges(frame)
        assert combined["average_score"].tolist() == frame["average_score"].tolist()
        assert set(combined["judges_mean"].round(6)) == {round(230 / 3, 6)}
        assert set(combined["judges_median"]) == set(combined["judges_trimmed"]) == {80}
        assert combined["judges_majority"].all()  # two of three reach 70
    assert len(run.scores_frame()) == 3 * 4 * 6
    assert len(run.wide_frame()) == 4


def test_one_judge_that_fails_loses_nothing_of_the_others_and_is_asked_alone(service: Service, tmp_path: Path) -> None:
    refused = error(401, "no access")
    service.default = replies(gpt_4o=lambda: refused)
    with pytest.warns(UserWarning, match="the judge gpt-4o did not finish; the others' results are saved"):
        run = judge_all(tmp_path)
    assert [each.judge_model for each in (run, *run.others)] == ["gpt-4o-mini", "gpt-4.1"]
    assert len(logs(tmp_path)) == 2
    service.default = replies()
    service.requests.clear()
    run = judge_all(tmp_path)
    assert calls(service) == {"gpt-4o-mini": 0, "gpt-4o": 4, "gpt-4.1": 0}
    assert sorted(each.judge_model for each in (run, *run.others)) == sorted(JUDGES)
    assert len(logs(tmp_path)) == 3


def test_the_answers_of_a_first_judge_that_fails_midway_are_taken_over(
    service: Service, index: RunbookIndex, tmp_path: Path
) -> None:
    left = iter([judgement(90), judgement(90)])
    service.default = replies(gpt_4o_mini=lambda: next(left, error(401, "key withdrawn")))
    how = {"answers": None, "index": index, "assistant_model": "gpt-4o-mini", "max_concurrency": 1}
    with pytest.warns(UserWarning, match="the judge gpt-4o-mini did not finish"):
        run = judge_all(tmp_path, **how)
    asked = [request for request in service.requests if not is_judge_call(request)]
    assert len(asked) == 4  # three before it failed, one after
    service.default = replies()
    service.requests.clear()
    assert left_to_pay(tmp_path, answers=None, index=index, assistant_model="gpt-4o-mini").calls == 2
    again = judge_all(tmp_path, **how)
    assert calls(service) == {"gpt-4o-mini": 2, "gpt-4o": 0, "gpt-4.1": 0}  # its two marks count
    assert len(service.requests) == 2
    runs = [again, *again.others]
    assert {tuple(r.answer.answer for r in each.results) for each in runs} == {
        tuple(r.answer.answer for r in run.results)
    }
    assert unfinished_runs(tmp_path / "logs") == []


def test_an_unfinished_run_of_one_of_them_over_other_answers_is_left_alone(
    service: Service, index: RunbookIndex, tmp_path: Path
) -> None:
    stop, reply = threading.Event(), replies()

    def default(request: dict[str, Any]) -> Reply | str:
        if len(service.requests) >= 4:
            stop.set()
        return reply(request)

    service.default = default
    how: dict[str, Any] = {"answers": None, "index": index, "assistant_model": "gpt-4o-mini", "max_concurrency": 1}
    with pytest.raises(RunStopped):
        judge_all(tmp_path, judge_model="gpt-4o", stop=stop, **how)
    (before,) = unfinished_runs(tmp_path / "logs")
    service.default = lambda request: error(401, "no access") if request["model"] == "gpt-4o" else reply(request)
    with pytest.warns(UserWarning, match="the judge gpt-4o did not finish"):
        judge_all(tmp_path, **how)
    assert left_to_pay(tmp_path, answers=None, index=index, assistant_model="gpt-4o-mini").calls == 4
    service.default = reply
    judge_all(tmp_path, **how)
    (after,) = unfinished_runs(tmp_path / "logs")
    assert (after.path, after.done) == (before.path, before.done) == (before.path, 2)
    assert calls(service) == {"gpt-4o-mini": 4, "gpt-4o": 2 + 1 + 4, "gpt-4.1": 4}  # one was refused


def test_a_cell_shows_every_judge(service: Service, tmp_path: Path) -> None:
    service.default = replies()
    run = judge_all(tmp_path)
    assert "judge 'gpt-4o-mini" in repr(run)
    assert "and 2 more" in repr(run)
    assert all(judge in run._repr_html_() for judge in JUDGES)  # type: ignore[operator]


@pytest.mark.parametrize("stop_at", [2, 6, 9])
def test_what_was_broken_off_is_taken_up(service: Service, tmp_path: Path, stop_at: int) -> None:
    stop, reply = threading.Event(), replies()

    def default(request: dict[str, Any]) -> Reply | str:
        if len(service.requests) >= stop_at:
            stop.set()
        return reply(request)

    service.default = default
    assert left_to_pay(tmp_path) == estimate_run(QUESTIONS, answers=STORED, judge_model=JUDGES)
    with pytest.raises(RunStopped):
        judge_all(tmp_path, max_concurrency=1, stop=stop)
    assert left_to_pay(tmp_path).calls == 12 - sum(calls(service).values())
    run = judge_all(tmp_path, max_concurrency=1)
    assert calls(service) == dict.fromkeys(JUDGES, 4)
    assert [each.judge_model for each in (run, *run.others)] == JUDGES
    assert len(logs(tmp_path)) == 3
    judge_all(tmp_path)  # finished: the next one is a panel of its own
    assert len(logs(tmp_path)) == 6


def test_the_budget_is_for_all_judges_together(service: Service, tmp_path: Path) -> None:
    service.default = replies()
    with pytest.raises(BudgetReached):
        judge_all(tmp_path, max_cost_usd=0.02, max_concurrency=1)
    before = sum(calls(service).values())
    assert 4 <= before < 12
    run = judge_all(tmp_path, max_cost_usd=2.0)
    assert calls(service) == dict.fromkeys(JUDGES, 4)
    assert sum(each.cost_usd or 0 for each in (run, *run.others)) > 0


def test_all_judges_failing_is_an_error(service: Service, tmp_path: Path) -> None:
    service.default = error(401, "no access")
    with pytest.raises((ConfigError, ProviderError), match="401|OPENAI_API_KEY"):
        judge_all(tmp_path)
    assert logs(tmp_path) == []


def test_what_makes_no_panel_is_refused_before_anything_is_sent(service: Service, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no judge is named"):
        judge_all(tmp_path, judge_model=[])
    with pytest.raises(ConfigError, match="has gpt-4o twice"):
        judge_all(tmp_path, judge_model=["gpt-4o", "gpt-4o"])
    with pytest.raises(ConfigError, match="journal of one judge"):
        judge_all(tmp_path, resume=tmp_path / "x")
    assert service.requests == []


def test_a_list_of_one_judge_is_an_ordinary_run(service: Service, tmp_path: Path) -> None:
    run = judge_all(tmp_path, judge_model=["gpt-4o"])
    assert (run.others, run.judge_model) == ((), "gpt-4o")


def test_the_estimate_adds_the_judges_up() -> None:
    alone = [estimate_run(QUESTIONS, answers=STORED, judge_model=judge) for judge in JUDGES]
    together = estimate_run(QUESTIONS, answers=STORED, judge_model=JUDGES)
    assert together.calls == 12
    assert together.cost_usd == pytest.approx(sum(each.cost_usd or 0 for each in alone))
    with_answers = estimate_run(QUESTIONS, judge_model=JUDGES, assistant_model="gpt-4o-mini")
    assert with_answers.calls == 4 + 12
