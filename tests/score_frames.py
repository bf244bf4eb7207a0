"""Small frames of scores for the tests of statistics, in the columns that the loaders give."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from conftest import shared_data

from socjudge import constants

CRITERIA = constants.JUDGE_EVALUATION_CRITERIA


def judged(
    judge: str,
    question: int | str,
    marks: float | Sequence[float | None] | None,
    *,
    answer: str = "a",
    answer_repeat: int = 0,
    judge_repeat: int = 0,
    run_id: str = "",
    prompt_id: str = "guide-1",
    started_at: str = "2026-01-01T00:00:00+09:00",
    category: str = "正常系",
    cost_usd: float | None = 0.001,
    seconds: float = 2.0,
) -> pd.DataFrame:
    """The rows of one judged answer. marks: one for all six criteria, or six; None where it could not be read."""
    six = list(marks) if isinstance(marks, Sequence) else [marks] * len(CRITERIA)
    rows = [
        {
            "run_id": run_id or f"run-{judge}",
            "started_at": pd.Timestamp(started_at),
            "judge_model": judge,
            "assistant_model": "offline",
            "prompt_id": prompt_id,
            "question_id": question,
            "category": category,
            "answer_repeat": answer_repeat,
            "judge_repeat": judge_repeat,
            "criterion": criterion,
            "score": mark,
            "status": "unparsable" if mark is None else "ok",
            "answer_sha256": hashlib.sha256(f"{question} {answer}".encode()).hexdigest(),
            "cost_usd": cost_usd,
            "processing_time": seconds,
        }
        for criterion, mark in zip(CRITERIA, six, strict=True)
    ]
    return pd.DataFrame(rows)


def framed(*parts: pd.DataFrame) -> pd.DataFrame:
    """The parts as one frame with the loaders' types."""
    frame = pd.concat([part.astype({"score": "Float64", "cost_usd": "Float64"}) for part in parts], ignore_index=True)
    return frame.assign(
        category=pd.Categorical(frame["category"], categories=constants.QUESTION_CATEGORIES, ordered=True),
        criterion=pd.Categorical(frame["criterion"], categories=CRITERIA, ordered=True),
    )


def judges_frame(**marks: Sequence[Any]) -> pd.DataFrame:
    """One judge per keyword; its marks of the answers to questions 1, 2, … (see `judged`)."""
    return framed(
        *(judged(judge, q, mark) for judge, column in marks.items() for q, mark in enumerate(column, start=1))
    )


def results_of(scores: pd.DataFrame) -> pd.DataFrame:
    """The scores as one row per judged answer."""
    keys = ["run_id", "question_id", "category", "answer_repeat", "judge_repeat"]
    grouped = scores.groupby(keys, observed=True)["score"]
    return pd.DataFrame({"average_score": grouped.mean(), "status": "ok"}).reset_index()


def six_judges() -> pd.DataFrame:
    """118 answers of one model to Japanese questions, marked 0–10 by six real judges; the marks times ten.

    Columns: item and the judges; one mark is missing."""
    marks = pd.read_csv(shared_data("shaberi_judges_sample") / "scores_wide.csv.gz")
    part = marks[(marks["benchmark"] == "tengu_bench") & (marks["model"] == "augmxnt__shisa-7b-v1")]
    judges = list(marks.columns[3:])
    return part[["item"]].join(part[judges].apply(pd.to_numeric, errors="coerce") * 10).reset_index(drop=True)


def one_criterion(marks: pd.DataFrame) -> pd.DataFrame:
    """Marks (columns item and the judges) as scores on a single criterion."""
    long = marks.melt("item", var_name="judge_model", value_name="score")
    return pd.DataFrame(
        {
            "judge_model": long["judge_model"],
            "question_id": long["item"],
            "answer_sha256": long["item"].astype(str),
            "criterion": "正確性",
            "score": long["score"].astype("Float64").mask(np.isnan(long["score"])),
        }
    )
