"""Answer a question from the runbooks, with citations and the three warnings."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..base.texts import encodable
from ..errors import ConfigError
from ..flags.ambiguity import is_ambiguous
from ..flags.dangers import AGAINST_RUNBOOKS, UNNAMED, Danger, recommends_danger
from ..flags.evidence import Coverage, rate_coverage
from ..flags.prohibitions import find_prohibitions
from ..flags.raising import find_dangers, name_danger, raise_flags
from ..models.opening import Model, open_model
from ..prompts.templates import Prompt, assistant_values, check_prompt, fill, load_prompt
from ..records import NO_REPLY, AssistantAnswer, Completion, Flags, ModelRequest, Passage
from ..runbooks.asking import wants_leave
from ..runbooks.companions import NEUTRAL, Organisation
from ..runbooks.guide import Guide, choose_guide, find_contacts, find_precautions, wants_first_response
from ..settings import open_project
from .citations import format_context

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from ..runbooks.index import RunbookIndex

WIDE = 25  # passages that are searched to choose the runbook; k of them are used
_ASKS_DETAIL = re.compile("誰|だれ|どこ|いつ|何時|何分|どちら|連絡先|番号|who|when|where", re.IGNORECASE)
_POINTS_BACK = re.compile("それ|その|これ|この|あれ|さっき|先ほど|同じ|続き|that|this| it ", re.IGNORECASE)
TOLD_BACK = 2000  # characters of the previous answer that are sent
READ = 4_000  # characters of a question that are used to search the runbooks and raise the flags
OUTPUT_TOKENS = 4000  # an answer takes about 500 tokens; the rest is for hidden reasoning


def handle_query(
    question: str,
    *,
    index: RunbookIndex | None = None,
    model: str | BaseChatModel | Model = "auto",
    k: int | None = None,
    prompt: Prompt | str | Path | None = None,
    previous: AssistantAnswer | str | None = None,
) -> AssistantAnswer:
    """Answer a question from the runbooks. The answer begins with the warnings; then come the steps with their
    citations.

    A citation has the form `[出典: file.md > 見出し]` (source: file > heading). No judge is called.

    Parameters
    ----------
    question
        The question, in Japanese. If it has more than 4,000 characters, only its beginning and its end are used to
        search the runbooks. The answer then says so.
    index
        The runbooks, from `build_index`, `load_index` or `open_index`; the project's runbooks if left out.
    model
        "auto", "offline", the name of a model, or a chat model object.
    k
        The number of passages to retrieve; the project's number if left out. The answer follows the runbook that fits
        the question best. Sections of this runbook are added to the passages (docs/offline.md).
    prompt
        The assistant prompt, in any form that `load_prompt` accepts.
    previous
        The previous answer or the previous question, if this is a follow-up question such as 「それは誰に連絡しますか」 ("Who
        must be told about it?"). Both questions are then read together.

    Returns
    -------
    AssistantAnswer
        Its `flags` are the warnings. Rules decide about them (benchmarks/assistant.md has their precision and recall). The
        warning 危険操作 (dangerous operation) is also given if the answer itself recommends a destructive operation.

    Raises
    ------
    ConfigError
        For an empty question or an unusable prompt or model.
    ProviderError
        If the model's service failed.

    Examples
    --------
    >>> import socjudge as sj
    >>> answer = sj.handle_query("マルウェア検知アラートの初動を教えてください", model="offline")
    >>> answer.is_empty
    False
    """
    template = load_prompt(prompt, kind="assistant")
    check_prompt(template, "assistant")
    k = open_project().k if k is None else k
    if index is None:
        from ..runbooks.index import open_index  # its import takes a second of CPU, which judging alone does not need

        index = open_index()
    asked = prepare_answer(question, index=index, k=k, prompt=template, previous=previous)
    return asked.answer(open_model(model, task="answer").complete(asked.request))


def both_ends(question: str) -> str:
    """Return the question, or of a very long one its beginning and its end: most say there what happened and ask."""
    return question if len(question) <= READ else f"{question[: READ // 2]}\n{question[-READ // 2 :]}"


def follows_on(question: str) -> bool:
    """Return whether a question may need the previous one: it points back, is vague, or reports nothing."""
    return bool(_POINTS_BACK.search(question)) or is_ambiguous(question) or not wants_first_response(question)


@dataclass(frozen=True)
class Asked:
    """A question that was looked up: the request for the assistant's model, and what makes an answer of its reply."""

    question: str
    request: ModelRequest
    context: str
    flags: Flags
    dangers: Sequence[Danger]
    coverage: Coverage
    organisation: Organisation
    warnings: tuple[str, ...]

    def answer(self, completion: Completion) -> AssistantAnswer:
        body = completion.text.strip()
        named = [danger for danger in self.dangers if danger.citation in body]  # only those that the answer mentions
        flags = self.flags
        if recommended := recommends_danger(body):
            flags = replace(flags, dangerous_operation=True)
        warnings = [*warning_lines(flags, [*named, *recommended], self.organisation), *self.warnings]
        if completion.is_cut:
            warnings.append("⚠️ 途中まで: 回答が長さの上限で途切れています。続きは手順書で確認してください。")
        return AssistantAnswer(
            question=self.question,
            answer="\n".join([*warnings, "", body or NO_REPLY]) if warnings else body,
            context=self.context,
            passages=self.request.material["passages"],
            flags=flags,
            evidence=self.coverage.outcome,
            absence_probability=round(self.coverage.probability, 3),
            model=completion.model,
            usage=completion.usage,
            processing_time=completion.seconds,
            retries=completion.retries,
            truncated=completion.is_cut,
        )


def prepare_answer(
    question: str, *, index: RunbookIndex, k: int, prompt: Prompt, previous: AssistantAnswer | str | None = None
) -> Asked:
    """Search the runbooks, raise the flags, fill the checked prompt. ConfigError if the question is empty."""
    if not question.strip():
        raise ConfigError("the question is empty; ask about an alert, a device, an account or a procedure")
    if k < 1:
        raise ConfigError("k is {k}; ask for at least 1 passage", k=k)
    question = encodable(question)
    organisation = index.organisation
    before = previous.question if isinstance(previous, AssistantAnswer) else previous
    told = f"{encodable(before)}\n{question}" if before else question
    asked = both_ends(told)

    # A question about who or when, asked after an answer, announces nothing new.
    detail = both_ends(question) if before and _ASKS_DETAIL.search(question) else ""
    dangers = find_dangers(detail or asked, index=index)
    coverage = rate_coverage(asked, index=index)
    flags = raise_flags(asked, index=index, dangers=dangers, coverage=coverage)
    # The best answer to a dangerous plan is the safe way, so that is searched for together with the question.
    safer = " ".join(danger.safer for danger in dangers if danger.prohibition) or None
    found = index.search(f"{asked} {safer}" if safer else asked, max(k, WIDE))
    guide, precautions, rules = Guide(), None, dangers
    if flags.ambiguous_query and not flags.dangerous_operation:
        precautions = find_precautions(index)
        wanted_too = tuple(precautions.said.values())
    else:
        guide = choose_guide(asked, found, index, safer=safer, detail=detail)
        if not dangers and not detail and wants_leave(asked) and (stated := find_prohibitions(asked, index=index)):
            rules = [name_danger(asked, stated)]
        forbidding = {citation for rule in rules for citation in (rule.citation, rule.next_citation)}
        wanted_too = (*guide.passages, *(p for p in index.passages if p.citation in forbidding))
        wanted_too = (*wanted_too, *find_contacts(index))
    passages = _joined([*found[:k], *wanted_too], index, guide.source)
    context = format_context(passages)
    if isinstance(previous, AssistantAnswer):
        told = f"（直前の質問）{encodable(previous.question)}\n（直前の回答）{encodable(previous.answer)[:TOLD_BACK]}\n（今回の質問）{question}"
    # The dangers that break a rule of the runbooks, for the model to confirm or reject.
    suspicion = "、".join(f"「{d.operation}」（{d.prohibition} {d.citation}）" for d in dangers if d.prohibition)
    values = assistant_values(told, context, flags, suspicion)
    request = ModelRequest(
        task="answer",
        messages=({"role": "user", "content": fill(prompt.text, values)},),
        material={
            "question": asked,
            "passages": passages,
            "guide": guide,
            "flags": flags,
            "dangers": rules,
            "precautions": precautions,
            "evidence": coverage.outcome,
            "organisation": organisation,
        },
        max_output_tokens=OUTPUT_TOKENS,
    )
    long = f"⚠️ 長い質問: {len(question):,}字のうち、手順書を探すために読んだのは先頭と末尾の{READ // 2:,}字ずつです。要点だけで聞き直してください。"
    warnings = (long,) if len(question) > READ else ()
    return Asked(question, request, context, flags, dangers, coverage, organisation, warnings)


def _joined(passages: Sequence[Passage], index: RunbookIndex, first: str) -> tuple[Passage, ...]:
    """Return each passage once, whatever its score, in the order of the runbooks, with those of the source `first` first."""
    places = {replace(passage, score=0.0): n for n, passage in enumerate(index.passages)}
    sources = list(dict.fromkeys([first, *(passage.source for passage in passages)]))
    once = {replace(passage, score=0.0): passage for passage in reversed(passages)}
    return tuple(sorted(once.values(), key=lambda p: (sources.index(p.source), places[replace(p, score=0.0)])))


def warning_lines(flags: Flags, dangers: Sequence[Danger] = (), organisation: Organisation = NEUTRAL) -> list[str]:
    """Return the warnings in Japanese, one line each. 危険操作 (dangerous operation) has one per kind of danger."""
    lines = []
    if flags.dangerous_operation:
        safer = {danger.operation: danger.safer for danger in dangers if danger.operation != UNNAMED}
        for operation, way in safer.items():
            what = f"「{operation}」は危険な操作のため、実施しないでください。"
            if operation == AGAINST_RUNBOOKS:
                what = "手順書の定めに反するおそれがあるため、自分の判断では実施しないでください。"
            lines.append(f"⚠️ 危険操作: {what}{way}")
        if not safer:
            lines.append(
                f"⚠️ 危険操作: 危険な操作の疑いがあります。{organisation.permission}なしに実施しないでください。"
            )
    if flags.insufficient_evidence:
        lines.append(
            "⚠️ 根拠不足: 手順書のどこに当たるかを確かめられませんでした。推測で作業せず、"
            f"{organisation.deciding}に確認してください。"
        )
    if flags.ambiguous_query:
        lines.append("⚠️ 曖昧質問: 対象・症状・時刻が分からないため、手順を特定できません。")
    return lines
