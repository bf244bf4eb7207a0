"""Which sections of which runbook an answer follows, in the order of work.

A question resembles the sentence that describes its symptom, which seldom is the one that says what to do. So search
only votes for a runbook; what is followed is that runbook's own order: first response, then on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from .. import constants
from ..base.quoting import find_severities, has_rows_of
from ..records import Passage
from .asking import asks_leave, find_asking, is_of_stage, split_clauses
from .bm25 import content_words, normalise_text
from .points import FOR_DETAIL, FOR_REPORT, Point, details_asked, find_points
from .reading import unnumbered

if TYPE_CHECKING:
    from .index import RunbookIndex

MOST_SECTIONS = 8
MOST_PASSAGES = MOST_SECTIONS + 3  # beside those found: with conditions and prohibitions; bounds the prompt

# What a section is for, by words that runbooks of any house use in their headings.
_FIRST = re.compile(
    "初動|初期対応|一次対応|最初|応急|(?:着手|検知|申告|発生)から|first response|immediate", re.IGNORECASE
)
_RECOVERY = re.compile("復旧|復元後|再開|解除|recover", re.IGNORECASE)
_REPORTING = re.compile("報告|連絡|エスカレーション|escalation|report", re.IGNORECASE)
_FORBIDDEN = re.compile("禁止|してはならない|してはいけない|prohibit|do not", re.IGNORECASE)
_CONDITIONS = re.compile("発動|適用条件|開始条件|適用範囲|trigger|scope", re.IGNORECASE)
_KANJI = re.compile("[一-鿿々]")
_IN_CASE = re.compile("場合|とき$|時$|if |in case", re.IGNORECASE)

SECOND_VOTE = 0.1
# Of a long report: what its best sentence alone votes for, and what is added to sections of the stage that it asks for.
SENTENCE_VOTE = 0.5
STAGE_BONUS = 0.25
# Taken off the score of sections that say when a runbook applies, and why, what not or what to learn.
CONDITIONS_COST, BACKGROUND_COST = 0.2, 0.4

_NEVER_ASKED = ("目的", "関連手順書", "チェックリスト")

# What holds before anything is known: how it is looked for, and the line that says it.
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

# What a question wants.
_ASKS_FIRST = re.compile(
    "まず|最初|何から|なにから|何をすれば|何すれば|何をし(?!た(?!ら))|どうすれば|どうしたら|どうしよう|どうする|どう動|どう対応|何か(?:し|す)|しなきゃ|べき|初動|すぐ(?:やる|する)"
    r"|助けて|what (?:do|should) (?:i|we)|first thing"
)
_ASKS_TO_BEGIN = re.compile("まず|最初|何から|なにから|何をすれば|助けて")
_HAPPENED = re.compile(
    "(?:ました|てあります|てある|になって|ちゃった|ちゃいました|てしまった|じゃった|ている|ています|てる|てます|られた|された|った|出た|来た|きた|ない|です|ません|ってる|んだ)"
    r"(?:ん(?:だ|です)?)?(?:けど|けれど|けども|が|よ|ね|の|みたい(?:です)?|っぽい(?:です)?|らしい(?:です)?|そうです|ようです|はず(?:です)?|かも(?:しれません)?)*$"
)
_ASKS_REPORT = re.compile(
    "報告|連絡|届け?出|通報|エスカレ|知らせ|期限|いつまで|誰に|report|escalat|notif|deadline|contact"
)
_ASKS_CONDITIONS = re.compile("重大度|条件|基準|該当|当たる|当てはま|扱い|対象|severity|criteria", re.IGNORECASE)
_NOT_YET = re.compile("前の|前$|未|まだ|ていません|ていない|てない|before|not yet", re.IGNORECASE)
_IF = re.compile("場合|とき|時は|には|したら|ときに")
_DONE = re.compile(
    r"(?<![一-鿿々ァ-ヺー])(?P<what>[一-鿿々]{2,}|[ァ-ヺー]{2,})(?:は|を|も|が)?(?:もう|すでに|既に)?"
    "(?:終わ|済み|済んで|済ませ|完了|し終|した後|したあと|してある|してあり|しました(?=[。、！!]|$))"
)
_CLAUSE = re.compile(r"[。、！？!?\n…]+|\.{2,}|\.\s")


@dataclass(frozen=True)
class Guide:
    """What an answer follows: sections of one runbook, in the order of work.

    first: whether it begins with the first response. reported: whether the question reports something that happened or
    asks how to begin. matched: what resembled the question, best first. conditions: when that runbook applies. prohibitions: what it
    forbids. done: what the questioner says is done. likeness: similarity to the question of each sentence in the sections
    and prohibitions, -1–1. points: what answers a long report, or a follow-up, most directly."""

    source: str = ""
    sections: tuple[Passage, ...] = ()
    matched: tuple[Passage, ...] = ()
    first: bool = False
    reported: bool = False
    conditions: tuple[Passage, ...] = ()
    prohibitions: tuple[Passage, ...] = ()
    done: tuple[str, ...] = ()
    likeness: Mapping[str, float] = field(default_factory=dict)
    points: tuple[Point, ...] = ()

    @property
    def passages(self) -> tuple[Passage, ...]:
        """All that an answer may quote, besides what was found."""
        return (*self.sections, *self.conditions, *self.prohibitions, *(point.section for point in self.points))


@dataclass(frozen=True)
class Precautions:
    """Where the runbooks say what holds before anything is known. said: passage by precaution (power, files, record,
    call), only where it is said; leader: whom to call; knows_severities: whether the runbooks speak of S1."""

    said: Mapping[str, Passage] = field(default_factory=dict)
    leader: str = "責任者"
    knows_severities: bool = False

    @property
    def passages(self) -> tuple[Passage, ...]:
        """The passages that are cited, each once."""
        return tuple(dict.fromkeys(self.said.values()))

    def cite(self, precaution: str) -> str:
        """Its citation, after a space, or nothing."""
        return f" {self.said[precaution].citation}" if precaution in self.said else ""


def find_precautions(index: RunbookIndex) -> Precautions:
    """The passages behind the precautions, and the leader by `organisation.json`."""
    said: dict[str, Passage] = {}
    leader = index.organisation.leader
    for precaution, (query, says) in _PRECAUTIONS.items():
        found = [p for p in index.search(query, 10) if any(says.search(line) for line in p.text.splitlines())]
        if precaution in ("power", "files"):
            found.sort(key=lambda p: not _FORBIDDEN.search(_top(p)))
        if precaution == "call":  # the line names the leader and S1, and so should what it cites
            found.sort(key=lambda p: -((leader.phone in p.text) + ("S1" in find_severities(p.text))))
        if found:
            said[precaution] = found[0]
    return Precautions(said, str(leader), any("S1" in find_severities(p.text) for p in index.passages))


def choose_guide(
    question: str,
    found: Sequence[Passage],
    index: RunbookIndex,
    *,
    source: str | None = None,
    safer: str | None = None,
    detail: str = "",
) -> Guide:
    """The sections to follow. found: what search found, best first, with scores; source: the runbook, where it is known;
    safer: what to do instead where the question is dangerous; what is forbidden is then quoted apart, not among the steps. detail:
    what a follow-up asks about the rest of the question.

    A report of something that happened gets the first response of its runbook, whatever matched best, and then what
    matched, unless it is long and asks for another section; a question for a detail gets the sections that matched. A
    runbook without a first response is followed from the section that matched best."""
    if not found:
        return Guide()
    asking = "" if detail else find_asking(question)
    each = [index.search(clause, len(found)) for clause in split_clauses(question)] if asking and not source else []
    source = source or choose_runbook(found, each)
    own = _rate_sections(f"{question} {safer}" if safer else question, asking, source, index)
    order = {_key(p): n for n, p in enumerate(own)}
    work = [p for p in own if not _is_background(p)]
    done = tuple(what for what in find_done(question) if any(what in p.heading or what in p.text for p in work))
    opening = [p for p in work if _FIRST.search(p.heading)] or _cases_of_both_kinds(work)
    unfitting = _unfitting_cases(opening, question)
    first = _undone([p for p in opening if p not in unfitting], done)
    asks_another = bool(asking) and safer is None and _asks_another(asking, work, opening)
    begins = bool(first) and wants_first_response(question) and not asks_another

    named = [p for p in own if has_rows_of(p.text, find_severities(question))][:1]
    pool = (
        work if begins or safer is not None else [p for p in own if not unnumbered(p.heading).startswith(_NEVER_ASKED)]
    )
    best = sorted((p for p in pool if p not in unfitting), key=lambda p: _cost(p) - p.score)
    best = [*named, *(p for p in best if p not in named)]
    matched = best
    if begins or safer is not None:  # recovery is for later, unless it is what a harmless question is most like
        kept = best[:1] if safer is None else []
        matched = [p for p in best if p in kept or not _wanted_later(p, question)]
    if not _ASKS_CONDITIONS.search(question):
        matched = [p for p in matched if p == best[0] or not _CONDITIONS.search(p.heading.split(" > ")[-1])]
    matched = _undone(matched, done)[: 2 if begins else 3]
    if begins:
        chosen = sorted(first, key=lambda p: not _is_case(p))
        later = [p for p in matched if p not in chosen]
    else:
        chosen, later = (matched or work)[:1], matched[1:]
    chosen += sorted(later, key=lambda p: order[_key(p)])
    chosen = _with_introductions(chosen, own)
    if begins or _ASKS_REPORT.search(question):
        chosen += [p for p in own if _REPORTING.search(_top(p)) and "|" in p.text and p not in chosen][:1]
    # A plain report is answered by the first response; a long one seldom asks how to begin.
    asks_more = bool(detail or asking) or (begins and bool(details_asked(question)))
    sections = tuple(chosen[:MOST_SECTIONS])
    conditions = tuple(p for p in own if _CONDITIONS.search(_top(p)))[:2]
    prohibitions = tuple(p for p in own if _FORBIDDEN.search(_top(p)))[:1]
    return Guide(
        source=source,
        sections=sections,
        matched=tuple(matched),
        first=begins,
        reported=wants_first_response(question),
        conditions=conditions,
        prohibitions=prohibitions,
        done=done,
        likeness=index.rate_sentences(question, [*sections, *prohibitions]),
        points=_find_points(detail or question, asking, own, index, done) if safer is None and asks_more else (),
    )


def _rate_sections(question: str, asking: str, source: str, index: RunbookIndex) -> list[Passage]:
    """A runbook's passages with scores: for the question, and as much for what a long report asks."""
    own = index.rate_sections(question, source)
    if not asking:
        return own
    asked = index.rate_sections(asking, source)
    return [
        replace(p, score=(p.score + also.score) / 2 + STAGE_BONUS * is_of_stage(p.heading, asking))
        for p, also in zip(own, asked, strict=True)
    ]


