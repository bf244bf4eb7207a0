"""Ask your own assistant over HTTP. A table of socjudge.toml says where it is, what to send, and how to read its reply.

Names in braces ({question}) and environment variables (${BOT_KEY}) are replaced by their values, in one pass: a value
is not searched for further names. A path has the form `a.b[0].c`. In a path, `[*]` stands for every item of a list, and
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
from typing import Annotated, Any, TypeVar
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

_NAME = re.compile(r"\{(question|question_id|category|repeat)\}|\$\{([A-Za-z_]\w*)\}")
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
T = TypeVar("T")


class Table(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What every table [assistants.NAME] may have."""

    version: str | int | float = ""
    timeout_s: float | None = None
    concurrency: Annotated[int, msgspec.Meta(ge=1)] | None = None


class _HttpTable(Table, kw_only=True, forbid_unknown_fields=True):
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


def fit_table(table: Mapping[str, Any], kind: type[T], where: str) -> T:
    """Return a table of socjudge.toml as an object of this class. The ConfigError says what does not fit."""
    try:
        return msgspec.convert(table, kind)
    except msgspec.ValidationError as error:
        keys = ", ".join(kind.__struct_fields__)  # type: ignore[attr-defined]
        told = say("{where}: {reason}; its keys may be {keys}", where=where, reason=error, keys=keys)
        raise ConfigError("\n".join([told, *filter(None, map(instead_of, table))])) from None


