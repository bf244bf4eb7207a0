"""The three warning flags of the assistant: 根拠不足, 危険操作, 曖昧質問."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from ..records import Flags
from ..runbooks.bm25 import normalise_text
from .dangers import OBJECTLESS, Danger, dangerous_words, find_dangerous, recommends_danger
from .prohibitions import LIKELY, rate_danger

if TYPE_CHECKING:
    from ..runbooks.index import RunbookIndex

__all__ = [
    "Danger",
    "find_dangerous",
    "find_dangers",
    "find_unknown_words",
    "is_ambiguous",
    "raise_flags",
    "recommends_danger",
]

# Tuned on the dev half of tests/data/flags.jsonl and on flags_dev2.jsonl; benchmarks/flags.py measures the other half.
LIKENESS_WEIGHT = 1.84
CROWD_WEIGHT = 0.2  # for each further unknown word in one clause, up to two
OFFSET = 0.28
LOW_COSINE = 0.23  # below: no passage is about anything of the kind
SHORTEST_CLAUSE = 6  # characters
LONG_COMPOUND = 6

_WORDS = re.compile(r"[々一-鿿㐀-䶿]+|[ァ-ヺー]{2,}|[a-z0-9][a-z0-9'+#]*(?:[-_.][a-z0-9]+)*")
_CLAUSE = re.compile(r"[。、！？!?\n]|(?<=\.)\s")
_HOST_OR_NUMBER = re.compile(r"[\d.]+|[a-z]{1,6}[-_]?\d{2,4}")  # 1102, dc01, pc-0123
_KATAKANA = re.compile("[ァ-ー]")
_JAPANESE = re.compile("[\u3041-\u30ff\u4e00-\u9fff]")


_LEXICONS = {
    name: frozenset(" ".join(lexicon["words"]).split())
    for name, lexicon in json.loads(Path(__file__).with_name("lexicons.json").read_text(encoding="utf-8")).items()
    if name != "about"
}
_HALVES = {"asset": _LEXICONS["assets"], "operation": _LEXICONS["operations"], "symptom": _LEXICONS["symptoms"]}
_UNSPECIFIC = _LEXICONS["vague"].union(_LEXICONS["vague_english"], *_HALVES.values())
# No reason to call a question short of evidence.
_COMMON = _LEXICONS["vague"].union(_LEXICONS["everyday"], *_HALVES.values())
_ENGLISH_SUBJECTS = tuple(sorted(_LEXICONS["english_stems"]))  # as `str.startswith` takes them


def raise_flags(question: str, *, index: RunbookIndex, dangers: Sequence[Danger] | None = None) -> Flags:
    """The three flags of a question. A question too vague to act on is not also called short of evidence.

    dangers: what `find_dangers` found in it, looked for if left out."""
    if dangers is None:
        dangers = find_dangers(question, index=index)
    ambiguous = is_ambiguous(question)
    return Flags(
        insufficient_evidence=not ambiguous and lacks_evidence(question, index=index),
        dangerous_operation=bool(dangers),
        ambiguous_query=ambiguous,
    )


def find_dangers(question: str, *, index: RunbookIndex) -> list[Danger]:
    """What the question asks for or announces that the runbooks forbid, or a row of `dangers.json`; docs/flags.md.

    Each comes with the nearest prohibition and its citation where the runbooks have one."""
    blunt = find_dangerous(question)
    if not blunt and is_ambiguous(question, dangers=blunt):
        return []
    probability, prohibition = rate_danger(question, blunt, index=index)
    if probability < LIKELY and not blunt:
        return []
    if prohibition is None:
        return [replace(danger, probability=probability) for danger in blunt]
    found = blunt or [Danger(prohibition.operation, question, prohibition.safer)]
    text, citation = prohibition.text, prohibition.citation
    return [replace(d, prohibition=text, citation=citation, probability=probability) for d in found]


def lacks_evidence(question: str, *, index: RunbookIndex) -> bool:
    """根拠不足: whether the question is about something that the runbooks do not know.

    Taken by clauses, because people tell stories: a strange word in a side remark says little, strange words in
    every clause, or several in one, say much (in every clause they decide); and one clause that a passage resembles closely speaks for the
    runbooks. The BM25 ratio beside these added nothing (docs/flags.md)."""
    clauses = [clause for clause in _CLAUSE.split(question) if len(clause) >= SHORTEST_CLAUSE] or [question]
    unknown = find_unknown_words(question, index=index)
    counts = [sum(word in _join(clause) for word in unknown) for clause in clauses]
    strangeness = sum(count > 0 for count in counts) / len(clauses) + CROWD_WEIGHT * min(2, max(0, max(counts) - 1))
    likeness = max(index.evidence(clause).top_cosine for clause in clauses)
    return likeness < LOW_COSINE or strangeness > min(0.99, LIKENESS_WEIGHT * likeness - OFFSET)


def find_unknown_words(question: str, *, index: RunbookIndex) -> list[str]:
    """The question's subject words that occur nowhere in the runbooks, in order: プロジェクター, kubernetes, 保険.

    Everyday words do not count, nor do those that name a dangerous operation, which the runbooks cover by kind.
    In an English question only names, and words foreign to incident response, count."""
    text = normalise_text(question)
    for evidence in sorted(dangerous_words(question), key=len, reverse=True):
        text = re.sub(r"\s*".join(map(re.escape, evidence.replace(" ", ""))), " ", text)
    if not _JAPANESE.search(question):
        return _unknown_english(question, text, _runbook_text(index))
    known = _runbook_text(index)
    unknown: list[str] = []
    for word in dict.fromkeys(_words(text)):
        unknown += [piece for piece in _uncovered(word, known) if piece not in unknown]
    return unknown


def is_ambiguous(question: str, *, dangers: Sequence[Danger] | None = None) -> bool:
    """曖昧質問: whether the question names nothing that one could act on.

    One specific word is enough, or a dangerous operation together with its object. Else it takes two of: an
    asset, an operation, a symptom. dangers: as for `raise_flags`."""
    if dangers is None:
        dangers = find_dangerous(question)
    if any(danger.operation not in OBJECTLESS for danger in dangers):
        return False
    said: set[str] = set()
    for word in dict.fromkeys(_words(question)):
        said |= _says(word)
        if "specific" in said or len(said) >= 2:
            return False
    return True


def _words(text: str) -> list[str]:
    """Kanji and katakana runs and Latin words, in order."""
    return _WORDS.findall(_join(text))


def _join(text: str) -> str:
    """Normalised text, words that are commonly half hiragana in the kanji that keeps them in one piece."""
    return normalise_text(text).replace("漏えい", "漏洩").replace("改ざん", "改竄").replace("隠ぺい", "隠蔽")


def _says(word: str) -> set[str]:
    """What a word tells of an incident: "asset", "operation" and "symptom", or "specific"; empty for a vague one."""
    if re.fullmatch(r"[\d.]+", word):
        return set()
    if word.isascii():
        pieces = [word] if word in _UNSPECIFIC else None
    else:  # long compounds name something, whatever they are made of: 緊急変更申請
        pieces = _cover(word, _UNSPECIFIC) if len(word) < LONG_COMPOUND or _KATAKANA.match(word) else None
    if pieces is None:
        return {"specific"} if len(word) > 1 else set()  # a lone kanji is a verb's stem: 求む, 頼む
    return {name for name, lexicon in _HALVES.items() if any(piece in lexicon for piece in pieces)}


def _cover(word: str, lexicon: frozenset[str]) -> list[str] | None:
    """The words of the lexicon that make up `word`, longest first from the left, or None.

    Single characters can join a longer piece, as in 担当者側, but not make up a word by themselves."""
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
    """The pieces of a word that neither the runbooks nor the everyday words hold."""
    if word.isascii():
        is_known = len(word) < 2 or _HOST_OR_NUMBER.fullmatch(word) or word in _COMMON or _latin_known(word, known)
        return [] if is_known else [word]
    katakana = _KATAKANA.match(word)
    pieces: list[str] = []
    start = i = 0
    word = word[:200]
    while i < len(word):
        # A katakana piece must be long, or any syllables would do; a single kanji says too little to be unknown.
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
    return [piece for piece in pieces if len(piece) >= 2 and piece.strip("ー") and not _made_of_everyday(piece)]


@lru_cache(maxsize=4096)
def _made_of_everyday(word: str) -> bool:
    return _cover(word, _COMMON) is not None


def _latin_known(word: str, known: str) -> bool:
    return bool(re.search(rf"(?<![a-z0-9]){re.escape(word[:80])}(?![a-z0-9])", known))


def _unknown_english(question: str, text: str, known: str) -> list[str]:
    """Names that the runbooks do not hold; or, where there are at least two, words foreign to the subject."""
    names = {match[0].lower() for match in re.finditer(r"(?<![.?!] )(?<!^)\b[A-Z][A-Za-z0-9-]+", question)}
    unknown = [
        w
        for w in dict.fromkeys(re.findall(r"[a-z][a-z0-9'-]+", text))
        if w not in _LEXICONS["vague_english"]
        and w not in _COMMON
        and not w.startswith(_ENGLISH_SUBJECTS)
        and not _HOST_OR_NUMBER.fullmatch(w)
        and not _latin_known(w, known)
    ]
    named = [w for w in unknown if w in names]
    return named or (unknown if len(unknown) >= 2 else [])


_TEXTS: WeakKeyDictionary[RunbookIndex, str] = WeakKeyDictionary()


def _runbook_text(index: RunbookIndex) -> str:
    """All passages, and the everyday words for theirs, as one normalised text, kept as long as the index lives."""
    if index not in _TEXTS:
        said = "\n".join(f"{p.heading}\n{p.text}" for p in index.passages)
        _TEXTS[index] = _join("\n".join([said, *index.synonyms]))  # an everyday word for theirs is known too
    return _TEXTS[index]
