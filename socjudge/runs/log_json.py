"""Records to and from JSON, as logs and journals hold them.

A log has the specification's keys first and in its order, ours behind them. Read are such logs, and also the
specification's bare ones (without `run`, `status` and what else was added), what they do not say being filled in.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from types import NoneType
from typing import Any, get_args

import orjson

from ..errors import ConfigError
from ..records import (
    AssistantAnswer,
    Completion,
    EvalQuestion,
    Evaluation,
    EvaluationResult,
    EvaluationRun,
    Flags,
    Passage,
    RunInfo,
    RunSummary,
    Status,
    Usage,
)

# What a log may hold in a field, by the field's annotation here.
_ACCEPTED: dict[str, tuple[tuple[type, ...], str]] = {
    "str": ((str,), "a text"),
    "bool": ((bool,), "true or false"),
    "int": ((int,), "a whole number"),
    "float": ((int, float), "a number"),
    "int | str": ((int, str), "a whole number or a text"),
    "int | None": ((int, NoneType), "a whole number or null"),
    "float | None": ((int, float, NoneType), "a number or null"),
}
_REMEDY = "correct it in the file, or take another log"


def run_to_dict(run: EvaluationRun) -> dict[str, Any]:
    """The run as the JSON value of its log."""
    return {
        "results": [result_to_dict(result) for result in run.results],
        "summary": asdict(run.summary),
        "run": asdict(run.run),
    }


def run_from_dict(data: Any, *, where: str, bare: RunInfo) -> EvaluationRun:
    """The run in a log's JSON value.

    where: names the log in errors. bare: what is known of the run of a log without a `run` block. Raises
    ConfigError that names the place and what was expected there."""
    top = _mapping(data, where)
    rows = top.get("results")
    if not isinstance(rows, list):
        raise ConfigError(f"{where}: 'results' is {_shown(rows)}, expected a list; is this a judge_eval log?")
    results = tuple(result_from_dict(row, where=f"{where}: results[{i}]") for i, row in enumerate(rows))
    summary = _record(RunSummary, top.get("summary"), f"{where}: summary")
    block = top.get("run")
    info = bare if block is None else run_info_from_dict(block, where=f"{where}: run")
    return EvaluationRun(results, summary, info)


def run_info_from_dict(data: Any, *, where: str) -> RunInfo:
    """The `run` block of a log; ConfigError names `where` and the field."""
    block = dict(_mapping(data, where))
    for name in ("assistant_usage", "judge_usage"):
        block[name] = _record(Usage, _or_empty(block.get(name)), f"{where}.{name}")
    info: RunInfo = _record(RunInfo, block, where)
    return info


def result_to_dict(result: EvaluationResult) -> dict[str, Any]:
    """One element of the log's `results`."""
    question, answer = result.question, result.answer
    return {
        "question_id": question.id,
        "category": question.category,
        "question": question.question,
        "answer": answer.answer,
        "context": answer.context,
        "expected_keypoints": list(question.expected_keypoints),
        "flags": _values(answer.flags),
        "evaluation": _evaluation_to_dict(result.evaluation),
        "answer_repeat": result.answer_repeat,
        "judge_repeat": result.judge_repeat,
        "answer_sha256": answer_sha256(answer.answer, answer.context),
        "assistant": _assistant_to_dict(answer),
    }


def answer_sha256(answer: str, context: str) -> str:
    """What tells a stored answer from others: SHA-256 of answer and context, in hex."""
    # Of their JSON, as logs hold it: a reader of many logs need not take the texts out.
    return hashlib.sha256(orjson.dumps(writable(str(answer))) + orjson.dumps(writable(str(context)))).hexdigest()


def writable(text: str) -> str:
    """The text as a log holds it: lone surrogates, which UTF-8 cannot hold, as U+FFFD."""
    try:
        text.encode()
        return text
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def answer_to_dict(answer: AssistantAnswer) -> dict[str, Any]:
    """An answer by itself, as a journal keeps it: the fields that a row of `results` has for it."""
    return {
        "question": answer.question,
        "answer": answer.answer,
        "context": answer.context,
        "flags": _values(answer.flags),
        "assistant": _assistant_to_dict(answer),
    }


