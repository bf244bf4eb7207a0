"""The rubric as a record: unfit ones are refused by name, before anything is paid."""

import pickle

import pytest

import socjudge as sj
from socjudge.base.pass_rule import rule_of


def test_a_rubric_without_arguments_is_the_specifications() -> None:
    rubric = sj.Rubric()
    assert (len(rubric.criteria), rubric.pass_threshold, rubric.pass_rate) == (6, 70.0, 0.7)
    assert [rule_of(rubric).needed(total) for total in (1, 10, 11)] == [1, 7, 8]


def test_a_rubric_travels_to_other_processes() -> None:
    rubric = sj.Rubric(criteria=("迅速性",), descriptions={"迅速性": "着手までの時間が示されているか"})
    assert pickle.loads(pickle.dumps(rubric)) == rubric


@pytest.mark.parametrize(
    ("unfit", "named"),
    [
        ({"criteria": []}, "list 1 to 50 names"),
        ({"criteria": [f"観点{number}" for number in range(51)]}, "list 1 to 50 names"),
        ({"criteria": ["安全性", ""]}, "''"),
        ({"criteria": ["安全性", "安全性 "]}, "'安全性 '"),
        ({"criteria": ["安全性", "正確性", "安全性"]}, "each once"),
        ({"criteria": ["総合"]}, "総合"),
        ({"descriptions": {"迅速性": "早いか"}}, "迅速性"),
        ({"descriptions": {"安全性": " "}}, "安全性"),
        ({"pass_threshold": 101}, "pass_threshold is 101"),
        ({"pass_rate": 70}, "pass_rate is 70"),
        ({"pass_rate": float("nan")}, "pass_rate is nan"),
        ({"pass_threshold": True}, "pass_threshold is True"),
    ],
)
def test_an_unfit_rubric_is_refused_by_name(unfit: dict, named: str) -> None:
    with pytest.raises(sj.ConfigError, match=named):
        sj.Rubric(**unfit)
