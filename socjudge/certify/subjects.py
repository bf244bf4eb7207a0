"""Find the answers to change and judge, each with its question. They come from a log, a run or a list."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from ..base.messages import listed, say
from ..errors import ConfigError
from ..records import AssistantAnswer, EvalQuestion, EvaluationRun
from ..runs.load import load_run
from ..runs.log_json import answer_sha256
from .items import Item, split_items

Given = Path | str | EvaluationRun | Sequence[tuple[EvalQuestion, AssistantAnswer]]


@dataclass(frozen=True)
class Subject:
    """Hold a question with an answer, which an experiment can change."""

    question: EvalQuestion
    answer: AssistantAnswer
    # the other questions of the set, with their answers; a change may take text from them
    others: tuple[Subject, ...] = field(default=(), repr=False, compare=False)

    @cached_property
    def items(self) -> list[Item]:
        """Return the items of the answer, which are its steps, warnings and paragraphs."""
        return split_items(self.answer.answer)

    @cached_property
    def statements(self) -> list[Item]:
        """Return the items that make a statement."""
        return [item for item in self.items if item.is_statement]

    @cached_property
    def answer_sha256(self) -> str:
        """Return the hash that identifies the answer in logs and labels."""
        return answer_sha256(self.answer.answer, self.answer.context)

    def saying(self, text: str) -> Subject:
        """Return a copy of the subject in which the answer's text is replaced by `text`."""
        return replace(self, answer=replace(self.answer, answer=text))


def find_subjects(given: Given) -> list[Subject]:
    """Return the answers to test a judge with, without empty ones. A run counts with its first answer to each question.
    Raises ConfigError if no answer is left, or if two questions have the same id."""
    if isinstance(given, Path | str):
        given = load_run(given)
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
