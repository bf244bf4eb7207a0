"""Use any LangChain chat model as a model."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..base.conditions import UNTOLD
from ..base.messages import say
from ..base.public import missing_extra
from ..base.redact import hash_query, redact, show_url
from ..base.service_errors import read_error
from ..errors import ConfigError
from ..records import Completion, ModelRequest
from . import event_loop
from .client_errors import failure_of, status_of
from .gate import RunGate
from .pacing import Account, Model, get_account
from .prices import most_usd_of

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

# names that chat models use for their output limit
_LIMITS = ("max_tokens", "max_output_tokens", "max_completion_tokens")
# how the fields end in which chat models hold the address that they call
_ADDRESSES = ("_base", "_url", "endpoint")
# settings that are sent with each request, even if LangChain does not list them
_SENT = ("default_headers", "default_query")
# LangChain's providers by name, in case it is not installed.
PROVIDERS = {
    "anthropic", "anthropic_bedrock", "azure_ai", "azure_openai", "baseten", "bedrock", "bedrock_converse", "cohere",
    "deepseek", "fireworks", "google_anthropic_vertex", "google_genai", "google_vertexai", "groq", "huggingface",
    "ibm", "litellm", "mistralai", "nvidia", "ollama", "openai", "openrouter", "perplexity", "together", "upstage",
    "xai",
}  # fmt: skip


def init_langchain_model(provider: str, name: str) -> BaseChatModel | None:
    """Return None if LangChain has no such provider, as for "qwen2.5:7b", a model's name with a colon."""
    try:
        from langchain.chat_models import init_chat_model
    except ModuleNotFoundError as error:
        if provider not in PROVIDERS:
            return None
        raise missing_extra(error, wanted=f"'{provider}:{name}'") from error
    try:
        return init_chat_model(name, model_provider=provider)
    except Exception as error:  # each provider has its own exception for a missing key
        if isinstance(error, ValueError) and "Unsupported" in str(error):
            return None
        raise ConfigError(
            "model '{model}' cannot be set up: {reason}", model=f"{provider}:{name}", reason=redact(str(error))
        ) from None


class LangChainModel(Model):
    """Call a LangChain chat model with its own parameters, but with an output limit and without its own retries."""

    service = "langchain"

    def __init__(self, chat_model: Any, name: str = "") -> None:
        self._chat_model = _without_retries(chat_model)  # socjudge counts retries itself
        self._kwargs: dict[str, Any] = {}
        while hasattr(chat_model, "bound"):  # made by `bind`, whose values are sent instead of those below
            self._kwargs, chat_model = {**chat_model.kwargs, **self._kwargs}, chat_model.bound
        self._inner = chat_model
        told = (getattr(chat_model, each, None) for each in ("model_name", "model", "model_id"))
        found = str(next(filter(None, told), "") or type(chat_model).__name__)
        name = name or f"langchain:{show_url(found) if '://' in found else found}"
        self.address = _address_of(chat_model)
        self.settings = _made_with(chat_model, self._kwargs, self.address)
        self._limit_name = next((each for each in _LIMITS if hasattr(chat_model, each)), "")
        secret = (value for value in _fields(chat_model).values() if hasattr(value, "get_secret_value"))
        keys = [value.get_secret_value() for value in secret]
        # without a key, an account that no other model shares
        super().__init__(name, name, get_account(self.address, " ".join(keys)) if keys else Account(), keys)

    def most_usd(self, request: ModelRequest) -> float | None:
        return most_usd_of(self.name, self.as_billed(request), self.address) if self._limit_name else None

    def as_billed(self, request: ModelRequest) -> ModelRequest:
        limits = [limit for name in _LIMITS if (limit := self._setting(name))]
        n = self._setting("n") or 1  # replies to each request
        return replace(request, max_output_tokens=max(limits, default=request.max_output_tokens) * n)

    def _setting(self, name: str) -> Any:
        for told in (
            self._kwargs,
            *(getattr(self._inner, each, None) or {} for each in ("extra_body", "model_kwargs")),
        ):
            if name in told:
                return told[name]
        return getattr(self._inner, name, None)

    async def _send(self, request: ModelRequest, gate: RunGate) -> Completion:
        # The chat model may have been made without an output limit. A small model may then write without end, and the
        # most that a call can cost is unknown.
        name = self._limit_name
        limit = {name: request.max_output_tokens} if name and not self._setting(name) else {}
        return await event_loop.in_thread(self._invoke, request, limit)  # type: ignore[no-any-return]

    def _invoke(self, request: ModelRequest, limit: Mapping[str, int]) -> Completion:
        try:
            message = self._chat_model.invoke([dict(message) for message in request.messages], **limit)
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            if status_of(error) in (400, 422) and (told := read_error(error)).rejects_output:
                return self.rejected(told, request)
            remedy = say("pass a chat model whose `invoke` takes a list of messages")
            raise failure_of(self, error, remedy=remedy) from None
        if not hasattr(message, "response_metadata"):
            found = type(message).__name__
            raise ConfigError("{model} returned a {found}, no message; pass a chat model", model=self.name, found=found)
        metadata = message.response_metadata or {}
        resolved = str(metadata.get("model_name") or metadata.get("model") or "")
        reasons = (metadata.get(name) for name in ("finish_reason", "stop_reason", "done_reason"))
        refusal = None if str(message.text) else _refusal(message)
        text, reason = refusal or str(message.text), str(next(filter(None, reasons), "")).lower()
        reason = "refusal" if refusal else reason
        completion = self.completion(text, resolved, message.usage_metadata, reason, request)
        self.check_reply(completion, message.id, request)
        return completion


