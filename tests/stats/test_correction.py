"""People's means and pass rates from few labels: sums on paper, laws, what helps and what does not, and bad labels."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_people import labels_of, scores_of

from socjudge import ConfigError
from socjudge.stats import corrected_means, corrected_pass_rate
from socjudge.stats.basics import mean_interval, pass_rate_interval
from socjudge.stats.correction import corrected_mean, corrected_rate

STEPS = st.integers(0, 20).map(lambda step: step * 5.0)


def drawn(seed: int, n: int = 15, total: int = 200, noise: float = 5.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Labels, the judge's marks of the same, and of all."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(65, 12, total)
    judge = np.clip(truth + 8 + rng.normal(0, noise, total), 0, 100)
    return np.clip(truth[:n] + rng.normal(0, 3, n), 0, 100), judge[:n], judge


# The mean


def test_the_estimate_is_the_regression_on_the_judges_marks() -> None:
    labels, judged, everything = drawn(0)
    found = corrected_mean(labels, judged, everything)
    slope, intercept = np.polyfit(judged, labels, 1)  # another way to the same
    assert found.weight == pytest.approx(slope)
    assert found.estimate == pytest.approx(intercept + slope * everything.mean())


def test_the_interval_on_paper() -> None:
    # Slope 1, residuals +1 and -1 in turn, leverage from d = -3.5 … 3.5 (squares 42): left-out residuals e / (1 - h).
    judged = np.arange(8.0)
    labels = 50 + judged + np.array([1, -1, -1, 1, 1, -1, -1, 1])
    everything = np.concatenate([judged, np.full(92, 3.5)])
    found = corrected_mean(labels, judged, everything)
    d = judged - 3.5
    left_out = 1 / (1 - 1 / 8 - d**2 / 42)
    assert (found.estimate, found.weight) == pytest.approx((53.5, 1))
    # All marks lie so near each other that the shape p (1 - p) + 0.05 is flat, and the skewness next to nothing.
    se = math.sqrt((left_out**2).sum() / 7 / 8 + everything.var(ddof=1) / 100)
    assert found.high - found.low == pytest.approx(2 * 2.446912 * se, rel=0.02)


def test_a_good_judge_narrows_the_interval_and_a_useless_one_leaves_the_labels_alone() -> None:
    _, judged, everything = drawn(1, n=20)
    labels = 5 + 0.8 * judged + np.tile([2.0, -2.0], 10)
    good = corrected_mean(labels, judged, everything)
    assert good.correlation > 0.85
    assert good.high - good.low < 0.65 * (good.labels_high - good.labels_low)
    turns = np.tile([60.0, 80.0], 100)
    useless = corrected_mean(labels, turns[:20], turns)
    assert useless.correlation < 1 / math.sqrt(18)
    assert (useless.low, useless.high) == mean_interval(labels) == (useless.labels_low, useless.labels_high)
    assert (useless.weight, useless.estimate) == (0, labels.mean())


def test_a_judge_that_marks_the_wrong_way_round_is_not_used() -> None:
    labels, judged, everything = drawn(2)
    assert corrected_mean(labels, 100 - judged, 100 - everything).weight == 0


def test_too_few_or_constant_labels_leave_no_number_out_of_nothing() -> None:
    labels, judged, everything = drawn(3)
    assert corrected_mean(labels[:7], judged[:7], everything).weight == 0
    constant = corrected_mean(np.full(15, 80.0), judged, everything)
    assert constant.estimate == 80 and math.isnan(constant.low) and math.isnan(constant.high)
    assert corrected_mean(labels, np.full(15, 80.0), np.full(200, 80.0)).weight == 0
    # Labels that lie on the line exactly: the residuals do not say how far the next will be.
    exact = corrected_mean(judged - 10, judged, everything)
    assert (exact.weight, exact.low) == (0, exact.labels_low)
    nothing = corrected_mean([], [], everything)
    assert math.isnan(nothing.estimate) and math.isnan(nothing.low)


@settings(max_examples=60)
@given(st.integers(0, 10_000), st.sampled_from([10, 20, 40]), st.floats(1, 40))
def test_the_interval_holds_the_estimate_lies_on_the_scale_and_is_never_much_wider(
    seed: int, n: int, noise: float
) -> None:
    found = corrected_mean(*drawn(seed, n=n, noise=noise))
    assert 0 <= found.low <= found.estimate <= found.high <= 100
    assert found.high - found.low <= 1.25 * (found.labels_high - found.labels_low) + 1e-9


@pytest.mark.slow
@given(st.integers(0, 1000), st.randoms(use_true_random=False))
def test_the_order_of_labels_does_not_matter(seed: int, random: object) -> None:
    labels, judged, everything = drawn(seed)
    order = np.random.default_rng(random.randint(0, 9999)).permutation(15)  # type: ignore[attr-defined]
    assert corrected_mean(labels[order], judged[order], everything) == pytest.approx(
        corrected_mean(labels, judged, everything)
    )


@given(st.integers(0, 1000), st.floats(-6, 6))
def test_a_shift_of_the_judges_scale_changes_nothing(seed: int, shift: float) -> None:
    labels, judged, everything = drawn(seed)
    moved = corrected_mean(labels, judged + shift, everything + shift)
    assert moved == pytest.approx(corrected_mean(labels, judged, everything))


# The pass rate


def jeffreys_low(hits: int, total: int) -> float:
    """The 2.5 % point of the posterior under Jeffreys' prior, by adding up its density (in the angle: p = sin² a)."""
    angle = np.linspace(0, np.pi / 2, 200_001)
    mass = (np.sin(angle) ** (2 * hits) * np.cos(angle) ** (2 * (total - hits))).cumsum()
    return float(np.sin(angle[np.searchsorted(mass, 0.025 * mass[-1])]) ** 2)


