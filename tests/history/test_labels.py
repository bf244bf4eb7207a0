"""People's marks on disk and as a frame, and a person's way through a run's answers."""

from __future__ import annotations

import json
import random
import re
import tempfile
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.report_logs import bare_log, save_log
from support.service import CRITERIA

from socjudge import ConfigError, EvaluationRun, judge_agreement, load_run, load_scores
from socjudge.history import load_labels
from socjudge.history.labels import Label, append_label, rater_name, read_rater
from socjudge.panels.state.labelling import LabelSession
from socjudge.stats import judge_vs_people
from socjudge.stats.basics import same_raters

SHA = "a" * 64
MARK = Label(1, SHA, "run-1", dict.fromkeys(CRITERIA, 75), "良い", True, "2026-01-31T09:00:00+09:00", 12.5)
MARKS = st.builds(
    Label,
    question_id=st.integers(1, 3) | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=3),
    answer_sha256=st.sampled_from([SHA, "b" * 64]),
    run_id=st.text(),
    scores=st.dictionaries(st.sampled_from([*CRITERIA, "新しい観点"]), st.integers(0, 100), min_size=1),
    comment=st.text(),
    blind=st.booleans(),
    saved_at=st.datetimes(
        datetime(2000, 1, 1), datetime(2199, 12, 31), timezones=st.just(timezone(timedelta(hours=9)))
    ).map(datetime.isoformat),
    seconds=st.floats(0, 1e9) | st.integers(0, 10**6),
)


def save(folder: Path, rater: str, *lines: dict[str, Any] | str) -> None:
    """A rater's file as anybody could have written it."""
    folder.mkdir(exist_ok=True)
    texts = [line if isinstance(line, str) else json.dumps(line, ensure_ascii=False) for line in lines]
    (folder / f"{rater}.jsonl").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")


def line(**changes: Any) -> dict[str, Any]:
    return {"rater": "sato", **vars(MARK), **changes}


