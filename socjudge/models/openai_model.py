"""Call models behind an OpenAI-compatible chat-completions endpoint: requests, replies and errors."""

from __future__ import annotations

import asyncio
import contextlib
import math
import re
import weakref
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from urllib.parse import urljoin, urlsplit

import orjson

from ..base.messages import say
from ..base.redact import hash_query, path_tokens, show_url
from ..base.service_errors import Told, read_body, read_error
from ..errors import ConfigError, names_content
from ..records import REASONING, WITHHELD, Completion, ModelRequest
from . import event_loop
from .client_errors import CONTEXT, failure_of
from .connections import open_client
from .endings import MAKER
from .gate import CallSettings, RunGate
from .pacing import Model, Retryable, get_account

CONNECT_S = 30.0  # seconds of the wait for a reply
MAX_BYTES = 16 * 2**20  # bytes of a response; a reply of 100,000 tokens takes half of one MB
LEAST_OUTPUT_TOKENS = 256  # with less than this, no answer or judgement can be completed
_KEY = re.compile(r"sk-[\w-]{16,}")
_LIMITS = ("max_tokens", "max_completion_tokens")
_UNSUPPORTED = re.compile(
    r"unsupported|not support|unknown|unrecogni[sz]ed|unexpected|not permitted|not allowed|invalid|extra|does not",
    re.IGNORECASE,
)
_ASKS = re.compile(rf"{_UNSUPPORTED.pattern}|must|should|has to|have to|only|expected|required|range", re.IGNORECASE)
_FORMAT = re.compile(r"response_format|json_schema|json_object|grammar|structured.output|guided", re.IGNORECASE)
_JSON = re.compile(
    r"schema|json[ _-]?(?:mode|object|output|format)|(?:not support|unsupported)\w*\W+(?:\w+\W+){0,3}json"
    r"|json\W+(?:\w+\W+){0,3}(?:not support|unsupported)",
    re.IGNORECASE,
)
_GIVEN = re.compile(r"(\d+)(?: tokens)? in the (?:messages|prompt|input)|(\d+) (?:input|prompt) tokens", re.IGNORECASE)
_REQUEST_ID: ContextVar[str] = ContextVar("_REQUEST_ID", default="")  # the id of the response that this task read last
_AT_MOST = re.compile(r"(?:at most|less than or equal to|<=|maximum (?:value )?(?:of|is|allowed))\D{0,12}(\d+)", re.I)


def _close(client: Any) -> None:
    """Close the connections of a model object that is gone, in the event loop that made them."""
    with contextlib.suppress(Exception):
        closing = event_loop.start(client.close())
        if asyncio._get_running_loop() is None:  # a loop that waited here would stand still
            closing.result(timeout=2)


