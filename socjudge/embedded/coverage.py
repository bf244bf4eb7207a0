"""Measure how far an answer covers the expected keypoints."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..base.texts import fold
from ..runbooks.bm25 import content_words
from ..runbooks.embeddings import cosines
from .facts import EITHER_ROLE, without_people
from .reading import ADMITS, EMPTY, Reading, embed_once, ramp

_CLAUSE = re.compile(r"[、。：:]")
_TELLING = re.compile(r"(?:を|と|かを|よう)?(?:尋ねる|伝える|案内する|求める|示す|説明する|止める)$")
# Below the first value a keypoint is not covered, from the second it is; likeness beyond, up to the third, counts a
# little, so that the keypoint in other words is marked like the keypoint. Tuned on the dev half.
_COVERAGE = (0.35, 0.48, 0.60)
_COVERED = 0.9  # of a keypoint, from the second value
_PREDICATE = re.compile(r"(?:[うくぐすつぬぶむる]|た|だ|である|ない|ます|ません|です|ください|こと|要)[。)]?\s*$")
_VAGUE = re.compile(
    r"適切|状況に応じ|必要に応じ|しっかり|きちんと|慎重に|ていねい|丁寧|十分に|配慮|心がけ|留意|重要|大切"
)
_MANNER = re.compile("[一-龠々]{2}的[なに]")
_NO_GUESS = re.compile(r"推測|そのまま当てはめ")


def rate_coverage(wanted: Sequence[str], reading: Reading) -> list[float]:
    """Return how far each keypoint is covered, 0–1, by words and similarity of the answer's nearest statement or
    clause.

    If a keypoint says that the answer must decline, it gets 1 if the answer says that the runbooks have nothing, else
    0. The measure cannot see whether the statement means what the keypoint means. It may miss a keypoint in other
    words.
    """
    said = [
        (u.text, reading.groups[u.group])
        for u in reading.units
        if not (u.is_heading or reading.recommended[u.text] or u.text in reading.echoes)
    ]
    # 影響範囲の調査を実施する says no more than a heading.
    titles = [content_words(heading) | EMPTY for _, heading in reading.names if heading]
    told: dict[str, set[str]] = {}
    for text, whole in said:
        own = content_words(text) & reading.passage_words
        told.setdefault(whole, set()).update(() if any(own <= title for title in titles) else own)
    # What a statement is about also shows in the heading that it was taken from; of contexts without headings, in the
    # answer's own above it.
    over = _headings(reading)
    for claim, origin in zip(reading.claims, reading.origins, strict=True):
        if heading := origin or over.get(claim.group, ""):
            said.append((f"{heading} {claim.text}", reading.groups[claim.group]))
    clauses = {part: whole for text, whole in said for part in [text, *_CLAUSE.split(text)] if len(fold(part)) > 3}
    if not clauses:
        return [0.0] * len(wanted)
    named = set().union(
        *map(content_words, reading.question.expected_keypoints), content_words(reading.question.question)
    )
    # A statement that says no more than the keypoints' words was told nothing by the runbooks.
    hollow = 1.0 if reading.should_decline or reading.should_ask else 0.3
    weight = {t: 1.0 if told[t] and (_tells(t) or len(told[t] - named) > 1) else hollow for t in set(clauses.values())}
    options = [_options(keypoint) for keypoint in wanted]
    asked = [[_asked_words(option) for option in each] for each in options]
    # What shares no word with any keypoint covers none, unless one is without words: it need not be embedded.
    every = {word for each in asked for words in each for word in words}
    texts = [text for text in clauses if content_words(text) & every or not all(map(all, asked))]
    words = [content_words(text) for text in texts]
    flat = [option for each in options for option in each]
    vectors = embed_once([*flat, *texts])
    likeness = iter(cosines(vectors[: len(flat)], vectors[len(flat) :]))
    found = []
    for keypoint, each in zip(wanted, asked, strict=True):
        shares = [
            _grade(_likeness(float(alike), own, words[j], reading.rarity)) * weight[clauses[texts[j]]]
            for own, row in zip(each, likeness, strict=False)
            for j, alike in enumerate(row)
        ]
        declines = ADMITS.search(keypoint) or (reading.should_decline and _NO_GUESS.search(keypoint))
        found.append(float(reading.admits) if declines else max(shares, default=0.0))
    return found


def _headings(reading: Reading) -> dict[int, str]:
    """Return {group of statements: the answer's heading above it}; "" if the heading only repeats the question or a
    keypoint.
    """
    found, heading = {}, ""
    for unit in reading.units:
        if unit.is_heading:
            heading = "" if unit.text in reading.echoes else unit.text.split(">")[-1].strip()
        found[unit.group] = heading
    return found


def _likeness(alike: float, asked: set[str], said: set[str], rare: dict[str, float]) -> float:
    """Return the mean of the similarity and of the share of common words, 0–1.

    If a keypoint has no words to compare (いつからか), return the similarity alone.
    """
    return 0.5 * alike + 0.5 * _shared(asked, said, rare) if asked else alike


def _grade(likeness: float) -> float:
    """Return how far a statement covers a keypoint, 0–1, computed from its likeness to the keypoint."""
    low, enough, high = _COVERAGE
    return _COVERED * ramp(likeness, low, enough) + (1 - _COVERED) * ramp(likeness, enough, high)


def _options(keypoint: str) -> list[str]:
    """Return the alternatives of a keypoint, each of which covers it: either side of "A または B"."""
    topic = _TELLING.sub("", keypoint) or keypoint  # "…を尋ねる" is about what is asked, not about asking
    options = [EITHER_ROLE.sub(r"\1", topic), EITHER_ROLE.sub(r"\2", topic)]
    return topic.split("または") if options[0] == topic else options


def _asked_words(option: str) -> set[str]:
    """Return the words of an option. Words for manner (具体的な), who and when are left out unless the option says little
    else, because 正確性 checks them.
    """
    option = _MANNER.sub("", option)
    words = content_words(without_people(option))
    return words if len(words) > 2 else content_words(option)


def _tells(statement: str) -> bool:
    """Return whether a statement says what to do, and does not only name things or ask for care in general."""
    return bool(_PREDICATE.search(statement)) and not _VAGUE.search(statement)


def _shared(part: set[str], whole: set[str], rare: dict[str, float]) -> float:
    """Return the share (0–1) of the words in `part` that are in `whole`, each weighted by its rarity in the passages.

    A word that no passage has counts as the average of the others: the answer cannot have it from the passages.
    """
    known = [rare[word] for word in part if word in rare]
    unheard_of = sum(known) / len(known) if known else 1.0
    weights = {word: rare.get(word, unheard_of) for word in part}
    return sum(weights[word] for word in part & whole) / sum(weights.values()) if part else 0.0
