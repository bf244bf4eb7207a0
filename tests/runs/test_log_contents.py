"""What a log must not leave open: one result per judgement, and a score for every criterion of its rubric."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.report_logs import bare_log, save_log
from support.service import CRITERIA

import socjudge as sj
from socjudge.base.verdict import run_verdict
from socjudge.errors import ConfigError
from socjudge.history import check_logs

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
