"""load_eval_dataset: what is wrong is named with file, item and field."""

from __future__ import annotations

import base64
import csv
import io
import json
import re
import zipfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import OTHERS
from hypothesis import given
from hypothesis import strategies as st

from socjudge import ConfigError, EvalQuestion, constants, load_eval_dataset
from socjudge.answering.dataset import dataset_notes
from socjudge.base.messages import speaking

ITEM: dict[str, Any] = {"id": 1, "category": "正常系", "question": "問い", "expected_keypoints": ["要点"]}


def test_each_keypoint_of_the_eighty_questions_has_its_line_in_the_runbooks() -> None:
    path = constants.EVAL_DATASET_PATH.with_name("eval_dataset_extended.json")
    sources = json.loads(path.with_name("eval_dataset_extended_sources.json").read_text("utf-8"))
    questions = load_eval_dataset(path)
    assert Counter(question.category for question in questions) == dict.fromkeys(constants.QUESTION_CATEGORIES, 20)
    for question in questions:
        assert sources[str(question.id)].keys() == set(question.expected_keypoints), question.id
        for found in filter(None, sources[str(question.id)].values()):
            assert found["line"] in (constants.RUNBOOKS_DIR / found["source"]).read_text("utf-8"), (question.id, found)
        # What the runbooks do not have, and what is asked back, rests on no line.
        if question.category in ("正常系", "危険操作系"):
            assert any(sources[str(question.id)].values()), question.id


def written(folder: Path, value: Any) -> Path:
    path = folder / "dataset.json"
    path.write_text(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("{", "cannot be read"),
        ("", "cannot be read"),
        ('[{"id": 1, "id": 2}]', "gives id twice"),
        ("[" * 100_000, "nested too deeply"),
        ({"id": 1}, "expected a list of objects"),
        ([], "there is no row"),
        ([5], "expected a list of objects"),
        ([{**ITEM, "id": 3, "question": ""}], "number 1: the field 'question' is '', expected a text"),
        (
            [ITEM, {**ITEM, "id": 2, "expected_keypoints": []}],
            r"number 2: the field 'expected_keypoints' is \[\], expected a list",
        ),
        (
            [{**ITEM, "expected_keypoints": ["a", " "]}],
            "field 'expected_keypoints' is .*, expected a list of texts, none of which is empty",
        ),
        ([{**ITEM, "expected_keypoints": "a"}], "field 'expected_keypoints' is 'a', expected a list"),
        ([{k: v for k, v in ITEM.items() if k != "category"}], "the field 'category' is missing, expected a text"),
        (
            [{**ITEM, "category": "異常系"}],
            "'異常系' is unknown; expected one of 正常系, 危険操作系.*QUESTION_CATEGORIES",
        ),
        ([ITEM, {**ITEM, "question": "別"}], "id 1 is used 2 times"),
        ([ITEM, {**ITEM, "id": "1"}], "id 1 is used 2 times"),
        ([{**ITEM, "id": 2**64}], "the field 'id' is 18446744073709551616, expected .* at most 64 bits"),
        ([{**ITEM, "id": None}], "number 1: the field 'id' is None, expected a text, or a whole number"),
    ],
)
def test_a_problem_is_named_with_file_item_and_field(tmp_path: Path, value: Any, why: str) -> None:
    with pytest.raises(ConfigError, match=f"(?s)dataset.json.*{why}"):
        load_eval_dataset(written(tmp_path, value))


def test_all_problems_are_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="(?s)number 1: .*'question'.*number 2: .*'expected_keypoints'"):
        load_eval_dataset(written(tmp_path, [{**ITEM, "question": ""}, {**ITEM, "id": 2, "expected_keypoints": []}]))


@pytest.mark.slow
def test_of_very_many_problems_the_rest_are_counted(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="and 1,950 more$"):
        load_eval_dataset(written(tmp_path, [{**ITEM, "id": i, "category": "異常系"} for i in range(2000)]))


def test_problems_are_told_in_japanese(tmp_path: Path) -> None:
    path = written(tmp_path, [{k: v for k, v in ITEM.items() if k != "category"}])
    with (
        speaking("ja"),
        pytest.raises(ConfigError, match=r"直してください:\n  1番目: category が なし です。正しくは: 空でない文字列$"),
    ):
        load_eval_dataset(path)


