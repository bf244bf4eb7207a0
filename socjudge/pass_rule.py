"""The specification's pass rule, as arithmetic on plain numbers: one home for run, readers and statistics."""

from __future__ import annotations

import math

from . import constants

# Means of sixths are not exact in binary: 70 may come out as 69.99999999999999.
_ROUNDING = 1e-9
PASS_LINE = constants.JUDGE_PASS_THRESHOLD - _ROUNDING  # for whole columns; see `reaches`


def reaches(value: float, line: float) -> bool:
    """Whether a value is on or above a line, rounding errors aside."""
    return value >= line - _ROUNDING


def questions_needed(total: int) -> int:
    """How many of `total` questions must pass."""
    return math.ceil(constants.JUDGE_PASS_RATE * total - _ROUNDING)
