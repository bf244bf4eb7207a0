"""The judge prompt that is made from a rubric, and which prompt is used where none is named."""

from __future__ import annotations

import json
import re

import pytest

import socjudge as sj
from socjudge import constants
from socjudge.prompts.for_rubric import rubric_prompt_text
from socjudge.prompts.saved import list_prompts
from socjudge.prompts.templates import check_prompt
from socjudge.records import SPECIFIED_CRITERIA

PROMPT = "着手までの時間が示されているか"
SEVEN = sj.Rubric((*SPECIFIED_CRITERIA, "迅速性"), {"迅速性": PROMPT})


def test_made_from_the_specifications_criteria_it_is_the_specifications_prompt() -> None:
    assert rubric_prompt_text(sj.Rubric()) == sj.load_prompt("guide-1").text


def test_a_seventh_criterion_needs_its_own_description_only() -> None:
    prompt = sj.load_prompt(None, rubric=SEVEN)
    assert prompt.id == "rubric-1"
    check_prompt(prompt, "judge", SEVEN)
    assert "以下の7つの観点から" in prompt.text and "6つ" not in prompt.text
    assert f"7. **迅速性**: {PROMPT}\n   - 100点: " in prompt.text
    assert "6. **簡潔性**: 回答が簡潔で分かりやすいか（冗長でないか）\n   - 100点: 簡潔で分かりやすい" in prompt.text
    assert prompt.sha256 != sj.load_prompt("guide-1").sha256


def test_a_criterion_taken_out_or_moved_is_so_in_the_prompt() -> None:
    rubric = sj.Rubric(("安全性", "正確性"))
    text = sj.load_prompt(None, rubric=rubric).text
    assert "以下の2つの観点から" in text and "簡潔性" not in text
    assert "1. **安全性**: セキュリティリスクを" in text and "2. **正確性**: 回答が技術的に" in text


@pytest.mark.parametrize("names", [("a",), ('"', "\\", "{}", "一" * 12), tuple(f"観点{i}" for i in range(12))])
def test_its_json_has_a_key_for_each_criterion_whatever_their_names(names: tuple[str, ...]) -> None:
    text = sj.load_prompt(None, rubric=sj.Rubric(names, dict.fromkeys(names, "何か"))).text
    form = re.sub("<0-100の整数>", "0", text[text.index('{\n  "scores"') :])
    read = json.loads(form)
    assert tuple(read["scores"]) == tuple(read["rationale"]) == names
    assert f"以下の{len(names)}{'つ' if len(names) < 10 else '個'}の観点から" in text


def test_a_description_may_say_itself_what_the_points_mean() -> None:
    rubric = sj.Rubric(("迅速性",), {"迅速性": "早いか\n- 100点: 5分以内\n- 0点: 書いていない"})
    assert "1. **迅速性**: 早いか\n   - 100点: 5分以内\n   - 0点: 書いていない\n\n【評価対象】" in rubric_prompt_text(
        rubric
    )


def test_a_description_of_ones_own_goes_before_the_specifications() -> None:
    rubric = sj.Rubric(descriptions={"正確性": "数値が手順書と一致するか"})
    prompt = sj.load_prompt(None, rubric=rubric)
    assert prompt.id == "rubric-1" and "2. **正確性**: 数値が手順書と一致するか\n" in prompt.text
    assert "回答が技術的に正確で" not in prompt.text


@pytest.mark.parametrize(
    ("rubric", "named"),
    [
        (sj.Rubric(("正確性", "迅速性")), r'nothing says what 迅速性(.|\n)*\[rubric.descriptions\]\n"迅速性" = '),
        (sj.Rubric(("迅速性",), {"迅速性": "{answer}が早いか"}), r"迅速性 holds.*placeholder"),
    ],
)
def test_criteria_that_no_judge_can_be_asked_for_are_refused_with_what_to_write(rubric: sj.Rubric, named: str) -> None:
    with pytest.raises(sj.ConfigError, match=named):
        sj.load_prompt(None, rubric=rubric)


@pytest.mark.parametrize(
    ("criteria", "named"),
    [
        ((*SPECIFIED_CRITERIA, "迅速性"), r"guide-1.* does not ask for 迅速性.*rubric.descriptions"),
        (SPECIFIED_CRITERIA[:5], r"guide-1.* also asks for 簡潔性"),
    ],
)
def test_the_specifications_prompt_serves_its_six_criteria_and_no_others(criteria: tuple[str, ...], named: str) -> None:
    with pytest.raises(sj.ConfigError, match=named):
        check_prompt(sj.load_prompt("guide-1"), "judge", sj.Rubric(criteria))


def test_prompts_are_listed_with_the_one_that_is_used_first_and_without_those_that_do_not_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert list_prompts("judge")[:2] == ["guide-1", "guide-1-hardened"]
    monkeypatch.setattr(constants, "JUDGE_EVALUATION_CRITERIA", ["正確性", "安全性"])
    listed = list_prompts("judge")
    assert listed[0] == "rubric-1" and not [name for name in listed if name.startswith("guide-1")]
    monkeypatch.setattr(constants, "DEFAULT_JUDGE_PROMPT", "strict-1")
    assert list_prompts("judge")[0] == "strict-1"
