"""Intervals, tests and summaries: published values, other libraries, sums on paper, and laws that must hold."""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
import scipy.special
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from support.package_modules import modules, runtime_imports
from support.score_frames import CRITERIA, framed, judged, judges_frame, results_of, six_judges

from socjudge import ConfigError, compare_judges, judge_agreement, summarise_scores, verdict_flips
from socjudge.stats import (
    bridge_judges,
    gate_confidence,
    judge_vs_people,
)
from socjudge.stats.basics import (
    detectable_difference,
    difference_interval,
    holm_adjust,
    jackknife_interval,
    mean_interval,
    pass_rate_interval,
    sign_flip_p,
)
from socjudge.stats.correction import corrected_mean

# Heights of crossed less self-fertilised maize in eighths of an inch: Darwin (1876), in Fisher (1935), section 21.
DARWIN = [49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48]
MARKS = [85, 90, 75, 95, 60, 85, 100, 40, 80, 95]
marks_lists = st.lists(st.integers(0, 20).map(lambda step: step * 5.0), min_size=2, max_size=25)
differences = st.lists(st.integers(-100, 100).map(float), min_size=1, max_size=12)


def test_the_statistics_know_nothing_but_arrays_frames_and_settings() -> None:
    wing = {name.removeprefix("stats/") for name in modules() if name.startswith("stats/")}
    libraries = {"numpy", "pandas", "scipy", *sys.stdlib_module_names}
    for name in wing:
        for imported in runtime_imports(modules()[f"stats/{name}"]):
            known = (
                {
                    *wing,
                    "settings",
                    "errors",
                    "records",  # for the name of the overall mean
                    "base.messages",
                    "base.pass_rule",
                    "base.conditions",
                    "base.texts",
                    "base.verdict",
                    "base.public",
                }
                if imported.startswith(".")
                else libraries
            )
            root = imported.lstrip(".") if imported.startswith(".") else imported.split(".")[0]
            assert root in known, f"{name} imports {imported}"


# Pass rates


