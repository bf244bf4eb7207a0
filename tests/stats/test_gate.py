"""The gate's certainty against closed forms, and what it does where marks are missing."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest
import scipy.special
from hypothesis import given, settings
from hypothesis import strategies as st

from socjudge import ConfigError
from socjudge.stats import gate_confidence
from socjudge.stats.gate import DRAWS, _draw

FAINT = 4 / math.sqrt(DRAWS)  # eight standard errors of a share of draws near a half
EXAMPLES = int(os.environ.get("SOCJUDGE_EXAMPLES", "12"))  # of what hypothesis makes up; `make fuzz` tries more
RUNS = 12 if "SOCJUDGE_EXAMPLES" not in os.environ else 40
SEVEN_OF_TEN = [72, 75, 80, 85, 90, 71, 95, 40, 55, 69]


def results(marks: Sequence[float | Sequence[float | None] | None], **columns: str) -> pd.DataFrame:
    """One row per answer; a list is one question's answers."""
    rows = [
        {"question_id": question, "answer_repeat": repeat, "average_score": mark}
        for question, repeats in enumerate(marks, start=1)
        for repeat, mark in enumerate(repeats if isinstance(repeats, list) else [repeats])
    ]
    return pd.DataFrame(rows).astype({"average_score": "Float64"}).assign(**columns)


@pytest.mark.usefixtures("in_japanese")
def test_seven_of_ten_leave_the_pass_rate_between_040_and_089() -> None:
    row = gate_confidence(results(SEVEN_OF_TEN)).iloc[0]
    assert (row["n"], row["passed"], row["needed"], row["mvp_passed"]) == (10, 7, 7, True)
    assert (row["pass_rate_low"], row["pass_rate_high"]) == pytest.approx((0.397, 0.892), abs=5e-4)
    assert "10問中7問合格。合格率の95%区間は0.40〜0.89。" in row["note"]


def test_a_run_is_judged_by_its_own_rule_and_by_the_specifications_where_it_names_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs = [
        results(SEVEN_OF_TEN, run_id="old").assign(pass_threshold=math.nan, pass_rate_required=math.nan),
        results(SEVEN_OF_TEN, run_id="strict").assign(pass_threshold=80.0, pass_rate_required=0.5),
    ]
    frame = pd.concat(runs).astype({"pass_threshold": "Float64", "pass_rate_required": "Float64"})
    columns = ["passed", "needed", "mvp_passed"]
    # 80 or more: 80, 85, 90, 95. 85 or more: 85, 90, 95.
    assert gate_confidence(frame)[columns].to_numpy().tolist() == [[7, 7, True], [4, 5, False]]
    monkeypatch.setattr("socjudge.constants.JUDGE_PASS_THRESHOLD", 85.0)
    monkeypatch.setattr("socjudge.constants.JUDGE_PASS_RATE", 0.3)
    assert gate_confidence(frame)[columns].to_numpy().tolist() == [[7, 7, True], [4, 5, False]]
    assert gate_confidence(results(SEVEN_OF_TEN))["passed"].tolist() == [7]


@pytest.mark.usefixtures("in_japanese")
def test_without_repeats_or_a_stated_noise_nothing_is_claimed() -> None:
    row = gate_confidence(results(SEVEN_OF_TEN)).iloc[0]
    assert np.isnan([row["p_rerun"], row["p_true"], row["repeat_sd"]]).all()
    assert row["verdict"] == "判定保留"
    assert "answer_repeats=3 で実行するか、noise= を指定してください" in row["note"]
    assert row["deciding_questions"] == ""


def test_one_question_with_stated_noise_has_a_closed_form() -> None:
    row = gate_confidence(results([72]), noise=5).iloc[0]
    assert row["p_true"] == pytest.approx(scipy.special.ndtr(2 / 5), abs=FAINT)
    # A re-run adds its own noise to that of the run: √2 x 5.
    assert row["p_rerun"] == pytest.approx(scipy.special.ndtr(2 / (5 * math.sqrt(2))), abs=FAINT)


def test_three_questions_must_all_pass() -> None:
    row = gate_confidence(results([72, 75, 90]), noise=5).iloc[0]
    assert row["needed"] == 3  # ceil(2.1)
    product = scipy.special.ndtr(2 / 5) * scipy.special.ndtr(5 / 5) * scipy.special.ndtr(20 / 5)
    assert row["p_true"] == pytest.approx(product, abs=FAINT)


def test_noise_from_repeats_is_pooled_and_its_uncertainty_is_drawn() -> None:
    # Squares around the means: 2 x 9, 2 x 4 and 0, with 1 + 1 + 1 degrees of freedom: sd = √(26 / 3).
    run = results([[69, 75], [88, 92], [81, 81]])
    row = gate_confidence(run).iloc[0]
    assert row["repeat_sd"] == pytest.approx(math.sqrt(26 / 3))
    # With the noise estimated from three degrees of freedom the question's true score follows t(3) around its mean.
    # Squares around 72: 9 + 1 + 1 + 9, so the mean of four has an sd of √(20 / 3 / 4).
    (one,) = gate_confidence(results([[69, 73, 71, 75]]))["p_true"]
    assert one == pytest.approx(scipy.special.stdtr(3, 2 / math.sqrt(5 / 3)), abs=FAINT)


