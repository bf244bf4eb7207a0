"""Judges beside people: published figures, a table on paper, the authors' own test, and labels that do not fit."""

from __future__ import annotations

import math

import pandas as pd
import pytest
from conftest import OTHERS
from hypothesis import given, settings
from hypothesis import strategies as st
from support.score_frames import one_criterion

from socjudge import ConfigError, judge_agreement
from socjudge.stats import judge_vs_people
from socjudge.stats.basics import same_raters

MARKS = st.lists(st.sampled_from([0.0, 40, 65, 70, 85, 100]), min_size=3, max_size=12)


def scores_of(*marks: float | None, judge: str = "A", criterion: str = "正確性") -> pd.DataFrame:
    return pd.DataFrame(
        {
            "judge_model": judge,
            "question_id": range(len(marks)),
            "answer_sha256": [f"answer {i}" for i in range(len(marks))],
            "criterion": criterion,
            "score": pd.array(marks, dtype="Float64"),
        }
    )


def labels_of(*marks: float | None, rater: str = "佐藤", criterion: str = "正確性") -> pd.DataFrame:
    return scores_of(*marks, judge=rater, criterion=criterion).rename(columns={"judge_model": "rater"})


def row_of(found: pd.DataFrame, judge: str, criterion: str = "正確性") -> pd.Series:
    return found[(found["judge_model"] == judge) & (found["criterion"] == criterion)].iloc[0]


@pytest.mark.parametrize("other", ["佐藤 ", "佐藤\u200b", "佐\u00ad藤", "佐_藤", "佐藤さん"])
def test_one_person_in_two_spellings_is_one_rater_everywhere(other: str) -> None:
    marks = [40.0, 60, 80, 100, 20, 70, 50, 90]
    one = labels_of(*marks).assign(again=False)
    both = pd.concat([one, labels_of(*[mark - 5 for mark in marks], rater=other).assign(again=True)])
    scores = scores_of(*marks)
    assert judge_agreement(both, by="again")["n"].tolist() == [8, 8]
    with pytest.raises(ConfigError, match="there is one rater"):
        judge_agreement(both, by="rater")
    assert set(judge_agreement(scores, both)["n_raters"]) == {2}
    assert set(judge_agreement(scores, both)["n_raters"]) == {2}


@pytest.mark.parametrize(
    "spellings",
    [
        [
            "sato_h",
            "sato-h",
            "sato\u2010h",
            "sato\u2014h",
            "Sato H",
            "“sato h”",
            "sato & h",
            "sato/h",
            "sato.h",
            "sato|h",
        ],
        ["strauß", "STRAUSS", "Strauss さん"],
        ["佐藤花子", "佐藤〔花子〕", "佐藤―花子", "佐藤\t花子"],
    ],
)
def test_signs_and_case_make_no_second_person(spellings: list[str]) -> None:
    assert same_raters(pd.DataFrame({"rater": spellings}))["rater"].unique().tolist() == spellings[:1]


def test_letters_and_digits_tell_people_apart() -> None:
    names = ["佐藤", "佐藤1", "佐藤2", "佐々藤", "さとう", "サトー", "sato", "satō", "☆", "★"]
    assert same_raters(pd.DataFrame({"rater": names}))["rater"].tolist() == names


@pytest.mark.few(0)
@pytest.mark.slow
def test_llmbars_published_statistics_to_the_printed_digit() -> None:
    published = pd.read_json(OTHERS / "llmbar_published.jsonl", lines=True).set_index(["set", "evaluator"])
    decisions = pd.read_csv(OTHERS / "llmbar_judgements.csv.gz")
    checked = 0
    for key, part in decisions.groupby(["set", "evaluator"]):
        printed = published.loc[key]
        if part["winner_unswapped"].isna().any():
            continue  # they count a missing decision as a label
        # 100 points where the first answer wins.
        points = part.assign(judge=(part["winner_unswapped"] == 1) * 100.0, gold=(part["label"] == 1) * 100.0)
        labels = one_criterion(points[["item", "gold"]]).rename(columns={"judge_model": "rater"})
        row = row_of(judge_vs_people(one_criterion(points[["item", "judge"]]), labels), "judge")
        hits = round(row["verdict_agreement"] * row["n"])
        assert f"{hits} / {row['n']} = {hits / row['n'] * 100}%" == printed["correct_False"], key
        assert row["verdict_agreement"] == hits / row["n"]
        checked += 1
    assert checked > 100


