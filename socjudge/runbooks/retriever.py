"""Wrap a `RunbookIndex` for LangChain chains."""

from __future__ import annotations

from typing import Any

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever


class RunbookRetriever(BaseRetriever):
    """Retrieve the k best passages of an index as documents whose metadata are source, heading and score."""

    index: Any
    k: int = 5

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        return [
            Document(p.text, metadata={"source": p.source, "heading": p.heading, "score": p.score})
            for p in self.index.search(query, self.k)
        ]
