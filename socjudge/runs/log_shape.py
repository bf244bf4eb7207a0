"""Define the shape of a log: its keys, their types, and what it means if an older log lacks one. Read JSON into it.

Where a record of records.py stands in a log as it is (`RunInfo`, `RunSummary`, `Rubric`, `Usage`, `Flags`, `Passage`),
the record is the shape. The classes here are what stands otherwise.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Annotated, Any, TypeVar, get_args

import msgspec

from ..base.messages import say
from ..errors import ConfigError
from ..records import UNKNOWN, Flags, Passage, RunInfo, RunSummary, Status, Usage

T = TypeVar("T")
Whole = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]  # no table can hold larger numbers
Score = Annotated[int, msgspec.Meta(ge=0, le=100)] | Annotated[float, msgspec.Meta(ge=0, le=100)]


class LoggedEvaluation(msgspec.Struct, kw_only=True):
    """The block `evaluation` of a row. See `Evaluation`."""

    scores: dict[str, Score | None]
    average_score: Score | None
    rationale: dict[str, str | None] | str | None = None  # other tools write one reason for all scores
    overall_comment: str
    passed: bool
    processing_time: float
    status: Status | msgspec.UnsetType = msgspec.UNSET
    model: str = UNKNOWN
    usage: Usage = Usage(cost_usd=None)  # a usage that is not told is unknown, not zero
    attempts: Whole = 1
    error: str = ""
    raw_text: str = ""
    missing: dict[str, str] = {}
    request_id: str = ""


class OfAssistant(msgspec.Struct, kw_only=True, frozen=True):
    """The block `assistant` of a row: what the specification's keys do not hold of an `AssistantAnswer`."""

    passages: tuple[Passage, ...] = ()
    model: str = UNKNOWN
    usage: Usage = Usage()
    processing_time: float = 0.0
    retries: tuple[str, ...] = ()
    truncated: bool | None = None
    evidence: str = ""
    absence_probability: float | None = None
    version: str = ""


class LoggedAnswer(msgspec.Struct, kw_only=True):
    """An answer without its evaluation, as a journal has it."""

    question: str
    answer: str
    context: str = ""
    flags: Flags = Flags()
    assistant: OfAssistant = OfAssistant()


class Row(msgspec.Struct, kw_only=True):
    """An element of `results`. The specification's keys come first, in its order."""

    question_id: Whole | str
    category: str
    question: str
    answer: str
    context: str = ""
    expected_keypoints: tuple[str, ...] = ()
    flags: Flags = Flags()
    evaluation: LoggedEvaluation
    answer_repeat: Whole = 0
    judge_repeat: Whole = 0
    answer_sha256: str = ""
    assistant: OfAssistant = OfAssistant()


class Log(msgspec.Struct, kw_only=True):
    """A whole log. A log of the specification has no block `run`."""

    results: list[Row]
    summary: RunSummary
    run: RunInfo | None = None


def unknown_keys(data: Mapping[str, Any], kind: Any) -> dict[str, Any]:
    """Return what a JSON object has besides the keys of a record or of a class of this module."""
    known = {each.name for each in fields(kind)} - {"extra"} if is_dataclass(kind) else kind.__struct_fields__
    return {key: value for key, value in data.items() if key not in known}


# -- reading


def fit(data: Any, kind: type[T], where: str) -> T:
    """Return parsed JSON as an object of this class. `data` may be changed. If it does not fit, the ConfigError names
    the place, beginning with `where`, and what was expected there."""
    nulls: dict[str, msgspec.ValidationError] = {}
    while True:
        try:
            return msgspec.convert(data, kind)
        except msgspec.ValidationError as error:
            fault = _Fault(error)
            if fault.is_null and fault.place not in nulls:
                nulls[fault.place] = error
                _replace_nulls(data, fault)
                continue
            lacking = nulls.get(f"{fault.place}.{fault.lacks}")  # null in a place that must not be empty
            raise _explained(data, kind, where, _Fault(lacking) if lacking else fault) from None
        except ConfigError as error:  # a rubric checks its own values
            place = ".rubric" if kind is RunInfo else ": run.rubric"
            raise ConfigError(f"{where}{place}: {error}") from None


