"""Convert records to the JSON of logs and journals, and back. The shape of the JSON follows from records.py.

A log has the specification's keys first, in the specification's order, and socjudge's own keys after them. A bare log,
which has only the specification's keys, can also be read. The keys that it lacks get default values.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass, replace
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

import orjson

from ..base.messages import listed, say
from ..base.missing_scores import outcome_of, span_of
from ..base.pass_rule import run_rule
from ..base.rubric_check import MOST
from ..base.verdict import summarise_results
from ..errors import ConfigError
from ..prompts.templates import true_id
from ..records import BARE, POINTS, SPECIFIED_CRITERIA, Evaluation, EvaluationResult, EvaluationRun, RunInfo, RunSummary

# The keys of an element of `results`, in order.
_ROW = (
    "question_id", "category", "question", "answer", "context", "expected_keypoints", "flags", "evaluation",
    "answer_repeat", "judge_repeat", "answer_sha256", "assistant",
)  # fmt: skip
RULE_LIMITS = {"pass_threshold": 100, "pass_rate_required": 1}  # highest values; the lowest are 0
_KINDS = {
    str: "a text", bool: "true or false", int: "a whole number", float: "a number", NoneType: "null",
}  # fmt: skip
_WITH_EXTRA = (Evaluation, EvaluationResult, RunInfo)
T = TypeVar("T")
_Reader = Callable[[Any, str, str], Any]  # arguments: the value, the log's name, and the field's name


class LogField(NamedTuple):
    """Describe how a log holds a field of a record. A record is a JSON object in the log."""

    name: str
    kind: Any  # the type annotation in the record's class
    key: str
    block: str  # the inner object that holds the key, or "" for the record's own object
    inline: bool  # a record whose fields stand in the outer record's object, not in an inner one
    default: Any  # the value if the log does not have the field, or MISSING if the log must have it


@functools.cache
def log_fields(record: Any) -> tuple[LogField, ...]:
    """Return one LogField for each field of this record class."""
    kinds = get_type_hints(record, include_extras=True)
    return tuple(
        LogField(
            field.name, kinds[field.name], field.metadata.get("key", field.name), field.metadata.get("block", ""),
            field.metadata.get("inline", False), field.metadata.get("absent", field.default),
        )
        for field in fields(record)
        if not field.metadata.get("is_rest")
    )  # fmt: skip


@functools.cache
def _known_keys(record: Any) -> Mapping[str, frozenset[str]]:
    known: dict[str, frozenset[str]] = {"": frozenset()}  # by block, as in `LogField`
    for field in log_fields(record):
        found = _known_keys(field.kind) if field.inline else {field.block: frozenset([field.key])}
        known |= {block: known.get(block, frozenset()) | keys for block, keys in found.items()}
    return known | {"": known[""].union(known)}


# -- writing


def result_to_dict(result: EvaluationResult) -> dict[str, Any]:
    """Return a result as one element of the log's `results`."""
    row = to_dict(result)
    row["answer_sha256"] = answer_sha256(result.answer.answer, result.answer.context)
    return {key: row.pop(key) for key in _ROW} | row


def to_dict(record: Any) -> dict[str, Any]:
    """Return a record as a JSON object with the keys and inner objects that the log has (see `LogField`)."""
    # `asdict` copies every value deeply, which takes ten times as long.
    found: dict[str, Any] = {}
    for name, key, block, inline, plain in _writers(record.__class__):
        value = getattr(record, name)
        if inline:
            found |= to_dict(value)
        else:
            (found.setdefault(block, {}) if block else found)[key] = plain(value) if plain else value
    for key, value in getattr(record, "extra", {}).items():
        found[key] = {**found[key], **value} if key in found else value
    return found


@functools.cache
def _writers(record: Any) -> tuple[tuple[str, str, str, bool, Callable[[Any], Any] | None], ...]:
    return tuple((each.name, each.key, each.block, each.inline, _plain(each.kind)) for each in log_fields(record))


def _plain(hint: Any) -> Callable[[Any], Any] | None:
    origin, inner = get_origin(hint), get_args(hint)
    if is_dataclass(hint):
        return to_dict
    if origin is UnionType and is_dataclass(inner[0]):
        return lambda value: None if value is None else to_dict(value)
    if origin is tuple:
        item = _plain(inner[0])
        return list if item is None else lambda values: [item(value) for value in values]
    return dict if origin is Mapping else None


