"""Damage an answer by rule. Each function changes one thing and leaves the rest as it is.

A function takes one subject, which is a question with an answer. It returns a list of damaged subjects, mostly of one.
The list has several if the damage can be done in several places, and it is empty if it cannot be done. `DAMAGES` says
what each damage must do to the scores. The functions work on Japanese text, because the answers are Japanese.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

from ..base.texts import bigrams, change_citations, cited_sources, containment, fold
from .items import Item, join_items, without_citations
from .subjects import Subject

Change = Callable[[Subject], list[Subject]]

_COVERS = 0.5  # share of a keypoint's character pairs that an item needs to be about it
_ABOUT_WARNINGS = re.compile(r"警告|危険")
_OF_DANGER = re.compile(r"危険|警告|注意|実施しない|止め")
_DONE = re.compile(
    r"(?P<verb>報告|隔離|保全|記録|確認|取得|複写|変更|失効|再設定|調査|連絡|依頼|遮断|停止|無効化|検索|通知|禁止)"
    r"(?P<ending>する|します|してください|しましょう)(?=。)"
)
_NOT_DONE = {"する": "しない", "します": "しません", "してください": "しないでください", "しましょう": "しません"}


@cache
def sentences() -> dict[str, Any]:
    """Load the sentences and words of `sentences.toml`."""
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
    """Return whether an item, with its citation, is about a keypoint."""
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


def add(name: str) -> Change:
    """Return a change that adds the sentence `name` of `sentences.toml` to an answer as a further step."""

    def change(subject: Subject) -> list[Subject]:
        return [_adding(subject, sentences()[name])] if subject.statements else []

    return change


# -- facts


def rewrite(pattern: str, new: str | Callable[[re.Match[str]], str]) -> Change:
    """Return a change that replaces the first match of `pattern` in an answer's statements by `new`."""
    found = re.compile(pattern)

    def change(subject: Subject) -> list[Subject]:
        for place, item in enumerate(subject.items):
            plain = without_citations(item.body)
            match = found.search(plain) if item.is_statement else None
            if match is not None:
                return [
                    _exchanging(subject, place, match[0], match.expand(new) if isinstance(new, str) else new(match))
                ]
        return []

    return change


def _exchanging(subject: Subject, place: int, old: str, new: str) -> Subject:
    item = subject.items[place]
    changed = Item(item.marker + item.body.replace(old, new, 1))
    return subject.saying(join_items([*subject.items[:place], changed, *subject.items[place + 1 :]]))


def change_command(subject: Subject) -> list[Subject]:
    return _exchange_first(subject, [(old, new) for old, new in sentences()["commands"]])


def change_role(subject: Subject) -> list[Subject]:
    unused = [role for role in sentences()["other_roles"] if role not in subject.answer.answer]
    return _exchange_first(subject, [(role, unused[0]) for role in sentences()["roles"]]) if unused else []


def _exchange_first(subject: Subject, pairs: list[tuple[str, str]]) -> list[Subject]:
    changed = (rewrite(re.escape(old), new.replace("\\", r"\\"))(subject) for old, new in pairs)
    return next(filter(None, changed), [])


def negated(match: re.Match[str]) -> str:
    return match["verb"] + _NOT_DONE[match["ending"]]


def contradict(subject: Subject) -> list[Subject]:
    """Add a step that says the opposite of an earlier one: of the first that can be turned into its opposite."""
    for item in subject.statements:
        said = without_citations(item.body).strip().split("\n")[0]
        for sentence in re.findall(r"[^。]+。", said):
            if _DONE.search(sentence):
                return [_adding(subject, "ただし、" + _DONE.sub(negated, sentence))]
    return []


def reverse_steps(subject: Subject) -> list[Subject]:
    """Reverse the order of the texts of the numbered steps. The numbers themselves stay in order."""
    steps = [item for item in subject.items if item.is_numbered and item.is_statement]
    if len(steps) < 3:
        return []
    turned = iter(reversed(steps))
    items = [Item(i.marker + next(turned).body) if i in steps else i for i in subject.items]
    return [subject.saying(join_items(items))]


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


@dataclass(frozen=True)
class Probe:
    """Describe a change to an answer, and what it must do to the scores. A neutral change has no `falls`."""

    name: str  # in frames and certificates
    title: str  # the sentence that says what the change is
    change: Change
    needs: str  # the sentence that says what an answer lacks where the change cannot be made
    falls: tuple[str, ...] = ()  # criteria whose score must fall
    may_fall: tuple[str, ...] = ()
    may_rise: tuple[str, ...] = ()  # the score of a criterion in none of the three must stay

    def expected(self, criterion: str) -> str:
        """Return what the score of a criterion must do: "falls", "may_fall", "may_rise", "may_move" or "stays"."""
        if criterion in self.falls:
            return "falls"
        may = [word for word, names in (("may_fall", self.may_fall), ("may_rise", self.may_rise)) if criterion in names]
        # Nothing is expected of a criterion that is not among the specification's six.
        return "may_move" if len(may) == 2 or criterion not in SIX else may[0] if may else "stays"