# -- the file


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.lists(MARKS, max_size=6))
def test_what_was_saved_is_read_and_the_last_for_an_answer_counts(marks: list[Label]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for mark in marks:
            append_label("佐藤", mark, Path(folder))
        path = Path(folder) / "佐藤.jsonl"
        file = read_rater(path)
        assert file.problem == ""
        assert dict(file.scores) == {mark.key: mark for mark in marks}
        lines = path.read_bytes().count(b"\n") if marks else 0
        assert lines == len(marks)  # nothing is lost
        assert len(load_labels(folder)) == sum(len(mark.scores) for mark in file.scores.values())


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_file_cut_anywhere_keeps_its_whole_lines_and_takes_new_ones(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        marks = [replace(MARK, question_id=number) for number in range(3)]
        for mark in marks:
            path = append_label("sato", mark, Path(folder))
        raw = path.read_bytes()
        cut = data.draw(st.integers(0, len(raw)))
        path.write_bytes(raw[:cut])
        append_label("sato", replace(MARK, question_id=9), Path(folder))
        found = [mark.question_id for mark in read_rater(path).scores.values()]
        whole = raw[:cut].count(b"\n")
        assert found in ([*range(whole), 9], [*range(whole + 1), 9])  # the second where only the line's end was cut


def test_lines_of_two_tabs_do_not_mix(tmp_path: Path) -> None:
    def label(start: int) -> None:
        for number in range(start, start + 50):
            append_label("sato", replace(MARK, question_id=number, comment="長" * 2000), tmp_path)

    tabs = [threading.Thread(target=label, args=(start,)) for start in (0, 100, 200)]
    for tab in tabs:
        tab.start()
    for tab in tabs:
        tab.join()
    file = read_rater(tmp_path / "sato.jsonl")
    assert file.problem == ""
    assert len(file.scores) == 150


@pytest.mark.parametrize(
    ("broken", "what"),
    [
        ('{"rater": "sato", "question', "truncated"),
        ("<<<<<<< HEAD", "malformed"),
        ("[1]", "Expected `object`"),
        (line(question_id=None), "$.question_id"),
        (line(question_id=True), "$.question_id"),
        (line(question_id=2**63), "$.question_id"),
        (line(answer_sha256="../../x"), "$.answer_sha256"),
        (line(scores={}), "$.scores"),
        (line(scores=[1, 2]), "$.scores"),
        (line(scores={"安全性": 101}), "<= 100"),
        (line(scores={"安全性": None}), "$.scores[...]"),
        (line(scores={"安全性": True}), "$.scores[...]"),
        (line(comment=None), "$.comment"),
        (line(blind="yes"), "$.blind"),
        (line(seconds=-1), "$.seconds"),
        (line(saved_at="2026-01-31T09:00:00"), "expected a time with a zone"),
        (line(saved_at="0001-01-01T00:00:00+09:00"), "expected a time with a zone"),
    ],
)
def test_a_broken_line_is_left_out_and_said(tmp_path: Path, broken: Any, what: str) -> None:
    save(tmp_path, "sato", line(question_id=1), broken, "", line(question_id=2))
    with pytest.warns(UserWarning) as warned:
        labels = load_labels(tmp_path)
    (warning,) = warned
    assert re.search(rf"sato\.jsonl: left out: line 2 \(.*{re.escape(what)}", str(warning.message))
    assert "correct or delete them, or score these answers again" in str(warning.message)
    assert warning.filename == __file__
    assert list(labels["question_id"].unique()) == [1, 2]


def test_a_byte_order_mark_of_a_windows_editor_costs_no_mark(tmp_path: Path) -> None:
    path = append_label("sato", MARK, tmp_path)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert read_rater(path).scores == {MARK.key: MARK}


def test_bytes_that_are_no_text_are_a_broken_line(tmp_path: Path) -> None:
    save(tmp_path, "sato", line())
    with (tmp_path / "sato.jsonl").open("ab") as file:
        file.write(b"\xff\xfe\x00\n")
    with pytest.warns(UserWarning, match="line 2"):
        assert len(load_labels(tmp_path)) == 6


@pytest.mark.parametrize("name", ["佐藤", "sato", "さとう.花子", "サトー_2", "a", "x" * 64, "r2-d2"])
def test_these_are_raters(name: str) -> None:
    assert rater_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        " ",
        ".",
        "..",
        "../x",
        "a/b",
        "a\\b",
        "C:x",
        ".x",
        "-x",
        "佐藤 花子",
        "a\n",
        "a\0",
        "x" * 65,
        "．．／x",
        "con",
        "LPT1.a",
    ],
)
def test_these_are_no_raters(name: str, tmp_path: Path) -> None:
    if name == "a\n":
        assert rater_name(name) == "a"
        return
    with pytest.raises(ConfigError, match="rater is .* expected 1 to 64 letters"):
        append_label(name, MARK, tmp_path / "labels")
    assert list(tmp_path.iterdir()) == []


def test_a_name_typed_in_full_width_is_the_same_rater() -> None:
    assert rater_name(" ｓａｔｏ１ ") == "sato1"
    assert rater_name("か\u3099") == "が"


SPELT = ["佐藤 ", "　佐藤", "佐藤\u200b", "佐\u00ad藤", "佐藤\n"]


@pytest.mark.parametrize("other", SPELT)
def test_a_name_spelt_with_what_nobody_sees_is_the_same_rater(other: str) -> None:
    assert rater_name(other) == "佐藤"
    labels = pd.DataFrame({"rater": ["佐藤", other, "佐藤", "鈴木", None, " "], "score": range(6)})
    assert same_raters(labels)["rater"].fillna("-").tolist() == ["佐藤", "佐藤", "佐藤", "鈴木", "-", "-"]


def test_names_in_frames_may_have_blanks_and_their_first_spelling_stays() -> None:
    labels = pd.DataFrame({"rater": pd.Categorical(["Sato  Taro", "SATO　taro", "ｓａｔｏ taro", "Rater (2)"])})
    assert same_raters(labels)["rater"].tolist() == ["Sato Taro"] * 3 + ["Rater (2)"]