def test_the_rate_on_paper() -> None:
    # The judge passes 60 of 100. Of those, people passed 8 of 9 that they saw, and 1 of 6 of the others.
    labels = [True] * 8 + [False] + [True] + [False] * 5
    judged = [True] * 9 + [False] * 6
    found = corrected_rate(labels, judged, [True] * 60 + [False] * 40)
    assert found.estimate == pytest.approx(0.6 * 8 / 9 + 0.4 / 6)
    assert found.weight == pytest.approx(8 / 9 - 1 / 6)
    assert (found.labels_low, found.labels_high) == pass_rate_interval(9, 15)
    sampling = (1.959964 * found.weight) ** 2 * 0.24 / 100
    down = (0.6 * (8 / 9 - jeffreys_low(8, 9))) ** 2 + (0.4 * (1 / 6 - jeffreys_low(1, 6))) ** 2
    assert found.low == pytest.approx(found.estimate - math.sqrt(down + sampling), abs=1e-4)


def test_a_rate_of_verdicts_that_agree_throughout_is_not_certain() -> None:
    found = corrected_rate([True] * 14 + [False] * 6, [True] * 14 + [False] * 6, [True] * 140 + [False] * 60)
    assert found.estimate == pytest.approx(0.7)
    assert 0.05 < found.high - found.low < found.labels_high - found.labels_low
    # A rate r makes 14 of 14 e^-1.92 times as likely as 1 does where r^14 = e^-1.92; 140 of 200 are a sample themselves.
    down, up = 0.7 * (1 - math.exp(-1.920729 / 14)), 0.3 * (1 - math.exp(-1.920729 / 6))
    sampling = 1.959964**2 * 0.21 / 200
    assert found.low == pytest.approx(0.7 - math.sqrt(down**2 + sampling))
    assert found.high == pytest.approx(0.7 + math.sqrt(up**2 + sampling))


def test_fewer_labels_that_agree_keep_the_wider_interval() -> None:
    found = corrected_rate([True] * 13 + [False] * 6, [True] * 13 + [False] * 6, [True] * 140 + [False] * 60)
    sampling = 1.959964**2 * 0.21 / 200
    assert found.low == pytest.approx(0.7 - math.hypot(0.7 * (1 - jeffreys_low(13, 13)), math.sqrt(sampling)), abs=1e-4)


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=40), st.integers(1, 99))
def test_the_rate_and_its_interval_are_fractions(pairs: list[tuple[bool, bool]], passed: int) -> None:
    labels, judged = zip(*pairs, strict=True)
    found = corrected_rate(labels, judged, [*judged, *[True] * passed, *[False] * (100 - passed)])
    assert 0 <= found.low <= found.estimate <= found.high <= 1
    assert found.high - found.low <= 1.25 * (found.labels_high - found.labels_low) + 1e-9


# The frames


def many(n: int = 12, total: int = 60) -> tuple[pd.DataFrame, pd.DataFrame]:
    labels, _, everything = drawn(4, n=n, total=total)
    return scores_of(*everything), labels_of(*labels)


def test_the_frame_says_what_the_arrays_say() -> None:
    scores, labels = many()
    row = corrected_means(scores, labels).set_index("criterion").loc["正確性"]
    found = corrected_mean(
        labels["score"].astype(float), scores["score"][:12].astype(float), scores["score"].astype(float)
    )
    assert (row["mean"], row["ci_low"], row["ci_high"]) == pytest.approx(found[:3])
    assert (row["n"], row["n_judged"], row["weight"] != 0) == (12, 60, True)
    rate = corrected_pass_rate(scores, labels).set_index("criterion").loc["正確性"]
    assert (rate["n"], rate["n_judged"]) == (12, 60)
    assert rate["judge_rate"] == pytest.approx((scores["score"] >= 70).mean())


