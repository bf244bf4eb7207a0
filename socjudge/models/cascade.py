"""Two judges as one: the first marks every answer, the second only those of which the first is unsure (`judging/judge.py`)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..base.messages import say
from ..errors import ConfigError
from ..records import Completion, ModelRequest, is_embedded

if TYPE_CHECKING:
    from .opening import Model
    from .pacing import RunGate

THEN = " > "  # between the two names: "gpt-4o-mini > gpt-5.1" is the name of the mix in logs, views and frames


class Cascade:
    """Combine two models into one judge; the request says which of them replies, and the first's replies name the
    second.
    """

    def __init__(self, first: Model, second: Model) -> None:
        if embedded := [each.name for each in (first, second) if is_embedded(each.name)]:
            raise ConfigError(say("models.cascade_embedded", model=embedded[0]))
        if first.name == second.name or THEN in second.name:
            raise ConfigError(say("models.cascade_twice", first=first.name, second=second.name))
        self.first, self.second = first, second
        self.name = f"{first.name}{THEN}{second.name}"
        both = [(getattr(each, "service", ""), getattr(each, "settings", "")) for each in (first, second)]
        self.service, self.settings = (THEN.join(dict.fromkeys(each)) for each in zip(*both, strict=True))

    def complete(self, request: ModelRequest) -> Completion:
        """Return the reply of the judge that the request is for."""
        return self._named(request, self._of(request).complete(request))

    async def complete_async(self, request: ModelRequest, run: RunGate) -> Completion:
        """Return the reply of the judge that the request is for, as part of a run."""
        return self._named(request, await self._of(request).complete_async(request, run))

    def most_usd(self, request: ModelRequest) -> float | None:
        """Return the most that this call can cost in US dollars, None if the price of either judge is unknown."""
        costs = [each.most_usd(request) for each in (self.first, self.second)]
        return None if None in costs else costs[request.is_second]

    async def check_name(self) -> None:
        """Raise ConfigError if a service says that it has no such model."""
        for each in (self.first, self.second):
            if check := getattr(each, "check_name", None):
                await check()

    def _of(self, request: ModelRequest) -> Model:
        return self.second if request.is_second else self.first

    def _named(self, request: ModelRequest, completion: Completion) -> Completion:
        return completion if request.is_second else replace(completion, unsure_judge=self.second.name)
