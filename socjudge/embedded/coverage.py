"""Measure how far an answer covers the expected keypoints of the question."""

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
# Likeness: up to the first value a keypoint is not covered, from the second on it is. From there to the third, the score
# rises only a little, so that a keypoint in other words gets nearly the full score. Tuned on the dev half.
_COVERAGE = (0.35, 0.48, 0.60)
_COVERED = 0.9  # how far a keypoint is covered at the second value
_PREDICATE = re.compile(r"(?:[うくぐすつぬぶむる]|た|だ|である|ない|ます|ません|です|ください|こと|要)[。)]?\s*$")
_VAGUE = re.compile(
    r"適切|状況に応じ|必要に応じ|しっかり|きちんと|慎重に|ていねい|丁寧|十分に|配慮|心がけ|留意|重要|大切"
)
_MANNER = re.compile("[一-龠々]{2}的[なに]")
_NO_GUESS = re.compile(r"推測|そのまま当てはめ")


def rate_keypoints(wanted: Sequence[str], reading: Reading) -> list[float]:
    """Return how far the answer covers each keypoint (a point that the dataset expects in the answer), 0–1."""
    said = [
        (u.text, reading.groups[u.group])
        for u in reading.units
        if not (u.is_heading or reading.recommended[u.text] or u.text in reading.echoes)
    ]
    # A statement with only the words of a heading says nothing more: 影響範囲の調査を実施する.
    titles = [content_words(heading) | EMPTY for _, heading in reading.names if heading]
    told: dict[str, set[str]] = {}
    for text, whole in said:
        own = content_words(text) & reading.passage_words
        told.setdefault(whole, set()).update(() if any(own <= title for title in titles) else own)
    # The heading of its passage also shows what a statement is about. If the context has no headings, the answer's own
    # heading above it does.
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
    # A statement whose words are all from the keypoints has taken nothing from the runbooks.
    hollow = 1.0 if reading.should_decline or reading.should_ask else 0.3
    weight = {t: 1.0 if told[t] and (_tells(t) or len(told[t] - named) > 1) else hollow for t in set(clauses.values())}
    options = [_options(keypoint) for keypoint in wanted]
    asked = [[_asked_words(option) for option in each] for each in options]
    # A text that shares no word with a keypoint covers none and need not be embedded, unless a keypoint has no words.
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
        # That the answer must decline is covered if it says that the runbooks have nothing.
        declines = ADMITS.search(keypoint) or (reading.should_decline and _NO_GUESS.search(keypoint))
        found.append(float(reading.admits) if declines else max(shares, default=0.0))
    return found


def _headings(reading: Reading) -> dict[int, str]:
    found, heading = {}, ""
    for unit in reading.units:
        if unit.is_heading:
            heading = "" if unit.text in reading.echoes else unit.text.split(">")[-1].strip()
        found[unit.group] = heading
    return found


def _likeness(alike: float, asked: set[str], said: set[str], rare: dict[str, float]) -> float:
    """Take the similarity alone for a keypoint without words to compare, such as いつからか (since when)."""
    return 0.5 * alike + 0.5 * _shared(asked, said, rare) if asked else alike


def _grade(likeness: float) -> float:
    low, enough, high = _COVERAGE
    return _COVERED * ramp(likeness, low, enough) + (1 - _COVERED) * ramp(likeness, enough, high)


def _options(keypoint: str) -> list[str]:
    """An answer that has one side of 「A または B」 (A or B) covers the keypoint."""
    topic = _TELLING.sub("", keypoint) or keypoint  # of …を尋ねる, only what is asked counts
    options = [EITHER_ROLE.sub(r"\1", topic), EITHER_ROLE.sub(r"\2", topic)]
    return topic.split("または") if options[0] == topic else options


def _asked_words(option: str) -> set[str]:
    """Leave out words for manner, and where enough others remain, roles and numbers, which 正確性 checks."""
    option = _MANNER.sub("", option)
    words = content_words(without_people(option))
    return words if len(words) > 2 else content_words(option)


def _tells(statement: str) -> bool:
    """Mere names, and general advice such as to take care, do not say what to do."""
    return bool(_PREDICATE.search(statement)) and not _VAGUE.search(statement)


def _shared(part: set[str], whole: set[str], rare: dict[str, float]) -> float:
    """Give words of no passage the average weight: the passages cannot have given them to the answer."""
    known = [rare[word] for word in part if word in rare]
    unheard_of = sum(known) / len(known) if known else 1.0
    weights = {word: rare.get(word, unheard_of) for word in part}
    return sum(weights[word] for word in part & whole) / sum(weights.values()) if part else 0.0
