"""Remove secrets from texts.

The error message of a service may repeat a secret. The secret must not get into a log, an error or a report.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import os
import re
import traceback
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from .messages import say

_KEY_LIKE = re.compile(
    r"\b(?:sk|pk|key|api)[-_][\w*.-]{6,}|\bAIza[\w-]{10,}|\b(?:Bearer|Basic)\s+[\w.~+/=-]{8,}|\b[0-9a-fA-F]{32,}\b"
    r"|(?<=//)[^/\s@]+@|(?<=key=)[^&\s\"']+"
)
_LEAST = 6  # characters of a secret; shorter ones occur in many texts by chance
# Of a variable, a header, a parameter of a URL, or a key of JSON.
_SECRET_NAME = re.compile(
    r"key(?!board|cloak|word)|token(?!iz)|secret|passw|passphrase|pwd|credential|cookie|auth(?!or(?!i))|signature"
    r"|pass(?:\d*$|[\W_])|(?<![a-z])(?:pat|pw|sig)(?![a-z])",
    re.IGNORECASE,
)
_NO_SECRET = re.compile(r"(?:TYPE|SCHEME|MODE|SOCK|URL|FILE|PATH|DIR|HOST|NAME|USER)$", re.IGNORECASE)
_PASSWORD = re.compile(r"(?<=//)[^/\s:@]*:([^/\s@]+)@")  # of a URL
_PARAMETER = re.compile(r"(?<=[?&])([\w.-]+)=([^&#\s\"'<>()\[\]\\]+)")
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_LONG, _ONE_KIND = re.compile(r"[0-9A-Za-z]{16,}"), re.compile(r"[0-9]+|[a-z]+|[A-Z]+")
_URL_SAFE = str.maketrans("+/", "-_")
_PACKAGE = Path(__file__).parent.parent
_USUAL_PORTS = {"http": 80, "https": 443}


def is_secret_name(name: str) -> bool:
    return bool(_SECRET_NAME.search(name))


def redact(text: str) -> str:
    """The text with [key] for each secret: values of environment variables that hold one, and what looks like a key."""
    secrets = [unquote(found[1]) for value in os.environ.values() for found in _PASSWORD.finditer(value)]
    secrets += [
        value.strip() for name, value in os.environ.items() if is_secret_name(name) and not _NO_SECRET.search(name)
    ]
    return _KEY_LIKE.sub("[key]", without_secrets(text, secrets))


def redact_links(text: str) -> str:
    """Return the text with [key] in place of the values of secret parameters in URLs, such as ?token=…"""
    return _PARAMETER.sub(lambda found: f"{found[1]}=[key]" if is_secret_name(found[1]) else found[0], text)


def without_secrets(text: str, secrets: Iterable[str]) -> str:
    """Return the text with [key] in place of each of these secrets, in upper or lower case, and in base64, URL or JSON
    form. Secrets of fewer than 6 characters stay."""
    lower = text.lower()  # a quick check that the text has none
    for secret in secrets:
        forms = _forms(secret) if len(secret) >= _LEAST else ()
        if forms and any(form in lower for form in forms):
            text = re.sub("|".join(map(re.escape, forms)), "[key]", text, flags=re.IGNORECASE)
    return text


@functools.lru_cache(maxsize=64)
def _forms(secret: str) -> tuple[str, ...]:
    raw = secret.encode(errors="replace")
    forms = {secret, quote(secret, safe=""), quote(secret), json.dumps(secret)[1:-1]}
    for before in range(3):  # text before the secret, such as "user:", shifts it in base64
        code = base64.b64encode(bytes(before) + raw).decode().rstrip("=")
        # without the characters that depend on the neighbours
        whole = code[-(-before * 8 // 6) : len(code) - (-(before + len(raw)) % 3 > 0)]
        forms |= {whole, whole.translate(_URL_SAFE)} if len(whole) >= 8 else set()
    # The longest first, because a regular expression takes the first of several forms that fit.
    return tuple(sorted({form.lower() for form in forms}, key=len, reverse=True))


def surprise_text(error: BaseException) -> str:
    """Return the message for an error that nobody expected, with its place in socjudge and without secrets."""
    said = redact(say("unexpected {kind}: {error}", kind=type(error).__name__, error=error))[:300]
    frames = traceback.extract_tb(error.__traceback__, -100)
    inner = [frame for frame in frames if Path(frame.filename).is_relative_to(_PACKAGE)] or frames
    if not inner:
        return said
    at = Path(inner[-1].filename)
    at = at.relative_to(_PACKAGE.parent) if at.is_relative_to(_PACKAGE) else Path(at.name)
    return f"{said} ({at}:{inner[-1].lineno})"


def show_url(url: str) -> str:
    """Return scheme, host, port and path of a URL, in one uniform spelling and without user, password and query. A
    short hash replaces each token in the path, so that URLs with different tokens stay different."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2].lower().removesuffix(f":{_USUAL_PORTS.get(parts.scheme)}")
    path = parts.path.rstrip("/")
    for token in path_tokens(url):
        path = path.replace(token, f"[key {hashlib.sha256(token.encode()).hexdigest()[:8]}]")
    return f"{parts.scheme}://{host}{path}"


def path_tokens(url: str) -> tuple[str, ...]:
    """The parts of a URL's path that look random: a UUID, or many changes between digits, small and capital letters."""
    return tuple(
        part
        for part in urlsplit(url).path.split("/")
        if _UUID.search(part)
        or any(any(map(str.isdigit, run)) and len(_ONE_KIND.findall(run)) > 4 for run in _LONG.findall(part))
    )


def hash_query(url: str) -> str:
    """A short hash of a URL's query without parameters named like secrets; "" if there are no others."""
    told = [
        pair
        for pair in parse_qsl(urlsplit(url).query, True)
        if not (is_secret_name(pair[0]) or re.search("sig|code", pair[0], re.IGNORECASE))
    ]
    return hashlib.sha256(repr(sorted(told)).encode()).hexdigest()[:16] if told else ""
