"""Logs on disk: a damaged one is refused with the place and the reason, and no content stops one being written."""

from __future__ import annotations

import copy
import errno
import json
import math
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.report_logs import bare_log, save_log
from support.runs import log_of, one_run
from support.service import CRITERIA, Service

import socjudge as sj
from socjudge import (
    AssistantAnswer,
    ConfigError,
    EvalQuestion,
    EvaluationRun,
    load_run,
    load_scores,
    rejudge,
    run_evaluation_suite,
    unfinished_runs,
)
from socjudge.base.files import as_path, write_new
from socjudge.base.pass_rule import summarise_results
from socjudge.base.verdict import run_verdict
from socjudge.history import check_logs
from socjudge.judge import save_evaluation_results
from socjudge.records import RunInfo
from socjudge.runs.log_json import run_from_dict


def log_with(place: str, value: Any) -> dict[str, Any]:
    """A sound log with one value changed; place: dotted, of the first result unless it starts with run or summary."""
    log = copy.deepcopy(log_of(one_run()))
    at: Any = log if place.split(".")[0] in ("results", "summary", "run") else log["results"][0]
    *path, last = place.split(".")
    for key in path:
        at = at[int(key) if isinstance(at, list) else key]
    at[last] = value
    return log


def load(folder: Path, content: Any) -> EvaluationRun:
    path = folder / "judge_eval_20260101_090000.json"
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content, ensure_ascii=False).encode())
    return load_run(path)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("question_id", [1]),
        ("question_id", True),
        ("category", 1),
        ("question", None),
        ("answer", None),
        ("answer", {"text": "a"}),
        ("context", ["a"]),
        ("expected_keypoints", "abc"),
        ("expected_keypoints", ["a", 1]),
        ("flags", "根拠不足"),
        ("flags.dangerous_operation", "いいえ"),
        ("flags.dangerous_operation", 0),
        ("answer_repeat", "0"),
        ("judge_repeat", 0.5),
        ("assistant", []),
        ("assistant.model", 4),
        ("assistant.passages", "text"),
        ("assistant.passages", [{"text": 1, "source": "s", "heading": "h"}]),
        ("assistant.passages", [{"text": "t", "source": "s"}]),
        ("assistant.usage.calls", "1"),
        ("evaluation", None),
        ("evaluation.scores", None),
        ("evaluation.scores", {}),
        ("evaluation.scores.安全性", 900),
        ("evaluation.scores.安全性", -1),
        ("evaluation.scores.安全性", True),
        ("evaluation.scores.安全性", "80"),
        ("evaluation.average_score", "x"),
        ("evaluation.average_score", 900),
        ("evaluation.status", "weird"),
        ("evaluation.status", []),
        ("evaluation.passed", "true"),
        ("evaluation.rationale", []),
        ("evaluation.rationale.安全性", 3),
        ("evaluation.overall_comment", None),
        ("evaluation.usage.cost_usd", "free"),
        ("summary.total_questions", "10"),
        ("summary.mvp_passed", "yes"),
        ("run.started_at", 20260101),
        ("run.k", "5"),
        ("run.judge_usage", []),
    ],
)
def test_a_wrong_value_names_the_file_the_place_and_what_was_expected(tmp_path: Path, place: str, value: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, log_with(place, value))
    message = str(caught.value)
    assert message.startswith(str(tmp_path / "judge_eval_20260101_090000.json: "))
    place = re.sub(r"(scores|rationale)\.安全性", r"\1[...]", place)  # msgspec does not say which key
    assert (place if place.startswith(("run", "summary")) else f"results[0].{place}") in message
    assert re.search("expected|missing required|invalid enum|has no score", message, re.IGNORECASE)
    assert "\n" not in message


def test_the_message_says_what_to_do_and_stays_short(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="correct it in the file") as caught:
        load(tmp_path, log_with("answer", ["長" * 10_000]))
    assert len(str(caught.value)) < 400


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-200, 200) | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
PLACES = [
    *log_of(one_run())["results"][0],
    *(f"evaluation.{name}" for name in log_of(one_run())["results"][0]["evaluation"]),
    *(f"assistant.{name}" for name in log_of(one_run())["results"][0]["assistant"]),
    *(f"run.{name}" for name in log_of(one_run())["run"]),
    "results", "summary", "run", "flags.ambiguous_query", "evaluation.scores.安全性", "assistant.usage.cost_usd",
]  # fmt: skip


@pytest.mark.slow
@given(st.sampled_from(PLACES), json_values)
def test_whatever_stands_in_a_place_the_log_loads_fully_or_is_refused(place: str, value: Any) -> None:
    try:
        run = run_from_dict(log_with(place, value), where="log.json")
    except ConfigError as error:
        assert str(error).startswith("log.json: ")
        return
    run.results_frame()
    run.scores_frame()
    summarise_results(run.results)
    _ = run.usage


