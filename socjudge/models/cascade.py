"""Judges that are made of two models: one asks the other where it is unsure, or for reasons (`judging/judge.py` says when)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..base.messages import say
from ..errors import ConfigError
from ..records import Completion, ModelRequest, is_embedded
from .decision_model import split_name

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


class Explained:
    """A judge whose marks a chat model gives reasons for. To all that know it, it is the judge: the marks are the same."""

    def __init__(self, judge: Model, reasons_from: Model) -> None:
        if is_embedded(reasons_from.name) or split_name(reasons_from.name):
            raise ConfigError(say("models.reasons_chat", model=reasons_from.name))
        self.judge, self.reasons_from, self.name = judge, reasons_from, judge.name
        self.service, self.settings = getattr(judge, "service", ""), getattr(judge, "settings", "")

    def complete(self, request: ModelRequest) -> Completion:
        """The reply of the model that the request is for."""
        return self._named(self._of(request).complete(request))

    async def complete_async(self, request: ModelRequest, run: RunGate) -> Completion:
        """The same, as part of a run."""
        return self._named(await self._of(request).complete_async(request, run))

    def most_usd(self, request: ModelRequest) -> float | None:
        """The most that this call can cost, US dollars; None where the price of either is unknown."""
        costs = [each.most_usd(request) for each in (self.judge, self.reasons_from)]
        return None if None in costs else costs[request.task == "explain"]

    async def check_name(self) -> None:
        """ConfigError if a service says that it has no such model."""
        for each in (self.judge, self.reasons_from):
            if check := getattr(each, "check_name", None):
                await check()

    def _of(self, request: ModelRequest) -> Model:
        return self.reasons_from if request.task == "explain" else self.judge

    def _named(self, completion: Completion) -> Completion:
        return replace(completion, reasons_from=self.reasons_from.name)