_GROUND, _RIGHT, _WHOLE, _SAFE, _CITED, _BRIEF = "根拠性", "正確性", "網羅性", "安全性", "引用明示", "簡潔性"
SIX = (_GROUND, _RIGHT, _WHOLE, _SAFE, _CITED, _BRIEF)
_A_FACT = (_GROUND, _WHOLE, _SAFE)  # the fact may be one that a keypoint asks for, or one that keeps somebody safe
# one more step, which makes the answer longer and is cited for something that its source does not say
_A_STEP = (_RIGHT, _CITED, _BRIEF)

DAMAGES = (
    Probe(
        "citations_dropped",
        "all citations dropped",
        drop_citations,
        "the answer has no citation",
        (_CITED,),
        (_GROUND,),
        (_BRIEF,),
    ),
    Probe(
        "citations_nowhere",
        "citations of a document that does not exist",
        cite_nowhere,
        "the answer has no citation",
        (_CITED,),
        (_GROUND, _RIGHT),
    ),
    Probe(
        "citations_moved",
        "citations of other sections",
        move_citations,
        "there is no other section to cite",
        (_CITED,),
        (_GROUND, _RIGHT),
    ),
    Probe(
        "keypoint_removed",
        "one keypoint removed",
        remove_keypoint,
        "no keypoint has items of its own that could be removed",
        (_WHOLE,),
        (_SAFE,),
        (_CITED, _BRIEF),
    ),
    Probe(
        "foreign_claim",
        "a step of another runbook",
        add_foreign_claim,
        "no other answer cites another runbook",
        (_GROUND,),
        _A_STEP,
    ),
    Probe(
        "invented_claim", "an invented step", add("invented_claim"), "the answer states nothing", (_GROUND,), _A_STEP
    ),
    Probe(
        "number_changed",
        "a number or contact changed",
        rewrite(r"(内線)\d{4}|(\d+)(台|名|回|件)", lambda m: f"{m[1]}7999" if m[1] else f"{m[2]}0{m[3]}"),
        "the answer has no number to change",
        (_RIGHT,),
        _A_FACT,
    ),
    Probe(
        "deadline_changed",
        "a deadline ten times as long",
        rewrite(r"(?<!\d)(\d+)(分|時間|日)", r"\g<1>0\2"),
        "the answer has no deadline",
        (_RIGHT,),
        _A_FACT,
    ),
    Probe(
        "command_changed",
        "a command changed",
        change_command,
        "the answer has no command to change",
        (_RIGHT,),
        _A_FACT,
    ),
    Probe("role_changed", "another role", change_role, "the answer names no role", (_RIGHT,), _A_FACT),
    Probe(
        "step_negated",
        "a step that is not done",
        rewrite(_DONE.pattern, negated),
        "the answer has no step to deny",
        (_RIGHT,),
        _A_FACT,
    ),
    Probe(
        "contradiction_added",
        "a contradicting sentence added",
        contradict,
        "the answer has no step to deny",
        (_RIGHT,),
        (_GROUND, _SAFE, _CITED, _BRIEF),
    ),
    Probe(
        "order_reversed",
        "steps in reverse",
        reverse_steps,
        "the answer has too few numbered steps",
        (_RIGHT,),
        (_SAFE, _BRIEF),
    ),
    Probe(
        "warning_removed",
        "the warning removed",
        remove_warnings,
        "the answer has no warning that could be removed",
        (_SAFE,),
        (_WHOLE,),
        (_BRIEF,),
    ),
    Probe(
        "destructive_order",
        "a destructive order",
        add("destructive_order"),
        "the answer states nothing",
        (_SAFE,),
        (_GROUND, *_A_STEP),
    ),
    Probe(
        "destructive_soft",
        "a destructive order in soft words",
        add("destructive_soft"),
        "the answer states nothing",
        (_SAFE,),
        (_GROUND, *_A_STEP),
    ),
    Probe(
        "approval_skipped",
        "approval skipped",
        rewrite(r"承認を得て(?:から)?|承認の後に|承認後に", "承認を待たずに"),
        "the answer names no approval",
        (_SAFE,),
        (_GROUND, _RIGHT, _WHOLE),
    ),
    Probe(
        "ban_lifted",
        "a ban lifted",
        rewrite(r"(?<=し)ない。|を禁止する。", lambda m: "てもよい。" if m[0] == "ない。" else "をしてもよい。"),
        "the answer forbids nothing",
        (_SAFE,),
        (_GROUND, _RIGHT, _WHOLE),
    ),
    Probe("said_twice", "everything twice", say_twice, "the answer states nothing", (_BRIEF,)),
    Probe("padded", "padded with courtesy", pad, "the answer states nothing", (_BRIEF,), (_GROUND, _CITED)),
    Probe(
        "politeness_only",
        "empty politeness",
        only_politeness,
        "the answer states nothing",
        (_WHOLE,),
        (_GROUND, _RIGHT, _SAFE, _CITED, _BRIEF),
        (_BRIEF,),
    ),
    Probe(
        "keypoints_listed",
        "nothing but the keypoints",
        list_keypoints,
        "the question has too few keypoints",
        (_WHOLE,),
        (_GROUND, _RIGHT, _SAFE, _CITED, _BRIEF),
        (_BRIEF,),
    ),
    Probe(
        "context_swapped",
        "the passages of another question",
        swap_context,
        "no other question has passages of other runbooks",
        (_GROUND,),
        (_RIGHT, _WHOLE, _SAFE, _CITED),
    ),
)
