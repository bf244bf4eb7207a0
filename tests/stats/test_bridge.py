"""From the old judge's scale to the new one's: exact lines, real judges, refusals."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from support.score_frames import framed, judged, judges_frame, one_criterion, six_judges

from socjudge import ConfigError
from socjudge.stats import bridge_judges
from socjudge.stats.basics import OVERALL
from socjudge.stats.bridge import equating_lines

OLD = [70, 80, 90, 60, 75, 85, 95, 72, 88, 66]
NEW = [65, 74, 88, 55, 71, 80, 93, 68, 81, 64]


def overall(frame: pd.DataFrame) -> pd.Series:
    return frame[frame["criterion"] == OVERALL].iloc[0]


def test_an_exact_line_is_found_exactly() -> None:
    # new = 10 + 0.8 old, so 70 corresponds to 66.
    row = overall(bridge_judges(judges_frame(old=OLD, new=[10 + 0.8 * mark for mark in OLD]), old="old", new="new"))
    names = ["slope", "intercept", "pass_line", "pass_line_low", "pass_line_high"]
    assert row[names].tolist() == pytest.approx([0.8, 10, 66, 66, 66])
    assert row["shift"] == pytest.approx(10 - 0.2 * 78.1)
    # 70 -> 66, 72 -> 67.6 and 66 -> 62.8, 60 -> 58: 70 and 72 fall below 70, none changes at the line of 66.
    assert (row["verdict_changes"], row["verdict_changes_bridged"]) == (2, 0)
    assert row["note"] == "Questions: 10."


def test_ten_questions_on_paper() -> None:
    row = overall(bridge_judges(judges_frame(old=OLD, new=NEW), old="old", new="new"))
    assert (row["n"], row["n_missing"]) == (10, 0)
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
    assert row["pass_line_low"] < row["pass_line"] < row["pass_line_high"]
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
    assert doubled["n"] == 10
    assert doubled["pass_line_high"] - doubled["pass_line_low"] == pytest.approx(
        once["pass_line_high"] - once["pass_line_low"]
    )


@pytest.mark.slow
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


def test_judges_of_opposite_mind_get_no_line() -> None:
    marks = [10, 20, 30, 40, 50, 60, 70, 80, 90, 95]  # of which the correlation comes out as -1, not nearly so
    row = overall(bridge_judges(judges_frame(old=marks, new=[100 - mark for mark in marks]), old="old", new="new"))
    assert row["correlation"] == pytest.approx(-1)
    assert math.isnan(row["slope"])


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


def test_unread_marks_are_counted() -> None:
    scores = judges_frame(old=[*OLD, 80], new=[*NEW, None])
    row = overall(bridge_judges(scores, old="old", new="new"))
    assert (row["n"], row["n_missing"]) == (10, 6)


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


def test_a_shift_that_is_the_same_everywhere_has_no_interval_to_tell() -> None:
    row = overall(bridge_judges(judges_frame(old=OLD, new=[mark - 3 for mark in OLD]), old="old", new="new"))
    assert (row["shift"], row["pass_line"], row["note"]) == (pytest.approx(-3), pytest.approx(67), "Questions: 10.")
    assert math.isnan(row["shift_low"])
