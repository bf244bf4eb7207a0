"""Compute the features of a text, and the score of a logistic model over them.

The features are hashed sequences of letters and a sentence vector; each model adds measures of its own. There are three
models: `prohibitions` rates whether a question asks for something forbidden, `evidence` whether the runbooks cover its
subject, and `ambiguity` whether it is too vague. benchmarks/fit_flags.py computes the weights.
"""

from __future__ import annotations

import math
import re
import unicodedata
import zlib
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ..runbooks.embeddings import embed_query

LETTERS = 1 << 14  # size of the hash of a text's sequences of letters
LONGEST = 400  # letters of a question that are read
EMBEDDED = 4_000  # characters of a question that are embedded; more would take more time and memory
LETTERS_SCALE, VECTOR_SCALE = 3.0, 2.0  # lengths of the two vectors, which decide how much the fit uses each

Numbers = np.ndarray[Any, np.dtype[np.float64]]


def normalise(text: str) -> str:
    """Return the text in NFKC and lower case, without control characters and invisible letters. Line breaks are kept."""
    text = unicodedata.normalize("NFKC", text).lower()
    return "".join(c for c in text if c == "\n" or unicodedata.category(c) not in ("Cf", "Cc"))


def compact(text: str) -> str:
    """Return the normalised text without spaces and line breaks. Letters are compared in this form."""
    return re.sub(r"\s+", "", normalise(text))


def read_question(text: str) -> Numbers:
    """Return a text's letters and sentence vector, which `ambiguity` and `evidence` both read: (LETTERS + 512,)."""
    return np.concatenate([read_letters(text), VECTOR_SCALE * embed_text(text)])


def read_letters(text: str) -> Numbers:
    """Return the sequences of one to four letters of a text, hashed into a vector, (LETTERS,)."""
    return hash_runs(f"^{compact(text)[:LONGEST]}$", 4, LETTERS)


def hash_runs(text: str, longest: int, size: int) -> Numbers:
    """Return the sequences of one to `longest` letters, hashed into a vector of the length LETTERS_SCALE."""
    runs = {text[i : i + n] for n in range(1, longest + 1) for i in range(len(text) - n + 1)}
    places = sorted({zlib.crc32(run.encode()) % size for run in runs})
    letters = np.zeros(size)
    letters[places] = LETTERS_SCALE / math.sqrt(len(places))
    return letters


def weigh(features: Numbers, weights: Numbers) -> Numbers:
    """Return features @ weights without BLAS, whose idle threads would take as much time as an embedding."""
    return np.asarray(np.einsum("f,f...->...", features, weights))


def sigmoid(score: float) -> float:
    """Return 1 / (1 + exp(-score)). No score overflows."""
    return 0.5 * (1 + math.tanh(score / 2))


@lru_cache(maxsize=4)
def load_weights(path: Path) -> dict[str, Numbers]:
    """Return {name: array} from a file of arrays, such as the weights of a fit, as float64."""
    with np.load(path, allow_pickle=False) as kept:
        return {name: kept[name].astype(np.float64) for name in kept.files}


def embed_text(text: str) -> Numbers:
    return embed_query(text[:EMBEDDED]).astype(np.float64)
