"""What users read, in Japanese or English: one catalogue, a file a wing in `socjudge/messages/`.

A message is named `wing.name`; its file gives both languages side by side, with the values in braces as for
`str.format`. The specification's own texts are contracts and stay Japanese: they are not in here."""

from __future__ import annotations

import os
import tomllib
from functools import cache
from importlib.resources import files
from typing import Any, Literal, get_args

Language = Literal["ja", "en"]
_chosen: Language | None = None


def say(key: str, /, *, lang: Language | None = None, **values: Any) -> str:
    """A message of the catalogue with its values, in the language given or else in `language()`.

    Examples
    --------
    >>> say("prompts.taken", lang="en", path="eval/prompts/strict.txt")
    'eval/prompts/strict.txt exists and is not overwritten; choose another name'
    """
    wing, name = key.split(".")
    return _catalogue(wing)[name][lang or language()].format(**values)


def language() -> Language:
    """The language chosen by `use_language`, by the variable SOCJUDGE_LANG, or by the locale; Japanese where none of them says."""
    if _chosen:
        return _chosen
    asked = next(filter(None, map(os.environ.get, ("SOCJUDGE_LANG", "LC_ALL", "LC_MESSAGES", "LANG"))), "")
    neutral = asked.partition(".")[0] in ("", "C", "POSIX")
    return "ja" if neutral or asked.startswith("ja") else "en"


def use_language(lang: Language | None) -> None:
    """Speak Japanese ("ja") or English ("en") from now on; None: what SOCJUDGE_LANG or the locale say.

    Raises
    ------
    ValueError
        For another language.
    """
    global _chosen
    if lang not in (None, *get_args(Language)):
        raise ValueError(f"lang is {lang!r}, expected 'ja' or 'en'")
    _chosen = lang


@cache
def _catalogue(wing: str) -> dict[str, dict[str, str]]:
    return tomllib.loads((files("socjudge") / "messages" / f"{wing}.toml").read_text(encoding="utf-8"))
