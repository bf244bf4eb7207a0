"""Find the sentences of a long question that ask something.

A long question tells what happened before it asks. What happened shows which runbook is needed. But that part of the
question is most like the sections about work that is already done. Only the sentences that ask show which section is
wanted, so the index is also searched with these sentences alone.
"""

from __future__ import annotations

import re

LONG_REPORT = 3  # sentences
MOST_ASKING = 2
MOST_CLAUSES = 6
SHORTEST_CLAUSE = 6  # characters

_END = re.compile(r"([。！？!?\n…]+|\.{2,}|\.\s)")
_ASKS = re.compile(
    "(?:誰|だれ|何[一-鿿]?|なに|どこ|いつ|どれ)(?!も|か[^ら])|どう(?!せ|も|ぞ)|どの|どんな|いくつ|どちら|[?？]|教えて"
    "|ますか|ですか|せんか|でしょう|いいか|しょうか|べき"
)
_PLANS = re.compile("つもり|ようと(?:思|して|考)|今から|これから|[てで]おきます|ますね")
_ASKS_LEAVE = re.compile(
    "(?<!ば)(?:いい|よい|良い|OK|大丈夫|構い|かまい|可能|問題ない)(?:です|でしょう|ます|ません)?(?:よね|よ|か|かな|っすか|んです)*[?？。！!]*$"
    "|(?:ても|って|して)(?:いい|よい|良い|大丈夫|構)|OK[?？]",
    re.IGNORECASE,
)

# Stages of work: how people ask for them, and the words that the runbooks of any organisation use in headings.
_STAGES = tuple(
    (re.compile(asks), re.compile(named))
    for asks, named in (
        ("戻|復帰|再開|解除|返|使(?:い|え|わせ)|外し|元に|再び", "復旧|解除|復元|再開|取消"),
        ("調べ|特定|見分け|洗い出|どこまで|範囲|確かめ|探|(?:だれ|誰)が", "調査|確認|判定|特定|範囲|抽出"),
        ("報告|連絡|(?:だれ|誰)に|届け|知らせ|伝え|電話|呼", "報告|連絡|エスカ|呼び出し|第一報"),
        ("承認|許可|OK|認め", "承認|申請|判断"),
        ("止め|遮断|切(?:る|り|っ|れ)|塞|弾|閉じ", "封じ込め|遮断|停止|無効|隔離"),
        ("残(?:し|す)|記録|証拠|保管|取(?:る|り|っ)", "保全|証拠|記録|ハッシュ"),
    )
)


def split_clauses(question: str) -> list[str]:
    """Return the last MOST_CLAUSES sentences of a question, without end marks and without very short ones."""
    return [text for text, _ in _read(question)][-MOST_CLAUSES:]


def find_asking(question: str) -> str:
    """Return the last MOST_ASKING sentences of a long question that ask something, or else announce it, as one text.
    "" if there are none, or if the question has fewer than LONG_REPORT sentences."""
    sentences = _read(question)
    for pattern in (_ASKS, _PLANS) if len(sentences) >= LONG_REPORT else ():
        if found := [text for text, end in sentences if pattern.search(text + end)]:
            return "。".join(found[-MOST_ASKING:])
    return ""


def asks_leave(question: str) -> bool:
    """Return whether a text asks for permission to do something: もう戻していいですか (may I put it back now?)."""
    return bool(_ASKS_LEAVE.search(question.strip()))


def wants_leave(question: str) -> bool:
    """Return whether a sentence of a question asks for permission to do something, or announces that it will be done."""
    return any(asks_leave(text + end) or _PLANS.search(text) for text, end in _read(question))


def is_of_stage(heading: str, asking: str) -> bool:
    """Return whether a heading names the stage of work, such as 復旧 (recovery), that `asking` is about."""
    return any(asks.search(asking) and named.search(heading) for asks, named in _STAGES)


def _read(question: str) -> list[tuple[str, str]]:
    parts = [*_END.split(question), ""]
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return [(text.strip(), end) for text, end in pairs if len(text.strip()) >= SHORTEST_CLAUSE]