# -- what is accepted


def test_a_rationale_that_is_null_loads_without_reasons(tmp_path: Path) -> None:
    evaluation = load(tmp_path, log_with("evaluation.rationale", None)).results[0].evaluation
    assert (evaluation.rationale, evaluation.status, evaluation.scores["安全性"]) == ({}, "ok", 80)


def test_a_rationale_that_is_one_text_is_kept_as_a_comment(tmp_path: Path) -> None:
    log = log_with("evaluation.rationale", "全体に良い")
    found = log["results"][0]["evaluation"]
    before = found["overall_comment"]
    evaluation = load(tmp_path, log).results[0].evaluation
    assert (evaluation.rationale, evaluation.overall_comment) == ({}, f"全体に良い\n{before}".strip())
    # Six zeros with a reason are marks, six zeros without one are the trace of a reply that could not be read.
    del found["status"]
    found |= {"scores": dict.fromkeys(found["scores"], 0), "average_score": 0.0}
    assert load(tmp_path, log).results[0].evaluation.status == "ok"
    found["rationale"] = " "
    assert load(tmp_path, log).results[0].evaluation.status == "suspect_zero"


@pytest.mark.parametrize(
    "place",
    ["expected_keypoints", "assistant.passages", "assistant.usage", "assistant", "flags", "evaluation.usage", "run"],
)
def test_null_for_what_may_be_absent_is_the_same_as_absent(tmp_path: Path, place: str) -> None:
    without = log_with(place, None)
    at = without if place == "run" else without["results"][0]
    *path, last = place.split(".")
    for key in path:
        at = at[key]
    loaded = load(tmp_path, without)
    del at[last]
    assert loaded == load(tmp_path, without)


def test_null_in_a_log_that_is_nested_deeply_is_read_or_refused(tmp_path: Path) -> None:
    log = log_with("assistant.passages", None)
    text = json.dumps(log, ensure_ascii=False)
    content = f'{text[:-1]}, "x": {"[" * 900}null{"]" * 900}}}'.encode()
    assert load(tmp_path, content).results[0].answer.passages == ()


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_byte_order_mark_is_accepted(tmp_path: Path, encoding: str) -> None:
    run = one_run()
    assert load(tmp_path, json.dumps(log_of(run), ensure_ascii=False).encode(encoding)) == run


@pytest.mark.parametrize("criteria", [["安全性", "正確性"], [*CRITERIA, "読みやすさ"], ["独自"]])
def test_the_criteria_of_a_log_may_be_others_than_todays(tmp_path: Path, criteria: list[str]) -> None:
    run = load(tmp_path, log_with("evaluation.scores", dict.fromkeys(criteria, 70)))
    assert list(run.results[0].evaluation.scores) == criteria
    assert list(run.scores_frame()["criterion"]) == criteria


def test_an_unscored_answer_needs_no_scores(tmp_path: Path) -> None:
    log = log_with("evaluation.scores", {})
    log["results"][0]["evaluation"]["status"] = "failed"
    assert load(tmp_path, log).results[0].evaluation.status == "failed"


def test_keys_of_a_newer_log_are_left_out(tmp_path: Path) -> None:
    assert load(tmp_path, log_with("evaluation.novelty", [1])) == one_run()


# -- a run without results


def test_a_run_without_results_loads_and_its_frames_are_empty_with_the_same_columns(tmp_path: Path) -> None:
    empty, full = load(tmp_path, log_with("results", [])), one_run()
    for nothing, frame in (
        (empty.results_frame(), full.results_frame()),
        (empty.scores_frame(), full.scores_frame()),
    ):
        assert len(nothing) == 0 and nothing.dtypes.map(str).equals(frame.dtypes.map(str))


def test_question_ids_that_are_text_stay_text(tmp_path: Path) -> None:
    assert list(load(tmp_path, log_with("question_id", "Q1")).results_frame()["question_id"]) == ["Q1"]


# -- no content stops a run from being written


def test_lone_surrogates_are_written_as_replacement_characters(tmp_path: Path) -> None:
    run = one_run(raw_text="前\ud83d後", rationale={"安全性\udc00": "\ud83d"}, error="対 \ud83d\ude00")
    evaluation = load_run(save_evaluation_results(run, tmp_path)).results[0].evaluation
    assert evaluation.raw_text == "前\ufffd後"
    assert evaluation.rationale == {"安全性\ufffd": "\ufffd"}
    assert evaluation.error == "対 😀"
    assert evaluation.scores == run.results[0].evaluation.scores


