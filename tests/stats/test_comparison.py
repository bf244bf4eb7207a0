"""Two judges on the same answers: sums on paper, real judges against scipy, refusals, and laws that must hold."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from support.score_frames import CRITERIA, framed, judged, judges_frame, one_criterion, six_judges

from socjudge import ConfigError, compare_judges, verdict_flips
from socjudge.base.messages import speaking
from socjudge.stats.basics import OVERALL

OLD = [70, 80, 90, 60, 75, 85, 95, 72, 88, 66]
NEW = [65, 74, 88, 55, 71, 80, 93, 68, 81, 64]  # differences -5 -6 -2 -5 -4 -5 -2 -4 -7 -2, mean -4.2


def overall(frame: pd.DataFrame) -> pd.Series:
    return frame[frame["criterion"] == OVERALL].iloc[0]


@pytest.mark.usefixtures("in_japanese")
def test_ten_questions_on_paper() -> None:
    found = compare_judges(judges_frame(old=OLD, new=NEW), baseline="old")
    assert list(found["criterion"]) == [*CRITERIA, OVERALL]
    assert list(found["criterion"].cat.categories) == [*CRITERIA, OVERALL]
    row = overall(found)
    assert (row["judge_model"], row["baseline"], row["n"], row["n_missing"]) == ("new", "old", 10, 0)
    assert (row["baseline_mean"], row["mean"], row["mean_difference"]) == pytest.approx((78.1, 73.9, -4.2))
    # Squared distances from -4.2: 0.64 + 3.24 + 4.84 + 0.64 + 0.04 + 0.64 + 4.84 + 0.04 + 7.84 + 4.84 = 27.6,
    # sd = √(27.6 / 9) = 1.7512, and 2.2622 x 1.7512 / √10 = 1.2527; half a step of 1 / 10 more, as the marks are whole.
    assert (row["ci_low"], row["ci_high"]) == pytest.approx((-5.5027, -2.8973), abs=1e-4)
    assert row["p_value"] == 2 / 1024  # all ten differences point one way
    assert row["p_holm"] == 2 / 1024
    assert found["p_holm"].iloc[0] == pytest.approx(6 * 2 / 1024)
    assert row["detectable_difference"] == pytest.approx(1.000873 * 1.7512, abs=1e-4)  # see test_stats
    assert found["detectable_difference"].iloc[0] == pytest.approx(1.385485 * 1.7512, abs=1e-4)
    assert (row["flips_to_pass"], row["flips_to_fail"], row["flipped_questions"]) == (0, 2, "1, 8")
    assert row["conclusion"] == (
        "oldに比べ、newは同じ回答に4.2点低く付け、合格8問が6問になります。"
        "偶然では説明しにくい差です（95%区間 -5.5〜-2.9点、p=0.002、10問）。"
    )
    assert found["conclusion"].iloc[0] == (
        "-4.2点。偶然では説明しにくい差です（95%区間 -5.5〜-2.9点、p=0.012、10問）。"
    )
    assert (row["lowest"], row["highest"], row["flipped_questions"], row["note"]) == (-7, -2, "1, 8", "")


@pytest.mark.usefixtures("in_japanese")
def test_no_difference_is_reported_with_what_could_have_been_seen() -> None:
    scores = judges_frame(a=[70, 80, 90, 60, 75, 85, 95, 72, 88, 66], b=[82, 71, 99, 49, 84, 76, 85, 82, 80, 75])
    row = overall(compare_judges(scores, baseline="a"))
    d = np.array([12, -9, 9, -11, 9, -9, -10, 10, -8, 9])
    visible = 1.000873 * d.std(ddof=1)
    assert "偶然の差かもしれません（95%区間 " in row["conclusion"]
    assert f"10問では±{visible:.1f}点未満の差は検出できません。" in row["conclusion"]


@pytest.mark.usefixtures("in_japanese")
def test_five_questions_cannot_show_any_difference() -> None:
    row = overall(compare_judges(judges_frame(a=[50, 60, 70, 80, 90], b=[10, 21, 33, 40, 52]), baseline="a"))
    assert row["p_value"] == 2 / 32
    assert math.isnan(row["detectable_difference"])
    assert row["conclusion"].startswith("aに比べ、bは同じ回答に38.8点低く付け、合格3問が0問になります。")
    assert "（p=0.062、5問の差は-40.0〜-37.0点。10問未満では区間を出しません）" in row["conclusion"]
    assert row["conclusion"].endswith("5問では、差と偶然を区別できません。")
    assert math.isnan(row["ci_low"]) and math.isnan(row["ci_high"])


@pytest.mark.usefixtures("in_japanese")
def test_the_same_marks_twice_are_no_difference() -> None:
    row = overall(compare_judges(judges_frame(a=OLD, b=OLD), baseline="a"))
    assert (row["mean_difference"], row["p_value"], row["flipped_questions"]) == (0, 1, "")
    assert math.isnan(row["ci_low"]) and math.isnan(row["detectable_difference"])  # no scatter to judge by
    assert row["conclusion"] == "10問すべて、どの観点も同じ点で、合格は8問のままです。" and not row["note"]


@pytest.mark.slow
@pytest.mark.usefixtures("in_japanese")
def test_the_note_warns_where_nearly_all_differences_are_the_same() -> None:
    most, half = (
        overall(compare_judges(judges_frame(a=OLD, b=np.add(OLD, d)), baseline="a"))
        for d in ([0] * 8 + [5, -20], [0] * 7 + [3, 5, -20])
    )
    assert "差が同じ質問が8割以上あるため、区間が実際より狭く出ているおそれがあります" in most["note"]
    assert "8割以上" not in half["note"]


@pytest.mark.usefixtures("in_japanese")
def test_repeats_are_averaged_first_and_unread_ones_are_counted() -> None:
    scores = framed(
        judged("a", 1, 60),
        judged("a", 1, 80, judge_repeat=1),
        judged("b", 1, 90),
        judged("b", 1, None, judge_repeat=1),
        judged("a", 2, 50),
        judged("b", 2, None),
        judged("a", 3, 50),
        judged("b", 3, 40),
    )
    found = compare_judges(scores, baseline="a")
    first = found.iloc[0]
    # Question 1: 90 - 70; question 3: -10; question 2 has no mark of b.
    assert (first["n"], first["n_missing"], first["mean_difference"]) == (2, 2, 5)
    assert overall(found)["n_missing"] == 12
    assert "未採点 2 件は除外" in first["note"]


def test_an_answer_counts_in_the_mean_with_all_criteria_or_not_at_all() -> None:
    scores = judges_frame(a=[70, 80], b=[[None, 90, 90, 90, 90, 90], 60])
    row = overall(compare_judges(scores, baseline="a"))
    assert (row["n"], row["mean_difference"]) == (1, -20)


def test_different_answers_are_refused_and_rejudge_is_named() -> None:
    scores = framed(*(judged("a", q, 80) for q in (1, 2)), judged("b", 1, 80), judged("b", 2, 80, answer="another"))
    with pytest.raises(ConfigError, match=r"'a' and 'b' judged different answers to question 2.*use rejudge\(run"):
        compare_judges(scores, baseline="a")
    with pytest.raises(ConfigError, match="share no question"):
        compare_judges(framed(judged("a", 1, 80), judged("b", 2, 80)), baseline="a")


@pytest.mark.usefixtures("in_japanese")
def test_answers_that_only_one_judged_are_left_out_and_counted() -> None:
    scores = framed(
        judged("a", 1, 80), judged("a", 1, 20, answer="of another run"), judged("b", 1, 70), judged("a", 2, 5)
    )
    row = overall(compare_judges(scores, baseline="a"))
    assert (row["n"], row["mean_difference"]) == (1, -10)
    assert "片方だけが採点した回答 2 件は除外" in row["note"]


@pytest.mark.slow
@pytest.mark.usefixtures("in_japanese")
def test_prompts_and_runs_can_be_compared_too() -> None:
    parts = [judged("j", q, mark, prompt_id="p1", run_id="r1") for q, mark in enumerate(OLD)]
    parts += [judged("j", q, mark, prompt_id="p2", run_id="r2") for q, mark in enumerate(NEW)]
    for by, values in (("prompt_id", ("p1", "p2")), ("run_id", ("r1", "r2"))):
        found = compare_judges(framed(*parts), baseline=values[0], by=by)
        assert list(found[by].unique()) == [values[1]]
        assert overall(found)["mean_difference"] == pytest.approx(-4.2)
        assert "注意" not in overall(found)["note"]


def test_the_note_warns_where_judge_and_prompt_changed_together() -> None:
    scores = framed(judged("a", 1, 80), judged("b", 1, 70, prompt_id="other"))
    told = "Caution: several things differ or are not known (judge, judge prompt), so nobody can say"
    assert told in overall(compare_judges(scores, baseline="a"))["note"]
    with speaking("ja"):
        assert "注意: Judge、プロンプト が異なる" in overall(compare_judges(scores, baseline="a"))["note"]


def test_holm_counts_the_criteria_of_all_judges_and_overall_apart() -> None:
    found = compare_judges(judges_frame(a=OLD, b=NEW, c=NEW), baseline="a")
    assert list(found["judge_model"].unique()) == ["b", "c"]
    is_overall = found["criterion"] == OVERALL
    assert found.loc[~is_overall, "p_holm"].tolist() == pytest.approx([12 * 2 / 1024] * 12)
    assert found.loc[is_overall, "p_holm"].tolist() == pytest.approx([2 * 2 / 1024] * 2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda frame: frame.assign(criterion="総合"), "compare_judges: a criterion is named 総合"),
        (lambda frame: frame.drop(columns="answer_sha256"), "compare_judges: the frame has no column 'answer_sha256'"),
        (lambda frame: frame.assign(answer_sha256=None), "answer_sha256 is missing in 60 rows of 'a'"),
        (lambda frame: frame[frame["judge_model"] == "a"], "every row has judge_model 'a'"),
        (
            lambda frame: frame.assign(judge_model=frame["judge_model"].cat.rename_categories({"a": "c"})),
            "no row has judge_model 'a'; the frame has 'c', 'b'",
        ),
    ],
)
def test_what_cannot_be_compared_is_refused_with_the_reason(change: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        compare_judges(change(judges_frame(a=OLD, b=NEW)), baseline="a")  # type: ignore[operator]


def test_the_flips_are_named_with_their_direction() -> None:
    flips = verdict_flips(judges_frame(old=[70, 69, 80], new=[69.5, 70, 90]), baseline="old")
    assert flips[["question_id", "direction"]].to_numpy().tolist() == [[1, "合格→不合格"], [2, "不合格→合格"]]
    assert flips["difference"].tolist() == pytest.approx([-0.5, 1])
    assert list(flips["category"]) == ["正常系", "正常系"]
    none = verdict_flips(judges_frame(a=OLD, b=OLD), baseline="a")
    assert none.empty
    assert list(none.columns) == list(flips.columns)


@pytest.mark.usefixtures("in_japanese")
def test_a_difference_that_is_the_same_everywhere_has_no_interval_to_tell() -> None:
    row = overall(compare_judges(judges_frame(a=[80] * 10, b=[77] * 10), baseline="a"))
    assert row["conclusion"] == (
        "aに比べ、bは同じ回答に3.0点低く付け、合格は10問のままです。"
        "偶然では説明しにくい差です（p=0.002、10問すべて同じ差のため区間はありません）。"
    )


def test_a_mean_of_sixths_that_is_seventy_passes() -> None:
    sixths = [71, 70, 71, 69, 69, 70]  # 420 / 6
    assert verdict_flips(judges_frame(a=[sixths, 50], b=[70, 50]), baseline="a").empty


@pytest.mark.slow
def test_real_judges_are_compared_as_scipy_compares_them() -> None:
    marks = six_judges()
    found = compare_judges(one_criterion(marks), baseline="gpt-4.1-2025-04-14")
    assert len(found) == 10  # five judges, the criterion and 総合
    for row in found.to_dict("records"):
        pair = marks[["gpt-4.1-2025-04-14", row["judge_model"]]].dropna().to_numpy()
        test = scipy.stats.ttest_rel(pair[:, 1], pair[:, 0])
        assert row["n"] == len(pair)
        half_a_step = np.diff(np.unique(pair[:, 1] - pair[:, 0])).min() / 2 / len(pair)
        expected = test.confidence_interval().low - half_a_step, test.confidence_interval().high + half_a_step
        assert (row["ci_low"], row["ci_high"]) == pytest.approx(expected)
        # With over a hundred questions the sign flips come near the t test; 0.03 is 3 standard errors.
        assert row["p_value"] == pytest.approx(max(test.pvalue, 1 / 10_000), abs=0.03)
        flips = int(((pair[:, 0] >= 70) != (pair[:, 1] >= 70)).sum())
        assert row["flips_to_pass"] + row["flips_to_fail"] == flips


marks_of_ten = st.lists(st.integers(0, 20).map(lambda step: step * 5.0), min_size=7, max_size=7)


@pytest.mark.slow
@settings(max_examples=8)
@given(marks_of_ten, marks_of_ten, st.permutations(range(7)))
def test_swapping_the_baseline_mirrors_the_table_and_order_does_not_matter(
    a: list[float], b: list[float], order: list[int]
) -> None:
    scores = judges_frame(a=a, b=b)
    scores = scores[scores["criterion"] == "正確性"]  # 総合 is then the same
    there, back = overall(compare_judges(scores, baseline="a")), overall(compare_judges(scores, baseline="b"))
    assert there["mean_difference"] == pytest.approx(-back["mean_difference"])
    assert (there["ci_low"], there["ci_high"]) == pytest.approx((-back["ci_high"], -back["ci_low"]), nan_ok=True)
    assert there["p_value"] == back["p_value"] > 0
    assert (there["flips_to_pass"], there["flips_to_fail"]) == (back["flips_to_fail"], back["flips_to_pass"])
    shuffled = pd.concat([scores[scores["question_id"] == q + 1] for q in order])
    assert overall(compare_judges(shuffled, baseline="a"))["p_value"] == there["p_value"]


@pytest.mark.slow
def test_the_same_points_more_for_both_judges_change_nothing() -> None:
    a, b = np.array(OLD) - 50, np.array(NEW) - 50
    columns = ["mean_difference", "ci_low", "ci_high", "p_value", "detectable_difference"]
    low, high = (overall(compare_judges(judges_frame(a=a + up, b=b + up), baseline="a"))[columns] for up in (0, 40))
    assert low.tolist() == pytest.approx(high.tolist())


def test_an_interval_and_words_that_differ_say_why() -> None:
    # Of six criteria one moves: by itself that is a difference, adjusted for six it is none.
    rows = [
        {"question_id": question, "answer_sha256": question, "criterion": f"観点{criterion}", "judge_model": judge,
         "score": 80 + (moved if judge == "B" and criterion == 0 else (-1) ** question * 3 if judge == "B" else 0)}
        for question, moved in enumerate([-9, -12, 3, -8, -10, 2, -7, -9, 1, -6])
        for criterion in range(6)
        for judge in "AB"
    ]  # fmt: skip
    row = compare_judges(pd.DataFrame(rows), baseline="A").iloc[0]
    assert row["ci_high"] < 0 and row["p_value"] < 0.05 < row["p_holm"]
    assert "This may be chance" in row["conclusion"] and "interval disagree, so it is not called a" in row["conclusion"]


def test_flips_that_nobody_can_see_are_counted() -> None:
    frame = judges_frame(a=[80, 80, 60, 60], b=[80, None, None, 75])
    flips = verdict_flips(frame, baseline="a")
    assert dict(zip(flips["question_id"], flips["direction"], strict=True)) == {2: "", 3: "", 4: "不合格→合格"}
    seen = flips["direction"] != ""
    assert flips.loc[~seen, ["mean", "difference"]].isna().all(axis=None)
    assert flips.loc[~seen, "note"].str.contains("nobody can see").all()
    row = overall(compare_judges(frame, baseline="a"))
    assert (row["flips_to_pass"], row["flips_to_fail"], row["flips_unseen"]) == (1, 0, 2)
    assert "may differ unseen, as a score is missing: 2." in row["note"]


def test_questions_that_only_one_of_the_two_judged_are_listed_as_unseen() -> None:
    frame = judges_frame(a=[80, 80, 80], b=[80, 80, 80])
    flips = verdict_flips(frame[(frame["judge_model"] == "a") | (frame["question_id"] > 1)], baseline="a")
    assert flips[["question_id", "direction", "n"]].values.tolist() == [[1, "", 0]]
