"""Runs as frames and charts: missing stays missing, the order is the specification's, Japanese renders."""

from __future__ import annotations

import warnings
from pathlib import Path

import matplotlib as mpl
import pytest
from service import CRITERIA, Reply, Service, judgement

from socjudge import (
    AssistantAnswer,
    EvalQuestion,
    constants,
    plot_category_breakdown,
    run_evaluation_suite,
    run_results,
    run_scores,
)

mpl.use("agg")


def test_an_unscored_answer_is_missing_in_the_frames_and_counted_nowhere(
    service: Service, questions: list[EvalQuestion], tmp_path: Path
) -> None:
    answers = [AssistantAnswer(q.question, "回答") for q in questions]
    service.script = [Reply("読めない返事")] * 3
    run = run_evaluation_suite(
        questions, answers=answers, judge_model="gpt-4o-mini", max_concurrency=1, logs_dir=tmp_path, progress=False
    )
    results, scores = run_results(run), run_scores(run)
    assert list(results["status"]) == ["unparsable"] + ["ok"] * 9
    assert results["average_score"].isna().tolist() == [True] + [False] * 9
    assert results["average_score"].mean() == 80
    assert len(scores) == 60
    assert scores["score"].count() == 54
    assert list(scores["criterion"].cat.categories) == constants.JUDGE_EVALUATION_CRITERIA
    assert list(results["category"].cat.categories) == constants.QUESTION_CATEGORIES


def test_the_breakdown_shows_means_and_n_in_japanese_that_renders(
    service: Service, questions: list[EvalQuestion], tmp_path: Path
) -> None:
    answers = [AssistantAnswer(q.question, "回答") for q in questions]
    service.script = [Reply(judgement(dict(zip(CRITERIA, [0, 20, 40, 60, 80, 100], strict=True))))]
    run = run_evaluation_suite(
        questions, answers=answers, judge_model="gpt-4o-mini", logs_dir=tmp_path, progress=False, max_concurrency=1
    )
    before = dict(mpl.rcParams)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a missing glyph is a warning
        ax = plot_category_breakdown(run_scores(run))
        ax.figure.savefig(tmp_path / "chart.png")
    assert dict(mpl.rcParams) == before
    cells = [text.get_text() for text in ax.texts]
    assert cells[:2] == ["60\nn=4", "65\nn=4"]  # (0 + 80 + 80 + 80) / 4 and (20 + 240) / 4
    assert [label.get_text() for label in ax.get_xticklabels()] == CRITERIA


def test_a_run_without_any_score_cannot_be_charted(service: Service, tmp_path: Path) -> None:
    service.default = "読めない返事"
    question = EvalQuestion(1, "正常系", "q", ("k",))
    run = run_evaluation_suite(
        [question], answers=[AssistantAnswer("q", "a")], judge_model="gpt-4o-mini", logs_dir=tmp_path, progress=False
    )
    with pytest.raises(ValueError, match="no row has a score"):
        plot_category_breakdown(run_scores(run))