@pytest.mark.slow
@given(st.text(st.characters(), max_size=20))
def test_any_text_can_be_written_and_read(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    run = one_run(raw_text=text)
    path = save_evaluation_results(run, tmp_path_factory.mktemp("logs"))
    assert len(load_run(path).results) == 1


def test_what_json_cannot_hold_is_written_all_the_same(tmp_path: Path) -> None:
    run = one_run()
    question = replace(run.results[0].question, id=2**70)
    answer = replace(run.results[0].answer, context=Path("a\udcff.md"))  # type: ignore[arg-type]
    run = replace(run, results=(replace(run.results[0], question=question, answer=answer),))
    loaded = load_run(save_evaluation_results(run, tmp_path)).results[0]
    assert (loaded.question.id, loaded.answer.context) == (str(2**70), "a\ufffd.md")


def test_a_start_time_that_is_no_time_does_not_lose_the_run(tmp_path: Path) -> None:
    run = replace(one_run(), run=RunInfo("r", "yesterday"))
    assert load_run(save_evaluation_results(run, tmp_path)) == run


@pytest.mark.parametrize("refusal", [errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS])
def test_a_drive_without_hard_links_takes_logs_and_prompts_and_overwrites_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusal: int
) -> None:
    def refuse(*arguments: Any) -> None:
        raise OSError(refusal, os.strerror(refusal))

    monkeypatch.setattr(os, "link", refuse)
    monkeypatch.setattr(os, "chmod", refuse)
    paths = [save_evaluation_results(one_run(), tmp_path / "logs") for _ in range(2)]
    assert [path.name for path in paths] == ["judge_eval_20260102_030405.json", "judge_eval_20260102_030406.json"]
    assert sorted((tmp_path / "logs").iterdir()) == paths  # nothing unfinished is left
    assert [load_run(path) for path in paths] == [one_run()] * 2
    names = iter(["taken", "free"])
    (tmp_path / "taken").write_text("mine", encoding="utf-8")
    assert write_new(tmp_path, names, [b"new"]).name == "free"
    assert (tmp_path / "taken").read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", ["scores", "average_score", "processing_time"])
def test_a_number_that_is_not_finite_is_written_and_read(tmp_path: Path, number: float, place: str) -> None:
    scores = dict.fromkeys(CRITERIA, 80)
    run = one_run(**{place: {**scores, "安全性": number} if place == "scores" else number})
    evaluation = load_run(save_evaluation_results(run, tmp_path)).results[0].evaluation
    if place == "processing_time":
        assert evaluation.status == "ok"
        assert math.isnan(evaluation.processing_time)
    else:  # the mark is gone, and counts as not read
        assert (evaluation.status, evaluation.average_score, evaluation.passed) == ("unparsable", 0.0, False)
        assert evaluation.error


