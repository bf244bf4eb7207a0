"""Rank the statements of a runbook by how directly they answer a question. An answer gives the best before the steps.

The rank comes from a weighted sum. It includes the similarity of a statement to the question, the words in common, the
section of the statement, and what the question asks for.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from math import log
from typing import Literal, NamedTuple

from ..base.texts import read_statements
from ..records import Passage
from .bm25 import content_words
from .reading import split_sentences

Kind = Literal["text", "row", "code"]
MOST_POINTS = 2
_ASKS_COMMAND = re.compile("コマンド|command|クエリ|query|KQL|打ち方", re.IGNORECASE)
_CONDITION = re.compile("(.*?)(?:場合|とき)(?:は|に|、)")

# For each detail: how a question asks for it, and how a statement with this detail looks.
_DETAILS = (
    (
        re.compile(
            "何分|何時間|何日|何か月|期限|いつ(?!も)|タイミング|どのくらい|までに|within|deadline|how long|when",
            re.IGNORECASE,
        ),
        re.compile(r"\d+\s*(?:秒|分|時間|日|営業日|か月|年)|当日|翌営業日|週次|直ちに|後に|前に"),
    ),
    (
        re.compile(
            "(?:誰|だれ|どこ|どちら|相手)[にへ].*(?:連絡|報告|電話|知らせ|伝え|言え|相談)|連絡先|who.*(?:contact|call|report)",
            re.IGNORECASE,
        ),
        re.compile("内線は?[0-9]+）?(?:へ|に)[^。]{0,60}(?:報告|連絡|電話|通報)(?!先)"),
    ),
    (
        re.compile(
            "誰(?![にへ].*(?:連絡|報告|電話|知らせ|伝え|言え|相談))|だれ(?![にへ])|承認|who(?!.*(?:contact|call|report))|approv",
            re.IGNORECASE,
        ),
        re.compile("承認|(?:へ|に)(?:報告|連絡|依頼|申請)|内線は?[0-9]|協議"),
    ),
    (re.compile("いくつ|何回|何件|何台|何を超え|how many", re.IGNORECASE), re.compile(r"\d")),
)


# What counts for a statement, fitted on the looked-at questions of benchmarks/assistant.md: its section's score (0–1), its
# similarity (from -1 to 1), the rare words it shares (0–1), the share of its condition that the question has (0–1),
# and its place.
SECTION, ALIKE, SHARED, CONDITION = 6.0, 3.0, 2.2, 2.0
FIRST, FIRST_WANTED, FORBIDS, FORBIDS_ASKED, BACKGROUND = 0.5, 4.0, 1.0, 2.0, -1.3
COMMAND = 4.0  # if the question asks for a command
OPENS, LATER = 1.0, -0.3  # if the first response is wanted: for its first statement, and for each further one


class Point(NamedTuple):
    """Hold a statement and the passage that contains it."""

    section: Passage
    text: str
    kind: Kind = "text"
    score: float = 0.0  # how directly the statement answers the question, comparable within one question only
    place: int = 0  # among all ranked statements, in the runbook's order


def details_asked(question: str) -> list[re.Pattern[str]]:
    """Return for each detail that a question asks for (who, when, how many) the pattern of statements that tell it."""
    return [told for asks, told in _DETAILS if asks.search(question)]


def asks_command(question: str) -> bool:
    return bool(_ASKS_COMMAND.search(question))


def rank_statements(
    question: str,
    own: Sequence[Passage],  # of the runbook, with their scores for the question
    likeness: Mapping[str, float],  # {sentence: similarity to the question}
    *,
    first: Collection[Passage],  # with the first response
    wants_first: bool,  # whether the answer should begin with it
    background: Collection[Passage],  # what people seldom ask for
    forbidding: Collection[Passage],
    wants_leave: bool,  # whether the question asks for permission, or announces what will be done
) -> list[Point]:
    """Return the statements of a runbook, the one that answers a question most directly first."""
    found = [(section, s, n) for section in own for n, s in enumerate(read_statements(section.text))]
    asked = content_words(question)
    wants_command = asks_command(question)
    shared = rate_words(asked, [(section, statement.text) for section, statement, _ in found])
    rated = [
        Point(
            section,
            statement.text,
            statement.kind,
            SECTION * section.score
            + ALIKE * max([likeness.get(s, 0.0) for s in split_sentences(statement.text)] or [0.0])
            + SHARED * share
            + CONDITION * _fits_condition(asked, statement.text)
            + (FIRST + wants_first * (FIRST_WANTED + (LATER * n if n else OPENS))) * (section in first)
            + (FORBIDS * (not wants_first) + FORBIDS_ASKED * wants_leave) * (section in forbidding)
            + BACKGROUND * (section in background)
            + COMMAND * (statement.kind == "code" and wants_command),
            place,
        )
        for place, ((section, statement, n), share) in enumerate(zip(found, shared, strict=True))
    ]
    return sorted(rated, key=lambda point: -point.score)


def _fits_condition(asked: set[str], statement: str) -> float:
    condition = _CONDITION.match(statement)
    words = content_words(condition[1]) if condition else set()
    return len(words & asked) / max(len(words), 1)


def rate_words(asked: Collection[str], statements: Sequence[tuple[Passage, str]]) -> list[float]:
    """Return how many of the words `asked` each statement has, by rarity and its length; the best has 1."""
    words = [content_words(f"{section.heading.split(' > ')[-1]} {text}") for section, text in statements]
    known_in = Counter(word for some in words for word in some)
    rarity = {word: log(1 + len(words) / known_in[word]) for word in asked if word in known_in}
    shared = [sum(rarity.get(word, 0.0) for word in some) / max(len(some), 1) ** 0.5 for some in words]
    most = max([*shared, 0.0]) or 1.0
    return [share / most for share in shared]


def find_points(question: str, ranked: Sequence[Point]) -> list[Point]:
    """Return the statements that answer a question in a line or two, at most MOST_POINTS, and no commands.
    First comes one for each detail asked. If any tells a detail, those that tell none are left out."""
    wanted = details_asked(question)
    told = [point for point in ranked if point.kind != "code"]
    telling = [point for point in told if any(pattern.search(point.text) for pattern in wanted)] or told
    points: list[Point] = []
    for point in telling:
        if found := [pattern for pattern in wanted if pattern.search(point.text)]:
            wanted = [pattern for pattern in wanted if pattern not in found]
            points.append(point)
    points += [point for point in telling if point not in points]
    return points[:MOST_POINTS]
