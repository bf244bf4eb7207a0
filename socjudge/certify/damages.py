"""Damage an answer by rule, or change its form only. Each function changes one thing and leaves the rest as it is.

A function takes one subject, which is a question with an answer. It returns a list of changed subjects, mostly of one.
The list has several if the change can be made in several places, and it is empty if it cannot be made. `changes` says
what each change must do to the scores. The functions work on Japanese text, because the answers are Japanese.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Any

from ..base.texts import bigrams, change_citations, cited_sources, containment, fold
from .subjects import Item, Subject, join_items, without_citations

Make = Callable[[Subject], list[Subject]]

_COVERS = 0.5  # share of a keypoint's character pairs that an item needs to be about it
_ABOUT_WARNINGS = re.compile(r"警告|危険")
_OF_DANGER = re.compile(r"危険|警告|注意|実施しない|止め")
_DONE = re.compile(
    r"(?P<verb>報告|隔離|保全|記録|確認|取得|複写|変更|失効|再設定|調査|連絡|依頼|遮断|停止|無効化|検索|通知|禁止)"
    r"(?P<ending>する|します|してください|しましょう)(?=。)"
)
_NOT_DONE = {"する": "しない", "します": "しません", "してください": "しないでください", "しましょう": "しません"}
_WIDE = str.maketrans("0123456789", "０１２３４５６７８９")


@cache
def sentences() -> dict[str, Any]:
    return tomllib.loads((files("socjudge.certify") / "sentences.toml").read_text(encoding="utf-8"))


# -- citations


def drop_citations(subject: Subject) -> list[Subject]:
    text = subject.answer.answer
    return [subject.saying(without_citations(text))] if cited_sources(text) else []


def cite_nowhere(subject: Subject) -> list[Subject]:
    text, nowhere = subject.answer.answer, sentences()["nowhere"]
    return [subject.saying(change_citations(text, lambda _: f"[出典: {nowhere}]"))] if cited_sources(text) else []


def move_citations(subject: Subject) -> list[Subject]:
    """Let each citation name another section: the next one that the answer cites.
    If the answer cites only one section, the other sections come from its context."""
    cited = cited_sources(subject.answer.answer)
    ring = cited if len(cited) > 1 else [*cited, *(s for s in cited_sources(subject.answer.context) if s not in cited)]
    if not cited or len(ring) < 2:
        return []
    following = dict(zip(ring, [*ring[1:], ring[0]], strict=True))
    return [subject.saying(change_citations(subject.answer.answer, lambda source: f"[出典: {following[source]}]"))]


# -- keypoints and claims


def remove_keypoint(subject: Subject) -> list[Subject]:
    """Return one damaged answer per keypoint: the answer without the items about this keypoint. Warnings stay."""
    found = []
    for keypoint in subject.question.expected_keypoints:
        kept = [item for item in subject.items if item.is_warning or not covers(item, keypoint)]
        if (
            not _ABOUT_WARNINGS.search(keypoint)
            and len(kept) < len(subject.items)
            and any(i.is_statement for i in kept)
        ):
            found.append(subject.saying(join_items(kept)))
    return found


def covers(item: Item, keypoint: str) -> bool:
    return containment(bigrams(fold(keypoint)), bigrams(fold(item.text))) >= _COVERS


def list_keypoints(subject: Subject) -> list[Subject]:
    listed = "、".join(subject.question.expected_keypoints)
    return [subject.saying(f"{listed}などを、状況に応じて適切に行ってください。")] if listed else []


def add_foreign_claim(subject: Subject) -> list[Subject]:
    """Add a statement of another question's answer, which cites a file there that is not in this answer's context."""
    here = _files(subject.answer.context)
    for other in subject.others:
        for item in other.statements:
            cited = _files(item.text)
            said = without_citations(item.body).strip()
            if cited and not cited & here and said.endswith("。") and "```" not in said:
                return [_adding(subject, said)]
    return []


def _files(text: str) -> set[str]:
    return {source.partition(">")[0].strip() for source in cited_sources(text)}


def _adding(subject: Subject, sentence: str) -> Subject:
    items = subject.items
    last = max(i for i, item in enumerate(items) if item.is_statement)
    number = re.match(r"\s*(\d+)(.*)", items[last].marker, re.DOTALL)
    marker = f"{int(number[1]) + 1}{number[2]}" if number else items[last].marker
    cited = cited_sources(items[last].text)[-1:]
    behind = "".join(f" [出典: {source}]" for source in cited)
    added = Item(f"{marker}{sentence}{behind}\n")
    return subject.saying(join_items([*items[: last + 1], added, *items[last + 1 :]]).rstrip("\n"))


def add(name: str) -> Make:
    """Return a change that adds the sentence `name` of `sentences.toml` to an answer as a further step."""

    def change(subject: Subject) -> list[Subject]:
        return [_adding(subject, sentences()[name])] if subject.statements else []

    return change


# -- facts


def rewrite(pattern: str, new: Callable[[re.Match[str]], str]) -> Make:
    """Return a change that replaces the first match of `pattern` in an answer's statements by `new`."""
    found = re.compile(pattern)

    def change(subject: Subject) -> list[Subject]:
        items = subject.items
        for place, item in enumerate(items):
            match = found.search(without_citations(item.body)) if item.is_statement else None
            if match is not None:
                changed = Item(item.marker + item.body.replace(match[0], new(match), 1))
                return [subject.saying(join_items([*items[:place], changed, *items[place + 1 :]]))]
        return []

    return change