def _assistant_to_dict(answer: AssistantAnswer) -> dict[str, Any]:
    return {
        "model": answer.model,
        "processing_time": answer.processing_time,
        "usage": _values(answer.usage),
        "passages": [_values(passage) for passage in answer.passages],
        "retries": list(answer.retries),
        "truncated": answer.truncated,
    }


def _evaluation_to_dict(evaluation: Evaluation) -> dict[str, Any]:
    block = _values(evaluation)
    return {
        **block,
        "scores": dict(evaluation.scores),
        "rationale": dict(evaluation.rationale),
        "usage": _values(evaluation.usage),
    }


def _values(record: Any) -> dict[str, Any]:
    """The fields of a flat record. `asdict` copies every value deeply, at ten times the cost."""
    return dict(record.__dict__)


def result_from_dict(row: Any, *, where: str) -> EvaluationResult:
    """The judged answer in one element of a log's `results`; ConfigError names `where` and the field."""
    row = _mapping(row, where)
    for name in ("question_id", "category", "question", "answer", "evaluation"):
        if name not in row:
            raise ConfigError(f"{where} has no '{name}'; the log is incomplete, see EVAL_GUIDE 3. 保存物")
    question = EvalQuestion(
        id=_checked(row["question_id"], "int | str", f"{where}.question_id"),
        category=_checked(row["category"], "str", f"{where}.category"),
        question=_checked(row["question"], "str", f"{where}.question"),
        expected_keypoints=tuple(
            _checked(point, "str", f"{where}.expected_keypoints[{i}]")
            for i, point in enumerate(_list(row.get("expected_keypoints"), f"{where}.expected_keypoints"))
        ),
    )
    return EvaluationResult(
        question,
        answer=answer_from_dict(row, where=where),
        evaluation=_evaluation_from_dict(row["evaluation"], where=f"{where}.evaluation"),
        answer_repeat=_checked(row.get("answer_repeat", 0), "int", f"{where}.answer_repeat"),
        judge_repeat=_checked(row.get("judge_repeat", 0), "int", f"{where}.judge_repeat"),
    )


def answer_from_dict(row: Any, *, where: str) -> AssistantAnswer:
    """The answer in an element of a log's `results`, or by itself as `answer_to_dict` made it."""
    row = _mapping(row, where)
    assistant = dict(_mapping(_or_empty(row.get("assistant")), f"{where}.assistant"))
    passages = _list(assistant.get("passages"), f"{where}.assistant.passages")
    assistant["question"] = row["question"]
    assistant["answer"] = _checked(row["answer"], "str", f"{where}.answer")
    assistant["context"] = _checked(row.get("context", ""), "str", f"{where}.context")
    assistant["flags"] = _record(Flags, _or_empty(row.get("flags")), f"{where}.flags")
    assistant["usage"] = _record(Usage, _or_empty(assistant.get("usage")), f"{where}.assistant.usage")
    assistant["retries"] = tuple(
        _checked(cause, "str", f"{where}.assistant.retries[{i}]")
        for i, cause in enumerate(_list(assistant.get("retries"), f"{where}.assistant.retries"))
    )
    assistant["passages"] = tuple(
        _record(Passage, passage, f"{where}.assistant.passages[{i}]") for i, passage in enumerate(passages)
    )
    answer: AssistantAnswer = _record(AssistantAnswer, assistant, f"{where}.assistant")
    return answer


def completion_from_dict(data: Any, *, where: str) -> Completion:
    """A reply as a journal keeps it."""
    block = dict(_mapping(data, where))
    block["usage"] = _record(Usage, _or_empty(block.get("usage")), f"{where}.usage")
    block["retries"] = tuple(block.get("retries", ()))
    completion: Completion = _record(Completion, block, where)
    return completion