def test_marks_that_cannot_be_written_are_said(tmp_path: Path) -> None:
    (tmp_path / "labels").write_text("not a folder")
    with pytest.raises(ConfigError, match=r"sato.jsonl: the score cannot be written .* then save it again"):
        append_label("sato", MARK, tmp_path / "labels")


# -- the frame


def test_one_row_per_rater_answer_and_criterion(tmp_path: Path) -> None:
    save(tmp_path, "佐藤", line(rater="somebody else"), line(scores={**MARK.scores, "安全性": 25}, blind=False))
    save(tmp_path, "tanaka", line(question_id="q-2", scores={"新しい観点": 5}))
    labels = load_labels(tmp_path)
    assert list(labels["rater"]) == ["tanaka"] + ["佐藤"] * 6
    assert list(labels["question_id"]) == ["q-2"] + [1] * 6
    assert list(labels["criterion"]) == ["新しい観点", *CRITERIA]
    assert list(labels["criterion"].cat.categories) == ["新しい観点", *CRITERIA]
    assert labels["criterion"].cat.ordered
    assert list(labels["score"]) == [5, 75, 75, 75, 25, 75, 75]
    assert list(labels["blind"]) == [True] + [False] * 6
    assert labels["saved_at"].iloc[0] == pd.Timestamp("2026-01-31T00:00:00", tz=UTC)
    assert (labels["comment"] == "良い").all()
    assert (labels["answer_sha256"] == SHA).all()
    assert (labels["run_id"] == "run-1").all()


def test_no_folder_is_an_empty_frame_of_the_same_types(tmp_path: Path) -> None:
    save(tmp_path / "labels", "sato", line())
    empty, filled = load_labels(tmp_path / "nowhere"), load_labels(tmp_path / "labels")
    assert len(empty) == 0
    assert list(empty.columns) == list(filled.columns)
    kinds = {name: str(kind) for name, kind in filled.dtypes.items()}
    assert {name: str(kind) for name, kind in empty.dtypes.items()} == kinds
    assert kinds == {
        "rater": "category", "question_id": "int64", "answer_sha256": str(pd.Series([], dtype="str").dtype),
        "run_id": "category", "criterion": "category", "score": "Float64", "blind": "boolean",
        "comment": str(pd.Series([], dtype="str").dtype), "saved_at": "datetime64[us, UTC]", "again": "boolean",
    }  # fmt: skip
    assert empty["criterion"].cat.ordered


def test_a_file_of_no_rater_is_left_out_and_said(tmp_path: Path) -> None:
    save(tmp_path, "sato (1)", line())
    save(tmp_path, "sato", line())
    (tmp_path / "README.md").write_text("not marks")
    with pytest.warns(UserWarning, match=r"sato \(1\).jsonl is left out: rater is .* rename or remove it"):
        assert set(load_labels(tmp_path)["rater"]) == {"sato"}


# -- a spreadsheet

ROW = {"rater": "佐藤 花子", "question_id": "1", "answer_sha256": SHA, "criterion": "安全性", "score": "80"}


def sheet(folder: Path, *rows: dict[str, Any], encoding: str = "utf-8-sig") -> Path:
    """A CSV file as a spreadsheet saves it; each row differs from ROW in these cells."""
    path = folder / "marks.csv"
    pd.DataFrame([ROW | row for row in rows]).to_csv(path, index=False, encoding=encoding)
    return path


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp932"])
def test_marks_of_a_spreadsheet_are_labels(tmp_path: Path, encoding: str) -> None:
    rows = {"comment": "良い"}, {"rater": "田中", "score": " 72.5 "}, {"criterion": "簡潔性", "comment": "=1+1\n次の行"}
    labels = load_labels(sheet(tmp_path, *rows, encoding=encoding))
    assert labels["score"].tolist() == [80, 72.5, 80] and not labels["blind"].any() and not labels["again"].any()
    assert labels["rater"].tolist() == ["佐藤 花子", "田中", "佐藤 花子"] and set(labels["question_id"]) == {1}
    assert labels["criterion"].cat.categories.tolist() == ["安全性", "簡潔性"]
    assert labels["comment"].tolist() == ["良い", "", "=1+1\n次の行"]
    assert labels.dtypes.astype(str).to_dict() == load_labels(tmp_path / "nowhere").dtypes.astype(str).to_dict()


