"""Provide the texts that users read, in Japanese or English.

The code has the English sentence, with the values in braces as for `str.format`, and `messages/ja.toml` its Japanese.
The specification's own texts are contracts and always Japanese, so they are not in that file.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any, Literal, TextIO

from ..errors import ConfigError
from .texts import visible

Language = Literal["ja", "en"]
_for_now: ContextVar[Language | None] = ContextVar("_for_now", default=None)


def say(sentence: str, /, *, lang: Language | None = None, **values: Any) -> str:
    """Return an English sentence in the user's language (or `lang`), with the values filled in. A sentence without
    Japanese stays English."""
    known, _ = _texts()
    japanese = known.get(sentence) or known.get(sentence[:1].lower() + sentence[1:])  # "Error", as "error"
    if japanese and (lang or language()) == "ja":
        sentence = japanese
    if values or japanese:  # else it is a text that was said before, whose braces are its own
        sentence = sentence.format(**values)
    return visible(sentence)  # values from a service or a file may have control characters


def sentences(*said: str) -> str:
    """Join sentences to one text. Empty ones are left out. In English, a space stands between two sentences."""
    return (" " if language() == "en" else "").join(filter(None, said))


def listed(items: Iterable[str]) -> str:
    return (", " if language() == "en" else "、").join(items)


def language() -> Language:
    """Return the language of messages, from the first of these that sets it: a `speaking` block, the variable
    SOCJUDGE_LANG, socjudge.toml, the locale. If none does, it is Japanese."""
    from ..settings import project_language

    if said := _for_now.get():
        return said
    asked = os.environ.get("SOCJUDGE_LANG")
    return _language_of(asked) if asked else project_language() or _locale_language()


@contextmanager
def speaking(lang: Language) -> Iterator[None]:
    """Inside the `with` block, `language()` is `lang`, in this thread: for a page whose language the user chooses."""
    token = _for_now.set(lang)
    try:
        yield
    finally:
        _for_now.reset(token)


_REASONS = ("No such file or directory", "Permission denied", "No space left on device")


def os_reason(error: OSError) -> str:
    """What the operating system says, or our own code that raised the error, without the path."""
    reason = error.strerror or str(error)
    return say(reason) if reason in _REASONS else reason


@contextmanager
def explained(sentence: str, /, **values: Any) -> Iterator[None]:
    """Make a ConfigError of an OSError inside the `with` block. The operating system's reason fills its {reason}."""
    try:
        yield
    except OSError as error:
        raise ConfigError(sentence, **values, reason=os_reason(error)) from None


def _language_of(asked: str) -> Language:
    neutral = asked.partition(".")[0] in ("", "C", "POSIX")
    return "ja" if neutral or asked.startswith("ja") else "en"


@cache  # because `say` is called for each reply of a judge
def _locale_language() -> Language:
    return _language_of(next(filter(None, map(os.environ.get, ("LC_ALL", "LC_MESSAGES", "LANG"))), ""))


def column_words() -> dict[str, str]:
    return _texts()[1]


@cache
def _texts() -> tuple[dict[str, str], dict[str, str]]:
    """Return the Japanese of each English sentence, and that of each column."""
    import tomllib  # `import socjudge` does not need this parser

    texts = tomllib.loads((Path(__file__).parents[1] / "messages" / "ja.toml").read_text(encoding="utf-8"))
    columns = {name: word for row in texts.pop("columns") for name, word in row.items()}
    return texts, columns


def aside() -> TextIO:
    """The stream for remarks: stderr, so that a pipe does not pass them on. A notebook would show that in red."""
    return sys.stdout if type(sys.stderr).__module__.startswith("ipykernel") else sys.stderr
