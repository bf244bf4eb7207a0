"""Compare the facts of a statement with the passages: numbers, names, commands, roles and words with an opposite.

A sentence with a wrong fact stays similar to the right sentence. Sentence similarity cannot see such a contradiction
(docs/offline.md), so these facts are compared one by one.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from ..base.texts import bigrams, fold, jaccard
from ..runbooks.bm25 import content_words

Kind = Literal["number", "term", "role", "pole"]  # a pole is a word with an opposite, such as 前 (before)
_WINDOW = 10  # characters on each side that say what a number is about
_LOOK = 200  # characters of a statement that these are taken from: keeps a long statement linear

_ROLE = r"(?:[A-Za-zァ-ヶー一-龠々]{1,12}?(?:責任者|リーダー|当番|担当|管理者|委員会)|(?!会議室)[一-龠々ァ-ヶー・]{2,12}(?<!会議)室|[一-龠々ァ-ヶー]{2,8}部(?![分屋署品隊門下])|[一-龠々ァ-ヶー]{2,8}課(?![題])|[一-龠々]{0,4}(?:部門長|部長|課長|室長)|ヘルプデスク|上長|上司|[一-龠々]{1,4}(?<![関無])係(?![るわりっ])|警察|市役所|広報|法務|CISO|利用者|経営層)"
_NUMBER = r"\d[\d,.:/]*\s*(?:分|時間|日|週間?|か?ヶ?月|年|名|件|台|回|点|問|割|倍|%|GB|MB|文字)?(?:以内|以上|以下|未満|前|後|間)?"
_TERM = r"[A-Za-z0-9._+-]+@[A-Za-z0-9.-]+|-{0,2}[A-Za-z_$][A-Za-z0-9_$]*(?:[-./\\:][A-Za-z0-9_$]+)*"
# Words that a statement turns into its contrary by: each counts as wrong where the source has its opposite.
_OPPOSITES = """高い/低い 前/後 先/後 上げ/下げ 中止/継続 停止/継続 開始/停止 有効/無効 許可/拒否 許可/禁止 接続/切断
増や/減ら 以上/以下 以内/以降 必要/不要 最大/最小 社内/社外 オン/オフ 残す/消す 通電/電源断 直ちに/後で"""
_POLES: dict[str, set[str]] = {}
for _pair in _OPPOSITES.split():
    _one, _other = _pair.split("/")
    _POLES.setdefault(_one, set()).add(_other)
    _POLES.setdefault(_other, set()).add(_one)
_POLE = re.compile("|".join(sorted(_POLES, key=len, reverse=True)))
_BOUND = re.compile(r"間$")  # 5分間 is 5分
EITHER_ROLE = re.compile(f"({_ROLE})または({_ROLE})")
_FACT = re.compile(f"(?P<role>{_ROLE})|(?P<term>{_TERM})|(?P<number>{_NUMBER})")
_DURATION = re.compile(
    r"(?<![\d.])(\d+(?:\.\d+)?)\s*(分(?!の\d)|時間|営業日|日間|週間|[かヶケカ]月|(?:日|週)(?=以内|以降|後|前|間|ごと|おき|程度|で|の|、|。|は|を|に|まで|$))"
)
_SEVERITY = re.compile(r"(?<![A-Za-z0-9])S[1-4](?![A-Za-z0-9])")
_COUNT = re.compile(
    r"(?<![\d.])(\d+)\s*(回|名|人|件|台|項目|世代|つ)(?!目|(?:だけ)?(?:では|で)(?:足り|でき|不[足十可]|だめ|ダメ|進め(?:ない|ず)))"
)
_VALUES = (
    (_DURATION, lambda match: ("時間", _minutes(match))),
    (_COUNT, lambda match: (match[2].replace("人", "名"), match[1])),
    (_SEVERITY, lambda match: ("重大度", match[0])),
)
_FOLLOWS = 0.25  # likeness from which a statement says what its nearest source says
_FOLLOWS_WORDS = 3  # content words that it shares with it are as good
_OPTION = re.compile(
    r"(?<![\w-])(--?[A-Za-z][\w-]*)(?:[:=]|\s+)[\"']?(\$?(?:true|false)|active|inactive|enabled?|disabled?|allow|deny|on|off)\b",
    re.I,
)
_PERSON = re.compile(r"([A-Za-z一-龠々ァ-ヶー・]{2,20}?)[(（]内線(\d{3,5})")
_PAIRS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], tuple[str, str]]], ...] = (
    (_OPTION, lambda match: (match[1].lower(), match[2].lower())),
    (_PERSON, lambda match: (match[2], match[1][-3:])),
)
_OBLIGATION = re.compile(r"な(?:けれ|くて)?[ばは]なら(?:ない|ず|ません)")
_NEGATION = re.compile(
    r"禁止|禁じ|[^少つ]ない|なけれ|なかっ|ません|せず|(?:[らさわかたなばけれてべげじ]|(?<!とりあ)え)ず(?![つれ])|てはなら|不要|不可|避け|控え|やめ|厳禁"
    r"|\bnot\b|\bnever\b"
)


@dataclass(frozen=True)
class Fact:
    kind: Kind
    value: str  # folded
    around: frozenset[str]  # pairs of neighbouring characters around the fact, with other facts blanked out


def find_facts(statement: str) -> list[Fact]:
    return list(_find_facts(statement))


@lru_cache(2_000)  # those of the runbooks come again and again
def _find_facts(statement: str) -> tuple[Fact, ...]:
    text = unicodedata.normalize("NFKC", statement)
    facts: list[Fact] = []
    for match in [*_FACT.finditer(text), *_POLE.finditer(text)]:
        kind: Kind = match.lastgroup or "pole"  # type: ignore[assignment]
        before = blank_facts(text[max(0, match.start() - _LOOK) : match.start()])[-_WINDOW:]
        after = blank_facts(text[match.end() : match.end() + _LOOK])[:_WINDOW]
        value = _BOUND.sub("", match[0]) if kind == "number" else match[0]
        facts.append(Fact(kind, fold(value), bigrams(before + after)))
    return tuple(facts)


@lru_cache(4_000)
def blank_facts(statement: str) -> str:
    """Return the folded statement without negations, and without its numbers, Latin terms and roles, right or wrong."""
    return fold(_NEGATION.sub("", neutral_facts(statement)))


@lru_cache(maxsize=2_000)
def neutral_facts(statement: str) -> str:
    """Return the statement as it is embedded: with a placeholder for each number (数), Latin term (語) and role (役)."""
    text = unicodedata.normalize("NFKC", statement)
    return _FACT.sub(lambda match: {"role": "役", "term": "語", "number": "数"}[match.lastgroup or "term"], text)


@lru_cache(maxsize=2_000)
def without_people(statement: str) -> str:
    """Return the statement without its roles and numbers, so that it says what is done, but not by whom or when."""
    return _FACT.sub(lambda match: match[0] if match.lastgroup == "term" else "", statement)


@lru_cache(maxsize=2_000)
def is_negative(statement: str) -> bool:
    """Return whether a statement forbids or denies something. An obligation such as なければならない (must) does not."""
    return bool(_NEGATION.search(_OBLIGATION.sub("", unicodedata.normalize("NFKC", statement))))


def find_wrong_values(statement: str, about: Sequence[str], texts: str, severities: Collection[str] = ()) -> list[str]:
    """Return the values in a statement that the passages state differently, each once.
    `about`: the sources about the same thing, the nearest first. `texts`: all that an answer may take a value from."""
    own, every = unicodedata.normalize("NFKC", statement), unicodedata.normalize("NFKC", texts)
    near = unicodedata.normalize("NFKC", "\n".join(about))
    nearest = unicodedata.normalize("NFKC", about[0]) if about else ""
    wrong = []
    for pattern, read in _VALUES:
        known, there, first = ({read(m): m for m in pattern.finditer(text)} for text in (every, near, nearest))
        for match in pattern.finditer(own):
            value, kind = read(match), read(match)[0]
            # Only a value of a kind that the sources about the same thing have, too, can be compared.
            if value in there or kind not in {other[0] for other in there}:
                continue
            follows = jaccard(bigrams(blank_facts(own)), bigrams(blank_facts(nearest))) >= _FOLLOWS or (
                len(content_words(own) & content_words(nearest)) >= _FOLLOWS_WORDS
            )
            # Wrong if no text has it, or if the statement follows a source that has another value.
            if value not in known or (follows and kind in {other[0] for other in first}):
                wrong.append(match[0])
    if severities and not wrong:  # a deadline that the texts have only for severities other than those that apply
        rows = [line for line in every.splitlines() if _SEVERITY.search(line) and _DURATION.search(line)]
        mine = [line for line in rows if set(_SEVERITY.findall(line)) & set(severities)]
        other = [line for line in rows if line not in mine]
        here, elsewhere = ({_minutes(m) for line in lines for m in _DURATION.finditer(line)} for lines in (mine, other))
        wrong += [m[0] for m in _DURATION.finditer(own) if mine and _minutes(m) in elsewhere - here]
    # An option of a command, and the person of an extension, are wrong if known with other values only.
    for pattern, read_pair in _PAIRS:
        given = defaultdict[str, set[str]](set)
        for name, tied in map(read_pair, pattern.finditer(every)):
            given[name].add(tied)
        said = [(match[0], *read_pair(match)) for match in pattern.finditer(own)]
        wrong += [text for text, name, tied in said if name in given and tied not in given[name]]
    return list(dict.fromkeys(wrong))


_MINUTES = {"分": 1, "時": 60, "日": 1440, "週": 10080, "月": 43200, "年": 525600}


def _minutes(match: re.Match[str]) -> float:
    return float(match[1]) * next(minutes for unit, minutes in _MINUTES.items() if unit in match[2])


def find_wrong_facts(statement: str, known: Sequence[Fact]) -> list[str]:
    """Return the facts of a statement that the passages state differently, as folded texts, each once.
    A fact in surroundings that no passage has is left out: it is unsupported, but no contradiction."""
    wrong: list[str] = []
    for fact in dict.fromkeys(find_facts(statement)):
        peers = [(jaccard(fact.around, other.around), other.value) for other in known if other.kind == fact.kind]
        if fact.kind == "pole":
            peers = [(likeness, value) for likeness, value in peers if value in _POLES[fact.value] | {fact.value}]
        same = max((likeness for likeness, value in peers if is_same(fact, value)), default=-1.0)
        other = max((likeness for likeness, value in peers if not is_same(fact, value)), default=-1.0)
        unheard_of = same < 0 and fact.kind != "pole"
        # How similar (Jaccard, 0–1) the surroundings must be: less for what the passages do not have anywhere.
        needed = 0.5 if not unheard_of else 0.0 if fact.kind == "role" or "@" in fact.value else 0.25
        if other >= needed and other > same + 0.2:
            wrong.append(fact.value)
    return wrong


def is_same(fact: Fact, value: str) -> bool:
    """Return whether a value says the same as a fact, as 60分 (minutes) and 1時間 (hour) do."""
    if fact.value == value:
        return True
    if fact.kind == "number":
        one, other = (_DURATION.fullmatch(text.removesuffix("以内")) for text in (fact.value, value))
        return bool(one and other and _minutes(one) == _minutes(other))
    if fact.kind == "role":
        return fact.value.startswith(value) or value.startswith(fact.value)
    return fact.kind == "term" and len(fact.value) > 3 and fact.value in value
