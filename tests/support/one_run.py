"""A small run, made by hand."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from socjudge import (
    AssistantAnswer,
    EvalQuestion,
    Evaluation,
    EvaluationRun,
)
from socjudge.base.verdict import summarise_results
from socjudge.records import EvaluationResult, Passage, RunInfo
from socjudge.runs.log_json import result_to_dict
from support.service import CRITERIA

STARTED = "2026-01-02T03:04:05+09:00"


def one_run(**evaluation: Any) -> EvaluationRun:
    values = {
        "scores": dict.fromkeys(CRITERIA, 80),
        "average_score": 80.0,
        "rationale": dict.fromkeys(CRITERIA, "理由"),
    }
    marks = Evaluation(**{**values, "overall_comment": "", "passed": True, "processing_time": 1.0, **evaluation})
    answer = AssistantAnswer("q", "a", passages=(Passage("本文", "a.md", "見出し", 0.5),))
    results = (EvaluationResult(EvalQuestion(1, "正常系", "q", ("k",)), answer, marks),)
    return EvaluationRun(results, summarise_results(results), RunInfo("r", STARTED))


def log_of(run: EvaluationRun) -> dict[str, Any]:
    """The run as the JSON value of its log."""
    rows = [result_to_dict(result) for result in run.results]
    return {"results": rows, "summary": asdict(run.summary), "run": asdict(run.run)}
