"""How often the intervals, tests and probabilities of socjudge are right, in simulations; a Markdown table.

    python benchmarks/calibration.py [--scale 1.0] [--seed 0]

Ten questions, six criteria, marks in steps of five between 0 and 100, skewed towards 100 the better the assistant is.
A question has an effect of its own and so has each criterion of it; a judge adds noise to each mark and to each answer.
The true value is the mean of 200,000 questions. --scale 4 makes four times as many simulations (and takes that long).
An interval that is missing, because all values were equal, counts as one that does not cover.
The rows "real" draw questions from what six real judges gave (../shared/data, left out where that is absent).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.stats

from socjudge.stats import gate_confidence
from socjudge.stats.agreement import krippendorff_alpha
from socjudge.stats.basics import (
    detectable_difference,
    difference_interval,
    holm_adjust,
    jackknife_interval,
    mean_interval,
    pass_rate_interval,
    sign_flip_p,
)
from socjudge.stats.bridge import equating_lines

MARKS = Path(__file__).resolve().parents[2] / "shared" / "data" / "shaberi_judges_sample" / "scores_wide.csv.gz"
N = 10
OFFSETS = np.array([0.5, 0.3, -0.2, 0.4, -0.6, 0.2])  # some criteria are easier than others
Row = tuple[str, str, int, str, float, bool]  # what, where, simulations, wanted, measured, whether it is as wanted


def draw_answers(rng: np.random.Generator, times: int, n: int, quality: float) -> np.ndarray:
    """What answers are worth on a latent scale, (times, n, 6): question effect and question-by-criterion effect."""
    question = 0.7 * rng.standard_normal((times, n, 1))
    return quality + OFFSETS + question + 0.6 * rng.standard_normal((times, n, 6))


def judge(rng: np.random.Generator, worth: np.ndarray, shift: float = 0.0) -> np.ndarray:
    """A judge's marks for the answers: 0–100 in steps of five."""
    answer = 0.25 * rng.standard_normal((*worth.shape[:-1], 1))
    latent = worth + shift + answer + 0.3 * rng.standard_normal(worth.shape)
    return np.round(20 / (1 + np.exp(-latent))) * 5


def t_interval(x: np.ndarray) -> tuple[float, float]:
    if np.ptp(x) == 0:
        return np.nan, np.nan
    found = scipy.stats.ttest_1samp(x, 0).confidence_interval()
    return found.low, found.high


MEANS = {"hall": mean_interval, "t": t_interval}


def covered(interval: tuple[float, float], truth: float) -> bool:
    return interval[0] - 1e-9 <= truth <= interval[1] + 1e-9


def coverage(what: str, where: str, hits: list[bool]) -> Row:
    rate = float(np.mean(hits))
    return what, where, len(hits), "93–97 %", rate, 0.93 <= round(rate, 3) <= 0.97


def means(rng: np.random.Generator, scale: float) -> Iterator[Row]:
    for quality in (0.5, 1.3, 2.0, 3.0):
        large = judge(rng, draw_answers(rng, 1, 200_000, quality))[0]
        truth, one_truth = float(large.mean()), float(large[:, 0].mean())
        marks = judge(rng, draw_answers(rng, int(1500 * scale), N, quality))
        where = f"true mean {truth:.0f}"
        for method, interval in MEANS.items():
            hits = [covered(interval(run.mean(axis=1)), truth) for run in marks]
            yield coverage(f"mean of the six criteria, {method}", where, hits)
        for method, interval in MEANS.items():
            hits = [covered(interval(run[:, 0]), one_truth) for run in marks]
            yield coverage(f"one criterion, {method}", f"true mean {one_truth:.0f}", hits)


def real_marks(rng: np.random.Generator, scale: float) -> Iterator[Row]:
    if not MARKS.exists():
        return
    marks = pd.read_csv(MARKS)
    judges = list(marks.columns[3:])
    points = marks[judges].apply(pd.to_numeric, errors="coerce")
    one_to_five = marks["benchmark"] == "ELYZA-tasks-100"  # the others: 0 to 10
    points = points.sub(one_to_five * 1, axis=0).mul(one_to_five.map({True: 25, False: 10}), axis=0).clip(0, 100)
    groups = [part for _, part in points.groupby([marks["benchmark"], marks["model"]])]
    given = [part[judge] for part in groups for judge in judges]
    apart = [part[second] - part[first] for part in groups for first, second in combinations(judges, 2)]
    for what, values, times, intervals in (
        ("marks", given, 4, MEANS),
        ("differences of two judges", apart, 2, {"t with correction": difference_interval}),
    ):
        populations = [column.dropna().to_numpy() for column in values if column.notna().sum() >= 30]
        for size, where in ((1, "one score per question"), (3, "mean of three scores"), (6, "mean of six scores")):
            for method, interval in intervals.items():
                hits = []
                for population in populations:
                    drawn = rng.choice(population, (max(1, int(times * scale)), N, size)).mean(axis=2)
                    truth = float(population.mean())
                    hits += [covered(interval(x), truth) for x in drawn]
                yield coverage(f"real {what}, {method}", where, hits)


