"""Find two faults of an answer by comparing it with the passages: steps in the wrong order, and citations that do not
support a claim.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence

from ..base.texts import bigrams, containment, fold
from .reading import Reading

_IMMEDIATE = re.compile(r"直ちに|最初に|まず|何より先")
_CONDITIONAL = re.compile(r"場合|れば|たら|とき|次第|承認|なら")
_SUMMARY = re.compile("(?:要点|まとめ|結論)[:：]")
_DEADLINE = re.compile(r"\d+\s*(?:分|時間|日)以内")
_NUMBERED = re.compile(r"^\s*\d+[.)]\s*(.+)$", re.MULTILINE)


def find_misplaced(reading: Reading) -> str:
    """Return the first step that stands after one that follows it in the passages; "" if there is none."""
    places: dict[tuple[int, str], tuple[int, int]] = {}
    for p, passage in enumerate(reading.passages):
        for n, match in enumerate(_NUMBERED.finditer(passage)):
            places[p, match[1].strip()] = (p, n)
    steps = [(place, bigrams(fold(text))) for (_, text), place in places.items()]
    placed: dict[int, list[int]] = {}
    timed: list[tuple[int, int]] = []
    late, hurried = "", False
    for claim in reading.claims:
        if _SUMMARY.match(claim.text):
            continue
        own = bigrams(fold(claim.text))
        place, likeness = max(
            ((place, containment(own, pairs)) for place, pairs in steps), key=lambda f: f[1], default=((0, 0), 0.0)
        )
        if likeness < 0.6:
            continue
        before = placed.setdefault(place[0], [])
        if place[1] in before:
            continue
        # A step to be done at once counts alone if two or more steps with deadlines stand before it and should not.
        at_once = (
            sum(other > place for other in timed) > 1
            and _IMMEDIATE.search(claim.text)
            and not _CONDITIONAL.search(claim.text)
        )
        if not late and (at_once or any(n > place[1] for n in before)):
            late = claim.text
        hurried |= bool(at_once)
        before.append(place[1])
        if _DEADLINE.search(claim.text):
            timed.append(place)
    # One misplaced step may be a matter of taste.
    moved = max((len(steps) - _longest_rise(steps) for steps in placed.values()), default=0)
    return late if hurried or moved > 1 else ""


def _longest_rise(numbers: Sequence[int]) -> int:
    """Count the numbers that can keep their places while the others are moved into order."""
    ends: list[int] = []
    for number in numbers:
        place = bisect_left(ends, number)
        ends[place : place + 1] = [number]
    return len(ends)


def rate_citation(reading: Reading, i: int, cited: Sequence[str]) -> float:
    """Return how well citations fit claim `i`: 1 if one names a supporting passage, 0.25 if any file, else 0."""
    own, pairs = reading.claim_pairs[i], reading.passage_pairs
    holds = [containment(own, other) for other in pairs]
    best = max(holds, default=0.0)
    found = 0.0
    for source in cited:
        places = reading.places_named(source)
        here = reading.places_headed(source)
        if any(holds[p] >= min(0.6 * best, 0.5) for p in here) or any(
            source in reading.passages[p] for p in here for source in reading.about[i]
        ):
            return 1.0
        if places:
            found = 0.25
    return found