def _asks_another(asking: str, work: Sequence[Passage], opening: Sequence[Passage]) -> bool:
    """Whether what a long report asks is told in another section than the first response."""
    best = max(work, key=lambda p: p.score - _cost(p), default=None)
    told = best is None or best in opening or _REPORTING.search(_top(best))
    return not told and not _ASKS_TO_BEGIN.search(asking)


def _find_points(
    question: str, asking: str, own: Sequence[Passage], index: RunbookIndex, done: Sequence[str]
) -> tuple[Point, ...]:
    wanted = _undone([p for p in own if not unnumbered(p.heading).startswith(_NEVER_ASKED)], done)
    if not _ASKS_CONDITIONS.search(asking or question):
        wanted = [p for p in wanted if not _CONDITIONS.search(p.heading)]
    likeness = index.rate_sentences(question, wanted)
    if asking:
        asked = index.rate_sentences(asking, wanted)
        likeness = {sentence: (cosine + asked[sentence]) / 2 for sentence, cosine in likeness.items()}
    forbidding = [p for p in wanted if _FORBIDDEN.search(_top(p))]
    points = find_points(
        question, wanted, likeness,
        first=[p for p in wanted if _FIRST.search(p.heading)],
        background=[p for p in wanted if _is_background(p)],
        forbidding=forbidding,
        details=() if asking else details_asked(question),
        weights=FOR_REPORT if asking else FOR_DETAIL,
    )  # fmt: skip
    if asks_leave(asking):  # what forbids it comes before how it is done
        points = tuple(sorted(points, key=lambda point: point.section not in forbidding))
    return points


