"""Frames as CSV and Excel: every value comes back as it was, and no cell is a formula."""

from __future__ import annotations

import csv
import io
import zipfile
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openpyxl import load_workbook

import socjudge as sj

FORMULAS = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "＝1", "=cmd|' /C calc'!A0", "'=1", "''", "'"]
# Which a reader might take for something else, and Excel's own way of telling characters.
OTHERS = [
    "",
    "007",
    "1e5",
    "nan",
    "NA",
    "None",
    "True",
    "2026-01-02T03:04:05+09:00",
    "#N/A",
    "_x0041_",
    "x005F_",
    "_x000D",
    "a\r\nb",
    ' "q", ',
]
TEXTS = st.one_of(st.sampled_from(FORMULAS + OTHERS), st.text(st.characters(exclude_categories=["Cs"])))
NUMBERS = st.one_of(st.integers(-(2**62), 2**62), st.floats(allow_nan=False))
TIMES = st.datetimes().map(pd.Timestamp)
CELLS = st.one_of(st.none(), TEXTS, NUMBERS, st.booleans(), TIMES)
COLUMNS = st.one_of(
    *(st.lists(st.one_of(st.none(), kind), min_size=3, max_size=3) for kind in (TEXTS, NUMBERS, TIMES, CELLS))
)
FRAMES = st.dictionaries(TEXTS, COLUMNS, min_size=1, max_size=4).map(lambda told: pd.DataFrame(told, dtype=object))


def values(frame: pd.DataFrame) -> list[list[Any]]:
    cells = [frame.iloc[:, at].astype(object).tolist() for at in range(frame.shape[1])]
    return [[None if pd.isna(cell) else cell for cell in column] for column in cells]


def kinds(frame: pd.DataFrame) -> list[list[type]]:
    return [
        [str if isinstance(cell, str) else bool if isinstance(cell, bool) else object for cell in column]
        for column in values(frame)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["csv", "xlsx"])
@given(frame=FRAMES)
def test_what_is_written_comes_back_unchanged(
    ending: str, frame: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("table") / f"t.{ending}"
    back = sj.history.load_table(sj.history.write_table(path, frame))
    assert list(back.columns) == list(frame.columns)
    assert values(back) == values(frame) and kinds(back) == kinds(frame)


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["csv", "xlsx"])
def test_frames_of_ours_come_back_and_can_be_imported(ending: str, samples: Path, tmp_path: Path) -> None:
    frame = sj.load_scores(samples, text=True)
    back = sj.history.load_table(sj.history.write_table(tmp_path / f"scores.{ending}", frame))
    assert values(back) == values(frame) and back["started_at"].dt.tz is not None
    assert sorted(sj.history.import_results(back)["score"].dropna()) == sorted(frame["score"].dropna().astype(float))


def test_no_cell_of_a_csv_begins_with_what_a_spreadsheet_runs(tmp_path: Path) -> None:
    path = sj.history.write_table(tmp_path / "t.csv", pd.DataFrame({name: FORMULAS for name in FORMULAS}))
    raw = path.read_bytes()
    assert raw.startswith(b"\xef\xbb\xbf")
    rows = list(csv.reader(io.StringIO(raw.decode("utf-8-sig"), newline="")))
    assert len(rows) == 1 + len(FORMULAS)
    assert {cell[0] for row in rows for cell in row} == {"'"}


def test_no_cell_of_a_sheet_is_a_formula_also_when_it_is_edited(tmp_path: Path) -> None:
    path = sj.history.write_table(tmp_path / "t.xlsx", pd.DataFrame({"=x": FORMULAS, "n": range(len(FORMULAS))}))
    (sheet,) = load_workbook(path).worksheets
    assert "f" not in {cell.data_type for (cell, _) in sheet.iter_rows()}
    assert all(cell.quotePrefix for (cell, _) in sheet.iter_rows())
    assert b"<f>" not in zipfile.ZipFile(path).read("xl/worksheets/sheet1.xml")


def test_numbers_and_times_are_not_texts_in_a_sheet(tmp_path: Path) -> None:
    frame = pd.DataFrame({"n": [0.1 + 0.2, 2.0], "i": [1, 2], "b": [True, False]})
    path = sj.history.write_table(tmp_path / "t.xlsx", frame)
    assert [[cell.data_type for cell in row] for row in load_workbook(path).worksheets[0].iter_rows(min_row=2)] == [
        ["n", "n", "b"]
    ] * 2
    pd.testing.assert_frame_equal(sj.history.load_table(path), frame)


def test_a_csv_that_excel_saved_again_is_read(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes("question_id,answer,score\r\n1,'=1+1,70\r\n2,端末を隔離,\r\n".encode("cp932"))
    assert values(sj.history.load_table(path)) == [[1, 2], ["=1+1", "端末を隔離"], [70, None]]


@pytest.mark.parametrize(
    ("name", "frame", "told"),
    [
        ("t.ods", pd.DataFrame({"a": [1]}), "ends so"),
        ("none/t.csv", pd.DataFrame({"a": [1]}), "cannot be written"),
        ("t.xlsx", pd.DataFrame({"a": ["長" * 32_768]}), "a, 2: the text is longer"),
    ],
)
def test_what_cannot_be_written_whole_is_told(name: str, frame: pd.DataFrame, told: str, tmp_path: Path) -> None:
    with pytest.raises(sj.ConfigError, match=told):
        sj.history.write_table(tmp_path / name, frame)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "content"), [("t.xlsx", b"no zip"), ("t.csv", b"a,b\n1\n\x81\xff"), ("t.csv", b'a,b\n"1')]
)
def test_a_file_that_is_no_table_is_told(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(sj.ConfigError, match=r"cannot be read as a table"):
        sj.history.load_table(tmp_path / name)
