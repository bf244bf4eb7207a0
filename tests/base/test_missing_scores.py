"""A mark that is missing: a verdict stands only where every value that it could have gives that verdict, in every view."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.runs import log_of, one_run

import socjudge as sj
from socjudge.base.pass_rule import PassRule, average, summarise_results
from socjudge.base.verdict import answer_verdict, run_verdict
from socjudge.cli.run import report_run
from socjudge.panels.views import results_html
from socjudge.records import Evaluation, EvaluationResult, EvaluationRun, Rubric
from socjudge.runs.logs import load_run, save_evaluation_results
from socjudge.stats.matrix import run_verdicts

pytestmark = pytest.mark.usefixtures("in_japanese")

NAMES = ("根拠性", "正確性", "安全性")
Row = tuple[int, Sequence[int | None] | None]  # question, its marks; None for a reply that was not read


def result(question: int, marks: Sequence[int | None] | None, line: float, repeat: int = 0) -> EvaluationResult:
    """A judged answer as the judge would have it."""
    template = one_run().results[0]
    scores = dict(zip(NAMES, marks if marks is not None else (0, 0, 0), strict=True))
    missing = {name: "no_measure" for name, score in scores.items() if score is None}
    worst = sum(score or 0 for score in scores.values()) / len(scores)
    evaluation = replace(
        template.evaluation, scores=scores, average_score=average(scores), missing=missing, model="gpt-4o-mini",
        rationale=dict.fromkeys(NAMES, ""), status="ok" if marks is not None else "unparsable",
        passed=marks is not None and worst >= line - 1e-9,
    )  # fmt: skip
    asked = replace(template.question, id=question)
    return replace(template, question=asked, evaluation=evaluation, judge_repeat=repeat)


def run_of(rows: Sequence[Row], rubric: Rubric, folder: Path | None = None) -> EvaluationRun:
    seen: dict[int, int] = {}
    results = []
    for question, marks in rows:
        results.append(result(question, marks, rubric.pass_threshold, seen.get(question, 0)))
        seen[question] = seen.get(question, 0) + 1
    info = replace(
        one_run().run, run_id="r", rubric=rubric, pass_threshold=rubric.pass_threshold, judge_model="gpt-4o-mini",
        pass_rate_required=rubric.pass_rate, judge_model_resolved="gpt-4o-mini", judge_repeats=max(seen.values()),
    )  # fmt: skip
    rule = PassRule(rubric.pass_threshold, rubric.pass_rate)
    run = EvaluationRun(tuple(results), summarise_results(results, rule), info)
    return run if folder is None else replace(run, log_path=save_evaluation_results(run, folder))


def by_hand(rows: Sequence[Row], line: float, rate: float) -> tuple[bool, int]:
    """The specification's rule over whole marks: whether the run passes, and how many questions."""
    points: dict[int, list[float]] = {}
    for question, marks in rows:
        points.setdefault(question, []).append(sum(marks or ()) / len(NAMES))  # type: ignore[arg-type]
    means = [sum(each) / len(each) for each in points.values()]
    passed = sum(mean >= line - 1e-9 for mean in means)
    return passed >= rate * len(means) - 1e-9 and sum(means) / len(means) >= line - 1e-9, passed


def fillings(rows: Sequence[Row], line: float) -> list[list[Row]]:
    """The rows with every missing mark, also those of unread replies, at each of some values: the ends and about the line."""
    grid = sorted({0, 100, 50, min(100, int(line) + 1), max(0, int(line) - 1), int(line)})
    open_ = [(i, j) for i, (_, marks) in enumerate(rows) for j in range(3) if marks is None or marks[j] is None]
    found = []
    for values in itertools.product(grid, repeat=len(open_)):
        whole = [[*(marks if marks is not None else (None,) * 3)] for _, marks in rows]
        for (i, j), value in zip(open_, values, strict=True):
            whole[i][j] = value
        found.append([(question, marks) for (question, _), marks in zip(rows, whole, strict=True)])
    return found


mark = st.one_of(st.none(), st.integers(0, 100))
whole_marks = st.tuples(*[st.integers(0, 100)] * 3)


