"""Find what a service says in an error, whatever the shape of the error's body and whichever SDK raised it."""

from __future__ import annotations

import contextlib
import html
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any
from urllib.parse import urlsplit

from .redact import show_url
from .texts import encodable

MAX_CHARACTERS = 20_000  # of a text in a body; what a service says of a request is shorter
MOST = 50  # entries of a list or an object, and objects within a text
# What the fields of a body hold, by their keys without "_" and "-" and in lower case.
_WORDS = re.compile(r".*(?:message|msg|details?|errors?|descriptions?|string)|title|reason|cause|raw|explanation")
_CODES = re.compile(r".*(?:code|type|status)|object|kind")
_NAMES = re.compile(r"params?|parameter|field|pointer")
_NOTHING = re.compile(r"loc|.*id|time.*|created|.*url|instance|path|stack.*|trace.*")
# What the model wrote, and what was sent to it. A service that repeats them does not say them.
_OUTPUT = re.compile(r".*(?:generation|generated|generatedtext|output|completion|answer)|partial.*|candidates?|choices")
_INPUT = re.compile(r"inputs?|.*prompt|.*messages|content|.*request|received|value|got|ctx|context|text|snippet|sample")
_PAGE = re.compile(r"\s*<[!?a-z]", re.IGNORECASE)
_HTML = re.compile(r"<(?:!doctype\s+)?(?:html|head|body)\b", re.IGNORECASE)
# A longer part in quotation marks, and an object whose end is missing
_QUOTED = re.compile(
    r"\{\s*\".*|\"[^\"]{80,}\"|(?<!\w)'[^']{80,}'|`[^`]{80,}`|「[^」]{40,}」|“[^”]{80,}”", re.DOTALL
)  # fmt: skip
# What FastAPI and pydantic say about the place. The rest of their message may repeat the whole body that was sent.
_PLACE = re.compile(r"""['"]?loc['"]?\s*[:=]\s*[\[(]([^\])]*)""")
_REJECTED_CODE = re.compile(
    r"json_(?:validate|generation|output)_failed|tool_use_failed|model_error"
    r"|(?:\w+_)?(?:generation|output)_(?:\w+_)?(?:failed|failure|mismatch)"
    r"|(?:failed|malformed|invalid|incomplete)_(?:generation|json|output|model_output|function_call)",
    re.IGNORECASE,
)
_FAILED = r"(?:failed|failure|could not|couldn't|unable|error)\W+(?:to\W+|while\W+|in\W+)?"
_REJECTED = re.compile(
    r"failed.generation"
    rf"|{_FAILED}(?:generat|produc)\w*\W+(?:\w+\W+){{0,2}}(?:json|output)\b(?!\W+(?:schema|grammar))"
    rf"|{_FAILED}(?:pars|decod|validat)\w*\W(?![^.]{{0,40}}(?:schema|grammar|body|request|format))"
    r"[^.]{0,40}(?:output|generat|reply|response|completion|tool call)"
    r"|(?:model|llm|assistant)(?:'s)?\W+(?:\w+\W+)?(?:output|reply|response|completion|generated|produced|returned|wrote)\W"
    r"[^.]{0,60}(?:invalid|not valid|not (?:match|conform)|n't match|malformed)"
    r"|(?:generated|produced)\W+(?:\w+\W+){0,3}(?:not|invalid|malformed)\W"
    r"|(?:output|reply|response|completion)\W+(?:is|was)\W+(?:\w+\W+)?(?:not valid|invalid|malformed)\W+json",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Told:
    words: str  # on one line, for the user; "" if it says nothing
    about: str = ""  # its own words without what they quote; "" for a web page, which somebody else may have written
    codes: tuple[str, ...] = ()
    param: str = ""  # the parts of the request that it names beside its words
    output: str = ""  # what the model wrote, if the service repeats that

    @property
    def rejects_output(self) -> bool:
        return bool(self.output or any(map(_REJECTED_CODE.fullmatch, self.codes)) or _REJECTED.search(self.about))


def read_error(error: BaseException) -> Told:
    """Return what a service says in an error of its SDK: in the body of the response, or else in the error's text."""
    response: Any = getattr(error, "response", None)
    try:
        body: Any = getattr(response, "content", None)
    except Exception:  # a response that was not read
        body = None
    if not isinstance(body, bytes):
        body = response if isinstance(response, Mapping) else getattr(error, "body", None) or str(error)
    return read_body(_decode(body) if isinstance(body, bytes) else body)


def read_body(body: Any) -> Told:
    """Return what a service says in the body of an error: in a text, an object or a list of any shape."""
    if isinstance(body, str):
        if _PAGE.match(body[:100]):
            text = _text_of_page(body[:MAX_CHARACTERS])
            if _HTML.search(body[:1000]):
                return Told(_line(text))
            body = text  # XML, in which some services say what others say in JSON
        with contextlib.suppress(ValueError, RecursionError):
            body = json.loads(body)
    found: dict[str, list[str]] = {kind: [] for kind in ("words", "rest", "codes", "param", "output")}
    for kind, text in _walk(body, "words" if isinstance(body, str) else "rest"):
        if text.strip() and text not in found[kind]:
            found[kind].append(text.strip())
    own = "\n".join(_QUOTED.sub(" … ", text) for text in found["words"] + found["rest"])
    param = " ".join([*found["param"], *_PLACE.findall(own)])
    words = _line("; ".join(found["words"] or found["rest"] or found["codes"]))
    return Told(words, own, tuple(found["codes"]), param, "\n".join(found["output"]))


def better_url(url: str) -> str:
    """Return the address that is probably meant by one where no chat service is. Return "" if there is no guess."""
    base = re.sub(r"/(?:chat/completions|completions|decisions|embeddings|models)$", "", show_url(url))
    if not re.search(r"/v\d", urlsplit(base).path):
        base += "/openai/v1" if (urlsplit(base).hostname or "").endswith(".azure.com") else "/v1"
    return base if url and base != show_url(url) else ""


def _walk(value: Any, kind: str, label: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield the texts of a body, each with what it is. A label names the part of the request that a text is about."""
    if depth > 12:
        return
    if isinstance(value, str):
        if len(value) > MAX_CHARACTERS:  # the cause often stands last
            value = f"{value[: MAX_CHARACTERS // 2]} … {value[-MAX_CHARACTERS // 2 :]}"
        text, errors = _without_json(value)
        for each in errors:
            yield from _walk(each, kind, label, depth + 1)
        yield kind, f"{label}: {text}" if label and text.strip() else text
    elif isinstance(value, list | tuple):
        for each in value[:MOST]:
            yield from _walk(each, kind, label, depth + 1)
    elif isinstance(value, Mapping):
        fields = [(re.sub(r"[\W_]", "", str(name)).lower(), name, inner) for name, inner in islice(value.items(), MOST)]
        place = value.get("loc")
        path = ".".join(str(each) for each in place if each != "body") if isinstance(place, list | tuple) else ""
        yield "param", path
        has_words = any(_WORDS.fullmatch(key) and inner for key, _, inner in fields)
        for key, name, inner in fields:
            if _WORDS.fullmatch(key):
                yield from _walk(inner, "words", path, depth + 1)
            elif _OUTPUT.fullmatch(key):
                yield "output", inner if isinstance(inner, str) else ""
            elif _NAMES.fullmatch(key):
                yield "param", inner if isinstance(inner, str) else ""
            elif _CODES.fullmatch(key) and isinstance(inner, str | int):
                yield "codes", str(inner)
            elif not _INPUT.fullmatch(key) and not _NOTHING.fullmatch(key):
                yield from _walk(inner, "rest" if has_words else kind, str(name), depth + 1)


def _without_json(text: str) -> tuple[str, list[Any]]:
    """Take the objects out of a text. Return those that are errors too: a gateway repeats them in its own words."""
    left, errors, at = "", list[Any](), 0
    for start in islice(re.finditer(r"[\[{]", text), MOST):
        if start.start() < at:
            continue
        try:
            found, end = json.JSONDecoder().raw_decode(text, start.start())
        except (ValueError, RecursionError):
            continue
        objects = [each for each in (found if isinstance(found, list) else [found]) if isinstance(each, dict) and each]
        if objects:
            left, at = left + text[at : start.start()], end
            errors += [each for each in objects if {"error", "errors", "message", "detail", "msg"} & each.keys()]
    return left + text[at:], errors


def _text_of_page(page: str) -> str:
    title = re.search(r"<title[^>]*>([^<]*)", page, re.IGNORECASE)
    page = re.sub(r"<(script|style|svg|head)\b.*?</\1>", " ", page, flags=re.DOTALL | re.IGNORECASE)
    text = re.sub(r"<[^>]*>", " ", page)
    return html.unescape(f"{title[1]} {text}" if title and title[1].strip() not in text else text)


def _decode(body: bytes) -> str:
    """Read the bytes by what they are: what is declared is often missing, or a name that only Java knows."""
    for encoding in ("utf-8-sig", "cp932", "euc_jp"):
        with contextlib.suppress(UnicodeDecodeError):
            return body.decode(encoding)
    return body.decode(errors="replace")


def _line(text: str) -> str:
    return " ".join(encodable(text).split())
