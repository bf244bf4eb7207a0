"""Find the answers to change and judge, each with its question. They come from a log, a run or a list.

An answer is split into items, so that one item can be changed while the others stay.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from ..base.messages import listed, say
from ..base.texts import change_citations, fold
from ..errors import ConfigError
from ..records import AssistantAnswer, EvalQuestion, EvaluationRun
from ..runs.log_json import answer_sha256

Pair = tuple[EvalQuestion, AssistantAnswer]
Given = Path | str | EvaluationRun | Sequence[Pair]

_NUMBERED = re.compile(r"^\s*\d+[.)．]\s*")
_MARKED = re.compile(r"^\s*(?:\d+[.)．]|[-*・●]|[①-⑳])\s*")
_WARNING = re.compile(r"^\s*(?:⚠|【?(?:警告|注意)】?[:：])")
_HEADING = re.compile(r"^\s*#|[:：]\s*$")
_FENCE = re.compile(r"^\s*```")
_ENDED = re.compile(r"(?:[。．.!！?？:：]|[\])）】］])\s*$")


@dataclass(frozen=True)
class Item:
    """Hold one step, warning or paragraph of an answer, with the code or the line of citations after it."""

    text: str  # exactly as in the answer, with the line breaks after it: all items joined are the answer

    @property
    def is_warning(self) -> bool:
        return bool(_WARNING.match(self.text))

    @property
    def is_numbered(self) -> bool:
        return bool(_NUMBERED.match(self.text))

    @property
    def is_statement(self) -> bool:
        """Return whether this makes a statement. A warning, heading, list of citations or very short text does not."""
        said = without_citations(self.text)
        return not self.is_warning and not _HEADING.search(said.split("\n")[0]) and len(fold(said)) >= 8

    @property
    def marker(self) -> str:
        """Return the item's number or bullet with the space after it. Return "" if it has neither."""
        found = _MARKED.match(self.text)
        return found[0] if found else ""

    @property
    def body(self) -> str:
        return self.text[len(self.marker) :]


def split_items(text: str) -> list[Item]:
    """Split an answer into its items. The items joined are the answer again."""
    pieces: list[str] = []
    in_code = False
    before = ""
    for line in text.splitlines(keepends=True):
        fence = bool(_FENCE.match(line))
        only_cites = not change_citations(line, lambda _: "").strip()
        starts = bool(_MARKED.match(line) or _WARNING.match(line) or not before.strip() or _ENDED.search(before))
        if pieces and (in_code or fence or only_cites or not starts):
            pieces[-1] += line
        else:
            pieces.append(line)
        in_code ^= fence
        before = line
    return [Item(piece) for piece in pieces]


def join_items(items: Iterable[Item]) -> str:
    """Join the items into a text. A line break is added to each item that has none at its end, except the last item."""
    listed = [item.text for item in items]
    return "".join([*(t if t.endswith("\n") else t + "\n" for t in listed[:-1]), *listed[-1:]])


def without_citations(text: str) -> str:
    """Return a text without its citations and the spaces before them."""
    return re.sub(r"[ \t]+(?=\n|$)", "", change_citations(text, lambda _: ""))


@dataclass(frozen=True)
class Subject:
    """Hold a question with an answer, which a certificate's cases can change."""

    question: EvalQuestion
    answer: AssistantAnswer
    # the other questions of the set, with their answers; a change may take text from them
    others: tuple[Subject, ...] = field(default=(), repr=False, compare=False)

    @cached_property
    def items(self) -> list[Item]:
        return split_items(self.answer.answer)

    @cached_property
    def statements(self) -> list[Item]:
        return [item for item in self.items if item.is_statement]

    @cached_property
    def answer_sha256(self) -> str:
        """Return the hash that identifies the answer in logs and labels."""
        return answer_sha256(self.answer.answer, self.answer.context)

    def saying(self, text: str) -> Subject:
        return replace(self, answer=replace(self.answer, answer=text))


def find_subjects(given: EvaluationRun | Sequence[Pair]) -> list[Subject]:
    """Return the answers to test a judge with, without empty ones. A run counts with its first answer to each question.
    Raises ConfigError if no answer is left, or if two questions have the same id."""
    if isinstance(given, EvaluationRun):
        first = {result.question.id: result for result in reversed(given.results)}
        pairs = [(result.question, result.answer) for result in reversed(first.values())]
        named = str(given.log_path or given.run.run_id)
    else:
        pairs, named = list(given), say("the list that was given")
    found = [Subject(question, answer) for question, answer in pairs if not answer.is_empty]
    if not found:
        raise ConfigError(
            "{named}: no answer to work with ({count} given, none has a text); pass a log with answers, or a "
            "list of questions with theirs",
            named=named,
            count=len(pairs),
        )
    twice = [name for name, count in Counter(str(s.question.id) for s in found).items() if count > 1]
    if twice:
        raise ConfigError("question id {ids} occurs more than once; give one answer per question", ids=listed(twice))
    return [replace(s, others=tuple(found[:i] + found[i + 1 :])) for i, s in enumerate(found)]
