"""Compare two runs question by question, to show what an edited prompt changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from ...history.frames import load_scores
from ...records import EvaluationResult, EvaluationRun
from ...report.effect import RunComparison, compare_runs
from ...stats.comparison import verdict_flips

FLIPS = ("合格→不合格", "不合格→合格")


@dataclass(frozen=True)
class QuestionChange:
    """Hold the results on one question with each of the two prompts of a trial.

    - before, after: the results with the base prompt and with the edited prompt.
    - direction: the change of the verdict, "合格→不合格" (pass to fail) or "不合格→合格" (fail to pass); empty if the
      verdict did not change.
    """

    before: tuple[EvaluationResult, ...]
    after: tuple[EvaluationResult, ...]
    direction: str


@dataclass(frozen=True)
class Effect:
    """Hold what an edited prompt changed, compared with its base prompt.

    - comparison: the comparison of the two runs, from `compare_runs`.
    - questions: one record per question. The questions whose verdict changed come first.
    - same_answers: whether both prompts were tried on the same answers.
    """

    comparison: RunComparison
    questions: tuple[QuestionChange, ...]
    same_answers: bool

    @property
    def difference(self) -> float | None:
        """Return by how many points the edited prompt changed the mean score over questions and criteria.

        The number is positive if the scores are higher with the edited prompt than with the base prompt. Return None if
        nothing could be compared.
        """
        moved = self.comparison.differences["mean_difference"].iloc[-1]  # the row of 総合
        return None if pd.isna(moved) else float(moved)


def measure_effect(before: EvaluationRun, after: EvaluationRun, *, same_answers: bool) -> Effect:
    """Compare the run of the edited prompt (`after`) with that of the base prompt (`before`).

    Only the questions of `after` are compared. If a question has several results in a run, their scores are averaged
    first.

    same_answers: whether both runs judged the same stored answers. If they did not, the results on a question are
    compared even though the answers are different.
    """

    def pair_of(result: EvaluationResult) -> tuple[int | str, int]:
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
    """Return the ids of the questions whose stored answer has different verdicts in different logs.

    Such an answer passes in `run` but fails in another log, or fails in `run` but passes in another log. Return an
    empty set if no other log has scores for the same answers.

    logs_dir: the folder of the other logs.
    """
    own = run.scores_frame()
    answers = set(zip(own["question_id"], own["answer_sha256"], strict=True))
    scores = load_scores(logs_dir)
    keys = zip(scores["question_id"], scores["answer_sha256"], scores["run_id"], strict=True)
    same = [(question, answer) in answers and log != run.run.run_id for question, answer, log in keys]
    scores = pd.concat([own, scores.loc[same]], ignore_index=True)
    if scores["run_id"].nunique() < 2:
        return set()
    return set(verdict_flips(scores, baseline=run.run.run_id, by="run_id")["question_id"])


def _of(run: EvaluationRun, question: int | str) -> tuple[EvaluationResult, ...]:
    results: Sequence[EvaluationResult] = run.results
    return tuple(result for result in results if result.question.id == question)
