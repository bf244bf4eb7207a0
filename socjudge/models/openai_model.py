"""A model behind an OpenAI-compatible chat-completions endpoint: what is sent, what a reply or an error means."""

from __future__ import annotations

import contextlib
import re
import weakref
from collections.abc import Mapping, Set
from typing import Any, Never

import orjson

from ..base.redact import redact, show_url
from ..base.texts import encodable
from ..errors import ConfigError, RequestRefused
from ..records import Completion, ModelRequest
from . import event_loop
from .pacing import PacedModel, Retryable, RunGate, get_account
from .prices import most_usd_of, usage_of

TIMEOUT_S = 120.0  # a reasoning model may think for a minute
CONNECT_S = 30.0  # however short the wait for a reply: connecting takes long where the machine is busy, not the service
_UNSUPPORTED = re.compile(
    r"unsupported|not support|unknown|unrecogni[sz]ed|unexpected|not permitted|not allowed|invalid|extra|does not",
    re.IGNORECASE,
)


def _close(client: Any) -> None:
    """Close the connections of a model that is gone, in the loop that they belong to."""
    with contextlib.suppress(Exception):
        event_loop.start(client.close()).result(timeout=2)


class OpenAIModel(PacedModel):
    """A model behind an OpenAI-compatible chat-completions endpoint.

    What the service refuses (temperature, response_format …) is learned from its error and left out from
    then on: successors of today's models refuse parameters that today's need. It holds a key, so it cannot be
    pickled."""

    def __init__(self, name: str, *, api_key: str = "", base_url: str = "", timeout_s: float = TIMEOUT_S) -> None:
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

        self.service = show_url(base_url) if base_url else "api.openai.com"
        self._api_key = api_key
        self._timeout_s = timeout_s
        timeout = openai.Timeout(timeout_s, connect=CONNECT_S, pool=max(timeout_s, CONNECT_S))
        self._client = openai.AsyncOpenAI(
            api_key=api_key or "none", base_url=base_url or None, timeout=timeout, max_retries=0,
            http_client=openai.DefaultAioHttpClient(timeout=timeout),
        )  # fmt: skip
        weakref.finalize(self, _close, self._client)
        account = get_account(str(self._client.base_url), api_key)
        super().__init__(name, f"{name} at {self.service}", account)
        self._refused: set[str] = set()

    def __repr__(self) -> str:
        return f"OpenAIModel({self.name!r})"

    def __reduce__(self) -> Never:
        raise ConfigError(f"{self!r} holds a key, so it is not sent elsewhere; pass the model's name, '{self.name}'")

    def most_usd(self, request: ModelRequest) -> float | None:
        """The most that one call can cost, US dollars; None where the price is unknown."""
        return most_usd_of(self.name, request)

    async def _send(self, request: ModelRequest, run: RunGate) -> Completion:
        import aiohttp
        import openai

        learned: set[str] = set()
        while True:
            body = self.body(request, learned)
            try:
                # The SDK's method for plain endpoints: `chat.completions.create` builds typed objects of what is sent
                # and received, which takes as long as all the rest (docs/performance.md).
                content = orjson.dumps(body)
                response: Any = await self._client.post("/chat/completions", content=content, cast_to=object)
                completion = self.read(response)
            except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
                learned.add(self.refused_parameter(error, body))
                continue
            except openai.APIStatusError as error:
                raise self._status_error(error) from None
            except openai.APIConnectionError as error:
                # The SDK's errors tell little; those of its transport tell whether the request went out.
                origin = (error.__cause__ or error).__cause__ or error
                why = self._redact(str(origin))
                sent = not isinstance(origin, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError)
                if not sent:
                    said = f"cannot connect ({why}); is OPENAI_BASE_URL right?"
                elif isinstance(origin, TimeoutError):
                    said = f"no reply within {self._timeout_s:g} s"
                else:
                    said = f"the connection was lost ({why})"
                raise Retryable(said, may_be_billed=sent) from None
            except (openai.APIError, ValueError, TypeError, AttributeError, LookupError) as error:
                why = self._redact(f"{type(error).__name__}: {error}")[:200]
                raise Retryable(
                    f"the response is no chat completion ({why}); is OPENAI_BASE_URL right (it often ends in /v1)?",
                    may_be_billed=True,
                ) from None
            self._refused |= learned  # only now is it known that the refusals were the trouble
            return completion

    def read(self, response: Any) -> Completion:
        """What a response says; TypeError and the like where it is no chat completion."""
        choice = response["choices"][0]
        message = choice["message"]
        content = message.get("content")
        if isinstance(content, list):  # some services send parts
            content = "".join(part.get("text", "") for part in content)
        text = content or message.get("refusal") or ""
        resolved = response.get("model")
        resolved = resolved if isinstance(resolved, str) and resolved else self.name
        used = response.get("usage") or {}
        # Prices are listed under either name: the alias asked for or the dated version that answered.
        usage = usage_of(used.get("prompt_tokens"), used.get("completion_tokens"), resolved, self.name)
        return Completion(encodable(text), resolved, usage, str(choice.get("finish_reason") or "").lower())

    def body(self, request: ModelRequest, refused: Set[str] = frozenset()) -> dict[str, Any]:
        """The body to send, without the parameters in `refused` and what the service has refused so far."""
        refused = self._refused | refused
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
        return {"model": self.name, "messages": request.messages, **parameters}

    def refused_parameter(self, error: Any, sent: Mapping[str, Any]) -> str:
        """Which parameter of the body the service refuses; RequestRefused when it is none of ours.

        error: with the `message`, `code`, `param` and `status_code` that the service gave."""
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
            f"{self.where} refused the request ({error.status_code}): {self._redact(error.message)[:300]}"
        ) from None

    def _status_error(self, error: Any) -> Exception:
        """The exception that says what a 4xx or 5xx means for the caller."""
        status, said = (
            error.status_code,
            self._redact(error.message.removeprefix(f"Error code: {error.status_code} - ")),
        )
        said = said[:300]
        if status in (401, 403):
            return ConfigError(f"{self.where} refused the key ({status}): check OPENAI_API_KEY. It said: {said}")
        if status == 404:
            return ConfigError(f"{self.where}: no such model or path (404); check its name and OPENAI_BASE_URL: {said}")
        if status == 429 and error.code == "insufficient_quota":
            return ConfigError(f"{self.where}: the account's quota is used up (429): {said}")
        if status in (408, 409, 425, 429) or status >= 500:
            wait_s = _retry_after_s(error.response.headers)
            return Retryable(f"HTTP {status} ({said})", refused=status == 429, retry_after_s=wait_s)
        return RequestRefused(f"{self.where} refused the request ({status}): {said}")

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
