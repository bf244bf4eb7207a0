"""`bridge_judges` on real judges' marks (benchmarks/statistics.md, "Another judge"): its intervals against what all answers show.

    python benchmarks/another_judge.py [--data ../shared/data] [--draws 500]

Of every pair of judges that marked the same Japanese answers, answers are drawn at random, and what they tell is compared with
the line and the shift of all answers."""

from __future__ import annotations

import argparse
from itertools import permutations
from pathlib import Path

import numpy as np
import pandas as pd

from socjudge.stats.basics import difference_interval, jackknife_interval
from socjudge.stats.bridge import equating_lines

LINE = 70
SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


def load_points(data: Path) -> pd.DataFrame:
    """One row per answer: benchmark, model, item and each judge's mark as points."""
    marks = pd.read_csv(data / "shaberi_judges_sample" / "scores_wide.csv.gz")
    judges = list(marks.columns[3:])
    one_to_five = marks["benchmark"] == "ELYZA-tasks-100"  # the others: 0 to 10
    points = marks[judges].apply(pd.to_numeric, errors="coerce")
    points = points.sub(one_to_five * 1, axis=0).mul(one_to_five.map({True: 25, False: 10}), axis=0).clip(0, 100)
    return pd.concat([marks[["benchmark", "model", "item"]], points], axis=1)


def one_pair(old: np.ndarray, new: np.ndarray, size: int, draws: int, rng: np.random.Generator) -> dict[str, float]:
    """Shares of the draws whose intervals hold what all answers show. old, new: each judge's points of the same answers."""
    truth = new.mean() + new.std() / old.std() * (LINE - old.mean())
    shift = (new - old).mean()
    held = {"line": 0, "shift": 0, "none": 0}
    reach, missed = [], []
    for _ in range(draws):
        part = rng.choice(len(old), size, replace=False)
        x, y = old[part], new[part]
        lines = equating_lines(x, y, part)
        at = lines[:, 0] + lines[:, 1] * LINE
        low, high = jackknife_interval(at[0], at[1:])
        if np.isnan(low):
            held["none"] += 1
        else:
            held["line"] += low <= truth <= high
            reach.append((high - low) / 2)
            missed.append(abs(at[0] - truth))
        low, high = difference_interval(y - x, level=0.95)
        held["shift"] += low <= shift <= high
    return {
        "n": len(old), "line": truth, "no_line": held["none"] / draws,
        "line_held": held["line"] / max(draws - held["none"], 1), "shift_held": held["shift"] / draws,
        "reach": float(np.mean(reach)) if reach else np.nan, "missed": float(np.mean(missed)) if missed else np.nan,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=SHARED)
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--sizes", type=int, nargs="*", default=[10, 20, 40, 100])
    args = parser.parse_args()
    points, rng, rows = load_points(args.data), np.random.default_rng(0), []
    judges = list(points.columns[3:])
    for size in args.sizes:
        for benchmark, part in points.groupby("benchmark"):
            for old, new in permutations(judges, 2):
                both = part[[old, new]].dropna().to_numpy().T
                if both.shape[1] >= 300:
                    rows.append({"size": size, "benchmark": benchmark, **one_pair(*both, size, args.draws, rng)})
    frame = pd.DataFrame(rows)
    pd.set_option("display.width", 220, "display.max_columns", 30)
    print(frame.groupby("size").mean(numeric_only=True).round(3))
    print(frame.groupby(["size", "benchmark"]).mean(numeric_only=True).round(3))
    print(frame.groupby("size")[["line_held", "shift_held"]].min().round(3))


if __name__ == "__main__":
    main()
