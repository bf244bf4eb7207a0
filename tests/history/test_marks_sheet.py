"""The Excel file for a person's marks: what is in it, what is read back, and what is refused."""

from __future__ import annotations

import builtins
from pathlib import Path
from typing import Any

import pytest
from report_logs import HOSTILE, bare_log, save_log
from service import CRITERIA
from typer.testing import CliRunner

from socjudge import ConfigError, EvaluationRun, judge_agreement, load_run, load_scores
from socjudge.certify.labelled import read_labels
from socjudge.cli.app import app
from socjudge.history import load_labels, write_marks_sheet

openpyxl = pytest.importorskip("openpyxl")


def run_of(folder: Path, text: str = "文章") -> EvaluationRun:
    """Two answers pass, one fails, one was not read."""
    return load_run(save_log(folder / "logs", bare_log([80, 80, 50, None], text)) / "judge_eval_20260101_090000.json")


def filled(folder: Path, **cells: Any) -> Path:
    """A sheet that 佐藤 filled in with 40 points everywhere, but for these cells, such as E3=101."""
    folder.mkdir(exist_ok=True)
    path = write_marks_sheet(folder / "marks.xlsx", run_of(folder))
    book = openpyxl.load_workbook(path)
    sheet = book.active
    for row in range(2, sheet.max_row + 1):
        sheet[f"A{row}"], sheet[f"E{row}"] = "佐藤", 40
    for name, value in cells.items():
        sheet[name] = value
    book.save(path)
    return path


def test_what_did_not_pass_is_marked_in_excel_and_comes_back_as_labels(tmp_path: Path) -> None:
    labels = load_labels(filled(tmp_path, E2=80.0, E3=" 75 "))
    assert list(labels["score"]) == [80, 75] + [40] * 10
    assert set(labels["question_id"]) == {3, 4} and set(labels["rater"]) == {"佐藤"}
    assert list(labels["criterion"].cat.categories) == CRITERIA and not labels["blind"].any()
    assert judge_agreement(load_scores(tmp_path / "logs", cache=False), labels)["n"].max() == 1  # that was read
    assert len(read_labels(tmp_path / "marks.xlsx")) == 12  # as socjudge certify --labels takes them


def test_rows_without_a_score_are_named_and_are_no_zeros(tmp_path: Path) -> None:
    path = filled(tmp_path, E2=None, E5="")
    with pytest.warns(UserWarning, match=r"2 rows without a score .*\(rows 2, 5\)"):
        assert set(load_labels(path)["score"]) == {40}


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ({"E3": 101}, r"line 3 \(正確性 is 101"),
        ({"E3": "良い"}, "line 3 .*良い"),
        ({"E3": 40.5}, "line 3 .*40.5"),
        ({"E3": True}, "line 3 .*True"),
        ({"A4": None, "D5": " "}, r"line 4 \(rater: empty\); line 5 \(criterion: empty"),
        ({"C6": "abc"}, r"line 6 \(answer_sha256"),
        ({"D3": "根拠性"}, "line 3 .*marked this answer and criterion already"),
        ({"E1": "points"}, "no column score"),
    ],
)
def test_odd_cells_are_refused_by_row(tmp_path: Path, cells: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        load_labels(filled(tmp_path, **cells))


@pytest.mark.parametrize("text", ['=HYPERLINK("http://evil.example")', "+1", "-1", "@SUM(1)", HOSTILE, "長" * 40_000])
def test_texts_of_models_stay_text(tmp_path: Path, text: str) -> None:
    log = bare_log([50], text)
    log["results"][0]["answer"] = text
    run = load_run(save_log(tmp_path / "logs", log) / "judge_eval_20260101_090000.json")
    sheet = openpyxl.load_workbook(write_marks_sheet(tmp_path / "marks.xlsx", run)).active
    answer = sheet["H2"]
    assert sheet["H1"].value == "answer" and answer.data_type == "s" and answer.quotePrefix
    assert answer.value[:4] == text[:4] and len(answer.value) < 32_767


def test_a_sheet_is_never_replaced_and_all_that_passed_makes_none(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    before = write_marks_sheet(tmp_path / "marks.xlsx", run).read_bytes()
    with pytest.raises(ConfigError, match="may have marks in it"):
        write_marks_sheet(tmp_path / "marks.xlsx", run)
    assert (tmp_path / "marks.xlsx").read_bytes() == before
    with pytest.raises(ConfigError, match=r"\.xlsx"):
        write_marks_sheet(tmp_path / "marks.csv", run)
    passed = load_run(save_log(tmp_path / "good", bare_log([80])) / "judge_eval_20260101_090000.json")
    with pytest.raises(ConfigError, match="no answer that failed"):
        write_marks_sheet(tmp_path / "b.xlsx", passed)


def test_what_is_no_sheet_is_one_named_problem(tmp_path: Path) -> None:
    (tmp_path / "a.xlsx").write_bytes(b"PK no sheet")
    for name in ("a.xlsx", "none.xlsx"):
        with pytest.raises(ConfigError, match=name):
            load_labels(tmp_path / name)


def test_without_openpyxl_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, path = run_of(tmp_path), filled(tmp_path / "other")
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.startswith("openpyxl"):
            raise ModuleNotFoundError("No module named 'openpyxl'", name="openpyxl")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    for call in (lambda: write_marks_sheet(tmp_path / "marks.xlsx", run), lambda: load_labels(path)):
        with pytest.raises(ConfigError, match=r"socjudge\[convert\]"):
            call()


@pytest.mark.slow
def test_the_command_writes_report_and_sheet(tmp_path: Path) -> None:
    run_of(tmp_path)
    asked = [
        "report",
        str(tmp_path / "r.html"),
        "--logs-dir",
        str(tmp_path / "logs"),
        "--marks",
        str(tmp_path / "m.xlsx"),
    ]
    result = CliRunner().invoke(app, asked)
    assert result.exit_code == 0, result.output
    assert openpyxl.load_workbook(tmp_path / "m.xlsx").active.max_row == 13
