"""Define changes to an answer that must not matter: its content stays the same, only its form differs.

A function that takes a subject (a question with an answer) returns a list with the changed subject. The list is empty
if the change cannot be made.
"""

from __future__ import annotations

import re
from dataclasses import replace

from .damages import sentences
from .items import Item, join_items
from .subjects import Subject

_DIGITS = str.maketrans("0123456789", "０１２３４５６７８９")
# Words whose dictionary form follows from the ending: する, できる, verbs in -eru, and verbs of one kanji and an ending.
_I_ROW, _U_ROW = "いきちにみりぎびし", "うくつぬむるぐぶす"
_TO_PLAIN = [
    (r"してください。", "する。"), (r"しません。", "しない。"), (r"(?<=[一-龠ァ-ヶー]{2})します。|(?<=[をにも])します。", "する。"),
    (r"できます。", "できる。"), (r"(?<=[えけせてねべめれげ])ます。", "る。"), (r"です。", "である。"),
    *[(rf"(?<=[一-龠])(?<!用){i}ます。", f"{u}。") for i, u in zip(_I_ROW, _U_ROW, strict=True)],
]  # fmt: skip
_TO_POLITE = [
    (r"しない。", "しません。"), (r"する。", "します。"), (r"である。", "です。"), (r"できる。", "できます。"),
    (r"(?<=[えけせてねべめれげ])る。", "ます。"),
    *[(rf"(?<=[一-龠]){u}。", f"{i}ます。") for i, u in zip(_I_ROW, _U_ROW, strict=True) if u != "る"],
]  # fmt: skip


def reorder_keypoints(subject: Subject) -> list[Subject]:
    """Reverse the order in which the judge is told the keypoints of the question. The answer stays as it is."""
    keypoints = subject.question.expected_keypoints
    turned = replace(subject.question, expected_keypoints=keypoints[::-1])
    return [replace(subject, question=turned)] if len(keypoints) > 1 else []


def change_politeness(subject: Subject) -> list[Subject]:
    """Change polite sentence endings to plain ones if most are polite. Otherwise change plain ones to です・ます."""
    text = subject.answer.answer
    polite = len(re.findall(r"(?:です|ます|ません|ください)。", text)) * 2 > text.count("。")
    changed = _outside_code(subject, _TO_PLAIN if polite else _TO_POLITE)
    return [changed] if changed.answer.answer != text else []


def _outside_code(subject: Subject, rules: list[tuple[str, str]]) -> Subject:
    items = []
    for item in subject.items:
        text = item.text
        if item.is_statement and "```" not in text:
            for pattern, new in rules:
                text = re.sub(pattern, new, text)
        items.append(Item(text))
    return subject.saying(join_items(items))


def widen_digits(subject: Subject) -> list[Subject]:
    """Write numbers before a unit, such as 分 or 台, in full-width digits, but leave names, codes and citations."""
    text = subject.answer.answer
    changed = re.sub(r"(?<![\w.\\/:-])\d+(?=[分時日台名回件世年月点秒])", lambda m: m[0].translate(_DIGITS), text)
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
