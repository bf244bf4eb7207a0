"""Answers from files: however Excel and other tools wrote them, matched to their questions or refused beforehand."""

from __future__ import annotations

import json
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from socjudge.answering.dataset import load_eval_dataset
from socjudge.answering.own_answers import StoredAnswers, load_answers
from socjudge.errors import ConfigError
from socjudge.records import AssistantAnswer, EvalQuestion
from socjudge.runs.given_answers import open_answers
from socjudge.runs.logs import load_run
from socjudge.runs.suite import rejudge, run_evaluation_suite

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
    stored = load_answers(frame.rename(columns={"番号": "question_id", "text": "answer"}))
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
        ("question_id,answer,cost_usd\n1,a,dear\n", "row 2"),  # as a spreadsheet shows it
        ("question_id,answer\n1,隔離し,報告します。\nb,c\n", "row 2 has 3 cells, the first row 2"),
        ('question_id,answer\n1,"隔離します。\nb,c\n', "every quote"),
    ],
)
def test_what_does_not_fit_is_told(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "answers.csv"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=told):
        load_answers(file).for_questions(QUESTIONS)


THREE = [
    EvalQuestion(n, "正常系", text, ("要点",))
    for n, text in enumerate(("初動は？", "報告は誰に？", "復旧は？"), start=1)
]


def written(folder: Path, rows: list[dict[str, Any]], suffix: str) -> Path:
    """The same rows as a user would keep them in a file of this kind."""
    path = folder / f"answers{suffix}"
    if suffix == ".json":
        path.write_text(json.dumps(rows, ensure_ascii=False), encoding="utf-8")
    elif suffix == ".jsonl":
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    elif suffix == ".xlsx":
        pd.DataFrame(rows).to_excel(path, index=False)
    else:
        pd.DataFrame(rows).to_csv(path, index=False)
    return path


@pytest.mark.parametrize("suffix", [".csv", ".json", ".jsonl", ".xlsx"])
def test_a_text_that_contradicts_its_id_is_an_error_that_names_both(tmp_path: Path, suffix: str) -> None:
    rows = [{"question_id": n + 1, "question": THREE[n - 1].question, "answer": f"回答{n}"} for n in (1, 2, 3)]
    with pytest.raises(ConfigError) as told:  # the dataset was renumbered
        load_answers(written(tmp_path, rows, suffix)).for_questions(THREE[1:])
    assert "id 2 '報告は誰に？'" in str(told.value) and "id 2 '初動は？'" in str(told.value)


def test_an_answer_under_an_id_that_the_dataset_does_not_have_is_told_with_both() -> None:
    frame = pd.DataFrame({"question_id": ["x1"], "question": ["初動は"], "answer": ["隔離します。"]})
    with pytest.raises(ConfigError, match="id 1 '初動は？'.* id x1 '初動は'"):
        load_answers(frame).for_questions(THREE[:1])


def test_an_id_with_the_same_question_in_another_spelling_is_right() -> None:
    frame = pd.DataFrame({"question_id": [1], "question": ["初動は?　"], "answer": ["隔離します。"]})
    assert load_answers(frame).for_questions(THREE[:1])[0].answer == "隔離します。"


def test_a_record_that_knows_another_question_is_an_error_that_names_both() -> None:
    answers = [AssistantAnswer(question.question, "回答") for question in (THREE[1], THREE[0])]
    with pytest.raises(ConfigError, match="number 1: id 1 '初動は？'.*報告は誰に？"):
        open_answers(answers, THREE[:2])
    kept = StoredAnswers((("1", "", answers[0]),), "the store")
    with pytest.raises(ConfigError, match="id 1 '初動は？'.*報告は誰に？"):
        kept.for_questions(THREE[:1])
    assert open_answers([AssistantAnswer("", "回答")], THREE[:1]) == [AssistantAnswer("", "回答")]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "question_id,question,answer\n1,,古い回答\n,初動は？,新しい回答\n"),
        ("a.csv", "question_id,answer,answer\n1,古い回答,新しい回答\n"),
        ("a.jsonl", '{"question_id": 1, "answer": "古い回答", "answer": "新しい回答"}\n'),
        ("a.json", '[{"question_id": 1, "answer": "回答"}, {"question_id": "1", "answer": "回答"}]'),
    ],
)
def test_two_answers_to_one_question_are_refused(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match="more than one answer|several columns|twice"):
        load_answers(tmp_path / name).for_questions(THREE[:1])


