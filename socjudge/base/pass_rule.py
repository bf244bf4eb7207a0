"""Apply the specification's pass rule to numbers.

The rule is defined only here. Runs, readers of logs, statistics and charts use this definition.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from ..records import Rubric

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    from ..records import RunInfo

# The mean of six scores is not exact in binary: 70 may come out as 69.99999999999999.
_ROUNDING = 1e-9


@overload
def reaches(value: float, line: float) -> bool: ...
@overload
def reaches(value: pd.Series, line: float) -> pd.Series: ...
@overload
def reaches(value: NDArray[np.float64], line: float | NDArray[np.float64]) -> NDArray[np.bool_]: ...
def reaches(value: Any, line: Any) -> Any:
    """Return whether a value, or each value of a column or an array, is on or above a line. Rounding errors are
    ignored."""
    return value >= line - _ROUNDING


class PassRule(NamedTuple):
    """Hold the rule by which a run passes, and apply it."""

    line: float  # the points (0–100) that a question needs to pass; the mean over all questions must reach them too
    rate: float  # the share of the questions that must pass, 0–1

    def needed(self, total: int) -> int:
        """Return how many of `total` questions must pass."""
        return math.ceil(self.rate * total - _ROUNDING)

    def is_met(self, passed: Any, total: int, mean: Any) -> Any:
        """Return whether a run (for arrays: each one) passes: enough of its `total` questions passed, and its mean over
        all questions is on or above the line."""
        return (passed >= self.needed(total)) & reaches(mean, self.line)


def rule_of(rubric: Rubric) -> PassRule:
    """Return the pass rule of a rubric: its pass line and its pass rate."""
    return PassRule(rubric.pass_threshold, rubric.pass_rate)


SPECIFIED = rule_of(Rubric())


def run_rule(info: RunInfo) -> PassRule:
    """Return the pass rule of a run, as its log states it. What the log does not state is taken from the specification."""
    return PassRule(
        SPECIFIED.line if info.pass_threshold is None else info.pass_threshold,
        SPECIFIED.rate if info.pass_rate_required is None else info.pass_rate_required,
    )


def frame_rule(frame: pd.DataFrame) -> PassRule:
    """Return the pass rule of the runs in a frame, or the specification's if the frame states none. If the runs have
    different rules, it is that of the latest run, and counts over all runs use it."""
    if not len(frame):
        return SPECIFIED
    latest = frame["started_at"].argmax() if "started_at" in frame and frame["started_at"].notna().any() else -1
    return PassRule(*(float(values.iloc[latest]) for values in (row_lines(frame), _own(frame, "pass_rate_required"))))


def row_lines(frame: pd.DataFrame) -> pd.Series:
    """Return the pass line of each row's run, or the specification's where the row does not state it."""
    return _own(frame, "pass_threshold")


def _own(frame: pd.DataFrame, name: str) -> pd.Series:
    specified = SPECIFIED.line if name == "pass_threshold" else SPECIFIED.rate
    if name not in frame.columns:
        return frame[[]].assign(own=specified)["own"]
    return frame[name].astype("Float64").fillna(specified).astype("float64")
