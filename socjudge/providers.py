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
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from . import constants
from .errors import ConfigError, ProviderError
from .prices import price_usd
from .records import Completion, ModelRequest, Usage

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

T = TypeVar("T")
OFFLINE = "offline"
TIMEOUT_S = 120.0  # a reasoning model may think for a minute
MAX_TRIES = 5
BACKOFF_S = 0.5  # doubled at each retry, full jitter
MAX_WAIT_S = 60.0  # a Retry-After beyond this is reported instead of slept through
_KEY_LIKE = re.compile(r"\b(sk|pk|key|api)[-_][\w*-]{6,}")
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
        return cast(Model, model) if hasattr(model, "complete") else LangChainModel(model)
    if model == "auto":
        model = resolve_auto()
    if model == OFFLINE:
        from .offline import OfflineModel

        return OfflineModel()
    prefix, colon, name = model.partition(":")
    if colon and (chat_model := _langchain_model(prefix, name)) is not None:
        return LangChainModel(chat_model, model)
    return _openai_model(model, os.environ.get("OPENAI_API_KEY", ""), os.environ.get("OPENAI_BASE_URL", ""))


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
        import openai

        self.name = name
        self._where = f"{name} at {base_url or 'api.openai.com'}"
        self._api_key = api_key
        self._client = openai.OpenAI(
            api_key=api_key or "none", base_url=base_url or None, timeout=TIMEOUT_S, max_retries=0
        )
        self._refused: set[str] = set()

    def __repr__(self) -> str:
        return f"OpenAIModel({self.name!r})"

    def complete(self, request: ModelRequest) -> Completion:
        """The reply; see `Model.complete`."""
        response, retries = _with_retries(lambda: self._send(request), self._where)
        choice = response.choices[0]
        resolved = response.model or self.name
        used = response.usage
        tokens_in, tokens_out = (used.prompt_tokens, used.completion_tokens) if used else (0, 0)
        # Prices are listed under either name: the alias asked for or the dated version that answered.
        cost = None
        if used:
            cost = price_usd(resolved, tokens_in, tokens_out)
            cost = price_usd(self.name, tokens_in, tokens_out) if cost is None else cost
        return Completion(
            text=choice.message.content or getattr(choice.message, "refusal", None) or "",
            model=resolved,
            usage=Usage(1, tokens_in, tokens_out, cost),
            finish_reason=choice.finish_reason or "",
            retries=retries,
        )

    def _send(self, request: ModelRequest) -> Any:
        import openai

        while True:
            parameters = self._parameters(request)
            try:
                messages: Any = list(request.messages)
                response = self._client.chat.completions.create(model=self.name, messages=messages, **parameters)
            except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
                self._learn(error, parameters)
                continue
            except openai.APIStatusError as error:
                raise self._status_error(error) from None
            except openai.APITimeoutError:
                raise _Retryable(f"no reply within {TIMEOUT_S:g} s") from None
            except openai.APIConnectionError as error:
                cause = error.__cause__ or error
                raise _Retryable(f"cannot connect ({self._redact(str(cause))}); is OPENAI_BASE_URL right?") from None
            except (openai.APIError, ValueError) as error:
                raise _Retryable(f"unreadable response ({self._redact(str(error))[:200]})") from None
            if not getattr(response, "choices", None):
                raise _Retryable("the response holds no choices; is OPENAI_BASE_URL right (it often ends in /v1)?")
            return response

    def _parameters(self, request: ModelRequest) -> dict[str, Any]:
        """What to send beside the messages, without what the service has refused so far."""
        parameters: dict[str, Any] = {}
        if "temperature" not in self._refused:
            parameters["temperature"] = 0
        limit = "max_tokens" if "max_completion_tokens" in self._refused else "max_completion_tokens"
        if limit not in self._refused:
            parameters[limit] = request.max_output_tokens
        if request.schema is not None and "response_format" not in self._refused:
            if "json_schema" not in self._refused:
                schema = {"name": "judgement", "strict": True, "schema": request.schema}
                parameters["response_format"] = {"type": "json_schema", "json_schema": schema}
            else:
                parameters["response_format"] = {"type": "json_object"}
        return parameters

    def _learn(self, error: Any, sent: dict[str, Any]) -> None:
        """Note which parameter the service refuses, or raise ConfigError when it refuses something else."""
        said = f"{error.param or ''} {error.message}"
        if error.code != "context_length_exceeded" and (error.param or _UNSUPPORTED.search(said)):
            for name in ("temperature", "max_completion_tokens", "max_tokens"):
                if name in sent and name in said:
                    self._refused.add(name)
                    return
            if "response_format" in sent and re.search("response_format|json|schema|grammar", said):
                kind = sent["response_format"]["type"]
                self._refused.add("json_schema" if kind == "json_schema" else "response_format")
                return
        raise ConfigError(
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
        return ConfigError(f"{self._where} refused the request ({status}): {said}")

    def _redact(self, text: str) -> str:
        """The text without anything that looks like a key: services echo parts of it in their errors."""
        if len(self._api_key) >= 4:
            text = text.replace(self._api_key, "[key]")
        return _KEY_LIKE.sub("[key]", text)


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
        raise ConfigError(f"model '{provider}:{name}' cannot be set up: {_KEY_LIKE.sub('[key]', str(error))}") from None
    except ImportError as error:
        raise ConfigError(f"model '{provider}:{name}' needs another package: {error}") from None
    except Exception as error:  # each provider has its own class for "no key"
        raise ConfigError(f"model '{provider}:{name}' cannot be set up: {_KEY_LIKE.sub('[key]', str(error))}") from None


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
        resolved = metadata.get("model_name") or metadata.get("model") or self.name
        tokens_in, tokens_out = used.get("input_tokens", 0), used.get("output_tokens", 0)
        cost = price_usd(resolved, tokens_in, tokens_out) if used else None
        return Completion(
            text=message.text if isinstance(message.text, str) else message.text(),
            model=resolved,
            usage=Usage(1, tokens_in, tokens_out, cost),
            finish_reason=metadata.get("finish_reason") or metadata.get("stop_reason") or "",
            retries=retries,
        )

    def _send(self, request: ModelRequest) -> Any:
        try:
            return self._chat_model.invoke([dict(message) for message in request.messages])
        except Exception as error:  # every provider brings its own exceptions; the status code sorts them
            said = f"{type(error).__name__}: {_KEY_LIKE.sub('[key]', str(error))[:300]}"
            status = getattr(error, "status_code", None) or getattr(error, "code", None)
            if status in (400, 401, 403, 404, 422):
                raise ConfigError(f"{self.name} refused the request ({status}): {said}") from None
            raise _Retryable(said) from None
