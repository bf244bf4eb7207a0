"""Raise 根拠不足 (insufficient evidence): decide whether the runbooks cover a question, and how likely it is that they do not.

A logistic model weighs the question's text and measures of how well the runbooks cover it. One kind of measure is the
similarity of the question, and of each of its clauses, to the nearest passage and to the nearest question of a passage.
(`questions.json` may list questions that a passage answers.) The other kind counts the words of the question that the
runbooks do not contain. All measures are computed with the index in use, so the model works for any runbooks.
benchmarks/fit_flags.py computes the weights; benchmarks/assistant.md has the measurements.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from ..runbooks.bm25 import content_words
from ..runbooks.reading import split_sentences
from .text_model import Numbers, load_weights, read_question, sigmoid, weigh
from .unknown_words import KATAKANA, find_unknown_words, join_words

if TYPE_CHECKING:
    from ..runbooks.index import RunbookIndex

# "covered": probably a passage answers it. "unsure": perhaps there is only a passage on a related subject.
# "absent": probably there is nothing about it.
Outcome = Literal["covered", "unsure", "absent"]

WEIGHTS_PATH = Path(__file__).with_name("evidence_weights.npz")
ABSENT = 0.5  # from this probability on, the runbooks have nothing: 根拠不足
UNSURE = 0.3  # from this probability on (of having nothing, or only something near), the outcome is "unsure"
SHORTEST_CLAUSE = 6  # characters
LONG, MOST_SENTENCES = 3, 12
_CLAUSE = re.compile(r"[。、！？!?\n]|(?<=\.)\s")


@dataclass(frozen=True)
class Coverage:
    outcome: Outcome
    probability: float  # calibrated, 0–1: that the runbooks have nothing about the question


def rate_coverage(question: str, *, index: RunbookIndex) -> Coverage:
    coverage = _rate(question, index)
    sentences = split_sentences(question)
    # One sentence with unknown words does not mean that the runbooks have nothing about the other sentences.
    if coverage.outcome == "absent" and LONG <= len(sentences) <= MOST_SENTENCES:
        others = ("".join(sentences[:n] + sentences[n + 1 :]) for n in range(len(sentences)))
        if any(_rate(other, index).outcome != "absent" for other in others):
            return Coverage("unsure", coverage.probability)
    return coverage


def _rate(question: str, index: RunbookIndex) -> Coverage:
    kept = load_weights(WEIGHTS_PATH)
    measures = scale_measures(measure_evidence(question, index=index), kept["centre"], kept["spread"])
    features = np.concatenate([read_question(question), measures])
    absent, doubtful = (sigmoid(float(score)) for score in weigh(features, kept["weights"]) + kept["bias"])
    outcome: Outcome = "absent" if absent >= ABSENT else "unsure" if max(absent, doubtful) >= UNSURE else "covered"
    return Coverage(outcome, absent)


def scale_measures(measures: Numbers, centre: Numbers, spread: Numbers) -> Numbers:
    """Scale measures, and limit them to -4 to 4: a very unusual value says no more than an unusual one."""
    return np.clip((measures - centre) / spread, -4, 4)


def measure_evidence(question: str, *, index: RunbookIndex) -> Numbers:
    """Return 24 measures of how well an index covers the subject of a question, before `scale_measures`.
    The first 7 are cosine similarities of the question, or of its clauses."""
    clauses = [clause for clause in _CLAUSE.split(question) if len(clause) >= SHORTEST_CLAUSE] or [question]
    whole = index.evidence(question)
    parts = [index.evidence(clause) for clause in clauses] if len(clauses) > 1 else [whole]
    said = [part.top_cosine for part in parts]
    # Likeness to the nearest question that a passage answers, if `questions.json` has any.
    asked = [part.top_cosine if part.question_cosine is None else part.question_cosine for part in parts]

    found = [content_words(f"{p.heading} {p.text}") for p in index.search(question, 5)] or [set()]
    words = content_words(question)
    n = max(len(words), 1)
    strange = find_unknown_words(question, index=index)
    strange_in = [sum(word in join_words(clause) for word in strange) for clause in clauses]
    return np.array(
        [
            whole.top_cosine if whole.question_cosine is None else whole.question_cosine,
            whole.top_cosine,
            max(asked),
            max(said),
            min(asked),
            sum(asked) / len(asked),
            sum(said) / len(said),
            whole.bm25_ratio,
            len(words & set(whole.unknown_tokens)) / n,
            len(words - found[0]) / n,
            len(words - set().union(*found)) / n,
            len(strange),
            sum(count > 0 for count in strange_in) / len(clauses),
            max(strange_in),
            min(len(question), 200) / 50,
            sum(word.isascii() for word in words) / n,
            *_count_kinds(strange, question),
        ]
    )


def _count_kinds(strange: list[str], question: str) -> list[float]:
    """An unknown name is likely the subject. Unknown lower-case English may only be a way of writing."""
    said = unicodedata.normalize("NFKC", question)
    latin = [word for word in strange if word.isascii()]
    names = [w for w in latin if any(m[0][0].isupper() for m in re.finditer(re.escape(w), said, re.IGNORECASE))]
    katakana = [word for word in strange if KATAKANA.match(word)]
    # Names (Slack), other Latin words (dump), katakana, kanji.
    kinds = (len(names), len(latin) - len(names), len(katakana), len(strange) - len(latin) - len(katakana))
    return [*(min(count, 3) for count in kinds), *(float(count > 0) for count in kinds)]