def pass_rates() -> Iterator[Row]:
    rates = np.linspace(0.3, 0.95, 200)
    chances = np.array([(rates**k) * (1 - rates) ** (N - k) * binomial(N, k) for k in range(N + 1)])
    inside = np.array([[covered(pass_rate_interval(k, N), p) for p in rates] for k in range(N + 1)])
    exact = (chances * inside).sum(axis=0)
    for where, rate in (
        ("average over true rates 0.3–0.95", float(exact.mean())),
        ("true rate 0.7", float(np.interp(0.7, rates, exact))),
    ):
        yield "pass rate, Wilson", where, 0, "93–97 %", rate, 0.93 <= rate <= 0.97


def binomial(n: int, k: int) -> float:
    return float(np.prod([(n - i) / (i + 1) for i in range(k)]))


def differences(rng: np.random.Generator, scale: float) -> Iterator[Row]:
    for quality, shift in ((1.3, -0.3), (2.0, -0.5)):
        worth = draw_answers(rng, 1, 200_000, quality)
        large = (judge(rng, worth, shift) - judge(rng, worth))[0]
        worth = draw_answers(rng, int(1500 * scale), N, quality)
        d = judge(rng, worth, shift) - judge(rng, worth)
        for what, values, truth in (
            ("difference of the mean", d.mean(axis=2), large.mean()),
            ("difference on one criterion", d[:, :, 0], large[:, 0].mean()),
        ):
            hits = [covered(difference_interval(x), float(truth)) for x in values]
            yield coverage(what, f"judges {truth:+.1f} points apart", hits)


def false_alarms(rng: np.random.Generator, scale: float) -> Iterator[Row]:
    for n, times, samples in ((N, int(3000 * scale), 0), (20, int(1500 * scale), 499)):
        worth = draw_answers(rng, times, n, 1.3)
        d = judge(rng, worth) - judge(rng, worth)
        overall = np.array([sign_flip_p(run.mean(axis=1), samples=samples) for run in d]) < 0.05
        each = [[sign_flip_p(run[:, c], samples=samples) for c in range(6)] for run in d]
        any_criterion = np.array([(holm_adjust(p) < 0.05).any() for p in each])
        # Three standard errors above 5 % would be a fault, less is chance.
        line = 0.05 + 3 * np.sqrt(0.05 * 0.95 / times)
        for what, alarms in (("総合", overall), ("any criterion (Holm)", any_criterion)):
            rate = float(alarms.mean())
            yield f"false alarm, same judge: {what}", f"n = {n}", times, "≤ 5 %", rate, bool(rate <= line)
        either = float((overall | any_criterion).mean())
        yield "false alarm: 総合 or any criterion", f"n = {n}", times, "(two families)", either, True


def detection(rng: np.random.Generator, scale: float) -> Iterator[Row]:
    worth = draw_answers(rng, int(1500 * scale), N, 1.3)
    d = (judge(rng, worth) - judge(rng, worth)).mean(axis=2)
    for what, alpha in (("総合, level 0.05", 0.05), ("a criterion, level 0.05 / 6", 0.05 / 6)):
        shift = detectable_difference(float(d.std()), N, alpha=alpha)
        seen = float(np.mean([sign_flip_p(x + shift) <= alpha for x in d]))
        yield f"detectable difference is seen: {what}", f"n = {N}", len(d), "80 %", seen, 0.75 <= seen <= 0.85


