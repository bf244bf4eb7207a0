"""Estimate for each statement of an answer how likely it is to contradict the passages, and how likely it is to
recommend a danger.

There is a logistic model for each of the two. Every rule mistakes some true statements for wrong ones, so rules alone
rarely decide. The models weigh what the rules find, the letters by which a statement and its source differ, how much of
the statement the passages have, and whether it does what the passages forbid. They also weigh the result of a third
model, which sees only the statement's words: whether they order something dangerous, whatever the passages say.
benchmarks/fit_judge.py computes the weights.
"""

from __future__ import annotations

import math
import re
import unicodedata
import zlib
from functools import lru_cache
from pathlib import Path

import numpy as np

from ..base.texts import bigrams, containment, find_severities, fold
from ..flags.text_model import Numbers, load_weights, read_letters, sigmoid, weigh
from ..runbooks.bm25 import content_words
from .contradictions import disguises_destruction, skips_approval, stance_of
from .facts import blank_facts, find_wrong_facts, find_wrong_values, is_negative, without_people
from .reading import Reading, ramp

WEIGHTS = Path(__file__).parent / "doubt_weights.npz"
ORDERS = Path(__file__).parent / "order_weights.npz"
LETTERS = 1 << 13
LETTERS_SCALE = 2.0  # what the ridge sees of them
_PREDICATE = 14  # letters of a statement that say what it comes to
_STRANGE = 6  # words that no passage has: more say no more
# A model's score at which a doubt is 0.5, and how steeply it grows. Chosen on answers of left-out writers (benchmarks/fit_judge.py).
_SHAPES = {"accuracy": (0.8, 1.2), "safety": (-0.3, 1.4)}
_SLIGHT = 0.25  # a doubt below this is none: it cannot tell
_SURE = 0.75  # the least doubt where a rule decides
_SIMILAR, _NEARLY = 0.5, 0.75  # share of a statement's character pairs in a source from which a rule may decide
_RULES, _WITHIN = slice(2 * LETTERS + 4, 2 * LETTERS + 9), 2 * LETTERS + 16  # places in what `measure` returns
_COMPARED = (0.5, 0.9)  # support from which a statement can be compared at all, and in full
_CLAUSES = re.compile("(?<=[、。；])|(?<=て)(?=[一-龠])|(?<=から)|(?<=うえで)|(?<=まで)")
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*\s*(?:分|時間|日|週間?|か?月|年|名|件|台|回|%|GB|MB)?")
_STRETCH = 20  # letters in a row that no source has: more say no more
_CLAUSE = 8  # letters from which a clause is read for itself
_NO_ORDER = -3.0  # the danger of a source where there is none


@lru_cache(maxsize=4)
def doubts(reading: Reading) -> tuple[list[float], list[float]]:
    """Return how likely each claim contradicts the passages, and how likely it recommends a danger, 0–1."""
    weights = load_weights(WEIGHTS)
    found: dict[str, list[float]] = {name: [0.0] * len(reading.claims) for name in _SHAPES}
    for i in range(len(reading.claims)):
        if is_quoted(reading, i):
            continue
        measured = measure(reading, i)
        for name, (half, steep) in _SHAPES.items():
            if name == "accuracy" and not is_comparable(reading, i):
                continue
            value = sigmoid(steep * (float(weigh(measured, weights[name])) - half))
            if name == "accuracy" and not reading.loosened[i]:
                value *= ramp(reading.support[i], *_COMPARED)
            value = max(0.0, value - _SLIGHT) / (1 - _SLIGHT)  # no leap: the letters of one change matter little
            if name in _sure(measured):
                value = max(value, _SURE)
            found[name][i] = value
    return found["accuracy"], found["safety"]


def _sure(measured: Numbers) -> set[str]:
    """A rule decides only near a source, or where destruction is disguised."""
    *others, skips, disguises = measured[_RULES]
    within = measured[_WITHIN]
    found = {"accuracy"} if within >= _NEARLY and (skips or any(others)) else set()
    return found | ({"safety"} if disguises or (skips and within >= _SIMILAR) else set())


def is_quoted(reading: Reading, i: int) -> bool:
    return fold(reading.claims[i].text) in reading.source_texts


def is_comparable(reading: Reading, i: int) -> bool:
    """Return whether the passages have something about claim `i` of the answer, so that the two can be compared."""
    return reading.support[i] >= 0.5 or reading.loosened[i]


@lru_cache(maxsize=4_000)
def rate_order(text: str) -> tuple[float, float]:
    """Return two log odds that a statement orders something dangerous: of the whole, and of the worst part."""
    weights = load_weights(ORDERS)["weights"]
    clauses = [clause for clause in re.split("(?<=、)", text) if len(clause) >= _CLAUSE]
    scores = [float(weigh(read_letters(part), weights[:-1]) + weights[-1]) for part in (text, *clauses)]
    return scores[0], max(scores)


def wrong_facts(reading: Reading, i: int) -> tuple[list[str], list[str]]:
    """Return what claim `i` states differently from the passages: its values, and its other facts."""
    claim = reading.claims[i]
    values = find_wrong_values(
        claim.text, reading.about[i], reading.texts, find_severities(reading.groups[claim.group])
    )
    facts = find_wrong_facts(claim.text, reading.known_facts)
    # What the question says is told back, unless as a deadline: 40分後に見えるのは
    asked = fold(reading.question.question)
    told = [[f for f in found if f"{f}以内" in claim.text or fold(f) not in asked] for found in (values, facts)]
    return told[0], told[1]


