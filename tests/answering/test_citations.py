"""What a judge is shown of other people's answers: their citations in our form, their contexts with headings."""

from __future__ import annotations

import json
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.damages import BREAKS, DAMAGES, good_answer
from support.service import Service, judgement

import socjudge as sj
from socjudge.answering.citations import as_material, format_context, unmeasurable
from socjudge.base.texts import change_citations
from socjudge.errors import RequestRefused
from socjudge.records import AssistantAnswer, EvalQuestion, Flags, Passage

PASSAGES = (
    Passage("端末を隔離する。", "malware.md", "初動"),
    Passage("ログを残す。", "logs.md", "保全"),
    Passage("SOCリーダーへ報告する。", "logs.md", "報告"),
)
FIRST, SECOND, THIRD = (passage.citation for passage in PASSAGES)


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("隔離する[1]。残す [2, 3]。", f"隔離する{FIRST}。残す {SECOND}{THIRD}。"),
        ("隔離する[doc1][doc2]。", f"隔離する{FIRST}{SECOND}。"),
        ("隔離する［１］【2】。", f"隔離する{FIRST}{SECOND}。"),
        ("隔離する[出典: 1]。", f"隔離する{FIRST}。"),
        ("隔離する【1†source】。", f"隔離する{FIRST}。"),
        ("隔離する【4:0†malware.md】。", f"隔離する{FIRST}。"),
        ("残す【4:1†logs.md】。", "残す[出典: logs.md]。"),
        ("隔離する[^1]。", f"隔離する{FIRST}。"),
        ("隔離する（出典: malware）。", f"隔離する{FIRST}。"),
    ],
)
def test_citations_of_others_are_shown_as_ours(written: str, shown: str) -> None:
    assert as_material(AssistantAnswer("?", written, passages=PASSAGES)).answer == shown


@pytest.mark.parametrize(
    "written",
    [
        "隔離する[9]。",  # nothing has that number
        "隔離する[1, 9]。",
        "隔離する[0]、残す[1]。",  # counted from 0, or from 1?
        "[1] 隔離する\n[2] 残す",  # the marks of a list
        "`a[1]` を実行する。\n```\nx[2]\n```",
        "隔離する[1]。\n\n[^1]: 別の手引き",  # it says itself what it counts
        "残す[1]。\n\n参考資料:\n1. logs.md > 保全",
        "[対応手順](docs/malware.md)のとおり[1](https://wiki.example/malware.md)。",
        f"隔離する{FIRST}。残す[1]。",  # beside our own form, a number is none of our places
        "隔離する【4:0†source】。",
        "隔離する[出典: 存在しない.md > 初動]。",
        f"隔離する{FIRST}。",
        "隔離する[1-3]。",
    ],
)
def test_what_is_not_certain_stays_as_it_is(written: str) -> None:
    assert as_material(AssistantAnswer("?", written, passages=PASSAGES)).answer == written


def test_contexts_without_our_headings_get_them() -> None:
    named = as_material(AssistantAnswer("?", "隔離する。", passages=PASSAGES))
    assert named.context == format_context(PASSAGES)
    pieces = tuple(Passage(text, "", "") for text in ("端末を隔離する。", "ログを残す。"))
    numbered = as_material(AssistantAnswer("?", "隔離する[2]。", passages=pieces))
    assert numbered.context == "[出典: 資料1]\n端末を隔離する。\n\n[出典: 資料2]\nログを残す。"
    assert numbered.answer == "隔離する[出典: 資料2]。"


def test_an_answer_of_ours_is_shown_as_it_is() -> None:
    own = sj.handle_query("マルウェア検知アラートの初動を教えてください", model="offline")
    strange = replace(own, answer=f"{own.answer}\n隔離する[1]。")
    assert as_material(own) is own
    assert as_material(strange) is strange


@given(st.text(alphabet="[]【】()^†:.,0123456789\n` 出典隔離doc#-", max_size=80))
def test_any_text_can_be_shown_and_twice_is_the_same(text: str) -> None:
    once = as_material(AssistantAnswer("?", text, passages=PASSAGES))
    for passage in PASSAGES:  # nothing of what was given is lost
        assert passage.text in once.context
    assert once.answer.count("隔離") == text.count("隔離")


