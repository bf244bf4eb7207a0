"""Provide what the readers of other tools' files have in common: rows, scores with their scale, and error messages."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from ...base.messages import say
from ...base.texts import visible
from ...errors import ConfigError
from ...records import UNKNOWN

MOST_BYTES = 512 * 2**20  # of a file, or of all members of an .eval file, unpacked
WORDS: Mapping[str, Mapping[str, Sequence[str]]] = tomllib.loads(
    (files("socjudge.history.imports") / "words.toml").read_text(encoding="utf-8")
)
_YES, _NO = (frozenset(WORDS["verdicts"][kind]) for kind in ("yes", "no"))


@dataclass(frozen=True)
class Scale:
    """Hold the lowest and the highest score that a file can have."""

    low: float
    high: float

    def points(self, mark: float, place: str) -> float:
        """Convert a score to points (0–100). If it is outside the scale, the ConfigError names the place."""
        if not self.low <= mark <= self.high:
            raise ConfigError(say("history.import_beyond", place=place, mark=mark, low=self.low, high=self.high))
        return 100 * (mark - self.low) / (self.high - self.low)


SHARE = Scale(0, 1)


def as_scale(told: float | tuple[float, float] | None) -> Scale | None:
    """Return the scale that the user gave: the highest score, or the lowest and the highest.

    Return None if none was given. Raises ConfigError if the argument is not a scale.
    """
    if told is None:
        return None
    try:
        low, high = (0.0, float(told)) if isinstance(told, (int, float)) else map(float, told)
    except (TypeError, ValueError):
        low = high = math.nan
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ConfigError(say("history.import_scale", scale=told))
    return Scale(low, high)


NONE: Mapping[str, str] = MappingProxyType({})


class Row(NamedTuple):  # there may be 100,000 rows, and a NamedTuple is made three times as fast as a dataclass
    """Hold one judged answer of another tool's file.

    - marks: {criterion: 0–100 points, or None if the judge gave no score}.
    - reasons: {criterion: the judge's reason for the score}.
    - causes: {criterion: why its score is missing}.
    - error: why there is no answer at all; "" if there is one.
    - place: where the answer is in the file, for messages.
    - run: the name of the run, if the file has several runs with the same judge and assistant.
    """

    question_id: int | str
    question: str
    answer: str
    marks: Mapping[str, float | None]
    place: str
    reasons: Mapping[str, str] = NONE
    causes: Mapping[str, str] = NONE
    context: str = ""
    keypoints: tuple[str, ...] = ()
    category: str = ""
    answer_repeat: int = 0
    judge_repeat: int = 0
    judge: str = UNKNOWN
    assistant: str = UNKNOWN
    error: str = ""
    run: str = ""


@dataclass(frozen=True)
class Imported:
    """Hold what a file contains.

    - tool: the tool that wrote the file, with its version if the file states it.
    - rows: the judged answers.
    - left_out: what was not imported, and why, or what else the user should know.
    """

    tool: str
    rows: tuple[Row, ...]
    left_out: tuple[str, ...] = ()
    started_at: str = ""


def as_mark(value: Any, place: str) -> float | bool | None:
    """Return a score of a file as a number, or as True or False for yes or no. Return None if it is missing.

    Raises ConfigError with the place if the value is none of these.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, (int, float)):
        return None if math.isnan(value) else float(value)
    word = str(value).strip()
    if word.casefold() in _YES | _NO:
        return word.casefold() in _YES
    if not word or word.casefold() in ("nan", "none", "null", "n/a", "-"):
        return None
    try:
        number = float(word)
    except ValueError:
        raise ConfigError(say("history.import_no_mark", place=place, mark=visible(word)[:60])) from None
    return None if math.isnan(number) else number


def points_of(value: Any, place: str, scale: Scale) -> float | None:
    """Convert a score of a file to points (0–100). Return None if the score is missing."""
    mark = as_mark(value, place)
    return None if mark is None else scale.points(float(mark), place)


def text_of(value: Any) -> str:
    """Return a value of a file as text.

    A text is returned unchanged. A list of texts becomes paragraphs. Any other structure becomes JSON. A missing value
    becomes "".
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, (list, tuple)) and all(isinstance(each, str) for each in value):
        return "\n\n".join(value)
    return json.dumps(value, ensure_ascii=False, default=str)


def unfit(path: Path, reason: str, where: str = "") -> ConfigError:
    """Return the ConfigError for a file that cannot be imported. It has the path, the place in the file, and the
    reason.
    """
    return ConfigError(say("history.import_unfit", place=f"{path}{f': {where}' if where else ''}", reason=reason))
