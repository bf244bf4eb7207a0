"""Which criteria of a judge may be trusted: what its bias and correlation with people show."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from test_people import labels_of, scores_of

from socjudge import ConfigError, constants
from socjudge.base.messages import speaking
from socjudge.stats import judge_trust, trust

CRITERIA = constants.JUDGE_EVALUATION_CRITERIA
QUESTIONS = 40


def people_and_judge(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """(questions, 6): both mark the same truth, each with noise of 5 points."""
    rng = np.random.default_rng(seed)
    truth = 65 + 10 * rng.standard_normal((QUESTIONS, 1)) + 9 * rng.standard_normal((QUESTIONS, 6))
    people, judge = (truth + 5 * rng.standard_normal(truth.shape) for _ in range(2))
    return people, judge


def frames(people: np.ndarray, *repeats: np.ndarray) -> tuple[pd.DataFrame, pd.DataFrame]:
    scores = [
        scores_of(*column, criterion=name).assign(judge_repeat=number)
        for number, judge in enumerate(repeats)
        for name, column in zip(CRITERIA, judge.T, strict=True)
    ]
    labels = [labels_of(*column, criterion=name) for name, column in zip(CRITERIA, people.T, strict=True)]
    return pd.concat(scores), pd.concat(labels)


def test_the_order_of_rows_does_not_matter() -> None:
    scores, labels = frames(*people_and_judge())
    shuffled = scores.assign(criterion=pd.Categorical(scores["criterion"], CRITERIA)).sample(frac=1, random_state=0)
    one, two = (judge_trust(part, labels)["p_value"].to_numpy() for part in (scores, shuffled))
    np.testing.assert_allclose(np.sort(one), np.sort(two))


def test_too_few_labels_are_refused() -> None:
    scores, labels = frames(*people_and_judge())
    few = labels[labels["question_id"] < 7]
    with pytest.raises(ConfigError, match="both scored 7 of the same, which is too few"):
        judge_trust(scores, few)
    with pytest.raises(ConfigError, match="none of the 40 labelled answers"):
        judge_trust(scores, labels.assign(answer_sha256=labels["answer_sha256"] + "x"))


def verdicts(people: np.ndarray, judge: np.ndarray) -> list[str]:
    return judge_trust(*frames(people, judge))["verdict"].tolist()


@pytest.mark.slow
def test_a_judge_near_people_is_trusted_and_one_with_a_bias_under_conditions() -> None:
    people, judge = people_and_judge()
    assert verdicts(people, judge) == ["信頼できる"] * 6
    judge[:, 2] += 10.5
    assert verdicts(people, judge)[2] == "条件つき"
    judge[:, 2] += 20
    assert verdicts(people, judge)[2] == "信頼できない"


@pytest.mark.slow
def test_the_word_is_the_same_in_both_languages_and_the_note_is_not() -> None:
    people, judge = people_and_judge()
    judge[:, 0] += 30
    scores, labels = frames(people, judge)
    row = judge_trust(scores, labels).iloc[0]
    assert row["verdict"] == "信頼できない"
    assert row["note"].startswith(
        f"Over 40 questions its scores lie {row['bias']:+.1f} points from people's on average"
    )
    with speaking("ja"):
        again = judge_trust(scores, labels).iloc[0]
    assert again["verdict"] == row["verdict"]
    assert again["note"].startswith(f"40問で、人から平均{row['bias']:+.1f}点離れています")


@pytest.mark.slow
def test_a_judge_that_is_blind_to_a_criterion_is_not_trusted() -> None:
    people, judge = people_and_judge()
    judge[:, 4] = 130 - judge[:, 4]
    assert verdicts(people, judge)[4] == "信頼できない"
    judge[:, 4] = 80.0
    assert verdicts(people, judge)[4] != "信頼できる"


def test_few_labels_are_not_enough_for_a_word() -> None:
    people, judge = people_and_judge()
    scores, labels = frames(people, judge)
    found = judge_trust(scores, labels[labels["question_id"] < 8])
    assert set(found["verdict"]) <= {"分からない", "信頼できる"} and "分からない" in set(found["verdict"])


def test_people_who_give_one_mark_throughout_tell_nothing() -> None:
    people, judge = people_and_judge()
    people[:, 1] = 80.0
    row = judge_trust(*frames(people, judge)).iloc[1]
    assert (row["verdict"], row["p_value"]) == ("分からない", 1.0)
    assert math.isnan(row["bias_low"])


def one_criterion(people: np.ndarray, judge: np.ndarray) -> tuple[pd.DataFrame, pd.DataFrame]:
    name = CRITERIA[0]
    return scores_of(*judge[:, 0], criterion=name), labels_of(*people[:, 0], criterion=name)


def wide_judge(questions: int, bias: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(questions, 1): a judge that lies `bias` points from people and scatters about them by 20."""
    rng = np.random.default_rng(seed)
    people = 60 + 25 * rng.standard_normal((questions, 1))
    return people, people + bias + 20 * rng.standard_normal((questions, 1))


@pytest.mark.slow
@pytest.mark.usefixtures("in_japanese")
def test_it_says_between_how_many_labels_more_would_decide() -> None:
    open_rows = [judge_trust(*one_criterion(*wide_judge(24, 4.0, seed))).iloc[0] for seed in range(12)]
    open_rows = [row for row in open_rows if row["verdict"] in ("条件つき", "分からない")]
    ranges = [(row["more_low"], row["more_high"]) for row in open_rows if row["more_high"] < math.inf]
    assert open_rows and all(1 <= low < high for low, high in ranges)
    for row in open_rows:
        endless = math.isinf(row["more_high"])
        told = (
            f"少なくともあと{row['more_low']:.0f}問"
            if endless
            else f"あと{row['more_low']:.0f}〜{row['more_high']:.0f}問"
        )
        assert told in row["note"]


