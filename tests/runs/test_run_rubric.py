"""A run carries its rubric: read once when it is called, kept in its log, and taken from there by whatever goes on from it."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.runs import with_options
from support.service import CRITERIA, Reply, Service, judgement

import socjudge as sj
from socjudge import constants
from socjudge.base.pass_rule import rule_of
from socjudge.errors import RunNote
from socjudge.prompts.templates import Prompt
from socjudge.records import RunOptions

QUESTIONS = [sj.EvalQuestion(i, "正常系", f"質問{i}", ("隔離",)) for i in range(4)]
ANSWERS = [sj.AssistantAnswer(q.question, f"回答{q.id}", context="抜粋") for q in QUESTIONS]
THREE = ("安全性", "正確性", "迅速性")
OWN = sj.Rubric(THREE, {"迅速性": "着手までの時間が示されているか"}, pass_threshold=80.0, pass_rate=0.5)
PROMPT = Prompt("three", "【評価観点】安全性、正確性、迅速性。{question}{answer}")


@pytest.fixture
def judge(service: Service) -> Service:
    service.default = lambda request: judgement(dict.fromkeys(THREE, 75))
    return service


def run(tmp_path: Path, **keywords: Any) -> sj.EvaluationRun:
    asked: dict[str, Any] = {"answers": ANSWERS, "rubric": OWN, "judge_prompt": PROMPT, "logs_dir": tmp_path / "logs"}
    return sj.run_evaluation_suite(
        QUESTIONS, judge_model="gpt-4o-mini", progress=False, **with_options(**asked | keywords)
    )


def confuse(patch: pytest.MonkeyPatch) -> None:
    """Set what the project may set to what fits nothing."""
    patch.setattr(constants, "JUDGE_EVALUATION_CRITERIA", ["でたらめ"])
    patch.setattr(constants, "JUDGE_PASS_THRESHOLD", 3.0)
    patch.setattr(constants, "JUDGE_PASS_RATE", 0.01)
    patch.setattr(constants, "QUESTION_CATEGORIES", ["でたらめ系"])


def test_what_is_set_while_a_run_is_under_way_does_not_touch_it(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.default = lambda request: judgement(75)
    done = sj.run_evaluation_suite(QUESTIONS, answers=ANSWERS, judge_model="gpt-4o-mini", progress=False, logs_dir=tmp_path, options=RunOptions(on_result=lambda _: confuse(monkeypatch), max_concurrency=1))  # fmt: skip
    assert done.rubric == sj.Rubric() and done.summary.mvp_passed
    assert [list(result.evaluation.scores) for result in done.results] == [CRITERIA] * 4
    assert done.log_path is not None and sj.load_run(done.log_path) == done


def test_the_log_holds_the_rubric_and_the_prompt_beside_the_keys_of_before(judge: Service, tmp_path: Path) -> None:
    done = run(tmp_path)
    assert done.log_path is not None
    block = json.loads(done.log_path.read_bytes())["run"]
    assert block["rubric"] == {
        "criteria": list(THREE), "descriptions": dict(OWN.descriptions), "pass_threshold": 80.0, "pass_rate": 0.5,
    }  # fmt: skip
    assert (block["pass_threshold"], block["pass_rate_required"]) == (80.0, 0.5)
    assert (block["judge_prompt_id"], block["judge_prompt_text"]) == ("three", PROMPT.text)
    assert sj.load_run(done.log_path).rubric == done.rubric == OWN
    assert not done.summary.mvp_passed  # 75 points


def test_one_answer_is_judged_by_the_rubric_that_is_given(judge: Service) -> None:
    marks = sj.evaluate_answer(QUESTIONS[0], ANSWERS[0], model="gpt-4o-mini", prompt=PROMPT, rubric=OWN)
    assert dict(marks.scores) == dict.fromkeys(THREE, 75) and not marks.passed


def test_an_older_log_tells_its_criteria_and_its_line_and_else_has_the_specifications(
    judge: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = run(tmp_path)
    assert done.log_path is not None
    confuse(monkeypatch)
    data = json.loads(done.log_path.read_bytes())
    del data["run"]["rubric"]
    done.log_path.write_text(json.dumps(data), encoding="utf-8")
    assert sj.load_run(done.log_path).rubric == replace(OWN, descriptions={})
    del data["run"]
    done.log_path.write_text(json.dumps(data), encoding="utf-8")
    assert sj.load_run(done.log_path).rubric == sj.Rubric(THREE)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"pass_threshold": 70.0}, "pass line or rate in rubric is not the one beside it"),
        ({"rubric": {"criteria": ["安全性", "安全性"]}}, "json: the criteria .*each once"),
        ({"rubric": {"criteria": "安全性"}}, r"rubric\.criteria .*Expected `array`"),
    ],
)
def test_a_log_whose_rubric_contradicts_itself_is_refused(
    judge: Service, tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    done = run(tmp_path)
    assert done.log_path is not None
    data = json.loads(done.log_path.read_bytes())
    data["run"] |= change
    done.log_path.write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(sj.ConfigError, match=said):
        sj.load_run(done.log_path)
    with pytest.warns(UserWarning, match="left out"):
        assert sj.load_runs(tmp_path / "logs").empty


def test_judging_again_takes_rubric_and_prompt_of_the_log(
    judge: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done = run(tmp_path)
    confuse(monkeypatch)
    capsys.readouterr()
    again = sj.rejudge(done, judge_model="gpt-4o", logs_dir=tmp_path / "again", progress=False)
    assert (again.rubric, again.run.judge_prompt_text) == (OWN, PROMPT.text)
    assert not again.summary.mvp_passed
    assert "other than" not in capsys.readouterr().err


@pytest.mark.usefixtures("in_japanese")
def test_judging_again_by_another_rubric_says_what_changes_before_the_first_call(
    judge: Service, tmp_path: Path
) -> None:
    done = run(tmp_path)
    judge.default = Reply(status=401)
    other = sj.Rubric(("安全性", "正確性"), pass_threshold=70.0, pass_rate=0.5)
    said = "元の評価とは基準が変わります: 観点: 削除 迅速性 / 合格ライン: 80→70"
    with pytest.warns(RunNote, match=said), pytest.raises(sj.ConfigError):
        sj.rejudge(done, judge_model="gpt-4o", rubric=other, logs_dir=tmp_path / "again", progress=False)


def test_what_failed_is_judged_again_with_rubric_and_prompt_of_the_log(
    judge: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusal = Reply(status=400, error={"message": "content policy", "code": "content_filter"})
    judge.default = lambda request: (
        refusal if "質問3" in request["messages"][0]["content"] else judgement(dict.fromkeys(THREE, 75))
    )
    done = run(tmp_path)
    assert [result.evaluation.status for result in done.results] == ["ok", "ok", "ok", "failed"]
    confuse(monkeypatch)
    judge.default = judgement(dict.fromkeys(THREE, 75))
    mended = sj.rejudge(done, only_failed=True, logs_dir=tmp_path / "mended", progress=False)
    assert mended.rubric == OWN
    assert [list(result.evaluation.scores) for result in mended.results] == [list(THREE)] * 4


@pytest.mark.usefixtures("judge")
def test_other_descriptions_make_another_run_and_another_line_does_not(tmp_path: Path) -> None:
    from socjudge.runs.identity import Identity
    from socjudge.runs.plan import plan_answers

    def key(rubric: sj.Rubric) -> Identity:
        return plan_answers(
            QUESTIONS, index=None, answers=ANSWERS, assistant_model="offline", judge_model="gpt-4o-mini",
            judge_prompt=PROMPT, assistant_prompt=None, rubric=rubric, answer_repeats=1, judge_repeats=1, k=5,
        ).identity  # fmt: skip

    assert key(replace(OWN, pass_threshold=1.0, pass_rate=1.0)) == key(OWN)
    assert key(replace(OWN, descriptions={})) != key(OWN)


# --- The rubric as a record: unfit ones are refused by name, before anything is paid


def test_a_rubric_without_arguments_is_the_specifications() -> None:
    rubric = sj.Rubric()
    assert (len(rubric.criteria), rubric.pass_threshold, rubric.pass_rate) == (6, 70.0, 0.7)
    assert [rule_of(rubric).needed(total) for total in (1, 10, 11)] == [1, 7, 8]


def test_a_rubric_travels_to_other_processes() -> None:
    rubric = sj.Rubric(criteria=("迅速性",), descriptions={"迅速性": "着手までの時間が示されているか"})
    assert pickle.loads(pickle.dumps(rubric)) == rubric


@pytest.mark.parametrize(
    ("unfit", "named"),
    [
        ({"criteria": []}, "list 1 to 50 names"),
        ({"criteria": [f"観点{number}" for number in range(51)]}, "list 1 to 50 names"),
        ({"criteria": ["安全性", ""]}, "''"),
        ({"criteria": ["安全性", "安全性 "]}, "'安全性 '"),
        ({"criteria": ["安全性", "正確性", "安全性"]}, "each once"),
        ({"criteria": ["総合"]}, "総合"),
        ({"descriptions": {"迅速性": "早いか"}}, "迅速性"),
        ({"descriptions": {"安全性": " "}}, "安全性"),
        ({"pass_threshold": 101}, "pass_threshold is 101"),
        ({"pass_rate": 70}, "pass_rate is 70"),
        ({"pass_rate": float("nan")}, "pass_rate is nan"),
        ({"pass_threshold": True}, "pass_threshold is True"),
    ],
)
def test_an_unfit_rubric_is_refused_by_name(unfit: dict, named: str) -> None:
    with pytest.raises(sj.ConfigError, match=named):
        sj.Rubric(**unfit)
