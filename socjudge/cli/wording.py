"""Translate typer's own sentences (usage lines, headings, complaints) into the language of the messages.

typer has these sentences in English only, and the catalogue of messages has them word for word. A line that matches
none of them is not changed.
"""

from __future__ import annotations

import re
from typing import Any

from ..base.messages import language, say

# If two fit, the longer one comes first.
_SENTENCES = (
    "cli.typer_usage_of_program", "cli.typer_usage", "cli.typer_try", "cli.typer_error",
    "cli.typer_options", "cli.typer_arguments", "cli.typer_commands", "cli.typer_default", "cli.typer_required",
    "cli.typer_missing_argument", "cli.typer_missing_option", "cli.typer_missing_command",
    "cli.typer_meant_command", "cli.typer_no_command", "cli.typer_meant_option", "cli.typer_no_option",
    "cli.typer_needs_value", "cli.typer_takes_no_value", "cli.typer_too_many",
    "cli.typer_invalid", "cli.typer_too_small", "cli.typer_no_integer", "cli.typer_no_number",
)  # fmt: skip


def in_our_words(text: str) -> str:
    """Return an output of typer with its lines translated into the language of the messages.

    If this language is English, or if a line is unknown, the text stays as it is.
    """
    return text if language() == "en" else "\n".join(map(_said, text.split("\n")))


def _said(line: str) -> str:
    for key in _SENTENCES:
        pattern = re.sub(r"\\{(\w+)\\}", r"(?P<\1>.*?)", re.escape(say(key, lang="en", **_BRACES)))
        if found := re.fullmatch(pattern, line):
            values: dict[str, Any] = {name: _said(value) for name, value in found.groupdict().items()}
            return say(key, **values)
    return line


_BRACES: dict[str, Any] = {name: f"{{{name}}}" for name in ("command", "rest", "said", "name", "names", "least")}