@st.composite
def open_runs(draw: st.DrawFn) -> tuple[list[Row], Rubric]:
    """A run of a few questions in which up to four marks are missing, or a reply was not read."""
    line = draw(st.integers(30, 90))
    near = st.integers(max(0, line - 12), min(100, line + 12))
    rows: list[Row] = []
    for _ in range(draw(st.integers(1, 5))):
        rows.append((draw(st.integers(1, 3)), draw(st.one_of(whole_marks, st.tuples(near, near, near)))))
    for place in draw(st.lists(st.tuples(st.integers(0, len(rows) - 1), st.integers(0, 2)), max_size=3)):
        marks = list(rows[place[0]][1] or ())
        if sum(each is None for each in marks) < 2:
            marks[place[1]] = None
        rows[place[0]] = rows[place[0]][0], tuple(marks)
    if draw(st.integers(0, 4)) == 0 and sum(None in (marks or ()) for _, marks in rows) <= 1:
        rows[0] = rows[0][0], None
    return rows, Rubric(criteria=NAMES, pass_threshold=line, pass_rate=draw(st.sampled_from([0.5, 0.7, 1.0])))


@pytest.mark.slow
@given(case=open_runs())
@settings(max_examples=300, deadline=None)
def test_a_verdict_stands_only_where_every_value_of_the_missing_marks_gives_it(case: tuple[list[Row], Rubric]) -> None:
    rows, rubric = case
    line, rate = rubric.pass_threshold, rubric.pass_rate
    run = run_of(rows, rubric)
    truths = {by_hand(filled, line, rate) for filled in fillings(rows, line)}
    verdicts, counts = {passed for passed, _ in truths}, {count for _, count in truths}
    expected = "open" if len(verdicts) > 1 else "passed" if verdicts == {True} else "failed"
    assert run_verdict(run).outcome == expected
    assert run.summary.mvp_passed == (expected == "passed")
    assert (run.summary.passed_questions, run.summary.passed_questions + run.summary.n_open) == (
        min(counts),
        max(counts),
    )
    for each in run.results:
        marks = each.evaluation
        if marks.status != "ok":
            assert answer_verdict(marks, line).outcome == "unscored"
            continue
        one = [(1, tuple(marks.scores.values()))]
        sides = {by_hand(filled, line, 1.0)[1] for filled in fillings(one, line)}
        right = "open" if len(sides) > 1 else "passed" if sides == {1} else "failed"
        assert answer_verdict(marks, line).outcome == right
        assert marks.passed == (right == "passed")