def test_means_that_differ_less_than_the_noise_are_drawn_together() -> None:
    # Ten equal means with noise 5: what is known is the mean of all, to 5 / √10. Morris's estimator keeps 2 / 9 of each
    # question's own part.
    true, _ = _draw(pd.DataFrame({"score": [74.0] * 10, "repeats": [1] * 10}), 5.0, math.inf)
    shrunk_sd = math.sqrt(25 * 2 / 9 + (7 / 9) ** 2 * 2.5)
    assert (true >= 70).mean() == pytest.approx(scipy.special.ndtr(4 / shrunk_sd), abs=0.03)


def test_clear_runs_get_a_verdict_and_close_ones_do_not() -> None:
    for marks, verdict in (([90] * 10, "合格"), ([50] * 10, "不合格"), (SEVEN_OF_TEN, "判定保留")):
        assert gate_confidence(results(marks), noise=4).iloc[0]["verdict"] == verdict


def test_the_deciding_question_is_the_one_on_the_line() -> None:
    # Six pass surely, three fail surely: the verdict is that of question 10.
    run = results([95] * 6 + [40] * 3 + [70.5])
    assert gate_confidence(run, noise=4).iloc[0]["deciding_questions"] == "10"
    # With seven sure ones nothing hangs on it.
    assert gate_confidence(results([95] * 7 + [40] * 2 + [70.5]), noise=4).iloc[0]["deciding_questions"] == ""


@pytest.mark.usefixtures("in_japanese")
def test_an_unread_question_is_left_out_counted_and_can_hold_the_verdict_back() -> None:
    # Six of nine would need to pass 7 = ceil(6.3); with the tenth at 0 or 100 the verdict differs.
    run = results([[95, 95.5]] * 6 + [[40, 40.5]] * 3 + [[None, None]])
    row = gate_confidence(run).iloc[0]
    assert (row["n"], row["n_missing"], row["passed"]) == (9, 2, 6)
    assert row["verdict"] == "判定保留"
    assert row["note"] == "この実行は合否を決められません（欠けた点しだいで合否が変わります）。"
    assert row[["p_rerun", "p_true"]].isna().all()
    partly = gate_confidence(results([[95, 95.5]] * 6 + [[40, 40.5]] * 3 + [[95, None]])).iloc[0]
    assert partly[["pass_rate", "pass_rate_low", "pass_rate_high", "p_rerun", "p_true"]].isna().all()
    sure = gate_confidence(results([[95, 95.5]] * 9 + [[None, None]])).iloc[0]
    assert sure["verdict"] == "合格" and "採点できなかった質問 1 問" in sure["note"]
    nothing = gate_confidence(results([None, None])).iloc[0]
    assert (nothing["n"], nothing["verdict"], nothing["mvp_passed"]) == (0, "判定保留", False)


@pytest.mark.usefixtures("in_japanese")
def test_judge_repeats_alone_say_nothing_of_another_answer() -> None:
    run = results([[69, 75], [88, 92], [80, 80]]).rename(columns={"answer_repeat": "judge_repeat"})
    row = gate_confidence(run).iloc[0]
    assert row["repeat_sd"] == pytest.approx(math.sqrt(26 / 3))
    assert "回答の揺れは含みません" in row["note"]


def test_judge_repeats_are_averaged_within_their_answer() -> None:
    answers = results([[69, 75], [88, 92], [80, 80]])
    lower, upper = (
        answers.assign(judge_repeat=i, average_score=answers["average_score"] + d) for i, d in ((0, -3), (1, 3))
    )
    row = gate_confidence(pd.concat([lower, upper])).iloc[0]
    assert row["repeat_sd"] == pytest.approx(math.sqrt(26 / 3))  # of the answers' means, 69 75 88 92 80 80


@pytest.mark.usefixtures("in_japanese")
def test_repeats_without_any_scatter_have_half_a_step_of_noise() -> None:
    for step, marks in ((5, [80, 90, 75]), (10, [80, 80, 90]), (1, [81, 93, 75, 82]), (2.5, [82.5, 90, 80])):
        row = gate_confidence(results([[mark, mark] for mark in marks])).iloc[0]
        assert row["repeat_sd"] == step / 2 and "揺れ0" in row["note"] and f"±{step / 2:g}点" in row["note"]
    assert gate_confidence(results([[90, 90], [95, 95], [85, 85]]))["verdict"].tolist() == ["合格"]


def test_fewer_than_three_further_repeats_do_not_show_the_noise() -> None:
    for marks in ([[90, 90]], [[90, 90, 90]], [[90, 90], [80, 80]]):
        row = gate_confidence(results(marks)).iloc[0]
        assert math.isnan(row["p_true"]) and row["verdict"] == "判定保留"
    assert gate_confidence(results([[90, 90, 90, 90]]))["verdict"].tolist() == ["合格"]


