"""How often what is said of a judge is right: corrected means, verdicts, trust; Markdown tables.

    python benchmarks/validation.py [corrected] [rates] [trust] [draws] [looks] [mended] [--scale 1.0] [--seed 0] [--data …]

The families of marks are those of benchmarks/calibration.py; people and judge mark the same answers, each with noise of
their own, and the judge's is scaled for the correlation. The rows "real" draw answers, with replacement, from what real
judges and people gave (--data, ../shared/data unless given; left out where that is absent). An interval that is missing, because all labels
were equal, counts as one that does not cover. --scale 4 makes four times as many simulations (and takes that long).
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Sequence
from itertools import permutations, product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy.stats
from calibration import draw_answers

from socjudge.certify.conditions import ALPHA, JUMP, MAX_JUMPY
from socjudge.stats.basics import sd_ends, share_ends, share_power
from socjudge.stats.correction import MANY_LABELS, Corrected, corrected_mean, corrected_rate
from socjudge.stats.trust import (
    CORRELATION,
    FEW_BAD,
    LOOKS,
    MARGIN,
    MAX_NOISE,
    _compare,
    _row,
    _Sample,
    judge_trust,
)

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"  # --data
SIZES = (10, 20, 30, 40)
JUDGED = 400  # answers with the judge's marks
DRAWN = (40, 80, 160, 240)  # labels
FIRM = ("信頼できる", "信頼できない")
WORDS = ("信頼できる", "条件つき", "分からない", "信頼できない")
BESIDE = ("the same", "less said", "more said", "the opposite")


class Population(NamedTuple):
    """People's and a judge's marks of the same answers, and how many simulations they are worth."""

    name: str
    people: np.ndarray
    judge: np.ndarray
    times: int

    @property
    def correlation(self) -> float:
        return float(np.corrcoef(self.people, self.judge)[0, 1])


def marked(rng: np.random.Generator, worth: np.ndarray, noise: float, shift: float = 0.0) -> np.ndarray:
    """Marks of the answers in steps of five, as in calibration.py (there noise is 0.3)."""
    answer = noise * 0.25 / 0.3 * rng.standard_normal((*worth.shape[:-1], 1))
    latent = worth + shift + answer + noise * rng.standard_normal(worth.shape)
    return np.round(20 / (1 + np.exp(-latent))) * 5


def families(rng: np.random.Generator, scale: float) -> Iterator[Population]:
    """One criterion and the mean of six, four levels of quality, judges from useless to near-perfect."""
    for quality in (0.5, 1.3, 2.0, 3.0):
        worth = draw_answers(rng, 1, 200_000, quality)
        for noise in (0.1, 0.2, 0.3, 0.5, 0.8, 3.0):
            people, judge = (
                marked(rng, worth, size, shift)[0] for size, shift in ((min(noise, 0.3), 0), (noise, -0.3))
            )
            for what, pick in (("one criterion", lambda x: x[:, 0]), ("mean of six", lambda x: x.mean(axis=1))):
                y, f = pick(people), pick(judge)
                yield Population(f"{what}, people's mean {y.mean():.0f}", y, f, int(1500 * scale))


def real_points(data: Path, scale: float) -> Iterator[Population]:
    """Real judges on Japanese answers, each in turn in the place of people: nobody marked those answers."""
    path = data / "shaberi_judges_sample" / "scores_wide.csv.gz"
    if not path.exists():
        return
    marks = pd.read_csv(path)
    judges = list(marks.columns[3:])
    points = marks[judges].apply(pd.to_numeric, errors="coerce")
    one_to_five = marks["benchmark"] == "ELYZA-tasks-100"  # the others: 0 to 10
    points = points.sub(one_to_five * 1, axis=0).mul(one_to_five.map({True: 25, False: 10}), axis=0).clip(0, 100)
    for benchmark, part in points.groupby(marks["benchmark"]):
        for people, judge in permutations(judges, 2):
            both = part[[people, judge]].dropna()
            if len(both) >= 300:
                y, f = both[people].to_numpy(), both[judge].to_numpy()
                yield Population(f"real marks, {benchmark}", y, f, int(500 * scale))


def people_verdicts(data: Path, scale: float) -> Iterator[Population]:
    """Gold labels and people's majority beside real judges: the first answer wins."""
    path = data / "llmbar_casestudy" / "judgements.csv.gz"
    if path.exists():
        decisions = pd.read_csv(path).dropna(subset=["winner_unswapped"])
        for _, part in decisions.groupby("evaluator"):
            y, f = (part[name].to_numpy() == 1 for name in ("label", "winner_unswapped"))
            yield Population("real verdicts, LLMBar", y, f, int(500 * scale))
    path = data / "pandalm_test_sample" / "items.jsonl"
    if path.exists():
        rows = pd.read_json(path, lines=True)
        y = ((rows[["annotator1", "annotator2", "annotator3"]] == 1).sum(axis=1) >= 2).to_numpy()
        for judge in ("gpt35", "pandalm7b"):
            yield Population(
                "real verdicts, PandaLM", y, (rows[judge].astype(str) == "1").to_numpy(), int(1500 * scale)
            )