def test_what_weakens_a_dataset_is_noted(questions: list[EvalQuestion]) -> None:
    assert dataset_notes(questions) == []
    thin = replace(questions[0], id="a", expected_keypoints=("隔離",))
    assert [note.split(";")[0] for note in dataset_notes([thin, replace(questions[0], id="b")])] == [
        "id a has 1 expected keypoint(s)",
        f"the same question stands 2 times: {thin.question}",
    ]


def test_a_missing_file_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nothing.json: there is no such file"):
        load_eval_dataset(tmp_path / "nothing.json")


def test_a_dataset_in_another_encoding_is_read_or_named(tmp_path: Path) -> None:
    path = tmp_path / "dataset.json"
    path.write_bytes(json.dumps([ITEM], ensure_ascii=False).encode("cp932"))
    assert [question.question for question in load_eval_dataset(path)] == [ITEM["question"]]
    path.write_bytes(json.dumps([ITEM], ensure_ascii=False).encode("utf-32"))
    with pytest.raises(ConfigError, match="UTF-8"):
        load_eval_dataset(path)


def test_a_byte_order_mark_is_no_problem(tmp_path: Path) -> None:
    path = tmp_path / "dataset.json"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps([ITEM]).encode())
    assert load_eval_dataset(path) == [EvalQuestion(1, "正常系", "問い", ("要点",))]


words = st.text(st.characters(blacklist_categories=["Cs", "Cc", "Z"]), min_size=1, max_size=20)


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(st.integers(), st.sampled_from(constants.QUESTION_CATEGORIES), words, st.lists(words, min_size=1, max_size=6)),
        min_size=1, max_size=5, unique_by=lambda item: item[0],
    )
)  # fmt: skip
def test_any_valid_dataset_loads_as_written(tmp_path_factory: pytest.TempPathFactory, items: list[Any]) -> None:
    rows = [dict(zip(ITEM, item, strict=True)) for item in items]
    rows = [row for row in rows if abs(row["id"]) < 2**63]
    if rows:
        loaded = load_eval_dataset(written(tmp_path_factory.mktemp("d"), rows))
        assert [(q.id, q.category, q.question, list(q.expected_keypoints)) for q in loaded] == [
            tuple(row.values()) for row in rows
        ]


# -- tables

OURS = ("id", "category", "question", "expected_keypoints")
THEIRS = ("番号", "カテゴリ", "質問", "キーポイント")
ROWS: list[tuple[Any, ...]] = [
    (1, "正常系", "端末の隔離は、\n誰が行いますか？", "SOC当番\n30分以内|厳守"),
    ("b", "危険操作系", '「"削除"」してよいですか？', "許可しない | 承認を得る；記録する"),
]
QUESTIONS = [
    EvalQuestion(1, "正常系", "端末の隔離は、\n誰が行いますか？", ("SOC当番", "30分以内|厳守")),
    EvalQuestion("b", "危険操作系", '「"削除"」してよいですか？', ("許可しない", "承認を得る", "記録する")),
]


def csv_of(head: Sequence[str], rows: Sequence[Sequence[Any]], **form: Any) -> str:
    text = io.StringIO(newline="")
    csv.writer(text, **form).writerows([head, *rows])
    return text.getvalue()


def table(folder: Path, text: str, *, name: str = "質問.csv", encoding: str = "utf-8") -> Path:
    path = folder / name
    path.write_bytes(text.encode(encoding))
    return path


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp932", "utf-16"])
@pytest.mark.parametrize("head", [OURS, THEIRS, [name.upper() for name in OURS]])
def test_a_csv_has_the_questions_whoever_wrote_it(tmp_path: Path, encoding: str, head: Sequence[str]) -> None:
    text = csv_of([*head, "備考\t;"], [[*row, "メモ"] for row in ROWS])
    assert load_eval_dataset(table(tmp_path, text, encoding=encoding)) == QUESTIONS
    for name, separator in (("a.TSV", "\t"), ("a.csv", "\t"), ("b.csv", ";")):
        other = csv_of(head, ROWS, delimiter=separator, lineterminator="\n")
        assert load_eval_dataset(table(tmp_path, other, name=name, encoding=encoding)) == QUESTIONS


def workbook(path: Path, head: Sequence[str], rows: Sequence[Sequence[Any]]) -> Path:
    from openpyxl import Workbook

    book = Workbook()
    for row in (head, *rows):
        book.active.append(list(row))
    book.create_sheet("別の表").append(["id"])
    book.save(path)
    return path