class OpenAIModel(Model):
    """A parameter that the service refuses is left out or replaced: newer models refuse what older ones need."""

    path = "/chat/completions"

    def __init__(self, name: str, *, api_key: str = "", base_url: str = "") -> None:
        if _KEY.match(name):
            raise ConfigError(
                "the model's name looks like an API key; put the key into OPENAI_API_KEY, and name a model "
                "such as gpt-4o-mini"
            )
        if not api_key and not base_url:
            raise ConfigError(
                "model '{name}' needs a key and OPENAI_API_KEY is not set: export OPENAI_API_KEY=…, or set "
                "OPENAI_BASE_URL for a server of your own, or use the model 'offline', which needs none",
                name=name,
            )
        if not re.fullmatch("[!-~]*", api_key):
            raise ConfigError("OPENAI_API_KEY holds characters that no key has; copy it again")
        if base_url and not _is_url(base_url):
            raise ConfigError(
                "OPENAI_BASE_URL must be an address such as http://localhost:8000/v1, with http:// or https:// and without "
                "a user name or password (…@); a key belongs into OPENAI_API_KEY"
            )
        import openai

        at = show_url(base_url)
        self.service = self.address = MAKER if not base_url or at == f"https://{MAKER}/v1" else at
        self.settings = hash_query(base_url) or "default"
        self._base_url = base_url
        self._client = openai.AsyncOpenAI(
            api_key=api_key or "none",
            base_url=base_url or None,
            max_retries=0,
            http_client=open_client(_check_response),
        )
        weakref.finalize(self, _close, self._client)
        # Other servers know max_tokens, and some ignore max_completion_tokens and write without end. OpenAI's models
        # refuse max_tokens.
        host = self._client.base_url.host
        self._limits = _LIMITS[::-1] if host.endswith(("openai.com", "openai.azure.com")) else _LIMITS
        self._most_output_tokens = math.inf
        keys = [api_key, *path_tokens(base_url)]
        account = get_account(str(self._client.base_url), api_key)
        super().__init__(name, say("{model} at {service}", model=name, service=self.service), account, keys)
        self.own_name = name
        self._left_out: set[str] = set()  # parameters that are left out or replaced from then on

    async def _send(self, request: ModelRequest, gate: RunGate) -> Completion:
        import openai

        learned: set[str] = set()
        limit = int(min(request.max_output_tokens, self._most_output_tokens))
        was_cut = False
        while True:
            body = self._body(request, limit)
            try:
                completion = await self._reply(body, request, gate.settings)
                break
            except openai.APIStatusError as error:
                told, status = read_error(error), error.status_code
                if status in (400, 422) and told.rejects_output:
                    return self.rejected(told, request)
                about_request = status in (400, 422, 500)
                room = self._room(told.about, limit) if about_request and not was_cut else None
                if room is not None:
                    limit, was_cut = room, True
                elif about_request and (name := self._refused_name(status, told, body)):
                    learned.add(name)
                    self._left_out.add(name)
                else:
                    failure = failure_of(self, error, told, base_url=self._base_url)
                    if not isinstance(failure, Retryable):
                        self._left_out -= learned  # it is refused even so, so the cause is unknown
                    raise failure from None
        if completion.usage.output_tokens > limit + 64 and not self._left_out.intersection(_LIMITS):
            self._left_out |= body.keys() & set(_LIMITS)  # the server ignores this parameter
        return completion

    async def _reply(self, body: Mapping[str, Any], request: ModelRequest, settings: CallSettings) -> Completion:
        import aiohttp
        import openai

        _REQUEST_ID.set("")
        response: Any = None
        options: Any = {"timeout": _timeout(settings.timeout_s)}
        try:
            # A total time, because the client's starts again with each byte. `chat.completions.create` would build typed
            # objects, which takes as long as the rest of a call (benchmarks/speed.md).
            async with asyncio.timeout(settings.timeout_s):
                content = orjson.dumps(body)
                response = await self._client.post(self.path, content=content, cast_to=object, options=options)
            _check_error(response)
            completion = self.read(response, request)
            self.check_reply(completion, response.get("id"), request)
            return replace(completion, request_id=self.without_keys(_REQUEST_ID.get()[:200]))
        except openai.APIStatusError:
            raise
        except (openai.APIConnectionError, aiohttp.ClientError, TimeoutError) as error:
            raise self._connection_error(error, settings) from None
        except (openai.APIError, ValueError, TypeError, AttributeError, LookupError, RecursionError) as error:
            told = Told("") if isinstance(response, dict) and "choices" in response else read_body(response)
            why = self.redact(told.words or f"{type(error).__name__}: {error}")[:200]
            words = "the response is no chat completion ({reason}); is OPENAI_BASE_URL right (it often ends in /v1)?"
            raise Retryable(say(words, reason=why), may_be_billed=True) from None

    def _connection_error(self, error: Exception, settings: CallSettings) -> Exception:
        """Only the causes of the SDK's error show whether the request may have been sent, and so may be billed."""
        import aiohttp

        causes = list(_causes(error))
        for cause in causes:
            if isinstance(cause, ConfigError | Retryable):
                return cause
        kinds = tuple(map(type, causes))
        why = self.redact(str(causes[-1] or causes[0]) or type(causes[-1]).__name__)[:300]
        if any(issubclass(kind, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError) for kind in kinds):
            return Retryable(say("cannot connect ({reason}); is OPENAI_BASE_URL right?", reason=why), unreachable=True)
        if any(issubclass(kind, TimeoutError) for kind in kinds):
            said = say("no reply within {seconds:g} s", seconds=settings.timeout_s)
            return Retryable(said, may_be_billed=True, timed_out=True)
        return Retryable(say("the connection was lost ({reason})", reason=why), may_be_billed=True)

    def read(self, response: Any, request: ModelRequest) -> Completion:
        """TypeError or a similar error if the response is not a chat completion."""
        choices = response["choices"]
        # Azure and Gemini, if they say nothing else.
        if not choices and (response.get("prompt_filter_results") or names_content(response, model=self.own_name)):
            choices = [{"finish_reason": "content_filter"}]
        choice = choices[0]
        reason = str(choice.get("finish_reason") or "").lower()
        message: Any = choice.get("message") or ({"content": ""} if reason in WITHHELD else None)
        content = message.get("content")
        if isinstance(content, list):  # some services send a list of parts
            content = "".join(part.get("text", "") for part in content)
        refusal = None if content else message.get("refusal")
        text = content or refusal or ""
        if not text and isinstance(thought := message.get("reasoning_content") or message.get("reasoning"), str):
            # Some servers take a reply for hidden reasoning. It is one if it ends with the JSON that was asked for.
            text = thought if request.schema is not None and thought.rstrip("` \n").endswith("}") else ""
            reason = reason if text or reason in ("length", *WITHHELD) else REASONING
        if request.task == "answer" and not reason:
            raise Retryable(say("the reply has no finish_reason, so it may be only a part"), may_be_billed=True)
        reason = "refusal" if refusal else reason
        return self.completion(text, response.get("model"), response.get("usage"), reason, request)

    def _body(self, request: ModelRequest, max_output_tokens: int | None = None) -> dict[str, Any]:
        refused = self._left_out
        parameters: dict[str, Any] = {}
        if "temperature" not in refused:
            parameters["temperature"] = 0
        if limit := next((name for name in self._limits if name not in refused), None):
            parameters[limit] = max_output_tokens or request.max_output_tokens
        if request.schema is not None and "response_format" not in refused:
            if "json_schema" not in refused:
                schema = {"name": "judgement", "strict": True, "schema": request.schema}
                parameters["response_format"] = {"type": "json_schema", "json_schema": schema}
            elif "schema" not in refused and self._limits is _LIMITS:  # llama.cpp turns the schema into a grammar
                parameters["response_format"] = {"type": "json_object", "schema": request.schema}
            else:
                parameters["response_format"] = {"type": "json_object"}
        return {"model": self.name, "messages": request.messages, **parameters}

    def _refused_name(self, status: int, told: Told, sent: Mapping[str, Any]) -> str:
        said = told.param or told.about
        # A failure of the server is no refusal, unless it names what the request must be.
        if {"context_length_exceeded", "content_filter"} & {*told.codes} or (
            status == 500 and not told.param and (told.rejects_output or not _ASKS.search(said))
        ):
            return ""
        for name in ("temperature", *_LIMITS):
            if name in sent and re.search(rf"(?<![a-zA-Z0-9_]){name}(?![a-zA-Z0-9_])", said, re.I):  # \b knows no 漢字
                return name
        about_json = status != 500 and not told.param and _UNSUPPORTED.search(said) and _JSON.search(said)
        if "response_format" in sent and (_FORMAT.search(said) or about_json):
            form = sent["response_format"]
            return "json_schema" if "json_schema" in form else "schema" if "schema" in form else "response_format"
        return ""

    def _room(self, said: str, limit: int) -> int | None:
        """Return a lower limit from the numbers in the error, unless it is too little for an answer."""
        context, given = CONTEXT.search(said), _GIVEN.search(said)
        if context and given:
            room = int(context[1]) - int(given[1] or given[2]) - 8  # some services count a few tokens more
            return room if LEAST_OUTPUT_TOKENS <= room < limit else None
        at_most = None if context else _AT_MOST.search(said)
        if at_most and re.search("max_(?:completion_)?tokens|completion tokens", said):
            most = int(at_most[1])
            if LEAST_OUTPUT_TOKENS <= most < limit:
                self._most_output_tokens = most
                return most
        return None