def agreement(rng: np.random.Generator, scale: float) -> Iterator[Row]:
    for k, shifts in ((2, (0, 0)), (2, (0, -0.4)), (3, (0, -0.4, 0.2))):
        large = draw_answers(rng, 1, 200_000, 1.3)[0]
        ratings = np.column_stack([judge(rng, large, shift).mean(axis=1) for shift in shifts])
        worth = draw_answers(rng, int(700 * scale), N, 1.3)
        drawn = np.stack([judge(rng, worth, shift).mean(axis=2) for shift in shifts], axis=2)
        truth, hits = krippendorff_alpha(ratings), []
        for x in drawn:
            left_out = [krippendorff_alpha(np.delete(x, i, axis=0)) for i in range(N)]
            interval = jackknife_interval(krippendorff_alpha(x), left_out, scale="agreement", raters=k)
            hits.append(covered(interval, truth))
        yield coverage("Krippendorff alpha, jackknife", f"{k} judges, true {truth:.2f}", hits)


def bridge(rng: np.random.Generator, scale: float) -> Iterator[Row]:
    # Points, because the truth is a line between two scales.
    for n, slope, spread in ((N, 1.0, 12), (N, 0.8, 12), (N, 0.8, 7), (20, 0.8, 12)):
        size = (int(1000 * scale), n)
        truth = 78 - spread * (rng.chisquare(6, size) - 6) / np.sqrt(12)
        old, new = (
            np.clip(np.round((line + 4 * rng.standard_normal(size)) * 1.2) / 1.2, 0, 100)
            for line in (truth, 8 + slope * truth)
        )
        slopes, lines, refused = [], [], 0
        for x, y in zip(old, new, strict=True):
            found = equating_lines(x, y, np.arange(n))
            if np.isnan(found).any():
                refused += 1
                continue
            at = found[:, 0] + found[:, 1] * 70
            slopes.append(covered(jackknife_interval(found[0, 1], found[1:, 1]), slope))
            lines.append(covered(jackknife_interval(at[0], at[1:]), 8 + slope * 70))
        where = f"n = {n}, slope {slope}, sd of questions {spread}, {refused / size[0]:.0%} refused"
        yield coverage("bridge, slope", where, slopes)
        yield coverage("bridge, pass line", where, lines)


def gate(rng: np.random.Generator, scale: float) -> Iterator[Row]:
    times, repeats, noise = int(1000 * scale), 3, 5.0
    level = 75 + 4 * rng.standard_normal((times, 1))
    for shape, question in (
        ("normal", rng.standard_normal((times, N))),
        ("skewed", -(rng.chisquare(6, (times, N)) - 6) / np.sqrt(12)),
    ):
        truth = np.clip(level + 10 * question, 0, 98)
        scores, again = (
            np.clip(truth[:, :, None] + noise * rng.standard_normal((times, N, repeats)), 0, 100) for _ in range(2)
        )
        run, number, repeat = (axis.ravel() for axis in np.indices(scores.shape))
        found = gate_confidence(
            pd.DataFrame(
                {"run_id": run, "question_id": number, "answer_repeat": repeat, "average_score": scores.ravel()}
            )
        )
        for verdict, wrong in (("合格", ~passes(truth)), ("不合格", passes(truth))):
            said = (found["verdict"] == verdict).to_numpy()
            rate = float(wrong[said].mean())
            where = f"{shape} questions; said {said.mean():.0%} of the time"
            yield f"verdict {verdict} is wrong", where, int(said.sum()), "≤ 5 %", rate, rate <= 0.05
        for column, outcome in (("p_true", passes(truth)), ("p_rerun", passes(again.mean(axis=2)))):
            p = found[column].to_numpy()
            middle = (p > 0.2) & (p < 0.8)
            gap = float(p[middle].mean() - outcome[middle].mean())
            where = f"{shape} questions; said {p[middle].mean():.2f}, came true {outcome[middle].mean():.2f}"
            yield f"{column} between 0.2 and 0.8", where, int(middle.sum()), "gap ≤ 10 %", gap, abs(gap) <= 0.1


def passes(x: np.ndarray) -> np.ndarray:
    return ((x >= 70).sum(axis=1) >= 7) & (x.mean(axis=1) >= 70)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    print("| what | where | simulations | wanted | measured | |")
    print("|---|---|---|---|---|---|")
    parts = (means, real_marks, differences, false_alarms, detection, agreement, bridge, gate)
    rows = [part(np.random.default_rng(args.seed), args.scale) for part in parts]
    for group in [*rows[:2], pass_rates(), *rows[2:]]:
        for what, where, times, wanted, measured, good in group:
            print(
                f"| {what} | {where} | {times or 'exact'} | {wanted} | {measured:.1%} | {'' if good else 'no'} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
