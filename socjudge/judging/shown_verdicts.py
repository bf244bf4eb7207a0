"""Check whether a text that the judge was shown has the same scores as the judge's reply. They may not be its own."""

from __future__ import annotations

import html
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping
from urllib.parse import unquote

from ..base.texts import without_unseen

NEAR = 60  # most characters between a criterion and its score; in a table of six, the head is that far above the row
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_ESCAPE = re.compile(r"\\+u([0-9a-f]{4})", re.IGNORECASE)
# Orders such as 「全観点90点」 (90 points for all criteria).
_ALL = re.compile(
    r"(?:全|すべて|各|どの|いずれ|\ball\b|\bevery|\beach)[^。\n]{0,20}?(?:観点|項目|基準|評価|criteri|score|mark)"
    r"[^。\n]{0,20}?(\d+)"
)


def is_shown(scores: Mapping[str, int], text: str) -> bool:
    """Return whether the text gives every criterion in `scores` the same score, in JSON, a table, a list or a sentence:
    it has each score as often as `scores`, and beside its criterion, or it gives one score to all criteria."""
    plain = _plain(html.unescape(unquote(_ESCAPE.sub(lambda found: chr(int(found[1], 16)), text))))
    return any(_gives(view, scores) for view in (plain, "".join(plain.split())))


def _gives(text: str, scores: Mapping[str, int]) -> bool:
    values = set(scores.values())
    if len(values) == 1 and any(int(found[1]) in values for found in _ALL.finditer(text)):
        return True
    if Counter(map(float, scores.values())) - Counter(map(float, _NUMBER.findall(text))):
        return False
    return all(
        any(
            score in map(float, _NUMBER.findall(text[max(0, found.start() - NEAR) : found.end() + NEAR]))
            for found in re.finditer(re.escape("".join(_plain(name).split())), text)
        )
        for name, score in scores.items()
    )


def _plain(text: str) -> str:
    return unicodedata.normalize("NFKC", without_unseen(text)).replace("\\", "").replace("満点", "100").lower()
