"""What a run is made of: its samples, and what they have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..models.opening import Model
from ..prompts.templates import Prompt
from ..records import AssistantAnswer, EvalQuestion

if TYPE_CHECKING:
    from ..runbooks.index import RunbookIndex


@dataclass(frozen=True)
class Sample:
    """One answer to be judged: asked for, or stored."""

    question: EvalQuestion
    answer_repeat: int
    stored: AssistantAnswer | None = None


@dataclass(frozen=True)
class Plan:
    """What all samples of a run have in common. assistant: None if all answers are stored."""

    judge: Model
    judge_prompt: Prompt
    judge_repeats: int
    assistant: Model | None
    assistant_prompt: Prompt | None
    index: RunbookIndex | None
    k: int
