"""Several judges' marks taken together: sums on paper, ties, unread replies, and the single marks untouched."""

from __future__ import annotations

import statistics

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from socjudge import ConfigError
from socjudge.stats import combine_judges


def marks(*rows: tuple[str, int, float | None]) -> pd.DataFrame:
    """Rows of judge, question and mean score."""
    frame = pd.DataFrame(rows, columns=["judge_model", "question_id", "average_score"])
    return frame.assign(answer_sha256="a", average_score=frame["average_score"].astype("Float64"))


def test_four_judges_on_paper() -> None:
    found = combine_judges(marks(("A", 1, 90), ("B", 1, 60), ("C", 1, 80), ("D", 1, 20)))
    row = found.iloc[0]
    # (90 + 60 + 80 + 20) / 4 = 62.5; between 60 and 80: 70; without 90 and 20: 70
    assert (row.judges_n, row.judges_mean, row.judges_median, row.judges_trimmed) == (4, 62.5, 70, 70)
    assert (row.judges_low, row.judges_high) == (20, 90)
    assert pd.isna(row.judges_majority)  # two of four pass: no majority


def test_an_unread_reply_is_no_zero_and_is_counted() -> None:
    found = combine_judges(marks(("A", 1, 90), ("B", 1, None), ("A", 2, None), ("B", 2, None)))
    first, _, third, _ = found.itertuples()
    assert (first.judges_n, first.judges_unread, first.judges_mean, first.judges_majority) == (1, 1, 90, True)
    assert (third.judges_n, third.judges_unread) == (0, 2)
    assert pd.isna(third.judges_mean)
    assert pd.isna(third.judges_majority)
    assert found["judges_trimmed"].isna().all()  # nothing is left of two


def test_repeats_of_a_judge_count_as_one_judge() -> None:
    found = combine_judges(marks(("A", 1, 90), ("A", 1, 100), ("B", 1, 50)))
    assert set(found["judges_mean"]) == {72.5}
    assert set(found["judges_n"]) == {2}


def test_a_frame_without_judges_is_refused() -> None:
    with pytest.raises(ConfigError, match="judge_model"):
        combine_judges(marks(("A", 1, 90)).drop(columns="judge_model"))
    with pytest.raises(ConfigError, match="combine_judges"):
        combine_judges(marks(("A", 1, 90)).iloc[:0])


some_marks = st.lists(st.one_of(st.none(), st.integers(0, 100)), min_size=1, max_size=7)


@pytest.mark.slow
@settings(max_examples=60)
@given(st.lists(some_marks, min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_the_single_marks_stay_and_the_order_of_rows_does_not_matter(
    answers: list[list[int | None]], dice: object
) -> None:
    rows = [(f"J{judge}", q, mark) for q, given in enumerate(answers) for judge, mark in enumerate(given)]
    frame = marks(*rows)
    found = combine_judges(frame)
    pd.testing.assert_frame_equal(found[frame.columns], frame)
    shuffled = frame.sample(frac=1, random_state=dice.randrange(1000))  # type: ignore[attr-defined]
    pd.testing.assert_frame_equal(combine_judges(shuffled).sort_index(), found)
    for question, given_marks in enumerate(answers):
        row = found[found["question_id"] == question].iloc[0]
        read = sorted(mark for mark in given_marks if mark is not None)
        assert (row.judges_n, row.judges_unread) == (len(read), len(given_marks) - len(read))
        if read:
            assert row.judges_mean == pytest.approx(statistics.fmean(read))
            assert row.judges_median == statistics.median(read)
        if len(read) >= 3:
            assert row.judges_trimmed == pytest.approx(statistics.fmean(read[1:-1]))
