"""The embedded default: a model without a model service, built from retrieval, rules and sentence similarity.

It answers by quoting the passages, and judges by measuring what can be measured without an LLM
(`offline_judge.py`). It costs nothing, needs no network, and always says what it is: in the model's name, in the
judge's comment, and in the log.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from .. import constants
from ..base.texts import split_blocks
from ..records import Completion, Flags, ModelRequest, Passage, Usage
from ..runbooks.bm25 import content_words
from ..runbooks.embeddings import embed_texts
from . import event_loop
from .offline_judge import judge
from .pacing import Account, PacedModel, RunGate

JUDGE_NAME = "offline-rubric-1"
ASSISTANT_NAME = "offline-extract-1"
MAX_STEPS = 10


class OfflineModel(PacedModel):
    """The embedded default as a model: reads a request's material, not its prompt."""

    def __init__(self) -> None:
        super().__init__("offline", "offline", Account())

    def most_usd(self, request: ModelRequest) -> float:
        """Nothing."""
        return 0.0

    async def _send(self, request: ModelRequest, run: RunGate) -> Completion:
        return await event_loop.in_thread(self._reply, request)  # type: ignore[no-any-return]

    def _reply(self, request: ModelRequest) -> Completion:
        material = request.material
        if request.task == "judge":
            reply = judge(material["question"], material["answer"], material["criteria"])
            return Completion(json.dumps(reply, ensure_ascii=False), JUDGE_NAME, Usage(calls=1), "stop")
        text = compose_answer(material["question"], material["passages"], material["flags"])
        return Completion(text, ASSISTANT_NAME, Usage(calls=1), "stop")


def compose_answer(question: str, passages: Sequence[Passage], flags: Flags) -> str:
    """An answer quoted from the passages, each step with its citation; Japanese Markdown without warnings.

    An ambiguous question is asked back, one without evidence is declined, and a dangerous one gets the
    prohibitions and the safe steps of the passages."""
    if flags.ambiguous_query:
        return _ask_back(passages)
    if flags.insufficient_evidence:
        return _decline(passages)
    steps = _choose_steps(question, passages, dangerous=flags.dangerous_operation)
    if not steps:
        return _decline(passages)
    lead = (
        "手順書では、次のとおり定められています。"
        if flags.dangerous_operation
        else "手順書の該当箇所は次のとおりです。"
    )
    return "\n".join([lead, "", *(f"{n}. {text} {citation}" for n, (text, citation) in enumerate(steps, 1))])


def _ask_back(passages: Sequence[Passage]) -> str:
    asked = [
        "次の情報を教えてください。手順を特定してご案内します。",
        "",
        "- 対象: 端末名・サーバ名・アカウント・IPアドレスのどれに起きていますか。",
        "- 症状: どのような表示・動作・アラート（検知名、重大度）ですか。",
        "- 発生時刻: いつから起きていますか。今も続いていますか。",
        "- 実施済みの操作: すでに行ったことがあれば、その内容と時刻を教えてください。",
    ]
    precautions = _choose_steps(
        "証拠保全前の電源断や再起動、ログの削除をしない。SOCリーダーへ報告する", passages, limit=2
    )
    if precautions:
        asked += ["", "情報がそろうまでは、手順書の次の点に注意してください。", ""]
        asked += [f"- {text} {citation}" for text, citation in precautions]
    return "\n".join(asked)


def _decline(passages: Sequence[Passage]) -> str:
    near = list(dict.fromkeys(passage.citation for passage in passages))[:3]
    lines = [
        "ご質問の内容は、手順書に該当する記載がありません。推測による手順は示しません。",
        "",
        "SOCリーダーまたはCSIRT責任者に確認し、指示を受けてください。",
    ]
    if near:
        lines += ["", "参考（近い内容の手順書。ご質問への回答ではありません）:", " ".join(near)]
    return "\n".join(lines)


def _choose_steps(
    question: str, passages: Sequence[Passage], *, dangerous: bool = False, limit: int = MAX_STEPS
) -> list[tuple[str, str]]:
    """(text, citation) of the statements that bear on the question most, those of the best passage first."""
    # Background is quoted only if nothing else was found.
    useful = [p for p in passages if not p.heading.startswith(constants.BACKGROUND_SECTIONS)] or list(passages)
    candidates = [(passage, block) for passage in useful for block in split_blocks(passage.text)]
    if not candidates:
        return []
    vectors = embed_texts([question, *(f"{passage.heading} {block}" for passage, block in candidates)])
    cosines = vectors[1:] @ vectors[0]
    asked = content_words(question)
    wants_command = any(word in question for word in ("コマンド", "command", "実行"))
    scored = []
    for position, ((passage, block), cosine) in enumerate(zip(candidates, cosines, strict=True)):
        shared = len(asked & content_words(f"{passage.heading} {block}")) / max(len(asked), 1)
        bonus = 0.3 if dangerous and passage.heading.startswith("禁止事項") else 0.0
        if "```" in block:
            bonus += 0.4 if wants_command else -0.6
        scored.append((passage.score + float(cosine) + shared + bonus, position, passage, block))
    best = sorted(scored, key=lambda item: (-item[0], item[1]))[:limit]
    # The passage with the best statement first; within a passage its own order, as steps follow each other.
    order = list(dict.fromkeys(passage for _, _, passage, _ in best))
    best.sort(key=lambda item: (order.index(item[2]), item[1]))
    return [(block, passage.citation) for _, _, passage, block in best]
