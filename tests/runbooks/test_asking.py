"""What a long report asks, apart from its story; and the runbook that one of its sentences speaks for."""

from __future__ import annotations

import pytest

from socjudge.records import Passage
from socjudge.runbooks.asking import asks_leave, find_asking, is_of_stage, split_clauses
from socjudge.runbooks.guide import choose_runbook

STORY = "倉庫の端末の件です。検知のあと切り離しました。どうせ誰も使っていません。"


@pytest.mark.parametrize(
    ("ending", "asking"),
    [
        ("いつ戻せばいいですか。よろしくお願いします。", "いつ戻せばいいですか"),
        ("記録は何を残す？上司には誰が話す？", "記録は何を残す。上司には誰が話す"),
        ("これから電源を入れてみます。", "これから電源を入れてみます"),
        ("利用者は席で待っています。", ""),
    ],
)
def test_of_a_long_report_the_sentences_that_ask_are_found_or_else_the_plan(ending: str, asking: str) -> None:
    assert find_asking(STORY + ending) == asking


def test_a_short_question_is_asked_as_a_whole() -> None:
    assert find_asking("端末が感染しました。いつ戻せますか。") == ""


def test_clauses_are_the_last_sentences_that_say_something() -> None:
    assert split_clauses("え！？画面が変です…助けてください。") == ["画面が変です", "助けてください"]
    assert len(split_clauses("画面が変わりました。" * 9)) == 6


@pytest.mark.parametrize(
    ("heading", "asking", "is_wanted"),
    [
        ("復旧", "いつ業務に戻していいですか", True),
        ("隔離後の確認と解除", "設定を外すのは誰ですか", False),
        ("隔離後の確認と解除", "分離を解除していいですか", True),
        ("調査 > 侵入経路", "どこまで広がったか調べる方法は", True),
        ("初動対応", "いつ業務に戻していいですか", False),
    ],
)
def test_a_section_is_of_the_stage_that_is_asked_for(heading: str, asking: str, is_wanted: bool) -> None:
    assert is_of_stage(heading, asking) is is_wanted


def test_leave_is_asked_for_an_act_not_for_a_time() -> None:
    assert asks_leave("もう戻していいですよね")
    assert not asks_leave("いつ戻せばいいのか、誰が決めるのかを教えてください。")


def test_one_sentence_can_speak_for_another_runbook_than_the_whole_report() -> None:
    whole = [Passage("a", "story.md", "初動", 0.9), Passage("b", "asked.md", "復旧", 0.8)]
    sentences = [
        [Passage("a", "story.md", "初動", 0.6), Passage("b", "asked.md", "復旧", 0.5)],
        [Passage("b", "asked.md", "復旧", 0.95)],
    ]
    assert choose_runbook(whole) == "story.md"
    assert choose_runbook(whole, sentences) == "asked.md"
    assert choose_runbook(whole, sentences[:1]) == "story.md"
