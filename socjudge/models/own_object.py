"""Use any object with a method `complete(request)` as a model."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import secrets
from dataclasses import replace
from typing import Any

from ..base.conditions import UNTOLD
from ..base.messages import say
from ..errors import ConfigError, ProviderError, SocJudgeError
from ..records import Completion, ModelRequest
from . import event_loop
from .client_errors import failure_of
from .gate import RunGate
from .pacing import Account, Model, Retryable
from .prices import most_usd_of, usage_of

OBJECT = "object"  # the service of an object that names none


class ForeignModel(Model):
    """A run resumes only if the object has `settings`: text or plain values that differ between its versions."""

    def __init__(self, model: Any) -> None:
        self._model, self.address = model, ""  # it calls what it likes
        self.service, self.settings = getattr(model, "service", "") or OBJECT, _settings_of(model)
        self.is_lexical = bool(getattr(model, "is_lexical", False))
        name = str(getattr(model, "name", "") or type(model).__name__)
        super().__init__(name, name, Account())

    def most_usd(self, request: ModelRequest) -> float | None:
        own = getattr(self._model, "most_usd", None)
        most: float | None = own(request) if own else most_usd_of(self.name, request, self.address)
        return most

    async def _send(self, request: ModelRequest, gate: RunGate) -> Completion:
        return await event_loop.in_thread(self._complete, request)  # type: ignore[no-any-return]

    def _complete(self, request: ModelRequest) -> Completion:
        try:
            completion = self._model.complete(request)
        except (SocJudgeError, Retryable) as error:
            if type(error) is ProviderError and not error.gave_up:
                raise Retryable(str(error), may_be_billed=True) from None
            raise
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            remedy = say("its `complete` takes a ModelRequest and returns a Completion")
            raise failure_of(self, error, remedy=remedy) from None
        if not isinstance(completion, Completion):
            found = type(completion).__name__
            raise ConfigError(
                "{model} returned a {found}; `complete` returns a Completion", model=self.name, found=found
            )
        said, cost = completion.usage, completion.usage.cost_usd
        told = {"input_tokens": said.input_tokens, "output_tokens": said.output_tokens}
        counted = usage_of(told, self.name, self.name, self.address)
        known = cost is not None and 0 <= cost < math.inf
        return replace(completion, usage=replace(counted, cost_usd=cost if known else None))


def _settings_of(model: Any) -> str:
    """Return a hash of the model's `settings`, which may hold a key. Without any, it is different each time."""
    own = getattr(model, "settings", None)
    if own == "":
        return "default"
    with contextlib.suppress(TypeError, ValueError):  # an object in the settings may look the same in two states
        text = json.dumps(own, sort_keys=True, ensure_ascii=False)
        if own is not None:
            return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:16]
    return UNTOLD + secrets.token_hex(8)
