"""The statements of a runbook that answer a question most directly: they stand before its steps.

A weighted sum tells them apart; the weights were found on labelled questions (docs/assistant.md).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from math import log
from typing import NamedTuple

from ..base.quoting import Statement, find_severities, read_statements
from ..records import Passage
from .bm25 import content_words
from .reading import split_sentences

MOST_POINTS = 2
MOST_ROWS = 5
_CONDITION = re.compile("(.*?)(?:場合|とき)(?:は|に|、)")

# What a question for a detail asks about, and how a statement that tells it looks.
_DETAILS = (
    (
        re.compile(
            "何分|何時間|何日|何か月|期限|いつ|タイミング|どのくらい|までに|within|deadline|how long|when",
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


class Weights(NamedTuple):
    """What counts for a statement: its section's score, its similarity (-1–1), the words it shares, how much of its
    condition the question speaks of, and where it stands."""

    section: float
    alike: float
    shared: float
    condition: float
    in_first_response: float
    opens_section: float
    forbids: float
    is_background: float


# Found on 92 questions, and on 54 reports of three sentences or more.
FOR_DETAIL = Weights(3.0, 1.1, 1.9, 0.0, 1.2, 1.4, 1.5, -1.5)
FOR_REPORT = Weights(6.0, 3.0, 2.4, 2.0, 0.5, 0.0, 2.0, -1.3)


class Point(NamedTuple):
    """A statement with the passage that holds it."""

    section: Passage
    text: str


def details_asked(question: str) -> list[re.Pattern[str]]:
    """How a statement looks that tells who, when or how many, for each of them that a question asks."""
    return [told for asks, told in _DETAILS if asks.search(question)]


def find_points(
    question: str,
    own: Sequence[Passage],
    likeness: Mapping[str, float],
    *,
    first: Sequence[Passage],
    background: Sequence[Passage],
    forbidding: Sequence[Passage],
    details: Sequence[re.Pattern[str]],
    weights: Weights,
) -> tuple[Point, ...]:
    """At most MOST_POINTS statements of a runbook, in its order; only such as tell a detail, where one is asked for.

    own: its passages, with scores; likeness: similarity to the question of each of their sentences; first, background,
    forbidding: those of them with the first response, with what is seldom asked for, and with what is forbidden; details:
    how the details look that are asked for."""
    found = [(section, s, n == 0) for section in own for n, s in enumerate(_statements(question, section))]
    asked = content_words(question)
    shared = rate_words(asked, [(section, s.text) for section, s, _ in found])
    rated = []
    for n, ((section, statement, opens), share) in enumerate(zip(found, shared, strict=True)):
        told = [pattern for pattern in details if pattern.search(statement.text)]
        score = (
            weights.section * section.score
            + weights.alike * max([likeness.get(s, 0.0) for s in split_sentences(statement.text)] or [0.0])
            + weights.shared * share
            + weights.condition * _fits_condition(asked, statement.text)
            + weights.in_first_response * (section in first)
            + weights.opens_section * opens
            + weights.forbids * (section in forbidding)
            + weights.is_background * (section in background)
        )
        rated.append((score, -n, told, Point(section, statement.text)))
    rated.sort(key=lambda row: row[:2], reverse=True)
    telling = [row for row in rated if row[2]] or rated
    points = best_points(details, [(told, point) for *_, told, point in telling])
    return tuple(sorted(points, key=lambda point: own.index(point.section)))


def _fits_condition(asked: set[str], statement: str) -> float:
    """How much of a statement's condition (…場合、) a question speaks of, 0–1; 0 where it has none."""
    condition = _CONDITION.match(statement)
    words = content_words(condition[1]) if condition else set()
    return len(words & asked) / max(len(words), 1)


def rate_words(asked: Collection[str], statements: Sequence[tuple[Passage, str]]) -> list[float]:
    """How far each statement, under the heading of its section, has the words asked for, 0–1; rare ones count more."""
    words = [content_words(f"{section.heading.split(' > ')[-1]} {text}") for section, text in statements]
    known_in = Counter(word for some in words for word in some)
    rarity = {word: log(1 + len(words) / known_in[word]) for word in asked if word in known_in}
    shared = [sum(rarity.get(word, 0.0) for word in some) / max(len(some), 1) ** 0.5 for some in words]
    most = max([*shared, 0.0]) or 1.0
    return [share / most for share in shared]


def best_points(wanted: Sequence[re.Pattern[str]], rated: Sequence[tuple[list[re.Pattern[str]], Point]]) -> list[Point]:
    """The first that tell the details wanted, one per detail, then the first of the rest; at most MOST_POINTS.

    rated: what each point tells of `wanted`, best first."""
    left = list(wanted)
    points: list[Point] = []
    for told, point in rated:
        if any(pattern in left for pattern in told):
            left = [pattern for pattern in left if pattern not in told]
            points.append(point)
    points += [point for _, point in rated if point not in points]
    return points[:MOST_POINTS]


def _statements(question: str, section: Passage) -> Iterator[Statement]:
    statements = list(read_statements(section.text))
    yield from choose_rows(question, [s for s in statements if s.kind == "row"])
    yield from (s for s in statements if s.kind == "text")


def choose_rows(question: str, rows: Sequence[Statement]) -> Sequence[Statement]:
    """The rows of a table that a question is about: of its severities, or that share a word with it; of a short one all."""
    severities = find_severities(question)
    named = [row for row in rows if any(row.text.startswith(severity) for severity in severities)]
    if named:
        return named
    if len(rows) <= MOST_ROWS:
        return rows
    asked = content_words(question)
    return [row for row in rows if asked & content_words(row.text)][:MOST_ROWS]