def test_an_id_that_pandas_wrote_as_a_float_is_the_whole_number(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(
        "question_id,answer\n1,回答1\n2.0,回答2\n1.0,別の回答\n３,回答3\n", encoding="utf-8"
    )
    stored = load_answers(tmp_path / "a.csv")
    assert [answer.answer for answer in stored.for_questions(THREE[1:3])] == ["回答2", "回答3"]
    with pytest.raises(ConfigError, match="more than one answer"):
        stored.for_questions(THREE[:1])
    section = replace(THREE[0], id="1.0")  # a number of a section
    assert stored.for_questions([section])[0].answer == "別の回答"


def test_two_columns_of_a_frame_with_one_name_are_refused() -> None:
    frame = pd.DataFrame([[1, "古い回答", "新しい回答"]], columns=["question_id", "answer", "answer"])
    with pytest.raises(ConfigError, match="several columns"):
        load_answers(frame)


@pytest.mark.parametrize("letter", ["\u2028", "\u2029", "\x85"])
def test_a_line_of_jsonl_ends_at_a_line_feed_alone(tmp_path: Path, letter: str) -> None:
    row = json.dumps({"question_id": 1, "answer": f"隔離{letter}します。"}, ensure_ascii=False)
    (tmp_path / "a.jsonl").write_text(f"{row}\r\n\r\n", encoding="utf-8", newline="")
    assert load_answers(tmp_path / "a.jsonl").for_questions(THREE[:1])[0].answer == f"隔離{letter}します。"


def test_a_line_of_jsonl_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"question_id": 1, "answer": "隔離します。"}\n\n{"question_id": 2,\n', "utf-8")
    with pytest.raises(ConfigError, match="line 3"):
        load_answers(tmp_path / "a.jsonl")


LONG = "長い回答です。" * 30_000  # beyond the 131,072 characters of Python's csv module


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_a_long_cell_is_read(tmp_path: Path, suffix: str) -> None:
    path = written(tmp_path, [{"question_id": 1, "answer": LONG}], suffix)
    assert load_answers(path).for_questions(THREE[:1])[0].answer == LONG


CONTEXTS = ["1行目\n「It's」 \"a\" 'b'", "[1] 2つ目, 次", "3\\つ目"]
DICTS = [{"text": "隔離する。", "source": "m.md"}, {"text": "報告する。", "source": "r.md"}]


@pytest.mark.parametrize("contexts", [CONTEXTS, tuple(CONTEXTS), CONTEXTS[:1], DICTS])
@pytest.mark.parametrize("form", ["csv of a list", "csv of an array", "json", "frame", "parquet"])
def test_contexts_are_as_many_as_were_given(tmp_path: Path, contexts: Any, form: str) -> None:
    array = np.empty(len(contexts), dtype=object)
    array[:] = contexts
    row = {"question_id": [1], "answer": ["隔離します。"], "contexts": [array if "array" in form else contexts]}
    source: Any = tmp_path / "a.csv"
    if form.startswith("csv"):
        pd.DataFrame(row).to_csv(source, index=False)
    elif form == "json":
        cell = json.dumps(contexts, ensure_ascii=False)
        pd.DataFrame(row | {"contexts": [cell]}).to_csv(source, index=False)
    elif form == "frame":
        source = pd.DataFrame(row)
    else:  # as Parquet has them: a missing value beside the arrays, in columns of every type
        cells = [np.array([*contexts, None], object)[:-1], None]
        more = {"question_id": [1, 2], "answer": ["隔離します。", "不明"], "contexts": cells}
        source = pd.DataFrame(more | {"cost_usd": [0.5, None], "input_tokens": pd.array([3, None], "Int64")})
    answer = load_answers(source).for_questions(THREE[:1])[0]
    texts = [each["text"] if isinstance(each, dict) else each for each in contexts]
    assert [passage.text for passage in answer.passages] == texts
    if contexts is DICTS:
        assert [passage.source for passage in answer.passages] == ["m.md", "r.md"]


@pytest.mark.parametrize("dtypes", ["numpy_nullable", "pyarrow"])
def test_a_frame_of_any_dtypes_is_read(dtypes: Any) -> None:
    if dtypes == "pyarrow":
        pytest.importorskip("pyarrow")  # only who has it has such frames
    frame = pd.DataFrame({"question_id": [1, 2], "answer": ["隔離します。", None], "contexts": [["隔離する。"], None]})
    read = frame.convert_dtypes(dtype_backend=dtypes)
    first, second = load_answers(read).for_questions(THREE[:2])
    assert ([p.text for p in first.passages], second.answer, second.passages) == (["隔離する。"], "", ())


@pytest.mark.parametrize(
    "cell", ["[出典: m.md] 隔離する。", "(参考) 隔離する。", "[1", "os.system('x')", "['a'] と ['b']"]
)
def test_a_context_that_is_no_list_is_one_text_or_told(cell: str) -> None:
    frame = pd.DataFrame({"question_id": [1], "answer": ["隔離します。"], "contexts": [cell]})
    if cell.endswith("']"):
        with pytest.raises(ConfigError, match="row 1.*begin like a list"):
            load_answers(frame)
    else:
        assert [p.text for p in load_answers(frame).for_questions(THREE[:1])[0].passages] == [cell]


def test_a_printed_list_that_was_cut_is_told_quickly() -> None:
    for cell in ("['隔離する。', '報告", "['" + "\\'" * 50_000):
        frame = pd.DataFrame({"question_id": [1], "answer": ["隔離します。"], "contexts": [cell]})
        with pytest.raises(ConfigError, match="row 1.*begin like a list"):
            load_answers(frame)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32", "iso-2022-jp"])
@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_an_encoding_that_is_not_read_is_named(tmp_path: Path, encoding: str, name: str) -> None:
    text = CSV if name == "a.csv" else '{"question_id": 1, "answer": "隔離します。"}\n'
    (tmp_path / name).write_bytes(text.encode(encoding))
    with pytest.raises(ConfigError, match="ISO-2022-JP" if "2022" in encoding else "UTF-16"):
        load_answers(tmp_path / name)


def workbook(path: Path, sheet: str) -> Path:
    """A workbook whose first sheet has this XML, with the other parts as a library writes them."""
    plain = path.with_name("plain.xlsx")
    pd.DataFrame({"question_id": [1], "answer": ["隔離します。"]}).to_excel(plain, index=False)
    with zipfile.ZipFile(plain) as old, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, sheet if name == "xl/worksheets/sheet1.xml" else old.read(name))
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("row", "count"),
    [
        ('<row><c t="inlineStr"><is><t>' + "a" * 1000 + "</t></is></c></row>", 120_000),  # 120 MB
        ('<row><c r="XFD{n}"><v>1</v></c></row>', 2_000),  # 16,384 cells a row
    ],
)
def test_a_workbook_that_unpacks_without_end_is_refused(tmp_path: Path, row: str, count: int) -> None:
    rows = "".join(row.replace("{n}", str(n)) for n in range(1, count + 1))
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    path = workbook(tmp_path / "a.xlsx", f'<worksheet xmlns="{main}"><sheetData>{rows}</sheetData></worksheet>')
    assert path.stat().st_size < 2**20
    for load in (load_answers, load_eval_dataset):
        with pytest.raises(ConfigError, match="a.xlsx.*(unpacks to more than|has more than .* cells)"):
            load(path)


@pytest.mark.parametrize("from_file", [False, True])
def test_why_there_is_no_stored_answer_stands_beside_its_question(tmp_path: Path, from_file: bool) -> None:
    given: Any = [{"answer": "端末を隔離します。"}, {"error": "upstream timed out"}]
    if from_file:
        rows = [{"question_id": question.id, **row} for question, row in zip(QUESTIONS, given, strict=True)]
        pd.DataFrame(rows).to_csv(given := tmp_path / "answers.csv", index=False)
    how: dict[str, Any] = {"judge_model": "offline", "logs_dir": tmp_path / "logs", "progress": False}
    path = run_evaluation_suite(QUESTIONS, answers=given, **how).log_path
    assert path is not None
    assert "upstream timed out" in load_run(path).results[1].evaluation.error
    assert "upstream timed out" in rejudge(load_run(path), **how).results[1].evaluation.error