@given(case=open_runs())
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.slow
def test_all_views_of_a_run_agree(
    case: tuple[list[Row], Rubric], tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    rows, rubric = case
    folder = tmp_path_factory.mktemp("run")
    run = run_of(rows, rubric, folder)
    outcome, headline = run_verdict(run).outcome, run_verdict(run).headline
    assert run.log_path is not None and load_run(run.log_path) == run
    results = sj.load_results(folder)
    gate = sj.stats.gate_confidence(results).iloc[0]
    assert gate["mvp_passed"] == (outcome == "passed")
    assert (
        gate["verdict"]
        in {"passed": ("合格", "判定保留"), "failed": ("不合格", "判定保留"), "open": ("判定保留",)}[outcome]
    )
    (row,) = sj.load_runs(folder).to_dict("records")
    assert (row["mvp_passed"], row["is_open"]) == (outcome == "passed", outcome == "open")
    if not any(each.answer_repeat or each.judge_repeat for each in run.results):  # the matrix counts questions
        assert run_verdicts(sj.load_scores(folder))["outcome"].tolist() == [outcome]
    for each, passed in zip(run.results, results["passed"], strict=True):
        told = answer_verdict(each.evaluation, rubric.pass_threshold).outcome
        assert (None if pd.isna(passed) else bool(passed)) == {"passed": True, "failed": False}.get(told)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("socjudge.report.page.run_charts", lambda *_: {})  # drawing them takes most of a report
        page = sj.write_report(folder / "page.html", run, lang="ja").read_text("utf-8")
    assert f"<h2>{headline}" in page and headline in run._repr_html_() and headline in results_html(run)
    assert report_run(run) == {"passed": 0, "failed": 1, "open": 3}[outcome]
    assert f"**{headline}**" in capsys.readouterr().out


def test_a_missing_mark_is_null_in_the_log_with_its_cause_and_missing_in_the_frames(tmp_path: Path) -> None:
    # 80 and 90 of three: 85 over those, 56.7 to 90 over all.
    run = run_of([(1, (80, 90, None))], Rubric(criteria=NAMES), tmp_path)
    assert run.log_path is not None
    (row,) = json.loads(run.log_path.read_text("utf-8"))["results"]
    marks = row["evaluation"]
    assert marks["scores"] == {"根拠性": 80, "正確性": 90, "安全性": None} and marks["missing"] == {
        "安全性": "no_measure"
    }
    assert (marks["status"], marks["average_score"], marks["passed"]) == ("ok", 85.0, False)
    (frame,) = sj.load_results(tmp_path).to_dict("records")
    assert [frame[name] for name in ("average_score", "average_low", "average_high")] == pytest.approx(
        [85, 170 / 3, 90]
    )
    assert pd.isna(frame["passed"])
    scores = sj.load_scores(tmp_path)
    assert scores["missing"].tolist() == ["", "", "no_measure"] and scores["score"].isna().tolist() == [
        False,
        False,
        True,
    ]
    assert run.wide_frame()["安全性"].isna().all() and run.summary.n_partial == 1


@pytest.mark.slow
def test_the_causes_of_missing_marks_and_of_how_many_the_mean_is_are_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = run_of([(1, (80, 90, None))], Rubric(criteria=NAMES), tmp_path)
    page = sj.write_report(tmp_path / "page.html", run, lang="ja").read_text("utf-8")
    report_run(run)
    printed = capsys.readouterr().out
    for view in (
        run.results[0]._repr_html_(),
        run.results[0].evaluation._repr_html_(),
        results_html(run),
        page,
        printed,
    ):
        assert "（2/3観点の平均）" in view
        assert "このJudgeには測る方法がありません" in view
    assert "this judge has no measure for it" in sj.write_report(tmp_path / "page.html", run, lang="en").read_text(
        "utf-8"
    )
    assert "判定保留" in page and "点の欠けた回答 1 件" in page


def test_a_null_without_a_cause_is_a_reply_that_could_not_be_read(tmp_path: Path) -> None:
    log = log_of(run_of([(1, (80, 90, None))], Rubric(criteria=NAMES)))
    log["results"][0]["evaluation"]["missing"] = {}
    path = tmp_path / "judge_eval_20260102_030405.json"
    path.write_text(json.dumps(log), "utf-8")
    assert load_run(path).results[0].evaluation.status == "unparsable"
    assert sj.load_results(tmp_path)["status"].tolist() == ["unparsable"]


@pytest.mark.few(2)
@pytest.mark.slow
@pytest.mark.parametrize(("marks", "warned"), [
    ((100, 100, 29), True), ((100, 29, 100), True), ((29, 100, 100), False), ((100, 100, 30), False), ((40, 40, 10), False),
])  # fmt: skip
def test_what_passes_by_its_mean_with_a_dangerous_mark_is_to_be_read_by_a_person_in_every_view(
    marks: tuple[int, ...], warned: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = run_of([(1, marks)], Rubric(criteria=NAMES), tmp_path)
    page = sj.write_report(tmp_path / "page.html", run, lang="ja").read_text("utf-8").partition("<script")[0]
    report_run(run)
    in_red = '<div class="to-read">⚠️ 人が読むこと'
    views: list[Any] = [run, run.results[0], run.results[0].evaluation]
    assert [in_red in view._repr_html_() for view in views] == [warned] * 3
    assert (in_red in results_html(run)) == ("人が読むこと" in capsys.readouterr().out) == warned
    assert ('class="to-read">⚠️ 人が読むこと' in page) == ('<small class="to-read">人が読むこと' in page) == warned
    assert run.summary.n_to_read == load_run(run.log_path or "").summary.n_to_read == warned


def test_without_the_criterion_in_the_rubric_nobody_is_told_to_read() -> None:
    marks: Evaluation = replace(one_run().results[0].evaluation, scores={"迅速性": 10, "根拠性": 100, "網羅性": 100})
    assert not answer_verdict(marks, 70.0).warning
