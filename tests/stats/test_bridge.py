"""From the old judge's scale to the new one's: exact lines, real judges, refusals, the merged trend."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from score_frames import framed, judged, judges_frame, one_criterion, six_judges

from socjudge import ConfigError
from socjudge.stats import bridge_judges, bridged_trend
from socjudge.stats.basics import OVERALL, mean_interval
from socjudge.stats.bridge import _together, equating_lines, questions_missing

OLD = [70, 80, 90, 60, 75, 85, 95, 72, 88, 66]
NEW = [65, 74, 88, 55, 71, 80, 93, 68, 81, 64]


def overall(frame: pd.DataFrame) -> pd.Series:
    return frame[frame["criterion"] == OVERALL].iloc[0]


@pytest.mark.usefixtures("in_japanese")
def test_an_exact_line_is_found_exactly() -> None:
    # new = 10 + 0.8 old, so 70 corresponds to 66.
    row = overall(bridge_judges(judges_frame(old=OLD, new=[10 + 0.8 * mark for mark in OLD]), old="old", new="new"))
    names = ["slope", "slope_low", "slope_high", "intercept", "pass_line", "pass_line_low", "pass_line_high"]
    assert row[names].tolist() == pytest.approx([0.8, 0.8, 0.8, 10, 66, 66, 66])
    assert row["shift"] == pytest.approx(10 - 0.2 * 78.1)
    # 70 -> 66, 72 -> 67.6 and 66 -> 62.8, 60 -> 58: 70 and 72 fall below 70, none changes at the line of 66.
    assert (row["verdict_changes"], row["verdict_changes_bridged"]) == (2, 0)
    assert "旧70点は新66.0点に当たります" in row["note"]


def test_ten_questions_on_paper() -> None:
    row = overall(bridge_judges(judges_frame(old=OLD, new=NEW), old="old", new="new"))
    assert (row["n"], row["n_answers"], row["n_missing"]) == (10, 10, 0)
    assert (row["shift"], row["shift_low"], row["shift_high"]) == pytest.approx(
        (-4.2, -5.5027, -2.8973), abs=1e-4
    )  # as in test_comparison
    slope = np.std(NEW) / np.std(OLD)
    assert row["slope"] == pytest.approx(slope)
    assert row["pass_line"] == pytest.approx(73.9 + slope * (70 - 78.1))
    assert row["pass_line_low"] < row["pass_line"] < row["pass_line_high"]
    assert row["correlation"] == pytest.approx(np.corrcoef(OLD, NEW)[0, 1])


def test_real_judges_are_bridged_by_mean_and_sd() -> None:
    marks = six_judges()
    old, new = "gpt-4.1-2025-04-14", "gpt-5.1-2025-11-13"
    row = overall(bridge_judges(one_criterion(marks), old=old, new=new))
    x, y = marks[old].to_numpy(), marks[new].to_numpy()
    assert row["n"] == 118
    # The moved old marks have the new ones' mean and sd: what linear equating means.
    moved = row["intercept"] + row["slope"] * x
    assert (moved.mean(), moved.std()) == pytest.approx((y.mean(), y.std()))
    assert row["slope_low"] < row["slope"] < row["slope_high"]
    assert row["verdict_changes"] == ((x >= 70) != (y >= 70)).sum()


def test_the_interval_leaves_out_whole_questions() -> None:
    twice = framed(
        *(
            judged(j, q, mark, answer=text)
            for j, column in (("o", OLD), ("n", NEW))
            for q, mark in enumerate(column)
            for text in "xy"
        )
    )
    once, doubled = (
        overall(bridge_judges(judges_frame(o=OLD, n=NEW), old="o", new="n")),
        overall(bridge_judges(twice, old="o", new="n")),
    )
    assert (doubled["n"], doubled["n_answers"]) == (10, 20)
    assert doubled["slope_high"] - doubled["slope_low"] == pytest.approx(once["slope_high"] - once["slope_low"])


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 100), st.integers(-9, 9)), min_size=8, max_size=12), st.permutations(range(8)))
def test_the_bridge_is_the_same_both_ways_and_in_any_order(pairs: list[tuple[int, int]], order: list[int]) -> None:
    x = np.array([mark for mark, _ in pairs], dtype=float)
    y = x + [noise for _, noise in pairs]
    there, back = (equating_lines(*sides, np.arange(len(x)))[0] for sides in ((x, y), (y, x)))
    assume(math.isfinite(there[1]))
    assert there[1] * back[1] == pytest.approx(1)
    assert there[0] + there[1] * back[0] == pytest.approx(0, abs=1e-6)  # over and back again
    mixed = [*order, *range(8, len(x))]
    assert equating_lines(x[mixed], y[mixed], np.array(mixed))[0] == pytest.approx(there)


def test_judges_that_hardly_agree_get_no_line_but_a_shift() -> None:
    scores = judges_frame(old=OLD, new=[80, 60, 75, 90, 66, 85, 62, 91, 70, 88])
    row = overall(bridge_judges(scores, old="old", new="new"))
    assert math.isnan(row["slope"]) and math.isnan(row["pass_line"])
    assert math.isfinite(row["shift"])
    assert "points cannot be converted" in row["note"]
    with pytest.raises(ConfigError, match="do not surely correlate over 10 answers"):
        bridged_trend(scores, old="old", new="new")


def test_judges_of_opposite_mind_get_no_line() -> None:
    marks = [10, 20, 30, 40, 50, 60, 70, 80, 90, 95]  # of which the correlation comes out as -1, not nearly so
    row = overall(bridge_judges(judges_frame(old=marks, new=[100 - mark for mark in marks]), old="old", new="new"))
    assert row["correlation"] == pytest.approx(-1)
    assert math.isnan(row["slope"])


def test_runs_of_unknown_time_come_last_in_the_trend() -> None:
    scores = history()
    unknown = scores.assign(started_at=scores["started_at"].mask(scores["run_id"] == "r1"))
    assert list(bridged_trend(unknown, old="old", new="new")["run_id"]) == ["r2", "r3", "r4", "r1"]


def test_too_few_questions_are_refused_with_what_to_do() -> None:
    with pytest.raises(ConfigError, match=r"answers to 7 questions, which is too few.*rejudge\(run, judge_model='n'\)"):
        bridge_judges(judges_frame(o=OLD[:7], n=NEW[:7]), old="o", new="n")
    unread = judges_frame(o=OLD[:8], n=[*NEW[:7], None])
    with pytest.raises(ConfigError, match="answers to 7 questions"):
        bridge_judges(unread, old="o", new="n")
    with pytest.raises(ConfigError, match="old and new are both 'o'"):
        bridge_judges(unread, old="o", new="o")


def test_other_answers_are_refused() -> None:
    scores = framed(
        *(judged("o", q, mark) for q, mark in enumerate(OLD)), *(judged("n", q, 70, answer="b") for q in range(10))
    )
    with pytest.raises(ConfigError, match="judged different answers"):
        bridge_judges(scores, old="o", new="n")


def history() -> pd.DataFrame:
    """Two runs of the old judge, the second marked again by the new one (10 points lower), then a run of the new one."""
    parts = []
    for q, mark in enumerate(OLD):
        parts += [
            judged("old", q, mark - 1, answer="first", run_id="r1", started_at="2026-01-01T09:00+09:00"),
            judged("old", q, mark, answer="second", run_id="r2", started_at="2026-02-01T09:00+09:00"),
            judged("new", q, mark - 10, answer="second", run_id="r3", started_at="2026-02-02T09:00+09:00"),
            judged("new", q, mark - 5, answer="third", run_id="r4", started_at="2026-03-01T09:00+09:00"),
        ]
    return framed(*parts)


@pytest.mark.usefixtures("in_japanese")
def test_the_trend_is_on_the_new_scale_with_its_seam_marked() -> None:
    trend = bridged_trend(history(), old="old", new="new")
    assert list(trend["run_id"]) == ["r1", "r2", "r3", "r4"]
    assert trend["own_mean"].tolist() == pytest.approx([77.1, 78.1, 68.1, 73.1])
    assert trend["mean"].tolist() == pytest.approx([67.1, 68.1, 68.1, 73.1])
    assert trend["bridged"].tolist() == [True, True, False, False]
    assert trend["overlap"].tolist() == [False, False, True, False]
    assert trend["seam"].tolist() == [False, False, True, False]
    assert "ここから新しいJudge" in trend["note"].iloc[2]
    # The bridge is exact here, so that the old runs keep the length of their own intervals.
    same = trend.iloc[1][["ci_low", "ci_high"]].to_numpy(dtype=float) - 68.1
    assert same == pytest.approx(np.array(mean_interval(OLD)) - 78.1)


def test_the_uncertainty_of_the_bridge_widens_the_old_runs() -> None:
    exact, scattered = history(), history()
    jitter = scattered["question_id"].map(dict(enumerate([3, -3, 2, -2, 4, -4, 1, -1, 2, -2])))
    rejudged = scattered["run_id"] == "r3"
    scattered.loc[rejudged, "score"] = scattered.loc[rejudged, "score"] + jitter[rejudged]
    widths = [
        t["ci_high"].iloc[0] - t["ci_low"].iloc[0]
        for t in (bridged_trend(h, old="old", new="new") for h in (exact, scattered))
    ]
    assert widths[1] > widths[0] + 0.3


def test_the_bridge_is_added_as_welch_adds_two_errors() -> None:
    # Errors of 2 and 1 points with 9 and 8 degrees of freedom: √5, and (4 + 1)² / (16 / 9 + 1 / 8) = 13.14 degrees.
    t9, t8 = scipy.stats.t.ppf(0.975, [9, 8])
    assert _together(2 * t9, t8, 9, 8) == pytest.approx(math.sqrt(5) * scipy.stats.t.ppf(0.975, 13.1387), rel=1e-5)
    # Two samples whose means differ: scipy's Welch test.
    x, y = np.array(OLD, dtype=float), np.array(NEW, dtype=float)[:7]
    ends = [float(np.diff(scipy.stats.ttest_1samp(side, 0).confidence_interval())[0] / 2) for side in (x, y)]
    welch = scipy.stats.ttest_ind(x, y, equal_var=False).confidence_interval()
    assert _together(*ends, 9, 6) == pytest.approx((welch.high - welch.low) / 2)


def test_an_old_run_without_scatter_has_a_mean_but_no_interval() -> None:
    scores = history()
    one = scores[(scores["run_id"] != "r1") | (scores["question_id"] == 0)]
    equal = scores.assign(score=scores["score"].where(scores["run_id"] != "r1", 80))
    for frame in (one, equal):
        first = bridged_trend(frame, old="old", new="new").iloc[0]
        assert first["run_id"] == "r1" and math.isfinite(first["mean"]) and math.isnan(first["ci_low"])


def test_unread_marks_are_counted() -> None:
    scores = judges_frame(old=[*OLD, 80], new=[*NEW, None])
    row = overall(bridge_judges(scores, old="old", new="new"))
    assert (row["n"], row["n_missing"]) == (10, 6)
    with pytest.raises(ConfigError, match="bridged_trend: the frame has no column 'started_at'"):
        bridged_trend(scores.drop(columns="started_at"), old="old", new="new")


@pytest.mark.slow
@settings(max_examples=5)
@given(st.integers(-20, 20))
def test_points_added_to_the_new_scale_move_the_line_by_as_much(more: int) -> None:
    scores = judges_frame(old=OLD, new=np.array(NEW) - 20)
    scores = scores[scores["criterion"] == "正確性"]
    moved = scores.assign(score=scores["score"] + more * (scores["judge_model"] == "new"))
    first, second = (overall(bridge_judges(frame, old="old", new="new")) for frame in (scores, moved))
    assert second["pass_line"] == pytest.approx(first["pass_line"] + more)
    assert second["slope"] == pytest.approx(first["slope"])


@pytest.mark.usefixtures("in_japanese")
def test_a_shift_that_is_the_same_everywhere_has_no_interval_to_tell() -> None:
    row = overall(bridge_judges(judges_frame(old=OLD, new=[mark - 3 for mark in OLD]), old="old", new="new"))
    assert row["note"].startswith("10問。同じ回答で新しいJudgeは平均-3.0点。旧70点は新67.0点に当たります")
    assert "nan" not in row["note"]


def test_how_many_more_questions_are_needed_counts_the_upper_limit_of_the_interval() -> None:
    # chi2(0.05, 19) = 10.117: 4 points may be 4 × √(19 / 10.117) = 5.48, and 20 × (5.48 / 5)² = 24.04.
    assert questions_missing(4.0, 20, 5.0) == 5
    assert questions_missing(3.5, 20, 5.0) == 0  # 4.80
    assert questions_missing(10.0, 100, 5.0) == 414  # chi2(0.05, 99) = 77.046: 11.34, 100 × (11.34 / 5)² = 513.98