def test_nan_and_lone_surrogates_of_another_tool_are_read(tmp_path: Path) -> None:
    log = log_with("evaluation.processing_time", math.nan)
    log["results"][0]["answer"] = "前\ud83d後"
    run = load(tmp_path, json.dumps(log).encode())  # NaN and an escape, neither of which is strict JSON
    assert run.results[0].answer.answer == "前\ufffd後"
    assert math.isnan(run.results[0].evaluation.processing_time)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe\x00", b"[" * 100_000, b'{"results": \x80}'])
def test_a_file_that_is_no_json_is_said_to_be_none(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(ConfigError, match="judge_eval_20260101_090000.json: not valid JSON"):
        load(tmp_path, content)


@pytest.mark.parametrize(
    "place",
    [
        "s3://bucket/logs",
        Path("s3://bucket/logs"),
        "gs://bucket",
        "file:///logs",
        "https://user:hunter2@logs.invalid/team?key=hunter2",
    ],
)
def test_a_url_is_refused_before_the_first_call_with_what_to_do_instead(
    place: Path | str, service: Service, questions: list[EvalQuestion]
) -> None:
    answers = [AssistantAnswer(question.question, "端末を隔離します。") for question in questions]
    how: dict[str, Any] = {"judge_model": "gpt-4o-mini", "logs_dir": place, "progress": False}
    for use in (
        lambda: save_evaluation_results(one_run(), place),
        lambda: run_evaluation_suite(questions, answers=answers, **how),
        lambda: rejudge(one_run(), **how),
        lambda: load_run(f"{place}/judge_eval_20260101_000000.json"),
        lambda: load_scores(place),
        lambda: unfinished_runs(place),
        lambda: sj.history.find_logs(place),
        lambda: sj.history.check_logs(place),
    ):
        with pytest.raises(ConfigError, match=r"^\w+://…: .*mount or synchronise the bucket as a folder") as caught:
            use()
        assert "hunter2" not in str(caught.value)
    assert service.requests == []


@pytest.mark.parametrize(
    "place", ["logs", "/var/logs", r"C:\logs", "C:/logs", "C://logs", "a b:c", "2026-01-01T00:00:00", ".", Path("logs")]
)
def test_what_is_no_url_is_a_folder(place: Path | str) -> None:
    assert as_path(place) == Path(place)


# --- What a log must not leave open: one result per judgement, and a score for every criterion of its rubric

Log = dict[str, Any]


def of_a_run(log: Log, criteria: list[str] = CRITERIA) -> Log:
    """The log with a block `run` that has a rubric of these criteria."""
    rule = {"pass_threshold": 70.0, "pass_rate": 0.7}
    info = {"run_id": "r", "started_at": "2026-01-01T09:00:00+09:00", "pass_threshold": 70.0, "pass_rate_required": 0.7}
    return log | {"run": info | {"rubric": {"criteria": criteria, **rule}}}


def joined(log: Log) -> Log:
    """The log of two teams, whose questions have the same ids."""
    return log | {"results": log["results"] + bare_log([80.0], "別の質問")["results"]}


def as_text(log: Log) -> Log:
    other = dict(log["results"][0], question_id="1", question="別の質問")
    return log | {"results": [*log["results"], other]}


@pytest.mark.parametrize("twice", [joined, as_text, lambda log: of_a_run(joined(log))])
def test_two_results_of_one_judgement_are_refused_by_every_reader(twice: Callable[[Log], Log], tmp_path: Path) -> None:
    folder = save_log(tmp_path, twice(bare_log([80.0, 80.0, 20.0])))
    (path,) = folder.glob("*.json")
    with pytest.raises(ConfigError, match=r"question 1 has several results.*id of its own"):
        sj.load_run(path)
    with pytest.warns(UserWarning, match="1 of 1 logs are left out"):
        assert sj.load_runs(folder).empty
    assert "several results" in check_logs(folder)["what"].iloc[0]


def test_repeats_of_an_answer_and_of_a_judgement_are_no_doubles(tmp_path: Path) -> None:
    log = bare_log([80.0])
    log["results"] = [log["results"][0] | {"answer_repeat": a, "judge_repeat": j} for a in (0, 1) for j in (0, 1)]
    folder = save_log(tmp_path, log)
    assert len(sj.load_results(folder)) == 4 == len(sj.load_run(next(folder.glob("*.json"))).results)


def test_a_run_with_two_results_of_one_judgement_is_neither_judged_again_nor_saved(tmp_path: Path) -> None:
    run = sj.load_run(next(save_log(tmp_path, bare_log([80.0])).glob("*.json")))
    twice = sj.EvaluationRun([*run.results, *run.results], run.summary, run.info)
    with pytest.raises(ConfigError, match="several results"):
        sj.rejudge(twice, judge_model="offline", logs_dir=tmp_path, progress=False)
    with pytest.raises(ConfigError, match="several results"):
        sj.judge.save_evaluation_results(twice, tmp_path)


def without(log: Log, criterion: str, rows: slice = slice(None)) -> Log:
    for row in log["results"][rows]:
        for name in ("scores", "rationale"):
            del row["evaluation"][name][criterion]
    return log


@pytest.mark.parametrize("rows", [slice(None), slice(1)])
@pytest.mark.parametrize("run", [True, False])
def test_a_criterion_without_a_key_is_a_missing_score_as_null_is(tmp_path: Path, rows: slice, run: bool) -> None:
    log = without(bare_log([80.0] * 3), "安全性", rows)
    folder = save_log(tmp_path, of_a_run(log) if run else log)
    (path,) = folder.glob("*.json")
    loaded = sj.load_run(path)
    assert loaded.results[0].evaluation.scores["安全性"] is None
    assert loaded.summary.n_partial == len(log["results"][rows])
    assert run_verdict(loaded).outcome == "open"
    results, scores = sj.load_results(folder), sj.load_scores(folder)
    assert scores[scores["criterion"] == "安全性"]["score"].isna().tolist()[: len(log["results"][rows])]
    assert results["average_low"].iloc[0] == pytest.approx(5 * 80 / 6)
    assert check_logs(folder)["problem"].tolist() == ["criterion missing"]


def test_a_log_of_other_criteria_than_the_specifications_is_whole(tmp_path: Path) -> None:
    log = bare_log([80.0])
    log["results"][0]["evaluation"]["scores"] = {"正確性": 80, "平易さ": 80}
    folder = save_log(tmp_path, log)
    assert sj.load_run(next(folder.glob("*.json"))).summary.n_partial == 0
    named = save_log(tmp_path / "b", of_a_run(json.loads(json.dumps(log)), ["正確性", "平易さ"]))
    assert sj.load_scores(named)["criterion"].unique().tolist() == ["正確性", "平易さ"]
