"""Find statements of an answer that loosen what the passages require, skip an approval, or order the destruction of
evidence.

The statements of the passages are called sources here. Sentence similarity cannot see a contradiction
(docs/offline.md). But words that loosen a rule (need not, may, on one's own) are a strong claim, so a source about the
same thing must say the same. The rules see only the words of `stance_words`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Literal

from ..runbooks.bm25 import content_words
from . import stance_words as words
from .facts import is_negative

# Of an act or thing. "spares": it is unnecessary, or is left as it is. "tells": it is not something else, which is
# neither a ban nor a permission. "does": none of the others; the act is to be done, or the thing is so.
Stance = Literal["does", "forbids", "spares", "permits", "tells"]

_ENOUGH = re.compile(r"(?:だけ|のみ)で(?:結構|よ|十分|足り)")
_ENDING = 10  # letters of a statement that say what it comes to
_STEM = 4  # letters by which two forms of one word are the same: そのままに, そのまま触らせず


def stance_of(text: str) -> Stance:
    """Return what a clause says about the act or thing that it names."""
    text = words.NO_NEGATION.sub("", unicodedata.normalize("NFKC", text))
    # In this order, because the words of "spares" and "permits" may contain those of "forbids".
    if words.SPARES.search(text):
        return "spares"
    if words.PERMITS.search(text):
        return "permits"
    if words.IS_NOT.search(text):
        return "tells"
    return "forbids" if is_negative(text) else "does"


def loosens(statement: str, about: Sequence[str], cited: Sequence[str] = ()) -> str:
    """Return the words that loosen what the sources require; "" if there are none, or if a source has them too.
    `about`: the sources about the same thing, the nearest first. `cited`: those in the sections that it cites."""
    text = unicodedata.normalize("NFKC", statement)
    # What it only rejects, or says may happen, loosens nothing.
    if (words.REJECTS.search(text) and "必要" not in text) or words.MAY_BE.search(text):  # 必要なわけではない spares
        return ""
    statement = words.ASIDE.sub("", statement)
    own = content_words(statement)
    # Of the cited sections, only what shares a word with the statement is searched for the loosening words, too.
    there = [source for source in cited if own & content_words(source)]
    text = unicodedata.normalize("NFKC", statement)
    # A list cut down to one of its things.
    several = bool(about) and about[0].count("、") > text.count("、")
    several = several and not any(words.LIMITS.search(source) for source in about[:2])
    text = words.ONLY_LEAVE.sub("", text)
    if several and (found := _unbacked(words.NARROWS, words.ALONE.sub("", text), about)):
        return found
    for pattern in (words.SPARES, words.PERMITS, words.ALONE):
        if pattern is words.ALONE and not any(words.APPROVAL.search(source) for source in about):
            continue
        found = _unbacked(pattern, text, about)
        if words.LEAVES.match(found) and any(is_negative(source) for source in about[:2]):
            continue
        if found and _hurries(text, about):
            continue
        if found and pattern is words.SPARES and _spares_forbidden(text.partition(found)[0], [*about, *cited]):
            continue
        if found and _ENOUGH.search(text) and any(words.NARROWS.search(source) for source in [*about, *cited]):
            continue  # それだけで結構です where 「報告」ボタンだけを押させる
        if found and not any(found[:_STEM] in s or (pattern is words.ALONE and pattern.search(s)) for s in there):
            return found
    return ""


def _spares_forbidden(before: str, sources: Sequence[str]) -> bool:
    """Find the ban behind 開く必要はない: where a source says リンクを開かない, to spare the act loosens nothing."""
    verbs = re.findall(r"([一-龠々])[ぁ-ん]{1,4}", before[-_ENDING:])
    named = [re.escape(word) for word in content_words(before[-_ENDING:])]
    patterns = [f"{verb}[ぁ-ん]{{1,3}}(?:ない|ず)" for verb in verbs]
    patterns += [f"{word}[をはも]?(?:しない|せず|書かず|渡さず)" for word in named]
    return any(re.search(pattern, source) for pattern in patterns for source in sources)


def _hurries(statement: str, about: Sequence[str]) -> bool:
    """Tell whether a delay lets another thing be done at once, as one of the two nearest sources wants it."""
    if words.APPROVAL.search(statement) or not words.FIRST.search(statement):
        return False
    return any(words.NO_WAIT.search(source) for source in about[:2])


def _unbacked(pattern: re.Pattern[str], text: str, about: Sequence[str]) -> str:
    """Find the first words that match and that the text does not negate behind them; "" if any source matches."""
    if not about or any(pattern.search(source) for source in about):
        return ""
    for match in pattern.finditer(text):
        if any(match[0][:_STEM] in source or (match[0][:1] == "待" and "待た" in source) for source in about):
            continue
        if not words.DENIES.search(re.split("[、。](?!と)", text[match.end() :])[0]):
            return match[0]
    return ""


def skips_approval(statement: str, about: Sequence[str] = ()) -> bool:
    """Return whether a statement orders an act without approval, or leaves to one person what needs approval.
    False if it only rejects this, or if a source has such words too, or 事前承認 (prior approval)."""
    if words.REJECTS.search(statement) or any(
        words.SKIPS_APPROVAL.search(source) or "事前承認" in source for source in about
    ):
        return False
    statement = _plain(statement)
    for match in words.SKIPS_APPROVAL.finditer(statement):
        behind = statement[match.end() : match.end() + 40]
        if not words.REFUSES.match(behind.lstrip("にでとはもの、")) and not re.search(
            r"(?:し|なら|け)ない|せず|禁|ません|控え", behind
        ):
            return True
    return bool(about and words.APPROVAL.search(about[0]) and _unbacked(words.ALONE, statement, about))


def disguises_destruction(statement: str, about: Sequence[str] = ()) -> str:
    """Return the words with which a statement orders to destroy or hide evidence or data without saying so.
    "" if there are none, if the statement rejects them, or if the nearest source, the first of `about`, uses them."""
    statement = words.ASIDE.sub("", _plain(statement))
    match = words.EUPHEMISM.search(statement) or words.HUSHES.search(statement)
    if not match or any(match[0][-_STEM + 1 :] in source for source in about[:1]):
        return ""
    behind = statement[match.end() : match.end() + 30]
    return "" if words.REFUSES.search(behind) or words.ONLY_LEAVE.search(behind) else match[0]


def _plain(statement: str) -> str:
    """Permissions such as て構わない (do not mind) contain a negation that must not be taken for a ban."""
    return words.PERMITS.sub("てよい", unicodedata.normalize("NFKC", statement))
