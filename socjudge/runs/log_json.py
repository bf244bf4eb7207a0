"""Make records of the JSON of logs and journals, and JSON of records. log_shape.py has the keys."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import orjson

from ..base.messages import listed, say
from ..base.pass_rule import average, outcome_of, reaches, run_rule, span_of, tally
from ..errors import ConfigError
from ..prompts.templates import true_id
from ..records import (
    BARE,
    MOST_CRITERIA,
    SPECIFIED_CRITERIA,
    AssistantAnswer,
    Completion,
    EvalQuestion,
    Evaluation,
    EvaluationResult,
    EvaluationRun,
    Rubric,
    RunInfo,
    RunSummary,
    Usage,
    asked_of,
)
from .log_shape import Log, LoggedEvaluation, OfAssistant, Row, fit


def result_to_dict(result: EvaluationResult) -> dict[str, Any]:
    question, answer = result.question, result.answer
    told = {
        "question_id": question.id,
        "category": question.category,
        "question": answer.question,
        "answer": answer.answer,
        "context": answer.context,
        "expected_keypoints": question.expected_keypoints,
        "flags": answer.flags,
        "evaluation": _named(result.evaluation, LoggedEvaluation),
        "answer_repeat": result.answer_repeat,
        "judge_repeat": result.judge_repeat,
        "answer_sha256": answer_sha256(answer.answer, answer.context),
        "assistant": _named(answer, OfAssistant),
    }
    found: dict[str, Any] = msgspec.to_builtins(told, enc_hook=_told)
    return with_unknown(found, result.extra)


def with_unknown(found: dict[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    """Add the keys that another version wrote, and this one does not know, where they were."""
    for key, value in extra.items():
        if key in found:
            found[key] |= value
        else:
            found[key] = value
    return found


def record_to_dict(record: AssistantAnswer | Completion | RunInfo) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins({**vars(record)}, enc_hook=_told)
    return found


def _named(record: object, kind: type[msgspec.Struct]) -> dict[str, Any]:
    return {name: getattr(record, name) for name in kind.__struct_fields__}


def _told(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    return value.item() if hasattr(value, "item") else str(value)  # a number of NumPy, or what JSON does not have


def answer_sha256(answer: str, context: str) -> str:
    found = (orjson.dumps(writable(str(text))) for text in (answer, context))
    return hashlib.sha256(b"".join(found)).hexdigest()


def writable(value: Any) -> Any:
    """Return a value that UTF-8 and JSON can hold, with U+FFFD in place of lone surrogates."""
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, dict):
        return {writable(key): writable(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [writable(inner) for inner in value]
    return str(value) if isinstance(value, int) and not -(2**63) <= value < 2**64 else value


def run_from_dict(data: Any, *, where: str) -> EvaluationRun:
    """Read a run from the parsed JSON of the log `where`. ConfigError, with the place, if a value is unfit."""
    log = fit(data, Log, where)
    for place, row in enumerate(log.results):
        settle(row.evaluation, f"{where}: results[{place}].evaluation")
    info = _bare_info(Path(where).name) if log.run is None else checked_info(log.run, where=f"{where}: run")
    if log.run is not None and log.run.asked is None and data["run"].get("repeats"):
        # In version 0.3, a run could judge each answer as often as its verdict needed.
        info = replace(info, asked=log.summary.total_questions)
    passed = [row.evaluation.passed for row in log.results]
    _complete(log.results, info, where=where)
    told = [
        value for each in (info, log.summary, info.assistant_usage, info.judge_usage) for value in vars(each).values()
    ]
    if not all(-(2**63) <= value < 2**63 for value in told if type(value) is int):
        raise ConfigError("{path}: run or summary holds a number beyond 64 bits; correct it in the file", path=where)
    summary = _counted(log, info, passed)
    extra = _unknown_keys(data, Log, run=RunInfo)
    return EvaluationRun(tuple(map(result_of, log.results, data["results"])), summary, info, extra=extra)


@functools.cache
def _keys_of(kind: Any) -> frozenset[str]:
    return frozenset(getattr(kind, "__struct_fields__", None) or kind.__dataclass_fields__)


def _unknown_keys(data: Mapping[str, Any], kind: Any, **inside: Any) -> dict[str, Any]:
    """Return what a JSON object has besides the keys of its class. `inside`: the classes of objects in it, by key."""
    known = _keys_of(kind)
    found = {} if data.keys() <= known else {key: value for key, value in data.items() if key not in known}
    for key, inner in inside.items():
        if unknown := _unknown_keys(data.get(key) or {}, inner):
            found[key] = unknown
    return found


def _bare_info(name: str) -> RunInfo:
    """Return the info of a run whose log has no `run` block: what the log's name says. The costs are unknown."""
    unknown, run_id, started_at = Usage(cost_usd=None), name.removesuffix(".gz").removesuffix(".json"), ""
    if match := re.search(r"judge_eval_(\d{8}_\d{6})\b", name):
        with contextlib.suppress(ValueError):  # no such day or hour
            started_at = datetime.fromisoformat(match[1].replace("_", "T")).isoformat()
    return RunInfo(run_id, started_at, assistant_usage=unknown, judge_usage=unknown, schema_version=BARE)


