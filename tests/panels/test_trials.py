"""Trials of edited prompts on stored answers, against a service whose marks depend on the prompt."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from conftest import ANSWER
from support.runs import copy_log, log_run
from support.service import CRITERIA, KEY, Reply, Service, error, is_judge_call, judgement

from socjudge import ConfigError, RunOptions, constants, load_run, load_runs, run_evaluation_suite, save_prompt
from socjudge.judge import save_evaluation_results
from socjudge.panels.state.trials import TrialSession
from socjudge.runbooks.index import RunbookIndex

STRICT = "\n厳しく採点してください。"


def marks(request: dict[str, Any]) -> Reply | str:
    """80 points; under the strict prompt 62 for 安全性, and for one question 60 for all."""
    if not is_judge_call(request):
        return ANSWER + (" 短く。" if "短く" in request["messages"][0]["content"] else "")
    content = request["messages"][0]["content"]
    if STRICT.strip() not in content:
        return judgement(80, reason="元の理由")
    if "質問: なんか変" in content:
        return judgement(60, reason="新しい理由")
    return judgement({**dict.fromkeys(CRITERIA, 80), "安全性": 62}, reason="新しい理由")


@pytest.fixture
def marking(service: Service) -> Service:
    service.default = marks
    return service


@pytest.fixture(scope="module")
def made(index: RunbookIndex, tmp_path_factory: pytest.TempPathFactory) -> Path:
    models = {"assistant_model": "gpt-4o-mini", "judge_model": "gpt-4o-mini"}
    return log_run(tmp_path_factory.mktemp("made"), index, marks, **models, k=2)


@pytest.fixture
def logs(made: Path, marking: Service, tmp_path: Path) -> Path:
    """A folder with the log of a run by a hosted assistant and judge."""
    return copy_log(made, tmp_path / "logs", marking)


@pytest.fixture
def session(logs: Path, index: RunbookIndex) -> Iterator[TrialSession]:
    session = TrialSession(logs_dir=logs, index_dir=index.index_dir)
    yield session
    session.stop()
    session.wait(30)


def tried(session: TrialSession, **how: Any) -> TrialSession:
    session.start(session.plan(), **how)
    session.wait(60)
    return session


def calls_left(session: TrialSession) -> int:
    return sum(side.left.calls for side in session.plan().sides)


def judged(session: TrialSession) -> tuple[int, int]:
    """How many answers an interrupted trial has judged, and of how many."""
    sides = session.plan().sides
    return sum(side.already for side in sides), sum(side.total for side in sides)


def differences(session: TrialSession) -> dict[str, float]:
    assert session.effect is not None, session.problem
    frame = session.effect.comparison.differences
    return dict(zip(frame["criterion"], frame["mean_difference"].round(2), strict=True))


@pytest.mark.slow
def test_a_trial_of_a_judge_prompt_costs_judge_calls_only(session: TrialSession, marking: Service) -> None:
    assert session.choice.judge_model == "gpt-4o-mini"  # as in the run
    session.choose(text=session.choice.text + STRICT)
    work = session.plan()
    assert (work.sides[-1].total, sum(side.left.calls for side in work.sides), work.base_calls, work.is_unread) == (
        10,
        10,
        0,
        False,
    )
    tried(session, note="厳しく")
    assert session.state == "finished"
    assert len(marking.requests) == marking.judge_calls == sum(side.left.calls for side in work.sides)
    # Nine questions lose 18 points in 安全性, one 20 in each criterion: (9 x 18 + 20) / 10 and 20 / 10; overall
    # (9 x 18 / 6 + 20) / 10.
    assert differences(session) == {
        "総合": -4.7, "根拠性": -2.0, "正確性": -2.0, "網羅性": -2.0, "安全性": -18.2, "引用明示": -2.0, "簡潔性": -2.0,
    }  # fmt: skip
    assert session.effect is not None
    changes = session.effect.comparison.questions
    (flip,) = changes[changes["direction"] == "合格→不合格"].to_dict("records")
    assert (flip["before"], flip["after"]) == (80, 60)
    first = session.effect.questions[0]
    assert (first.direction, first.after[0].question.id) == ("合格→不合格", flip["question_id"])
    assert first.before[0].evaluation.rationale["安全性"] == "元の理由"
    assert first.after[0].evaluation.rationale["安全性"] == "新しい理由"


@pytest.mark.slow
def test_trials_are_not_part_of_the_history(session: TrialSession, logs: Path) -> None:
    session.choose(text=session.choice.text + STRICT)
    tried(session)
    assert len(load_runs(logs)) == 1
    (log,) = (logs / "trials").glob("judge_eval_*.json")
    run = load_run(log)
    assert run == session.run
    assert run.run.rejudged_from == load_run(logs / session.choice.log).run.run_id
    assert run.run.judge_prompt_id.startswith("guide-1+")


@pytest.mark.slow
def test_another_judge_judges_the_base_prompt_too_but_only_once(session: TrialSession, marking: Service) -> None:
    session.choose(judge_model="gpt-4o", text=session.choice.text + STRICT)
    work = session.plan()
    assert (sum(side.left.calls for side in work.sides), work.base_calls) == (20, 10)
    tried(session)
    assert marking.judge_calls == len(marking.requests) == 20
    assert {request["model"] for request in marking.requests} == {"gpt-4o"}
    assert differences(session)["総合"] == -4.7
    session.choose(text=session.choice.text + "もっと。")
    assert session.plan().base_calls == 0
    tried(session)
    assert marking.judge_calls == 30


@pytest.mark.slow
def test_a_text_that_is_not_changed_shows_how_much_the_judge_wavers(session: TrialSession, marking: Service) -> None:
    session.choose(judge_model="gpt-4o")
    calls = iter(range(100))
    marking.default = lambda request: judgement(80 + 5 * (next(calls) >= 10))
    tried(session)
    assert marking.judge_calls == 20
    assert differences(session)["総合"] == 5


@pytest.mark.slow
def test_a_base_prompt_that_is_not_the_runs_is_judged_too(
    session: TrialSession, marking: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "PROMPTS_DIR", tmp_path / "prompts")
    save_prompt(session.choice.text + STRICT, name="strict", parent="guide-1")
    session.choose(base="strict")
    assert session.choice.text.endswith(STRICT)
    session.choose(text=session.choice.text.replace(STRICT, ""))
    assert session.plan().base_calls == 10
    tried(session)
    assert differences(session)["総合"] == 4.7


@pytest.mark.slow
def test_an_earlier_trial_is_shown_again_after_the_kernel_was_restarted(session: TrialSession) -> None:
    session.choose(text=session.choice.text + STRICT)
    tried(session)
    fresh = TrialSession(logs_dir=session.logs_dir, index_dir=session.index_dir)
    fresh.reopen(fresh.trials[0])
    assert fresh.effect is not None and session.effect is not None
    assert fresh.effect.comparison.differences.equals(session.effect.comparison.differences)


@pytest.mark.slow
def test_repeats_of_the_stored_run_are_averaged_first(
    marking: Service, index: RunbookIndex, questions: list[Any], tmp_path: Path
) -> None:
    counts = iter(range(100))
    marking.default = lambda request: judgement(70 + 20 * (next(counts) % 2)) if is_judge_call(request) else ANSWER
    run_evaluation_suite(questions[:2], index=index, assistant_model="gpt-4o-mini", judge_model="gpt-4o-mini", answer_repeats=2, judge_repeats=2, logs_dir=tmp_path, progress=False, options=RunOptions(max_concurrency=1))  # fmt: skip
    marking.default, marking.requests = marks, []
    session = TrialSession(logs_dir=tmp_path, index_dir=index.index_dir)
    session.choose(text=session.choice.text + STRICT)
    assert calls_left(session) == 4  # two answers to each of two questions
    tried(session)
    assert marking.judge_calls == 4
    assert differences(session)["根拠性"] == 0  # 70 and 90 became 80
    assert session.effect is not None
    assert (session.effect.comparison.differences["n"] == 2).all()
    assert [(len(both.before), len(both.after)) for both in session.effect.questions] == [(4, 2), (4, 2)]


@pytest.mark.slow
def test_answers_that_were_never_given_cost_nothing(session: TrialSession, marking: Service, logs: Path) -> None:
    run = load_run(logs / session.choice.log)
    silent = replace(run.results[0], answer=replace(run.results[0].answer, answer=" "))
    (logs / session.choice.log).unlink()
    save_evaluation_results(replace(run, results=[silent, *run.results[1:]]), logs)
    session.choose(text=session.choice.text + STRICT)
    assert calls_left(session) == 9
    tried(session)
    assert marking.judge_calls == 9


@pytest.mark.slow
def test_an_assistants_prompt_has_the_questions_answered_anew(session: TrialSession, marking: Service) -> None:
    session.choose(kind="assistant")
    assert session.choice.base == "assistant-3"
    session.choose(text=session.choice.text + "\n短く答えてください。")
    work = session.plan()
    assert (sum(side.left.calls for side in work.sides), work.base_calls) == (20, 0)
    tried(session)
    assert (marking.judge_calls, len(marking.requests)) == (10, 20)
    assert session.effect is not None
    assert not session.effect.same_answers
    assert (session.effect.comparison.differences["n"] == 10).all()
    assert differences(session)["総合"] == 0
    both = session.effect.questions[0]
    assert not both.before[0].answer.answer.endswith("短く。")
    assert both.after[0].answer.answer.endswith("短く。")
    assert load_run(session.trials_dir / session.trials[0].after).run.assistant_prompt_id.startswith("assistant-3+")


@pytest.mark.slow
def test_an_assistant_that_is_not_the_runs_answers_with_the_base_prompt_too(
    session: TrialSession, marking: Service
) -> None:
    session.choose(kind="assistant", assistant_model="gpt-4o")
    session.choose(text=session.choice.text + "\n短く答えてください。")
    work = session.plan()
    assert (sum(side.left.calls for side in work.sides), work.base_calls) == (40, 20)
    # Of the run's assistant, the answers are there and only another judge has to see them.
    session.choose(assistant_model="gpt-4o-mini", judge_model="gpt-4o")
    assert (calls_left(session), session.plan().base_calls) == (30, 10)
    tried(session)
    assert (marking.judge_calls, len(marking.requests)) == (20, 30)


@pytest.mark.slow
def test_the_embedded_judge_is_said_not_to_read_the_prompt(session: TrialSession, marking: Service) -> None:
    session.choose(judge_model="offline")
    assert session.plan().is_unread
    assert calls_left(session) == 0
    session.choose(kind="assistant", judge_model="gpt-4o-mini")
    assert not session.plan().is_unread
    session.choose(assistant_model="offline")
    assert session.plan().is_unread
    assert marking.requests == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("{answer}", "{foo}"), r"lacks \{answer\}; has unknown \{foo\}"),
        (("安全性", "安心"), "does not ask for 安全性"),
    ],
)
def test_what_a_text_lacks_is_named_before_it_is_tried(
    session: TrialSession, marking: Service, change: tuple[str, str], message: str
) -> None:
    session.choose(text=session.choice.text.replace(*change))
    with pytest.raises(ConfigError, match=message):
        session.checked()
    with pytest.raises(ConfigError, match=message):
        session.plan()
    assert marking.requests == []
    assert session.trials == []


@pytest.mark.slow
def test_a_trial_that_is_stopped_is_taken_up_again(session: TrialSession, marking: Service) -> None:
    asked, stopped = threading.Event(), threading.Event()

    def held(request: dict[str, Any]) -> Reply | str:
        asked.set()
        stopped.wait(20)  # all of the first eight, so that two are never asked
        return marks(request)

    marking.default = held
    session.choose(text=session.choice.text + STRICT)
    session.start(session.plan(), note="途中")
    assert asked.wait(20)
    session.choose(text="busy")  # nothing changes meanwhile
    session.stop()
    stopped.set()
    session.wait(30)
    assert session.state == "stopped"
    assert session.trials[0].after == ""
    done = marking.judge_calls
    assert judged(session) == (done, 10)
    # Also after the kernel was restarted.
    fresh = TrialSession(logs_dir=session.logs_dir, index_dir=session.index_dir)
    fresh.reopen(fresh.trials[0])
    assert fresh.choice.text.endswith(STRICT)
    assert judged(fresh)[0] == done
    tried(fresh)
    assert marking.judge_calls == 10
    assert fresh.progress.done == fresh.progress.total == 10
    assert [(trial.note, bool(trial.after)) for trial in fresh.trials] == [("途中", True)]
    assert judged(fresh)[0] == 0


@pytest.mark.slow
def test_a_budget_holds_for_both_prompts_together(session: TrialSession, marking: Service) -> None:
    session.choose(judge_model="gpt-4o", text=session.choice.text + STRICT)
    # The base prompt's ten cost $0.045, and up to $0.07 is set aside for a call: enough for either prompt, not for both.
    tried(session, max_cost_usd=0.12)
    assert session.state == "stopped"
    assert "budget" in session.problem
    assert 10 < marking.judge_calls < 20


@pytest.mark.slow
def test_a_budget_counts_what_the_base_prompt_cost_in_an_earlier_start(session: TrialSession, marking: Service) -> None:
    session.choose(judge_model="gpt-4o", text=session.choice.text + STRICT)
    tried(session, max_cost_usd=0.12)
    judged = marking.judge_calls
    again = TrialSession(logs_dir=session.logs_dir, index_dir=session.index_dir)  # the kernel was restarted
    again.reopen(again.trials[0])
    assert again.plan().base_calls == 0  # judged and paid for
    tried(again, max_cost_usd=0.12)
    assert again.state == "stopped"
    assert marking.judge_calls - judged <= 1  # what is left may be enough for a short answer, never for all eight
    tried(again, max_cost_usd=0.5)
    assert again.state == "finished"
    assert marking.judge_calls == 20
    assert len(list(again.trials_dir.glob("judge_eval_*.json"))) == 2


@pytest.mark.slow
def test_a_base_prompt_of_unknown_cost_counts_at_the_most_that_it_can_cost(
    session: TrialSession, marking: Service
) -> None:
    def without_usage(request: dict[str, Any]) -> Reply:
        message = {"role": "assistant", "content": marks(request)}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        number = str(len(marking.requests))  # of one id and one text, a second reply is doubted and asked for again
        body = {"id": number, "object": "chat.completion", "created": 0, "model": "gpt-4o", "choices": [choice]}
        return Reply(body=json.dumps(body))

    marking.default = without_usage
    session.choose(judge_model="gpt-4o", text=session.choice.text + STRICT)
    tried(
        session, max_cost_usd=0.8
    )  # a call can cost $0.05 to $0.07: 4,000 tokens out, and a byte of the prompt a token
    assert session.state == "stopped"
    assert "the budget of $0.8" in session.problem
    assert 10 <= marking.judge_calls <= 16
    tried(session)
    assert session.state == "finished"
    assert marking.judge_calls == 20


@pytest.mark.slow
def test_what_the_stored_answers_cost_is_no_cost_of_the_trial(session: TrialSession) -> None:
    session.choose(text=session.choice.text + STRICT)
    tried(session)
    assert session.run is not None
    assert session.progress.cost_usd == pytest.approx(session.run.usage.cost_usd)


@pytest.mark.slow
def test_a_refused_key_is_said_without_the_key(session: TrialSession, marking: Service) -> None:
    marking.default = error(401, f"Incorrect API key provided: {KEY}")
    session.choose(text=session.choice.text + STRICT)
    tried(session)
    assert session.state == "failed"
    assert "OPENAI_API_KEY" in session.problem
    assert KEY not in session.problem


@pytest.mark.slow
def test_an_edited_text_that_was_not_tried_is_not_replaced_by_an_earlier_trial(session: TrialSession) -> None:
    base = session.choice.text
    session.choose(text=base + "A")
    tried(session)
    session.choose(text=base + "B")
    with pytest.raises(ConfigError, match="edited and not tried"):
        session.reopen(session.trials[0])
    assert session.choice.text == base + "B"
    session.choose(text=base)
    session.reopen(session.trials[0])
    assert session.choice.text == base + "A"


@pytest.mark.slow
def test_an_earlier_trial_brings_its_text_and_its_result_back(session: TrialSession, marking: Service) -> None:
    base = session.choice.text
    for addition in (STRICT, "何も変わらない。"):
        session.choose(text=base + addition)
        tried(session, note=addition.strip())
    assert differences(session)["総合"] == 0
    calls = marking.judge_calls
    for reopened in (session, TrialSession(logs_dir=session.logs_dir, index_dir=session.index_dir)):
        reopened.reopen(reopened.trials[0])
        assert reopened.choice.text == base + STRICT
        assert differences(reopened)["総合"] == -4.7
        assert reopened.trials[0].difference == pytest.approx(-4.7)
    assert marking.judge_calls == calls


@pytest.mark.slow
def test_a_trial_whose_log_is_gone_is_said(session: TrialSession) -> None:
    session.choose(text=session.choice.text + STRICT)
    tried(session)
    shutil.rmtree(session.trials_dir)
    with pytest.raises(ConfigError, match="cannot be read"):
        session.reopen(session.trials[0])
    assert session.effect is None


@pytest.mark.slow
def test_a_list_of_trials_cannot_lead_out_of_its_folders(session: TrialSession, logs: Path) -> None:
    session.choose(text=session.choice.text + STRICT)
    tried(session)
    path = session.trials_dir / "trials.jsonl"
    line = orjson.loads(path.read_bytes().splitlines()[-1])
    bad = [
        {**line, "after": "../judge_eval_1.json"},
        {**line, "before": "/etc/judge_eval_passwd.json"},
        {**line, "choice": {**line["choice"], "log": "x/judge_eval_1.json"}},
        {**line, "choice": {**line["choice"], "base": "../../secret.txt"}},
        {**line, "choice": {**line["choice"], "text": 5}},
        {"id": "x"},
        [],
    ]
    with path.open("ab") as file:
        file.write(b"\n".join(orjson.dumps(each) for each in bad) + b'\n{"id": "cut')
    with pytest.warns(UserWarning) as warned:
        fresh = TrialSession(logs_dir=logs, index_dir=session.index_dir)
    assert len(warned) == 8
    assert fresh.trials == session.trials
    tried(fresh)  # is added on a line of its own
    with pytest.warns(UserWarning):
        assert len(TrialSession(logs_dir=logs, index_dir=session.index_dir).trials) == 2


@pytest.mark.slow
def test_a_text_is_saved_under_a_name(session: TrialSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "PROMPTS_DIR", tmp_path / "prompts")
    session.choose(text=session.choice.text + STRICT)
    path = session.save("strict-2", note="厳しく")
    assert path == tmp_path / "prompts" / "strict-2.txt"
    assert "parent: guide-1\n" in path.read_text("utf-8")
    with pytest.raises(ConfigError, match="choose another name"):
        session.save("guide-1")


def test_a_folder_without_logs_says_what_to_do(tmp_path: Path) -> None:
    session = TrialSession(logs_dir=tmp_path / "nowhere", index_dir=tmp_path)
    with pytest.raises(ConfigError, match="run an evaluation first"):
        session.plan()


def test_the_session_over_the_same_folders_is_the_same(tmp_path: Path) -> None:
    def over(logs: Path) -> TrialSession:
        return TrialSession.over(logs_dir=logs, index_dir=tmp_path)

    assert over(tmp_path) is over(tmp_path / "." / "x" / "..")
    assert over(tmp_path) is not over(tmp_path / "other")