def test_the_table_of_verdicts_on_paper() -> None:
    # People pass 90, 80, 70, 75; the judge passes the first three of them and one of the two that people fail.
    found = row_of(judge_vs_people(scores_of(95, 70, 72, 60, 75, 20), labels_of(90, 80, 70, 75, 50, 30)), "A")
    assert (found["tpr"], found["tnr"], found["base_rate"], found["judge_rate"]) == (0.75, 0.5, 4 / 6, 4 / 6)
    # Wilson (1927) at 3 of 4 and 1 of 2.
    assert (found["tpr_low"], found["tpr_high"]) == pytest.approx((0.3006, 0.9544), abs=1e-4)
    assert (found["tnr_low"], found["tnr_high"]) == pytest.approx((0.0945, 0.9055), abs=1e-4)
    # Differences 5, -10, 2, -15, 25, -10.
    assert found["bias"] == pytest.approx(-0.5)
    # Agreement 4/6, chance 2/3 x 2/3 + 1/3 x 1/3 = 5/9.
    assert found["kappa"] == pytest.approx((4 / 6 - 5 / 9) / (4 / 9))


def test_people_agree_among_themselves_first() -> None:
    people = pd.concat([labels_of(90, 80, 40, 30), labels_of(80, 80, 50, 30, rater="鈴木")])
    among = judge_agreement(people, by="rater").set_index("criterion").loc["正確性"]
    assert (among["n_raters"], among["n"]) == (2, 4)
    assert row_of(judge_vs_people(scores_of(1, 2, 3, 4), people), "A")["n"] == 4


@pytest.mark.usefixtures("in_japanese")
def test_people_all_passing_leaves_the_rate_of_fails_unknown() -> None:
    found = row_of(judge_vs_people(scores_of(90, 60, 80), labels_of(80, 90, 100)), "A")
    assert math.isnan(found["tnr"]) and math.isnan(found["tnr_low"])


def test_a_mark_that_could_not_be_read_is_left_out_and_counted() -> None:
    found = row_of(judge_vs_people(scores_of(90, None, 80, 10), labels_of(80, 90, 100, 0)), "A")
    assert (found["n"], found["n_missing"]) == (3, 1)


def test_labels_that_do_not_fit_are_refused() -> None:
    scores, labels = scores_of(90, 60, 80), labels_of(80, 90, 100)
    with pytest.raises(ConfigError, match="none of the 3 labelled answers was scored by the judge 'A'"):
        judge_vs_people(scores, labels.assign(answer_sha256="another"))
    with pytest.raises(ConfigError, match="on the same criteria"):
        judge_vs_people(scores, labels.assign(criterion="簡潔性"))
    with pytest.raises(ConfigError, match="labels has no score"):
        judge_vs_people(scores, labels.iloc[:0])
    with pytest.raises(ConfigError, match="no column 'rater'"):
        judge_vs_people(scores, labels.drop(columns="rater"))
    with pytest.raises(ConfigError, match="no labelled answer has a score"):
        judge_vs_people(scores_of(None, None), labels_of(80, 90))


@pytest.mark.usefixtures("in_japanese")
def test_labels_of_answers_that_the_judge_did_not_mark_are_named() -> None:
    found = row_of(judge_vs_people(scores_of(90, 60, 80), labels_of(80, 90, 100, 50)), "A")
    assert found["n"] == 3 and "1 件は使っていません" in found["note"]


@pytest.mark.slow
@settings(max_examples=15)
@given(MARKS, st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(marks: list[float], random: object) -> None:
    scores, labels = scores_of(*marks), labels_of(*reversed(marks))
    seed = random.randint(0, 2**31)  # type: ignore[attr-defined]
    pd.testing.assert_frame_equal(
        judge_vs_people(scores, labels),
        judge_vs_people(scores.sample(frac=1, random_state=seed), labels.sample(frac=1, random_state=seed)),
    )


@pytest.mark.slow
@settings(max_examples=15)
@given(MARKS)
def test_a_judge_that_marks_as_people_do_is_perfect(marks: list[float]) -> None:
    found = row_of(judge_vs_people(scores_of(*marks), labels_of(*marks)), "A")
    assert (found["bias"], found["verdict_agreement"]) == (0, 1)