def _counted(log: Log, info: RunInfo, passed: Sequence[bool]) -> RunSummary:
    """Return a log's summary with what older logs do not state. `passed` is what the log calls each row."""
    told, rule = log.summary, run_rule(info)
    rows, _ = tally(((row.question_id, row.evaluation) for row in log.results), rule)  # type: ignore[misc]
    found = replace(
        told,
        n_unscored=told.n_unscored or rows.n_unscored,
        n_partial=rows.n_partial,
        n_open=rows.n_open,
        is_open=rows.is_open,
        n_to_read=rows.n_to_read,
        is_contradictory=told.is_contradictory or (info.pass_threshold is None and _contradicts(log, info, passed)),
    )
    if found.is_contradictory:  # no view may call an answer passed that does not reach the line
        for marks in (row.evaluation for row in log.results):
            low = min(marks.average_score or 0.0, average(marks.scores))  # type: ignore[arg-type]
            marks.passed = marks.passed and reaches(low, rule.line)
    return found.counted(len(log.results), asked_of(info, told))


def _contradicts(log: Log, info: RunInfo, passed: Sequence[bool]) -> bool:
    """Return whether a log calls a row, its questions or the run passed or failed, and its averages or its scores say
    otherwise by the specification's line. Missing scores may be what they must be for the two to agree."""
    told, rule = log.summary, run_rule(info)
    means: list[Callable[[Any], float]] = [lambda marks: marks.average_score, lambda marks: average(marks.scores)]
    for mean_of in means:
        rows: list[tuple[int | str, Any]] = []
        for row, is_passed in zip(log.results, passed, strict=True):
            # settled, as `Evaluation` is
            marks: Any = msgspec.structs.replace(row.evaluation, average_score=mean_of(row.evaluation))
            outcome = outcome_of(span_of(marks.scores, marks.average_score, marks.status), marks.status, rule.line)
            if outcome in ("passed", "failed") and is_passed != (outcome == "passed"):
                return True
            rows.append((row.question_id, marks))
        worst, best = tally(rows, rule)
        is_possible = (
            told.total_questions == worst.total_questions
            and worst.passed_questions <= told.passed_questions <= best.passed_questions
            and worst.mvp_passed <= told.mvp_passed <= best.mvp_passed
        )
        if not is_possible and len(log.results) >= asked_of(info, told):  # the summary of a part is that of the whole
            return True
    return False


def result_of(row: Row, data: Mapping[str, Any] | None = None) -> EvaluationResult:
    """Make a record of a row, with what this version does not know of its JSON, `data`."""
    own, marks = msgspec.structs.asdict(row.assistant), msgspec.structs.asdict(row.evaluation)
    return EvaluationResult(
        EvalQuestion(row.question_id, row.category, row.question, row.expected_keypoints),
        AssistantAnswer(row.question, row.answer, row.context, flags=row.flags, **own),
        Evaluation(**marks),
        row.answer_repeat,
        row.judge_repeat,
        _unknown_keys(data or {}, Row, evaluation=LoggedEvaluation, assistant=OfAssistant),
    )


