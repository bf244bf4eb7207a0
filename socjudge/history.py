"""Runs as tidy frames: columns have ASCII names, criteria and categories keep the specification's order."""

from __future__ import annotations

import pandas as pd

from . import constants
from .records import EvaluationRun


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
    frame = pd.DataFrame(rows).astype({"average_score": "Float64", "passed": "boolean", "cost_usd": "Float64"})
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
    frame = pd.DataFrame(rows).astype({"score": "Float64"})
    return frame.assign(
        category=_ordered(frame["category"], constants.QUESTION_CATEGORIES),
        criterion=_ordered(frame["criterion"], constants.JUDGE_EVALUATION_CRITERIA),
    )


def _ordered(values: pd.Series, known: list[str]) -> pd.Categorical:
    """The values as an ordered categorical: the known ones first, then whatever else occurs."""
    others = [value for value in dict.fromkeys(values) if value not in known]
    return pd.Categorical(values, categories=[*known, *others], ordered=True)