def answer_sha256(answer: str, context: str) -> str:
    """Return the SHA-256, in hex, of an answer and its context. It identifies a stored answer."""
    # The hash is of their JSON as logs hold it, so that a reader of many logs need not decode the texts.
    return hashlib.sha256(_text_json(answer) + _text_json(context)).hexdigest()


def _text_json(text: str) -> bytes:
    try:
        return orjson.dumps(str(text))
    except TypeError:
        return orjson.dumps(writable(str(text)))


def writable(text: str) -> str:
    """Return the text with U+FFFD in place of lone surrogates, which UTF-8 cannot hold."""
    try:
        text.encode()
        return text
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


# -- reading


def run_from_dict(data: Any, *, where: str, bare: RunInfo) -> EvaluationRun:
    """Read a run from the parsed JSON of a log. `bare` is its info if the log has no `run` block.
    If a value is unfit, the ConfigError names its place in the log, beginning with `where`, and what was expected."""
    top = _mapping(data, where)
    rows = top.get("results")
    if not isinstance(rows, list):
        raise ConfigError(
            "{where}: 'results' is {value}, expected a list; is this a judge_eval log?", where=where, value=_shown(rows)
        )
    results = tuple(from_dict(EvaluationResult, row, f"{where}: results[{i}]") for i, row in enumerate(rows))
    summary = from_dict(RunSummary, top.get("summary"), f"{where}: summary")
    block = top.get("run")
    info = bare if block is None else run_info_from_dict(block, where=f"{where}: run")
    results = checked_results(results, info, where=where)
    # Counted from the rows, because older logs and the specification's do not state it.
    rows = summarise_results(results, run_rule(info))
    summary = replace(
        summary, n_unscored=summary.n_unscored or rows.n_unscored, n_partial=rows.n_partial, n_open=rows.n_open,
        is_open=rows.is_open, n_to_read=rows.n_to_read,
    )  # fmt: skip
    extra = {key: value for key, value in top.items() if key not in ("results", "summary", "run")}
    return EvaluationRun(results, summary, info, extra=extra)


def checked_results(results: Iterable[EvaluationResult], info: RunInfo, *, where: str) -> tuple[EvaluationResult, ...]:
    """Return the results of one run, with a missing score for each criterion of the run that an answer has no score for.
    ConfigError if two results are of the same judgement."""
    results = tuple(results)
    refuse_doubles(results, where=where)
    there = dict.fromkeys(name for each in results for name in each.evaluation.scores)
    criteria, line = criteria_of(info, there), run_rule(info).line
    return tuple(_whole(each, criteria, line) for each in results)


def refuse_doubles(results: Iterable[EvaluationResult], *, where: object) -> None:
    """Raise ConfigError if two results are of the same judgement."""
    if twice := same_judgements((each.question.id, each.answer_repeat, each.judge_repeat) for each in results):
        raise ConfigError(
            "{where}: question {questions} has several results for the same answer and judgement. Keep runs that were "
            "joined in a log each; otherwise give each question an id of its own, or each repeat its own answer_repeat "
            "or judge_repeat",
            where=where,
            questions=listed(twice[:5]),
        )


def same_judgements(judgements: Iterable[tuple[int | str, int, int]]) -> list[str]:
    """Return the ids of the questions that occur more than once with the same answer repeat and judge repeat."""
    # by the id as text, as in a dataset
    counts = Counter((str(question), answer, judgement) for question, answer, judgement in judgements)
    return list(dict.fromkeys(question for (question, _, _), count in counts.items() if count > 1))


def criteria_of(info: RunInfo, there: Collection[str]) -> Collection[str]:
    """Return the criteria of a run whose results have scores for the criteria `there`."""
    if info.rubric is not None:
        return info.rubric.criteria
    is_specified = info.schema_version == BARE and there and set(there) <= set(SPECIFIED_CRITERIA)
    return SPECIFIED_CRITERIA if is_specified else there


def _whole(result: EvaluationResult, criteria: Collection[str], line: float) -> EvaluationResult:
    evaluation = result.evaluation
    absent = [name for name in criteria if name not in evaluation.scores]
    if evaluation.status != "ok" or not absent:
        return result
    scores = {**evaluation.scores, **dict.fromkeys(absent)}
    missing = {**evaluation.missing, **dict.fromkeys(absent, "absent")}
    outcome = outcome_of(span_of(scores, evaluation.average_score, "ok"), "ok", line)
    whole = replace(evaluation, scores=scores, missing=missing, passed=outcome == "passed")
    return replace(result, evaluation=whole)


