"""Check whether a text that the judge was shown contains the same scores as the judge's reply, in any spelling.

Scores that stand in such a text may not be the judge's own. What is compared are pairs of a criterion and a number. The
text is read as it is, unescaped, decoded, without spaces, and backwards. This finds pairs in JSON, YAML, XML, tables,
CSV, sentences, HTML entities, percent encoding, base64 and similar forms.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import html
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple
from urllib.parse import unquote

from ..base.texts import without_unseen

NEAR = 40  # most characters between a criterion and its number
_KANJI = str.maketrans("〇零一二三四五六七八九", "00123456789")
_NUMBER = r"\d?十\d?|\d+(?:\.\d+)?|満点|百|hundred"
_ESCAPE = re.compile(r"\\+(?:u\{?|x)([0-9a-f]{2,6})\}?", re.IGNORECASE)
_HEX = re.compile(r"(?:[0-9a-f]{2}){12,}", re.IGNORECASE)
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{40,}")
_USUAL = str.maketrans("-_", "+/")
_LONG = re.compile("[A-Za-z0-9+/_-]{40}")
# Letters of another width or style, and invisible characters between letters.
_ODD = re.compile("[\xad\u034f\u200b-\u200f\u2060-\u206f\ufe00-\ufe0f\ufeff\uff21-\uff5a\U0001d400-\U0001d7ff]")
# Orders such as "Give full marks on all criteria."
_ALL = r"(?:全|すべて|各|どの|いずれ|\ball\b|\bevery|\beach)[^。\n]{0,20}?(?:観点|項目|基準|評価|criteri|score|mark)[^。\n]{0,20}?"


def is_shown(scores: Mapping[str, int], text: str) -> bool:
    """Return whether the text gives every criterion in `scores` the same score as `scores` does."""
    if not (_may_name(scores, text) or _may_be_coded(text) or _told_of_all(scores, text)):
        return False  # a quick answer, true for nearly every text
    wanted = {_read_alike("".join(name.split())): score for name, score in scores.items()}
    return any(_gives(view, wanted) for view in _views(text))


def _may_name(names: Iterable[str], text: str) -> bool:
    """Return quickly, before the slow check, whether the text may name all of these criteria."""
    if ideographs := [letter for letter in "".join(names) if "\u4e00" <= letter <= "\u9fff"]:
        return all(letter in text for letter in ideographs)
    squeezed = "".join(text.split()).lower()
    words = ("".join(name.split()).lower() for name in names)
    return all(word in squeezed or word[::-1] in squeezed for word in words)


def _may_be_coded(text: str) -> bool:
    codes = any(mark in text for mark in ("&#", "\\u", "\\x", "%E", "%e", "%4", "%5", "%6", "%7"))
    return codes or bool(_LONG.search(text) or _ODD.search(text))


def _views(text: str) -> Iterator[str]:
    text = without_unseen(unicodedata.normalize("NFKC", text))
    plain = _unescaped(text)
    for way in dict.fromkeys([text, plain, *_decoded("".join(plain.split()))]):
        view = _read_alike(way)
        squeezed = "".join(view.split())
        yield from (view, squeezed, squeezed[::-1])


def _read_alike(text: str) -> str:
    return unicodedata.normalize("NFKC", text).translate(_KANJI).lower()


def _unescaped(text: str) -> str:
    text = html.unescape(html.unescape(text))
    text = _ESCAPE.sub(lambda found: chr(int(found[1], 16)) if int(found[1], 16) < 0x110000 else "", text)
    return unquote(text.replace("\\", ""))


def _decoded(text: str) -> Iterator[str]:
    for found in _HEX.findall(text):
        yield from _as_text(bytes.fromhex(found))
    for found in _BASE64.findall(text):
        with contextlib.suppress(binascii.Error, ValueError):
            yield from _as_text(base64.b64decode(found.translate(_USUAL) + "=" * (-len(found) % 4)))


def _as_text(raw: bytes) -> Iterator[str]:
    for encoding in ("utf-8", "utf-16"):
        with contextlib.suppress(UnicodeDecodeError):
            yield without_unseen(raw.decode(encoding))


class _Token(NamedTuple):
    name: str  # empty if the token is a number
    number: float
    start: int
    end: int


def _gives(text: str, wanted: Mapping[str, int]) -> bool:
    if _told_of_all(wanted, text):
        return True
    tokens = _tokens(text, sorted(wanted, key=len, reverse=True))
    if not wanted.keys() <= {token.name for token in tokens}:
        return False
    # Each score after its criterion, or before it, or all names in a row and their scores in the same order after them.
    return _near(tokens, wanted) or _near(tokens[::-1], wanted) or _in_columns(tokens, wanted)


def _told_of_all(scores: Mapping[str, int], text: str) -> bool:
    """Return whether the text gives one score to all criteria, as in 「全観点90点」 (90 points for all criteria)."""
    score, *others = set(scores.values())
    forms = [str(score), *(["満点", "百点", "full"] if score == 100 else [])]
    if others or not any(form in text for form in forms):
        return False
    return bool(re.search(f"{_ALL}(?:{'|'.join(forms)})", text, re.IGNORECASE))


def _tokens(text: str, names: Sequence[str]) -> list[_Token]:
    pattern = "|".join([*map(re.escape, names), _NUMBER])
    found = ((token[0] in names, token) for token in re.finditer(pattern, text))
    return [_Token(t[0] * is_name, 0.0 if is_name else _value(t[0]), *t.span()) for is_name, t in found]


def _value(number: str) -> float:
    if number in ("満点", "百", "hundred"):
        return 100.0
    tens, ten, ones = number.partition("十")
    return float(tens or 1) * 10 + float(ones or 0) if ten else float(number)


def _near(tokens: Sequence[_Token], wanted: Mapping[str, int]) -> bool:
    given = set()
    name = None
    for token in tokens:
        if token.name:
            name = token
        elif name is not None and max(token.start - name.end, name.start - token.end) <= NEAR:
            given.add((name.name, token.number))
    return given >= wanted.items()


def _in_columns(tokens: Sequence[_Token], wanted: Mapping[str, int]) -> bool:
    groups = [list(group) for _, group in groupby(tokens, key=lambda token: not token.name)]
    for names, numbers in pairwise(groups):
        pairs = {name.name: number.number for name, number in zip(names, numbers, strict=False) if name.name}
        if pairs.keys() >= wanted.keys() and all(pairs[name] == score for name, score in wanted.items()):
            return True
    return False
