"""Provide what the readers of other tools' files share: rows, marks with their scale, and errors that name a place."""

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

MOST_BYTES = 512 * 2**20  # of a file, or of a member of a packed file
WORDS: Mapping[str, Mapping[str, Sequence[str]]] = tomllib.loads(
    (files("socjudge.history.imports") / "words.toml").read_text(encoding="utf-8")
)
_YES, _NO = (frozenset(WORDS["verdicts"][kind]) for kind in ("yes", "no"))


@dataclass(frozen=True)
class Scale:
    """Hold the lowest and the highest mark that a file can have."""

    low: float
    high: float

    def points(self, mark: float, place: str) -> float:
        """Convert a mark to 0–100 points. Raise ConfigError, with the place, if the mark is outside the scale."""
        if not self.low <= mark <= self.high:
            raise ConfigError(say("history.import_beyond", place=place, mark=mark, low=self.low, high=self.high))
        return 100 * (mark - self.low) / (self.high - self.low)


SHARE = Scale(0, 1)


def as_scale(told: float | tuple[float, float] | None) -> Scale | None:
    """Return the scale in the user's argument, which is the highest mark, or the lowest and the highest.

    Return None if no scale is given. Raises ConfigError if the argument is not a scale.
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
    """Hold one judged answer as the file has it.

    - marks: {criterion: 0–100 points, or None if the judge gave no mark}.
    - causes: {criterion: why its mark is missing}.
    - error: why there is no answer at all.
    - place: where the answer is in the file.
    - run: the name of the run, if the file has several runs of one judge and assistant.
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

    tool: the tool that wrote the file, with its version if the file states it. left_out: what was not imported, and
    why.
    """

    tool: str
    rows: tuple[Row, ...]
    left_out: tuple[str, ...] = ()
    started_at: str = ""


def as_mark(value: Any, place: str) -> float | bool | None:
    """Return a mark as a number, or as yes or no. Return None if it is missing. Raises ConfigError if it is none of
    these.
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
    """Convert a mark of a file to 0–100 points. Return None if the mark is missing."""
    mark = as_mark(value, place)
    return None if mark is None else scale.points(float(mark), place)


def text_of(value: Any) -> str:
    """Return a value of a file as text.

    A text is returned unchanged. A list of texts becomes paragraphs, any other structure JSON, and a missing value "".
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, (list, tuple)) and all(isinstance(each, str) for each in value):
        return "\n\n".join(value)
    return json.dumps(value, ensure_ascii=False, default=str)


def unfit(path: Path, reason: str, where: str = "") -> ConfigError:
    """Return the error for a file that cannot be imported, with the place and the reason."""
    return ConfigError(say("history.import_unfit", place=f"{path}{f': {where}' if where else ''}", reason=reason))
