"""Answers from files: however Excel and other tools wrote them, matched to their questions or refused beforehand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from socjudge.answering.stored_answers import load_answers
from socjudge.errors import ConfigError
from socjudge.records import EvalQuestion

QUESTIONS = [EvalQuestion(1, "正常系", "初動は。", ("隔離",)), EvalQuestion("b", "正常系", "報告は、誰に？", ("報告",))]
CSV = 'question_id,answer,contexts,model\n1,"端末を隔離します[1]。","[""端末を隔離する。""]",bot-3\nb,報告します。,,bot-3\nz,余り,,\n'


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp932", "utf-16"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_csv_is_read_as_whoever_wrote_it(tmp_path: Path, encoding: str, newline: str) -> None:
    file = tmp_path / "answers.csv"
    file.write_bytes(CSV.replace("\n", newline).encode(encoding))
    first, second = load_answers(file).for_questions(QUESTIONS)
    assert (first.question, first.answer, first.model) == ("初動は。", "端末を隔離します[1]。", "bot-3")
    assert [p.text for p in first.passages] == ["端末を隔離する。"]
    assert (second.answer, second.context) == ("報告します。", "")


ROWS = [
    {"question": "初動は", "answer": "隔離します。", "contexts": [{"text": "隔離する。", "source": "m.md"}]},
    {"question": "報告は 誰に?", "answer": "リーダーです。", "contexts": None},
]


def test_other_forms_say_the_same_and_questions_are_matched_by_their_text(tmp_path: Path) -> None:
    lines = tmp_path / "a.jsonl"
    lines.write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in ROWS) + "\n", encoding="utf-8")
    whole = tmp_path / "a.json"
    whole.write_text(json.dumps(ROWS, ensure_ascii=False), encoding="utf-8")
    sheet = tmp_path / "a.xlsx"
    flat = [
        {**row, "contexts": json.dumps(row["contexts"], ensure_ascii=False) if row["contexts"] else None}
        for row in ROWS
    ]
    pd.DataFrame(flat).to_excel(sheet, index=False)
    found: list[Any] = [
        load_answers(source).for_questions(QUESTIONS) for source in (lines, whole, sheet, pd.DataFrame(ROWS))
    ]
    assert all(each == found[0] for each in found)
    assert found[0][0].passages[0].source == "m.md"


def test_columns_of_another_name_are_told_and_ids_of_a_sheet_are_numbers(tmp_path: Path) -> None:
    frame = pd.DataFrame({"番号": [1.0, None], "text": ["隔離します。", "余り"], "質問": ["", "報告は、誰に？"]})
    stored = load_answers(frame, columns={"question_id": "番号", "answer": "text"})
    assert [answer.answer for answer in stored.for_questions(QUESTIONS)] == ["隔離します。", "余り"]
    with pytest.raises(ConfigError, match="text"):
        load_answers(frame)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("question_id,answer\n1,隔離します。\n", "id b"),
        ("question_id,answer\n1,a\n1,b\nb,c\n", "id 1"),
        ("id,回答文\n1,a\n", "回答文"),
        ("question_id,answer\n", "no row"),
        ("question_id,answer,cost_usd\n1,a,dear\n", "row 1"),
        ("question_id,answer\n1,隔離し,報告します。\nb,c\n", "row 2 has 3 cells, the first row 2"),
        ('question_id,answer\n1,"隔離します。\nb,c\n', "every quote"),
    ],
)
def test_what_does_not_fit_is_told(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "answers.csv"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=told):
        load_answers(file).for_questions(QUESTIONS)