def test_people_of_a_spreadsheet_and_the_judge_are_compared(tmp_path: Path) -> None:
    run_of(tmp_path / "logs", [80, 60, 40])
    scores = load_scores(tmp_path / "logs")
    rows = scores[["question_id", "answer_sha256", "criterion"]].astype(str).to_dict("records")
    agreement = judge_agreement(scores, load_labels(sheet(tmp_path, *rows)))
    assert set(agreement["n_complete"]) == {3}


def test_labels_that_were_saved_as_csv_come_back_the_same(tmp_path: Path) -> None:
    save(tmp_path / "labels", "佐藤", line(), line(again=True), line(question_id=2, comment="", blind=False))
    labels = load_labels(tmp_path / "labels")
    labels.to_csv(tmp_path / "labels.csv", index=False)
    pd.testing.assert_frame_equal(load_labels(tmp_path / "labels.csv"), labels)


def test_rows_without_a_score_are_named_and_are_no_zeros(tmp_path: Path) -> None:
    path = sheet(tmp_path, {"score": ""}, {}, {"criterion": "簡潔性", "score": " "})
    with pytest.warns(UserWarning, match=r"2 rows without a score .*\(rows 2, 4\)"):
        assert load_labels(path)["score"].tolist() == [80]


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ({"score": "101"}, "line 3 .*<= 100"),
        ({"score": "良い"}, "line 3 .*良い"),
        ({"score": "nan"}, r"line 3 .*scores"),
        ({"rater": "", "question_id": " "}, r"line 3 \(rater, question_id: empty"),
        ({"answer_sha256": "abc"}, r"line 3 .*\$\.answer_sha256"),
        ({"criterion": "安全性"}, "line 3 .*scored this answer and criterion already"),
        ({"blind": "yes"}, r"line 3 .*\$\.blind"),
        ({"saved_at": "2026-01-31"}, "line 3 .*saved_at is 2026-01-31; expected a time with a zone"),
    ],
)
def test_odd_cells_are_refused_by_row(tmp_path: Path, cells: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        load_labels(sheet(tmp_path, {}, {"criterion": "正確性"} | cells))


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("marks.csv", b"\xff\xfe\x00", "labels cannot be read"),
        ("marks.csv", b"", "labels lack the columns rater, question_id"),
        (
            "marks.csv",
            "rater,score\n佐藤,80\n".encode(),
            "labels lack the columns question_id, answer_sha256, criterion",
        ),
        ("marks.xlsx", b"PK\x03\x04", "labels lack the columns rater"),
    ],
)
def test_what_is_no_table_of_labels_is_one_named_problem(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ConfigError, match=rf"{name}: {said}"):
        load_labels(tmp_path / name)
    with pytest.raises(ConfigError, match=r"none\.csv: labels cannot be read"):
        load_labels(tmp_path / "none.csv")


# -- a person's way


def run_of(folder: Path, marks: list[float | None], results: list[Any] | None = None) -> EvaluationRun:
    """A run whose judge gave these averages to questions 1, 2, …; results: other rows than theirs."""
    log = bare_log(marks)
    name = "judge_eval_20260101_090000.json"
    return load_run(save_log(folder, log if results is None else {**log, "results": results}, name) / name)


def way(session: LabelSession) -> list[int | str]:
    """The questions in the order in which they come, each of them marked."""
    found = []
    while item := session.current:
        found.append(item.question.id)
        session.save(dict.fromkeys(CRITERIA, 75))
        session.next()
    return found


def number(session: LabelSession) -> int | str:
    assert session.current is not None
    return session.current.question.id


