"""Ask your own assistant over HTTP. A table of socjudge.toml says where it is, what to send, and how to read its reply.

Names in braces ({question}) and environment variables (${BOT_KEY}) are replaced by their values, in one pass: a value
is not searched for further names. A path has the form `a.b[0].c`. In a path, `[*]` stands for every item of a list, and
`$` for the whole reply. Nothing is evaluated as code. No record and no error contains the value of a variable. The
assistant's fingerprint depends on the values of the variables, except of those that are named like secrets.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, urljoin, urlsplit

from ..base.former_names import instead_of
from ..base.messages import say
from ..base.redact import hash_query, redact, show_url, without_secrets
from ..base.showing import one_line
from ..errors import ConfigError, NoAnswer
from ..models.openai_model import CONNECT_S, MAX_BYTES, retry_after_s
from ..models.pacing import Retryable

_NAME = re.compile(r"\{(question|question_id|category|repeat)\}|\$\{([A-Za-z_]\w*)\}")
_STEP = re.compile(r"\.?([^.\[\]]+)|\[(\d+|\*)\]")
_PATH = re.compile(r"(?:\.?[^.\[\]]++|\[(?:\d+|\*)\])++")
_IS_PATH = re.compile(r"[A-Za-z_][\w-]*(?:\[(?:\d+|\*)\]|\.[A-Za-z_][\w-]*)+|path:.+")
_SECRET = re.compile(r"auth|key|token|cookie|secret|passw|passphrase|pwd|credential", re.IGNORECASE)
_OF_REPLY = ("contexts", "sources", "headings", "model", "input_tokens", "output_tokens", "cost_usd")
KEYS = ("url", "method", "headers", "body", "answer", *_OF_REPLY, "version", "timeout_s", "concurrency")


class HttpAssistant:
    """Ask an assistant over HTTP, as a table [assistants.NAME] with a `url` in socjudge.toml says.
    ConfigError if the table has faults."""

    def __init__(self, table: Mapping[str, Any], *, where: str) -> None:
        if unknown := [key for key in table if key not in KEYS]:
            told = say(
                "{where}: unknown keys: {found}; known are {known}",
                where=where,
                found=", ".join(unknown),
                known=", ".join(KEYS),
            )
            raise ConfigError("\n".join(filter(None, [told, *map(instead_of, unknown)])))
        self._table = table
        self._url, self._answer = str(table["url"]), str(table.get("answer") or "")
        if not self._answer:
            raise ConfigError(
                '{where}: say with answer where in the reply the answer stands, such as answer = "reply.text"',
                where=where,
            )
        for name in ("answer", *_OF_REPLY):
            if (path := table.get(name)) is not None and path != "runbooks" and _steps(path) is None:
                raise ConfigError(
                    '{where}: {name} = "{path}" is no path, such as a.b[0].c, items[*].text or $',
                    where=where,
                    name=name,
                    path=path,
                )
        if "sources" in table and "contexts" not in table:
            raise ConfigError("{where}: sources without contexts; say with contexts where the texts stand", where=where)
        texts = list(_strings([self._url, table.get("headers", {}), table.get("body", {})]))
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
        url = self._fill(self._url, {}, quoted=True)
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(
                "{where}: url is no address with http:// or https:// ({url})",
                where=where,
                url=self._hide(show_url(url)),
            )
        self.host = parts.netloc.rpartition("@")[2]
        self.service = self._hide(show_url(url))
        version = str(table.get("version", ""))
        if version.startswith("header:"):  # as a version it would hide that the assistant changes
            raise ConfigError(
                '{where}: version = "{version}" is no version; write the version itself, or where in the '
                "body of the reply it stands, as path:… (docs/servers.md)",
                where=where,
                version=version,
            )
        self.version = "" if _IS_PATH.fullmatch(version) else version
        self._told_version = "" if self.version else version

    @property
    def decides(self) -> dict[str, Any]:
        """Return everything that determines the assistant's answers: method, address, headers, body and paths.
        Headers named like secrets are left out, and variables named like secrets are not replaced by their values."""
        table, url = self._table, self._fill(self._url, {}, keep=_SECRET)
        open_headers = {name: text for name, text in table.get("headers", {}).items() if not _SECRET.search(name)}
        headers = self._fill_all(open_headers, {}, keep=_SECRET)
        told = {name: table.get(name) for name in ("method", "answer", *_OF_REPLY)} | {"headers": headers}
        told |= {"body": self._fill_all(table.get("body"), {}, keep=_SECRET)}
        return told | {"url": show_url(url), "query": hash_query(url)}

    async def ask(self, values: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
        """Ask one question, with the `values` of the names in braces. Return the answer in a form for `as_answer`.
        NoAnswer if there is no usable reply, or no answer in it. Retryable if the service says how long to wait."""
        return self._mapped(*await self.reply(values, timeout_s))

    async def reply(self, values: Mapping[str, Any], timeout_s: float) -> tuple[list[Any], bool]:
        """Send one question. Return the values in the reply, and whether it is an event stream, with a value per event.
        Errors as in `ask`."""
        import aiohttp

        body = self._fill_all(self._table.get("body"), values)
        method = str(self._table.get("method") or ("GET" if body is None else "POST")).upper()
        headers = {name: self._fill(text, values) for name, text in self._table.get("headers", {}).items()}
        url = self._fill(self._url, values, quoted=True)
        # Each question has its own connection. A kept one may be closing, and a lost question cannot be asked again.
        try:
            async with (
                asyncio.timeout(CONNECT_S + timeout_s),
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None, connect=CONNECT_S)) as session,
                session.request(method, url, json=body, headers=headers, allow_redirects=False) as response,
            ):
                raw = await self._read(response)
                told = dict(response.headers)
                status, kind = response.status, response.content_type
        except TimeoutError:
            raise NoAnswer(
                "no answer within {seconds:g} seconds; give a longer timeout_s if it needs more", seconds=timeout_s
            ) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            said = self._hide(str(error) or type(error).__name__)
            raise NoAnswer(
                "{where} cannot be reached, or the connection was lost ({reason})",
                where=self.service,
                reason=one_line(said, 200),
            ) from None
        text = raw.decode("utf-8", "replace")
        if 300 <= status < 400:
            there = show_url(urljoin(url, told.get("Location", "")))
            raise NoAnswer(
                "{here} redirects to {there} (HTTP {status}), which is not followed; put that address into url",
                here=self.service,
                there=self._hide(there),
                status=status,
            )
        if status >= 400:
            said = one_line(self._hide(text), 200)
            wait_s = retry_after_s({name.lower(): value for name, value in told.items()})
            if status in (429, 503) and wait_s is not None:
                raise Retryable(f"HTTP {status} ({said})", refused=status == 429, retry_after_s=wait_s)
            raise NoAnswer("HTTP {status} ({said})", status=status, said=said)
        streams = kind == "text/event-stream"
        return list(_events(text)) if streams else [_json(text, kind)], streams

    async def _read(self, response: Any) -> bytes:
        content = bytearray()
        async for part in response.content.iter_chunked(65_536):
            content += part
            if len(content) > MAX_BYTES:
                raise NoAnswer(
                    "the response is larger than {limit} MB; is OPENAI_BASE_URL right?", limit=MAX_BYTES >> 20
                )
        return bytes(content)

    def _mapped(self, replies: list[Any], streams: bool) -> dict[str, Any]:
        for reply in replies:
            if streams and isinstance(reply, dict) and (reply.get("event") == "error" or reply.get("error")):
                raise NoAnswer(
                    "the assistant reports an error: {said}",
                    said=one_line(self._hide(json.dumps(reply, ensure_ascii=False)), 200),
                )
        pieces = [found for reply in replies if isinstance(found := _find(reply, self._answer), str)]
        if not pieces:
            reply = replies[-1] if replies else ""
            raise NoAnswer(
                "the reply has no {path}, only {found}",
                path=self._answer,
                found=one_line(self._hide(_outline(reply)), 200),
            )
        # In an event stream, the pieces of the answer are joined. Of every other key, the last value counts.
        reply_of: dict[str, Any] = {"answer": self._hide("".join(pieces), keep=True)}
        paths = {name: self._table.get(name) for name in _OF_REPLY}
        told = {name: _last(replies, path) for name, path in paths.items() if path not in (None, "runbooks")}
        reply_of |= {
            name: told[name] for name in ("model", "input_tokens", "output_tokens", "cost_usd") if told.get(name)
        }
        if told.get("contexts") is not None:
            reply_of["contexts"] = self._contexts(told)
        if self._told_version:
            reply_of["version"] = _last(replies, self._told_version.removeprefix("path:"))
            if not reply_of["version"]:
                raise NoAnswer("the reply does not tell its version ({version})", version=self._told_version)
        return reply_of

    def _contexts(self, told: Mapping[str, Any]) -> list[Any]:
        texts = told["contexts"] if isinstance(told["contexts"], list) else [told["contexts"]]
        names = {}
        for name in ("sources", "headings"):
            given = told.get(name)
            names[name] = given if isinstance(given, list) else [given] * (len(texts) if given is None else 1)
            if len(names[name]) != len(texts):
                raise NoAnswer(
                    "the reply has {count} {name} and {contexts} contexts, so nobody knows which belong together",
                    name=name,
                    count=len(names[name]),
                    contexts=len(texts),
                )
        return [
            {"text": self._hide(text or "", keep=True), "source": source, "heading": heading}
            if isinstance(text, str | None) else text
            for text, source, heading in zip(texts, names["sources"], names["headings"], strict=True)
        ]  # fmt: skip

    def _fill(
        self, text: str, values: Mapping[str, Any], *, quoted: bool = False, keep: re.Pattern[str] | None = None
    ) -> str:
        def value(found: re.Match[str]) -> str:
            # With `keep`, names in braces stay as they are, and so do the variables whose names it matches.
            if keep is not None and (found[1] or keep.search(found[2])):
                return found[0]
            if found[2]:
                return os.environ.get(found[2], "").strip()
            return quote(str(values.get(found[1], "")), safe="") if quoted else str(values.get(found[1], ""))

        return _NAME.sub(value, text)

    def _fill_all(self, template: Any, values: Mapping[str, Any], *, keep: re.Pattern[str] | None = None) -> Any:
        if isinstance(template, str):
            return self._fill(template, values, keep=keep)
        if isinstance(template, Mapping):
            return {key: self._fill_all(value, values, keep=keep) for key, value in template.items()}
        if isinstance(template, list):
            return [self._fill_all(item, values, keep=keep) for item in template]
        return template

    def _hide(self, text: str, *, keep: bool = False) -> str:
        text = without_secrets(text, [os.environ.get(name, "").strip() for name in self.variables])
        return text if keep else redact(text)  # `keep` is for an answer: nothing else of it is changed


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from _strings(inner)


def _steps(path: Any) -> list[str | int] | None:
    if path == "$":
        return []
    if not isinstance(path, str) or not _PATH.fullmatch(path):
        return None
    return [name or ("*" if place == "*" else int(place)) for name, place in _STEP.findall(path)]


def _last(replies: list[Any], path: str) -> Any:
    return next((found for reply in reversed(replies) if (found := _find(reply, path)) is not None), None)


def _find(data: Any, path: str) -> Any:
    return _follow(data, _steps(path) or [])


def _follow(data: Any, steps: list[str | int]) -> Any:
    for i, step in enumerate(steps):
        if step == "*":
            # None for an item from which the path leads to no value
            return [_follow(item, steps[i + 1 :]) for item in data] if isinstance(data, list) else None
        if isinstance(step, int):
            data = data[step] if isinstance(data, list) and step < len(data) else None
        else:
            data = data.get(step) if isinstance(data, Mapping) else None
    return data


def _json(text: str, kind: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        if kind == "application/json":
            raise NoAnswer("the reply is broken JSON ({found})", found=one_line(redact(text), 120)) from None
        return text


def _events(text: str) -> Iterator[Any]:
    for block in re.split(r"\r?\n\r?\n", text):
        data = "\n".join(line[5:].lstrip(" ") for line in block.splitlines() if line.startswith("data:"))
        try:
            yield json.loads(data)
        except ValueError:  # other data, such as [DONE]
            continue


def _outline(reply: Any) -> str:
    return ", ".join(map(str, reply)) if isinstance(reply, Mapping) else repr(reply)


def guess_paths(reply: Any) -> dict[str, str]:
    """Guess where a reply has the answer and its contexts. Return {"answer": path, "contexts": path}, as far as found.
    The answer is the longest text outside of lists. The contexts are where a list's first item has its longest text."""
    texts: list[tuple[int, str]] = []
    lists: list[tuple[int, str]] = []

    def look(value: Any, path: str) -> None:
        if isinstance(value, str):
            texts.append((len(value), path or "$"))
        elif isinstance(value, Mapping):
            for key, inner in value.items():
                look(inner, f"{path}.{key}" if path else str(key))
        elif isinstance(value, list) and value and isinstance(value[0], str | Mapping):
            first = value[0]
            parts = {"": first} if isinstance(first, str) else {f".{key}": inner for key, inner in first.items()}
            lists.extend((len(inner), f"{path}[*]{key}") for key, inner in parts.items() if isinstance(inner, str))
            if path.endswith("choices"):  # a chat completion has only one choice here
                look(first, f"{path}[0]")

    look(reply, "")
    found = {"answer": max(texts)[1]} if texts else {}
    return found | ({"contexts": max(lists)[1]} if lists and not max(lists)[1].startswith("choices") else {})
