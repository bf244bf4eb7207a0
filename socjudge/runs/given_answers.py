"""Read what `answers=` accepts: answers in a list, a frame or a file, or your own assistant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..answering.own_answers import StoredAnswers, as_answer, contradiction, is_of_another, load_answers
from ..answering.own_assistant import Assistant
from ..answering.rows import SUFFIXES
from ..errors import ConfigError, NoAnswer
from ..records import AssistantAnswer, EvalQuestion
from ..settings import open_project

Given = Any  # Sequence of answers, StoredAnswers, DataFrame, path, function, Runnable, Assistant, name in socjudge.toml


def open_answers(given: Given, questions: Sequence[EvalQuestion]) -> list[AssistantAnswer] | Assistant | None:
    """Return the answers, one per question, or your own assistant, or None if socjudge's assistant is to answer."""
    if given is None or isinstance(given, Assistant):
        return given
    is_name = isinstance(given, str) and (
        given in open_project().assistants or Path(given).suffix.lower() not in SUFFIXES
    )
    is_frame = hasattr(given, "to_dict") and hasattr(given, "columns")
    if is_frame or (isinstance(given, (str, Path)) and not is_name):
        given = load_answers(given)
    if isinstance(given, StoredAnswers):
        return given.for_questions(questions)
    if isinstance(given, Sequence) and not isinstance(given, str):
        if len(given) != len(questions):
            words = "{answers} answers for {questions} questions; give one per question, in order"
            raise ConfigError(words, answers=len(given), questions=len(questions))
        return [_one(answer, question, k) for k, (answer, question) in enumerate(zip(given, questions, strict=True), 1)]
    return Assistant(given)


def _one(given: str | Mapping[str, Any] | AssistantAnswer, question: EvalQuestion, place: int) -> AssistantAnswer:
    try:
        answer = as_answer(given, question=question.question)
        if is_of_another(answer.question, question):
            raise ConfigError(contradiction(question, answer.question))
        return answer
    except NoAnswer as reason:
        return AssistantAnswer(question.question, "", retries=(str(reason),))
    except ConfigError as error:
        raise ConfigError("answers, number {place}: {reason}", place=place, reason=error) from None