def test_the_labels_still_needed_come_from_the_error_of_the_interval() -> None:
    # All answers are labelled, so the bias has n - 1 = 11 degrees of freedom, and its error is that of a plain mean.
    people, judge = wide_judge(12, 4.0, 2)
    row = judge_trust(*one_criterion(people, judge)).iloc[0]
    apart, n = (judge - people)[:, 0], len(people)
    gap = (trust.MARGIN - abs(apart.mean())) / (
        apart.std(ddof=1) / math.sqrt(n)
    )  # 1.76; that of the correlation is 2.5
    shown, off = scipy.stats.t.isf(0.05, n - 1), scipy.stats.norm.ppf(0.9)
    most = n * (shown / (gap - off)) ** 2 - n
    assert (row["verdict"], row["more_low"]) == ("条件つき", 1)
    assert row["more_high"] == math.ceil(most / 10) * 10


@pytest.mark.slow
def test_a_judge_near_a_limit_is_told_that_perhaps_no_number_of_labels_decides() -> None:
    endless = [
        math.isinf(judge_trust(*one_criterion(*wide_judge(60, 10.0, seed))).iloc[0]["more_high"]) for seed in range(20)
    ]
    assert sum(endless) >= 14  # an 80 % interval of a gap of 0 holds 0


@pytest.mark.slow
def test_nothing_more_is_needed_where_it_is_said_or_cannot_be_told() -> None:
    people, judge = people_and_judge()
    assert judge_trust(*frames(people, judge))[["more_low", "more_high"]].isna().all(axis=None)
    people[:, 1] = 80.0
    assert judge_trust(*frames(people, judge)).iloc[1][["more_low", "more_high"]].isna().all()


def test_the_bias_is_that_over_all_answers_that_were_judged() -> None:
    """The labelled ones happen to be good: the judge, 20 points milder with bad ones, looks unbiased on them alone."""
    rng = np.random.default_rng(0)
    people = np.concatenate([85 + 3 * rng.standard_normal((30, 1)), 35 + 3 * rng.standard_normal((170, 1))])
    judge = people + np.where(people < 60, 20, 0) + 2 * rng.standard_normal(people.shape)
    scores, labels = one_criterion(people, judge)
    chosen = [*range(27), *range(30, 40)]  # as many good as bad ones: not as they are among all
    row = judge_trust(scores, labels[labels["question_id"].isin(chosen)]).iloc[0]
    assert row["bias"] == pytest.approx(17, abs=2)  # 20 × 170 / 200
    assert row["verdict"] == "信頼できない"


def test_a_look_that_is_paid_for_asks_for_more() -> None:
    people, judge = people_and_judge()
    scores, labels = frames(people, judge + 3.5)
    once, planned = (judge_trust(scores, labels, alpha=alpha) for alpha in (0.05, 0.05 / 4))
    assert (planned["bias_high"] > once["bias_high"]).all() and (planned["p_value"] == once["p_value"]).all()
    with pytest.raises(ConfigError, match=r"alpha is 0\.0, expected a share"):
        judge_trust(scores, labels, alpha=0.0)


def test_correlations_without_each_are_those_of_the_rest() -> None:
    rng = np.random.default_rng(4)
    x, weights = rng.normal(60, 20, 15), rng.uniform(0.5, 2, 15)
    y = x + rng.normal(0, 10, 15)
    expected = [
        np.cov(*(np.delete(z, i) for z in (x, y)), aweights=np.delete(weights, i)) for i in range(15)
    ]  # fmt: skip
    found = trust._correlations_without_each(x, y, weights)
    np.testing.assert_allclose(found, [c[0, 1] / math.sqrt(c[0, 0] * c[1, 1]) for c in expected])


def test_good_answers_alone_are_said_to_show_no_correlation_and_what_to_add() -> None:
    rng = np.random.default_rng(4)
    people = rng.uniform(72, 95, 30)
    judge = np.concatenate([people + rng.normal(0, 12, 30), np.full(10, 40.0)])  # ten bad ones that nobody labelled
    good = judge_trust(scores_of(*judge), labels_of(*people)).iloc[0]
    assert "0 of 30 answers below 70" in good["note"] and "0 of 30" in good["advice"]
    assert "at random among those that the judge scored below 70" in good["advice"]
    mixed = np.concatenate([people[:20], rng.uniform(20, 60, 10)])
    assert "below 70" not in judge_trust(scores_of(*mixed, *judge[30:]), labels_of(*mixed + 1)).iloc[0]["note"]


@pytest.mark.few(0)
@pytest.mark.slow
@pytest.mark.parametrize(("n", "criteria"), [(40, 1), (40, 6), (100, 6)])
def test_the_plans_power_is_that_of_the_tests(n: int, criteria: int) -> None:
    rng, shown, draws = np.random.default_rng(n), 0, 250
    each = 0.05 / len(trust.LOOKS) / criteria
    for _ in range(draws):
        people = rng.standard_normal(n)
        judge = 0.8 * people + 0.6 * rng.standard_normal(n)
        row = judge_trust(
            scores_of(*(73 + 20 * judge), criterion="安全性"),
            labels_of(*(70 + 20 * people), criterion="安全性"),
            alpha=each,
        ).iloc[0]
        inside = row["bias_low"] >= -trust.MARGIN and row["bias_high"] <= trust.MARGIN
        shown += inside and row["correlation_low"] > trust.CORRELATION
    assert shown / draws == pytest.approx(trust.trust_power(n, criteria), abs=0.1)
    assert trust.trust_power(10, criteria) < 0.02
