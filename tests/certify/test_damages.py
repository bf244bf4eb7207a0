"""Damage by rule: each does what it says, in one place, and says where it cannot be done."""

from __future__ import annotations

import difflib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.certify_judge import good_pairs

from socjudge import AssistantAnswer, EvalQuestion
from socjudge.base.texts import cited_sources
from socjudge.certify.changes import CHANGES, DAMAGES, NEUTRAL, SIX
from socjudge.certify.damages import neutral_text
from socjudge.certify.subjects import Subject, find_subjects, split_items

FIRST = "[出典: malware_response.md > 初動対応]"
SECOND = "[出典: malware_response.md > 報告]"
ANSWER = f"""⚠️ 危険操作: 「ログの削除」は危険な操作のため、実施しないでください。

手順は次のとおりです。

1. SOC当番は、端末をEDRで直ちに隔離する。 {FIRST}
2. 隔離したら15分以内に、SOCリーダー（内線7111）へ報告する。 {SECOND}
3. 次のコマンドでログを書き出す。
```powershell
wevtutil epl Security out.evtx
```
 {FIRST}
4. サーバは承認を得てから隔離し、ログは削除しない。 {FIRST}"""
QUESTION = EvalQuestion(1, "正常系", "初動は？", ("端末の隔離", "SOCリーダーへの報告", "危険操作の警告"))
CONTEXT = f"{FIRST}\n隔離する。\n\n{SECOND}\n報告する。"
OTHER = Subject(
    EvalQuestion(2, "正常系", "鍵は？", ("鍵の無効化",)),
    AssistantAnswer(
        "鍵は？", "1. 鍵を無効にする。 [出典: keys.md > 封じ込め]", "[出典: keys.md > 封じ込め]\n鍵を無効にする。"
    ),
)
SUBJECT = Subject(QUESTION, AssistantAnswer("初動は？", ANSWER, CONTEXT), (OTHER,))


def change(name: str, subject: Subject = SUBJECT) -> list[str]:
    return [variant.answer.answer for variant in CHANGES[name].make(subject)]


def differences(name: str) -> list[str]:
    """The lines that the only variant has instead of the answer's."""
    (text,) = change(name)
    lines = difflib.ndiff(ANSWER.splitlines(), text.splitlines())
    return [line[2:] for line in lines if line.startswith("+ ") and line[2:].strip()]


@given(st.text(alphabet="1２.- 。⚠#`\n手順を[出典: a.md]：", max_size=200))
def test_the_items_of_an_answer_are_the_answer(text: str) -> None:
    assert "".join(item.text for item in split_items(text)) == "".join(text.splitlines(keepends=True))


def test_the_citations_are_dropped_pointed_nowhere_or_moved() -> None:
    (dropped,), (nowhere,), (moved,) = (
        change("citations_dropped"),
        change("citations_nowhere"),
        change("citations_moved"),
    )
    assert not cited_sources(dropped)
    assert len(cited_sources(nowhere)) == 1 and not set(cited_sources(nowhere)) & set(cited_sources(CONTEXT))
    assert cited_sources(moved) == cited_sources(ANSWER)[::-1]
    assert f"隔離する。 {SECOND}" in moved


def test_each_keypoint_is_removed_in_turn_with_the_steps_about_it_and_no_warning() -> None:
    without_isolation, without_report = change("keypoint_removed")
    assert "隔離する。" not in without_isolation and "15分以内" in without_isolation
    assert "15分以内" not in without_report and "直ちに隔離する。" in without_report
    assert without_isolation.startswith("⚠️") and without_report.startswith("⚠️")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("number_changed", f"2. 隔離したら150分以内に、SOCリーダー（内線7111）へ報告する。 {SECOND}"),
        ("role_changed", f"2. 隔離したら15分以内に、広報室（内線7111）へ報告する。 {SECOND}"),
        ("step_negated", f"1. SOC当番は、端末をEDRで直ちに隔離しない。 {FIRST}"),
        ("foreign_claim", f"5. 鍵を無効にする。 {FIRST}"),
    ],
)  # fmt: skip
def test_a_fact_or_a_step_is_changed_in_one_place(name: str, expected: str) -> None:
    assert differences(name) == [expected]


def test_a_number_may_be_that_of_a_contact() -> None:
    (text,) = change("number_changed", SUBJECT.saying(ANSWER.replace("15分以内", "直ち")))
    assert "（内線7999）" in text and "7111" not in text


def test_what_is_dangerous_is_no_longer_warned_of_but_what_is_unknown_is() -> None:
    assert change("warning_removed")[0].startswith("手順は次のとおりです。")
    unknown = SUBJECT.saying(
        ANSWER.replace(
            "⚠️ 危険操作: 「ログの削除」は危険な操作のため、実施しないでください。", "⚠️ 根拠不足: 記載が見つかりません。"
        )
    )
    assert change("warning_removed", unknown) == []


def test_the_context_is_swapped_for_one_of_another_runbook() -> None:
    (swapped,) = CHANGES["context_swapped"].make(SUBJECT)
    assert (swapped.answer.answer, swapped.answer.context) == (ANSWER, OTHER.answer.context)


@pytest.mark.parametrize("probe", NEUTRAL, ids=lambda probe: probe.name)
def test_a_neutral_change_is_a_change_that_no_criterion_may_rise_by(probe: object) -> None:
    for subject in find_subjects(good_pairs()[:3]):
        for variant in probe.make(subject):  # type: ignore[attr-defined]
            assert variant != subject
    assert {probe.expected(c) for c in SIX} <= {"stays", "may_fall"}  # type: ignore[attr-defined]


def test_every_probe_says_what_must_fall_and_every_criterion_has_two_or_three_that_must() -> None:
    assert len({probe.name for probe in DAMAGES}) == len(DAMAGES)
    for probe in DAMAGES:
        assert probe.falls and set(probe.falls + probe.may_fall + probe.may_rise) <= set(SIX)
        assert probe.expected("迅速性") == "may_move"
    counts = {c: sum(c in probe.falls for probe in DAMAGES) for c in SIX}
    assert set(counts.values()) == {2, 3}, counts


def test_an_answer_without_anything_to_damage_is_left_alone() -> None:
    bare = Subject(EvalQuestion(3, "正常系", "？", ()), AssistantAnswer("？", "はい。"))
    assert {change.name for change in (*DAMAGES, *NEUTRAL) if change.make(bare)} == {
        "politeness_only",
        "neutral_sentence",
    }


def test_neutral_text_has_the_length_asked_for() -> None:
    assert [len(neutral_text(length)) for length in (0, 1, 57, 500)] == [0, 1, 57, 500]
