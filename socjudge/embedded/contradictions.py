"""Whether a statement loosens what its sources ask for, skips an approval, or tells to do away with evidence.

Sentence similarity cannot see a contradiction (docs/offline.md). What loosens (need not, may, later, on one's own) is a
strong claim: it must stand in a source about the same thing, in whatever words. What they cannot see: a contradiction in
words that `stance_words` has not, or one that takes knowledge.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from ..runbooks.bm25 import content_words
from . import stance_words as words
from .facts import is_negative

_ENOUGH = re.compile(r"(?:だけ|のみ)で(?:結構|よ|十分|足り)")
_ENDING = 10  # letters of a statement that say whether all of it is a ban
_STEM = 4  # letters by which two forms of one word are the same: そのままに, そのまま触らせず


def permits(text: str) -> bool:
    """Whether a statement allows something."""
    return bool(words.PERMITS.search(words.NO_NEGATION.sub("", unicodedata.normalize("NFKC", text))))


def is_loosened(statement: str, about: Sequence[str], cited: Sequence[str] = ()) -> bool:
    """Whether a statement spares or allows what its sources do not, and neither turns that down nor only says what may be.

    about, cited: as for `loosens`."""
    text = unicodedata.normalize("NFKC", statement)
    if (words.REJECTS.search(text) and "必要" not in text) or words.MAY_BE.search(text):  # 必要なわけではない spares
        return False
    return bool(loosens(words.ASIDE.sub("", statement), about, cited))


def loosens(statement: str, about: Sequence[str], cited: Sequence[str] = ()) -> str:
    """The words by which a statement spares, permits or decides alone what no source about it does; "" for none.

    about: the sources about the same thing, nearest first;
    cited: the sources of the sections that it cites; one of them that says so of the same thing will do, too."""
    own = content_words(statement)
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
    """Whether the verb just before what spares it is one that a source forbids: 開く必要はない where リンクを開かない."""
    verbs = re.findall(r"([一-龠々])[ぁ-ん]{1,4}", before[-_ENDING:])
    named = [re.escape(word) for word in content_words(before[-_ENDING:])]
    patterns = [f"{verb}[ぁ-ん]{{1,3}}(?:ない|ず)" for verb in verbs]
    patterns += [f"{word}[をはも]?(?:しない|せず|書かず|渡さず)" for word in named]
    return any(re.search(pattern, source) for pattern in patterns for source in sources)


def _hurries(statement: str, about: Sequence[str]) -> bool:
    """Whether a statement leaves one thing for later to do another at once, as a source does that does not wait for it."""
    if words.APPROVAL.search(statement) or not words.FIRST.search(statement):
        return False
    return any(words.NO_WAIT.search(source) for source in about[:2])


def _unbacked(pattern: re.Pattern[str], text: str, about: Sequence[str]) -> str:
    """What a pattern finds in a text that does not take it back, where no source about it has the like."""
    if not about or any(pattern.search(source) for source in about):
        return ""
    for match in pattern.finditer(text):
        if any(match[0][:_STEM] in source or (match[0][:1] == "待" and "待た" in source) for source in about):
            continue
        if not words.DENIES.search(re.split("[、。](?!と)", text[match.end() :])[0]):
            return match[0]
    return ""


def skips_approval(statement: str, about: Sequence[str] = ()) -> bool:
    """Whether a statement tells to act without an approval, or decides alone where a source about it asks for one."""
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
    """The words by which a statement tells to do away with evidence or data without naming it; "" if it does not.

    about: the sources about the same thing, nearest first: what the first says in these words is no disguise."""
    statement = words.ASIDE.sub("", _plain(statement))
    match = words.EUPHEMISM.search(statement) or words.HUSHES.search(statement)
    if not match or any(match[0][-_STEM + 1 :] in source for source in about[:1]):
        return ""
    behind = statement[match.end() : match.end() + 30]
    return "" if words.REFUSES.search(behind) or words.ONLY_LEAVE.search(behind) else match[0]


def _plain(statement: str) -> str:
    """The statement with its permissions said without a negation."""
    return words.PERMITS.sub("てよい", unicodedata.normalize("NFKC", statement))