def choose_runbook(found: Sequence[Passage], each: Sequence[Sequence[Passage]] = ()) -> str:
    """The runbook that what was found speaks for: its best score, and SECOND_VOTE of its second; of a long report
    also SENTENCE_VOTE of what its best sentence speaks for. each: what was found for each sentence."""
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
    return {source: _vote(sorted(scores, reverse=True)) for source, scores in by_source.items()}


def _vote(scores: Sequence[float]) -> float:
    return scores[0] + SECOND_VOTE * sum(scores[1:2])


def wants_first_response(question: str) -> bool:
    """Whether somebody reports what happened, or asks how to begin."""
    text = normalise_text(question)
    if _ASKS_FIRST.search(text):
        return True
    return any(_HAPPENED.search(clause.strip()) and not _IF.search(clause) for clause in _CLAUSE.split(text))


def find_done(question: str) -> tuple[str, ...]:
    """What the questioner says is done already: 隔離は終わりました -> 隔離."""
    return tuple(dict.fromkeys(match["what"] for match in _DONE.finditer(normalise_text(question))))


def is_done(step: str, done: Sequence[str]) -> bool:
    """Whether a step orders only what is done: its sentence ends in that action."""
    ends = re.search("([一-鿿々ァ-ヺー]{2,})(?:する|し|させる|を行う)。?$", step.split("。")[0])
    return ends is not None and any(ends[1].endswith(what) or what.endswith(ends[1]) for what in done)


