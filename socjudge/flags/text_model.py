"""Score a question with a logistic model over its letters, its sentence vector, and a few measures of its subject.

`prohibitions` scores whether a question asks for something forbidden, `evidence` whether the runbooks cover its
subject, and `ambiguity` whether it is too vague. benchmarks/fit_flags.py computes the weights.
"""

from __future__ import annotations

import math
import re
import unicodedata
import zlib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ..base.texts import encodable

FITTED_EMBEDDER = "use"  # the embedder that the weights were found with
LETTERS = 1 << 14  # hashed runs of one to four letters
LONGEST = 400  # letters of a question that are read
EMBEDDED = 4_000  # characters of it that are embedded: time and memory grow with them
LETTERS_SCALE, VECTOR_SCALE = 3.0, 2.0  # what the ridge sees of each

Numbers = np.ndarray[Any, np.dtype[np.float64]]


def normalise(text: str) -> str:
    """Return the text in NFKC and lower case, without invisible letters; line breaks are kept."""
    text = unicodedata.normalize("NFKC", text).lower()
    return "".join(c for c in text if c == "\n" or unicodedata.category(c) not in ("Cf", "Cc"))


def compact(text: str) -> str:
    """Return the text in the form in which letters are compared: normalised and without spaces."""
    return re.sub(r"\s+", "", normalise(text))


def read_question(text: str) -> Numbers:
    """Return the features of a question that all three models use, (LETTERS + 512,)."""
    return np.concatenate([read_letters(text), VECTOR_SCALE * embed_text(text)])


def read_letters(text: str) -> Numbers:
    """Return the hashed sequences of letters of a text, (LETTERS,)."""
    return hash_runs(f"^{compact(text)[:LONGEST]}$", 4, LETTERS)


def hash_runs(text: str, longest: int, size: int) -> Numbers:
    """Return the hashed runs of one to `longest` letters of a text, (size,)."""
    runs = {text[i : i + n] for n in range(1, longest + 1) for i in range(len(text) - n + 1)}
    places = sorted({zlib.crc32(run.encode()) % size for run in runs})
    letters = np.zeros(size)
    letters[places] = LETTERS_SCALE / math.sqrt(len(places))
    return letters


def weigh(features: Numbers, weights: Numbers) -> Numbers:
    """Compute features @ weights without BLAS.

    After so small a product, the idle threads of BLAS would take as much time as an embedding.
    """
    return np.asarray(np.einsum("f,f...->...", features, weights))


def sigmoid(score: float) -> float:
    """Compute 1 / (1 + exp(-score)), for any score."""
    return 0.5 * (1 + math.tanh(score / 2))


def save_weights(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write the arrays that a fit computed to a small file, as float16."""
    small: dict[str, Any] = {name: np.asarray(array, dtype=np.float16) for name, array in arrays.items()}
    np.savez_compressed(path, **small)


@lru_cache(maxsize=4)
def load_weights(path: Path) -> dict[str, Numbers]:
    """Return the arrays that `save_weights` wrote, as float64."""
    with np.load(path, allow_pickle=False) as kept:
        return {name: kept[name].astype(np.float64) for name in kept.files}


def embed_text(text: str) -> Numbers:
    """Return the sentence vector of a text from FITTED_EMBEDDER, whichever embedder the index uses; (512,)."""
    from ..runbooks.embeddings import UseEmbeddings

    return np.asarray(UseEmbeddings().embed_query(encodable(text[:EMBEDDED])))