def test_one_row_per_run_in_the_order_of_runs() -> None:
    runs = pd.concat([results([90, 91], run_id="r2"), results([50, 51], run_id="r1")])
    found = gate_confidence(runs, noise=3)
    assert found[["run_id", "verdict"]].to_numpy().tolist() == [["r1", "不合格"], ["r2", "合格"]]


def test_what_is_missing_is_named() -> None:
    with pytest.raises(ConfigError, match="gate_confidence: the frame has no column 'average_score'"):
        gate_confidence(results([70]).drop(columns="average_score"))
    with pytest.raises(ConfigError, match="noise is -1, expected points above 0"):
        gate_confidence(results([70]), noise=-1)
    with pytest.raises(ConfigError, match="no row"):
        gate_confidence(results([70]).head(0))


@pytest.mark.slow
@settings(max_examples=EXAMPLES // 3)
@given(st.lists(st.floats(0, 100), min_size=4, max_size=12))
def test_probabilities_repeat_and_are_never_certain(marks: list[float]) -> None:
    run = results(marks)
    first, again = (gate_confidence(run, noise=5).iloc[0] for _ in range(2))
    assert first["p_true"] == again["p_true"]
    assert 0 < first["p_rerun"] < 1
    assert 0 < first["p_true"] < 1


def test_a_question_without_a_score_is_no_pass_as_in_the_log() -> None:
    one_of_ten = pd.DataFrame({"question_id": range(10), "average_score": [77.0] + [None] * 9})
    (row,) = gate_confidence(one_of_ten).to_dict("records")
    assert (row["n"], row["n_missing"], row["mvp_passed"]) == (1, 9, False)


@pytest.mark.slow
@settings(max_examples=EXAMPLES)
@given(
    st.lists(st.lists(st.sampled_from([None, 40.0, 70.0, 95.0]), min_size=1, max_size=3), min_size=1, max_size=8),
    st.sampled_from([0.0, 60.0, 70.0, 100.0]),
    st.sampled_from([0.0, 0.5, 0.7, 1.0]),
)
def test_the_verdict_of_the_log_and_what_is_said_of_it_never_contradict_each_other(
    marks: list[list[float | None]], line: float, rate: float
) -> None:
    """The log's own rule, by hand: an answer without a score is 0 points, repeats are averaged within their question."""
    rows = [
        {"question_id": question, "judge_repeat": repeat, "average_score": mark, "pass_threshold": line,
         "pass_rate_required": rate}
        for question, repeats in enumerate(marks) for repeat, mark in enumerate(repeats)
    ]  # fmt: skip
    means = [sum(mark or 0.0 for mark in repeats) / len(repeats) for repeats in marks]
    passes = sum(mean >= line - 1e-9 for mean in means) >= math.ceil(rate * len(means) - 1e-9)
    passes &= sum(means) / len(means) >= line - 1e-9
    row = gate_confidence(pd.DataFrame(rows).astype({"average_score": "Float64"}), noise=3.0).iloc[0]
    assert row["mvp_passed"] == (passes and row["n"] > 0)
    assert row["verdict"] != ("不合格" if passes else "合格")


@pytest.mark.slow
def test_a_verdict_of_few_equal_repeats_is_seldom_firm_and_wrong() -> None:
    """Points in steps of ten with a noise of four: repeats are often equal, and their noise is not zero."""
    rng = np.random.default_rng(0)
    for n, repeats in ((1, 4), (2, 3), (3, 2)):
        level = rng.uniform(55, 85, (RUNS, n))
        noisy = level[:, :, None] + 4 * rng.standard_normal((RUNS, n, repeats + 400))
        marks = (10 * np.round(noisy / 10)).clip(0, 100)
        truth = marks[:, :, repeats:].mean(axis=2)
        good = ((truth >= 70).sum(axis=1) >= math.ceil(0.7 * n)) & (truth.mean(axis=1) >= 70)
        run, question, repeat = (axis.ravel() for axis in np.indices((RUNS, n, repeats)))
        frame = pd.DataFrame({"run_id": run, "question_id": question, "answer_repeat": repeat,
                              "average_score": marks[:, :, :repeats].ravel()})  # fmt: skip
        said = gate_confidence(frame)["verdict"].to_numpy()
        assert (((said == "合格") & ~good) | ((said == "不合格") & good)).mean() <= 0.05


def test_a_part_of_a_run_has_no_sure_verdict() -> None:
    whole = results([[90, 91], [95, 94], [88, 88]]).assign(asked=6)
    assert gate_confidence(whole)["verdict"].tolist() == ["合格"]
    part = gate_confidence(whole[whole["question_id"] < 3], noise=2.0).iloc[0]
    assert (part["verdict"], part["mvp_passed"]) == ("判定保留", False) and "4 of 6 judged" in part["note"]
