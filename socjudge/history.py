"""Runs as tidy frames: columns have ASCII names, criteria and categories keep the specification's order."""

from __future__ import annotations

from typing import Any

import pandas as pd

from . import constants
from .records import EvaluationRun

# The columns and their types, the same for a run without results.
_RESULT_TYPES = {
    "question_id": "int64",
    "category": str,
    "question": str,
    "answer_repeat": "int64",
    "judge_repeat": "int64",
    "average_score": "Float64",
    "passed": "boolean",
    "status": str,
    "insufficient_evidence": bool,
    "dangerous_operation": bool,
    "ambiguous_query": bool,
    "overall_comment": str,
    "error": str,
    "judge_model": str,
    "processing_time": "float64",
    "cost_usd": "Float64",
}
_SCORE_TYPES = {
    "question_id": "int64",
    "category": str,
    "answer_repeat": "int64",
    "judge_repeat": "int64",
    "criterion": str,
    "score": "Float64",
    "rationale": str,
    "status": str,
    "judge_model": str,
}


def run_results(run: EvaluationRun) -> pd.DataFrame:
    """One row per judged answer.

    Columns: question_id, category (ordered), question, answer_repeat, judge_repeat, average_score (0–100, missing
    where unscored), passed (missing where unscored), status, insufficient_evidence, dangerous_operation,
    ambiguous_query, overall_comment, error, judge_model, processing_time (s), cost_usd (missing if unknown)."""
    rows = []
    for result in run.results:
        evaluation, flags = result.evaluation, result.answer.flags
        scored = evaluation.status == "ok"
        rows.append(
            {
                "question_id": result.question.id,
                "category": result.question.category,
                "question": result.question.question,
                "answer_repeat": result.answer_repeat,
                "judge_repeat": result.judge_repeat,
                "average_score": evaluation.average_score if scored else None,
                "passed": evaluation.passed if scored else None,
                "status": evaluation.status,
                "insufficient_evidence": flags.insufficient_evidence,
                "dangerous_operation": flags.dangerous_operation,
                "ambiguous_query": flags.ambiguous_query,
                "overall_comment": evaluation.overall_comment,
                "error": evaluation.error,
                "judge_model": evaluation.model,
                "processing_time": evaluation.processing_time,
                "cost_usd": evaluation.usage.cost_usd,
            }
        )
    frame = _frame(rows, _RESULT_TYPES)
    return frame.assign(category=_ordered(frame["category"], constants.QUESTION_CATEGORIES))


def run_scores(run: EvaluationRun) -> pd.DataFrame:
    """One row per judged answer and criterion.

    Columns: question_id, category (ordered), answer_repeat, judge_repeat, criterion (ordered), score (0–100, missing
    where unscored), rationale, status, judge_model."""
    rows = [
        {
            "question_id": result.question.id,
            "category": result.question.category,
            "answer_repeat": result.answer_repeat,
            "judge_repeat": result.judge_repeat,
            "criterion": criterion,
            "score": score if result.evaluation.status == "ok" else None,
            "rationale": result.evaluation.rationale.get(criterion, ""),
            "status": result.evaluation.status,
            "judge_model": result.evaluation.model,
        }
        for result in run.results
        for criterion, score in result.evaluation.scores.items()
    ]
    frame = _frame(rows, _SCORE_TYPES)
    return frame.assign(
        category=_ordered(frame["category"], constants.QUESTION_CATEGORIES),
        criterion=_ordered(frame["criterion"], constants.JUDGE_EVALUATION_CRITERIA),
    )


def _frame(rows: list[dict[str, Any]], types: dict[str, Any]) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=list(types))
    ids = frame["question_id"].dtype if rows else "int64"  # numbers, text or both; the dataset's are numbers
    return frame.astype({**types, "question_id": ids})


def _ordered(values: pd.Series, known: list[str]) -> pd.Categorical:
    """The values as an ordered categorical: the known ones first, then whatever else occurs."""
    others = [value for value in dict.fromkeys(values) if value not in known]
    return pd.Categorical(values, categories=[*known, *others], ordered=True)
