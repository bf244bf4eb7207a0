"""Small frames of scores for the tests of statistics, with the columns and types of docs/frames.md."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import pandas as pd
from conftest import OTHERS

from support.service import CRITERIA

CATEGORIES = ["正常系", "危険操作系", "根拠不足系", "曖昧質問系"]


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
    read = [mark for mark in six if mark is not None]
    rows = [
        {
            "run_id": run_id or f"run-{judge}",
            "log": f"judge_eval_{run_id or judge}.json",
            "started_at": pd.Timestamp(started_at),
            "judge_model": judge,
            "judge_model_resolved": f"{judge}-2026",
            "assistant_model": "offline",
            "prompt_id": prompt_id,
            "prompt_sha256": f"hash of {prompt_id}",
            "dataset_sha256": "",
            "index_fingerprint": "",
            "question_id": question,
            "category": category,
            "answer_repeat": answer_repeat,
            "judge_repeat": judge_repeat,
            "status": "unparsable" if mark is None else "ok",
            "passed": sum(read) / len(read) >= 70 if len(read) == len(six) else None,
            "answer_sha256": hashlib.sha256(f"{question} {answer}".encode()).hexdigest(),
            "processing_time": seconds,
            "cost_usd": cost_usd,
            "criterion": criterion,
            "score": mark,
        }
        for criterion, mark in zip(CRITERIA, six, strict=True)
    ]
    return pd.DataFrame(rows, dtype=object)


def framed(*parts: pd.DataFrame) -> pd.DataFrame:
    """The parts as one frame with the types of docs/frames.md.

    Its categoricals know a value that no row has, as those of a frame that was filtered do."""
    frame = pd.concat(parts, ignore_index=True)
    names = ["run_id", "log", "judge_model", "judge_model_resolved", "assistant_model", "prompt_id", "prompt_sha256"]
    names += ["dataset_sha256", "index_fingerprint", "status", "answer_sha256"]
    columns = {name: pd.Categorical(frame[name], [*dict.fromkeys(frame[name]), "not here"]) for name in names}
    return frame.assign(
        **columns,
        category=_ordered(frame["category"], CATEGORIES),
        criterion=_ordered(frame["criterion"], CRITERIA),
        started_at=pd.to_datetime(frame["started_at"], utc=True),
        question_id=frame["question_id"].infer_objects(),
        **{name: frame[name].astype("int64") for name in ("answer_repeat", "judge_repeat")},
        **{name: frame[name].astype("Float64") for name in ("score", "processing_time", "cost_usd")},
        passed=frame["passed"].astype("boolean"),
    )


def _ordered(values: pd.Series, known: list[str]) -> pd.Categorical:
    others = [value for value in dict.fromkeys(values) if value not in known]
    return pd.Categorical(values, [*known, *others], ordered=True)


def judges_frame(**marks: Sequence[Any]) -> pd.DataFrame:
    """One judge per keyword; its marks of the answers to questions 1, 2, … (see `judged`)."""
    return framed(
        *(judged(judge, q, mark) for judge, column in marks.items() for q, mark in enumerate(column, start=1))
    )


def results_of(scores: pd.DataFrame) -> pd.DataFrame:
    """The scores as one row per judged answer, a frame such as load_results gives."""
    keys = [
        "run_id",
        "judge_model",
        "question_id",
        "category",
        "answer_repeat",
        "judge_repeat",
        "answer_sha256",
        "status",
    ]
    grouped = scores.groupby(keys, observed=True, sort=False)["score"]
    return grouped.mean().rename("average_score").reset_index()


def six_judges() -> pd.DataFrame:
    """118 answers of one model to Japanese questions, marked 0–10 by six real judges; the marks times ten.

    Columns: item and the judges; one mark is missing."""
    part = pd.read_csv(OTHERS / "shaberi.csv")
    judges = list(part.columns[3:])
    return part[["item"]].join(part[judges].apply(pd.to_numeric, errors="coerce") * 10).reset_index(drop=True)


def one_criterion(marks: pd.DataFrame, item: str = "item") -> pd.DataFrame:
    """Marks (the column `item` and one per judge) as scores on a single criterion."""
    long = marks.melt(item, var_name="judge_model", value_name="score")
    return pd.DataFrame(
        {
            "judge_model": pd.Categorical(long["judge_model"], [*marks.columns.drop(item), "not here"]),
            "question_id": long[item],
            "answer_sha256": long[item].astype(str).astype("category"),
            "criterion": pd.Categorical(["正確性"] * len(long), CRITERIA, ordered=True),
            "score": long["score"].astype("Float64"),
        }
    )
