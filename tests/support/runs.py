"""How a run is made, as tests say it: by keyword, whichever of them belong into `RunOptions`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import pytest

from socjudge import (
    AssistantAnswer,
    EvalQuestion,
    Evaluation,
    EvaluationRun,
    RunOptions,
    load_eval_dataset,
    run_evaluation_suite,
)
from socjudge.base.pass_rule import summarise_results
from socjudge.records import EvaluationResult, Passage, RunInfo
from socjudge.runbooks.index import RunbookIndex
from socjudge.runs.log_json import result_to_dict
from support.service import CRITERIA, KEY, Reply, Service, serving

_NAMES = {field.name for field in fields(RunOptions)}


def with_options(**keywords: Any) -> dict[str, Any]:
    """The keywords as a run takes them: those of RunOptions as its `options`."""
    how = {name: value for name, value in keywords.items() if name in _NAMES}
    return {name: value for name, value in keywords.items() if name not in how} | {"options": RunOptions(**how)}


# --- A small run, made by hand

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


# --- The log of a run by hosted models, made once and copied for each test


def log_run(folder: Path, index: RunbookIndex, reply: Callable[[dict[str, Any]], Reply | str], **models: Any) -> Path:
    """Run the ten questions against a service that replies so, and return the folder with the log."""
    with serving(reply) as service, pytest.MonkeyPatch.context() as environment:
        environment.setenv("OPENAI_API_KEY", KEY)
        environment.setenv("OPENAI_BASE_URL", service.base_url)
        run_evaluation_suite(
            load_eval_dataset(), index=index, logs_dir=folder, progress=False, **with_options(**models)
        )
    return folder


def copy_log(made: Path, folder: Path, service: Service) -> Path:
    """The folder with a log of `log_run`, as if it had been made with this service."""
    (log,) = made.glob("*.json")
    folder.mkdir()
    told = re.sub(r"http://127\.0\.0\.1:\d+/v1", service.base_url, log.read_text(encoding="utf-8"))
    (folder / log.name).write_text(told, encoding="utf-8")
    return folder
