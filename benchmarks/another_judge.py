"""`socjudge migrate-judge` on real judges' marks (docs/validation.md, "Another judge"): its intervals against what all answers show.

    python benchmarks/another_judge.py [--data ../shared/data] [--draws 500]

Of every pair of judges that marked the same Japanese answers, answers are drawn as `pick_answers` does, from another start each time, and
what they tell is compared with the line, the shift and the turned verdicts of all answers."""

from __future__ import annotations

import argparse
from itertools import permutations
from pathlib import Path

import numpy as np
import pandas as pd
from second_judge import LINE, SHARED, load_points

from socjudge.certify.migration import ENOUGH, pick_answers
from socjudge.stats.basics import difference_interval, jackknife_interval, pass_rate_interval
from socjudge.stats.bridge import equating_lines, questions_missing


def one_pair(both: pd.DataFrame, size: int, draws: int, rng: np.random.Generator) -> dict[str, float]:
    """Shares of the draws whose intervals hold what all answers show. both: question_id, answer_sha256, category, average_score
    (the old judge's) and new."""
    old, new = both["average_score"].to_numpy(), both["new"].to_numpy()
    truth = new.mean() + new.std() / old.std() * (LINE - old.mean())
    shift, turned = (new - old).mean(), ((old >= LINE) != (new >= LINE)).mean()
    held = {"line": 0, "shift": 0, "turned": 0, "enough": 0, "line_where_enough": 0, "none": 0}
    reach, missed = [], []
    for _ in range(draws):
        part = pick_answers(both, size, seed=int(rng.integers(2**31)))
        x, y = part["average_score"].to_numpy(), part["new"].to_numpy()
        lines = equating_lines(x, y, part["answer_sha256"])
        at = lines[:, 0] + lines[:, 1] * LINE
        low, high = jackknife_interval(at[0], at[1:], level=0.95)
        if np.isnan(low):
            held["none"] += 1
        else:
            held["line"] += low <= truth <= high
            reach.append((high - low) / 2)
            missed.append(abs(at[0] - truth))
            if questions_missing(max(high - at[0], at[0] - low), len(x), ENOUGH) == 0:
                held["enough"] += 1
                held["line_where_enough"] += abs(at[0] - truth) <= ENOUGH
        low, high = difference_interval(y - x, level=0.95)
        held["shift"] += low <= shift <= high
        low, high = pass_rate_interval(int(((x >= LINE) != (y >= LINE)).sum()), len(x))
        held["turned"] += low <= turned <= high
    with_line = draws - held["none"]
    return {
        "n": len(both), "line": truth, "turned": turned, "no_line": held["none"] / draws,
        "line_held": held["line"] / max(with_line, 1), "shift_held": held["shift"] / draws,
        "turned_held": held["turned"] / draws, "reach": float(np.mean(reach)) if reach else np.nan,
        "missed": float(np.mean(missed)) if missed else np.nan, "enough": held["enough"] / draws,
        "within_where_enough": held["line_where_enough"] / held["enough"] if held["enough"] else np.nan,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=SHARED)
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--sizes", type=int, nargs="*", default=[20, 40, 100])
    args = parser.parse_args()
    points, rng, rows = load_points(args.data), np.random.default_rng(0), []
    judges = list(points.columns[3:])
    for size in args.sizes:
        for benchmark, part in points.groupby("benchmark"):
            for old, new in permutations(judges, 2):
                both = part[["model", "item", old, new]].dropna()
                if len(both) < 300:
                    continue
                # The answering model stands in the place of a category.
                both = pd.DataFrame(
                    {
                        "question_id": range(len(both)), "answer_sha256": [f"{i:05}" for i in range(len(both))],
                        "category": both["model"].to_numpy(), "average_score": both[old].to_numpy(),
                        "new": both[new].to_numpy(),
                    }
                )  # fmt: skip
                rows.append({"size": size, "benchmark": benchmark, **one_pair(both, size, args.draws, rng)})
    frame = pd.DataFrame(rows)
    pd.set_option("display.width", 220, "display.max_columns", 30)
    print(frame.groupby("size").mean(numeric_only=True).round(3))
    print(frame.groupby(["size", "benchmark"]).mean(numeric_only=True).round(3))
    print(frame.groupby("size")[["line_held", "shift_held", "turned_held"]].min().round(3))


if __name__ == "__main__":
    main()
