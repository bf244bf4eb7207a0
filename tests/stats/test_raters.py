"""How steady raters are on answers that they marked twice."""

from __future__ import annotations

import pandas as pd
import pytest

from socjudge import ConfigError, judge_agreement


def twice(first: list[float], second: list[float], rater: str = "佐藤") -> pd.DataFrame:
    """Marks of answers 0, 1, …; only the first len(second) a second time."""
    one = pd.DataFrame(
        {"rater": rater, "question_id": range(len(first)), "criterion": "安全性", "score": first, "again": False}
    )
    two = one.iloc[: len(second)].assign(score=second, again=True)
    both = pd.concat([one, two], ignore_index=True)
    return both.assign(answer_sha256="answer " + both["question_id"].astype(str))


def of(labels: pd.DataFrame) -> pd.Series:
    return judge_agreement(labels, by="again").set_index("criterion").loc["安全性"]


def test_a_second_score_stands_beside_the_first_wherever_it_stands() -> None:
    labels = twice([80, 60, 40, 90, 20], [90, 60, 50, 90])
    row = of(labels.sample(frac=1, random_state=0))
    assert (row["n"], row["verdict_agreement"]) == (4, 1) and row["alpha"] == of(labels)["alpha"]


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