def _is_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        is_open = parts.scheme in ("http", "https") and "@" not in parts.netloc
        return is_open and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a stray bracket, or a port that is no number
        return False


def _check_error(response: Any) -> None:
    """Some gateways send errors with status 200, and with the real status as the error's code."""
    import openai

    choices = response.get("choices") or [{}]
    if error := response.get("error") or choices[0].get("error"):
        code = error.get("code") if isinstance(error, dict) else None
        status = code if isinstance(code, int) and 400 <= code < 600 else 200
        answer: Any = SimpleNamespace(status_code=status, headers={}, request=None)
        raise openai.APIStatusError("", response=answer, body={**response, "error": error})


async def _check_response(response: Any) -> None:
    """Read up to a size limit. Refuse a redirect, because another service may get the prompt there."""
    if response.has_redirect_location:
        here, there = str(response.request.url), urljoin(str(response.request.url), response.headers["location"])
        words = (
            "{here} redirects to {there} ({status}); if that is where you want to send runbooks and "
            "answers, put it into OPENAI_BASE_URL"
        )
        raise ConfigError(words, here=show_url(here), there=show_url(there), status=response.status_code)
    content = bytearray()
    async for part in response.aiter_bytes():
        content += part
        if len(content) > MAX_BYTES:
            raise Retryable(
                say("the response is larger than {limit} MB; is OPENAI_BASE_URL right?", limit=MAX_BYTES >> 20),
                may_be_billed=True,
            )
    _REQUEST_ID.set(response.headers.get("x-request-id", ""))
    response._content = bytes(content)  # as `response.aread()` would set it


def _timeout(wait_s: float) -> Any:
    import openai

    # Less than the total time, to distinguish it from a service that was reached and does not answer.
    return openai.Timeout(wait_s, connect=min(CONNECT_S, 0.9 * wait_s), pool=wait_s)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__
