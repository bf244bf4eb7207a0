"""The one seam to any model: `open_model` turns a name into something that completes requests.

Three kinds stand behind it: the OpenAI SDK (OpenAI, Azure, vLLM, Ollama, llama.cpp …), any LangChain chat
model, and the embedded default, which needs no service. This module knows nothing of prompts.
"""

from __future__ import annotations

import functools
import os
import random
import re
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from . import constants
from .errors import ConfigError, ProviderError, RequestRefused
from .prices import price_usd
from .records import Completion, ModelRequest, Usage
from .redact import redact, show_url
from .texts import encodable

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

T = TypeVar("T")
OFFLINE = "offline"
TIMEOUT_S = 120.0  # a reasoning model may think for a minute
MAX_TRIES = 5
BACKOFF_S = 0.5  # doubled at each retry, full jitter
MAX_WAIT_S = 60.0  # a Retry-After beyond this is reported instead of slept through
_UNSUPPORTED = re.compile(
    r"unsupported|not support|unknown|unrecogni[sz]ed|unexpected|not permitted|not allowed|invalid|extra|does not",
    re.IGNORECASE,
)


class Model(Protocol):
    """A model that is ready to be called."""

    name: str  # as it was asked for, for the log

    def complete(self, request: ModelRequest) -> Completion:
        """The reply. Raises ConfigError (stop now) or ProviderError (after bounded retries)."""
        ...


