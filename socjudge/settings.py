"""What the project has set: the one module that reads the specification's names in constants.py (JUDGE_*, QUESTION_CATEGORIES,
DEFAULT_*), so that what is set is looked up once, when a call is made, and travels from there as a value."""

from __future__ import annotations

from . import constants
from .records import Rubric


def project_rubric() -> Rubric:
    """The rubric of the project as it stands; ConfigError for an unfit one."""
    return Rubric(
        criteria=tuple(constants.JUDGE_EVALUATION_CRITERIA),
        pass_threshold=constants.JUDGE_PASS_THRESHOLD,
        pass_rate=constants.JUDGE_PASS_RATE,
    )


def project_categories() -> tuple[str, ...]:
    """The categories that questions may have, in the order of charts."""
    return tuple(constants.QUESTION_CATEGORIES)
