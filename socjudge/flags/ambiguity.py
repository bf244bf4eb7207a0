"""Raise 曖昧質問 (ambiguous question): decide whether a question is too vague to act on.

A logistic model weighs the question's sequences of letters, its sentence vector, and what its words name: an asset, an
operation, a symptom, or something specific. benchmarks/fit_flags.py computes the weights.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from .text_model import Numbers, load_weights, read_question, sigmoid, weigh
from .unknown_words import KATAKANA, LEXICONS, cover_word, split_words

WEIGHTS_PATH = Path(__file__).with_name("ambiguity_weights.npz")
AMBIGUOUS = 0.5  # from this probability on, a question is too vague
LONG_COMPOUND = 6
MEASURES_SCALE = 2.0

_HALVES = {"asset": LEXICONS["assets"], "operation": LEXICONS["operations"], "symptom": LEXICONS["symptoms"]}
_UNSPECIFIC = LEXICONS["vague"].union(LEXICONS["vague_english"], *_HALVES.values())


def is_ambiguous(question: str) -> bool:
    if not re.search(r"[^\W\d_]", question):
        return True
    kept = load_weights(WEIGHTS_PATH)
    return sigmoid(float(weigh(read_ambiguity(question), kept["weights"]) + kept["bias"])) >= AMBIGUOUS


def read_ambiguity(question: str) -> Numbers:
    """Return the input of the logistic model of `is_ambiguous` for a question, of shape (LETTERS + 512 + 8,)."""
    words = list(dict.fromkeys(split_words(question)))
    told = [_says(word) for word in words]
    specific = sum("specific" in some for some in told)
    halves = len(set().union(*told) - {"specific"})
    measures = [
        min(specific, 3),
        specific > 0,
        halves,
        halves >= 2,
        specific == 0 and halves < 2,
        min(len(question), 120) / 30,
        min(len(words), 25) / 5,
        min(len(question), 40) / 20 if not words else 0,  # all in hiragana, so no words are found
    ]
    return np.concatenate([read_question(question), MEASURES_SCALE * np.array(measures, dtype=float)])


def _says(word: str) -> set[str]:
    if re.fullmatch(r"[\d.]+", word):
        return set()
    if word.isascii():
        pieces = [word] if word in _UNSPECIFIC else None
    else:  # a long compound is specific, even if its parts are vague: 緊急変更申請
        pieces = cover_word(word, _UNSPECIFIC) if len(word) < LONG_COMPOUND or KATAKANA.match(word) else None
    if pieces is None:
        return {"specific"} if len(word) > 1 else set()  # one kanji alone is the stem of a verb: 求む, 頼む
    return {name for name, lexicon in _HALVES.items() if any(piece in lexicon for piece in pieces)}
