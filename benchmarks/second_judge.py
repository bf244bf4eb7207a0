"""Two judges as one on real judges' marks (docs/validation.md, "Two judges as one"): cost and agreement beside each alone.

    python benchmarks/second_judge.py [--data ../shared/data]

Of every pair of judges that marked the same Japanese answers, the first marks all and the second what lies within so many points of
the line. Cost is counted in calls of the second, where one of the first costs a sixteenth (gpt-4o-mini beside gpt-4o)."""

from __future__ import annotations

import argparse
from itertools import permutations
from pathlib import Path

import pandas as pd

LINE, RATIO = 70, 1 / 16.7
SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


def load_points(data: Path) -> pd.DataFrame:
    """One row per answer: benchmark, model, item and each judge's mark as points."""
    marks = pd.read_csv(data / "shaberi_judges_sample" / "scores_wide.csv.gz")
    judges = list(marks.columns[3:])
    one_to_five = marks["benchmark"] == "ELYZA-tasks-100"  # the others: 0 to 10
    points = marks[judges].apply(pd.to_numeric, errors="coerce")
    points = points.sub(one_to_five * 1, axis=0).mul(one_to_five.map({True: 25, False: 10}), axis=0).clip(0, 100)
    return pd.concat([marks[["benchmark", "model", "item"]], points], axis=1)


def pairs(points: pd.DataFrame, band: float) -> pd.DataFrame:
    """One row per benchmark and pair of judges."""
    rows = []
    judges = list(points.columns[3:])
    for benchmark, part in points.groupby("benchmark"):
        for first, second in permutations(judges, 2):
            both = part[[first, second]].dropna()
            if len(both) < 300:
                continue
            alone, dear = both[first] >= LINE, both[second] >= LINE
            asked = (both[first] - LINE).abs() <= band
            mixed = alone.where(~asked, dear)
            rows.append(
                {
                    "benchmark": benchmark, "n": len(both), "asked": asked.mean(), "cost": RATIO + asked.mean(),
                    "first_agrees": (alone == dear).mean(), "mixed_agrees": (mixed == dear).mean(),
                    "first_bias": both[first].mean() - both[second].mean(),
                    "mixed_bias": (both[first].where(~asked, both[second]) - both[second]).mean(),
                }
            )  # fmt: skip
            third = [name for name in judges if name not in (first, second)]
            votes = part.loc[both.index, third]
            people = (votes >= LINE).sum(axis=1) / votes.notna().sum(axis=1)
            known = people.notna() & (people != 0.5)
            majority = people[known] > 0.5
            for name, verdicts in (("first", alone), ("mixed", mixed), ("second", dear)):
                rows[-1][f"{name}_third"] = (verdicts[known] == majority).mean()
    return pd.DataFrame(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=SHARED)
    points = load_points(parser.parse_args().data)
    pd.set_option("display.width", 200, "display.max_columns", 30)
    for band in (0, 5, 10, 20):
        found = pairs(points, band)
        print(f"\nband ±{band}: {len(found)} pairs")
        print(found.groupby("benchmark").mean(numeric_only=True).round(3))
        print("all", found.mean(numeric_only=True).round(3).to_dict())


if __name__ == "__main__":
    main()
