"""Check a rubric before money is spent. Every rubric is checked here, whether it comes from a file or from Python."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from ..errors import ConfigError
from .messages import listed, say

if TYPE_CHECKING:
    from ..records import Rubric

MOST = 50  # criteria; a report has a chart and columns for each
TOTAL = "総合"  # the name of the overall mean in tables and charts


def check_rubric(rubric: Rubric) -> None:
    """Check the criteria, descriptions, pass line and pass rate of a rubric. Raises a ConfigError that says what is
    wrong.
    """
    names = rubric.criteria
    if not names:
        raise ConfigError(say("base.rubric_empty"))
    if len(names) > MOST:
        raise ConfigError(say("base.rubric_many", count=len(names), most=MOST))
    for name in names:
        if not isinstance(name, str) or not name.strip() or name != name.strip():
            raise ConfigError(say("base.rubric_blank", name=repr(name)))
        if name == TOTAL:
            raise ConfigError(say("base.rubric_total", name=name))
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise ConfigError(say("base.rubric_twice", names=listed(twice)))
    if strange := [name for name in rubric.descriptions if name not in names]:
        raise ConfigError(say("base.rubric_strange", names=listed(strange), known=listed(names)))
    if empty := [name for name, text in rubric.descriptions.items() if not isinstance(text, str) or not text.strip()]:
        raise ConfigError(say("base.rubric_undescribed", names=listed(empty)))
    for field, value, most in (("pass_threshold", rubric.pass_threshold, 100), ("pass_rate", rubric.pass_rate, 1)):
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
        if not is_number or not 0 <= value <= most:
            raise ConfigError(say("base.rubric_range", field=field, value=value, most=most))