def test_people_and_judge_are_compared(tmp_path: Path) -> None:
    run = run_of(tmp_path / "logs", [80, 60, 40])
    for rater, offset in (("佐藤", 10), ("tanaka", -20)):
        session = LabelSession(run, rater, folder=tmp_path / "labels")
        while item := session.current:
            # The judge gave 80, 60 and 40 to questions 1, 2 and 3.
            session.save(dict.fromkeys(CRITERIA, 100 - 20 * int(item.question.id) + offset))
            session.next()
    scores, labels = load_scores(tmp_path / "logs"), load_labels(tmp_path / "labels")
    together = judge_agreement(scores, labels)
    assert set(together["n_raters"]) == {3}
    assert set(together["n_complete"]) == {3}
    for rater, bias in (("佐藤", -10), ("tanaka", 20)):
        beside = judge_vs_people(scores, labels[labels["rater"] == rater]).set_index("criterion")["bias"]
        assert beside["安全性"] == bias


def test_a_person_with_a_judges_name_is_not_averaged_with_it(tmp_path: Path) -> None:
    run = run_of(tmp_path / "logs", [80, 60])
    way(LabelSession(run, "unknown", folder=tmp_path / "labels"))
    with pytest.raises(ConfigError, match="unknown scores as a judge and in labels; rename"):
        judge_agreement(load_scores(tmp_path / "logs"), load_labels(tmp_path / "labels"))


def test_the_order_is_the_raters_own_and_not_the_files(tmp_path: Path) -> None:
    log = bare_log([80] * 8)
    run = run_of(tmp_path / "a", [80] * 8)
    random.Random(1).shuffle(log["results"])
    shuffled = run_of(tmp_path / "b", [80] * 8, results=log["results"])
    sato = way(LabelSession(run, "sato", folder=tmp_path / "1"))
    assert sorted(sato) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert way(LabelSession(shuffled, "sato", folder=tmp_path / "2")) == sato
    assert way(LabelSession(run, "tanaka", folder=tmp_path / "2")) != sato


def test_an_answer_that_was_judged_again_comes_once_with_both_judgements(tmp_path: Path) -> None:
    again, other = (bare_log([mark])["results"][0] for mark in (50, 60))
    again["judge_repeat"] = 1
    other["answer"], other["answer_repeat"] = "別の回答", 1
    run = run_of(tmp_path / "logs", [80], results=[*bare_log([80])["results"], again, other])
    session = LabelSession(run, "sato", folder=tmp_path)
    found = {}
    while item := session.current:
        session.save(dict.fromkeys(CRITERIA, 75))
        found[item.answer.answer] = [each.evaluation.average_score for each in session.judge_results]
        session.next()
    assert found == {"回答1\n二行目 文章": [80, 50], "別の回答": [60]}


def test_an_answer_without_text_does_not_come(tmp_path: Path) -> None:
    log = bare_log([80, None])
    log["results"][1]["answer"] = " "
    assert LabelSession(run_of(tmp_path / "logs", [80], results=log["results"]), "sato", folder=tmp_path).total == 1


def test_the_judges_marks_are_not_to_be_had_before_saving(tmp_path: Path) -> None:
    session = LabelSession(run_of(tmp_path / "logs", [81]), "sato", folder=tmp_path)
    assert session.judge_results == ()
    assert "81" not in repr(session.current)
    session.save(dict.fromkeys(CRITERIA, 75))
    assert [each.evaluation.average_score for each in session.judge_results] == [81]


def test_nothing_is_saved_before_all_criteria_have_a_mark(tmp_path: Path) -> None:
    session = LabelSession(run_of(tmp_path / "logs", [80]), "sato", folder=tmp_path / "labels")
    with pytest.raises(ConfigError, match="no score for 安全性, 簡潔性"):
        session.save({**dict.fromkeys(CRITERIA, 0), "安全性": None} | {"簡潔性": None})
    assert not (tmp_path / "labels").exists()
    assert session.judge_results == ()


