"""Split a question into words, and find those of them that occur in no runbook."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from ..base.texts import normalise_text

if TYPE_CHECKING:
    from ..runbooks.index import RunbookIndex

_WORDS = re.compile(r"[々一-鿿㐀-䶿]+|[ァ-ヺー]{2,}|[a-z0-9][a-z0-9'+#]*(?:[-_.][a-z0-9]+)*")
_HOST_OR_NUMBER = re.compile(r"[\d.]+|[a-z]{1,6}[-_]?\d{2,4}")  # 1102, dc01, pc-0123
KATAKANA = re.compile("[ァ-ー]")
_JAPANESE = re.compile("[\u3041-\u30ff\u4e00-\u9fff]")

LEXICONS = {
    name: frozenset(" ".join(lexicon["words"]).split())
    for name, lexicon in json.loads(Path(__file__).with_name("lexicons.json").read_text(encoding="utf-8")).items()
    if name != "about"
}
# Words that never count as unknown.
_COMMON = LEXICONS["vague"].union(*(LEXICONS[name] for name in ("everyday", "assets", "operations", "symptoms")))
_ENGLISH_SUBJECTS = tuple(sorted(LEXICONS["english_stems"]))  # in the form for `str.startswith`


def find_unknown_words(question: str, *, index: RunbookIndex) -> list[str]:
    """Return the words that name a question's subject and are in no runbook, such as プロジェクター."""
    text = normalise_text(question)
    if not _JAPANESE.search(question):
        return _unknown_english(question, text, _runbook_text(index))
    known = _runbook_text(index)
    unknown: list[str] = []
    for word in dict.fromkeys(split_words(text)):
        unknown += [piece for piece in _uncovered(word, known) if piece not in unknown]
    return unknown


def split_words(text: str) -> list[str]:
    """Return the words of a text, in order: runs of kanji, runs of katakana, Latin words and numbers."""
    return _WORDS.findall(join_words(text))


def join_words(text: str) -> str:
    """Return the normalised text with 漏えい and the like in kanji, which `split_words` would cut in pieces."""
    return normalise_text(text).replace("漏えい", "漏洩").replace("改ざん", "改竄").replace("隠ぺい", "隠蔽")


def cover_word(word: str, lexicon: frozenset[str]) -> list[str] | None:
    """Split `word` into words of the lexicon, from the left, each time the longest that fits, as 担当者側 into 担当者 and 側.
    None if no word fits at some point, or if more than half of several pieces are single characters."""
    pieces: list[str] = []
    while word:
        piece = next((word[:n] for n in range(min(len(word), 8), 0, -1) if word[:n] in lexicon), None)
        if piece is None:
            return None
        pieces.append(piece)
        word = word[len(piece) :]
    singles = sum(len(piece) == 1 for piece in pieces)
    return pieces if len(pieces) == 1 or singles <= len(pieces) - singles else None


def _uncovered(word: str, known: str) -> list[str]:
    if word.isascii():
        is_known = len(word) < 2 or _HOST_OR_NUMBER.fullmatch(word) or word in _COMMON or _latin_known(word, known)
        return [] if is_known else [word]
    katakana = KATAKANA.match(word)
    pieces: list[str] = []
    start = i = 0
    word = word[:200]
    while i < len(word):
        # A known katakana piece must be long, because short ones occur in many words; one of kanji needs two.
        shortest = 3 if katakana else 2
        step = next(
            (
                n
                for n in range(min(len(word) - i, 12), shortest - 1, -1)
                if word[i : i + n] in _COMMON or word[i : i + n] in known
            ),
            0,
        )
        if step:
            pieces.append(word[start:i])
            i = start = i + step
        else:
            i += 1
    pieces.append(word[start:])
    return [piece for piece in pieces if len(piece) >= 2 and piece.strip("ー") and cover_word(piece, _COMMON) is None]


def _latin_known(word: str, known: str) -> bool:
    return bool(re.search(rf"(?<![a-z0-9]){re.escape(word[:80])}(?![a-z0-9])", known))


def _unknown_english(question: str, text: str, known: str) -> list[str]:
    # Words with a capital letter inside a sentence. They alone count if there are any; else one word is too little.
    names = {match[0].lower() for match in re.finditer(r"(?<![.?!] )(?<!^)\b[A-Z][A-Za-z0-9-]+", question)}
    unknown = [
        w
        for w in dict.fromkeys(re.findall(r"[a-z][a-z0-9'-]+", text))
        if w not in LEXICONS["vague_english"]
        and w not in _COMMON
        and not w.startswith(_ENGLISH_SUBJECTS)
        and not _HOST_OR_NUMBER.fullmatch(w)
        and not _latin_known(w, known)
    ]
    named = [w for w in unknown if w in names]
    return named or (unknown if len(unknown) >= 2 else [])


_TEXTS: WeakKeyDictionary[RunbookIndex, str] = WeakKeyDictionary()


def _runbook_text(index: RunbookIndex) -> str:
    if index not in _TEXTS:
        said = "\n".join(f"{p.heading}\n{p.text}" for p in index.passages)
        _TEXTS[index] = join_words("\n".join([said, *index.synonyms]))  # these everyday words are known, too
    return _TEXTS[index]