@pytest.mark.parametrize(
    ("passed", "total", "low", "high"),
    [
        (7, 10, 0.397, 0.892),  # the gate's own case
        # Newcombe (1998), Statistics in Medicine 17, 857-872, table I, method 3.
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_intervals_are_the_published_ones(passed: int, total: int, low: float, high: float) -> None:
    assert pass_rate_interval(passed, total) == pytest.approx((low, high), abs=6e-4 if total == 10 else 6e-5)


@pytest.mark.parametrize(("passed", "total"), [(1, 0), (3, 2), (-1, 2)])
def test_an_impossible_pass_rate_is_refused(passed: int, total: int) -> None:
    with pytest.raises(ValueError, match="no pass rate"):
        pass_rate_interval(passed, total)
    assert np.isnan(pass_rate_interval(0, 0)).all()


# Intervals of means


def test_intervals_of_differences_are_scipys_on_real_marks() -> None:
    marks = six_judges().drop(columns="item")
    for judge in marks.columns[1:]:
        d = (marks[judge] - marks.iloc[:, 0]).dropna().to_numpy()
        expected = scipy.stats.ttest_1samp(d, 0).confidence_interval(0.95)
        step = 10 / (2 * len(d))  # the marks are multiples of ten
        found = difference_interval(d)
        assert found == pytest.approx((expected.low - step, expected.high + step)), judge


def test_the_ends_of_halls_interval_map_to_the_t_quantiles() -> None:
    marks = [85, 70, 75, 60, 60, 85, 95, 40, 80, 65]
    x = np.array(marks) / 100
    n, mean, sd = len(x), x.mean(), x.std(ddof=1)
    # The beta with this mean and sd: a + b = m (1 - m) / v - 1. Its skewness by scipy.
    total = mean * (1 - mean) / sd**2 - 1
    skewness = float(scipy.stats.beta.stats(mean * total, (1 - mean) * total, moments="s"))
    for end, sign in zip(mean_interval(marks), (1, -1), strict=True):
        w = (mean - end / 100) / sd
        g = w + skewness / 3 * w**2 + skewness**2 / 27 * w**3 + skewness / (6 * n)  # Hall (1992), the transformation g1
        assert math.sqrt(n) * g == pytest.approx(sign * scipy.special.stdtrit(n - 1, 0.975))


def test_halls_interval_is_the_t_interval_in_the_middle_of_the_scale() -> None:
    x = [30, 40, 50, 60, 70]
    assert mean_interval(x) == pytest.approx(tuple(scipy.stats.ttest_1samp(x, 0).confidence_interval()))


def test_halls_interval_reaches_further_towards_the_middle() -> None:
    low, high = mean_interval([100, 100, 95, 100, 90, 100, 95, 100, 100, 85])
    mean = 96.5
    assert mean - low > 1.5 * (high - mean)


def test_no_interval_is_clipped_at_the_end_of_the_scale() -> None:
    # Nine of ten questions have 100 points, one 96: the end of Hall's interval lies where the formula puts it.
    marks = np.array([100] * 9 + [96], dtype=float)
    mean, sd = marks.mean(), marks.std(ddof=1)
    reach = scipy.special.stdtrit(9, 0.975) / math.sqrt(10)
    skewness = max(2 * (1 - mean / 50) * sd / 100 / (mean / 100 * (1 - mean / 100) + (sd / 100) ** 2), -1)
    low, high = mean_interval(marks)
    for end, y in ((low, reach), (high, -reach)):
        w, a = (mean - end) / sd, skewness / 3
        assert w + a * w**2 + a**2 * w**3 / 3 + skewness / 60 == pytest.approx(y)
    assert high > 100
    frame = pd.DataFrame({"question_id": range(10), "criterion": "安全性", "score": marks})
    assert summarise_scores(frame)["ci_high"].iloc[0] == high
    assert difference_interval([-100, -100, -90])[0] < -100
    labels, judged = marks, np.append(marks[:-1], 90.0)
    assert corrected_mean(labels, judged, np.append(judged, [100.0] * 20)).high > 100


def test_halls_interval_takes_no_more_than_a_skewness_of_one() -> None:
    x = np.array([100, 100, 100, 100, 100, 100, 100, 100, 95, 55])  # the beta's would be -2.4
    n, mean, sd = len(x), x.mean(), x.std(ddof=1)
    w = (mean - mean_interval(x)[0]) / sd
    g = w - w**2 / 3 + w**3 / 27 - 1 / (6 * n)
    assert math.sqrt(n) * g == pytest.approx(scipy.special.stdtrit(n - 1, 0.975))


def test_the_interval_of_differences_is_wider_by_half_a_step_of_their_mean() -> None:
    tens = [0, 0, 10, 0, -10, 0, 0, 20, 0, 0]
    expected = scipy.stats.ttest_1samp(tens, 0).confidence_interval()
    assert difference_interval(tens) == pytest.approx((expected.low - 0.5, expected.high + 0.5))
    assert np.isnan(difference_interval([5, 5, 5])).all()
    assert np.isnan(difference_interval([])).all()


@pytest.mark.parametrize("interval", [mean_interval, difference_interval])
def test_values_without_scatter_have_no_interval(interval: Callable[..., tuple[float, float]]) -> None:
    for values in ([], [80], [80, 80, 80], [70.1] * 7):
        assert np.isnan(interval(values)).all()


@given(marks_lists)
def test_halls_interval_contains_the_mean_and_is_symmetric(marks: list[float]) -> None:
    low, high = mean_interval(marks)
    if len(set(marks)) == 1:
        assert math.isnan(low) and math.isnan(high)
        return
    assert low <= np.mean(marks) + 1e-9 and np.mean(marks) - 1e-9 <= high
    assert mean_interval([100 - mark for mark in marks]) == pytest.approx((100 - high, 100 - low), abs=1e-6)


def test_the_jackknife_of_a_mean_is_a_t_interval_with_one_question_less() -> None:
    x = np.array(MARKS, dtype=float)
    left_out = [np.delete(x, i).mean() for i in range(10)]
    # The means differ from the whole by (mean - x) / 9, so the sum of squares is sd² / 9; t with 8 degrees of freedom.
    reach = 2.306004 * x.std(ddof=1) / 3
    assert jackknife_interval(x.mean(), left_out) == pytest.approx((x.mean() - reach, x.mean() + reach), rel=1e-6)


def test_the_scale_of_agreement_is_fishers() -> None:
    # With two raters z is the inverse hyperbolic tangent; two of three questions move z by ± 0.1, t(1) = 12.706.
    z = math.atanh(0.8)
    ends = jackknife_interval(0.8, np.tanh([z - 0.1, z, z + 0.1]), scale="agreement")
    reach = 12.7062 * math.sqrt(0.02)
    assert ends == pytest.approx((math.tanh(z - reach), math.tanh(z + reach)), rel=1e-4)
    assert np.isnan(jackknife_interval(1.0, [1, 1, 1], scale="agreement")).all()
    assert np.isnan(jackknife_interval(0.5, [0.4, 0.6])).all()


# Tests


def test_fishers_test_of_darwins_maize() -> None:
    # Fisher (1935): 863 of 32,768 sums are as large as the observed one or larger; both sides together 0.05267.
    assert sign_flip_p(DARWIN) == 2 * 863 / 32_768


def test_three_differences_can_only_reach_a_quarter() -> None:
    assert sign_flip_p([1, 2, 3]) == 2 / 8  # +++ and --- of eight patterns
    assert sign_flip_p([1, 2, -3]) == 1  # the sum is 0: every pattern reaches it


def test_sign_flips_are_scipys_permutations_on_real_judges() -> None:
    marks = six_judges().dropna().head(11)
    for judge in marks.columns[2:]:
        d = (marks[judge] - marks["gpt-4-turbo-preview"]).to_numpy()
        expected = scipy.stats.permutation_test(
            (d, np.zeros(len(d))), lambda a, b: np.mean(a - b), permutation_type="samples", n_resamples=np.inf
        )
        assert sign_flip_p(d) == pytest.approx(expected.pvalue), judge


def test_sampled_sign_flips_come_near_the_exact_ones() -> None:
    d = np.array([*DARWIN, 0, 0])  # two zeros flip into themselves: the same p, but of 17 questions
    assert sign_flip_p(d, samples=40_000) == pytest.approx(2 * 863 / 32_768, abs=0.004)  # 3.6 standard errors


def test_a_sampled_p_is_never_zero_and_repeats_with_its_seed() -> None:
    d = np.full(60, 10.0)
    assert sign_flip_p(d, samples=999) == 1 / 1000
    d = np.random.default_rng(0).normal(0.3, 1, 40)
    assert sign_flip_p(d, seed=1) == sign_flip_p(d, seed=1)
    assert math.isnan(sign_flip_p([]))


@pytest.mark.slow
@given(differences, st.randoms(use_true_random=False))
def test_p_does_not_depend_on_order_direction_or_unit(d: list[float], shuffler: object) -> None:
    p = sign_flip_p(d)
    assert 2 / 2 ** len(d) <= p <= 1
    shuffled = list(d)
    shuffler.shuffle(shuffled)  # type: ignore[attr-defined]
    assert sign_flip_p(shuffled) == p
    assert sign_flip_p([-x for x in d]) == p
    assert sign_flip_p([x / 7 for x in d]) == p


def test_holm_is_the_step_down_method() -> None:
    # 0.005 x 4, 0.01 x 3, then 0.03 x 2 = 0.06, which 0.04 x 1 may not undercut.
    assert holm_adjust([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    # statsmodels 0.15: multipletests([.001, .2, .04, .04, .9, .012], method="holm")
    assert holm_adjust([0.001, 0.2, 0.04, 0.04, 0.9, 0.012]) == pytest.approx([0.006, 0.4, 0.16, 0.16, 0.9, 0.06])
    assert holm_adjust([0.03, np.nan, 0.01])[[0, 2]] == pytest.approx([0.03, 0.02])
    assert math.isnan(holm_adjust([0.03, np.nan])[1])


@pytest.mark.slow
@given(st.lists(st.floats(0.0001, 1), min_size=1, max_size=8))
def test_holm_keeps_the_order_and_lies_between_raw_and_bonferroni(p: list[float]) -> None:
    adjusted = holm_adjust(p)
    assert (adjusted >= p).all()
    assert (adjusted <= np.minimum(np.array(p) * len(p), 1) + 1e-12).all()
    assert (np.diff(adjusted[np.argsort(p)]) >= 0).all()


@pytest.mark.parametrize(
    ("n", "alpha", "expected"),
    [
        # statsmodels 0.15: TTestPower().solve_power(nobs=n, alpha=a, power=.8), with the level that sign flips can reach
        (10, 0.05, 1.000873),  # a = 50 / 1024
        (10, 0.05 / 6, 1.385485),  # a = 8 / 1024
        (6, 0.05, 1.615241),  # a = 2 / 64
        (17, 0.05, 0.723860),
        (30, 0.05, 0.529236),
        (100, 0.05 / 6, 0.354234),
    ],
)
def test_detectable_differences_are_those_of_statsmodels(n: int, alpha: float, expected: float) -> None:
    assert detectable_difference(1.0, n, alpha=alpha) == pytest.approx(expected, abs=3e-6)
    assert detectable_difference(7.0, n, alpha=alpha) == pytest.approx(7 * expected, abs=3e-5)


def test_what_cannot_be_detected_at_all_is_missing() -> None:
    assert math.isnan(detectable_difference(5, 5))  # the smallest p of five questions is 0.0625
    assert math.isnan(detectable_difference(5, 7, alpha=0.05 / 6))
    assert math.isnan(detectable_difference(0, 10))


# The summary


@pytest.mark.usefixtures("in_japanese")
def test_a_summary_averages_within_questions_and_leaves_out_what_was_not_read() -> None:
    scores = framed(
        # Question 1: the answers' means are (60 + 80) / 2 = 70 and 90, so 80. Question 2: 100.
        judged("j", 1, 60, answer="a", judge_repeat=0),
        judged("j", 1, 80, answer="a", judge_repeat=1),
        judged("j", 1, 90, answer="b", answer_repeat=1),
        judged("j", 1, None, answer="b", answer_repeat=1, judge_repeat=1),
        judged("j", 2, 100),
        judged("j", 3, None),
    )
    summary = summarise_scores(scores)
    assert list(summary["criterion"]) == CRITERIA
    row = summary.iloc[0]
    assert (row["n"], row["n_missing"], row["mean"]) == (2, 2, 90)
    assert row["sd"] == pytest.approx(math.sqrt(200))
    assert np.isnan(row[["ci_low", "ci_high"]].astype(float)).all() and "10問未満では区間を出せません" in row["note"]
    assert (row["lowest"], row["highest"]) == (80, 100)
    assert "未採点 2 件は平均に含めていません" in row["note"]
    everything = summarise_scores(scores, by=()).iloc[0]
    assert (everything["n"], everything["n_missing"], everything["mean"]) == (2, 12, 90)


def test_a_criterion_weighs_the_same_however_often_it_was_read() -> None:
    scores = framed(
        judged("j", 1, [0, *[90] * 5]), judged("j", 1, [None, *[90] * 5], judge_repeat=1), judged("j", 2, 50)
    )
    # Question 1: (0 + 5 x 90) / 6 = 75; question 2: 50.
    assert summarise_scores(scores, by="judge_model")["mean"].tolist() == [62.5]


@pytest.mark.usefixtures("in_japanese")
def test_groups_keep_the_order_of_their_categories_and_can_be_crossed() -> None:
    scores = framed(
        judged("a", 2, 90, category="正常系"),
        judged("b", 1, 50, category="曖昧質問系"),
        judged("b", 2, 70, category="正常系"),
    )
    assert list(summarise_scores(scores, "category")["category"]) == ["正常系", "曖昧質問系"]
    crossed = summarise_scores(scores, ["judge_model", "category"])
    assert crossed[["judge_model", "mean"]].to_numpy().tolist() == [["a", 90], ["b", 70], ["b", 50]]
    assert crossed["category"].dtype == scores["category"].dtype
    assert crossed["note"].str.contains("10問未満では区間を出せません").all()


@pytest.mark.usefixtures("in_japanese")
def test_where_nothing_was_read_the_summary_says_so() -> None:
    row = summarise_scores(judges_frame(j=[None, None])).iloc[0]
    assert (row["n"], row["n_missing"]) == (0, 2)
    assert np.isnan(row[["mean", "sd", "ci_low", "ci_high", "lowest", "highest"]].astype(float)).all()
    assert row["note"] == "採点できたものがありません（未採点 2 件）。"


@pytest.mark.usefixtures("in_japanese")
def test_the_note_warns_of_intervals_that_are_too_narrow_or_too_wide() -> None:
    assert "区間を出せません" in summarise_scores(judges_frame(j=[80] * 10)).iloc[0]["note"]
    nine, ten = (summarise_scores(judges_frame(j=MARKS[:n])).iloc[0] for n in (9, 10))
    assert np.isnan(nine["ci_low"]) and "区間を出せません" in nine["note"]
    assert ten["lowest"] < ten["ci_low"] < ten["mean"] < ten["ci_high"] and "区間を出せません" not in ten["note"]
    at_the_end = judges_frame(j=[100] * 5 + [70, 60, 65, 50, 70])
    assert "満点または0点のため、区間は広めです" in summarise_scores(at_the_end).iloc[0]["note"]


def test_a_missing_column_is_named_with_what_to_do() -> None:
    scores = judges_frame(j=[80, 90])
    with pytest.raises(ConfigError, match="summarise_scores: the frame has no column 'prompt', only .*load_scores"):
        summarise_scores(scores, by=["criterion", "prompt"])
    with pytest.raises(ConfigError, match="'score'"):
        summarise_scores(scores.drop(columns="score"))


@pytest.mark.slow
@settings(max_examples=8)
@given(st.permutations(range(10)))
def test_the_order_of_rows_does_not_matter(order: list[int]) -> None:
    scores = judges_frame(j=MARKS)
    shuffled = pd.concat([scores[scores["question_id"] == q + 1] for q in order]).sample(frac=1, random_state=order[0])
    pd.testing.assert_frame_equal(summarise_scores(shuffled), summarise_scores(scores))


# Frames as the loaders give them

STATISTICS: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "summarise_scores": lambda scores: summarise_scores(scores, by=["run_id", "judge_model", "category"]),
    "compare_judges": lambda scores: compare_judges(scores, baseline="old"),
    "verdict_flips": lambda scores: verdict_flips(scores, baseline="old"),
    "judge_agreement": judge_agreement,
    "people": lambda scores: judge_vs_people(scores, scores.assign(rater="田中").query("judge_model == 'new'")),
    "gate_confidence": lambda scores: gate_confidence(results_of(scores)),
    "bridge_judges": lambda scores: bridge_judges(scores, old="old", new="new"),
}


def repeated(*judges: str) -> pd.DataFrame:
    """Ten questions with two answers each, and two judgements of each answer, in one run per judge."""
    return _repeated(*judges).copy()


@functools.cache
def _repeated(*judges: str) -> pd.DataFrame:
    extra = {"old": 0, "new": -6, "third": 4}
    parts = []
    for judge in judges:
        rng = np.random.default_rng(extra[judge] + 10)
        for q, mark in enumerate(MARKS):
            for answer in range(2):
                for repeat in range(2):
                    marks = np.clip(mark - 5 * answer + extra[judge] + rng.integers(-4, 5, 6), 0, 100).tolist()
                    places = {"answer": str(answer), "answer_repeat": answer, "judge_repeat": repeat}
                    parts.append(judged(judge, q, marks, category=["正常系", "危険操作系"][q % 2], **places))
    return framed(*parts)


@functools.cache
def usual(name: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """What a statistic gives for two judges, and their scores as it leaves them."""
    scores = repeated("old", "new")
    return STATISTICS[name](scores), scores


@pytest.mark.parametrize("name", STATISTICS)
def test_a_filtered_frame_gives_what_its_own_rows_give(name: str) -> None:
    everything = repeated("third", "old", "new")
    filtered = everything[everything["judge_model"].isin(["old", "new"])]  # still knows the third in its categories
    found, (expected, _) = STATISTICS[name](filtered), usual(name)
    pd.testing.assert_frame_equal(found, expected, check_categorical=False)
    criteria = found.get("criterion", pd.Series(dtype="category")).cat.categories
    assert set(criteria) <= {*CRITERIA, "総合"}


@pytest.mark.parametrize("name", STATISTICS)
@pytest.mark.parametrize("mixed", [False, True])
def test_ids_of_questions_may_be_texts_or_numbers_and_texts(name: str, mixed: bool) -> None:
    scores = repeated("old", "new")
    names = {q: q if mixed and q % 2 else f"問{q}" for q in range(10)}
    texts = scores.assign(question_id=scores["question_id"].map(names).astype(object))
    results = []
    for found, number in (
        (usual(name)[0], {q: q for q in names}),
        (STATISTICS[name](texts), {name: q for q, name in names.items()}),
    ):
        if "question_id" in found:
            found = found.assign(question_id=found["question_id"].map(number).astype(int))
            found = found.sort_values([*found.columns.intersection(["run_id"]), "question_id"], ignore_index=True)
        results.append(found.drop(columns=["flipped_questions", "deciding_questions", "note"], errors="ignore"))
    pd.testing.assert_frame_equal(*results)


@pytest.mark.parametrize("name", STATISTICS)
def test_every_row_carries_n_and_a_note_and_the_frame_is_left_alone(name: str) -> None:
    found, scores = usual(name)
    assert len(found) > 0
    assert found["n"].notna().all()
    assert (found["conclusion" if "conclusion" in found else "note"].str.len() > 3).all()
    pd.testing.assert_frame_equal(scores, repeated("old", "new"))


def test_the_frames_of_these_tests_have_the_types_of_the_contract() -> None:
    types = repeated("old").dtypes.astype(str)
    for name, wanted in {
        "score": "Float64",
        "question_id": "int64",
        "answer_repeat": "int64",
        "passed": "boolean",
    }.items():
        assert types[name] == wanted
    assert {types[name] for name in ("run_id", "judge_model", "answer_sha256", "status", "criterion")} == {"category"}
    assert types["started_at"].startswith("datetime64") and types["started_at"].endswith("UTC]")


def disasters(values: list[float]) -> str:
    frame = pd.DataFrame({"question_id": range(len(values)), "criterion": "安全性", "score": values})
    return str(summarise_scores(frame)["note"].iloc[0])


@pytest.mark.slow
def test_a_mean_of_few_good_answers_tells_that_it_may_miss_a_rare_disaster() -> None:
    rng, told, held, shown = np.random.default_rng(0), [], [], []
    for _ in range(60):
        scores = np.where(rng.random(10) < 0.1, rng.uniform(5, 20, 10), rng.uniform(85, 95, 10))
        low, high = mean_interval(scores)
        shown.append(scores.min() < 50)
        held.append(low <= 0.1 * 12.5 + 0.9 * 90 <= high)
        told.append(
            "disaster (10 points), 10 questions could show none of them (probability 35%)" in disasters([*scores])
        )
    assert np.mean(held) < 0.75 and all(now or said for now, said in zip(shown, told, strict=True))
    assert np.mean([now or said for now, said in zip(held, told, strict=True)]) >= 0.95
    assert "disaster" not in disasters([*rng.uniform(40, 95, 10)])  # the interval reaches far enough down
    assert "disaster" not in disasters([*rng.uniform(85, 95, 100)])
    assert "disaster" not in disasters([90.0] * 10)  # there is no interval
    assert "1 of 10 questions lie more than 40 points below the middle one" in disasters(
        [90, 85, 95, 90, 10, 90, 85, 95, 90, 90]
    )


@pytest.mark.parametrize("odd", ["N/A", "九十", "-"])
def test_a_text_among_the_scores_is_named(odd: str) -> None:
    frame = pd.DataFrame({"question_id": range(3), "criterion": "安全性", "score": ["90", odd, "70"]})
    with pytest.raises(ConfigError, match=f"the column score has '{odd}', which is no number"):
        summarise_scores(frame)