@pytest.mark.parametrize(
    ("answer", "lacking"),
    [
        (AssistantAnswer("?", "隔離する。"), ("根拠性", "引用明示")),
        (AssistantAnswer("?", "隔離する[出典: a.md]。", "端末を隔離する。"), ("引用明示",)),
        (AssistantAnswer("?", "隔離する[1]。", "端末を隔離する。"), ("引用明示",)),
        (AssistantAnswer("?", "隔離する。", "端末を隔離する。"), ()),  # it cites nothing: that can be told
        (AssistantAnswer("?", "隔離する[1]。", passages=(Passage("端末を隔離する。", "", ""),)), ()),
        (
            AssistantAnswer("?", "隔離する（出典: a.md）。", passages=(Passage("端末を隔離する。", "", ""),)),
            ("引用明示",),
        ),
        (AssistantAnswer("?", "隔離する[出典: b.md]。", passages=PASSAGES), ()),
    ],
)
def test_what_was_not_given_cannot_be_marked(answer: AssistantAnswer, lacking: tuple[str, ...]) -> None:
    assert unmeasurable(answer) == lacking


def _numbers(answer: AssistantAnswer) -> str:
    """The answer as another assistant would have written it, citing by numbers: a section in two pieces by both."""
    names = [passage.citation.removeprefix("[出典: ").removesuffix("]") for passage in answer.passages]

    def numbers(name: str) -> str:
        return f"[{', '.join(str(k) for k, other in enumerate(names, 1) if other == name) or 99}]"

    return change_citations(answer.answer, numbers)


WRAPPINGS = {
    "context only": lambda own: replace(own, passages=()),
    "no flags": lambda own: replace(own, flags=Flags()),
    "no headings": lambda own: replace(own, context="\n\n".join(passage.text for passage in own.passages)),
    "numbers": lambda own: replace(
        own, answer=_numbers(own), context="",
        passages=tuple(replace(passage, source="", heading="") for passage in own.passages),
    ),
    "numbers and names": lambda own: replace(own, answer=_numbers(own), context=""),
}  # fmt: skip


@pytest.mark.slow
def test_the_same_answer_is_marked_alike_however_it_is_wrapped() -> None:
    for question in sj.load_eval_dataset():
        own = sj.handle_query(question.question, model="offline")
        as_made = sj.evaluate_answer(question, own, model="offline")
        foreign = replace(own, evidence="", absence_probability=None)
        for name, wrap in WRAPPINGS.items():
            wrapped = sj.evaluate_answer(question, wrap(foreign), model="offline")
            assert abs(wrapped.average_score - as_made.average_score) <= 1, (question.id, name)


@pytest.mark.parametrize(
    ("heading", "covers"), [("", False), ("**影響範囲の調査**", False), ("**初動 > 影響範囲の調査のしかた**", True)]
)
def test_over_contexts_without_headings_the_answers_own_tell_what_a_step_is_about_unless_they_repeat_a_keypoint(
    heading: str, covers: bool
) -> None:
    step = "SOC当番は、検知ファイルのハッシュを検索し、同じファイルを持つ端末をすべて洗い出す"
    question = EvalQuestion(1, "正常系", "マルウェアを検知しました。初動は。", ("影響範囲の調査",))
    context = Passage(f"{step}。", "", "")
    answer = AssistantAnswer(question.question, f"{heading}\n\n1. {step}[1]。", passages=(context,))
    marks = sj.evaluate_answer(question, answer, model="offline")
    assert (marks.scores["網羅性"] > 70) is covers


ITEMS = json.loads((Path(__file__).parents[1] / "data" / "good_answers.json").read_text("utf-8"))
SPOIL = {"": good_answer, **{name: how for name, (how, _) in (DAMAGES | BREAKS).items()}}


