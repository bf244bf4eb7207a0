"""Secrets out of texts: what services echo in their errors must not reach a log, an error or a report."""

from __future__ import annotations

import os
import re
from urllib.parse import urlsplit

from .messages import say

_KEY_LIKE = re.compile(
    r"\b(?:sk|pk|key|api)[-_][\w*.-]{6,}|\bAIza[\w-]{10,}|\b(?:Bearer|Basic)\s+[\w.~+/=-]{8,}|\b[0-9a-fA-F]{32,}\b"
    r"|(?<=//)[^/\s@]+@|(?<=key=)[^&\s\"']+"
)
_SECRET_NAME = re.compile(r"(?:KEY|TOKEN|SECRET|PASSWORD)$")


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
    """Scheme, host, port and path of a URL: no user, password or query."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
