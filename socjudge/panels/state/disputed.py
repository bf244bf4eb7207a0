"""Find the answers about which two logs disagree."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from ...history.frames import load_scores
from ...records import EvaluationRun
from ...stats.comparison import UNSEEN, verdict_flips


def disputed_questions(run: EvaluationRun, logs_dir: Path) -> set[int | str]:
    """Return the ids of the questions whose stored answer passes in `run` but not in another log, or vice versa.
    There are none if no other log in the folder has scores for the same answers."""
    own = run.scores_frame()
    answers = set(zip(own["question_id"], own["answer_sha256"], strict=True))
    scores = load_scores(logs_dir)
    keys = zip(scores["question_id"], scores["answer_sha256"], scores["run_id"], strict=True)
    same = [(question, answer) in answers and log != run.run.run_id for question, answer, log in keys]
    scores = pd.concat([own, scores.loc[same]], ignore_index=True)
    if scores["run_id"].nunique() < 2:
        return set()
    flips = verdict_flips(scores, baseline=run.run.run_id, by="run_id")
    return set(flips.loc[flips["direction"] != UNSEEN, "question_id"])
