"""Combine two models into one judge. The second model is asked if the first is unsure, or to give reasons.

`judging/judge.py` decides when the second model is asked.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from ..base.messages import say
from ..errors import ConfigError
from ..records import Completion, ModelRequest, is_embedded
from .decision_model import split_name

if TYPE_CHECKING:
    from .opening import Model
    from .pacing import RunGate

THEN = " > "  # between two names: "gpt-4o-mini > gpt-5.1" is the pair's name in logs, views and frames


class _Two:
    """Offer two models as one `Model`. `Cascade` and `Explained` extend this class.

    Each request is sent to only one of the two models. A subclass decides to which one, by the request's fields. A
    reply of the first model also names the second model, so that the caller knows that the second can be asked.
    """

    names_second: ClassVar[str]  # the field of a Completion that names the second model
    first: Model
    second: Model

    def complete(self, request: ModelRequest) -> Completion:
        """Return the reply of the model that the request is for."""
        return self._named(request, self._of(request).complete(request))

    async def complete_async(self, request: ModelRequest, run: RunGate) -> Completion:
        """Return the reply of the model that the request is for, as part of a run."""
        return self._named(request, await self._of(request).complete_async(request, run))

    def most_usd(self, request: ModelRequest) -> float | None:
        """Return the most that this call can cost in US dollars.

        Return None if the price of one of the two models is unknown.
        """
        costs = [each.most_usd(request) for each in (self.first, self.second)]
        return None if None in costs else costs[self._is_for_second(request)]

    async def check_name(self) -> None:
        """Raise ConfigError if the service of one of the two models reports that it does not have this model."""
        for each in (self.first, self.second):
            if check := getattr(each, "check_name", None):
                await check()

    def _is_for_second(self, request: ModelRequest) -> bool:
        raise NotImplementedError

    def _of(self, request: ModelRequest) -> Model:
        return self.second if self._is_for_second(request) else self.first

    def _named(self, request: ModelRequest, completion: Completion) -> Completion:
        named: Any = {self.names_second: self.second.name}
        return completion if self._is_for_second(request) else replace(completion, **named)


class Cascade(_Two):
    """Combine two judges into one. The second judge scores the answers about which the first judge is unsure."""

    names_second = "unsure_judge"

    def __init__(self, first: Model, second: Model) -> None:
        if embedded := [each.name for each in (first, second) if is_embedded(each.name)]:
            raise ConfigError(say("models.cascade_embedded", model=embedded[0]))
        if first.name == second.name or THEN in second.name:
            raise ConfigError(say("models.cascade_twice", first=first.name, second=second.name))
        self.first, self.second = first, second
        self.name = f"{first.name}{THEN}{second.name}"
        both = [(getattr(each, "service", ""), getattr(each, "settings", "")) for each in (first, second)]
        self.service, self.settings = (THEN.join(dict.fromkeys(each)) for each in zip(*both, strict=True))

    def _is_for_second(self, request: ModelRequest) -> bool:
        return request.is_second


class Explained(_Two):
    """Combine a judge with a chat model that gives the reasons.

    The scores come from the judge, so the combined model has the judge's name and settings.
    """

    names_second = "reasons_from"

    def __init__(self, judge: Model, reasons_from: Model) -> None:
        if is_embedded(reasons_from.name) or split_name(reasons_from.name):
            raise ConfigError(say("models.reasons_chat", model=reasons_from.name))
        self.first, self.second, self.name = judge, reasons_from, judge.name
        self.service, self.settings = getattr(judge, "service", ""), getattr(judge, "settings", "")

    def _is_for_second(self, request: ModelRequest) -> bool:
        return request.task == "explain"