def test_what_is_skipped_comes_again_at_the_end(tmp_path: Path) -> None:
    run = run_of(tmp_path / "logs", [80] * 4)
    order = way(LabelSession(run, "sato", folder=tmp_path / "whole"))
    session = LabelSession(run, "sato", folder=tmp_path)
    session.skip()
    assert way(session) == [*order[1:], order[0]]
    assert (session.done, session.total, session.current) == (4, 4, None)


def test_the_only_answer_that_is_left_can_be_skipped_and_stays(tmp_path: Path) -> None:
    session = LabelSession(run_of(tmp_path / "logs", [80]), "sato", folder=tmp_path)
    session.skip()
    assert number(session) == 1


def test_marks_can_be_corrected_and_are_then_not_blind(tmp_path: Path) -> None:
    run = run_of(tmp_path / "logs", [80] * 3)
    order = way(LabelSession(run, "sato", folder=tmp_path / "whole"))
    session = LabelSession(run, "sato", folder=tmp_path / "labels")
    session.save(dict.fromkeys(CRITERIA, 25), "初め")
    session.next()
    session.back()
    assert number(session) == order[0]
    assert session.label is not None
    assert (session.label.comment, session.label.blind) == ("初め", True)
    session.save(dict.fromkeys(CRITERIA, 50), "直した")
    session.next()
    assert number(session) == order[1]
    labels = load_labels(tmp_path / "labels")
    assert set(labels["score"]) == {50}
    assert set(labels["comment"]) == {"直した"}
    assert not labels["blind"].any()
    assert len((tmp_path / "labels" / "sato.jsonl").read_text("utf-8").splitlines()) == 2


def test_a_session_takes_up_where_the_rater_stopped(tmp_path: Path) -> None:
    run = run_of(tmp_path / "logs", [80] * 5)
    order = way(LabelSession(run, "sato", folder=tmp_path / "whole"))
    session = LabelSession(run, "sato", folder=tmp_path)
    session.save(dict.fromkeys(CRITERIA, 75))
    session.next()
    session.skip()
    session.save(dict.fromkeys(CRITERIA, 75))
    later = LabelSession(run, "sato", folder=tmp_path)
    assert (later.done, later.total) == (2, 5)
    later.back()
    assert number(later) == order[2]
    later.next()
    assert way(later) == [order[3], order[4], order[1]]
    assert LabelSession(run, "tanaka", folder=tmp_path).done == 0


def test_the_same_answer_in_another_run_is_done(tmp_path: Path) -> None:
    way(LabelSession(run_of(tmp_path / "a", [80, 60]), "sato", folder=tmp_path))
    session = LabelSession(run_of(tmp_path / "b", [10, 20, 30]), "sato", folder=tmp_path)
    assert (session.done, session.total) == (2, 3)
    assert number(session) == 3


def test_what_another_tab_saved_counts_as_seen(tmp_path: Path) -> None:
    run = run_of(tmp_path / "logs", [80, 60])
    first, second = (LabelSession(run, "sato", folder=tmp_path) for _ in range(2))
    way(first)
    second.save(dict.fromkeys(CRITERIA, 0))
    second.next()
    assert second.current is None
    assert read_rater(tmp_path / "sato.jsonl").scores.popitem()[1].blind is False  # type: ignore[attr-defined]


def test_lines_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    save(tmp_path, "sato", "oops")
    session = LabelSession(run_of(tmp_path / "logs", [80]), "sato", folder=tmp_path)
    assert "sato.jsonl: left out: line 1 (JSON is malformed" in session.problem
    session.save(dict.fromkeys(CRITERIA, 0))
    assert session.done == 1


@pytest.mark.parametrize(
    "other", ["佐藤 太郎", "佐藤\u3164太郎", "佐藤太郎\ufe0f", "佐藤太郎\u2800", "佐藤\u115f太郎", "佐藤太郎\ue000"]
)
def test_what_looks_like_one_name_is_one_person(other: str) -> None:
    assert same_raters(pd.DataFrame({"rater": ["佐藤太郎", other]}))["rater"].nunique() == 1
