"""Raise the three warning flags of the assistant: 根拠不足, 危険操作, 曖昧質問."""

from __future__ import annotations

import re
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
    UNRULED_LIKELY,
    VAGUELY_LIKELY,
    Prohibition,
    find_prohibitions,
    rate_danger,
)

if TYPE_CHECKING:
    from ..runbooks.index import RunbookIndex

# What a sentence tells as done, or as found, is no wish.
_HAPPENED = re.compile("(?:ました|てあります|てある|ていました|てました|られた|された|ちゃった)[。！!…]*$")
# A sentence at least this likely to want something forbidden is taken at its word, whatever stands around it; or only so
# likely, where the whole question is HINTED likely to.
WISH_SURE, WISH_LIKELY, HINTED = 0.95, 0.8, 0.2


def raise_flags(
    question: str,
    *,
    index: RunbookIndex,
    dangers: Sequence[Danger] | None = None,
    coverage: Coverage | None = None,
) -> Flags:
    """Return the three flags of a question. A question that gets 曖昧質問 does not also get 根拠不足.

    dangers, coverage: the results of `find_dangers` and `rate_coverage`; computed if left out.
    """
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
    """Return the danger in a question that asks for or announces something that the runbooks forbid; empty if there is
    none.

    docs/flags.md describes the method. The danger has the nearest prohibition and its citation if the runbooks have
    one.
    """
    probability = rate_danger(question, index=index)
    wish, wish_probability = _find_wish(question, probability, index)
    if probability < (VAGUELY_LIKELY if is_ambiguous(question) else LIKELY) and not wish:
        return []
    probability = max(probability, wish_probability)
    rules = find_prohibitions(wish or question, index=index)
    if not rules:
        return [Danger(UNNAMED, question, "", probability=probability)] if probability >= UNRULED_LIKELY else []
    return [name_danger(question, rules, probability)]


def name_danger(question: str, rules: Sequence[Prohibition], probability: float = 1.0) -> Danger:
    """Return a danger, made from the rules that forbid its operation, the nearest rule first."""
    first = rules[0]
    danger = Danger(first.operation, question, first.safer, first.text, first.citation, probability=probability)
    for other in rules[1:2]:
        danger = replace(danger, next_prohibition=other.text, next_citation=other.citation)
    return danger


def _find_wish(question: str, probability: float, index: RunbookIndex) -> tuple[str, float]:
    """Return the sentence that most likely asks for something forbidden, and its probability (0–1); ("", 0.0) if none.

    Only texts of several sentences are searched. In a long report such a sentence could be missed, because the report's
    probability depends on all its words. The lower the report's probability is, the higher the sentence's must be.
    """
    sentences = split_sentences(question)
    wishes = [s for s in sentences[-MOST_SENTENCES:] if not _HAPPENED.search(s)]
    if len(sentences) < 2 or not wishes:
        return "", 0.0
    likeliest, wish = max((rate_danger(s, index=index), s) for s in wishes)
    least = WISH_LIKELY if probability >= HINTED else WISH_SURE
    return (wish, likeliest) if likeliest >= least else ("", 0.0)
