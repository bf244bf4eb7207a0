"""Choose the sections of one runbook that an answer follows, in the order of work.

A question is most like the sentence of a runbook that describes the same symptom. That is seldom the sentence that says
what to do. So the search only chooses the runbook. The answer then follows this runbook's own order: first response,
then the rest.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from .. import constants
from ..base.texts import find_severities, normalise_text
from ..records import Passage
from .asking import asks_leave, find_asking, is_of_stage, split_clauses, wants_leave
from .points import Point, asks_command, details_asked, find_points, rank_statements
from .reading import unnumbered

if TYPE_CHECKING:
    from .index import RunbookIndex

MOST_STEPS = 10
MOST_SECTIONS = 8
LENGTH = 1300  # characters of all steps together

# What a section is for, by words that the runbooks of any organisation use in their headings.
_FIRST = re.compile(
    "初動|初期対応|一次対応|最初|応急|(?:着手|検知|申告|発生)から|first response|immediate", re.IGNORECASE
)
_REPORTING = re.compile("報告|連絡|エスカレーション|escalation|report", re.IGNORECASE)
_FORBIDDEN = re.compile("禁止|してはならない|してはいけない|prohibit|do not", re.IGNORECASE)
_CONDITIONS = re.compile("発動|適用条件|開始条件|適用範囲|trigger|scope", re.IGNORECASE)
_CONTACTS = re.compile("連絡先|連絡網|contact", re.IGNORECASE)
_DEADLINES = re.compile("期限|deadline", re.IGNORECASE)
_APPROVAL = re.compile("承認|approv", re.IGNORECASE)

SECOND_VOTE = 0.1
# For a long question: the weight of its best sentence's own vote, and what sections of the stage it asks about get.
SENTENCE_VOTE = 0.5
STAGE_BONUS = 0.25
# A statement that is this much worse than the best one is about something else. A long question is about several things,
# so more is allowed. A first response is one thing, although its steps may share few words with the question.
FAR, FAR_OF_REPORT, FAR_OF_FIRST = 3.5, 6.0, 5.0

_NEVER_ASKED = ("目的", "関連手順書", "チェックリスト")

# The precautions: how each is searched for, and how the line that states it looks.
_PRECAUTIONS = {
    "power": (
        "証拠保全前に電源断・再起動・初期化をしない。",
        re.compile("(?:電源|再起動|シャットダウン).*(?:ない|禁止|禁じ)"),
    ),
    "files": (
        "ログやファイルを削除しない。",
        re.compile("(?:ログ|ファイル|メール|データ|証拠|痕跡).*(?:削除|消|上書き).*(?:ない|禁止|禁じ)"),
    ),
    "record": (
        "重大度S1の第一報は電話で行い、SOCチケットに記録する。",
        re.compile("(?:チケット|記録).*(?:記録|起票|記入|残)"),
    ),
    "call": (
        "重大度S1の第一報は電話で行い、SOCチケットに記録する。",
        re.compile("(?:電話|内線).*(?:連絡|報告|呼|伝え|行う|かけ)|(?:連絡|報告).*(?:電話|内線)"),
    ),
}

# What a question asks for.
_ASKS_FIRST = re.compile(
    "まず|最初|何から|なにから|何をすれば|何すれば|何をし(?!た(?!ら))|どうすれば|どうしたら|どうしよう|どうする|どう動|どう対応|何か(?:し|す)|しなきゃ|べき|初動|すぐ(?:やる|する)"
    r"|助けて|what (?:do|should) (?:i|we)|first thing"
)
_ASKS_TO_BEGIN = re.compile("まず|最初|何から|なにから|何をすれば|助けて")
_HAPPENED = re.compile(
    "(?:ました|てあります|てある|になって|ちゃった|ちゃいました|てしまった|じゃった|ている|ています|てる|てます|られた|された|った|出た|来た|きた|ない|です|ません|ってる|んだ)"
    r"(?:ん(?:だ|です)?)?(?:けど|けれど|けども|が|よ|ね|の|みたい(?:です)?|っぽい(?:です)?|らしい(?:です)?|そうです|ようです|はず(?:です)?|かも(?:しれません)?)*$"
)
_ASKS_CONDITIONS = re.compile("重大度|条件|基準|該当|当たる|当てはま|扱い|対象|severity|criteria", re.IGNORECASE)
_IF = re.compile("場合|とき|時は|には|したら|ときに")
_CLAUSE = re.compile(r"[。、！？!?\n…]+|\.{2,}|\.\s")


@dataclass(frozen=True)
class Guide:
    """Hold the parts of one runbook from which an answer to a question is made."""

    source: str = ""  # file name of the runbook
    points: tuple[Point, ...] = ()  # at most two statements that answer the question most directly
    steps: tuple[Point, ...] = ()  # at most MOST_STEPS more statements, in the runbook's order
    first: bool = False  # whether the answer begins with the runbook's first response (初動)
    conditions: tuple[Passage, ...] = ()  # say when the runbook applies
    prohibitions: tuple[Passage, ...] = ()  # the passage that says what the runbook forbids
    sections: tuple[Passage, ...] = ()  # what a model should read to answer

    @property
    def passages(self) -> tuple[Passage, ...]:
        """Return all passages of the guide. A passage may occur more than once."""
        said = (point.section for point in (*self.points, *self.steps))
        return (*self.sections, *said, *self.conditions, *self.prohibitions)


class Precautions(NamedTuple):
    """Hold the precautions that an answer gives while it is still unknown what happened."""

    said: Mapping[str, Passage]  # by the keys of _PRECAUTIONS that the runbooks mention
    knows_severities: bool  # whether the runbooks mention the severity S1


def find_precautions(index: RunbookIndex) -> Precautions:
    said: dict[str, Passage] = {}
    phone = index.organisation.leader.phone
    for precaution, (query, says) in _PRECAUTIONS.items():
        found = [p for p in index.search(query, 10) if any(says.search(line) for line in p.text.splitlines())]
        if precaution in ("power", "files"):
            found.sort(key=lambda p: not _FORBIDDEN.search(_top(p)))
        if precaution == "call":  # the line names the leader and S1, so its source should too
            found.sort(key=lambda p: -((phone in p.text) + ("S1" in find_severities(p.text))))
        if found:
            said[precaution] = found[0]
    return Precautions(said, any("S1" in find_severities(p.text) for p in index.passages))


def find_contacts(index: RunbookIndex) -> tuple[Passage, ...]:
    """Return the passages with the table of contacts and the table of deadlines, if the runbooks have these."""
    tables = [p for p in index.passages if "\n|" in f"\n{p.text}"]
    found = (next((p for p in tables if says.search(_last(p))), None) for says in (_CONTACTS, _DEADLINES))
    return tuple(p for p in found if p is not None)


def choose_guide(
    question: str,
    found: Sequence[Passage],  # best first, with scores
    index: RunbookIndex,
    *,
    safer: str | None = None,  # what to do instead, if the question asks for something dangerous
    detail: str = "",  # the text of a follow-up question that only asks for a detail, such as who or when
) -> Guide:
    """Choose the runbook that an answer follows, and its statements."""
    asking = "" if detail else find_asking(question)
    each = [index.search(clause, len(found)) for clause in split_clauses(question)] if asking else []
    source = choose_runbook(found, each)
    own = _rate_sections(f"{question} {safer}" if safer else question, asking, source, index)
    topic = asking or question
    wanted, forbidding = _wanted(own, topic, is_dangerous=safer is not None)
    opening = [p for p in wanted if _FIRST.search(p.heading) and not _is_background(p)]
    # Not if the question asks for a command, or a long one for another section.
    begins = bool(opening) and wants_first_response(question) and not asks_command(topic)
    begins = begins and not _asks_another(asking, wanted, opening)
    ranked = rank_statements(
        detail or question,
        wanted,
        _likeness(detail or question, asking, wanted, index),
        first=opening,
        wants_first=begins,
        background=[p for p in wanted if _is_background(p)],
        forbidding=forbidding,
        wants_leave=wants_leave(topic),
    )
    # The first response answers a short question that reports something. A long one seldom asks how to begin.
    answers_first = safer is None and (detail or asking or not begins or details_asked(question))
    points = find_points(detail or question, ranked) if answers_first else []
    if detail:  # in the runbook's order: whom to call first, then whom next
        points.sort(key=lambda point: point.place)
    if asks_leave(topic):  # a statement that forbids it comes before how it is done
        points.sort(key=lambda point: point.section not in forbidding)
    far = FAR_OF_REPORT if asking else FAR
    of_first = opening if begins else []
    near = [
        p for p in ranked if ranked[0].score - p.score <= (max(far, FAR_OF_FIRST) if p.section in of_first else far)
    ]
    steps = _choose_steps([p for p in near if p not in points], [p for p in ranked if p not in points])
    sections = dict.fromkeys([*(p for p in opening if begins), *(p.section for p in ranked[:MOST_STEPS])])
    reporting = [p for p in own if _REPORTING.search(_top(p)) and "|" in p.text][:1]
    return Guide(
        source=source,
        points=tuple(points),
        steps=tuple(steps),
        first=begins,
        conditions=tuple(p for p in own if _CONDITIONS.search(_top(p)))[:2],
        prohibitions=tuple(p for p in own if _FORBIDDEN.search(_top(p)))[:1],
        sections=tuple([*sections, *(p for p in reporting if p not in sections)][:MOST_SECTIONS]),
    )


def _wanted(own: Sequence[Passage], topic: str, *, is_dangerous: bool) -> tuple[list[Passage], list[Passage]]:
    wanted = [p for p in own if not unnumbered(p.heading).startswith(_NEVER_ASKED)]
    if not _ASKS_CONDITIONS.search(topic):
        wanted = [p for p in wanted if not _CONDITIONS.search(_last(p))] or wanted
    forbidding = [p for p in wanted if _FORBIDDEN.search(_top(p))]
    if is_dangerous:  # the answer quotes them separately
        wanted = [p for p in wanted if p not in forbidding] or wanted
    return wanted, forbidding


def _likeness(question: str, asking: str, wanted: Sequence[Passage], index: RunbookIndex) -> dict[str, float]:
    likeness = index.rate_sentences(question, wanted)
    if not asking:
        return likeness
    asked = index.rate_sentences(asking, wanted)
    return {sentence: (cosine + asked[sentence]) / 2 for sentence, cosine in likeness.items()}


def _choose_steps(near: Sequence[Point], ranked: Sequence[Point]) -> list[Point]:
    chosen: list[Point] = []
    for point in near:
        more = [p for p in (_approval_above(point, ranked), point) if p is not None and p not in chosen]
        room = LENGTH - sum(len(p.text) for p in [*chosen, *more])
        if room >= 0 and len(chosen) + len(more) <= MOST_STEPS:
            chosen += more
    return sorted(chosen, key=lambda point: point.place)


def _approval_above(step: Point, ranked: Sequence[Point]) -> Point | None:
    """The approval stands one heading higher than the step, or in a command's own section."""
    own = step.section.heading
    headings = (own.rpartition(" > ")[0], own) if step.kind == "code" else (own.rpartition(" > ")[0],)
    above = [p for p in ranked if p.section.heading in headings and p.place < step.place and _APPROVAL.search(p.text)]
    return None if _APPROVAL.search(step.text) else next(iter(above), None)


