"""Variance components against published tables and closed forms, and the plan that follows from them."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from score_frames import framed, judged, judges_frame, one_criterion, six_judges
from test_agreement import SHROUT

from socjudge import ConfigError
from socjudge.stats import judge_noise, plan_repeats
from socjudge.stats.basics import OVERALL
from socjudge.stats.noise import variance_components

# Calcium in turnip greens: four plants, three leaves each, two determinations. Snedecor and Cochran (1967), 10.16.
TURNIPS = [
    [[3.28, 3.09], [3.52, 3.48], [2.88, 2.80]],
    [[2.46, 2.44], [1.87, 1.92], [2.19, 2.19]],
    [[2.77, 2.66], [3.74, 3.44], [2.55, 2.55]],
    [[3.78, 3.87], [4.07, 4.12], [3.31, 3.31]],
]


def components(frame: pd.DataFrame, criterion: str = OVERALL) -> pd.DataFrame:
    return frame[frame["criterion"] == criterion].set_index("component")


def nested(marks: list[list[list[float]]], judge: str = "j") -> pd.DataFrame:
    """marks[question][answer][judge repeat]."""
    return framed(
        *(
            judged(judge, q, mark, answer=str(a), answer_repeat=a, judge_repeat=r)
            for q, answers in enumerate(marks)
            for a, repeats in enumerate(answers)
            for r, mark in enumerate(repeats)
        )
    )


def test_the_turnip_greens_of_snedecor_and_cochran() -> None:
    # Published: plants 0.3652, leaves 0.1610, determinations 0.00665.
    found = components(judge_noise(nested(TURNIPS)))
    assert found.loc["question", "variance"] == pytest.approx(0.3652, abs=5e-5)
    assert found.loc["answer", "variance"] == pytest.approx(0.1611, abs=1e-4)
    assert found.loc["judge_repeat", "variance"] == pytest.approx(0.00665, abs=1e-5)
    assert found["share"].sum() == pytest.approx(1)
    assert found.loc["question", "sd"] == pytest.approx(math.sqrt(found.loc["question", "variance"]))
    assert found.loc[["question", "answer", "judge_repeat"], "n"].tolist() == [4, 12, 24]
    for name in ("judge", "question:judge", "answer:judge"):
        assert math.isnan(found.loc[name, "variance"])


@pytest.mark.usefixtures("in_japanese")
def test_crossed_judges_give_the_mean_squares_of_shrout_and_fleiss() -> None:
    # Their mean squares: targets 11.24, judges 32.49, residual 1.02; six targets, four judges.
    scores = judges_frame(**{name: column.tolist() for name, column in zip("abcd", np.array(SHROUT).T, strict=True)})
    found = components(judge_noise(scores))
    assert found.loc["question", "variance"] == pytest.approx((11.24 - 1.02) / 4, abs=5e-3)
    assert found.loc["judge", "variance"] == pytest.approx((32.49 - 1.02) / 6, abs=5e-3)
    # One judgement each: that they differ on a question cannot be told from a judge's own scatter.
    assert found.loc["question:judge", "variance"] == pytest.approx(1.02, abs=5e-3)
    assert "judge_repeat の分も含みます" in found.loc["question:judge", "note"]
    assert found.loc["judge_repeat", "note"].endswith("judge_repeats=2 以上で測れます。")


def test_unbalanced_groups_follow_the_closed_form() -> None:
    groups = [[10.0, 12, 11], [20, 22], [15], [8, 9, 7, 10]]
    level = np.repeat(range(4), [len(group) for group in groups])
    found = variance_components(np.concatenate(groups), {"group": level})["variance"]
    # One-way ANOVA: within Σ (n - 1) s², between Σ n (mean - grand mean)², n0 = (N - Σ n² / N) / (groups - 1).
    sizes, n = np.array([3, 2, 1, 4]), 10
    grand = np.concatenate(groups).mean()
    within = sum(np.var(group) * len(group) for group in groups) / (n - 4)
    between = sum(len(group) * (np.mean(group) - grand) ** 2 for group in groups) / 3
    n0 = (n - (sizes**2).sum() / n) / 3
    assert found["residual"] == pytest.approx(within)
    assert found["group"] == pytest.approx((between - within) / n0)


def test_intervals_of_balanced_data_are_those_of_their_sums_of_squares() -> None:
    rng = np.random.default_rng(0)
    y = rng.normal(0, 2, (12, 1)) + rng.normal(0, 3, (12, 4))
    found = variance_components(y.ravel(), {"group": np.repeat(range(12), 4)})
    means = y.mean(axis=1)
    between, within = 4 * ((means - y.mean()) ** 2).sum(), ((y.T - means) ** 2).sum()
    # The residual's is exact: sum of squares over chi-squared of 36 degrees of freedom.
    exact = within / scipy.stats.chi2.ppf([0.975, 0.025], 36)
    assert found.loc["residual", ["low", "high"]].tolist() == pytest.approx(exact.tolist(), rel=0.05)
    # Weerahandi (1993): the group's are quantiles of (between / chi2(11) - within / chi2(36)) / 4.
    draws = (between / rng.chisquare(11, 400_000) - within / rng.chisquare(36, 400_000)) / 4
    expected = np.quantile(draws.clip(min=0), [0.025, 0.975])
    assert found.loc["group", ["low", "high"]].tolist() == pytest.approx(expected.tolist(), rel=0.07, abs=0.1)


@pytest.mark.usefixtures("in_japanese")
def test_two_judges_say_hardly_anything_of_judges_in_general() -> None:
    found = components(judge_noise(judges_frame(a=[70, 52, 90, 61, 77], b=[60, 44, 79, 50, 68]))).loc["judge"]
    # One degree of freedom: 97.5 % of chi-squared lies above 0.00098, so the sd may be 1 / √0.00098 = 32 times as large.
    assert found["sd_high"] / found["sd"] == pytest.approx(32, rel=0.25)
    assert "水準が2つしかなく" in found["note"]


def test_components_repeat_with_their_seed_and_what_never_varies_has_no_interval() -> None:
    y, level = np.random.default_rng(1).normal(60, 10, 24), {"question": np.repeat(range(6), 4)}
    pd.testing.assert_frame_equal(variance_components(y, level, seed=3), variance_components(y, level, seed=3))
    assert not variance_components(y, level, seed=3).equals(variance_components(y, level, seed=4))
    flat = variance_components(np.full(24, 80.0), level)
    assert flat["variance"].tolist() == [0, 0] and flat[["low", "high"]].isna().all(axis=None)


def test_an_interval_holds_its_estimate_and_is_not_below_zero() -> None:
    found = judge_noise(nested(TURNIPS)).dropna(subset=["sd_low"])
    assert len(found) > 20
    assert (found["sd_low"] >= 0).all()
    assert (found["sd"] <= found["sd_high"]).all() and (found["sd_low"] <= found["sd"]).all()


@pytest.mark.usefixtures("in_japanese")
def test_an_answer_given_once_leaves_the_judges_repeats_apart_from_the_question() -> None:
    found = components(judge_noise(nested([[[70, 80]], [[50, 60]], [[90, 100]]])))
    # Repeats differ by 10: variance 50. Means 75, 55, 95: variance 400, less 50 / 2.
    assert found.loc["judge_repeat", "variance"] == pytest.approx(50)
    assert found.loc["question", "variance"] == pytest.approx(375)
    assert "answer_repeats=2 以上で測れます" in found.loc["answer", "note"]


@pytest.mark.usefixtures("in_japanese")
def test_an_answer_judged_once_carries_the_judges_noise() -> None:
    found = components(judge_noise(nested([[[70], [80]], [[50], [60]], [[90], [100]]])))
    assert found.loc["answer", "variance"] == pytest.approx(50)
    assert "judge_repeat の分も含みます" in found.loc["answer", "note"]
    assert math.isnan(found.loc["judge_repeat", "variance"])


@pytest.mark.usefixtures("in_japanese")
def test_a_negative_estimate_is_zero_and_says_so() -> None:
    found = components(judge_noise(nested([[[60, 90]], [[95, 65]], [[70, 70]]])))
    assert found.loc["question", "variance"] == 0
    assert "推定値は0です" in found.loc["question", "note"]
    assert found.loc["question", "sd_high"] > 0


def test_criteria_are_a_component_of_their_own() -> None:
    # Three questions with marks 60 … 85 on the criteria, 10 apart as questions: no interaction.
    scores = judges_frame(j=[[base + step for step in (0, 5, 10, 15, 20, 25)] for base in (40, 50, 60)])
    found = judge_noise(scores)
    assert components(found).loc["criterion", "variance"] == pytest.approx(np.var([0, 5, 10, 15, 20, 25], ddof=1))
    assert components(found).loc["question:criterion", "variance"] == pytest.approx(0)
    assert components(found, "正確性").loc["question", "variance"] == pytest.approx(100)


def test_unread_marks_are_left_out_and_counted() -> None:
    scores = nested([[[70, 80]], [[50, 60]], [[90, 100]]])
    scores.loc[scores.index[:6], "score"] = pd.NA
    found = judge_noise(scores)
    assert components(found)["n_missing"].unique().tolist() == [6]
    assert components(found, "正確性")["n_missing"].unique().tolist() == [1]
    assert components(found).loc["judge_repeat", "variance"] == pytest.approx(50)  # of the two other questions
    with pytest.raises(ConfigError, match="no row has a score"):
        judge_noise(judges_frame(j=[None, None]))


def test_a_judgement_counts_in_the_mean_with_all_criteria_or_not_at_all() -> None:
    scores = nested([[[70, 80]], [[50, 60]], [[90, 100]]])
    scores.loc[scores.index[0], "score"] = pd.NA  # one criterion of the first judgement
    found = components(judge_noise(scores))
    assert found.loc["judge_repeat", "n"] == 5
    assert found.loc["judge_repeat", "variance"] == pytest.approx(50)  # 80 alone, and the two pairs that differ by 10


def test_real_judges_differ_as_their_mean_squares_say() -> None:
    marks = six_judges().dropna()
    x = marks.drop(columns="item").to_numpy()
    found = components(judge_noise(one_criterion(marks)))
    rows, columns = x.mean(axis=1, keepdims=True), x.mean(axis=0, keepdims=True)
    residual = ((x - rows - columns + x.mean()) ** 2).sum() / (116 * 5)
    assert found.loc["question:judge", "variance"] == pytest.approx(residual)
    assert found.loc["judge", "variance"] == pytest.approx(np.var(columns, ddof=1) - residual / 117)
    # statsmodels 0.15, MixedLM(...).fit(reml=True), which for complete data is the same thing by another way.
    expected = [732.7464, 97.0515, 329.8349]  # as near as its optimiser goes
    assert found.loc[["question", "judge", "question:judge"], "variance"].tolist() == pytest.approx(expected, rel=2e-4)


@settings(max_examples=10)
@given(st.integers(0, 10_000), st.floats(-40, 40))
def test_components_do_not_depend_on_order_or_the_zero_of_the_scale(seed: int, shift: float) -> None:
    rng = np.random.default_rng(seed)
    y, level, other = rng.normal(60, 10, 24), np.repeat(range(6), 4), np.tile(range(4), 6)
    found = variance_components(y, {"a": level, "b": other})["variance"]
    order = rng.permutation(24)
    moved = variance_components(y[order] + shift, {"a": level[order], "b": other[order]})["variance"]
    assert moved.to_numpy() == pytest.approx(found.to_numpy(), abs=1e-6)


# The plan


def plan(scores: pd.DataFrame, target: float, **options: bool) -> pd.DataFrame:
    return plan_repeats(scores, target_se=target, **options).set_index("option")  # type: ignore[arg-type]


@pytest.mark.usefixtures("in_japanese")
def test_the_standard_error_of_today_on_paper() -> None:
    # question 375, judge_repeat 50 (see above); 3 questions, 1 answer, 2 judgements: 375 / 3 + 50 / 6.
    scores = nested([[[70, 80]], [[50, 60]], [[90, 100]]])
    found = plan(scores, 5)
    assert found.loc["now", "se"] == pytest.approx(math.sqrt(375 / 3 + 50 / 6))
    assert found.loc["now", "n_questions":"calls"].tolist() == [3, 1, 2, 1, 9]  # type: ignore[misc]
    # (375 + 25) / n <= 25: sixteen questions, each with one answer and two judgements.
    assert found.loc["questions", ["n_questions", "calls", "se"]].tolist() == pytest.approx([16, 48, 5])
    # However often it is judged, √(375 / 3) = 11.18 stay.
    assert found.loc["judge_repeats", "se"] == pytest.approx(math.sqrt(125))
    assert found["reaches_target"].tolist() == [False, True, False, False, False, True]
    assert "答" in found.loc["answer_repeats", "note"] and math.isnan(found.loc["answer_repeats", "se"])
    assert "answer_repeats=2 以上で測れます" in found.loc["answer_repeats", "note"]
    assert "rejudge" in found.loc["judges", "note"]
    # One judgement instead of two: 425 / n <= 25 takes 17 questions and 34 calls.
    assert found.loc["cheapest", ["n_questions", "judge_repeats", "calls"]].tolist() == [17, 1, 34]


def test_the_same_questions_again_are_surer() -> None:
    scores = nested([[[70, 80]], [[50, 60]], [[90, 100]]])
    found = plan(scores, 2, same_questions=True)
    assert found.loc["now", "se"] == pytest.approx(math.sqrt(50 / 6))
    # 50 / (3 r) <= 4: five judgements each.
    assert found.loc["judge_repeats", "judge_repeats"] == 5
    assert "questions" not in found.index


def test_a_target_that_is_reached_today_asks_for_nothing_more() -> None:
    found = plan(nested(TURNIPS), 5)
    assert found.loc["now", "reaches_target"]
    assert found.loc["questions", "n_questions"] == 4


def test_a_second_judge_is_priced_once_two_were_measured() -> None:
    scores = judges_frame(a=[70, 52, 90, 61], b=[60, 44, 79, 50])
    variance = components(judge_noise(scores))["variance"]
    found = plan(scores, 3)
    per_judge = variance["judge"] + variance["question:judge"] / 4
    assert found.loc["now", "se"] == pytest.approx(math.sqrt(variance["question"] / 4 + per_judge / 2))
    assert found.loc["judges", "se"] == pytest.approx(math.sqrt(variance["question"] / 4))


def test_an_impossible_target_is_refused() -> None:
    with pytest.raises(ConfigError, match="target_se is 0, expected points above 0"):
        plan_repeats(nested(TURNIPS), target_se=0)
