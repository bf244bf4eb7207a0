"""Define the shape of a log: its keys, their types, and what it means if an older log lacks one. Read JSON into it.

Where a record of records.py stands in a log as it is (`RunInfo`, `RunSummary`, `Rubric`, `Usage`, `Flags`, `Passage`),
the record is the shape. The classes here are what stands otherwise.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, TypeVar

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
    answer_sha256: str = ""  # written for others; it is always computed
    assistant: OfAssistant = OfAssistant()


class Log(msgspec.Struct, kw_only=True):
    results: list[Row]
    summary: RunSummary
    run: RunInfo | None = None


# What other tools and older versions write as null: an absent object or list, and a number that was not finite.
_ABSENT = {
    "expected_keypoints", "flags", "assistant", "passages", "usage", "retries", "missing", "run", "assistant_usage",
    "judge_usage", "runbooks",
}  # fmt: skip
_NOT_FINITE = {"processing_time", "wall_time_s", "score", "seconds"}  # and all of a summary


def fit(data: Any, kind: type[T], where: str) -> T:
    """Return parsed JSON as an object of this class. If it does not fit, the ConfigError says where and why not."""
    try:
        try:
            return msgspec.convert(data, kind)
        except msgspec.ValidationError as error:
            if "got `null`" not in str(error):
                raise
            return msgspec.convert(_without_nulls(data), kind)
    except msgspec.ValidationError as error:
        reason, _, place = str(error).partition(" - at `$")
        words = "{where}: {place} is not as a log has it ({reason}); correct it in the file, or take another log"
        raise ConfigError(words, where=where, place=place.strip(".`") or say("the file"), reason=reason) from None
    except ConfigError as error:  # a rubric checks its own values
        raise ConfigError(f"{where}: {error}") from None


def _without_nulls(value: Any, inside: str = "", depth: int = 8) -> Any:
    if isinstance(value, list) and depth:
        return [_without_nulls(each, depth=depth - 1) for each in value]
    if not isinstance(value, dict) or inside == "scores" or not depth:  # no place of a log is deeper
        return value
    return {
        name: math.nan
        if each is None and (name in _NOT_FINITE or inside == "summary")
        else _without_nulls(each, name, depth - 1)
        for name, each in value.items()
        if each is not None or name not in _ABSENT
    }
