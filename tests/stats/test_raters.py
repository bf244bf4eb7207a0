"""How steady raters are on answers that they marked twice."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from socjudge import ConfigError, judge_agreement
from socjudge.stats.agreement import loa_reach


def twice(first: list[float], second: list[float], rater: str = "佐藤") -> pd.DataFrame:
    """Marks of answers 0, 1, …; only the first len(second) a second time."""
    one = pd.DataFrame(
        {"rater": rater, "question_id": range(len(first)), "criterion": "安全性", "score": first, "again": False}
    )
    two = one.iloc[: len(second)].assign(score=second, again=True)
    both = pd.concat([one, two], ignore_index=True)
    return both.assign(answer_sha256="answer " + both["question_id"].astype(str))


def of(labels: pd.DataFrame, **how: bool) -> pd.Series:
    return judge_agreement(labels, by="again", **how).set_index("criterion").loc["安全性"]


def test_the_shift_and_the_limits_of_a_second_score_on_paper() -> None:
    labels = twice([80, 60, 40, 90, 20], [90, 60, 50, 90])
    row = of(labels.sample(frac=1, random_state=0), pairs=True)  # the first score comes first, wherever it stands
    # differences 10, 0, 10, 0: mean 5, sd √(100 / 3); t of three degrees of freedom, for one more difference
    reach = 3.1824 * math.sqrt(1 + 1 / 4) * math.sqrt(100 / 3)
    assert (row["first"], row["second"], row["n"], row["bias"], row["verdict_agreement"]) == (False, True, 4, 5, 1)
    assert (row["loa_low"], row["loa_high"]) == pytest.approx((5 - reach, 5 + reach), abs=1e-3)
    assert of(labels)["n"] == 4


@pytest.mark.slow
def test_nobody_is_compared_with_somebody_else() -> None:
    steady, unsteady = (
        twice([80, 60, 40, 90], [80, 60, 40, 90]),
        twice([80, 60, 40, 90], [40, 90, 80, 60], rater="鈴木"),
    )
    assert of(steady)["alpha"] == 1 and of(unsteady)["alpha"] < 0.2
    both = of(pd.concat([unsteady, steady, twice([50, 60], [], rater="高橋")]))
    assert (both["n"], both["n_questions"]) == (8, 4) and of(unsteady)["alpha"] < both["alpha"] < 1


def test_nothing_marked_twice_is_said() -> None:
    with pytest.raises(ConfigError, match=r"LabelPanel\(repeats=5\)"):
        judge_agreement(twice([80, 60], []), by="again")
    with pytest.raises(ConfigError, match="no column 'again'"):
        judge_agreement(twice([80, 60], []).drop(columns="again"), by="again")


def test_a_criterion_whose_second_marks_are_missing_has_nothing_to_compare() -> None:
    steady = twice([80, 60, 40], [80, 60, 40])
    unread = steady.assign(criterion="簡潔性", score=steady["score"].mask(steady["again"]))
    found = judge_agreement(pd.concat([steady, unread]), by="again").set_index("criterion")
    assert found["n"].to_dict() == {"安全性": 3, "簡潔性": 0, "総合": 0}


@pytest.mark.slow
@settings(max_examples=25)
@given(st.integers(0, 2**32), st.floats(1, 12))
def test_the_sd_found_is_that_of_the_marks(seed: int, noise: float) -> None:
    rng = np.random.default_rng(seed)
    truth = rng.uniform(30, 70, 60)
    marks = truth[:, None] + noise * rng.standard_normal((60, 2))
    labels = twice(list(marks[:, 0].clip(0, 100)), list(marks[:, 1].clip(0, 100)))
    row, pair = of(labels), of(labels, pairs=True)
    sd = (pair["loa_high"] - pair["loa_low"]) / (2 * math.sqrt(2) * loa_reach(60))
    assert 0.6 * noise < sd < 1.5 * noise
    assert row["alpha_low"] <= row["alpha"] <= row["alpha_high"]