def run_info_from_dict(data: Any, *, where: str) -> RunInfo:
    """Read the run's info from the `run` block of a log. If a field is unfit, the ConfigError names its place."""
    info = true_prompts(from_dict(RunInfo, data, where))
    for name, most in RULE_LIMITS.items():
        if (value := getattr(info, name)) is not None and not 0 <= value <= most:
            raise _unfit(where, name, value, say("a number from 0 to {most}", most=most))
    if not rule_agrees(info):
        raise ConfigError(
            "{where}: the pass line or rate in rubric is not the one beside it (pass_threshold, "
            "pass_rate_required); where the log was edited by hand, make them the same",
            where=where,
        )
    return info


def true_prompts(info: RunInfo) -> RunInfo:
    """Return the info with the hash of the judge prompt's own text, and without a built-in prompt's name for another
    text. A log may come from somebody else."""
    text = info.judge_prompt_text.encode("utf-8", "replace")
    sha256 = hashlib.sha256(text).hexdigest() if text else info.judge_prompt_sha256
    true: dict[str, Any] = {
        "judge_prompt_sha256": sha256,
        "judge_prompt_id": true_id(info.judge_prompt_id, sha256, info.rubric),
        "assistant_prompt_id": true_id(info.assistant_prompt_id, info.assistant_prompt_sha256),
    }
    return info if all(getattr(info, name) == value for name, value in true.items()) else replace(info, **true)


def rule_agrees(info: RunInfo) -> bool:
    """Return whether the pass line and rate, which a log holds twice, equal those of its rubric, if it has one."""
    told, rubric = (info.pass_threshold, info.pass_rate_required), info.rubric
    return rubric is None or told == (rubric.pass_threshold, rubric.pass_rate)


def from_dict(kind: Callable[..., T], data: Any, where: str) -> T:
    """Read a record from its JSON object. Unknown keys are kept in the record's field `extra`, if it has one.
    If a field is missing or unfit, the ConfigError names its place, beginning with `where`."""
    top = _mapping(data, where)
    blocks = {"": (top, where)}
    values: dict[str, Any] = {}
    for name, hint, key, block, inline, default in log_fields(kind):
        if inline:
            values[name] = from_dict(hint, top, where)
            continue
        if block not in blocks:
            inner = top.get(block)
            blocks[block] = ({} if inner is None else _mapping(inner, f"{where}.{block}"), f"{where}.{block}")
        found, place = blocks[block]
        reader, is_many = _reader(hint)
        # null for an optional object or list means that it is absent.
        if key not in found or (is_many and found[key] is None and default is not MISSING):
            if default is MISSING:
                raise ConfigError(
                    "{where} has no '{key}'; the log is incomplete, see EVAL_GUIDE 3", where=place, key=key
                )
            values[name] = default
        else:
            values[name] = reader(found[key], place, key)
    if kind in _WITH_EXTRA and (extra := _extra(kind, top)):
        values["extra"] = extra
    try:
        return kind(**values)
    except ConfigError as error:  # a rubric checks its own values
        raise ConfigError(f"{where}: {error}") from None


def _extra(record: Any, top: Mapping[str, Any]) -> dict[str, Any]:
    known = _known_keys(record)
    extra = {key: value for key, value in top.items() if key not in known[""] and key != "answer_sha256"}
    for block in known.keys() - {""}:
        inner = top.get(block)
        if isinstance(inner, Mapping) and not inner.keys() <= known[block]:
            extra[block] = {key: value for key, value in inner.items() if key not in known[block]}
    return extra


@functools.cache
def _reader(hint: Any) -> tuple[_Reader, bool]:
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Evaluation:
        return _evaluation, True
    if origin is UnionType and is_dataclass(inner[0]):
        hint = inner[0]  # None is what its absence means
    if is_dataclass(hint):
        kind: Any = hint
        return lambda value, where, name: from_dict(kind, value, f"{where}.{name}"), True
    if origin is tuple and inner[1:] == (...,):
        return functools.partial(_items, _reader(inner[0])[0]), True
    if origin is Mapping and inner[0] is str:
        return functools.partial(_values, _reader(inner[1])[0]), True
    if origin is Annotated and inner[1:] == (POINTS,):
        return _points, False
    if origin is Literal:
        return functools.partial(_one_of, inner), False
    kinds = inner if origin is UnionType else (hint,)
    if not set(kinds) <= set(_KINDS):
        raise TypeError(f"{hint} in a record: logs have no way to hold it; add one to _reader")
    return functools.partial(_scalar, kinds), False


