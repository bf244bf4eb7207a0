"""The frame of questions × runs: signs, verdicts, and what stands above a column."""

from __future__ import annotations

import pandas as pd
import pytest
from support.score_frames import judged

from socjudge.stats.matrix import question_matrix, run_names, run_verdicts


@pytest.fixture
def scores() -> pd.DataFrame:
    """Run a: 80, then five scores of 80 with one missing, then a reply that was not read. Run b: 60 for question 1."""
    return pd.concat(
        [
            judged("a", 1, 80), judged("a", 2, [80, 80, 80, 80, 80, None]), judged("a", 3, None),
            judged("b", 1, 60, prompt_id="strict-1"),
        ]
    )  # fmt: skip


def test_a_cell_has_the_mean_and_what_the_missing_scores_leave_open(scores: pd.DataFrame) -> None:
    cells = question_matrix(scores).set_index(["run_id", "question_id"])
    assert cells["sign"].to_dict() == {
        ("run-a", 1): "○", ("run-a", 2): "△", ("run-a", 3): "–", ("run-b", 1): "×",
    }  # fmt: skip
    second = cells.loc[("run-a", 2)]
    # 5 × 80 of six criteria, with 0 and with 100 for the missing one.
    assert (second["mean"], second["low"], second["high"]) == (80, pytest.approx(400 / 6), pytest.approx(500 / 6))
    assert cells["missing"].tolist() == [0, 1, 6, 0]
    assert pd.isna(cells.loc[("run-a", 3), "mean"])


def test_another_line_moves_verdicts_and_leaves_open_what_is_open(scores: pd.DataFrame) -> None:
    own, lower, higher = (run_verdicts(scores, line=line) for line in (None, 60, 84))
    assert own["line"].tolist() == [70, 70] and lower["line"].tolist() == [60, 60]
    assert own["outcome"].tolist() == ["open", "failed"]
    assert (own.loc["run-a", "passed"], own.loc["run-a", "undecided"], own.loc["run-a", "questions"]) == (1, 2, 3)
    # At 60, 66.7 is enough: two of three pass, and the third, which was not read, decides.
    assert lower["outcome"].tolist() == ["open", "passed"]
    assert (lower.loc["run-a", "passed"], lower.loc["run-a", "undecided"]) == (2, 1)
    assert higher["outcome"].tolist() == ["failed", "failed"]  # at most 83.3, and 80: one of three at best


def test_a_part_of_a_run_and_one_of_several_judges_are_undecided_at_any_line() -> None:
    whole = judged("a", 1, 90)
    assert run_verdicts(whole.assign(asked=1))["outcome"].tolist() == ["passed"]
    for part in (whole.assign(asked=2), whole.assign(judges_asked=2)):
        assert run_verdicts(part, line=0)["outcome"].tolist() == ["open"]


def test_a_column_says_what_tells_its_run_apart(scores: pd.DataFrame) -> None:
    assert run_names(scores) == {"run-a": "a / guide-1", "run-b": "b / strict-1"}
    assert run_names(judged("a", 1, 80)) == {"run-a": "a"}
    assert run_names(pd.concat([judged("a", 1, 80), judged("a", 1, 80, run_id="x").assign(k=5)])) == {
        "run-a": "a", "x": "a / k\u00a05",
    }  # fmt: skip
