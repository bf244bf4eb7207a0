"""危険操作: finds operations that destroy evidence, defences or data, asked for in a question or advised in an answer.

The blunt ones, by the rows of `dangers.json`: a thing (ログ) and what is done to it (消す), near each other in one
sentence, or a command. What follows and precedes it then decides whether somebody wants to do it, or only
speaks about it: forbidden, detected, already happened, approved. The soft ones are found in `prohibitions`,
by their likeness to what the runbooks forbid.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import chain, islice, pairwise
from pathlib import Path

from . import danger_words
from .danger_words import ROWS as WORDS

ROWS_PATH = Path(__file__).with_name("dangers.json")
POWER_OPERATION = "保全前の電源断・再起動"
REACH = 30  # characters between the thing and the verb
LOOK = 80  # characters looked at on each side of a find


AGAINST_RUNBOOKS = "手順書に反する操作"  # an act that no short name can be cut out for
UNNAMED = "危険のおそれがある操作"  # no rule of the runbooks states it
# Operations that are found without an object.
OBJECTLESS = (danger_words.BARE_OPERATION, POWER_OPERATION)


@dataclass(frozen=True)
class Danger:
    """A dangerous operation. operation: what it is; evidence: the words that ask for it; safer: the safe way.

    prohibition: the line of the runbooks that forbids it, citation: where that stands; empty where none is known.
    next_prohibition, next_citation: one that is nearly as near. probability: how likely it is that the operation is
    wanted, 0–1."""

    operation: str
    evidence: str
    safer: str
    prohibition: str = ""
    citation: str = ""
    next_prohibition: str = ""
    next_citation: str = ""
    probability: float = 1.0


@dataclass(frozen=True)
class Row:
    """One line of `dangers.json`. parts: what it is found by, in this order; form: ja, en or command."""

    operation: str
    form: str
    parts: tuple[re.Pattern[str], ...]
    example: str
    counter_example: str

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        """(start, end) of each place in a text without spaces; of the first part, the nearest before the second."""
        first, *rest = self.parts
        if not rest:
            yield from (match.span() for match in first.finditer(text))
            return
        things = [match.span() for match in first.finditer(text)]
        i = 0
        for verb in rest[0].finditer(text) if things else ():
            while i < len(things) and things[i][1] <= verb.start():
                i += 1
            for start, end in reversed(things[max(0, i - 3) : i]):  # the three nearest: keeps long texts linear
                if verb.start() - end <= REACH and (self.form != "ja" or _is_object(text[end : verb.start()])):
                    yield start, verb.end()
                    break


@dataclass(frozen=True)
class Kind:
    """One operation of `dangers.json`. harmless: what turns a find into something harmless.

    fine_after_preservation: allowed once the evidence is kept."""

    operation: str
    safer: str
    rows: tuple[Row, ...]
    harmless: re.Pattern[str] | None
    fine_after_preservation: bool


@cache
def load_kinds() -> tuple[Kind, ...]:
    """The operations of `dangers.json`, in its order."""
    table = json.loads(ROWS_PATH.read_text(encoding="utf-8"))

    def pattern(part: str) -> re.Pattern[str]:
        return re.compile(re.sub(r"\{([A-Z_]+)\}", lambda match: f"(?:{table['words'][match[1]]})", part))

    return tuple(
        Kind(
            name,
            kind["safer"],
            tuple(
                Row(name, row["form"], tuple(map(pattern, row["parts"])), row["example"], row["counter_example"])
                for row in kind["rows"]
            ),
            re.compile(kind["harmless"]) if "harmless" in kind else None,
            kind.get("fine_after_preservation", False),
        )
        for name, kind in table["operations"].items()
    )


@dataclass(frozen=True)
class _Find:
    kind: Kind
    before: str
    evidence: str
    after: str
    form: str  # ja, en or command

    @property
    def around(self) -> str:
        return self.before + self.evidence + self.after


def find_dangerous(text: str) -> list[Danger]:
    """The destructive operations that a question asks for or announces, one per kind, in the order of `dangers.json`.

    Asking about detection, investigation, prevention, prohibition or the aftermath of one is not asking for it."""
    question = _normalise(text).replace("\n", " ")
    if danger_words.JAPANESE.search(question) and not danger_words.KANJI.search(question):
        return _asked(question) or _asked(_read_kana(question))
    return _asked(question)


def recommends_danger(text: str) -> list[Danger]:
    """The destructive operations that an answer tells its reader to do, one per kind, in the order of `dangers.json`.

    Not reported: what is forbidden, negated, put under approval, quoted in a search for it, or listed under a
    heading such as 禁止事項."""
    finds = (find for sentence in _instructions(_normalise(text)) for find in _finds(sentence))
    return _dangers(finds, lambda find: not _only_spoken_of(find) and not _not_advised(find))


@lru_cache(maxsize=2_000)
def operations_named(text: str) -> frozenset[str]:
    """The operations that a statement of a runbook names at all, wanted or not."""
    finds = (find for sentence in _sentences(_normalise(text)) for find in _finds(sentence))
    return frozenset(find.kind.operation for find in finds)


def dangerous_words(text: str) -> list[str]:
    """The matched texts of the dangerous operations that are named at all, wanted or not: normalised, at most 50."""
    finds = (find for sentence in _sentences(_normalise(text)) for find in _finds(sentence))
    return list(dict.fromkeys(find.evidence for find in islice(finds, 50)))


def _asked(question: str) -> list[Danger]:
    sentences = _sentences(question)
    carried = (find for before, sentence in pairwise(sentences) for find in _carried_over(before, sentence))
    finds = chain((find for sentence in sentences for find in _finds(sentence)), carried)
    return _dangers(finds, lambda find: not _only_spoken_of(find)) or _bare_request(question)


def _normalise(text: str) -> str:
    text = unicodedata.normalize("NFKC", text).lower().replace("’", "'")
    return "".join(c for c in text if c == "\n" or unicodedata.category(c) not in ("Cf", "Cc"))


def _sentences(text: str) -> list[str]:
    return [s for s in re.split(r"(?<=[。!?])|(?<=[a-z]\.)\s+(?=[a-z\"'(])", text) if s and s.strip()]


def _read_kana(text: str) -> str:
    """A text without kanji, its katakana as hiragana, the words that matter as they are usually written."""
    hiragana = "".join(chr(ord(c) - 0x60) if "ァ" <= c <= "ヶ" else c for c in re.sub(r"\s+", "", text))
    return str(WORDS.READING.sub(lambda match: WORDS.READINGS[match[0]], hiragana))


def _instructions(text: str) -> Iterator[str]:
    """The sentences and list items of an answer, without what stands under a heading that forbids it."""
    forbidden = False
    for line in text.split("\n"):
        if not line.strip():
            continue
        is_item = bool(re.match(r"\s*(?:[-*・•●]|\d+[.)]|\(\d+\)|[①-⑳])", line))
        if not is_item:
            forbidden = bool(WORDS.FORBIDDING_HEADING.search(line)) and len(line) < LOOK
        told = WORDS.PLAIN_HEADING.match(line) or WORDS.TABLE_ROW.match(line)
        if not (forbidden and is_item) and not told:
            yield from _sentences(line)


def _dangers(finds: Iterable[_Find], is_meant: Callable[[_Find], bool]) -> list[Danger]:
    """The first find of each kind that is meant. Each different find is looked at once: texts may repeat."""
    first: dict[str, Danger] = {}
    seen: set[_Find] = set()
    for find in finds:
        name = find.kind.operation
        if name not in first and find not in seen:
            seen.add(find)
            if is_meant(find):
                first[name] = Danger(name, find.evidence.strip(), find.kind.safer)
    return [first[kind.operation] for kind in load_kinds() if kind.operation in first]


def compact(text: str) -> str:
    """A text as the rows are matched with it: normalised, without spaces."""
    return re.sub(r"\s+", "", _normalise(text))


def _finds(sentence: str) -> Iterator[_Find]:
    """Every place of the sentence that names a destructive operation, wanted or not."""
    text = re.sub(r"\s+", "", sentence)
    spaced = re.sub(r"\s+", " ", sentence)
    places = [i for i, letter in enumerate(spaced) if letter != " "]  # of the letters of `text` in `spaced`
    is_japanese = bool(danger_words.JAPANESE.search(text))
    spoken = not is_japanese and WORDS.EN_COMMAND_SPOKEN.search(spaced)
    for kind in load_kinds():
        for row in kind.rows:
            if spoken if row.form == "command" else is_japanese == (row.form == "en"):
                continue
            for start, end in row.find(text):
                if row.form == "en":
                    yield _make(kind, spaced, places[start], places[end - 1] + 1, "en")
                else:
                    arguments = danger_words.ARGUMENTS.match(text, end) if row.form == "command" else None
                    yield _make(kind, text, start, arguments.end() if arguments else end, row.form)


def _carried_over(before: str, sentence: str) -> Iterator[_Find]:
    """The finds whose thing stands in the sentence before: EDRが重いです。切っていいですか"""
    head, tail = (re.sub(r"\s+", "", part) for part in (before.rstrip("。.!? "), sentence))
    if not danger_words.JAPANESE.search(tail):
        return
    joined = f"{head}、{tail}"
    for kind in load_kinds():
        for row in kind.rows:
            for start, end in row.find(joined) if row.form == "ja" else ():
                if start < len(head) < end and not re.search("[をがは]", joined[len(head) : end]):
                    yield _make(kind, joined, start, end, "ja")


def _make(kind: Kind, text: str, start: int, end: int, form: str) -> _Find:
    before, after = text[max(0, start - LOOK) : start], text[end : end + LOOK]
    return _Find(kind, before, text[start:end], after, form)


def _is_object(between: str) -> bool:
    """Whether the words between a thing and a verb leave the thing the verb's object.

    ログを全部消す: yes. ログを見てから一時ファイルを消す, 端末のパスワードを消す, EDRで端末を消す: no."""
    if WORDS.NOT_OBJECT.match(between):
        return False
    head, marked, rest = between.partition("を")
    if "を" in rest or (marked and WORDS.CLAUSE_END.search(head)):
        return False
    return not (marked and head.startswith("の") and not WORDS.PART_OF_IT.search(head))


def _only_spoken_of(find: _Find) -> bool:
    """Whether the operation is mentioned without being wanted."""
    if _approved(find):
        return True
    if find.form == "en":
        return bool(
            WORDS.EN_BEFORE.search(find.before)
            or WORDS.EN_AFTER.match(find.after)
            or (danger_words.JAPANESE.search(find.after) and WORDS.BENIGN_AFTER.match(find.after.replace(" ", "")))
        )
    if WORDS.STILL_WANTED.match(find.after) and not WORDS.WHY.search(find.around):
        return False
    if WORDS.BENIGN_AFTER.match(find.after) or (
        find.kind.harmless and find.kind.harmless.search(find.before[-REACH:] + find.evidence + find.after[:REACH])
    ):
        return True
    if WORDS.LIST_GOES_ON.match(find.after) and WORDS.BENIGN_IN_LIST.search(find.after):
        return True
    if WORDS.PAST.match(find.after) and not (
        WORDS.AFTERWARDS.match(find.after) and not WORDS.ACTOR.search(find.before)
    ):
        return True
    if find.form == "ja" and not WORDS.INTENT.match(find.after) and WORDS.INQUIRY.search(find.after):
        return True
    return bool(
        WORDS.FORBIDDEN.search(find.after) or (WORDS.WHY.search(find.around) and WORDS.FORBIDDEN.search(find.around))
    )


def _approved(find: _Find) -> bool:
    around = find.before + " " + find.after
    if WORDS.UNAPPROVED.search(around):
        return False
    return bool(
        WORDS.APPROVED.search(around) or (find.kind.fine_after_preservation and WORDS.PRESERVED.search(find.before))
    )


def _not_advised(find: _Find) -> bool:
    """Whether an answer that mentions the operation does not tell its reader to do it."""
    if WORDS.QUERY_LANGUAGE.search(find.around):
        return True
    if find.form != "ja":
        return False
    if WORDS.ASKED_BEFORE.search(find.before + find.evidence) and WORDS.ASKED_AFTER.match(find.after):
        return True
    if not WORDS.INSTRUCTS.match(find.after) or WORDS.NOT_INSTRUCTED.match(find.after):
        return True
    return not WORDS.STILL_WANTED.match(find.after) and bool(WORDS.REFUSED.search(find.after))


def _bare_request(question: str) -> list[Danger]:
    """消していい？ and the like: a destructive verb, and nothing that says to what."""
    compact = re.sub(r"\s+", "", question)
    match = WORDS.BARE_REQUEST.search(compact)
    if match and WORDS.APPROVED.search(question):
        match = None
    if match and not WORDS.STILL_WANTED.match(after := compact[match.end() : match.end() + LOOK]):
        match = None if WORDS.BENIGN_AFTER.match(after) or WORDS.PAST.match(after) else match
    if match:
        return [Danger(danger_words.BARE_OPERATION, compact[: match.end() + LOOK], danger_words.BARE_SAFER)]
    match = WORDS.BARE_ENGLISH.search(question)
    if match and not WORDS.EN_BEFORE.search(question[max(0, match.start() - LOOK) : match.start()]):
        return [Danger(danger_words.BARE_OPERATION, match[0], danger_words.BARE_SAFER)]
    return []