def real_verdicts(data: Path, scale: float) -> Iterator[Population]:
    """Those of `people_verdicts`, and verdicts at 70 from `real_points`."""
    yield from people_verdicts(data, scale)
    for one in real_points(data, scale):
        name = one.name.replace("marks", "verdicts at 70")
        yield Population(name, one.people >= 70, one.judge >= 70, one.times // 2)


def simulated_verdicts(rng: np.random.Generator, scale: float) -> Iterator[Population]:
    for rate in (0.5, 0.7, 0.85, 0.95):
        for tpr, tnr in ((0.99, 0.97), (0.97, 0.9), (0.9, 0.9), (0.9, 0.7), (0.95, 0.4), (0.6, 0.6), (0.5, 0.5)):
            people = rng.random(200_000) < rate
            judge = rng.random(200_000) < np.where(people, tpr, 1 - tnr)
            yield Population(f"people pass {rate:.0%}", people, judge, int(1500 * scale))


def common_package(y: np.ndarray, f: np.ndarray, everything: np.ndarray) -> tuple[float, float]:
    """PPI++ as its authors' package has it for a mean: estimated weight, normal quantile."""
    n, m = len(y), len(everything)
    variance = np.concatenate([f, everything]).var(ddof=1)
    weight = np.cov(y, f, ddof=0)[0, 1] / ((1 + n / m) * variance) if variance > 0 else 0.0
    estimate = y.mean() + weight * (everything.mean() - f.mean())
    reach = 1.959964 * np.sqrt((weight * everything).var() / m + (y - weight * f).var() / n)
    return estimate - reach, estimate + reach


def covers(low: float, high: float, truth: float) -> bool:
    return low - 1e-9 <= truth <= high + 1e-9


Estimate = Callable[[np.ndarray, np.ndarray, np.ndarray], Corrected]


def coverage(rng: np.random.Generator, populations: Iterator[Population], estimate: Estimate) -> pd.DataFrame:
    """One row per population and number of labels."""
    rows = []
    for one in populations:
        truth = float(one.people.mean())
        for n in SIZES:
            drawn = rng.integers(0, len(one.people), (one.times, JUDGED))
            hits, alone, package, widths, used = [], [], [], [], []
            for pick in drawn:
                y, f, everything = one.people[pick[:n]], one.judge[pick[:n]], one.judge[pick]
                found = estimate(y, f, everything)
                hits.append(covers(found.low, found.high, truth))
                alone.append(covers(found.labels_low, found.labels_high, truth))
                package.append(covers(*common_package(y * 1.0, f * 1.0, everything[n:] * 1.0), truth))
                widths.append((found.high - found.low, found.labels_high - found.labels_low))
                used.append(found.weight != 0)
            own, labels = np.nanmean(widths, axis=0)
            rates = [float(np.mean(column)) for column in (hits, alone, package, used)]
            rows.append((one.name, one.correlation, n, *rates, float(own / labels)))
    names = ["name", "correlation", "n", "covered", "alone", "package", "used", "width"]
    return pd.DataFrame(rows, columns=names)


def show_coverage(found: pd.DataFrame) -> None:
    found = found.assign(family=np.where(found["name"].str.startswith("real"), "real", "simulated"))
    print("| scores | labels | cases | covered | 93–97 % in | labels alone | of these in | PPI++ as packaged |")
    print("|---|---|---|---|---|---|---|---|")
    for (family, n), part in found.groupby(["family", "n"], sort=False):
        inside, inside_alone = (part[name].round(3).between(0.93, 0.97).mean() for name in ("covered", "alone"))
        span = f"{part['covered'].mean():.1%} ({part['covered'].min():.1%}–{part['covered'].max():.1%})"
        span_alone = f"{part['alone'].mean():.1%} ({part['alone'].min():.1%}–{part['alone'].max():.1%})"
        cells = [
            family,
            n,
            len(part),
            span,
            f"{inside:.0%}",
            span_alone,
            f"{inside_alone:.0%}",
            f"{part['package'].mean():.1%}",
        ]
        print("|", " | ".join(map(str, cells)), "|")
    print(
        "\n| correlation | labels | cases | width / labels alone: mean (worst case) | judge used |\n|---|---|---|---|---|"
    )
    bands = pd.cut(found["correlation"], [-1, 0.3, 0.6, 0.85, 1], labels=["< 0.3", "0.3–0.6", "0.6–0.85", "≥ 0.85"])
    for (band, n), part in found.groupby([bands, "n"], observed=True):
        width = f"{part['width'].mean():.2f} ({part['width'].max():.2f})"
        print(f"| {band} | {n} | {len(part)} | {width} | {part['used'].mean():.0%} |")
    print()


def corrected(rng: np.random.Generator, scale: float, data: Path) -> None:
    print("### Means\n")
    both = [*families(rng, scale), *real_points(data, scale)]
    show_coverage(coverage(rng, iter(both), corrected_mean))


def rates(rng: np.random.Generator, scale: float, data: Path) -> None:
    print("### Pass rates\n")
    both = [*simulated_verdicts(rng, scale), *real_verdicts(data, scale)]
    show_coverage(coverage(rng, iter(both), corrected_rate))


# Trust

QUESTIONS, LABELLED = 120, 40


class Exam(NamedTuple):
    """Answers with people's marks and a judge's, (questions, 6); the judge's repeats (questions, repeat, 6)."""

    people: np.ndarray
    judge: np.ndarray


def examined(rng: np.random.Generator, *, is_blind: bool) -> Exam:
    """A judge with people's noise and scale. A blind one has the marks of other answers."""
    worth = draw_answers(rng, 1, QUESTIONS, 0.4)
    people = marked(rng, worth, 0.3)[0]
    one_more = 0.2 * rng.standard_normal((QUESTIONS, 1))
    judge = np.stack([marked(rng, worth + one_more, 0.15)[0] for _ in range(3)], axis=1)
    if is_blind:
        judge = rng.permuted(judge, axis=0)
    return Exam(people, np.clip(np.round(judge / 5) * 5, 0, 100))


def exam_frames(exam: Exam) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The judge's marks and people's of the first answers, as load_scores and load_labels give them."""
    question, repeat, criterion = (axis.ravel() for axis in np.indices(exam.judge.shape))
    scores = pd.DataFrame(
        {
            "judge_model": "judge",
            "question_id": question,
            "answer_sha256": question.astype(str),
            "judge_repeat": repeat,
            "criterion": criterion.astype(str),
            "score": exam.judge.ravel(),
        }
    )
    question, criterion = (axis.ravel() for axis in np.indices((LABELLED, exam.people.shape[1])))
    labels = pd.DataFrame(
        {
            "rater": "people",
            "question_id": question,
            "answer_sha256": question.astype(str),
            "criterion": criterion.astype(str),
            "score": exam.people[:LABELLED].ravel(),
        }
    )
    return scores, labels


def trust(rng: np.random.Generator, scale: float, data: Path) -> None:
    print("### Trust\n")
    print(
        "| judge | criteria not to be trusted | judges | one of these trusted | others trusted |\n|---|---|---|---|---|"
    )
    for name, (make, bad) in TRUSTED.items():
        times, falsely, rightly = int(1000 * scale), 0, []
        for _ in range(times):
            exam = make(rng)
            scores, labels = exam_frames(exam)
            verdicts = judge_trust(scores, labels).set_index("criterion")["verdict"] == "信頼できる"
            wrong = [str(c) for c in bad]
            falsely += bool(verdicts[wrong].any())
            rightly.append(verdicts.drop(wrong).mean() if len(bad) < 6 else np.nan)
        right = f"{np.mean(rightly):.0%}" if len(bad) < 6 else "–"
        print(f"| {name} | {len(bad)} | {times} | {falsely / times:.1%} | {right} |", flush=True)
    print()


def at_the_limit(rng: np.random.Generator, what: str, bad: int) -> Exam:
    """Marks whose bias is the margin, or whose correlation is the least one, in the first `bad` criteria."""
    truth = 65 + 14 * rng.standard_normal((QUESTIONS, 6))
    people, judge = (truth + 6 * rng.standard_normal((QUESTIONS, 6)) for _ in range(2))
    if what == "bias":
        judge[:, :bad] += MARGIN
    else:
        other = rng.standard_normal((QUESTIONS, bad))
        unit = (people[:, :bad] - 65) / np.sqrt(14**2 + 6**2)
        judge[:, :bad] = 65 + 15 * (CORRELATION * unit + np.sqrt(1 - CORRELATION**2) * other)
    return Exam(people, judge[:, None, :])


TRUSTED: dict[str, tuple[Callable[[np.random.Generator], Exam], list[int]]] = {
    "clean": (lambda rng: examined(rng, is_blind=False), []),
    "bias at the margin": (lambda rng: at_the_limit(rng, "bias", 6), list(range(6))),
    "correlation at the least": (lambda rng: at_the_limit(rng, "correlation", 6), list(range(6))),
    "bias at the margin in one": (lambda rng: at_the_limit(rng, "bias", 1), [0]),
    "correlation at the least in three": (lambda rng: at_the_limit(rng, "correlation", 3), [0, 1, 2]),
    "blind": (lambda rng: examined(rng, is_blind=True), list(range(6))),
}


def draws(rng: np.random.Generator, scale: float, data: Path) -> None:
    """What some labels say of a real judge, beside what all labels say. Verdicts count as marks of 0 and 100."""
    verdicts = (one._replace(people=100.0 * one.people, judge=100.0 * one.judge) for one in people_verdicts(data, 1.0))
    rows = []
    for one in (*real_points(data, 1.0), *verdicts):
        whole = trust_word(one.people, one.judge)
        apart = abs(float((one.judge - one.people).mean())) >= MARGIN or one.correlation <= CORRELATION
        by_bias = whole in FIRM and one.correlation > CORRELATION
        bound = {labels: best_share(one, labels) if by_bias else math.nan for labels in DRAWN}
        for labels in (n for n in DRAWN if n < len(one.people)):
            for _ in range(max(1, int(20 * scale))):
                pick = rng.choice(len(one.people), labels, replace=False)
                word = trust_word(one.people[pick], one.judge[pick])
                falsely = word == "信頼できる" and apart
                rows.append([one.name, labels, whole, word, beside(whole, word), falsely, bound[labels]])
    found = pd.DataFrame(rows, columns=["set", "labels", "whole", "word", "beside", "falsely", "bound"])

    print("### Trust from a few labels beside trust from all\n")
    print(
        f"| labels | draws | {' | '.join(BESIDE)} | wrong 信頼できる | the same where the bias decides | best test there |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for labels, part in found.groupby("labels"):
        shares = " | ".join(f"{(part['beside'] == what).mean():.1%}" for what in BESIDE)
        decided = part[part["bound"].notna()]
        same, best = (decided["beside"] == "the same").mean(), decided["bound"].mean()
        print(f"| {labels} | {len(part)} | {shares} | {part['falsely'].mean():.1%} | {same:.0%} | {best:.0%} |")

    print(f"\n| answers | all labels say | draws of {LABELLED} | {' | '.join(WORDS)} | wrong 信頼できる |")
    print("|---|---|---|---|---|---|---|---|")
    for (name, whole), part in found[found["labels"] == LABELLED].groupby(["set", "whole"]):
        shares = " | ".join(f"{(part['word'] == word).mean():.0%}" for word in WORDS)
        print(f"| {name} | {whole} | {len(part)} | {shares} | {part['falsely'].mean():.1%} |")


def looks(rng: np.random.Generator, scale: float, data: Path) -> None:
    """One criterion, looked at again as labels come in; how many labels it is told to need; noise that is not normal."""
    times = int(1000 * scale)
    print("### Looking again\n")
    print(
        "| judge | looks at, level of each | trusted at the first | at any | with all criteria's level (six) at any |\n|---|---|---|---|---|"
    )
    cases = {"bias 10, r .9": (10, 0.9), "bias 10, r .7": (10, 0.7), "bias 0, r .5": (0, 0.5), "bias 3, r .8": (3, 0.8)}
    plans = {"40, 70, 100, 200 at 1.25 %": (LOOKS, 0.0125), "every ten, 20 to 200, at 5 %": (range(20, 201, 10), 0.05)}
    for name, (bias, r) in cases.items():
        for plan, (at, level) in plans.items():
            judges = [population(rng, bias, r) for _ in range(times)]
            first, ever = np.mean([_trusted(marks, at, level) for marks in judges], axis=0)
            _, six = np.mean([_trusted(marks, at, level / 6) for marks in judges], axis=0)
            print(f"| {name} | {plan} | {first:.1%} | {ever:.1%} | {six:.1%} |", flush=True)
    print(
        "\n| bias, scatter | labels | undecided | truly needed more | inside the told range | told that perhaps none decides |"
    )
    print("|---|---|---|---|---|---|")
    for n, bias, scatter in product((40, 70), (4, 8, 9.5, 12, 14), (15,)):
        told = []
        for _ in range(times // 2):
            people = 60 + 25 * rng.standard_normal(n)
            judge = people + bias + scatter * rng.standard_normal(n)
            row = trust_row(people, judge, judge, 0.0125)
            if row["verdict"] in ("条件つき", "分からない"):
                told.append((row["more_low"], row["more_high"]))
        tail = 0.0125 if bias < MARGIN else 0.0125 / 2
        needed = max((float(scipy.stats.t.isf(tail, n - 2)) * scatter / (MARGIN - bias)) ** 2 - n, 1)
        held = np.mean([low - 1 <= needed <= high for low, high in told])
        endless = np.mean([not high < math.inf for _, high in told])
        print(
            f"| {bias:g}, {scatter} | {n} | {len(told) / (times // 2):.0%} | {needed:.0f} | {held:.0%} | {endless:.0%} |",
            flush=True,
        )
    print("\n| noise, true sd | answers × 3 | sd alone says steady | with the share of jumps |\n|---|---|---|---|")
    for (size, share), answers in product(((30, 0.03), (25, 0.05), (20, 0.07)), (10, 20, 40)):
        steady = np.zeros(2)
        for _ in range(times):
            marks = 80 - size * (rng.random((answers, 3)) < share)
            sd, squares = math.sqrt(marks.var(axis=1, ddof=1).mean()), 2 * marks.var(axis=1, ddof=1)
            spread = answers * squares.var(ddof=1)
            freedom = min(2 * answers, 2 * squares.sum() ** 2 / spread) if spread else 2 * answers
            jumpy = float((np.ptp(marks, axis=1) > JUMP).mean())
            few = share_ends(jumpy, answers, ALPHA / 6)[1] < MAX_JUMPY
            steady += (
                sd_ends(sd, 2 * answers, ALPHA / 6)[1] <= MAX_NOISE,
                few and sd_ends(sd, freedom, ALPHA / 6)[1] <= MAX_NOISE,
            )
        sd = size * math.sqrt(share * (1 - share))
        print(
            f"| {size} points in {share:.0%}, {sd:.1f} | {answers} | {steady[0] / times:.0%} | {steady[1] / times:.0%} |",
            flush=True,
        )
    print()


def mended(rng: np.random.Generator, scale: float, data: Path) -> None:
    """What a certificate rests on, as it was first and as it is: at 1.25 %, one criterion, 400 judged answers."""
    times, level, n = int(400 * scale), ALPHA, LABELLED
    print("### Bias by all answers' marks\n")
    print("| judge | bias from | trusted at 40 | at 40, 70, 100 or 200 | width |\n|---|---|---|---|---|")
    for name, (bias, r) in {
        "bias 10, r .9": (10, 0.9),
        "bias 10, r .7": (10, 0.7),
        "bias 3, r .8": (3, 0.8),
        "bias 0, r .5": (0, 0.5),
        "bias 3, r .7": (3, 0.7),
    }.items():
        judges = [population(rng, bias, r) for _ in range(times)]
        for what, whole in (("the labelled (before)", False), ("all", True)):
            first, ever, widths = 0, 0, []
            for people, judge in judges:
                rows = [trust_row(people[:m], judge[:m], judge if whole else judge[:m], level) for m in LOOKS]
                words = [row["verdict"] == "信頼できる" for row in rows]
                first, ever = first + words[0], ever + any(words)
                widths.append(rows[0]["bias_high"] - rows[0]["bias_low"])
            print(f"| {name} | {what} | {first / times:.1%} | {ever / times:.1%} | {np.mean(widths):.1f} |", flush=True)

    for name, ones in (
        ("the 56 pairs of real judges", real_points(data, 1.0)),
        ("LLMBar and PandaLM", people_verdicts(data, 1.0)),
    ):
        squares = []
        for one, _ in product(ones, range(8)):
            people, judge = (
                (float(one.people.max() == 1) * 99 + 1) * one.people,
                (float(one.judge.max() == 1) * 99 + 1) * one.judge,
            )
            pick = rng.choice(len(people), n, replace=False)
            alone, whole = (trust_row(people[pick], judge[pick], f, level) for f in (judge[pick], judge))
            squares.append(((whole["bias_high"] - whole["bias_low"]) / (alone["bias_high"] - alone["bias_low"])) ** 2)
        low, middle, high = np.nanpercentile(squares, [10, 50, 90])
        print(
            f"- {name}: variance over that of the labelled {np.nanmean(squares):.2f} (10 to 90 %: {low:.2f}–{high:.2f}, median {middle:.2f})"
        )

    print("\n### Labels chosen among what the judge passes and fails\n")
    print("| judge | true bias | labels | trusted | refused |\n|---|---|---|---|---|")
    for name, (good, bad) in {
        "16 points too kind to bad answers": (0, 16),
        "16 points too kind to good ones": (16, 0),
    }.items():
        counts = {what: np.zeros(2) for what in ("40 at random", "20 passes, 20 fails (before)", "the same, weighted")}
        true = []
        for _ in range(times):
            people = 75 + 15 * rng.standard_normal(JUDGED)
            judge = people + np.where(people >= 70, good, bad) + 6 * rng.standard_normal(JUDGED)
            true.append(float((judge - people).mean()))
            passed = judge >= 70
            half = np.concatenate([rng.permutation(np.flatnonzero(passed == kind))[: n // 2] for kind in (True, False)])
            weights = np.where(passed[half], 2 * passed.mean(), 2 - 2 * passed.mean())
            picks = {
                "40 at random": (np.arange(n), np.ones(n)),
                "20 passes, 20 fails (before)": (half, np.ones(n)),
                "the same, weighted": (half, weights),
            }
            for what, (pick, weight) in picks.items():
                before = what == "20 passes, 20 fails (before)"
                everything = judge[pick] if before else judge
                word = _sample_row(_Sample(people[pick], judge[pick], weight, everything), level)["verdict"]
                counts[what] += word == "信頼できる", word == "信頼できない"
        for what, (trusted, refused) in counts.items():
            print(
                f"| {name} | {np.mean(true):.1f} | {what} | {trusted / times:.1%} | {refused / times:.1%} |", flush=True
            )

    print("\n### Rare failures\n")
    print("| fail | labels | mean covered | pass rate covered | told by corrected_means |\n|---|---|---|---|---|")
    for share, labels in product((0.05, 0.3), (10, 20, 40)):
        held = np.zeros(3)
        for _ in range(2 * times):
            fails = rng.random(JUDGED) < share
            people = np.where(
                fails,
                rng.integers(0, 9, JUDGED) * 5,
                np.where(rng.random(JUDGED) < 0.7, 100, rng.integers(16, 20, JUDGED) * 5),
            ).astype(float)
            judge = np.where(fails & (rng.random(JUDGED) < 0.6), 40, 90) + rng.integers(-2, 3, JUDGED) * 5.0
            worlds = people.mean(), (people >= 70).mean()  # of these answers
            mean = corrected_mean(people[:labels], judge[:labels], judge)
            rate = corrected_rate(people[:labels] >= 70, judge[:labels] >= 70, judge >= 70)
            same = int(pd.Series(people[:labels]).value_counts().max())
            held += (
                covers(mean.low, mean.high, worlds[0]),
                covers(rate.low, rate.high, worlds[1]),
                labels < MANY_LABELS and 2 * same > labels,
            )
        told = " | ".join(f"{each:.1%}" for each in held / (2 * times))
        print(f"| {share:.0%} | {labels} | {told} |", flush=True)

    print("\n### Good answers alone\n")
    print("| r over all | labelled | r over them | shown above .5 | told |\n|---|---|---|---|---|")
    for r, which in product((0.6, 0.8, 0.9), ("40 of all", "40 that people pass")):
        found, shown, told = [], 0, 0
        for _ in range(times):
            people, judge = population(rng, 0, r)
            pick = np.arange(n) if which == "40 of all" else np.flatnonzero(people >= 70)[:n]
            row = trust_row(people[pick], judge[pick], judge, level)
            found.append(row["correlation"])
            shown += row["correlation_low"] > CORRELATION
            told += not row["correlation_low"] > CORRELATION and int((people[pick] < 70).sum()) < FEW_BAD * n
        print(f"| {r} | {which} | {np.mean(found):.2f} | {shown / times:.0%} | {told / times:.0%} |", flush=True)

    print("\n### What a judge shows that notices nine of ten damages\n")
    for answers in (7, 9, 10, 20):
        print(
            f"- {answers} answers: shown with a chance of {share_power(0.9, answers, ALPHA / 6, 0.5):.0%} (six criteria)"
        )
    missed = [1 - float(scipy.stats.binom.sf(k // 2, k, 0.9)) for k in (2, 2, 2, 10, 10)]
    vetoes = (1 - math.prod(1 - each for each in kinds) for kinds in (missed, missed[3:]))
    print(
        "- one kind of damage forbids the word for 安全性 (kinds of 2, 2, 2, 10, 10 answers): before {:.0%}, from five answers on {:.1%}".format(
            *vetoes
        )
    )

    path = data / "pandalm_test_sample" / "items.jsonl"
    if path.exists():
        print(
            f"\n### People in the judge's place (PandaLM)\n\n| in the judge's place | all 201 | {' | '.join(WORDS)} (40) |\n|---|---|---|---|---|---|"
        )
        rows = pd.read_json(path, lines=True)
        marks = (rows[[f"annotator{k}" for k in (1, 2, 3)]] == 1) * 100.0
        places: dict[str, tuple[Any, Any]] = {
            f"annotator {k + 1}": (marks.iloc[:, k], marks.drop(columns=marks.columns[k]).mean(axis=1))
            for k in range(3)
        }
        places |= {
            judge: ((rows[judge].astype(str) == "1") * 100.0, marks.mean(axis=1)) for judge in ("gpt35", "pandalm7b")
        }
        for name, (own, others) in places.items():
            own, others = own.to_numpy(float), others.to_numpy(float)
            words = []
            for _ in range(times):
                pick = rng.choice(len(own), n, replace=False)
                words.append(trust_row(others[pick], own[pick], own, level)["verdict"])
            shares = " | ".join(f"{words.count(word) / times:.0%}" for word in WORDS)
            print(f"| {name} | {trust_row(others, own, own, level)['verdict']} | {shares} |", flush=True)
    print()


def population(rng: np.random.Generator, bias: float, r: float) -> tuple[np.ndarray, np.ndarray]:
    """People's and a judge's marks of 400 answers."""
    people = rng.standard_normal(400)
    judge = r * people + math.sqrt(1 - r * r) * rng.standard_normal(400)
    return 65 + 15 * people, 65 + bias + 15 * judge


def _trusted(marks: tuple[np.ndarray, np.ndarray], at: Sequence[int], level: float) -> tuple[bool, bool]:
    """Whether a judge is trusted at the first look, and at any."""
    people, judge = marks
    for n in at:
        if trust_row(people[:n], judge[:n], judge, level)["verdict"] == "信頼できる":
            return n == at[0], True
    return False, False


def trust_row(people: np.ndarray, judge: np.ndarray, everything: np.ndarray, level: float) -> dict[str, Any]:
    """The row of `judge_trust` for one criterion at that level, without its frames."""
    return _sample_row(_Sample(people, judge, np.ones(len(people)), everything), level)


def _sample_row(sample: _Sample, level: float) -> dict[str, Any]:
    found = _compare(sample, level)
    return _row(found, found.p_value, level)


def beside(whole: str, word: str) -> str:
    """How the word from a few labels stands to the word from all: one of `BESIDE`."""
    if word == whole:
        return "the same"
    if {word, whole} == set(FIRM):
        return "the opposite"
    strength = {"分からない": 0, "条件つき": 1}
    return "less said" if strength.get(word, 2) < strength.get(whole, 2) else "more said"


def best_share(one: Population, labels: int) -> float:
    """How often the most powerful test at 5 %, scatter known, tells on which side of the margin the bias of all lies."""
    apart = one.judge - one.people
    gap = abs(abs(float(apart.mean())) - MARGIN) / float(apart.std(ddof=1))
    return float(scipy.stats.norm.sf(scipy.stats.norm.ppf(0.95) - gap * math.sqrt(labels)))


def trust_word(people: np.ndarray, judge: np.ndarray) -> str:
    one = pd.DataFrame({"question_id": range(len(people)), "answer_sha256": range(len(people)), "criterion": "one"})
    return str(
        judge_trust(one.assign(judge_model="A", score=judge), one.assign(rater="B", score=people))["verdict"].iloc[0]
    )


PARTS: dict[str, Callable[[np.random.Generator, float, Path], None]] = {
    "corrected": corrected,
    "rates": rates,
    "trust": trust,
    "draws": draws,
    "looks": looks,
    "mended": mended,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=list(PARTS))
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--data", type=Path, default=SHARED)
    args = parser.parse_args()
    for name in args.parts:
        PARTS[name](np.random.default_rng(args.seed), args.scale, args.data)


if __name__ == "__main__":
    main()
