"""Check a rubric before money is spent. Every rubric is checked here, whether it comes from a file or from Python."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from ..errors import ConfigError
from .messages import listed

if TYPE_CHECKING:
    from ..records import Rubric

MOST = 50  # criteria; a report has a chart and columns for each
TOTAL = "総合"  # the name of the overall mean in tables and charts


def check_rubric(rubric: Rubric) -> None:
    """Raise a ConfigError that says what is wrong with the criteria, descriptions, pass line or pass rate of a
    rubric."""
    names = rubric.criteria
    if not names:
        raise ConfigError("there are no criteria; list one or more")
    if len(names) > MOST:
        raise ConfigError("there are {count} criteria; keep to {most} at most", count=len(names), most=MOST)
    for name in names:
        if not isinstance(name, str) or not name.strip() or name != name.strip():
            raise ConfigError(
                "the criterion {name} is unfit; give it a name that is not empty, without blanks around it",
                name=repr(name),
            )
        if name == TOTAL:
            raise ConfigError(
                "a criterion cannot be called {name}, which is the name of the overall mean; choose another name",
                name=name,
            )
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise ConfigError(
            "criteria stand there twice: {names}; list each once (better assign the whole list than append to it)",
            names=listed(twice),
        )
    if strange := [name for name in rubric.descriptions if name not in names]:
        raise ConfigError(
            "there are descriptions of what is no criterion: {names}; the criteria are {known}",
            names=listed(strange),
            known=listed(names),
        )
    if empty := [name for name, text in rubric.descriptions.items() if not isinstance(text, str) or not text.strip()]:
        raise ConfigError(
            "the description is empty: {names}; say in one sentence what is looked at", names=listed(empty)
        )
    for field, value, most in (("pass_threshold", rubric.pass_threshold, 100), ("pass_rate", rubric.pass_rate, 1)):
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
        if not is_number or not 0 <= value <= most:
            raise ConfigError(
                "{field} is {value}; set it to a number from 0 to {most} (pass_threshold is in points, "
                "pass_rate a share: 0.7 for 70 %)",
                field=field,
                value=value,
                most=most,
            )