def _scalar(kinds: tuple[type, ...], value: Any, where: str, name: str) -> Any:
    kind = type(value)
    fits = kind in kinds or (kind is int and float in kinds)
    if fits and (kind is not int or -(2**63) <= value < 2**63):
        return value
    if value is None and kinds == (float,):  # JSON cannot hold NaN and infinity
        return math.nan
    expected = say(" or ").join(say(_KINDS[each]) for each in kinds)
    raise _unfit(where, name, value, say("{expected} of at most 64 bits", expected=expected) if fits else expected)


def _points(value: Any, where: str, name: str) -> Any:
    if value is None or (type(value) in (int, float) and 0 <= value <= 100):
        return math.nan if value is None else value
    raise _unfit(where, name, value, say("a number from 0 to 100"))


def _one_of(known: tuple[str, ...], value: Any, where: str, name: str) -> Any:
    if value in known:
        return value
    raise _unfit(where, name, value, say("one of {known}", known=", ".join(known)))


def _items(read: _Reader, value: Any, where: str, name: str) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):  # a tuple, if it does not come from a file
        raise _unfit(where, name, value, say("a list […]"))
    return tuple(read(item, where, f"{name}[{i}]") for i, item in enumerate(value))


def _values(read: _Reader, value: Any, where: str, name: str) -> dict[str, Any]:
    return {key: read(item, where, f"{name}.{key}") for key, item in _mapping(value, f"{where}.{name}").items()}


def _evaluation(data: Any, where: str, name: str) -> Evaluation:
    where = f"{where}.{name}"
    block = dict(_mapping(data, where))  # in the present form, or in that of older versions
    reasons = block.get("rationale")
    reason = reasons.strip() if isinstance(reasons, str) else ""
    if reasons is None or isinstance(reasons, str):  # a single reason for all scores together is a comment
        block["rationale"] = {}
    elif isinstance(reasons, Mapping):
        block["rationale"] = {criterion: text or "" for criterion, text in reasons.items()}
    evaluation = from_dict(Evaluation, block, where)
    if reason:
        comment = "\n".join(filter(None, [reason, evaluation.overall_comment]))
        evaluation = replace(evaluation, overall_comment=comment)
    scores = evaluation.scores
    # JSON has null for a number that is not finite. For a missing score, the log states the cause.
    missing = {name: cause for name, cause in evaluation.missing.items() if math.isnan(scores.get(name) or 0)}
    scores = {name: None if name in missing else score for name, score in scores.items()}
    evaluation = replace(evaluation, scores=scores, missing=missing) if evaluation.missing else evaluation
    known = [score for score in scores.values() if score is not None]
    if evaluation.status == "ok" and not known:
        raise ConfigError(
            "{where} is empty, expected {expected} for each criterion; correct it in the file, or take another log",
            where=f"{where}.scores",
            expected=say("a number from 0 to 100"),
        )
    if len(scores) > MOST:
        raise ConfigError(
            f"{where}.scores: {say('there are {count} criteria; keep to {most} at most', count=len(scores), most=MOST)}"
        )
    if any(map(math.isnan, [*known, evaluation.average_score])):
        # The number was not finite when it was written, so the score is lost.
        status = "unparsable" if evaluation.status == "ok" else evaluation.status
        error = evaluation.error or say("the log has null for a score")
        return replace(
            evaluation, scores=dict.fromkeys(scores, 0), average_score=0.0, passed=False, status=status, error=error
        )
    said_nothing = not reason and not any(evaluation.rationale.values())
    if "status" not in block and said_nothing and not any(scores.values()):
        return replace(evaluation, status="suspect_zero")
    return evaluation


def _mapping(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ConfigError(
            "{where} is {value}, expected {expected}; correct it in the file, or take another log",
            where=where,
            value=_shown(value),
            expected=say("an object {{…}}"),
        )
    return value


def _unfit(where: str, name: str, value: Any, expected: str) -> ConfigError:
    return ConfigError(
        "{where} is {value}, expected {expected}; correct it in the file, or take another log",
        where=f"{where}.{name}",
        value=_shown(value),
        expected=expected,
    )


def _shown(value: Any) -> str:
    text = say("missing or null") if value is None else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else f"{text[:60]}…"
