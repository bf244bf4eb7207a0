"""Find statements of an answer that contradict the passages, skip an approval, or order the destruction of evidence.

The statements of the passages are called sources here. Sentence similarity cannot see a contradiction
(docs/offline.md), but two kinds of rule can. First, words that loosen a rule (need not, may, later, on one's own) are a
strong claim. A source about the same thing must therefore say the same. Second, what is forbidden or denied is compared
clause by clause, by the act that the clause names. The rules cannot see a contradiction in words that `stance_words`
does not have, or one that needs knowledge.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from ..runbooks.bm25 import content_words
from . import stance_words as words
from .facts import is_negative, without_people

# Of an act or thing. "spares": it is unnecessary, or is left as it is. "tells": it is not something else, which is
# neither a ban nor a permission. "does": none of the others; the act is to be done, or the thing is so.
Stance = Literal["does", "forbids", "spares", "permits", "tells"]
# "forbidden": does what the sources only forbid. "denied": forbids or spares what they only tell people to do.
# "loosened": `loosens`. "late": `puts_off`.
Conflict = Literal["", "forbidden", "denied", "loosened", "late"]

_BREAK = re.compile(
    r"[。；;]|(?<=[しいきぎっん])て(?!は|も|い|お|く|し)|(?<=[しせ])、|(?<=[一-龠々][いきちりみびぎえけてねめれげべ])、|ほか|うえで|上で|ながら|(?<=ず)に|(?<=ず)、|(?<=[さかたなばまらわせ]ず)(?=[A-Za-z一-龠ァ-ヶ])|(?<=ない)で|(?<=控え)、|(?<=避け)、|(?<=[ァ-ヶー一-龠々])で、"
)
# A part that says when, not what.
_CONDITION = re.compile(
    r"(?:場合|とき|ため|ので|時点|たら|なら|れば|まで|限り|か(?=[、をは])|よりも?前|の?前)(?:は|に|には|で|も|を)?、?"
)
_TIME_BEHIND_OBJECT = re.compile(r"(?<=を)[一-龠々ァ-ヶー]{1,8}前に(?:は、?)?")  # キーを調査前に削除しない
_STANCE_WORDS = frozenset({"必要", "不要", "禁止", "省略", "問題", "許可", "義務", "構わ", "場合", "実施", "可能"})
# 確認せずに説明しない asks for the first rather than forbidding it.
_WITHOUT = re.compile(r"[^、。]{0,60}ずに(?=[^。]{0,80}(?:ない|ません|禁))")
_LONG_ASIDE = re.compile(r"\([^()]{12,}\)")  # a reason
# 再起動して解除しようとせず denies both.
_NOT_EVEN = re.compile(r"て(?=[^、。]{0,15}うと(?:せず|しない))")
# しないよう伝える forbids; 記録を止めずに does not stop.
_TELLS_NOT = re.compile("ないよう(?:に|、)*[^、。]{0,12}(?:伝え|依頼|求め|頼|指示|案内|言)[ぁ-ん]*")
_GOES_ON = re.compile("(?<=記録|保全|報告|監視|発信|隔離|調査|取得|確認)(?P<of>[をはも])(?:止め|やめ)(?:ずに?|ないで?)")
_ENOUGH = re.compile(r"(?:だけ|のみ)で(?:結構|よ|十分|足り)")
_PREDICATE = 14  # letters of a statement that say what it comes to
_ENDING = 10  # letters of a statement that say whether all of it is a ban
_STEM = 4  # letters by which two forms of one word are the same: そのままに, そのまま触らせず


@dataclass(frozen=True)
class Clause:
    """Hold a clause: a part of a statement that names something and says what to do or not to do about it."""

    words: frozenset[str]  # content words without roles, numbers and words that only express the stance
    stance: Stance
    acts: frozenset[int]  # rows of ACTS that match the last act that it names; empty if it names none


def stance_of(text: str) -> Stance:
    """Return what a clause says about the act or thing that it names."""
    text = words.NO_NEGATION.sub("", unicodedata.normalize("NFKC", text))
    # In this order, because the words of "spares" and "permits" may contain those of "forbids".
    if words.SPARES.search(text):
        return "spares"
    if words.PERMITS.search(text):
        return "permits"
    if words.IS_NOT.search(text):
        return "tells"
    return "forbids" if is_negative(text) else "does"


@lru_cache(maxsize=4096)
def clauses_of(statement: str) -> tuple[Clause, ...]:
    """Return the clauses of a statement, in order. Clauses without content words are left out."""
    text = _NOT_EVEN.sub("", _WITHOUT.sub("", unicodedata.normalize("NFKC", statement)))
    text = words.HARM.split(_LONG_ASIDE.sub("", text))[-1]
    text = _GOES_ON.sub(r"\g<of>続け", _TELLS_NOT.sub("ない", text))
    found = (
        Clause(frozenset(content_words(without_people(part)) - _STANCE_WORDS), stance_of(part), _acts(part))
        for part in _parts(text)
    )
    return tuple(clause for clause in found if clause.words)


def _acts(part: str) -> frozenset[int]:
    ends = [(max((m.end() for m in row.finditer(part)), default=-1), i) for i, row in enumerate(words.ACTS)]
    last = max(ends)[0]
    return frozenset(i for end, i in ends if end == last >= 0)


def _parts(text: str) -> list[str]:
    return [part for whole in _BREAK.split(_TIME_BEHIND_OBJECT.sub("", text)) if (part := _CONDITION.split(whole)[-1])]


def find_conflict(statement: str, about: Sequence[str], known: Sequence[Clause], cited: Sequence[str] = ()) -> Conflict:
    """Return how a statement contradicts its sources, the statements of the passages; "" if no rule finds that it does.
    `about` and `cited` are as in `loosens`. `known`: the clauses of all sources."""
    text = unicodedata.normalize("NFKC", statement)
    # What it only rejects, or says may happen, contradicts nothing.
    if (words.REJECTS.search(text) and "必要" not in text) or words.MAY_BE.search(text):  # 必要なわけではない spares
        return ""
    statement = words.ASIDE.sub("", statement)
    if loosens(statement, about, cited):
        return "loosened"
    if puts_off(statement, about):
        return "late"
    if about and _meets_condition(statement, about[0]):
        return ""
    found = _turned(statement, about, known)
    if found == "forbidden":  # 申請できるのは確認が済んでから is a ban until then
        return "" if words.ONLY_LEAVE.search(statement) else found
    # What is denied on the way (…せず、…する) may only say how it is done.
    return found if stance_of(statement[-_PREDICATE:]) in ("forbids", "spares") else ""


def loosens(statement: str, about: Sequence[str], cited: Sequence[str] = ()) -> str:
    """Return the words that loosen what the sources require; "" if there are none, or if a source has them too.
    `about`: the sources about the same thing, the nearest first. `cited`: those in the sections that it cites."""
    own = content_words(statement)
    # Of the cited sections, only what shares a word with the statement is searched for the loosening words, too.
    there = [source for source in cited if own & content_words(source)]
    text = unicodedata.normalize("NFKC", statement)
    # A list cut down to one of its things.
    several = bool(about) and about[0].count("、") > text.count("、")
    several = several and not any(words.LIMITS.search(source) for source in about[:2])
    text = words.ONLY_LEAVE.sub("", text)
    if several and (found := _unbacked(words.NARROWS, words.ALONE.sub("", text), about)):
        return found
    for pattern in (words.SPARES, words.PERMITS, words.ALONE):
        if pattern is words.ALONE and not any(words.APPROVAL.search(source) for source in about):
            continue
        found = _unbacked(pattern, text, about)
        if words.LEAVES.match(found) and any(is_negative(source) for source in about[:2]):
            continue
        if found and _hurries(text, about):
            continue
        if found and pattern is words.SPARES and _spares_forbidden(text.partition(found)[0], [*about, *cited]):
            continue
        if found and _ENOUGH.search(text) and any(words.NARROWS.search(source) for source in [*about, *cited]):
            continue  # それだけで結構です where 「報告」ボタンだけを押させる
        if found and not any(found[:_STEM] in s or (pattern is words.ALONE and pattern.search(s)) for s in there):
            return found
    return ""


def _spares_forbidden(before: str, sources: Sequence[str]) -> bool:
    """Find the ban behind 開く必要はない: where a source says リンクを開かない, to spare the act loosens nothing."""
    verbs = re.findall(r"([一-龠々])[ぁ-ん]{1,4}", before[-_ENDING:])
    named = [re.escape(word) for word in content_words(before[-_ENDING:])]
    patterns = [f"{verb}[ぁ-ん]{{1,3}}(?:ない|ず)" for verb in verbs]
    patterns += [f"{word}[をはも]?(?:しない|せず|書かず|渡さず)" for word in named]
    return any(re.search(pattern, source) for pattern in patterns for source in sources)


def _hurries(statement: str, about: Sequence[str]) -> bool:
    """Tell whether a delay lets another thing be done at once, as one of the two nearest sources wants it."""
    if words.APPROVAL.search(statement) or not words.FIRST.search(statement):
        return False
    return any(words.NO_WAIT.search(source) for source in about[:2])


def puts_off(statement: str, about: Sequence[str]) -> str:
    """Return the words with which a statement delays what a source wants at once or by a deadline.
    "" if it has none, if a source has some too, or if another thing is to be done at once instead (`_hurries`)."""
    if not any(words.AT_ONCE.search(source) for source in about) or _hurries(statement, about):
        return ""
    return _unbacked(words.DELAYS, unicodedata.normalize("NFKC", statement), about)


def _turned(statement: str, about: Sequence[str], known: Sequence[Clause]) -> Literal["", "forbidden", "denied"]:
    near = [clause for source in about[:2] for clause in clauses_of(source)]
    own = clauses_of(statement)
    for clause in own:
        same = [other for other in near if _same_act(clause, other)]
        # Far from every source: only one of the same act that shares two words.
        same = same or [other for other in known if _same_act(clause, other, least=2)]
        stances = {other.stance for other in same}
        if clause.stance in ("does", "permits") and stances == {"forbids"}:
            return "forbidden"
        if clause.stance in ("forbids", "spares") and stances == {"does"} and near:
            return "denied"
    # The nearest source ends in a ban, and the statement has most words of the ban but forbids nothing.
    is_ban = bool(about) and bool(words.ENDS_IN_BAN.search(about[0])) and not words.HARM.search(statement)
    if is_ban and not any(clause.stance in ("forbids", "spares") for clause in own):
        named = frozenset(word for clause in own for word in clause.words)
        for ban in clauses_of(about[0]):
            if ban.stance == "forbids" and len(ban.words) > 2 and len(ban.words & named) >= 0.6 * len(ban.words):
                return "forbidden"
    return ""


def _meets_condition(statement: str, ban: str) -> bool:
    """Tell whether a ban such as 承認なしに (without approval) no longer holds, because its condition is met first."""
    match = words.UNLESS.search(ban)
    if not match or not words.THEN.search(statement):
        return False
    return bool(content_words(match["thing"][-_PREDICATE:]) & content_words(statement))


def _same_act(one: Clause, other: Clause, *, least: int = 1) -> bool:
    acts = one.acts & other.acts
    things = [w for w in one.words & other.words if not any(words.ACTS[act].search(w) for act in acts)]
    return bool(acts) and len(things) >= least


def _unbacked(pattern: re.Pattern[str], text: str, about: Sequence[str]) -> str:
    """Find the first words that match and that the text does not negate behind them; "" if any source matches."""
    if not about or any(pattern.search(source) for source in about):
        return ""
    for match in pattern.finditer(text):
        if any(match[0][:_STEM] in source or (match[0][:1] == "待" and "待た" in source) for source in about):
            continue
        if not words.DENIES.search(re.split("[、。](?!と)", text[match.end() :])[0]):
            return match[0]
    return ""


def skips_approval(statement: str, about: Sequence[str] = ()) -> bool:
    """Return whether a statement orders an act without approval, or leaves to one person what needs approval.
    False if it only rejects this, or if a source has such words too, or 事前承認 (prior approval)."""
    if words.REJECTS.search(statement) or any(
        words.SKIPS_APPROVAL.search(source) or "事前承認" in source for source in about
    ):
        return False
    statement = _plain(statement)
    for match in words.SKIPS_APPROVAL.finditer(statement):
        behind = statement[match.end() : match.end() + 40]
        if not words.REFUSES.match(behind.lstrip("にでとはもの、")) and not re.search(
            r"(?:し|なら|け)ない|せず|禁|ません|控え", behind
        ):
            return True
    return bool(about and words.APPROVAL.search(about[0]) and _unbacked(words.ALONE, statement, about))


def disguises_destruction(statement: str, about: Sequence[str] = ()) -> str:
    """Return the words with which a statement orders to destroy or hide evidence or data without saying so.
    "" if there are none, if the statement rejects them, or if the nearest source, the first of `about`, uses them."""
    statement = words.ASIDE.sub("", _plain(statement))
    match = words.EUPHEMISM.search(statement) or words.HUSHES.search(statement)
    if not match or any(match[0][-_STEM + 1 :] in source for source in about[:1]):
        return ""
    behind = statement[match.end() : match.end() + 30]
    return "" if words.REFUSES.search(behind) or words.ONLY_LEAVE.search(behind) else match[0]


def _plain(statement: str) -> str:
    """Permissions such as て構わない (do not mind) contain a negation that must not be taken for a ban."""
    return words.PERMITS.sub("てよい", unicodedata.normalize("NFKC", statement))