def _refusal(message: Any) -> str | None:
    """OpenAI's models put a refusal beside the text of a message."""
    parts = message.content if isinstance(message.content, list) else []
    told = [message.additional_kwargs, *(part for part in parts if isinstance(part, dict))]
    return next((str(each["refusal"]) for each in told if each.get("refusal")), None)


def _made_with(chat_model: Any, kwargs: Mapping[str, Any], address: str) -> str:
    fields, own = _fields(chat_model), dict(getattr(chat_model, "_identifying_params", {}))
    if not own and not fields:
        return UNTOLD + secrets.token_hex(8)
    # If it does not say what distinguishes it, everything that it holds counts.
    told = own or {name: value for name, value in fields.items() if not hasattr(value, "get_secret_value")}
    told = {name: value for name, value in told.items() if not name.endswith(_ADDRESSES)}
    told |= {**{name: fields.get(name) for name in _SENT}, **kwargs}
    told["address"] = (show_url(address), hash_query(address)) if "://" in address else address
    return hashlib.sha256(repr(sorted((name, repr(value)) for name, value in told.items())).encode()).hexdigest()[:16]


def _fields(chat_model: Any) -> dict[str, Any]:
    return {name: getattr(chat_model, name) for name in getattr(type(chat_model), "model_fields", ())}


def _without_retries(chat_model: Any) -> Any:
    if "max_retries" not in _fields(chat_model):
        return chat_model
    copy = chat_model.model_copy(update={"max_retries": 0})
    # The SDKs of OpenAI and Anthropic were told not to retry when the model was made.
    for name, part in list(vars(copy).items()):
        if hasattr(part, "with_options"):
            vars(copy)[name] = part.with_options(max_retries=0)
        elif hasattr(getattr(part, "_client", None), "with_options"):
            vars(copy)[name] = type(part)(part._client.with_options(max_retries=0))
    return copy


def _address_of(chat_model: Any) -> str:
    if (client := getattr(chat_model, "root_client", None)) is not None:  # it knows the address from the environment
        return str(client.base_url)
    # without one of these, nobody can tell where it calls
    return str(next((url for name, url in _fields(chat_model).items() if url and name.endswith(_ADDRESSES)), ""))