def _evaluation_from_dict(data: Any, *, where: str) -> Evaluation:
    block = dict(_mapping(data, where))
    status: Status = block.get("status", "ok")
    if status not in get_args(Status):
        known = ", ".join(get_args(Status))
        raise ConfigError(f"{where}.status is {_shown(status)}, expected one of {known}; {_REMEDY}")
    scores = block["scores"] = dict(_mapping(block.get("scores"), f"{where}.scores"))
    if status == "ok" and not scores:
        raise ConfigError(f"{where}.scores is empty, expected a number from 0 to 100 for each criterion; {_REMEDY}")
    for place, values in ((f"{where}.scores", scores), (where, {"average_score": block.get("average_score")})):
        for name, value in values.items():
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if value is not None and not (number and 0 <= value <= 100):
                raise ConfigError(f"{place}: {name} is {_shown(value)}, expected a number from 0 to 100; {_REMEDY}")
    reasons = _or_empty(block.get("rationale"))
    reason = reasons.strip() if isinstance(reasons, str) else ""
    if reason:  # one for all marks together: a comment on them
        comment = _checked(block.get("overall_comment", ""), "str", where, "overall_comment")
        block["overall_comment"] = "\n".join(filter(None, [reason, comment]))
    reasons = {} if isinstance(reasons, str) else _mapping(reasons, f"{where}.rationale")
    block["rationale"] = {c: _checked(text or "", "str", f"{where}.rationale: {c}") for c, text in reasons.items()}
    # The usage of one call in an old log is unknown, which is not the same as nothing.
    usage = block.get("usage")
    block["usage"] = _record(Usage, {"cost_usd": None} if usage is None else usage, f"{where}.usage")
    evaluation: Evaluation = _record(Evaluation, block, where)
    if None in scores.values() or math.isnan(evaluation.average_score):
        # A number that was not finite when it was written: nobody can tell the mark any more.
        status = "unparsable" if status == "ok" else status
        error = evaluation.error or "the log has null for a score"
        return replace(
            evaluation, scores=dict.fromkeys(scores, 0), average_score=0.0, passed=False, status=status, error=error
        )
    said_nothing = not reason and not any(evaluation.rationale.values())
    if "status" not in block and said_nothing and not any(scores.values()):
        return replace(evaluation, status="suspect_zero")
    return evaluation


def _record(kind: type, data: Any, where: str) -> Any:
    """`kind` from a JSON object: unknown keys (of a newer log) are left out, missing ones are named."""
    block = _mapping(data, where)
    known = {
        name: _checked(block[name], annotation, where, name)
        for name, annotation in _annotations(kind).items()
        if name in block
    }
    try:
        return kind(**known)
    except TypeError as error:
        raise ConfigError(f"{where}: {str(error).partition('() ')[2]}; the log is incomplete") from error


@functools.cache
def _annotations(kind: type) -> dict[str, Any]:
    return {field.name: field.type for field in fields(kind)}


def _checked(value: Any, annotation: Any, where: str, name: str = "") -> Any:
    """The value, if it is what the annotation says; null for a number is how JSON has one that is not finite."""
    if annotation not in _ACCEPTED:
        return value  # made by the caller
    types, expected = _ACCEPTED[annotation]
    if isinstance(value, types) and (types == (bool,) or not isinstance(value, bool)):
        if not isinstance(value, int) or -(2**63) <= value < 2**63:
            return value
        expected += " of at most 64 bits"
    if value is None and annotation == "float":
        return math.nan
    place = f"{where}.{name}" if name else where
    raise ConfigError(f"{place} is {_shown(value)}, expected {expected}; {_REMEDY}")


def _mapping(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{where} is {_shown(value)}, expected an object {{…}}; {_REMEDY}")
    return value


def _list(value: Any, where: str) -> list[Any]:
    if value is not None and not isinstance(value, list):
        raise ConfigError(f"{where} is {_shown(value)}, expected a list […]; {_REMEDY}")
    return value or []


def _or_empty(value: Any) -> Any:
    return {} if value is None else value


def _shown(value: Any) -> str:
    """A value as the log has it, cut short."""
    text = "missing or null" if value is None else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else f"{text[:60]}…"
