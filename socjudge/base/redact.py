"""Secrets out of texts: what services echo in their errors must not reach a log, an error or a report."""

from __future__ import annotations

import hashlib
import os
import re
from urllib.parse import parse_qsl, urlsplit

from .messages import say

_KEY_LIKE = re.compile(
    r"\b(?:sk|pk|key|api)[-_][\w*.-]{6,}|\bAIza[\w-]{10,}|\b(?:Bearer|Basic)\s+[\w.~+/=-]{8,}|\b[0-9a-fA-F]{32,}\b"
    r"|(?<=//)[^/\s@]+@|(?<=key=)[^&\s\"']+"
)
_SECRET_NAME = re.compile(r"(?:KEY|TOKEN|SECRET|PASSWORD)$")
_SECRET_PARAMETER = re.compile(r"key|token|secret|password|sig|code", re.IGNORECASE)
_USUAL_PORTS = {"http": 80, "https": 443}


def redact(text: str) -> str:
    """The text without the values of environment variables that hold secrets, or anything that looks like a key."""
    for name, value in os.environ.items():
        if _SECRET_NAME.search(name) and len(value.strip()) >= 6:
            text = text.replace(value.strip(), "[key]")
    return _KEY_LIKE.sub("[key]", text)


def surprise_text(error: BaseException) -> str:
    """What to say of an error that nobody expected, without secrets."""
    return redact(say("base.unexpected", kind=type(error).__name__, error=error))


def show_url(url: str) -> str:
    """Scheme, host, port and path of a URL, however it is spelt: no user, password or query, no usual port or slash at
    the end."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2].lower().removesuffix(f":{_USUAL_PORTS.get(parts.scheme)}")
    return f"{parts.scheme}://{host}{parts.path.rstrip('/')}"


def hash_query(url: str) -> str:
    """A short hash of a URL's query without its secrets; empty where it has none."""
    told = [pair for pair in parse_qsl(urlsplit(url).query, True) if not _SECRET_PARAMETER.search(pair[0])]
    return hashlib.sha256(repr(sorted(told)).encode()).hexdigest()[:16] if told else ""
