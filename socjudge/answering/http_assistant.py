"""Ask your own assistant over HTTP. A table of socjudge.toml says where it is, what to send, and how to read its reply.

{question} and environment variables (${BOT_KEY}) are replaced by their values, in one pass: a value is not searched for
further names. A path has the form `a.b[0].c`. In a path, `[*]` stands for every item of a list, and
`$` for the whole reply. Nothing is evaluated as code. No record and no error contains the value of a variable. The
assistant's fingerprint depends on the values of the variables, except of those that are named like secrets.
"""

from __future__ import annotations

import asyncio
import functools
import json
import os
import re
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Annotated, Any
from urllib.parse import parse_qsl, quote, unquote, urljoin, urlsplit

import msgspec

from ..base.former_names import instead_of
from ..base.messages import say
from ..base.redact import hash_query, is_secret_name, path_tokens, redact, redact_links, show_url, without_secrets
from ..base.showing import one_line
from ..base.texts import encodable
from ..errors import ConfigError, NoAnswer
from ..models.client_errors import retry_after_s
from ..models.openai_model import CONNECT_S, MAX_BYTES
from ..models.pacing import Retryable
from .event_stream import Event, answer_in, check_end, follow, read_events, read_lines

_NAME = re.compile(r"(\{question\})|\$\{([A-Za-z_]\w*)\}")
_STEP = re.compile(r"\.?([^.\[\]]+)|\[(\d+|\*)\]")
_PATH = re.compile(r"(?:\.?[^.\[\]]++|\[(?:\d+|\*)\])++")
# Many servers call every text Latin-1, which cannot hold Japanese. What is called Shift_JIS or EUC-JP often has letters
# beyond the standard, such as ①.
_CHARSETS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("iso-8859-1", "latin-1", "latin1", "us-ascii", "windows-1252"), ("utf-8",)),
    **dict.fromkeys(("shift_jis", "shift-jis", "sjis", "x-sjis", "windows-31j", "cswindows31j"), ("cp932",)),
    **dict.fromkeys(("euc-jp", "euc_jp", "x-euc-jp"), ("euc_jp", "euc_jis_2004")),
}
_LINES = ("application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines")
_PAGE = re.compile(r"\s*<(?:!doctype html|html)\b", re.IGNORECASE)
_FRAMED = re.compile(r"(?:\w{1,2}:[\"{\[].*\n*)+")  # lines of a protocol that is not known here
_OF_REPLY = ("contexts", "sources", "headings", "model", "input_tokens", "output_tokens", "cost_usd")