def open_model(model: str | BaseChatModel | Model = "auto") -> Model:
    """The model of that name, ready to be called; nothing is sent yet.

    "offline": the embedded default. "gpt-4o-mini" and other plain names: the OpenAI SDK with
    OPENAI_API_KEY and OPENAI_BASE_URL. "anthropic:…", "google_genai:…": LangChain's `init_chat_model`.
    A LangChain chat model, or a model opened before, is taken as it is. "auto": DEFAULT_JUDGE_MODEL when
    a key or a base URL is configured, else "offline"; which one is said once on stderr.
    Raises ConfigError when a key or a package is missing."""
    if not isinstance(model, str):
        if hasattr(model, "complete"):
            return cast(Model, model)
        if hasattr(model, "invoke"):
            return LangChainModel(model)
        raise ConfigError(f"{model!r:.80} is no model; pass a name such as 'offline', or a LangChain chat model")
    if model == "auto":
        model = resolve_auto()
    if model == OFFLINE:
        from .offline import OfflineModel

        return OfflineModel()
    prefix, colon, name = model.partition(":")
    if colon and (chat_model := _langchain_model(prefix, name)) is not None:
        return LangChainModel(chat_model, model)
    key, base_url = (os.environ.get(name, "").strip() for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"))
    return _openai_model(model, key, base_url)


def resolve_auto() -> str:
    """The model that "auto" stands for just now; announced once on stderr."""
    hosted = os.environ.get("OPENAI_API_KEY") or os.environ.get("OPENAI_BASE_URL")
    model = constants.DEFAULT_JUDGE_MODEL if hosted else OFFLINE
    _announce(model, bool(hosted))
    return model


@functools.cache  # once per process and answer
def _announce(model: str, hosted: bool) -> None:
    why = (
        "OPENAI_API_KEY or OPENAI_BASE_URL is set; calls may cost money"
        if hosted
        else "no OPENAI_API_KEY or OPENAI_BASE_URL; the embedded default is rules and sentence similarity, "
        "not an LLM, and costs nothing"
    )
    print(f"socjudge: model 'auto' is '{model}' ({why})", file=sys.stderr)


class _Retryable(Exception):
    """A failure that may pass. retry_after_s: what the service asked for, if it did."""

    def __init__(self, cause: str, retry_after_s: float | None = None) -> None:
        super().__init__(cause)
        self.retry_after_s = retry_after_s


def _with_retries(call: Callable[[], T], what: str) -> tuple[T, tuple[str, ...]]:
    """The call's result and the causes of its retries; ProviderError when MAX_TRIES are used up."""
    causes: list[str] = []
    while True:
        try:
            return call(), tuple(causes)
        except _Retryable as error:
            causes.append(str(error))
            wait_s = error.retry_after_s
            if wait_s is None:
                wait_s = random.uniform(0, BACKOFF_S * 2 ** len(causes))
            if wait_s > MAX_WAIT_S:
                raise ProviderError(f"{what}: {error}; it asks to wait {wait_s:.0f} s, try again then") from None
            if len(causes) == MAX_TRIES:
                raise ProviderError(f"{what}: failed {MAX_TRIES} times, last with: {error}") from None
        time.sleep(wait_s)


@functools.lru_cache(maxsize=16)
def _openai_model(name: str, api_key: str, base_url: str) -> OpenAIModel:
    return OpenAIModel(name, api_key=api_key, base_url=base_url)


class OpenAIModel:
    """A model behind an OpenAI-compatible chat-completions endpoint.

    What the service refuses (temperature, response_format …) is learned from its error and left out from
    then on: successors of today's models refuse parameters that today's need."""

    def __init__(self, name: str, *, api_key: str = "", base_url: str = "") -> None:
        if not api_key and not base_url:
            raise ConfigError(
                f"model '{name}' needs a key and OPENAI_API_KEY is not set: export OPENAI_API_KEY=…, or set "
                "OPENAI_BASE_URL for a server of your own, or use the model 'offline', which needs none"
            )
        if not api_key.isascii():
            raise ConfigError("OPENAI_API_KEY holds characters that no key has; copy it again")
        if base_url and not base_url.startswith(("http://", "https://")):
            raise ConfigError("OPENAI_BASE_URL must start with http:// or https://, like http://localhost:8000/v1")
        import openai

        self.name = name
        self._where = f"{name} at {show_url(base_url) if base_url else 'api.openai.com'}"
        self._api_key = api_key
        self._client = openai.OpenAI(
            api_key=api_key or "none", base_url=base_url or None, timeout=TIMEOUT_S, max_retries=0
        )
        self._refused: set[str] = set()

    def __repr__(self) -> str:
        return f"OpenAIModel({self.name!r})"

    def complete(self, request: ModelRequest) -> Completion:
        """The reply; see `Model.complete`."""
        completion, retries = _with_retries(lambda: self._send(request), self._where)
        return replace(completion, retries=retries)

    def _send(self, request: ModelRequest) -> Completion:
        import openai

        learned: set[str] = set()
        while True:
            parameters = self._parameters(request, learned)
            try:
                messages: Any = list(request.messages)
                response = self._client.chat.completions.create(model=self.name, messages=messages, **parameters)
                completion = self._read(response)
            except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
                learned.add(self._refused_parameter(error, parameters))
                continue
            except openai.APIStatusError as error:
                raise self._status_error(error) from None
            except openai.APITimeoutError:
                raise _Retryable(f"no reply within {TIMEOUT_S:g} s") from None
            except openai.APIConnectionError as error:
                cause = self._redact(str(error.__cause__ or error))
                raise _Retryable(f"cannot connect ({cause}); is OPENAI_BASE_URL right?") from None
            except (openai.APIError, ValueError, TypeError, AttributeError, LookupError) as error:
                why = self._redact(f"{type(error).__name__}: {error}")[:200]
                raise _Retryable(
                    f"the response is no chat completion ({why}); is OPENAI_BASE_URL right (it often ends in /v1)?"
                ) from None
            self._refused |= learned  # only now is it known that the refusals were the trouble
            return completion

    def _read(self, response: Any) -> Completion:
        """What a response says; TypeError and the like where it is no chat completion."""
        choice = response.choices[0]
        content = choice.message.content
        if isinstance(content, list):  # some services send parts
            content = "".join(part.get("text", "") for part in content)
        text = content or getattr(choice.message, "refusal", None) or ""
        resolved = response.model if isinstance(response.model, str) and response.model else self.name
        used = response.usage
        counts = (getattr(used, "prompt_tokens", None), getattr(used, "completion_tokens", None))
        tokens_in, tokens_out = (count if isinstance(count, int) else 0 for count in counts)
        cost = None
        if all(isinstance(count, int) for count in counts):
            # Prices are listed under either name: the alias asked for or the dated version that answered.
            cost = price_usd(resolved, tokens_in, tokens_out)
            cost = price_usd(self.name, tokens_in, tokens_out) if cost is None else cost
        return Completion(
            encodable(text), resolved, Usage(1, tokens_in, tokens_out, cost), str(choice.finish_reason or "").lower()
        )

    def _parameters(self, request: ModelRequest, learned: set[str]) -> dict[str, Any]:
        """What to send beside the messages, without what the service has refused so far."""
        refused = self._refused | learned
        parameters: dict[str, Any] = {}
        if "temperature" not in refused:
            parameters["temperature"] = 0
        limit = "max_tokens" if "max_completion_tokens" in refused else "max_completion_tokens"
        if limit not in refused:
            parameters[limit] = request.max_output_tokens
        if request.schema is not None and "response_format" not in refused:
            if "json_schema" not in refused:
                schema = {"name": "judgement", "strict": True, "schema": request.schema}
                parameters["response_format"] = {"type": "json_schema", "json_schema": schema}
            else:
                parameters["response_format"] = {"type": "json_object"}
        return parameters

    def _refused_parameter(self, error: Any, sent: dict[str, Any]) -> str:
        """Which parameter the service refuses; RequestRefused when it is none of ours."""
        named = error.param or ""
        said = named or error.message
        about_parameters = bool(named) or _UNSUPPORTED.search(error.message)
        if error.code not in ("context_length_exceeded", "content_filter") and about_parameters:
            for name in ("temperature", "max_completion_tokens", "max_tokens"):
                if name in sent and name in said:
                    return name
            if "response_format" in sent and re.search("response_format|json_schema|json|schema|grammar", said):
                return "json_schema" if sent["response_format"]["type"] == "json_schema" else "response_format"
        raise RequestRefused(
            f"{self._where} refused the request ({error.status_code}): {self._redact(error.message)[:300]}"
        ) from None

    def _status_error(self, error: Any) -> Exception:
        """The exception that says what a 4xx or 5xx means for the caller."""
        status, said = error.status_code, self._redact(error.message)[:300]
        if status in (401, 403):
            return ConfigError(f"{self._where} refused the key ({status}): check OPENAI_API_KEY. It said: {said}")
        if status == 404:
            return ConfigError(
                f"{self._where}: no such model or path (404); check its name and OPENAI_BASE_URL: {said}"
            )
        if status == 429 and error.code == "insufficient_quota":
            return ConfigError(f"{self._where}: the account's quota is used up (429): {said}")
        if status in (408, 409, 425, 429) or status >= 500:
            return _Retryable(f"HTTP {status} ({said})", _retry_after_s(error.response.headers))
        return RequestRefused(f"{self._where} refused the request ({status}): {said}")

    def _redact(self, text: str) -> str:
        """The text without this model's key, which need not come from the environment, or any other."""
        if len(self._api_key) >= 6:
            text = text.replace(self._api_key, "[key]")
        return redact(text)


def _retry_after_s(headers: Any) -> float | None:
    """Seconds that a Retry-After header asks for; None without one. A date is left to the backoff."""
    for name, unit_s in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            return max(0.0, float(headers[name]) * unit_s)
        except (KeyError, ValueError):
            continue
    return None


def _langchain_model(provider: str, name: str) -> BaseChatModel | None:
    """The model by LangChain's `init_chat_model`; None where LangChain has no such provider, as for
    "qwen2.5:7b", whose colon belongs to the name."""
    from langchain.chat_models import init_chat_model

    try:
        return init_chat_model(name, model_provider=provider)
    except ValueError as error:
        if "Unsupported" in str(error):
            return None
        raise ConfigError(f"model '{provider}:{name}' cannot be set up: {redact(str(error))}") from None
    except ImportError as error:
        raise ConfigError(f"model '{provider}:{name}' needs another package: {error}") from None
    except Exception as error:  # each provider has its own class for "no key"
        raise ConfigError(f"model '{provider}:{name}' cannot be set up: {redact(str(error))}") from None


class LangChainModel:
    """A LangChain chat model, with the parameters it was made with; it retries by its own settings."""

    def __init__(self, chat_model: Any, name: str = "") -> None:
        self._chat_model = chat_model
        found = getattr(chat_model, "model_name", None) or getattr(chat_model, "model", None)
        self.name = name or f"langchain:{found or type(chat_model).__name__}"

    def complete(self, request: ModelRequest) -> Completion:
        """The reply; see `Model.complete`."""
        message, retries = _with_retries(lambda: self._send(request), self.name)
        metadata = message.response_metadata or {}
        used = message.usage_metadata or {}
        resolved = str(metadata.get("model_name") or metadata.get("model") or self.name)
        tokens_in, tokens_out = used.get("input_tokens", 0), used.get("output_tokens", 0)
        finish_reason = metadata.get("finish_reason") or metadata.get("stop_reason") or ""
        return Completion(
            text=encodable(str(message.text)),
            model=resolved,
            usage=Usage(1, tokens_in, tokens_out, price_usd(resolved, tokens_in, tokens_out) if used else None),
            finish_reason=str(finish_reason).lower(),
            retries=retries,
        )

    def _send(self, request: ModelRequest) -> Any:
        try:
            return self._chat_model.invoke([dict(message) for message in request.messages])
        except (TypeError, NotImplementedError) as error:
            raise ConfigError(f"{self.name} cannot be called: {redact(str(error))[:300]}") from None
        except Exception as error:  # every provider brings its own exceptions; the status code sorts them
            said = f"{type(error).__name__}: {redact(str(error))[:300]}"
            status = getattr(error, "status_code", None) or getattr(error, "code", None)
            if status in (401, 403, 404):
                raise ConfigError(f"{self.name}: check the key and the model's name ({status}): {said}") from None
            if status in (400, 413, 422):
                raise RequestRefused(f"{self.name} refused the request ({status}): {said}") from None
            raise _Retryable(said) from None
