"""English of security operations in the words of Japanese runbooks, for questions that mix both (`english.json`)."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from pathlib import Path

_WORD = re.compile(r"[a-z0-9]+")


def translate(text: str) -> list[str]:
    """The runbooks' words for the English in a normalised text, in order, each once; those it holds already left out.

    Examples
    --------
    >>> translate("pcをisolateしたい。who approves?")
    ['隔離', '承認']
    """
    words = " ".join(_WORD.findall(text))
    found = ((match.start(), terms) for pattern, terms in _vocabulary()[0] if (match := pattern.search(words)))
    terms = [term for _, terms in sorted(found) for term in terms]
    return [term for term in dict.fromkeys(terms) if term.lower() not in text]


def is_function_word(word: str) -> bool:
    """Whether an English word says nothing by itself: the, what, should."""
    return word in _vocabulary()[1]


@lru_cache(maxsize=1)
def _vocabulary() -> tuple[list[tuple[re.Pattern[str], list[str]]], frozenset[str]]:
    entries = json.loads(Path(__file__).with_name("english.json").read_text(encoding="utf-8"))
    patterns = [
        (re.compile(rf"\b{re.escape(word)}\b".replace(r"\*\b", "")), terms) for word, terms in entries["words"].items()
    ]
    return patterns, frozenset(entries["function_words"].split())