def settle(evaluation: LoggedEvaluation, where: str) -> None:
    """Bring an evaluation in the form of older versions or of other tools into that of `Evaluation`."""
    reasons, scores, missing = evaluation.rationale, evaluation.scores, evaluation.missing
    if isinstance(reasons, str):  # a single reason for all scores together is a comment
        evaluation.overall_comment = "\n".join(filter(None, [reasons.strip(), evaluation.overall_comment]))
        is_reasoned, reasons = bool(reasons.strip()), {}
    else:
        reasons = reasons or {}
        is_reasoned = any(reasons.values())
    evaluation.rationale = {name: text or "" for name, text in reasons.items()} if None in reasons.values() else reasons
    is_told = evaluation.status is not msgspec.UNSET
    evaluation.status = evaluation.status if is_told else "ok"
    if missing:
        missing = evaluation.missing = {name: cause for name, cause in missing.items() if scores.get(name, 0) is None}
    if evaluation.status == "ok" and len(scores) == len(missing):
        raise ConfigError("{where} has no score; correct it in the file, or take another log", where=f"{where}.scores")
    if len(scores) > MOST_CRITERIA:
        told = say("there are {count} criteria; keep to {most} at most", count=len(scores), most=MOST_CRITERIA)
        raise ConfigError(f"{where}.scores: {told}")
    if evaluation.average_score is None or list(scores.values()).count(None) > len(missing):
        # For a missing score, the log states the cause. Another one was not finite when it was written, so it is lost.
        evaluation.status = "unparsable" if evaluation.status == "ok" else evaluation.status
        evaluation.error = evaluation.error or say("the log has null for a score")
        evaluation.scores, evaluation.average_score, evaluation.passed = dict.fromkeys(scores, 0), 0.0, False
    elif not is_told and not any(scores.values()) and not is_reasoned:
        evaluation.status = "suspect_zero"


def _complete(rows: Sequence[Row], info: RunInfo, *, where: str) -> None:
    """Give each answer of a run a missing score for each of the run's criteria that it has no score for."""
    refuse_doubles(((row.question_id, row.answer_repeat, row.judge_repeat) for row in rows), where=where)
    criteria: Collection[str] = dict.fromkeys(name for row in rows for name in row.evaluation.scores)
    if info.rubric is not None:
        criteria = info.rubric.criteria
    elif info.schema_version == BARE and criteria and set(criteria) <= set(SPECIFIED_CRITERIA):
        criteria = SPECIFIED_CRITERIA
    wanted, line = set(criteria), run_rule(info).line
    for evaluation in (row.evaluation for row in rows):
        if evaluation.status == "ok" and not evaluation.scores.keys() >= wanted:
            absent = [name for name in criteria if name not in evaluation.scores]
            evaluation.scores |= dict.fromkeys(absent)
            evaluation.missing = evaluation.missing | dict.fromkeys(absent, "absent")
            span = span_of(evaluation.scores, evaluation.average_score or 0.0, "ok")  # type: ignore[arg-type]
            evaluation.passed = outcome_of(span, "ok", line) == "passed"


def refuse_doubles(judgements: Iterable[tuple[int | str, int, int]], *, where: object) -> None:
    # by the id as text, as in a dataset
    counts = Counter((str(question), answer, judgement) for question, answer, judgement in judgements)
    if len(counts) < counts.total():
        twice = list(dict.fromkeys(question for (question, _, _), count in counts.items() if count > 1))
        raise ConfigError(
            "{where}: question {questions} has several results for the same answer and judgement. Keep runs that were "
            "joined in a log each; otherwise give each question an id of its own, or each repeat its own answer_repeat "
            "or judge_repeat",
            where=where,
            questions=listed(twice[:5]),
        )


def checked_info(info: RunInfo, *, where: str) -> RunInfo:
    # The hash is that of the judge prompt's own text, and a built-in prompt's name is not that of another text. A log may
    # come from somebody else.
    text = info.judge_prompt_text.encode("utf-8", "replace")
    sha256 = hashlib.sha256(text).hexdigest() if text else info.judge_prompt_sha256
    true: dict[str, Any] = {
        "judge_prompt_sha256": sha256,
        "judge_prompt_id": true_id(info.judge_prompt_id, sha256, info.rubric),
        "assistant_prompt_id": true_id(info.assistant_prompt_id, info.assistant_prompt_sha256),
    }
    if any(getattr(info, name) != value for name, value in true.items()):
        info = replace(info, **true)
    told, rubric, rule = (info.pass_threshold, info.pass_rate_required), info.rubric, run_rule(info)
    try:
        Rubric(pass_threshold=rule.line, pass_rate=rule.rate)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None
    if rubric is not None and told != (rubric.pass_threshold, rubric.pass_rate):
        raise ConfigError(
            "{where}: the pass line or rate in rubric is not the one beside it (pass_threshold, "
            "pass_rate_required); where the log was edited by hand, make them the same",
            where=where,
        )
    return info
