"""How long the agreement of two judges takes to work out, by the number of answers: CPU seconds, best of three.

    python benchmarks/agreement.py [answers ...]

Each answer has six marks of each judge, in a frame as `load_scores` gives it; one answer in fifty has a mark missing."""

from __future__ import annotations

import sys
import time

import numpy as np
import pandas as pd

from socjudge import constants
from socjudge.stats.agreement import judge_agreement


def marks(answers: int, judges: tuple[str, ...] = ("gpt-4o", "gpt-4o-mini"), repeats: int = 1) -> pd.DataFrame:
    """The marks of the judges; the questions are as many as the answers over `repeats`."""
    rng = np.random.default_rng(0)
    criteria = constants.JUDGE_EVALUATION_CRITERIA
    shape = (len(judges), answers, len(criteria))
    true = rng.normal(75, 15, (1, answers, 1))
    score = (true + rng.normal(0, 8, shape)).round(-1).clip(0, 100)
    score[:, ::50, 0] = np.nan
    judge, answer, criterion = (index.ravel() for index in np.indices(shape))
    hashes = np.array([f"{number:064x}" for number in range(answers)], dtype=object)
    return pd.DataFrame(
        {
            "judge_model": pd.Categorical.from_codes(judge, list(judges)),
            "question_id": answer // repeats + 1,
            "answer_sha256": hashes[answer],
            "criterion": pd.Categorical.from_codes(criterion, criteria, ordered=True),
            "score": pd.Series(score.ravel()).astype("Float64"),
        }
    )


if __name__ == "__main__":
    print("| answers | `judge_agreement` CPU s |\n|---|---|")
    for answers in map(int, sys.argv[1:] or ["3000", "100000"]):
        frame, times = marks(answers), []
        for _ in range(3):
            start = time.process_time()
            judge_agreement(frame)
            times.append(time.process_time() - start)
        print(f"| {answers:,} | {min(times):.2f} |")