# The words of msgspec.
_LACKS = re.compile(r"Object missing required field `(\w+)`")
_UNFIT = re.compile(r"Expected `([\w |]+)`(?:, got `(\w+)`)?")
_KEYS = re.compile(r"\.(\w+)|\[(\d+|\.\.\.)\]")


class _Fault:
    """What a ValidationError of msgspec says, taken apart."""

    def __init__(self, error: msgspec.ValidationError) -> None:
        self.text = str(error)
        said, _, place = self.text.partition(" - at `$")
        self.place = place.removesuffix("`")
        # the place as keys; … for some key of an object whose keys are free
        self.keys: list[Any] = [
            name or (... if index == "..." else int(index)) for name, index in _KEYS.findall(self.place)
        ]
        found = _LACKS.match(said)
        self.lacks = found[1] if found else ""
        found = _UNFIT.match(said)
        self.kinds = found[1].split(" | ") if found else []
        # JSON has null for NaN, and null for an optional object or list means that it is absent.
        is_field = bool(self.keys) and isinstance(self.keys[-1], str)
        self.is_null = is_field and said.endswith("got `null`") and self.kinds[0] in ("float", "object", "array")


def _replace_nulls(data: Any, fault: _Fault) -> None:
    """Replace null by NaN in this place of all rows, or remove it."""
    *parents, name = fault.keys
    for parent in _all_at(data, parents):
        if isinstance(parent, dict) and parent.get(name, 0) is None:
            if fault.kinds == ["float"]:
                parent[name] = math.nan
            else:
                del parent[name]


def _all_at(data: Any, keys: list[Any]) -> Iterator[Any]:
    if not keys:
        yield data
    elif isinstance(keys[0], int) and isinstance(data, list | tuple):
        for each in data:
            yield from _all_at(each, keys[1:])
    elif isinstance(data, dict) and keys[0] in data:
        yield from _all_at(data[keys[0]], keys[1:])


def _explained(data: Any, kind: Any, where: str, fault: _Fault) -> ConfigError:
    at, place = data, where if kind is not Log else f"{where}:"
    for number, key in enumerate(fault.keys):
        if key is ...:
            key = _unfit_key(at, fault)
            place += f".{key[:60]}"
        else:
            place += f"[{key}]" if isinstance(key, int) else f".{key}" if number or kind is not Log else f" {key}"
        at = at[key] if isinstance(at, list | tuple) else at.get(key)
    place = place.removesuffix(":")
    if kind is Log and "results" in (fault.lacks, *fault.keys[-1:]):
        return ConfigError(
            "{where}: 'results' is {value}, expected a list; is this a judge_eval log?",
            where=where,
            value=_shown(None if fault.lacks else at),
        )
    if fault.lacks:
        return ConfigError(
            "{where} has no '{key}'; the log is incomplete, see EVAL_GUIDE 3", where=place, key=fault.lacks
        )
    return unfit(place, at, _expected(fault))


def _unfit_key(at: Mapping[str, Any], fault: _Fault) -> str:
    kind: Any = Score | None if fault.keys[-2:-1] == ["scores"] else str | None if "null" in fault.kinds else str
    for key, value in at.items():
        try:
            msgspec.convert(value, kind)
        except msgspec.ValidationError:
            return key
    return "…"


_KINDS = {
    "str": "a text", "bool": "true or false", "int": "a whole number", "float": "a number", "null": "null",
    "object": "an object {{…}}", "array": "a list […]",
}  # fmt: skip


def _expected(fault: _Fault) -> str:
    if fault.keys[-1:] == ["status"]:
        return say("one of {known}", known=", ".join(get_args(Status)))
    if fault.keys[-2:-1] == ["scores"] or fault.keys[-1:] in (["average_score"], ["pass_threshold"]):
        return say("a number from 0 to 100")
    kinds = ["object"] if "object" in fault.kinds else fault.kinds
    expected = say(" or ").join(say(_KINDS[each]) for each in kinds)
    return say("{expected} of at most 64 bits", expected=expected) if re.search("` [<>]=", fault.text) else expected


def unfit(where: str, value: Any, expected: str) -> ConfigError:
    """Return the error for a value in a log that is not what was expected."""
    return ConfigError(
        "{where} is {value}, expected {expected}; correct it in the file, or take another log",
        where=where,
        value=_shown(value),
        expected=expected,
    )


def _shown(value: Any) -> str:
    text = say("missing or null") if value is None else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else f"{text[:60]}…"