@pytest.mark.usefixtures("in_japanese")
def test_answers_of_one_question_are_one_unit_of_the_mean() -> None:
    scores, labels = many()
    again = scores.assign(answer_sha256=scores["answer_sha256"] + " again", score=scores["score"] - 2)
    row = corrected_means(pd.concat([scores, again]), labels).set_index("criterion").loc["正確性"]
    assert (row["n"], row["n_judged"]) == (12, 60)
    assert row["judge_mean"] == pytest.approx(float(scores["score"].mean()) - 1)
    rate = corrected_pass_rate(pd.concat([scores, again]), labels).set_index("criterion").loc["正確性"]
    assert rate["n_judged"] == 120 and "狭すぎる" in rate["note"]


def test_too_few_labels_and_labels_of_other_answers_are_refused() -> None:
    scores, labels = many()
    for function in (corrected_means, corrected_pass_rate):
        with pytest.raises(ConfigError, match="both scored 5 of the same, which is too few"):
            function(scores, labels[:5])
        with pytest.raises(ConfigError, match="none of the 12 labelled answers was scored"):
            function(scores, labels.assign(question_id=labels["question_id"] + 1000))
        with pytest.raises(ConfigError, match="labels has no score"):
            function(scores, labels.assign(score=pd.array([None] * 12, dtype="Float64")))


@pytest.mark.usefixtures("in_japanese")
def test_a_criterion_with_too_few_labels_stands_there_with_its_labels_alone() -> None:
    scores, labels = many()
    other = {"criterion": "簡潔性"}
    found = corrected_means(
        pd.concat([scores, scores.assign(**other)]), pd.concat([labels, labels[:4].assign(**other)])
    ).set_index("criterion")
    assert found.loc["簡潔性", "weight"] == 0 and "人の採点だけ" in found.loc["簡潔性", "note"]
    assert found.loc["正確性", "weight"] != 0


def test_unread_replies_are_counted_not_averaged() -> None:
    scores, labels = many()
    row = corrected_means(scores.assign(score=scores["score"].where(scores.index != 30)), labels).iloc[0]
    assert (row["n_judged"], row["n_missing"]) == (59, 1)


def test_a_mean_from_few_labels_that_are_mostly_one_mark_says_what_they_do_not_show() -> None:
    judge = [*[95.0] * 75, 60, 50, 40, 30, 20]

    def note(count: int, *odd: float) -> str:
        labels = labels_of(*odd, *[100.0] * (count - len(odd)))
        return str(corrected_means(scores_of(*judge), labels).iloc[0]["note"])

    assert "9 of 10 labels are one score" in note(10, 80) and "corrected_pass_rate" in note(10, 80)
    assert "one score" not in note(10, 80, 85, 90, 95, 70)  # half of them
    assert "one score" not in note(60, 80)


@pytest.mark.slow
@pytest.mark.parametrize("choice", ["random", "highest", "lowest", "nearest the line"])
def test_labels_that_were_not_drawn_at_random_are_noticed(choice: str) -> None:
    told = {"mean": 0, "rate": 0}
    for seed in range(12):
        rng = np.random.default_rng(seed)
        marks = (5 * np.round(rng.normal(72, 12, 100) / 5)).clip(0, 100)
        key = {"random": rng.random(100), "highest": -marks, "lowest": marks, "nearest the line": abs(marks - 70)}
        chosen = np.argsort(key[choice], kind="stable")[:20]
        one = pd.DataFrame({"question_id": range(100), "answer_sha256": range(100), "criterion": "安全性"})
        scores = one.assign(judge_model="A", score=marks)
        labels = one.iloc[chosen].assign(rater="佐藤", score=(marks + rng.normal(0, 6, 100)).clip(0, 100)[chosen])
        for of, function in (("mean", corrected_means), ("rate", corrected_pass_rate)):
            notes = function(scores, labels).query("criterion == '安全性'")["note"]
            told[of] += "not drawn at random" in notes.iloc[0]
    if choice == "random":
        assert max(told.values()) <= 1
    else:
        assert told["mean"] == 12 and told["rate"] >= 9


def test_labels_drawn_within_the_verdicts_are_no_choice_for_the_rate() -> None:
    rng = np.random.default_rng(1)
    marks = rng.normal(75, 10, 200)
    failed, passed = np.flatnonzero(marks < 70), np.flatnonzero(marks >= 70)
    chosen = [*rng.choice(failed, 20, replace=False), *rng.choice(passed, 10, replace=False)]
    one = pd.DataFrame({"question_id": range(200), "answer_sha256": range(200), "criterion": "安全性"})
    scores = one.assign(judge_model="A", score=marks)
    labels = one.iloc[chosen].assign(rater="佐藤", score=marks[chosen] - 3)
    assert "at random" not in corrected_pass_rate(scores, labels)["note"].iloc[0]
    assert "at random" in corrected_means(scores, labels)["note"].iloc[0]
