"""Agreement of judges and people against published tables, other libraries and sums on paper."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from conftest import OTHERS
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from support.score_frames import framed, judged, judges_frame, one_criterion, six_judges

from socjudge import ConfigError, judge_agreement, summarise_scores
from socjudge.stats import judge_vs_people
from socjudge.stats.agreement import fleiss_kappa, krippendorff_alpha
from socjudge.stats.basics import OVERALL, jackknife_interval
from socjudge.stats.people import cohen_kappa, loa_reach

X = math.nan
# Krippendorff (2011), Computing Krippendorff's Alpha-Reliability, section C: four observers, twelve units.
KRIPPENDORFF = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, X, X, X],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, X, 3],
    [X, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, X],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, X],
]
# Shrout and Fleiss (1979), table 2: six targets, four judges.
SHROUT = [[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]]
ratings = arrays(float, (6, 3), elements=st.integers(0, 20).map(lambda step: step * 5.0))


def overall(frame: pd.DataFrame) -> pd.Series:
    return frame[frame["criterion"] == OVERALL].iloc[0]


def beside(scores: pd.DataFrame, judge: str, person: str) -> pd.Series:
    """One judge beside another as if that were a person."""
    labels = scores[scores["judge_model"] == person].assign(rater=person)
    return overall(judge_vs_people(scores[scores["judge_model"] == judge], labels))


# The coefficients


def test_alpha_of_krippendorffs_own_example() -> None:
    assert krippendorff_alpha(np.array(KRIPPENDORFF).T) == pytest.approx(0.849, abs=5e-4)


def test_alpha_of_real_judges_is_that_of_nltk() -> None:
    # nltk 3.10: AnnotationTask(..., distance=interval_distance).alpha(); the second set has a mark missing.
    marks = six_judges().drop(columns="item")
    assert krippendorff_alpha(marks.dropna()) == pytest.approx(0.6249845942045646)
    assert krippendorff_alpha(marks) == pytest.approx(0.6258639168080633)


def test_fleiss_kappa_of_a_published_table_and_of_statsmodels() -> None:
    # Ten subjects, fourteen raters, five categories (https://en.wikipedia.org/wiki/Fleiss'_kappa): 0.210.
    counts = """0 0 0 0 14, 0 2 6 4 2, 0 0 3 5 6, 0 3 9 2 0, 2 2 8 1 1,
                7 7 0 0 0, 3 2 6 3 0, 2 5 3 2 2, 6 5 2 1 0, 0 2 2 3 7"""
    labels = [np.repeat(range(5), [int(count) for count in row.split()]) for row in counts.split(",")]
    assert fleiss_kappa(np.array(labels)) == pytest.approx(0.210, abs=5e-4)
    passed = six_judges().drop(columns="item").dropna() >= 70
    assert fleiss_kappa(passed) == pytest.approx(0.5273564847625798)  # statsmodels 0.15


def test_cohens_kappa_on_paper() -> None:
    # 20 both yes, 15 both no, 5 and 10 apart: agreement 0.7, chance 0.5 x 0.6 + 0.5 x 0.4 = 0.5, so 0.2 / 0.5.
    first, second = np.repeat([1, 1, 0, 0], [20, 5, 10, 15]), np.repeat([1, 0, 1, 0], [20, 5, 10, 15])
    assert cohen_kappa(first, second) == pytest.approx(0.4)


def test_cohens_kappa_of_three_people_and_two_judges_is_that_of_sklearn() -> None:
    rows = pd.read_json(OTHERS / "pandalm.jsonl", lines=True)
    # sklearn 1.9: cohen_kappa_score; statsmodels 0.15: fleiss_kappa.
    for first, second, expected in (
        ("annotator1", "annotator2", 0.7771808646712715),
        ("annotator1", "annotator3", 0.7856685860524633),
        ("annotator2", "annotator3", 0.752073497511803),
        ("annotator1", "pandalm7b", 0.39334296888284304),
    ):
        assert cohen_kappa(rows[first], rows[second]) == pytest.approx(expected)
    read = rows[rows["gpt35"].astype(str).isin(["0", "1", "2"])]
    assert cohen_kappa(read["annotator1"], read["gpt35"].astype(int)) == pytest.approx(0.5418580202512036)
    assert fleiss_kappa(rows[["annotator1", "annotator2", "annotator3"]]) == pytest.approx(0.7715692773936926)


@pytest.mark.slow
def test_kappa_of_a_judge_with_itself_is_the_one_that_llmbar_published() -> None:
    published = pd.read_json(OTHERS / "llmbar_published.jsonl", lines=True)
    decisions = pd.read_csv(OTHERS / "llmbar_judgements.csv.gz")
    checked = 0
    for (group, evaluator), part in decisions.groupby(["set", "evaluator"]):
        row = published[(published["set"] == group) & (published["evaluator"] == evaluator)].iloc[0]
        if part[["winner_unswapped", "winner_swapped"]].isna().any(axis=None):
            continue  # they count a missing decision as a label
        kappa = cohen_kappa(part["winner_unswapped"], part["winner_swapped"])
        # Both orders are coded alike, so that this one of their kappas is right. Those with the gold labels are not: their
        # script turns a decision for the second answer into 0 and leaves the label at 2.
        assert kappa == pytest.approx(row["kappa_agreement"]), (group, evaluator)
        checked += 1
    assert checked == 117


@pytest.mark.slow
def test_accuracy_and_agreement_of_real_judges_are_those_that_llmbar_published() -> None:
    published = pd.read_json(OTHERS / "llmbar_published.jsonl", lines=True)
    published = published[published["set"] == "CaseStudy/Normal"].set_index("evaluator")
    decisions = pd.read_csv(OTHERS / "llmbar_judgements.csv.gz").query("set == 'CaseStudy/Normal'")
    orders = {"winner_unswapped": "correct_False", "winner_swapped": "correct_True"}
    checked = 0
    for evaluator, part in decisions.groupby("evaluator"):
        if part[list(orders)].isna().any(axis=None):
            continue
        row = published.loc[evaluator]
        # 100 points where the decision is the gold label's: the mean is the accuracy in per cent.
        correct = part[list(orders)].eq(part["label"], axis=0) * 100.0
        summary = summarise_scores(one_criterion(correct.assign(item=part["item"])), by="judge_model")
        for order, found in summary.set_index("judge_model").iterrows():
            hits, total = (int(x) for x in row[orders[str(order)]].split("=")[0].split("/"))
            assert (found["n"], found["mean"]) == (total, pytest.approx(100 * hits / total))
        # 100 points where the first answer wins: the same verdict in both orders.
        first = (part[list(orders)] == 1) * 100.0
        pair = overall(judge_agreement(one_criterion(first.assign(item=part["item"]))))
        same, total = (int(x) for x in row["equal"].split("=")[0].split("/"))
        assert (pair["n"], pair["verdict_agreement"]) == (total, pytest.approx(same / total))
        checked += 1
    assert checked > 20


@pytest.mark.slow
def test_people_beside_a_judge_agree_as_sklearn_says() -> None:
    rows = pd.read_json(OTHERS / "pandalm.jsonl", lines=True)
    # The first answer wins: 100 points; a tie: 50; the second wins: 0. Passing is winning.
    names = ["annotator1", "annotator2", "annotator3", "pandalm7b"]
    points = rows[names].replace({0: 50.0, 1: 100.0, 2: 0.0}).assign(item=rows["idx"])
    judge = one_criterion(points[["pandalm7b", "item"]])
    people = one_criterion(points.drop(columns="pandalm7b")).rename(columns={"judge_model": "rater"})
    # sklearn 1.9: accuracy_score and cohen_kappa_score of the wins; scipy 1.17: spearmanr of the points.
    for raters, agreement, kappa in (
        (("pandalm7b", "annotator1"), 0.7164179104477612, 0.4161443204402997),
        (("pandalm7b", "annotator2"), 0.6965174129353234, 0.36841291917787056),
        (("annotator1", "annotator2"), 0.900497512437811, 0.7934011717545483),
    ):
        row = beside(one_criterion(points), *raters)
        assert (row["n"], row["verdict_agreement"], row["kappa"]) == (
            201,
            pytest.approx(agreement),
            pytest.approx(kappa),
        )
    first = beside(one_criterion(points), "pandalm7b", "annotator1")
    assert first["rank_agreement"] == pytest.approx(0.41031625591318877)
    group = overall(judge_agreement(judge, people))
    assert (group["n_raters"], group["n_complete"]) == (4, 201)
    assert group["kappa"] == pytest.approx(0.5811641729862675)  # statsmodels 0.15: fleiss_kappa of the wins


def test_repeated_runs_of_a_real_judge_agree_as_published() -> None:
    part = pd.read_csv(OTHERS / "judgekeeper.csv")
    table = part.pivot(index="id", columns="run", values="verdict")
    assert (table[2] == table[3]).mean() == pytest.approx(0.967, abs=5e-4)
    assert fleiss_kappa(table.to_numpy(dtype=str)) == pytest.approx(0.9544534412955465)  # statsmodels 0.15
    points = ((table == "pass") * 100.0).rename(columns=str).reset_index()
    two = one_criterion(points, "id").query("judge_model in ('2', '3')")
    assert overall(judge_agreement(two))["verdict_agreement"] == pytest.approx(0.967, abs=5e-4)


def test_coefficients_without_anything_to_compare_are_missing() -> None:
    assert math.isnan(krippendorff_alpha([[50, X], [X, 70]]))
    assert math.isnan(krippendorff_alpha([[50, 50], [50, 50]]))
    assert math.isnan(cohen_kappa([True, True], [True, True]))
    assert math.isnan(fleiss_kappa([[1, 1], [1, 1]]))


@pytest.mark.slow
@given(ratings)
def test_coefficients_do_not_depend_on_the_order_of_raters_or_the_zero_of_the_scale(x: np.ndarray) -> None:
    value = krippendorff_alpha(x)
    for other in (x[:, ::-1], x[::-1], x + 17, x * 3):
        assert krippendorff_alpha(other) == pytest.approx(value, nan_ok=True, abs=1e-9)
    assert not value > 1 + 1e-12
    assert krippendorff_alpha(np.column_stack([x[:, 0]] * 3)) == pytest.approx(1 if np.ptp(x[:, 0]) else X, nan_ok=True)


# The tables


def test_the_interval_leaves_out_one_question_at_a_time_or_a_block_of_many(monkeypatch: pytest.MonkeyPatch) -> None:
    few = judges_frame(a=[60, 70, 80, 90, 20], b=[64, 68, 86, 96, 30])
    row = overall(judge_agreement(few))
    table = np.array([[60, 64], [70, 68], [80, 86], [90, 96], [20, 30]], dtype=float)
    left_out = [krippendorff_alpha(np.delete(table, number, axis=0)) for number in range(5)]
    ends = jackknife_interval(krippendorff_alpha(table), left_out, scale="agreement")
    assert [row["alpha_low"], row["alpha_high"]] == pytest.approx(ends, abs=1e-9)
    monkeypatch.setattr("socjudge.stats.agreement.BLOCKS", 6)  # 200 else, which takes as many questions
    rng = np.random.default_rng(0)
    first = rng.integers(40, 100, 12).astype(float)
    table = np.column_stack([first, first + rng.integers(-5, 6, len(first))])
    row = overall(judge_agreement(judges_frame(a=table[:, 0], b=table[:, 1])))
    blocks = [krippendorff_alpha(np.delete(table, [one, one + 6], axis=0)) for one in range(6)]
    ends = jackknife_interval(krippendorff_alpha(table), blocks, scale="agreement")
    assert [row["alpha_low"], row["alpha_high"]] == pytest.approx(ends, abs=1e-9)


def test_two_judges_on_paper() -> None:
    row = beside(judges_frame(a=[60, 70, 80, 90], b=[64, 68, 86, 96]), "b", "a")
    assert row["n"] == 4 and "4" in row["note"]
    # Differences 4, -2, 6, 6: mean 3.5; squares around it 0.25 + 30.25 + 6.25 + 6.25 = 43, sd = √(43 / 3) = 3.786.
    assert row["bias"] == 3.5
    reach = 3.1824 * math.sqrt(1 + 1 / 4)  # t of three degrees of freedom, for one more difference
    assert (row["loa_low"], row["loa_high"]) == pytest.approx((3.5 - reach * 3.786, 3.5 + reach * 3.786), abs=1e-3)
    # t of three degrees of freedom: 3.1824 x 3.786 / 2 = 6.024; half a step of 2 / 4 more: 6.274.
    assert (row["bias_low"], row["bias_high"]) == pytest.approx((3.5 - 6.274, 3.5 + 6.274), abs=1e-3)
    # Passed: a no yes yes yes, b no no yes yes: agreement 3/4, chance 3/8 + 1/8, kappa (3/4 - 1/2) / (1/2).
    assert (row["verdict_agreement"], row["base_rate"], row["judge_rate"]) == (0.75, 0.75, 0.5)
    assert row["kappa"] == pytest.approx(0.5)
    assert row["rank_agreement"] == pytest.approx(1)


def test_rank_agreement_is_scipys_on_real_judges() -> None:
    marks = six_judges().dropna()
    for judge in marks.columns[2:]:
        row = beside(judges_frame(a=marks[judge].tolist(), b=marks["gpt-4-turbo-preview"].tolist()), "a", "b")
        expected = scipy.stats.spearmanr(marks["gpt-4-turbo-preview"], marks[judge]).statistic
        assert row["rank_agreement"] == pytest.approx(expected)
    assert math.isnan(beside(judges_frame(a=[1, 2, 3], b=[5, 5, 5]), "a", "b")["rank_agreement"])


def test_the_limits_of_agreement_of_bland_and_altman() -> None:
    # Bland and Altman (1986): peak flow (here in 10 l/min) by a large and a mini meter; mean difference 2.1 (here 0.21),
    # sd 38.8, limits mean ± 2 sd = -79.7 and 75.5 with the other sign.
    large = [494, 395, 516, 434, 476, 557, 413, 442, 650, 433, 417, 656, 267, 478, 178, 423, 427]
    mini = [512, 430, 520, 428, 500, 600, 364, 380, 658, 445, 432, 626, 260, 477, 259, 350, 451]
    row = beside(judges_frame(a=[x / 10 for x in large], b=[x / 10 for x in mini]), "b", "a")
    assert row["bias"] == pytest.approx(0.21, abs=5e-3)
    assert (row["loa_high"] - row["bias"]) / loa_reach(17) == pytest.approx(3.88, abs=5e-3)
    assert loa_reach(10**6) == pytest.approx(1.96, abs=1e-4)


def test_all_judges_at_once_on_paper() -> None:
    scores = judges_frame(**{name: column for name, column in zip("abcd", np.array(SHROUT).T * 10, strict=True)})
    row = overall(judge_agreement(scores))
    assert (row["n_raters"], row["n"], row["n_complete"]) == (4, 6, 6)
    assert row["alpha"] == pytest.approx(krippendorff_alpha(SHROUT))
    # Marks of 70 and more pass: a y n y y y n, b n n n n n n, c n n n n n n, d y n y n y y.
    # Agreements: ab 2, ac 2, ad 4, bc 6, bd 2, cd 2 of 6.
    assert row["verdict_agreement"] == pytest.approx(18 / 36)
    assert row["base_rate"] == pytest.approx(8 / 24)
    # Fleiss: chance (1/3)² + (2/3)² = 5/9; (1/2 - 5/9) / (4/9).
    assert row["kappa"] == pytest.approx(-0.125)
    assert row["alpha_low"] < row["alpha"] < row["alpha_high"]


def test_real_judges_in_the_tables() -> None:
    scores = one_criterion(six_judges())
    row = overall(judge_agreement(scores))
    assert (row["n"], row["n_complete"], row["n_missing"]) == (118, 117, 1)
    assert row["alpha"] == pytest.approx(0.6258639168080633)
    pair = beside(scores, "gpt-5.1-2025-11-13", "gpt-4.1-2025-04-14")
    assert pair["n"] == 118
    # sklearn 1.9, on the 117 answers that all six judges scored, gives 0.640; one more answer moves it a little.
    assert pair["kappa"] == pytest.approx(0.64, abs=0.01)


def test_people_are_raters_too_and_repeats_are_averaged() -> None:
    scores = framed(judged("j", 1, 70), judged("j", 1, 80, judge_repeat=1), judged("j", 2, 50), judged("j", 3, None))
    people = framed(judged("", 1, 85), judged("", 2, 40), judged("", 3, 60)).assign(rater="田中")
    labels = people[["rater", "question_id", "answer_sha256", "criterion", "score"]]
    row = overall(judge_agreement(scores, labels))
    assert (row["n_raters"], row["n"], row["n_missing"]) == (2, 2, 6)
    assert overall(judge_vs_people(scores, labels))["bias"] == 0  # 75 - 85 and 50 - 40
    with pytest.raises(ConfigError, match="judge_agreement, labels: the frame has no column 'rater'"):
        judge_agreement(scores, people.drop(columns="rater"))


def test_several_answers_of_a_question_are_left_out_together_for_the_interval() -> None:
    marks = {"a": [60, 72, 80, 95, 88], "b": [55, 75, 78, 92, 90]}
    once = judges_frame(**marks)
    twice = framed(
        *(
            judged(name, q, mark, answer=text)
            for name in marks
            for q, mark in enumerate(marks[name], 1)
            for text in "xy"
        )
    )
    one, two = overall(judge_agreement(once)), overall(judge_agreement(twice))
    assert (one["n"], two["n"]) == (5, 10) and two["note"] == one["note"]  # of five questions
    assert two["alpha_high"] - two["alpha_low"] == pytest.approx(one["alpha_high"] - one["alpha_low"], rel=0.25)


@pytest.mark.usefixtures("in_japanese")
def test_kappa_is_missing_where_all_pass_and_the_note_says_why() -> None:
    row = overall(judge_agreement(judges_frame(a=[80, 90, 85], b=[85, 95, 75])))
    assert math.isnan(row["kappa"])
    assert (row["verdict_agreement"], row["base_rate"]) == (1, 1)
    assert "全員がすべての回答を同じ判定にしたため" in row["note"]


def test_marks_that_cannot_be_read_are_told_and_no_raw_error() -> None:
    unread = one_criterion(pd.DataFrame({"item": [1, 2], "A": [80.0, 90.0], "B": [X, X]}))
    assert list(judge_agreement(unread)["n"]) == [0, 0]
    with pytest.raises(ConfigError, match="there are no scores"):
        judge_agreement(unread.iloc[:0])


def test_raters_without_a_common_answer_are_refused() -> None:
    with pytest.raises(ConfigError, match="there is one rater, judge_model 'a'"):
        judge_agreement(judges_frame(a=[80, 90]))
    with pytest.raises(ConfigError, match="no answer was rated by two of the 2 raters; use rejudge"):
        judge_agreement(framed(judged("a", 1, 80), judged("b", 2, 80)))


def test_limits_of_agreement_hold_for_the_next_difference_however_few_there_are() -> None:
    rng = np.random.default_rng(0)
    for n in (3, 5, 10):
        seen, further = rng.standard_normal((20_000, n)), rng.standard_normal(20_000)
        held = abs(further - seen.mean(axis=1)) <= loa_reach(n) * seen.std(axis=1, ddof=1)
        usual = abs(further - seen.mean(axis=1)) <= 1.96 * seen.std(axis=1, ddof=1)
        assert held.mean() == pytest.approx(0.95, abs=0.006) and usual.mean() < held.mean()  # usual: 85 % of 5


@pytest.mark.slow
def test_each_judges_verdicts_are_by_its_own_line() -> None:
    frame = judges_frame(a=[75] * 9 + [60], b=[75] * 9 + [60])
    frame = frame.assign(pass_threshold=frame["judge_model"].map({"a": 70.0, "b": 90.0}).astype(float))
    found = overall(judge_agreement(frame))
    assert found["verdict_agreement"] == pytest.approx(0.1) and "Everybody" not in found["note"]


# --- How steady raters are on answers that they marked twice


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
    assert both["n"] == 8 and "4" in both["note"] and of(unsteady)["alpha"] < both["alpha"] < 1


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
