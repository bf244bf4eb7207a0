"""Prepare an answer for a judge: rewrite the citations of other assistants in our form, and give headings to contexts.

Our form is `[出典: source > heading]`, where 出典 means "source". Citations such as `[1]`, `[^1]`, `【1†…】`, `[doc1]` and
`(出典: 名前)` are rewritten in it. Source and heading are those of the context that the citation names, by position or by
name. If it is not certain which context is meant, as beside a list of sources of the answer's own, the citation stays as
it is. The stored answer is never changed. An answer of the built-in assistant is not rewritten at all.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from urllib.parse import unquote, urlsplit

from ..base.texts import CITATION, cited_sources, fold
from ..records import AssistantAnswer, Passage

# A citation on a line of its own. The pattern tests for that last, which is twice as fast.
_HEADED = re.compile(r"\[出典:(?<=^\[出典:) *([^\]>\n]{1,500}?) *(?:> *([^\]\n]{1,500}?) *)?\]\s*", re.MULTILINE)
_WORD = r"(?:(?:docs?|sources?|refs?|出典|参照|資料|文書)\s*[:：]?\s*)?"
_MANY = rf"{_WORD}\d{{1,3}}(?:\s*[,、，]\s*{_WORD}\d{{1,3}})*"
_CITING = re.compile(
    r"(?=[`\[［【(（])(?:"  # all citations begin with one of these; checking this first is twice as fast
    r"(?P<code>```.*?(?:```|\Z)|`[^`\n]+`)"
    r"|(?P<link>\[[^\]\[\n]*\]\([^()\s]+\))"
    rf"|(?P<marks>[\[［]\^?(?P<many>{_MANY})[\]］]|【(?P<lens>{_MANY})(?:†(?P<tail>[^】\n]{{0,300}}))?】)"
    r"|【\d+:\d+†(?P<file>[^】\n]{1,300})】"
    rf"|(?P<ours>{re.sub('[?]P<[a-z]+>', '?:', CITATION.pattern)}))",
    re.IGNORECASE | re.DOTALL,
)
# A list of the answer's own, of sources or of steps: its head, or a number that begins a line of text.
_LIST = re.compile(
    r"^(?:[#* \t]*+(?:出典|参照|参考(?:文献|資料|文書)?|引用元?|脚注|references?|sources?|citations?)"
    r"[* \t]*+[:：]?[* \t]*+$"
    r"|[ \t]*(?:[-*・>][ \t]*)?[\[［【]\^?(?:doc)?\d{1,3}[\]］】][:：]?[ \t]*[^\s\[［【。、,.:：])",
    re.IGNORECASE | re.MULTILINE,
)
_NO_BRACKETS = str.maketrans("[]［］", "()（）")
_OUR_NAME = re.compile(r"資料\d+")  # the form of `numbered_name`
_NUMBER = re.compile(r"\d+")


def as_material(answer: AssistantAnswer) -> AssistantAnswer:
    """Return an answer as a judge sees it: with citations in our form, if its contexts have names."""
    # only our own assistant sets `evidence`, and it writes our form
    given = () if answer.evidence else contexts_of(answer)
    if not given:
        return answer
    if not all(passage.source for passage in given):
        return replace(answer, context=answer.context or "\n\n".join(p.text for p in given), passages=given)
    text = _in_our_form(answer.answer, given)
    as_it_is = _HEADED.search(answer.context) or not all(p.text.strip() in answer.context for p in given)
    # A text that is missing, or does not fit the passages any more, is made from the passages.
    context = answer.context if answer.context.strip() and as_it_is else format_context(given)
    return replace(answer, answer=text, context=context, passages=given)


def unmeasurable(answer: AssistantAnswer) -> tuple[str, ...]:
    """Those of 根拠性 and 引用明示 that no judge can score, because the answer came without the sources they need."""
    if not answer.context.strip() and not answer.passages:
        return ("根拠性", "引用明示")
    given = () if answer.evidence else contexts_of(answer)
    if all(not p.source or _OUR_NAME.fullmatch(p.source) for p in given):
        # Without names, nothing can be cited by name, and by number only if the contexts are numbered.
        counted = all(passage.source for passage in given)
        for found in _CITING.finditer(answer.answer if given else ""):
            cited = cited_sources(found["ours"] or "")
            by_number = found["marks"] or all(re.fullmatch(_MANY, source, re.IGNORECASE) for source in cited)
            if not found["code"] and not (counted and by_number and not found["link"]):
                return ("引用明示",)
    return ()


def format_context(passages: Sequence[Passage]) -> str:
    """Return the passages as the text that stands in prompts. Each passage stands below its citation."""
    return "\n\n".join(f"{passage.citation}\n{passage.text}" for passage in passages)


def citable(name: str) -> str:
    """Return a name in a form that can stand in a citation: on one line, with round brackets instead of square ones."""
    return " ".join(name.translate(_NO_BRACKETS).split())


def numbered_name(k: int, count: int) -> str:
    """Return a name for the k-th of `count` contexts, such as 資料03, that no other contains."""
    return f"資料{k:0{len(str(count))}}"


def contexts_of(answer: AssistantAnswer) -> tuple[Passage, ...]:
    """Its passages, or else the parts of its context text between citations in our form. Passages without a source are
    named 資料1 (source 1) …."""
    if answer.passages:
        count = len(answer.passages)
        return tuple(
            p if p.source else replace(p, source=numbered_name(k, count)) for k, p in enumerate(answer.passages, 1)
        )
    context = answer.context.strip()
    heads = list(_HEADED.finditer(context))
    if not heads:
        return (Passage(context, "", ""),) if context else ()
    ends = [*(head.start() for head in heads[1:]), len(context)]
    return tuple(
        Passage(context[head.end() : end].strip(), head[1], head[2] or "")
        for head, end in zip(heads, ends, strict=True)
    )


def _in_our_form(text: str, passages: Sequence[Passage]) -> str:
    marks = [found["marks"] for found in _CITING.finditer(text) if found["marks"]]
    marks += [source for source in cited_sources(text) if re.fullmatch(_MANY, source, re.IGNORECASE)]
    numbers = {int(n) for mark in marks for n in _NUMBER.findall(mark)}
    # If they count from 0, or stand beside citations in our form, it is unknown what they count.
    mixed = any(_is_known(source, passages) for source in cited_sources(text))
    is_counted = 0 not in numbers and not mixed and not _LIST.search(text)
    places = {k: passage.citation for k, passage in enumerate(passages, start=1)} if is_counted else {}

    def by_number(numbers: str) -> str:
        named = [places.get(int(n), "") for n in _NUMBER.findall(numbers)]
        return (
            "".join(dict.fromkeys(named)) if all(named) else ""
        )  # if one of several, as in [1, 3], is no context, none is certain

    def one(found: re.Match[str]) -> str:
        named = ""
        if found["file"]:
            named = _by_name(found["file"], passages)
        elif found["marks"]:
            named = _by_name(found["tail"] or "", passages) or by_number(found["many"] or found["lens"])
        elif found["ours"] and not _is_known(source := cited_sources(found["ours"])[0], passages):
            is_number = re.fullmatch(_MANY, source, re.IGNORECASE)
            named = by_number(source) if is_number else _by_name(source, passages)
        return named or found[0]  # unchanged, if it is not certain which context it names

    return _CITING.sub(one, text)


def _by_name(name: str, passages: Sequence[Passage]) -> str:
    """Return a citation of the context that has this name as its heading or its source. "" if no context has it.
    If several have it as their heading, it is "" too. If several have it as their source, the source is cited."""
    # A name that is a source may have a path before it, and a file ending or "> section" after it.
    source, _, heading = unquote(name).partition(">")
    source = urlsplit(source.strip().strip("`*「」\"'")).path.rstrip("/").rpartition("/")[2]
    places = [p for p in passages if source and fold(source) in (fold(p.source), fold(_stem(p.source)))]
    if heading.strip():
        places = [p for p in places if fold(heading) in fold(p.heading) or fold(p.heading) in fold(heading)]
    if not places and not heading:
        wanted = fold(name)
        places = [p for p in passages if wanted and wanted in (fold(p.heading), fold(p.heading.split(">")[-1]))]
        return places[0].citation if len(places) == 1 else ""
    if len(places) == 1:
        return places[0].citation
    return f"[出典: {places[0].source}]" if places and len({p.source for p in places}) == 1 else ""


def _is_known(source: str, given: Sequence[Passage]) -> bool:
    folded = source.casefold()
    return any(p.source.casefold() in folded for p in given)


def _stem(source: str) -> str:
    return re.sub(r"\.\w{1,5}$", "", source.rpartition("/")[2])