def test_the_first_sheet_of_a_workbook_has_the_questions(tmp_path: Path) -> None:
    path = workbook(tmp_path / "質問.xlsx", THEIRS, [(1.0, *ROWS[0][1:]), (None,) * 4, ROWS[1]])
    assert load_eval_dataset(path) == QUESTIONS


def test_a_sheet_that_states_too_small_an_area_is_read_whole(tmp_path: Path) -> None:
    path = workbook(tmp_path / "a.xlsx", OURS, ROWS)
    with zipfile.ZipFile(path) as book:
        parts = {name: book.read(name) for name in book.namelist()}
    with zipfile.ZipFile(path, "w") as book:
        for name, part in parts.items():
            book.writestr(name, re.sub(rb'<dimension ref="[^"]*"', b'<dimension ref="A1"', part))
    assert load_eval_dataset(path) == QUESTIONS


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (csv_of(OURS, [*ROWS, (1, "正常系", "別の質問", "要点")]), "row 2, row 4: id 1 is used 2 times"),
        (csv_of(THEIRS, [ROWS[0], (2, "正常系", " ", "要点")]), "row 3: the field '質問' is '', expected a text"),
        (csv_of(OURS, [ROWS[0], ("", "正常系", "質問", "要点")]), "row 3: the field 'id' is '', expected a text, or a whole number"),
        (csv_of(OURS, [(2, "正常系", "質問", " ；|\n")]), r"row 2: the field 'expected_keypoints' is \[\], expected a list"),
        (csv_of(OURS, [(2, "異常系", "質問", "要点")]), "row 2: the category '異常系' is unknown"),
        (csv_of(OURS, [(2**64, "正常系", "質問", "要点")]), "row 2: the field 'id' is 18446744073709551616, expected .* 64 bits"),
        (csv_of(OURS[:3], [row[:3] for row in ROWS]), "no column expected_keypoints / .*キーポイント.*, only id, category, question; rename"),
        (csv_of([*OURS, "Question"], [[*row, "x"] for row in ROWS]), "several columns are called question"),
        (csv_of(OURS, []), "there is no row"),
        ("", "there is no row"),
        ("id,category,question,expected_keypoints\n1,正常系,隔離は,誰が？,要点\n", "row 2 has 5 cells, the first row 4"),
        ('id,category,question,expected_keypoints\n1,正常系,"隔離は？,要点\n2,正常系,b,c\n', "up to line 3: .*every quote"),
    ],
)  # fmt: skip
def test_a_problem_of_a_table_is_named_with_file_row_and_column(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=rf"(?s)質問\.csv.*{why}"):
        load_eval_dataset(table(tmp_path, text))


def test_all_problems_of_a_table_are_named_at_once_with_the_rows_that_a_spreadsheet_shows(tmp_path: Path) -> None:
    rows = [*ROWS, ("", "", "", ""), ("c", "正常系", "", "要点"), ("b", "異常系", "質問", "要点")]
    with (
        speaking("ja"),
        pytest.raises(
            ConfigError, match=r"(?s)\n  5行目: 質問 が '' です.*\n  6行目: category の.*\n  3行目、6行目: id b が2回"
        ),
    ):
        load_eval_dataset(table(tmp_path, csv_of(THEIRS, rows)))


def test_a_file_that_is_no_workbook_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"質問\.xlsx: it cannot be read \(BadZipFile"):
        load_eval_dataset(table(tmp_path, "id,question\n", name="質問.xlsx"))


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(st.integers(0, 2**40), st.sampled_from(constants.QUESTION_CATEGORIES), words, st.lists(words, min_size=2, max_size=6)),
        min_size=1, max_size=5, unique_by=lambda item: item[0],
    ),
    st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
)  # fmt: skip
def test_a_table_and_the_json_of_the_same_questions_are_the_same_dataset(
    tmp_path_factory: pytest.TempPathFactory, items: list[Any], encoding: str
) -> None:
    folder = tmp_path_factory.mktemp("d")
    text = csv_of(OURS, [(*item[:3], "\n".join(item[3])) for item in items])
    rows = [dict(zip(ITEM, item, strict=True)) for item in items]
    assert load_eval_dataset(table(folder, text, encoding=encoding)) == load_eval_dataset(written(folder, rows))


def test_no_json_conformance_file_is_taken_for_a_dataset(tmp_path: Path) -> None:
    for case in json.loads((OTHERS / "jsontestsuite_b64.json").read_text("utf-8")):
        path = tmp_path / "case.json"
        path.write_bytes(base64.b64decode(case["b64"]))
        with pytest.raises(ConfigError):
            load_eval_dataset(path)