def change_role(subject: Subject) -> list[Subject]:
    unused = [role for role in sentences()["other_roles"] if role not in subject.answer.answer]
    changed = (
        (rewrite(re.escape(role), lambda _: unused[0])(subject) for role in sentences()["roles"]) if unused else ()
    )
    return next(filter(None, changed), [])


def _negated(match: re.Match[str]) -> str:
    return match["verb"] + _NOT_DONE[match["ending"]]


change_number = rewrite(
    r"(内線)\d{4}|(\d+)(台|名|回|件|分|時間|日)", lambda m: f"{m[1]}7999" if m[1] else f"{m[2]}0{m[3]}"
)
negate_step = rewrite(_DONE.pattern, _negated)


# -- safety


def remove_warnings(subject: Subject) -> list[Subject]:
    """Remove the warnings that name a danger. Warnings that something is unknown stay: they are not about safety."""
    kept = [item for item in subject.items if not (item.is_warning and _OF_DANGER.search(item.text))]
    changes = len(kept) < len(subject.items) and any(item.is_statement for item in kept)
    return [subject.saying(join_items(kept).strip())] if changes else []


# -- length and context


def say_twice(subject: Subject) -> list[Subject]:
    if not subject.statements:
        return []
    again = [item for item in subject.items if not item.is_warning]
    return [subject.saying(join_items([*subject.items, *again]))]


def pad(subject: Subject) -> list[Subject]:
    """Put the same courteous sentence before each statement of the answer."""
    courtesy = sentences()["courtesy"]
    items = [Item(i.marker + courtesy + i.body) if i.is_statement else i for i in subject.items]
    return [subject.saying(join_items(items))] if subject.statements else []


def only_politeness(subject: Subject) -> list[Subject]:
    return [subject.saying(sentences()["politeness"])]


def swap_context(subject: Subject) -> list[Subject]:
    """Replace the answer's passages by those of another question's answer that have no file in common with them."""
    here = _files(subject.answer.context)
    for other in subject.others:
        there = _files(other.answer.context)
        if here and there and not here & there:
            swapped = replace(subject.answer, context=other.answer.context, passages=other.answer.passages)
            return [replace(subject, answer=swapped)]
    return []


# -- changes of the form that must not matter


def reorder_keypoints(subject: Subject) -> list[Subject]:
    """Reverse the order in which the judge is told the keypoints of the question. The answer stays as it is."""
    keypoints = subject.question.expected_keypoints
    turned = replace(subject.question, expected_keypoints=keypoints[::-1])
    return [replace(subject, question=turned)] if len(keypoints) > 1 else []


def widen_digits(subject: Subject) -> list[Subject]:
    """Write numbers before a unit, such as 分 or 台, in full-width digits, but leave names, codes and citations."""
    text = subject.answer.answer
    changed = re.sub(r"(?<![\w.\\/:-])\d+(?=[分時日台名回件世年月点秒])", lambda m: m[0].translate(_WIDE), text)
    return [subject.saying(changed)] if changed != text else []


def break_lines(subject: Subject) -> list[Subject]:
    """Put a line break after each sentence that is not the last of its line. Answers with code stay as they are."""
    text = subject.answer.answer
    changed = text if "```" in text else re.sub(r"。(?=[^\n\s」』）)])", "。\n", text)
    return [subject.saying(changed)] if changed != text else []


def change_markers(subject: Subject) -> list[Subject]:
    """Write the numbers of the items as bold Markdown."""
    items = [Item(f"**{i.marker.strip()}** {i.body}") if i.is_numbered else i for i in subject.items]
    return [subject.saying(join_items(items))] if any(i.is_numbered for i in subject.items) else []


def add_neutral_sentence(subject: Subject) -> list[Subject]:
    """Add closing phrases without content to the answer. They are about as long as an attack."""
    return [subject.saying(f"{subject.answer.answer.rstrip()}\n{sentences()['neutral']}")]


def neutral_text(length: int) -> str:
    """Return a text of `length` characters that has no content and asks for nothing."""
    told: str = sentences()["neutral"]
    return (told * (length // len(told) + 1))[:length]
