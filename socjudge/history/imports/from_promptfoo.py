"""Read results of promptfoo: `-o results.json` (version 3) and `-o results.jsonl`.

A file has one judge, and one assistant per provider and prompt. promptfoo's scores are numbers from 0 to 1. An error of
a provider (`failureReason` 2) does not count as a bad answer. If a result has no named scores, its overall score is its
only criterion.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ...base.messages import say
from .rows import WORDS, Imported, Row, Scale, points_of, text_of, unfit

OVERALL = "score"
_QUESTION, _CONTEXT = (WORDS["promptfoo"][what] for what in ("question", "context"))
_ERROR = 2  # ResultFailureReason.ERROR


def is_result(value: Any) -> bool:
    """Return whether an object is a result of promptfoo."""
    return isinstance(value, dict) and {"promptIdx", "testIdx", "provider", "success"} <= value.keys()


def read_document(document: Mapping[str, Any], path: Path, scale: Scale) -> Imported:
    """Read a result file that promptfoo exported as JSON.

    path: the file, for messages.
    """
    results = document["results"]
    version = results.get("version")
    if version != 3:
        raise unfit(path, say("history.import_version", tool="promptfoo", version=version, known=3), "results.version")
    told = (document.get("metadata") or {}).get("promptfooVersion", "")
    return read_results(results.get("results", ()), path, scale, version=told, started_at=results.get("timestamp", ""))


def read_results(
    results: Iterable[Mapping[str, Any]], path: Path, scale: Scale, *, version: str = "", started_at: str = ""
) -> Imported:
    """Read results of promptfoo. Each is an object, as in a line of promptfoo's JSONL."""
    results, rows, seen = list(results), [], Counter[tuple[Any, str]]()
    # the prompts of each provider, in their order; each is a separate assistant
    prompts: dict[str, dict[int, int]] = {}
    for number, result in enumerate(results):
        if not is_result(result):
            raise unfit(path, say("history.import_no_result", tool="promptfoo"), f"results[{number}]")
        numbers = prompts.setdefault(_provider(result), {})
        numbers.setdefault(result["promptIdx"], len(numbers) + 1)
    for number, result in enumerate(results):
        name = _provider(result)
        assistant = name if len(prompts[name]) == 1 else f"{name} #{prompts[name][result['promptIdx']]}".strip()
        row = _row(result, f"{path}: results[{number}]", scale, assistant)
        repeat = seen[row.question_id, row.assistant]
        seen[row.question_id, row.assistant] += 1
        rows.append(row._replace(answer_repeat=repeat))
    rows.sort(key=lambda row: (row.assistant, str(row.question_id).zfill(9), row.answer_repeat))
    return Imported(f"promptfoo {version}".strip(), tuple(rows), started_at=started_at)


def _provider(result: Mapping[str, Any]) -> str:
    provider = result["provider"] or {}
    return text_of(provider.get("label") or provider.get("id"))


def _row(result: Mapping[str, Any], place: str, scale: Scale, assistant: str) -> Row:
    variables, prompt = result.get("vars") or {}, result.get("prompt") or {}
    broken = result.get("failureReason") == _ERROR
    graded = result.get("gradingResult") or {}
    named = result.get("namedScores") or graded.get("namedScores") or {}
    marks = dict(named) if named else {OVERALL: result.get("score")}
    reasons = {
        str((part.get("assertion") or {}).get("metric")): text_of(part.get("reason"))
        for part in graded.get("componentResults") or ()
    }
    reasons.setdefault(OVERALL, text_of(graded.get("reason")))
    output = (result.get("response") or {}).get("output")
    return Row(
        question_id=int(result["testIdx"]) + 1,
        question=next((text_of(variables[key]) for key in _QUESTION if variables.get(key)), text_of(prompt.get("raw"))),
        answer="" if broken else text_of(output),
        context=next((text_of(variables[key]) for key in _CONTEXT if variables.get(key)), ""),
        marks={} if broken else {key: points_of(mark, f"{place}.{key}", scale) for key, mark in marks.items()},
        reasons={key: reasons.get(key, "") for key in marks},
        category=text_of((result.get("metadata") or {}).get("category")),
        judge="promptfoo",
        assistant=assistant,
        error=text_of(result.get("error")) if broken else "",
        place=place,
    )
