"""What is wrong in an answer by its passages: statements against them, steps out of order, citations that do not hold."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection, Sequence

from ..base.texts import Unit, bigrams, containment, fold
from ..rules.dangers import operations_named
from ..rules.facts import (
    find_agents,
    find_approvers,
    find_facts,
    find_recipients,
    find_roles,
    is_negative,
    is_same_role,
    without_people,
)
from ..runbooks.bm25 import content_words
from .answer_reading import Reading

_IMMEDIATE = re.compile(r"直ちに|最初に|まず|何より先")
_CONDITIONAL = re.compile(r"場合|れば|たら|とき|次第|承認|なら")
_SUMMARY = re.compile("(?:要点|まとめ|結論)[:：]")
_TELLS = re.compile("報告|連絡|知らせ|伝え|一報|上げ|へ[。」]")
_SAME_THING = 0.25  # of a keypoint's character pairs, people left out
_DEADLINE = re.compile(r"\d+\s*(?:分|時間|日)以内")
_NUMBERED = re.compile(r"^\s*\d+[.)]\s*(.+)$", re.MULTILINE)


def find_misplaced(reading: Reading) -> str:
    """A step that stands behind one that the passages put after it; "" if none does."""
    places: dict[tuple[int, str], tuple[int, int]] = {}
    for p, passage in enumerate(reading.passages):
        for n, match in enumerate(_NUMBERED.finditer(passage)):
            places[p, match[1].strip()] = (p, n)
    steps = [(place, bigrams(fold(text))) for (_, text), place in places.items()]
    placed: dict[int, list[int]] = {}
    timed = 0
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
        at_once = timed > 1 and _IMMEDIATE.search(claim.text) and not _CONDITIONAL.search(claim.text)
        if not late and (at_once or any(n > place[1] for n in before)):
            late = claim.text
        hurried |= bool(at_once)
        before.append(place[1])
        timed += bool(_DEADLINE.search(claim.text))
    # One step out of place may be a matter of taste.
    moved = max((len(steps) - _longest_rise(steps) for steps in placed.values()), default=0)
    return late if hurried or moved > 1 else ""


def _longest_rise(numbers: Sequence[int]) -> int:
    """How many of the numbers can stay where they are when the rest is put in order."""
    ends: list[int] = []
    for number in numbers:
        place = bisect_left(ends, number)
        ends[place : place + 1] = [number]
    return len(ends)


def find_other_people(reading: Reading) -> str:
    """Who an answer points to where it names none of those that the keypoints name; "" if it names one."""

    def people(text: str) -> set[str]:
        return {fact.value for fact in find_facts(text) if fact.kind == "role"}

    wanted = {role for keypoint in reading.question.expected_keypoints for role in people(keypoint)}
    named = people("。".join(unit.text for unit in reading.units))
    return "" if not wanted or wanted & named else "、".join(sorted(named))


def find_wrong_roles(reading: Reading) -> list[str]:
    """The statements that give a thing to a role to which neither passages nor keypoints give it."""
    keypoints = [(k, roles) for k in reading.question.expected_keypoints if (roles := find_roles(k))]
    given = find_roles(reading.question.question).union(*(roles for _, roles in keypoints))
    told = {role for table in reading.deadlines for _, role in table}
    wrong = []
    strangers: dict[str, set[str]] = {}  # of each statement, the roles that no source about it names
    for claim, about, support in zip(reading.claims, reading.about, reading.support, strict=True):
        there = find_roles("。".join(about[:2]))
        strangers[claim.text] = {role for role in find_roles(claim.text) if not _among(role, there)}
        known = given | told if _TELLS.search(claim.text) else given
        if (
            support >= 0.5
            and about
            and (others := _names_others(claim.text, about[0], strangers[claim.text], known))
            and not any(_gives_it(source.text, claim.text, others) for source in reading.sources)
        ):
            wrong.append(claim.text)
    said = [u.text for u in reading.units if u.text not in reading.echoes and not u.is_heading]
    every = find_roles("。".join(said))
    for keypoint, roles in keypoints:
        if any(_among(role, every) for role in roles):
            continue
        # Nobody whom the keypoint names is named: who is, in the statements about the same thing?
        own = bigrams(fold(without_people(keypoint)))
        near = [text for text in said if containment(own, bigrams(fold(without_people(text)))) >= _SAME_THING]
        wrong += [text for text in near if strangers.get(text, find_roles(text))]
    return list(dict.fromkeys(wrong))


def _names_others(statement: str, source: str, strangers: Collection[str], known: Collection[str]) -> set[str]:
    """Whom a statement has do, be told or approve what its source gives to others. strangers: the roles that no
    source about the same thing names; known: those who are right anyway."""
    shared = len(content_words(without_people(statement)) & content_words(without_people(source)))
    approvers, right = find_approvers(statement), find_approvers(source)
    if shared > 1 and approvers and right and not any(_among(role, {*right, *known}) for role in approvers):
        return approvers
    named = {role for find in (find_agents, find_recipients) if shared and find(source) for role in find(statement)}
    return {role for role in named if role in strangers and not _among(role, known)}


def _gives_it(source: str, statement: str, roles: Collection[str]) -> bool:
    """Whether another source that shares three words with a statement names one of these roles."""
    shared = content_words(without_people(source)) & content_words(without_people(statement))
    return len(shared) > 2 and any(_among(role, find_roles(source)) for role in roles)


def _among(role: str, roles: Collection[str]) -> bool:
    return any(is_same_role(role, other) for other in roles)


def does_banned(reading: Reading, unit: Unit) -> bool:
    """Whether a statement recommends, with a citation, a destructive operation that the passages speak against."""
    kinds = {danger.operation for danger in reading.recommended[unit.text]}
    if not kinds or not unit.cited or unit.is_warning:
        return False
    return any(is_negative(source.text) and kinds & operations_named(source.text) for source in reading.sources)


def find_unfounded_start(reading: Reading) -> str:
    """The instruction that an answer begins with, if no passage supports it; "" if one does."""
    if not reading.claims or reading.should_ask or (reading.should_decline and reading.admits):
        return ""
    first = reading.claims[0]
    return first.text if reading.support[0] < 0.5 and re.match("まず|最初に|はじめに", first.text) else ""


def rate_citation(reading: Reading, i: int) -> float:
    """1 if a citation of claim i names a passage that holds it, less if it names another of an existing file, 0 if none."""
    own, pairs = reading.claim_pairs[i], reading.passage_pairs
    holds = [containment(own, other) for other in pairs]
    best = max(holds, default=0.0)
    found = 0.0
    for source in reading.claims[i].cited:
        places = reading.places_named(source)
        here = reading.places_headed(source)
        if any(holds[p] >= min(0.6 * best, 0.5) for p in here) or any(
            source in reading.passages[p] for p in here for source in reading.about[i]
        ):
            return 1.0
        if places:
            found = 0.25
    return found
