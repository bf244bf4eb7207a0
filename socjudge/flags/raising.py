"""Raise the three warnings about a question.

They are 根拠不足 (insufficient evidence), 危険操作 (dangerous operation) and 曖昧質問 (ambiguous question).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ..records import Flags
from ..runbooks.reading import split_sentences
from .ambiguity import is_ambiguous
from .dangers import UNNAMED, Danger
from .evidence import Coverage, rate_coverage
from .prohibitions import (
    LIKELY,
    MOST_SENTENCES,
    VAGUELY_LIKELY,
    Prohibition,
    find_prohibitions,
    rate_danger,
)

if TYPE_CHECKING:
    from ..runbooks.index import RunbookIndex

# From this probability on, one sentence alone shows that the question asks for something forbidden.
WISH_SURE = 0.97


def raise_flags(
    question: str,
    *,
    index: RunbookIndex,
    dangers: Sequence[Danger] | None = None,
    coverage: Coverage | None = None,
) -> Flags:
    """Return the three warnings about a question. `dangers` and `coverage` are computed if left out.
    A question with 曖昧質問 (ambiguous question) does not also get 根拠不足 (insufficient evidence)."""
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
    """Return the danger in a question that asks for something forbidden or announces it, as a list of one; else [].
    If a rule forbids it, the danger has the nearest rule and its citation. docs/offline.md describes the method."""
    # In a long question such a sentence could be missed, because the probability depends on all words of the question.
    sentences = [s for s in split_sentences(question)[-MOST_SENTENCES:] if s != question]
    surest, wish = max(((rate_danger(s, index=index), s) for s in sentences), default=(0.0, ""))
    least = VAGUELY_LIKELY if is_ambiguous(question) else LIKELY
    if surest < WISH_SURE and rate_danger(question, index=index) < least:
        return []
    rules = find_prohibitions(wish if surest >= WISH_SURE else question, index=index)
    return [name_danger(question, rules) if rules else Danger(UNNAMED, question, "")]


def name_danger(question: str, rules: Sequence[Prohibition]) -> Danger:
    """Return the danger in a question, made from at least one rule that forbids what it asks for, the nearest first."""
    first = rules[0]
    danger = Danger(first.operation, question, first.safer, first.text, first.citation)
    for other in rules[1:2]:
        danger = replace(danger, next_prohibition=other.text, next_citation=other.citation)
    return danger
