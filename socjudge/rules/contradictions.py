"""Whether a statement does what another forbids, or spares what another asks for, in whatever words.

Sentence similarity cannot see a contradiction (docs/offline.md). Here a statement is cut into clauses, each clause gets a
stance (does, forbids, spares, permits), and two clauses about the same thing contradict each other when their stances do.
What it cannot see: a contradiction in a synonym that neither table has, or one that takes knowledge.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from ..runbooks.bm25 import content_words
from .facts import is_negative, without_people

Stance = Literal["does", "forbids", "spares", "permits"]

# What need not be done, or is left as it is.
_SPARES = re.compile(
    r"(?:必要|義務)(?:は|が|も|性は)?(?:ない|ありません|なく|なし)|不要|省[いくけ略]|(?:なく|ず)(?:て|と)?も?(?:よい|良い|いい|構わ|かまわ|差し支え|問題(?:は|が)?な|大丈夫|足り)"
    r"|見送[りっるら]|後回し|待たず|待つ必要|(?:を|は)問わず|そのまま(?:に|使|利用|継続|放置|続|業務|とし)|続けさせ|使い続け|据え置|放置|従来の|割愛|抜きで|飛ばして|必須では"
)
_PERMITS = re.compile(
    r"[てで]も?(?:よい|良い|いい(?!え)|よろしい|構わ(?:ない|ません)|かまわ(?:ない|ません)|差し支え|問題(?:は|が)?(?:ない|ありません)|大丈夫)|差し支えな|許される|許可する"
)
_BREAK = re.compile(
    r"[。；;]|(?<=[しいきぎっん])て(?!は|も|い|お|く|し)|(?<=[しせ])、|ほか|うえで|上で|ながら|(?<=ず)に|(?<=ず)、|(?<=ない)で"
)
# A part that says when, not what; and words that look like a negation and are none.
_CONDITION = re.compile(
    r"(?:場合|とき|ため|ので|時点|たら|なら|れば|まで|限り|か|よりも?前|の?前)(?:は|に|には|で|も|を)?、?"
)
_NO_NEGATION = re.compile(
    r"(?:てい)?ない(?=か|場合|とき|うち|まま|限り|よう)|できない|でき(?:ず|ません)|足りない|届かない|られない|れない|だけで[^。、]{0,8}ない"
)
_RUN = re.compile(r"[一-龠々]+|[ァ-ヶー]+|[A-Za-z0-9_-]+")
_STANCE_WORDS = frozenset({"必要", "不要", "禁止", "省略", "問題", "許可", "義務", "構わ", "場合", "実施", "可能"})

_APPROVAL = re.compile(r"承認|許可|決裁|緊急変更申請|同意")
_SKIPS_APPROVAL = re.compile(
    r"(?:承認|許可|決裁|申請|同意|指示)[^、。]{0,8}(?:待たず|待つ(?:こと|必要)|得ず|取らず|経ず|受けず|なし(?:に|で)|なく|無しで|無しに|不要|省|抜き|[はをも](?:後(?:で|から|日|追い)|事後))|(?:保全|保存|証拠)[^、。]{0,6}待たず"
)
_OWN_JUDGEMENT = re.compile(
    r"直ちに|即座|すぐに|独断|(?:自分|自ら|担当者?|当番|個人|現場)の判断|判断(?:だけ)?で(?:足り|よい|実施|行)|連絡だけ|口頭のみ"
)
# Doing away with evidence or data in words that name no destruction.
_THING = r"(?:ログ|イベント|履歴|記録|証拠|証跡|痕跡|データ|ファイル|ディスク|領域|端末|サーバ|フォルダ|バックアップ|世代|キャッシュ|中身|メール|アカウント|キー|検体)"
_EUPHEMISM = re.compile(
    rf"{_THING}[^。]{{0,40}}(?:空(?:に|っぽ)|(?<!エ)クリア(?:に|し|する)|まっさら|真っさら|きれい(?:に|さっぱり)|綺麗に|片付け|一掃|リセット|工場出荷|白紙|なかったこと|処分|捨て|破棄|整理して減|間引|リフレッシュ|更地|初めの状態|入れ直)"
)
_REFUSES = re.compile(
    r"(?:しない|せず|しては|なら(?:ない|ず)|禁止|禁じ|避け|控え|厳禁|ません|しないで|やめ|前に|まで(?:は|に)?[^。]*ない)"
)


@dataclass(frozen=True)
class Clause:
    """A part of a statement: its content words without those that only say the stance; action: those of what is done."""

    words: frozenset[str]
    action: frozenset[str]
    stance: Stance


def stance_of(text: str) -> Stance:
    """What a clause says about what it names: permits and spares come before forbids, whose words they share."""
    text = _NO_NEGATION.sub("", unicodedata.normalize("NFKC", text))
    if _SPARES.search(text):
        return "spares"
    if _PERMITS.search(text):
        return "permits"
    return "forbids" if is_negative(text) else "does"


@lru_cache(maxsize=4096)
def clauses_of(statement: str) -> tuple[Clause, ...]:
    """The clauses of a statement that name something."""
    text = unicodedata.normalize("NFKC", statement)
    parts = (part for whole in _BREAK.split(text) for part in [_CONDITION.split(whole)[-1]] if part)
    found = (
        Clause(frozenset(content_words(without_people(part)) - _STANCE_WORDS), _action(part), stance_of(part))
        for part in parts
    )
    return tuple(clause for clause in found if clause.words)


def _action(part: str) -> frozenset[str]:
    """The last word of a clause that says what is done: 再設定 in パスワードの再設定は必要ない."""
    for run in reversed(_RUN.findall(part)):
        if words := content_words(run) - _STANCE_WORDS:
            return frozenset(words)
    return frozenset()


def _contradict(said: Stance, known: Stance) -> bool:
    return (said in ("does", "permits") and known == "forbids") or (said in ("forbids", "spares") and known == "does")


def find_contradicted(statement: str, known: Sequence[Clause]) -> Literal["", "forbidden", "denied"]:
    """Whether a clause does or permits what the known clauses forbid ("forbidden"), or forbids or spares what they do
    ("denied"). A clause that as near a known one agrees with is none."""
    for clause in clauses_of(statement):
        if len(clause.words) < 3:
            continue
        agrees, best, against = 0.0, 0.0, None
        for other in known:
            share = len(clause.words & other.words) / len(clause.words)
            if share < 0.75 or not clause.action <= other.words:
                continue
            # Of two that hold all the words the one that says little else is nearer.
            share += len(clause.words & other.words) / len(clause.words | other.words)
            if _contradict(clause.stance, other.stance):
                if share > best:
                    best, against = share, other
            else:
                agrees = max(agrees, share)
        if against is not None and best > agrees:
            return "forbidden" if against.stance == "forbids" else "denied"
    return ""


def turns_against(statement: str, source: str) -> bool:
    """Whether a statement that follows its source closely leaves undone, or allows, what the source does not."""
    return any(
        pattern.search(statement) and not pattern.search(source) and not is_negative(source)
        for pattern in (_SPARES, _PERMITS)
    )


def skips_approval(statement: str, source: str = "") -> bool:
    """Whether a statement tells to act without an approval, or acts at once where its source asks for one."""
    for match in _SKIPS_APPROVAL.finditer(statement):
        if not _REFUSES.match(statement[match.end() :][:40].lstrip("にでとはもの、")) and not re.search(
            r"しない|せず|ならない|禁|ません|控え", statement[match.end() : match.end() + 40]
        ):
            return not (source and _SKIPS_APPROVAL.search(source))
    return bool(
        source
        and _APPROVAL.search(source)
        and not _APPROVAL.search(statement)
        and _OWN_JUDGEMENT.search(statement)
        and not _OWN_JUDGEMENT.search(source)
    )


def disguises_destruction(statement: str) -> str:
    """The words by which a statement tells to do away with evidence or data without naming it; "" if it does not."""
    match = _EUPHEMISM.search(statement)
    if match and not _REFUSES.search(statement[match.end() : match.end() + 30]):
        return match[0]
    return ""
