"""A part of a run has no verdict, wherever it comes from and whatever is made of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.run_options import with_options
from support.service import AfterCalls, Service
from test_only_failed import JUDGE, judged, torn

from socjudge import RunStopped, load_run, load_runs, rejudge, unfinished_runs
from socjudge.base.verdict import run_verdict
from socjudge.records import EvaluationRun
from socjudge.runs.logs import save_evaluation_results

__all__ = ["torn"]


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
