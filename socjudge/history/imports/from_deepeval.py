"""Read test runs of DeepEval.

DeepEval writes a test run as `.latest_run_full.json`, as `.latest_test_run.json` (inside another object), and as
`test_run_….json` in its results folder. Its scores are numbers from 0 to 1. If a metric has an `error`, the judge
failed, so the score is missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...base.messages import say
from .rows import Imported, Row, Scale, points_of, text_of, unfit


def is_run(value: Any) -> bool:
    """Return whether an object is a test run of DeepEval, or an object that contains one."""
    return isinstance(value, dict) and bool({"testCases", "testRunData", "testRunLink"} & value.keys())


def read_run(document: Mapping[str, Any], path: Path, scale: Scale) -> Imported:
    """Read a test run of DeepEval.

    path: the file, for messages.
    """
    run = document.get("testRunData") or document
    if "testCases" not in run:
        raise unfit(path, say("history.import_link_only"))
    rows, asked = [], Counter[str]()
    numbers: dict[str, int] = {}
    for number, case in enumerate(run["testCases"] or ()):
        question = text_of(case.get("input"))
        question_id = numbers.setdefault(question, len(numbers) + 1)
        rows.append(_row(case, question_id, asked[question], f"{path}: testCases[{number}]", scale))
        asked[question] += 1
    conversations = run.get("conversationalTestCases") or ()
    left_out = (say("history.import_conversations", count=len(conversations)),) if conversations else ()
    return Imported("DeepEval", tuple(rows), left_out)


def _row(case: Mapping[str, Any], question_id: int, repeat: int, place: str, scale: Scale) -> Row:
    marks: dict[str, float | None] = {}
    reasons, causes, judges = {}, {}, []
    for metric in case.get("metricsData") or ():
        name = str(metric.get("name"))
        marks[name] = None if metric.get("error") else points_of(metric.get("score"), f"{place}.{name}", scale)
        reasons[name] = text_of(metric.get("reason"))
        if marks[name] is None:
            causes[name] = text_of(metric.get("error")) or say("history.import_unmarked")
        judges.append(text_of(metric.get("evaluationModel")))
    return Row(
        question_id=question_id,
        question=text_of(case.get("input")),
        answer=text_of(case.get("actualOutput")),
        context=text_of(case.get("retrievalContext") or case.get("context")),
        keypoints=tuple(filter(None, [text_of(case.get("expectedOutput"))])),
        marks=marks,
        reasons=reasons,
        causes=causes,
        answer_repeat=repeat,
        judge=", ".join(dict.fromkeys(filter(None, judges))) or "DeepEval",
        assistant="DeepEval",
        place=place,
    )