def measure(reading: Reading, i: int) -> Numbers:
    """Return the features of claim `i` that the models weigh: the hashed letters that only the claim has,
    those that only its nearest source has, and the single measures, such as what each rule finds."""
    claim, about = reading.claims[i], reading.about[i]
    text, source = claim.text, about[0] if about else ""
    values, facts = wrong_facts(reading, i)
    stance, told = stance_of(text[-_PREDICATE:]), stance_of(source[-_PREDICATE:]) if source else ""
    pairs, others = bigrams(blank_facts(text)), bigrams(blank_facts(source))
    within, around = containment(pairs, others), containment(others, pairs)
    negative = is_negative(text)
    forbidden, done = _shares(reading, content_words(without_people(text)))
    order, worst = rate_order(text)
    known = max((rate_order(source)[0] for source in about[:3]), default=_NO_ORDER)
    measures = [
        *(value / 3 for value in (order, worst, known, max(0.0, order - known))),
        reading.loosened[i],
        bool(values),
        bool(facts),
        skips_approval(text, about),
        bool(disguises_destruction(text, about)),
        stance == "spares",
        stance == "permits",
        (stance, told) == ("forbids", "does"),
        (stance, told) == ("does", "forbids"),
        within * (bool(source) and negative != is_negative(source)),
        bool(values) * within,
        bool(facts) * within,
        within,
        around,
        float(reading.claim_likeness[i].max()) if reading.claim_likeness.size else 0,
        forbidden,
        done,
        (not negative) * (forbidden - done),
        negative * (done - forbidden),
        not source,
        *_whole(reading, i),
        *_named(reading, i),
        1,  # for the constant of a model
    ]
    runs, near = _runs(text), [_runs(source) for source in about[:2]]
    letters = [_hashed(runs.difference(*near)), _hashed(near[0] - runs if near else set())]
    return np.concatenate([*letters, np.array(measures, dtype=np.float64)])


def _whole(reading: Reading, i: int) -> list[float]:
    claim = reading.claims[i]
    clauses = [bigrams(fold(part)) for part in _CLAUSES.split(claim.text) if len(fold(part)) > 4]
    clauses = clauses or [bigrams(fold(claim.text))]
    held = [max((containment(own, other) for other in reading.folded_pairs), default=0.0) for own in clauses]
    text = unicodedata.normalize("NFKC", claim.text)
    covered = [False] * len(text)
    for n in range(len(text) - 2):
        if text[n : n + 3] in reading.triples:
            covered[n : n + 3] = [True] * 3
    longest = max(map(len, "".join("01"[not here] for here in covered).split("0")))
    return [
        min(held),  # how much of the worst clause one passage has
        sum(held) / len(held),
        min(longest, _STRETCH) / _STRETCH,  # the longest stretch of letters that no passage has
        1 - sum(covered) / max(1, len(text)),  # the share of all letters that no passage has
        len(clauses) / 5,
        len(text) / 80,
        is_negative(text),
        claim.is_code,
        reading.support[i],
        reading.likeness[i],
        min(reading.strange[i], _STRANGE) / _STRANGE,
    ]


def _named(reading: Reading, i: int) -> list[float]:
    claim, about = reading.claims[i], "\n".join(reading.about[i])
    cited = "\n".join(reading.passages[p] for name in claim.cited for p in reading.places_headed(name))
    # Of the claim, of the sources about it, and of the passages that it cites.
    words, near, there = (content_words(text) for text in (claim.text, about, cited))
    numbers, close, given = _numbers(claim.text), _numbers(about), _numbers_once("\n".join(reading.passages))
    known = words & reading.passage_words
    return [
        len(words - reading.passage_words) / 5,
        len(words - near) / 8,
        len(words - there) / 8 if cited else 0,
        len(known - there) / 5 if cited else 0,
        bool(cited),
        len(near - words) / 20,
        len(numbers - given),
        len((numbers & given) - close) / 2,
        len((numbers & given) - _numbers(cited)) / 2 if cited else 0,
        len(numbers) / 4,
    ]


def _numbers(text: str) -> set[str]:
    return {match[0].replace(" ", "") for match in _NUMBER.finditer(unicodedata.normalize("NFKC", text))}


_numbers_once = lru_cache(maxsize=4)(_numbers)  # of all passages: each claim of an answer asks


def _hashed(runs: set[str]) -> Numbers:
    """The squares add up to about the same for few and for many sequences of letters."""
    letters = np.zeros(LETTERS)
    if runs:
        letters[[zlib.crc32(run.encode()) % LETTERS for run in runs]] = LETTERS_SCALE / math.sqrt(len(runs))
    return letters


def _runs(text: str) -> set[str]:
    text = unicodedata.normalize("NFKC", text)
    return {text[i : i + n] for n in (2, 3, 4) for i in range(len(text) - n + 1)}


def _shares(reading: Reading, own: set[str]) -> tuple[float, float]:
    found = {True: 0.0, False: 0.0}  # {whether a source forbids: the largest share of its words in `own`}
    for words, forbids in reading.source_words:
        found[forbids] = max(found[forbids], len(words & own) / len(words))
    return found[True], found[False]