def _rate_sections(question: str, asking: str, source: str, index: RunbookIndex) -> list[Passage]:
    own = index.rate_sections(question, source)
    if not asking:
        return own
    asked = index.rate_sections(asking, source)
    return [
        replace(p, score=(p.score + also.score) / 2 + STAGE_BONUS * is_of_stage(p.heading, asking))
        for p, also in zip(own, asked, strict=True)
    ]


def _asks_another(asking: str, wanted: Sequence[Passage], opening: Sequence[Passage]) -> bool:
    work = [p for p in wanted if not _is_background(p)]
    best = max(work, key=lambda p: p.score, default=None)
    told = not asking or best is None or best in opening or _REPORTING.search(_top(best))
    return not told and not _ASKS_TO_BEGIN.search(asking)


def choose_runbook(found: Sequence[Passage], each: Sequence[Sequence[Passage]] = ()) -> str:
    """Return the file of the runbook with the most votes. `each`: what is found for a sentence of the question."""
    alone = [_votes(some) for some in each]
    votes = {
        source: vote + SENTENCE_VOTE * max([some.get(source, 0.0) for some in alone], default=0.0)
        for source, vote in _votes(found).items()
    }
    return max(votes, key=votes.__getitem__)


def _votes(found: Sequence[Passage]) -> dict[str, float]:
    by_source: dict[str, list[float]] = {}
    for passage in found:
        by_source.setdefault(passage.source, []).append(passage.score)
    best = {source: sorted(scores, reverse=True) for source, scores in by_source.items()}
    return {source: scores[0] + SECOND_VOTE * sum(scores[1:2]) for source, scores in best.items()}


def wants_first_response(question: str) -> bool:
    """Return whether a question reports that something happened, or asks how to begin."""
    text = normalise_text(question)
    if _ASKS_FIRST.search(text):
        return True
    return any(_HAPPENED.search(clause.strip()) and not _IF.search(clause) for clause in _CLAUSE.split(text))


def _is_background(passage: Passage) -> bool:
    return unnumbered(passage.heading).startswith(constants.BACKGROUND_SECTIONS) or bool(
        _FORBIDDEN.search(_top(passage))
    )


def _top(passage: Passage) -> str:
    return passage.heading.partition(" > ")[0]


def _last(passage: Passage) -> str:
    return passage.heading.split(" > ")[-1]
