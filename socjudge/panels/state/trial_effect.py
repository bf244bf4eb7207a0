"""Compare two runs question by question, to show what an edited prompt changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from ...history.frames import load_scores
from ...records import EvaluationResult, EvaluationRun
from ...report.effect import RunComparison, compare_runs
from ...stats.comparison import UNSEEN, verdict_flips

FLIPS = ("合格→不合格", "不合格→合格")  # pass to fail, fail to pass


@dataclass(frozen=True)
class QuestionChange:
    """Hold the results on one question with each of the two prompts of a trial."""

    before: tuple[EvaluationResult, ...]  # with the base prompt
    after: tuple[EvaluationResult, ...]  # with the edited prompt
    direction: str  # one of FLIPS; empty if the verdict did not change


@dataclass(frozen=True)
class Effect:
    """Hold what an edited prompt changed, compared with its base prompt."""

    comparison: RunComparison
    questions: tuple[QuestionChange, ...]  # those whose verdict changed come first
    same_answers: bool  # whether both prompts were tried on the same answers

    @property
    def difference(self) -> float | None:
        """Return by how many points the edited prompt changed the mean score over questions and criteria.
        A positive number means higher scores with the edited prompt. Return None if nothing could be compared."""
        moved = self.comparison.differences["mean_difference"].iloc[-1]  # the row of 総合
        return None if pd.isna(moved) else float(moved)


def measure_effect(before: EvaluationRun, after: EvaluationRun, *, same_answers: bool) -> Effect:
    """Compare the run of the edited prompt with that of the base prompt, on the questions of the former only.
    If a question has several results in a run, their scores are averaged first."""

    def pair_of(result: EvaluationResult) -> tuple[int | str, int]:
        # If the answers differ, the results on a question are compared all the same.
        return result.question.id, result.answer_repeat if same_answers else 0

    tried = set(map(pair_of, after.results))
    before = replace(before, results=[result for result in before.results if pair_of(result) in tried])
    comparison = compare_runs(before, after)
    directions = dict(zip(comparison.questions["question_id"], comparison.questions["direction"], strict=True))
    questions = [
        QuestionChange(_of(before, question), _of(after, question), direction if direction in FLIPS else "")
        for question, direction in directions.items()
    ]
    questions.sort(key=lambda both: not both.direction)
    return Effect(comparison, tuple(questions), same_answers)


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


def _of(run: EvaluationRun, question: int | str) -> tuple[EvaluationResult, ...]:
    results: Sequence[EvaluationResult] = run.results
    return tuple(result for result in results if result.question.id == question)