class _Table(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    url: str
    method: str | None = None
    headers: dict[str, str] = {}
    body: Any = None
    # paths in the reply, the first of which must be there
    answer: Annotated[str, msgspec.Meta(min_length=1)]
    contexts: str | None = None
    sources: str | None = None
    headings: str | None = None
    model: str | None = None
    input_tokens: str | None = None
    output_tokens: str | None = None
    cost_usd: str | None = None
    events: list[str] = []  # the kinds of events that the answer is made of
    version: str | int | float = ""
    timeout_s: float | None = None
    concurrency: Annotated[int, msgspec.Meta(ge=1)] | None = None


class HttpAssistant:
    """Ask an assistant over HTTP, as a table [assistants.NAME] says. ConfigError if the table has faults."""

    def __init__(self, table: Mapping[str, Any], *, where: str) -> None:
        try:
            self.table = msgspec.convert(table, _Table)
        except msgspec.ValidationError as error:
            keys = ", ".join(_Table.__struct_fields__)
            told = say("{where}: {reason}; its keys may be {keys}", where=where, reason=error, keys=keys)
            raise ConfigError("\n".join([told, *filter(None, map(instead_of, table))])) from None
        version = str(self.table.version)
        self.version = "" if version.startswith("path:") else version
        given = {name: getattr(self.table, name) for name in ("answer", *_OF_REPLY)}
        given |= {} if self.version == version else {"version": version.removeprefix("path:")}
        self._paths = {name: _steps(path, name, where) for name, path in given.items() if path is not None}
        texts = [text for _, text in _named_texts([self.table.url, self.table.headers, self.table.body])]
        self.variables = sorted({found[2] for text in texts for found in _NAME.finditer(text) if found[2]})
        if not any("{question}" in text for text in texts):
            raise ConfigError(
                "{where}: neither url nor body has {{question}}; put it where the question goes", where=where
            )
        if unset := [name for name in self.variables if not os.environ.get(name)]:
            names = ", ".join(unset)
            raise ConfigError(
                "{where}: the variables {names} are not set; set them and try again", where=where, names=names
            )
        url = self._fill(self.table.url, "", quoted=True)
        parts = urlsplit(url)
        self._secrets = [os.environ.get(name, "").strip() for name in self.variables]
        # Those that the table holds itself. Of "Bearer …", only the last word is secret.
        named = [*_named_texts([self.table.headers, self.table.body]), *parse_qsl(parts.query)]
        written = (text for name, text in named if is_secret_name(name) and text.strip() and not _NAME.search(text))
        user, password = unquote(parts.username or ""), unquote(parts.password or "")
        self._secrets += [password and f"{user}:{password}", password, *path_tokens(url)]
        self._secrets += [text.split()[-1] for text in written]
        self.host, self.service = parts.netloc.rpartition("@")[2], self._hide(show_url(url))
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(
                "{where}: url is no address with http:// or https:// ({url})", where=where, url=self.service
            )

    @property
    def decides(self) -> dict[str, Any]:
        """Return everything that determines the assistant's answers: method, address, headers, body and paths.
        Headers named like secrets are left out, and variables named like secrets are not replaced by their values."""
        told = {name: getattr(self.table, name) for name in ("method", "answer", "events", *_OF_REPLY)}
        told["headers"] = self._fill({k: v for k, v in self.table.headers.items() if not is_secret_name(k)})
        url = self._fill(self.table.url)
        return told | {"body": self._fill(self.table.body), "url": show_url(url), "query": hash_query(url)}

    async def ask(self, question: str, timeout_s: float) -> dict[str, Any]:
        """Return the answer, for `as_answer`. NoAnswer without one; Retryable if the service says when to ask."""
        return self._mapped(*await self.read(question, timeout_s))

    async def read(self, question: str, timeout_s: float) -> tuple[list[Any], Any]:
        """Ask one question. Return what was replied, one item or one per event, and what stands where the answer is."""
        response, raw = await self._send(question, timeout_s)
        charset, headers = response.charset_encoding or "", response.headers
        self._check_status(response, raw)
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        text, steps = self._without_secrets(_decoded(raw, charset)), self._paths["answer"]
        if kind == "text/event-stream" or kind in _LINES:
            read = read_events(text) if kind == "text/event-stream" else read_lines(text)
            events = [Event(event.name, self._without_secrets(event.value)) for event in read]
            replies = [event.value for event in events]
            _check_error(replies)
            is_framed = "content-length" in headers or "transfer-encoding" in headers
            answer: Any = answer_in(events, steps, only=self.table.events, must_end=not is_framed)
        else:
            replies = [self._without_secrets(_json(text, kind))]
            _check_error(replies)
            check_end(replies[0], steps)
            answer = follow(replies[0], steps)
            if isinstance(answer, list) and answer and all(isinstance(text, str) for text in answer):
                answer = "\n".join(answer)
        return replies, answer

    async def _send(self, question: str, timeout_s: float) -> tuple[Any, bytes]:
        import httpx2

        body, headers = self._fill(self.table.body, question), self._fill(self.table.headers, question)
        method = (self.table.method or ("GET" if body is None else "POST")).upper()
        url = self._fill(self.table.url, question, quoted=True)
        # Each question has its own connection. A kept one may be closing, and a lost question cannot be asked again.
        client = httpx2.AsyncClient(verify=_tls(), timeout=httpx2.Timeout(None, connect=CONNECT_S))
        try:
            async with (
                asyncio.timeout(CONNECT_S + timeout_s),
                client,
                client.stream(method, url, json=body, headers=headers) as response,
            ):
                return response, await _read(response)
        except TimeoutError:
            raise NoAnswer(
                "no answer within {seconds:g} seconds; give a longer timeout_s if it needs more", seconds=timeout_s
            ) from None
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
            raise self._unreachable(str(error) or type(error).__name__) from None

    def _check_status(self, response: Any, raw: bytes) -> None:
        status = response.status_code
        if status < 300:
            return
        if status < 400:
            there = urljoin(str(response.request.url), response.headers.get("location", ""))
            raise NoAnswer(
                "{here} redirects to {there} (HTTP {status}), which is not followed; put that address into url",
                here=self.service,
                there=self._hide(show_url(there)),
                status=status,
            )
        said = one_line(self._hide(_decoded(raw, response.charset_encoding or "", errors="replace")), 200)
        if status == 407:
            raise self._unreachable(f"HTTP 407 {said}")
        wait_s = retry_after_s(response.headers)
        if status in (429, 503) and wait_s is not None:
            raise Retryable(f"HTTP {status} ({said})", refused=status == 429, retry_after_s=wait_s)
        raise NoAnswer("HTTP {status} ({said})", status=status, said=said)

    def _unreachable(self, said: str) -> NoAnswer:
        return NoAnswer(
            "{where} cannot be reached, or the connection was lost ({reason}); if a proxy is between, check HTTP_PROXY, "
            "HTTPS_PROXY (with USER:PASSWORD@, if it asks for them) and NO_PROXY",
            where=self.service,
            reason=one_line(self._hide(said), 200),
        )

    def _mapped(self, replies: list[Any], answer: Any) -> dict[str, Any]:
        if not isinstance(answer, str):
            reply = replies[-1] if replies else ""
            told = ", ".join(map(str, reply)) if isinstance(reply, Mapping) else repr(reply)
            raise NoAnswer(
                "the reply has no {path}, only {found}", path=self.table.answer, found=one_line(redact(told), 200)
            )
        with suppress(UnicodeError):  # an event may hold half of a pair, and a secret may be cut in two
            answer = answer.encode("utf-16", "surrogatepass").decode("utf-16")
        if answer != encodable(answer):
            raise NoAnswer("the reply has broken characters ({found})", found=one_line(encodable(answer), 120))
        found: dict[str, Any] = {name: _last(replies, steps) for name, steps in self._paths.items()}
        if not found.get("version", self.version or "unversioned"):
            raise NoAnswer("the reply does not tell its version ({version})", version=self.table.version)
        found["contexts"] = _contexts(*(found.pop(name, None) for name in ("contexts", "sources", "headings")))
        return found | {"answer": self._without_secrets(answer)}

    def _fill(self, template: Any, question: str | None = None, *, quoted: bool = False) -> Any:
        """Without a question, its place stays as it is, and so do the variables that are named like secrets."""

        def value(found: re.Match[str]) -> str:
            if question is None and (found[1] or is_secret_name(found[2])):
                return found[0]
            if found[2]:
                return os.environ.get(found[2], "").strip()
            return quote(question or "", safe="") if quoted else question or ""

        return _each_text(template, lambda text: _NAME.sub(value, text))

    def _without_secrets(self, reply: Any) -> Any:
        """Nothing else of a reply is changed."""
        return _each_text(reply, lambda text: redact_links(without_secrets(text, self._secrets)))

    def _hide(self, text: str) -> str:
        return redact(self._without_secrets(text))


def _each_text(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: _each_text(inner, change) for key, inner in value.items()}
    return [_each_text(inner, change) for inner in value] if isinstance(value, list) else value


def _named_texts(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, Mapping | list):
        for key, inner in value.items() if isinstance(value, Mapping) else ((name, item) for item in value):
            yield from _named_texts(inner, key)


def _steps(path: str, name: str, where: str) -> list[str | int]:
    if path == "$":
        return []
    if not _PATH.fullmatch(path):
        raise ConfigError(
            '{where}: {name} = "{path}" is no path, such as a.b[0].c, items[*].text or $',
            where=where,
            name=name,
            path=path,
        )
    return [name or ("*" if place == "*" else int(place)) for name, place in _STEP.findall(path)]


def _check_error(replies: list[Any]) -> None:
    for reply in replies:
        if isinstance(reply, Mapping) and reply.get("error"):
            said = one_line(redact(json.dumps(reply, ensure_ascii=False)), 200)
            raise NoAnswer("the assistant reports an error: {said}", said=said)


def _last(replies: list[Any], steps: list[str | int]) -> Any:
    """Of the events of a stream, the last one that has a value counts."""
    found = (follow(reply, steps) for reply in reversed(replies))
    return next((value for value in found if value is not None), None)


def _contexts(texts: Any, sources: Any, headings: Any) -> list[Any] | None:
    """Return each context with its source and its heading, which may stand in lists of their own."""
    if texts is None:
        return None
    texts = _listed(texts)
    sources, headings = (_listed(each) or [None] * len(texts) for each in (sources, headings))
    if not len(texts) == len(sources) == len(headings):
        raise NoAnswer(
            "the reply has {texts} contexts, {sources} sources and {headings} headings, so nobody knows which belong together",
            texts=len(texts),
            sources=len(sources),
            headings=len(headings),
        )
    return [
        {"text": text or "", "source": source, "heading": heading} if isinstance(text, str | None) else text
        for text, source, heading in zip(texts, sources, headings, strict=True)
    ]


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


@functools.cache
def _tls() -> ssl.SSLContext:
    return ssl.create_default_context()  # it takes longer to make than a question to send


async def _read(response: Any) -> bytes:
    content = bytearray()
    async for part in response.aiter_bytes():
        content += part
        if len(content) > MAX_BYTES:
            raise NoAnswer("the response is larger than {limit} MB; is the address right?", limit=MAX_BYTES >> 20)
    return bytes(content)


def _decoded(raw: bytes, charset: str, errors: str = "strict") -> str:
    for name in _CHARSETS.get(charset.lower(), (charset or json.detect_encoding(raw),)):
        with suppress(LookupError, ValueError):
            return raw.decode(name, errors)
    if errors != "strict":
        return raw.decode("utf-8", errors)
    raise NoAnswer(
        "the reply is not text in {charset}; have the service send the encoding that its Content-Type declares, or UTF-8",
        charset=charset or "UTF-8",
    )


def _json(text: str, kind: str) -> Any:
    try:
        return json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError):
        if kind.endswith("json") or text.lstrip().startswith("{") or _PAGE.match(text) or _FRAMED.fullmatch(text):
            raise NoAnswer("the reply is broken JSON ({found})", found=one_line(redact(text), 120)) from None
        return text
