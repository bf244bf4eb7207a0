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
def reaches(value: NDArray[np.float64], line: float) -> NDArray[np.bool_]: ...
def reaches(value: Any, line: float) -> Any:
    """Return whether a value is on or above a line. Rounding errors are ignored. For a column or an array, return one
    result per value.
    """
    return value >= line - _ROUNDING


class PassRule(NamedTuple):
    """Hold the rule by which a run passes, and apply it.

    - line: the points (0–100) that a question needs to pass. The mean over all questions must reach them too.
    - rate: the share of the questions that must pass, 0–1.
    """

    line: float
    rate: float

    def needed(self, total: int) -> int:
        """Return how many of `total` questions must pass."""
        return math.ceil(self.rate * total - _ROUNDING)

    def is_met(self, passed: Any, total: int, mean: Any) -> Any:
        """Return whether a run passes: enough of its `total` questions pass, and its mean is on or above the line.

        For arrays, return one result per element.

        - passed: the number of questions that pass.
        - mean: the mean over all questions.
        """
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
    """Return the pass rule of the runs in a frame. If the frame states none, return the specification's.

    If the runs have different rules, return the rule of the latest run. Counts over all runs then use this rule.
    """
    if not len(frame):
        return SPECIFIED
    latest = frame["started_at"].argmax() if "started_at" in frame and frame["started_at"].notna().any() else -1
    return PassRule(*(float(values.iloc[latest]) for values in (row_lines(frame), _own(frame, "pass_rate_required"))))


def row_lines(frame: pd.DataFrame) -> pd.Series:
    """Return one pass line for each row of a frame: that of the row's run. If the row does not state it, return the
    specification's pass line for it.
    """
    return _own(frame, "pass_threshold")


def _own(frame: pd.DataFrame, name: str) -> pd.Series:
    specified = SPECIFIED.line if name == "pass_threshold" else SPECIFIED.rate
    if name not in frame.columns:
        return frame[[]].assign(own=specified)["own"]
    return frame[name].astype("Float64").fillna(specified).astype("float64")
