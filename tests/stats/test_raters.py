"""How steady raters are on answers that they marked twice."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from socjudge import ConfigError
from socjudge.stats import judge_vs_people, rater_consistency


def twice(first: list[float], second: list[float], rater: str = "佐藤") -> pd.DataFrame:
    """Marks of answers 0, 1, …; only the first len(second) a second time."""
    one = pd.DataFrame(
        {"rater": rater, "question_id": range(len(first)), "criterion": "安全性", "score": first, "again": False}
    )
    two = one.iloc[: len(second)].assign(score=second, again=True)
    both = pd.concat([one, two], ignore_index=True)
    return both.assign(answer_sha256="answer " + both["question_id"].astype(str))


def of(found: pd.DataFrame, rater: str = "佐藤") -> pd.Series:
    return found[(found["rater"] == rater) & (found["criterion"] == "安全性")].iloc[0]


@pytest.mark.usefixtures("in_japanese")
def test_the_sd_of_a_mark_and_the_shift_on_paper() -> None:
    row = of(rater_consistency(twice([80, 60, 40, 90, 20], [90, 60, 50, 90])))
    # differences 10, 0, 10, 0: mean 5, sd 5.77; of one mark 5.77 / √2 = 4.08
    assert (row.n, row["shift"]) == (4, 5)
    assert row.within_sd == pytest.approx(math.sqrt(100 / 3) / math.sqrt(2))
    assert row.verdict_agreement == 1
    assert "2回付けた回答が4件と少なく" in row.note


@pytest.mark.usefixtures("in_japanese")
def test_each_rater_is_measured_on_their_own_and_one_without_repeats_has_no_row() -> None:
    steady, unsteady = (
        twice([80, 60, 40, 90], [80, 60, 40, 90]),
        twice([80, 60, 40, 90], [40, 90, 80, 60], rater="鈴木"),
    )
    labels = pd.concat([unsteady, steady, twice([50, 60], [], rater="高橋")])
    found = rater_consistency(labels)
    assert set(found["rater"]) == {"佐藤", "鈴木"}
    assert of(found).within_sd == 0
    assert of(found, "鈴木").within_sd > 20
    assert of(found).alpha == 1
    assert of(found, "鈴木").alpha < 0.2
    judge = twice([80, 60, 40, 90], []).assign(judge_model="A")
    note = judge_vs_people(judge, labels)["note"].iloc[0]
    assert "人自身の採点の揺れ" in note
    assert "佐藤 ±0.0点（4件）" in note


def test_nothing_marked_twice_is_said() -> None:
    with pytest.raises(ConfigError, match=r"LabelPanel\(repeats=5\)"):
        rater_consistency(twice([80, 60], []))
    judge = twice([80, 60, 40], []).assign(judge_model="A")
    for labels in (twice([80, 60, 40], []), twice([80, 60, 40], []).drop(columns="again")):
        assert judge_vs_people(judge, labels)["note"].iloc[0] == "Questions: 3."


def test_a_criterion_whose_second_marks_are_missing_says_that_there_are_few() -> None:
    steady = twice([80, 60, 40], [80, 60, 40])
    unread = steady.assign(criterion="簡潔性", score=steady["score"].mask(steady["again"]))
    found = rater_consistency(pd.concat([steady, unread])).set_index("criterion")
    assert found.loc["簡潔性", ["n", "note"]].tolist() == [
        0,
        "Few answers were scored twice (0), so the intervals are wide.",
    ]


@pytest.mark.slow
@settings(max_examples=25)
@given(st.integers(0, 2**32), st.floats(1, 12))
def test_the_sd_found_is_that_of_the_marks(seed: int, noise: float) -> None:
    rng = np.random.default_rng(seed)
    truth = rng.uniform(30, 70, 60)
    marks = truth[:, None] + noise * rng.standard_normal((60, 2))
    row = of(rater_consistency(twice(list(marks[:, 0].clip(0, 100)), list(marks[:, 1].clip(0, 100)))))
    assert 0.6 * noise < row.within_sd < 1.5 * noise
    assert row.alpha_low <= row.alpha <= row.alpha_high
