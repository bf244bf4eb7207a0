"""The three warning flags of the assistant: 根拠不足, 危険操作, 曖昧質問."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ..records import Flags
from .dangers import OBJECTLESS, Danger, compact, find_dangerous, recommends_danger
from .evidence import Coverage, rate_coverage
from .prohibitions import BLUNTLY_LIKELY, LIKELY, find_prohibition, rate_danger
from .unknown_words import KATAKANA, LEXICONS, cover_word, find_unknown_words, split_words

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

LONG_COMPOUND = 6
# Letters: a blunt question no longer than that is taken at its word; the model finds it in every near miss too.
PLAIN = 12

_HALVES = {"asset": LEXICONS["assets"], "operation": LEXICONS["operations"], "symptom": LEXICONS["symptoms"]}
_UNSPECIFIC = LEXICONS["vague"].union(LEXICONS["vague_english"], *_HALVES.values())


def raise_flags(
    question: str,
    *,
    index: RunbookIndex,
    dangers: Sequence[Danger] | None = None,
    coverage: Coverage | None = None,
) -> Flags:
    """The three flags of a question. A question too vague to act on is not also called short of evidence.

    dangers, coverage: what `find_dangers` and `rate_coverage` found, looked for if left out."""
    if dangers is None:
        dangers = find_dangers(question, index=index)
    if coverage is None:
        coverage = rate_coverage(question, index=index)
    ambiguous = is_ambiguous(question)
    return Flags(
        insufficient_evidence=not ambiguous and coverage.outcome == "absent",
        dangerous_operation=bool(dangers),
        ambiguous_query=ambiguous,
    )


def find_dangers(question: str, *, index: RunbookIndex) -> list[Danger]:
    """What the question asks for or announces that the runbooks forbid; docs/flags.md.

    Each comes with the nearest prohibition and its citation where the runbooks have one."""
    blunt = find_dangerous(question)
    if not blunt and is_ambiguous(question, dangers=blunt):
        return []
    probability = rate_danger(question, blunt, index=index)
    is_plain = bool(blunt) and len(compact(question)) <= PLAIN
    if probability < (BLUNTLY_LIKELY if blunt else LIKELY) and not is_plain:
        return []
    # A command shares no letter with what forbids it; the name of its operation does.
    prohibition = find_prohibition(" ".join([question, *(danger.operation for danger in blunt)]), index=index)
    if prohibition is None:
        return [replace(danger, probability=probability) for danger in blunt]
    found = blunt or [Danger(prohibition.operation, question, prohibition.safer)]
    text, citation = prohibition.text, prohibition.citation
    return [replace(d, prohibition=text, citation=citation, probability=probability) for d in found]


def is_ambiguous(question: str, *, dangers: Sequence[Danger] | None = None) -> bool:
    """曖昧質問: whether the question names nothing that one could act on.

    One specific word is enough, or a dangerous operation together with its object. Else it takes two of: an
    asset, an operation, a symptom. dangers: as for `raise_flags`."""
    if dangers is None:
        dangers = find_dangerous(question)
    if any(danger.operation not in OBJECTLESS for danger in dangers):
        return False
    said: set[str] = set()
    for word in dict.fromkeys(split_words(question)):
        said |= _says(word)
        if "specific" in said or len(said) >= 2:
            return False
    return True


def _says(word: str) -> set[str]:
    """What a word tells of an incident: "asset", "operation" and "symptom", or "specific"; empty for a vague one."""
    if re.fullmatch(r"[\d.]+", word):
        return set()
    if word.isascii():
        pieces = [word] if word in _UNSPECIFIC else None
    else:  # long compounds name something, whatever they are made of: 緊急変更申請
        pieces = cover_word(word, _UNSPECIFIC) if len(word) < LONG_COMPOUND or KATAKANA.match(word) else None
    if pieces is None:
        return {"specific"} if len(word) > 1 else set()  # a lone kanji is a verb's stem: 求む, 頼む
    return {name for name, lexicon in _HALVES.items() if any(piece in lexicon for piece in pieces)}
