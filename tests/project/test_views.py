"""Runs of projects with different rubrics, in one folder: every view of each gives that run's own verdict, whatever is set today."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pytest
from conftest import confuse_settings
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.runs import one_run

import socjudge as sj
from socjudge.base.pass_rule import rule_of, summarise_results
from socjudge.base.verdict import run_verdict
from socjudge.cli.run import report_run
from socjudge.panels.views import results_html, runs_html
from socjudge.records import EvaluationResult
from socjudge.stats.matrix import run_verdicts

pytestmark = pytest.mark.usefixtures("in_japanese")
NAMES = ["根拠性", "正確性", "迅速性", "平易さ", "安全性"]
CATEGORIES = ["連絡系", "正常系", "夜間系"]


@st.composite
def rubrics(draw: st.DrawFn) -> sj.Rubric:
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True))
    own = {name: f"{name}を見る" for name in names if draw(st.booleans())}
    return sj.Rubric(tuple(names), own, draw(st.integers(30, 95)), draw(st.sampled_from([0.1, 0.5, 0.7, 1.0])))


@st.composite
def runs(draw: st.DrawFn, number: int) -> sj.EvaluationRun:
    """A run of one to five questions, its marks about its line."""
    rubric = draw(rubrics())
    near = st.integers(max(0, int(rubric.pass_threshold) - 8), min(100, int(rubric.pass_threshold) + 8))
    rows = draw(
        st.lists(st.lists(near, min_size=len(rubric.criteria), max_size=len(rubric.criteria)), min_size=1, max_size=5)
    )
    template, results = one_run(), list[EvaluationResult]()
    for question, marks in enumerate(rows, start=1):
        mean = sum(marks) / len(marks)
        evaluation = replace(
            template.results[0].evaluation, scores=dict(zip(rubric.criteria, marks, strict=True)), average_score=mean,
            rationale={}, passed=mean >= rubric.pass_threshold - 1e-9, model="gpt-4o",
        )  # fmt: skip
        asked = replace(template.results[0].question, id=question, category=draw(st.sampled_from(CATEGORIES)))
        results.append(replace(template.results[0], question=asked, evaluation=evaluation))
    info = replace(
        template.run, run_id=f"run{number}", started_at=f"2026-01-0{number + 1}T09:00:00+09:00", judge_model="gpt-4o",
        judge_model_resolved="gpt-4o", rubric=rubric, pass_threshold=rubric.pass_threshold,
        pass_rate_required=rubric.pass_rate,
    )  # fmt: skip
    return sj.EvaluationRun(tuple(results), summarise_results(results, rule_of(rubric)), info)


def own_verdict(run: sj.EvaluationRun) -> tuple[list[bool], bool]:
    """By hand, from the marks and the rubric: which questions pass, and whether the run does."""
    rubric = run.rubric
    means = [sum(r.evaluation.scores.values()) / len(rubric.criteria) for r in run.results]
    passed = [mean >= rubric.pass_threshold - 1e-9 for mean in means]
    enough = sum(passed) >= rubric.pass_rate * len(passed) - 1e-9
    return passed, enough and sum(means) / len(means) >= rubric.pass_threshold - 1e-9


@pytest.mark.slow
@given(made=st.tuples(runs(0), runs(1), runs(2)))
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_every_view_of_a_run_goes_by_its_own_rubric(
    made: Sequence[sj.EvaluationRun], tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path_factory.mktemp("logs")
    with pytest.MonkeyPatch.context() as patch:
        confuse_settings(patch)
        loaded = [sj.load_run(sj.judge.save_evaluation_results(run, folder)) for run in made]
        assert [run.rubric for run in loaded] == [run.rubric for run in made]
        runs, results, scores = sj.load_runs(folder), sj.load_results(folder), sj.load_scores(folder)
        expected = [own_verdict(run) for run in made]
        totals = [passed for _, passed in expected]
        assert runs["mvp_passed"].tolist() == totals
        assert runs["pass_threshold"].tolist() == [run.rubric.pass_threshold for run in made]
        assert results["passed"].tolist() == [each for passed, _ in expected for each in passed]
        assert sj.stats.gate_confidence(results)["mvp_passed"].tolist() == totals
        assert [*scores["criterion"].cat.categories][: len(made[-1].rubric.criteria)] == [*made[-1].rubric.criteria]
        assert run_verdicts(scores)["passed"].tolist() == [sum(passed) for passed, _ in expected]
        _seen_in_the_table(runs_html(runs, scores, 101), made)
        _seen_in_the_strip(scores, expected)
        for run, (passed, total) in zip(loaded, expected, strict=True):
            _seen_in(run, folder, passed, total, capsys)


def _seen_in_the_table(markup: str, made: Sequence[sj.EvaluationRun]) -> None:
    for run in made:
        assert f'<td class="number">{run.rubric.pass_threshold:g}</td>' in markup
    assert markup.count("✅ 合格") == sum(own_verdict(run)[1] for run in made)


def _seen_in_the_strip(scores: Any, expected: Sequence[tuple[list[bool], bool]]) -> None:
    ax = sj.plot_question_strip(scores)
    cells = {tuple(map(round, text.get_position())): text.get_text()[0] for text in ax.texts}
    plt.close("all")
    # A row for each question, in the order of the categories: the rows of a run are counted.
    for column, (passed, _) in enumerate(expected):
        signs = [sign for (x, _), sign in cells.items() if x == column]
        assert (signs.count("○"), signs.count("×")) == (sum(passed), len(passed) - sum(passed))


def _seen_in(
    run: sj.EvaluationRun, folder: Path, passed: list[bool], total: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    rubric, headline = run.rubric, "✅ MVP合格" if total else "❌ MVP不合格"
    assert run_verdict(run).headline == headline
    text = sj.summary_text(run)
    assert f"**{headline}**" in text and f"平均{rubric.pass_threshold:g}点以上" in text
    assert (
        f"{len(passed)}問中{rule_of(rubric).needed(len(passed))}問以上" in text
        and f"合格問題数: {sum(passed)}問" in text
    )
    wide = run.wide_frame()
    assert [name for name in wide.columns if name in NAMES] == [*rubric.criteria]
    assert (wide["average_score"] >= rubric.pass_threshold - 1e-9).tolist() == passed
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("socjudge.report.page.run_charts", lambda *_: {})  # drawing them takes most of a report
        page = sj.write_report(folder / f"{run.run.run_id}.html", run, lang="ja").read_text("utf-8")
    for view in (page, run._repr_html_(), results_html(run)):
        assert headline in view and ("❌ MVP不合格" if total else "✅ MVP合格") not in view
    assert sj.stats.gate_confidence(run.results_frame())["needed"].tolist() == [rule_of(rubric).needed(len(passed))]
    assert report_run(run) == (0 if total else 1)
    assert f"**{headline}**" in capsys.readouterr().out