class HttpAssistant:
    """Ask an assistant over HTTP, as a table [assistants.NAME] with a `url` in socjudge.toml says.
    ConfigError if the table has faults."""

    def __init__(self, table: Mapping[str, Any], *, where: str) -> None:
        self.table = fit_table(table, _HttpTable, where)
        for name in ("answer", *_OF_REPLY):
            if (path := getattr(self.table, name)) is not None and _steps(path) is None:
                raise ConfigError(
                    '{where}: {name} = "{path}" is no path, such as a.b[0].c, items[*].text or $',
                    where=where,
                    name=name,
                    path=path,
                )
        texts = [text for _, text in _named_texts([self.table.url, self.table.headers, self.table.body])]
        self.variables = sorted({found[2] for text in texts for found in _NAME.finditer(text) if found[2]})
        if not any("{question}" in text for text in texts):
            raise ConfigError(
                "{where}: neither url nor body has {{question}}; put it where the question goes", where=where
            )
        if unset := [name for name in self.variables if not os.environ.get(name)]:
            raise ConfigError(
                "{where}: the variables {names} are not set; set them and try again",
                where=where,
                names=", ".join(unset),
            )
        url = self._fill(self.table.url, {}, quoted=True)
        parts = urlsplit(url)
        self._secrets = [os.environ.get(name, "").strip() for name in self.variables]
        # Those that the table holds itself. Of "Bearer …", only the last word is secret.
        named = [*_named_texts([self.table.headers, self.table.body]), *parse_qsl(parts.query)]
        written = (text for name, text in named if is_secret_name(name) and text.strip() and not _NAME.search(text))
        password = unquote(parts.password or "")
        self._secrets += [
            password and f"{unquote(parts.username or '')}:{password}",
            password,
            *path_tokens(url),
            *(text.split()[-1] for text in written),
        ]
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(
                "{where}: url is no address with http:// or https:// ({url})",
                where=where,
                url=self._hide(show_url(url)),
            )
        self.host = parts.netloc.rpartition("@")[2]
        self.service = self._hide(show_url(url))
        version = str(self.table.version)
        self._told_version = version.removeprefix("path:") if version.startswith("path:") else ""
        self.version = "" if self._told_version else version

    @property
    def decides(self) -> dict[str, Any]:
        """Return everything that determines the assistant's answers: method, address, headers, body and paths.
        Headers named like secrets are left out, and variables named like secrets are not replaced by their values."""
        told = {name: getattr(self.table, name) for name in ("method", "answer", "events", *_OF_REPLY)}
        told["headers"] = self._fill({k: v for k, v in self.table.headers.items() if not is_secret_name(k)})
        url = self._fill(self.table.url)
        return told | {"body": self._fill(self.table.body), "url": show_url(url), "query": hash_query(url)}

    async def ask(self, values: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
        """Ask one question, with the `values` of the names in braces. Return the answer in a form for `as_answer`.
        NoAnswer if there is no usable reply, or no answer in it. Retryable if the service says how long to wait."""
        return self._mapped(*await self.reply(values, timeout_s))

    async def reply(self, values: Mapping[str, Any], timeout_s: float) -> tuple[list[Event], bool | None]:
        """Send one question. Return the reply as one event and None, or the events of a stream and whether it is whole
        only if it says so. Errors as in `ask`."""
        import httpx2

        body, headers = self._fill(self.table.body, values), self._fill(self.table.headers, values)
        method = (self.table.method or ("GET" if body is None else "POST")).upper()
        url = self._fill(self.table.url, values, quoted=True)
        # Each question has its own connection. A kept one may be closing, and a lost question cannot be asked again.
        client = httpx2.AsyncClient(verify=_tls(), timeout=httpx2.Timeout(None, connect=CONNECT_S))
        try:
            async with (
                asyncio.timeout(CONNECT_S + timeout_s),
                client,
                client.stream(method, url, json=body, headers=headers) as response,
            ):
                raw = await _read(response)
        except TimeoutError:
            raise NoAnswer(
                "no answer within {seconds:g} seconds; give a longer timeout_s if it needs more", seconds=timeout_s
            ) from None
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
            raise self._unreachable(self._hide(str(error) or type(error).__name__)) from None
        told = {name.lower(): value for name, value in response.headers.items()}
        status, charset = response.status_code, response.charset_encoding or ""
        if 300 <= status < 400:
            there = show_url(urljoin(url, told.get("location", "")))
            raise NoAnswer(
                "{here} redirects to {there} (HTTP {status}), which is not followed; put that address into url",
                here=self.service,
                there=self._hide(there),
                status=status,
            )
        if status >= 400:
            said = one_line(self._hide(_decoded(raw, charset, errors="replace")), 200)
            if status == 407:
                raise self._unreachable(f"HTTP 407 {said}")
            wait_s = retry_after_s(told)
            if status in (429, 503) and wait_s is not None:
                raise Retryable(f"HTTP {status} ({said})", refused=status == 429, retry_after_s=wait_s)
            raise NoAnswer("HTTP {status} ({said})", status=status, said=said)
        kind = told.get("content-type", "").partition(";")[0].strip().lower()
        text = self._without_secrets(_decoded(raw, charset))
        read = read_events if kind == "text/event-stream" else read_lines if kind in _LINES else None
        if read is None:
            return [Event("", self._without_secrets(_json(text, kind)))], None
        events = [Event(event.name, self._without_secrets(event.value)) for event in read(text)]
        return events, not told.keys() & {"content-length", "transfer-encoding"}

    def _unreachable(self, said: str) -> NoAnswer:
        return NoAnswer(
            "{where} cannot be reached, or the connection was lost ({reason}); if a proxy is between, check HTTP_PROXY, "
            "HTTPS_PROXY (with USER:PASSWORD@, if it asks for them) and NO_PROXY",
            where=self.service,
            reason=one_line(said, 200),
        )

    def _mapped(self, events: list[Event], must_end: bool | None) -> dict[str, Any]:
        replies = [event.value for event in events]
        for reply in replies:
            if isinstance(reply, Mapping) and reply.get("error"):
                said = one_line(redact(json.dumps(reply, ensure_ascii=False)), 200)
                raise NoAnswer("the assistant reports an error: {said}", said=said)
        steps = _steps(self.table.answer) or []
        if must_end is None:
            check_end(replies[0], steps)
            answer = follow(replies[0], steps)
            if isinstance(answer, list) and answer and all(isinstance(text, str) for text in answer):
                answer = "\n".join(answer)
        else:
            answer = answer_in(events, steps, only=self.table.events, must_end=must_end)
        if not isinstance(answer, str):
            reply = replies[-1] if replies else ""
            raise NoAnswer(
                "the reply has no {path}, only {found}",
                path=self.table.answer,
                found=one_line(redact(_outline(reply)), 200),
            )
        with suppress(UnicodeError):  # an event may hold half of a pair, and a secret may be cut in two
            answer = answer.encode("utf-16", "surrogatepass").decode("utf-16")
        if answer != encodable(answer):
            raise NoAnswer("the reply has broken characters ({found})", found=one_line(encodable(answer), 120))
        # Of every other key, the last value in a stream counts.
        paths = {name: getattr(self.table, name) for name in _OF_REPLY}
        found = {name: None if path is None else _last(replies, path) for name, path in paths.items()}
        found["contexts"] = _contexts(found["contexts"], sources=found.pop("sources"), headings=found.pop("headings"))
        found["answer"] = self._without_secrets(answer)
        if self._told_version:
            found["version"] = _last(replies, self._told_version)
            if not found["version"]:
                raise NoAnswer("the reply does not tell its version ({version})", version=self._told_version)
        return found

    def _fill(self, template: Any, values: Mapping[str, Any] | None = None, *, quoted: bool = False) -> Any:
        """Without `values`, names in braces stay as they are, and so do the variables that are named like secrets."""

        def value(found: re.Match[str]) -> str:
            if values is None and (found[1] or is_secret_name(found[2])):
                return found[0]
            if found[2]:
                return os.environ.get(found[2], "").strip()
            text = str((values or {}).get(found[1], ""))
            return quote(text, safe="") if quoted else text

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


def _steps(path: Any) -> list[str | int] | None:
    if path == "$":
        return []
    if not isinstance(path, str) or not _PATH.fullmatch(path):
        return None
    return [name or ("*" if place == "*" else int(place)) for name, place in _STEP.findall(path)]


def _last(replies: list[Any], path: str) -> Any:
    found = (follow(reply, _steps(path) or []) for reply in reversed(replies))
    return next((value for value in found if value is not None), None)


def _contexts(given: Any, **of_each: Any) -> list[Any] | None:
    """Return each context with its source and its heading, which may stand in lists of their own."""
    if given is None:
        return None
    texts = given if isinstance(given, list) else [given]
    for name, values in of_each.items():
        values = [values] if not isinstance(values, list | None) else values or [None] * len(texts)
        if len(values) != len(texts):
            raise NoAnswer(
                "the reply has {count} {name} and {contexts} contexts, so nobody knows which belong together",
                name=name,
                count=len(values),
                contexts=len(texts),
            )
        of_each[name] = values
    return [
        {"text": text or "", "source": source, "heading": heading} if isinstance(text, str | None) else text
        for text, source, heading in zip(texts, of_each["sources"], of_each["headings"], strict=True)
    ]


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


def _outline(reply: Any) -> str:
    return ", ".join(map(str, reply)) if isinstance(reply, Mapping) else repr(reply)
