"""Contexts from the project's runbooks for an answer that brought none, where somebody asked for that."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..records import AssistantAnswer
from ..settings import default_k
from .citations import format_context

if TYPE_CHECKING:
    from ..runbooks.index import RunbookIndex


def with_contexts(answer: AssistantAnswer, index: RunbookIndex | None = None, k: int | None = None) -> AssistantAnswer:
    """The answer with what the index finds for the question, and then for the answer; `contexts_from` says so. k: None for the
    project's."""
    k = default_k() if k is None else k
    if index is None:
        from ..runbooks.index import open_index  # a second of a processor, which few need

        index = open_index()
    found = [*index.search(answer.question, k), *index.search(answer.answer[:2000], k)]
    passages = tuple({passage.citation: passage for passage in reversed(found)}.values())[::-1]
    return replace(answer, passages=passages, context=format_context(passages), contexts_from="runbooks")
