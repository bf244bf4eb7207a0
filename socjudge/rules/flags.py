"""The three warning flags of the assistant: 根拠不足, 危険操作, 曖昧質問."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ..records import Flags
from .ambiguity import is_ambiguous
from .dangers import Danger, compact, find_dangerous, recommends_danger
from .evidence import Coverage, rate_coverage
from .prohibitions import BLUNTLY_LIKELY, LIKELY, find_prohibitions, rate_danger
from .unknown_words import find_unknown_words

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

# Letters: a blunt question no longer than that is taken at its word; the model finds it in every near miss too.
PLAIN = 12


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
    if len(blunt) > 1:
        return [_with_ban(danger, probability, index) for danger in blunt]
    # A command shares no letter with what forbids it; the name of its operation does.
    nearest = find_prohibitions(" ".join([question, *(danger.operation for danger in blunt)]), index=index)
    if not nearest:
        return [replace(danger, probability=probability) for danger in blunt]
    first = nearest[0]
    danger = Danger(first.operation, question, first.safer, first.text, first.citation, probability=probability)
    if len(nearest) > 1:
        danger = replace(danger, next_prohibition=nearest[1].text, next_citation=nearest[1].citation)
    return [replace(danger, operation=d.operation, evidence=d.evidence, safer=d.safer) for d in blunt] or [danger]


def _with_ban(danger: Danger, probability: float, index: RunbookIndex) -> Danger:
    """One of several dangers in a question, with what forbids this one."""
    said = f"{danger.evidence} {danger.operation}"
    for ban in find_prohibitions(said, index=index, operation=danger.operation)[:1]:
        danger = replace(danger, prohibition=ban.text, citation=ban.citation)
    return replace(danger, probability=probability)