def _as_made(item: dict[str, Any], text: str) -> AssistantAnswer:
    passages = tuple(Passage(p["text"], p["source"], p["heading"]) for p in item["passages"])
    return AssistantAnswer(item["question"], text, format_context(passages), passages, Flags(**item["flags"]))


@pytest.mark.parametrize("damage", SPOIL)
def test_broken_answers_are_shown_alike_however_they_are_wrapped(damage: str) -> None:
    """Not a letter differs, whoever judges."""
    for item in ITEMS:
        if (text := SPOIL[damage](item)) is None:
            continue
        as_made = _as_made(item, text)
        for name in ("context only", "no headings", "numbers and names"):
            assert as_material(WRAPPINGS[name](as_made)) == as_made, (item["id"], name)


@pytest.mark.slow
@pytest.mark.parametrize("item", [ITEMS[0], ITEMS[2]], ids=itemgetter("id"))
def test_a_context_given_twice_does_not_move_the_marks(item: dict[str, Any]) -> None:
    question = EvalQuestion(item["id"], item["category"], item["question"], tuple(item["expected_keypoints"]))
    for damage, spoil in SPOIL.items():
        if (text := spoil(item)) is not None:
            as_made = _as_made(item, text)
            twice = replace(as_made, passages=as_made.passages * 2, context="")
            marks = [sj.evaluate_answer(question, answer, model="offline").average_score for answer in (as_made, twice)]
            assert max(marks) - min(marks) <= 1, (damage, marks)


def _judged(answer: AssistantAnswer, service: Service, rubric: sj.Rubric | None = None) -> sj.Evaluation:
    return sj.evaluate_answer(EvalQuestion(1, "正常系", "初動は。", ("隔離",)), answer, model="judge-1", rubric=rubric)


def test_what_nobody_can_mark_without_context_is_missing_whatever_the_judge_says(service: Service) -> None:
    service.default = judgement(90)
    marks = _judged(AssistantAnswer("初動は。", "隔離します[1]。"), service)
    assert marks.missing == {"根拠性": "no_context", "引用明示": "no_context"}
    assert (marks.scores["根拠性"], marks.scores["引用明示"], marks.scores["正確性"]) == (None, None, 90)
    assert not marks.passed  # (4 × 90 + 2 × 0) / 6 = 60: open
    assert '"根拠性": 90' in marks.raw_text
    named = _judged(AssistantAnswer("初動は。", "隔離します[1]。", passages=PASSAGES), service)
    assert (named.missing, named.passed, named.raw_text) == ({}, True, "")


def test_a_rubric_without_these_criteria_needs_no_context(service: Service) -> None:
    service.default = judgement({"正確性": 90})
    marks = _judged(AssistantAnswer("初動は。", "隔離します。"), service, sj.Rubric(("正確性",)))
    assert (marks.missing, marks.passed) == ({}, True)
    with pytest.raises(RequestRefused, match="contexts"):
        _judged(AssistantAnswer("初動は。", "隔離します。"), service, sj.Rubric(("根拠性",)))


@pytest.mark.slow
def test_the_embedded_judge_lets_no_answer_pass_surely_without_context() -> None:
    for question in sj.load_eval_dataset():
        own = sj.handle_query(question.question, model="offline")
        bare = replace(own, context="", passages=(), evidence="", absence_probability=None)
        marks = sj.evaluate_answer(question, bare, model="offline")
        lacking = {"根拠性": "no_context", "引用明示": "no_context"}
        assert marks.missing == lacking | dict.fromkeys(("正確性", "網羅性", "簡潔性"), "no_passages")
        assert not marks.passed


def test_the_embedded_judge_says_nothing_false_of_an_answer_without_context() -> None:
    for question in sj.load_eval_dataset():
        answer = AssistantAnswer(question.question, "".join(f"{point}。" for point in question.expected_keypoints))
        marks = sj.evaluate_answer(question, answer, model="offline")
        assert {name for name, score in marks.scores.items() if score is not None} == {"安全性"}
        assert "何も答えていません" not in str(marks) and "確かめられませんでした" not in str(marks)