def _undone(sections: Sequence[Passage], done: Sequence[str]) -> list[Passage]:
    """The sections but those that are about what is done."""
    if not done:
        return list(sections)
    left = [p for p in sections if not any(what in p.heading.split(" > ")[-1] for what in done)]
    return left or list(sections)


def _cases_of_both_kinds(sections: Sequence[Passage]) -> list[Passage]:
    """Where a runbook has no first response: its sections for what was not done yet and for what was, if it has both."""
    cases = [p for p in sections if _is_case(p)]
    return cases if len({bool(_NOT_YET.search(p.heading)) for p in cases}) == 2 else []


def _is_case(section: Passage) -> bool:
    return bool(_IN_CASE.search(section.heading.split(" > ")[-1]))


def _unfitting_cases(sections: Sequence[Passage], question: str) -> list[Passage]:
    """Of sections for one case each (開封前の場合, 実行した場合) all but the best that fits the question; none where it does
    not tell which: 拾った is neither 挿していない nor 挿した."""
    cases = [p for p in sections if _is_case(p)]
    not_yet = bool(_NOT_YET.search(question))
    fitting = [p for p in cases if bool(_NOT_YET.search(p.heading)) == not_yet]
    if not fitting:
        return []
    best = max(fitting, key=lambda p: p.score)
    act = re.sub("場合|とき$|時$", "", best.heading.split(" > ")[-1])
    if len(fitting) < len(cases) and not not_yet and not set(_KANJI.findall(act)) & set(_KANJI.findall(question)):
        return []
    return [p for p in cases if p != best]


def _with_introductions(sections: Sequence[Passage], own: Sequence[Passage]) -> list[Passage]:
    """The sections, each after what stands above it under its parent's heading: approvals often stand there."""
    parents = {p.heading: p for p in own if not _is_background(p)}
    chosen: list[Passage] = []
    for section in sections:
        parent = parents.get(section.heading.rpartition(" > ")[0])
        chosen += [p for p in (parent, section) if p is not None and p not in chosen]
    return chosen


def _wanted_later(passage: Passage, question: str) -> bool:
    """Whether a section is about recovery, and the question is not."""
    return bool(_RECOVERY.search(_top(passage))) and not (
        content_words(passage.heading) & content_words(question) or _RECOVERY.search(question)
    )


def _cost(passage: Passage) -> float:
    if _CONDITIONS.search(_top(passage)):
        return CONDITIONS_COST
    return BACKGROUND_COST * _is_background(passage)


def _is_background(passage: Passage) -> bool:
    return unnumbered(passage.heading).startswith(constants.BACKGROUND_SECTIONS) or bool(
        _FORBIDDEN.search(_top(passage))
    )


def _top(passage: Passage) -> str:
    return passage.heading.partition(" > ")[0]


def _key(passage: Passage) -> tuple[str, str, str]:
    return passage.source, passage.heading, passage.text
