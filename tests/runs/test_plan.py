"""A run is planned before it starts, is known by its identity, and is finished when its log is whole."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from support.runs import with_options
from support.service import AfterCalls, Service, judgement

import socjudge as sj
from socjudge.base.conditions import CONDITIONS, conditions_of_info, differences
from socjudge.errors import RunNote
from socjudge.judge import save_evaluation_results
from socjudge.records import RunInfo
from socjudge.runs.identity import Identity
from socjudge.runs.log_json import checked_info, record_to_dict
from socjudge.runs.log_shape import fit

QUESTIONS = [sj.EvalQuestion(n, "正常系", f"質問{n}です", ("隔離",)) for n in range(1, 13)]
ANSWERS = [sj.AssistantAnswer(each.question, f"回答{each.id}です。", "文脈") for each in QUESTIONS]


@pytest.fixture
def asked(service: Service) -> Service:
    service.default = judgement(80)
    return service


def arguments(folder: Path, **how: Any) -> dict[str, Any]:
    how = {"answers": ANSWERS, "judge_model": "gpt-4o-mini", "logs_dir": folder / "logs", "max_concurrency": 1} | how
    return with_options(**how)


def evaluate(folder: Path, questions: list[sj.EvalQuestion] = QUESTIONS, **how: Any) -> sj.EvaluationRun:
    return sj.run_evaluation_suite(questions, progress=False, **arguments(folder, **how))


def broken_off(folder: Path, service: Service, calls: int = 8) -> Path:
    """The journal of a run that was stopped after so many calls."""
    with pytest.raises(sj.RunStopped):
        evaluate(folder, stop=AfterCalls(service.requests, calls))
    service.requests.clear()
    (journal,) = (folder / "logs").glob("*.partial.jsonl")
    return journal


def test_a_plan_says_what_is_left_and_asks_nothing(asked: Service, tmp_path: Path) -> None:
    plan = sj.plan_run(QUESTIONS, **arguments(tmp_path))
    assert (plan.total, plan.already, plan.left.calls, plan.note, plan.problem) == (12, 0, 12, "", "")
    broken_off(tmp_path, asked)
    left = sj.plan_run(QUESTIONS, **arguments(tmp_path))
    assert (left.total, left.already, left.left.calls) == (12, 8, 4)
    assert (left.left.cost_usd or 0) == pytest.approx((plan.left.cost_usd or 0) / 3, rel=1e-3)
    assert "8 of 12 judged" in repr(left) and "4 calls" in left._repr_html_()
    assert asked.requests == []
    run = left.run(progress=False)
    assert (len(run.results), len(asked.requests)) == (12, 4)


def test_a_plan_that_has_grown_since_it_was_shown_is_not_carried_out(asked: Service, tmp_path: Path) -> None:
    journal = broken_off(tmp_path, asked)
    plan = sj.plan_run(QUESTIONS, **arguments(tmp_path))
    journal.unlink()
    with pytest.raises(sj.ConfigError, match="the plan counted on 8 judged answers .*, and now 0 are there"):
        plan.run(progress=False)
    done = sj.plan_run(QUESTIONS, **arguments(tmp_path))
    assert done.run(progress=False).summary.total_questions == 12
    assert len(asked.requests) == 12


def test_a_log_of_what_there_is_does_not_finish_a_run(asked: Service, tmp_path: Path) -> None:
    journal = broken_off(tmp_path, asked)
    save_evaluation_results(sj.load_run(journal), tmp_path / "logs")
    run = evaluate(tmp_path)
    assert (len(run.results), len(asked.requests), run.run.sessions) == (12, 4, 2)


def test_a_run_that_was_killed_after_its_log_was_written_is_the_finished_one(asked: Service, tmp_path: Path) -> None:
    journal = broken_off(tmp_path, asked)
    shutil.copy(journal, tmp_path / "kept")
    run = evaluate(tmp_path)
    shutil.copy(tmp_path / "kept", journal)  # the process was killed before it could remove the journal
    asked.requests.clear()
    again = evaluate(tmp_path)
    assert (again, asked.requests) == (run, [])
    assert [path.name for path in (tmp_path / "logs").glob("judge_eval_*")] == [run.log_path and run.log_path.name]


def test_a_log_that_says_it_is_the_run_and_is_of_another_does_not_finish_it(asked: Service, tmp_path: Path) -> None:
    journal = broken_off(tmp_path, asked)
    other = evaluate(tmp_path / "other", judge_model="gpt-4o")
    run_id = sj.load_run(journal).run.run_id
    save_evaluation_results(replace(other, run=replace(other.run, run_id=run_id)), tmp_path / "logs")
    asked.requests.clear()
    assert (evaluate(tmp_path).run.judge_model, len(asked.requests)) == ("gpt-4o-mini", 4)


@pytest.mark.slow
def test_a_trial_costs_what_both_prompts_cost(asked: Service, tmp_path: Path) -> None:
    run = evaluate(tmp_path)
    text = sj.load_prompt("guide-1").text + "厳しく。"
    how: dict[str, Any] = {"logs_dir": tmp_path / "trials", "progress": False}
    one = sj.try_prompt(run, text, **how)  # the log has the scores of the base prompt
    two = sj.try_prompt(run, text, judge_model="gpt-4o", **how)
    assert one.cost_usd == one.after.cost_usd
    assert two.cost_usd == pytest.approx((two.before.cost_usd or 0) + (two.after.cost_usd or 0)) != two.after.cost_usd
    assert len(asked.requests) == 12 + 12 + 24


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "mark": lambda data: b"\xef\xbb\xbf" + data,
    "blank": lambda data: b"\n" + data,
    "letter": lambda data: data.replace(b'"journal"', b'"jurnal"', 1),
    "quote": lambda data: data.replace(b'"run"', b'"run', 1),
    "lost": lambda data: data.partition(b"\n")[2],
    "utf-16": lambda data: data.partition(b"\n")[0].decode().encode("utf-16") + b"\n" + data.partition(b"\n")[2],
    "nul": lambda data: b"\0" * 100 + data,
}


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_first_line_is_told_before_anything_is_paid_again(
    asked: Service, tmp_path: Path, damage: str
) -> None:
    journal = broken_off(tmp_path, asked)
    journal.write_bytes(DAMAGE[damage](journal.read_bytes()))
    plan = sj.plan_run(QUESTIONS, **arguments(tmp_path))
    assert str(journal) in plan.problem and "line 1 is damaged" in plan.problem
    with pytest.raises(sj.ConfigError, match=r"line 1 is damaged .*correct or remove the line, or start anew"):
        evaluate(tmp_path)
    assert asked.requests == []
    assert len(evaluate(tmp_path, fresh=True).results) == 12


def test_a_last_line_end_that_is_lost_costs_nothing(asked: Service, tmp_path: Path) -> None:
    journal = broken_off(tmp_path, asked)
    journal.write_bytes(journal.read_bytes().rstrip(b"\n"))
    run = evaluate(tmp_path)
    assert (len(run.results), len(asked.requests)) == (12, 4)


CHANGES: dict[str, tuple[Callable[[], dict[str, Any]], str]] = {
    "question": (lambda: {"questions": [replace(QUESTIONS[0], question="質問1です。"), *QUESTIONS[1:]]}, "questions"),
    "judge": (lambda: {"judge_model": "gpt-4o"}, "judge is gpt-4o-mini there and gpt-4o here"),
    "repeats": (lambda: {"judge_repeats": 2}, "judgements per answer is 1 there and 2 here"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_an_interrupted_run_that_nearly_fits_is_named_before_anything_is_paid(
    asked: Service, tmp_path: Path, change: str
) -> None:
    journal = broken_off(tmp_path, asked)
    make, named = CHANGES[change]
    how = {"questions": QUESTIONS} | make()
    plan = sj.plan_run(how["questions"], **arguments(tmp_path, **{key: how[key] for key in how if key != "questions"}))
    assert plan.already == 0 and "8 of 12 judged" in plan.note and named in plan.note and str(journal) in plan.note
    with pytest.warns(RunNote, match="is not resumed, because it differs"):
        evaluate(tmp_path, **how)


def test_a_run_that_has_nothing_in_common_is_not_named(asked: Service, tmp_path: Path) -> None:
    broken_off(tmp_path, asked)
    others = [sj.EvalQuestion(n, "正常系", f"別の質問{n}", ("遮断",)) for n in range(3)]
    answers = [sj.AssistantAnswer(each.question, "遮断します。", "ほか") for each in others]
    how = arguments(tmp_path, answers=answers, judge_model="gpt-4o", rubric=sj.Rubric(("安全性",)))
    assert sj.plan_run(others, **how).note == ""


DECIDING = [each for each in fields(RunInfo) if each.metadata.get("decides")]
SAID = [each for each in fields(RunInfo) if "condition" in each.metadata]
OTHER: dict[str, Any] = {
    "rubric": sj.Rubric(("安全性", "迅速性")),
    "runbooks": {"a.md": "0" * 64},
    "socjudge_version": "9.9.1",
}


def other_than(info: RunInfo, name: str) -> RunInfo:
    was = getattr(info, name)
    return replace(
        info, **{name: OTHER.get(name, 7 if isinstance(was, int | float) or was is None else f"{was}-other")}
    )


@pytest.mark.parametrize("name", [each.name for each in DECIDING])
def test_what_decides_a_score_is_in_header_log_and_identity(name: str) -> None:
    rule = {"pass_threshold": sj.Rubric().pass_threshold, "pass_rate_required": sj.Rubric().pass_rate}
    info = RunInfo("r", "2026-01-01T09:00:00+09:00", socjudge_version="1.0.0", **rule)
    other = other_than(info, name)
    assert Identity.of(other) != Identity.of(info)
    assert Identity.of(other).differences(Identity.of(info))
    kept = json.loads(json.dumps(record_to_dict(other)))  # the run block of a log, and the header of a journal
    assert Identity.of(checked_info(fit(kept, RunInfo, "x"), where="x")) == Identity.of(other)


@pytest.mark.parametrize("name", [each.name for each in SAID])
def test_a_condition_is_named_wherever_runs_are_compared(name: str) -> None:
    info = RunInfo("r", "2026-01-01T09:00:00+09:00", socjudge_version="1.0.0", runbooks={"b.md": "1" * 64})
    info = replace(info, judge_settings="a=1", assistant_settings="a=1", judge_service="s", assistant_service="s")
    other = other_than(info, name)
    sides = [conditions_of_info(each, each.rubric.criteria if each.rubric else ["安全性"]) for each in (info, other)]
    assert [each.condition.field for each in differences(*sides)] == [name]
    assert {each.field for each in CONDITIONS} == {each.name for each in SAID}
