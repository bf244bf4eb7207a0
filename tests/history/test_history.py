"""Runs and logs as frames: missing stays missing, the order is the specification's."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import sys
import tempfile
import time
import warnings
from dataclasses import fields
from datetime import date, datetime
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pandas as pd
import pytest
from conftest import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal
from support.service import CRITERIA, Reply, Service, judgement

from socjudge import (
    AssistantAnswer,
    ConfigError,
    EvalQuestion,
    Evaluation,
    EvaluationRun,
    RunOptions,
    load_results,
    load_run,
    load_runs,
    load_scores,
    plot_category_breakdown,
    run_evaluation_suite,
)
from socjudge.base.conditions import CONDITIONS, conditions_of
from socjudge.base.pass_rule import summarise_results
from socjudge.history import check_logs, reading
from socjudge.judge import save_evaluation_results
from socjudge.records import EvaluationResult, Flags, RunInfo, Usage
from socjudge.runs import logs as logs_module

DATA = ROOT / "tests" / "data"

mpl.use("agg")


def test_an_unscored_answer_is_missing_in_the_frames_and_counted_nowhere(
    service: Service, questions: list[EvalQuestion], tmp_path: Path
) -> None:
    answers = [AssistantAnswer(q.question, "回答", "抜粋") for q in questions]
    service.script = [Reply("読めない返事")] * 3
    run = run_evaluation_suite(
        questions,
        answers=answers,
        judge_model="gpt-4o-mini",
        logs_dir=tmp_path,
        progress=False,
        options=RunOptions(max_concurrency=1),
    )
    results, scores = run.results_frame(), run.scores_frame()
    assert list(results["status"]) == ["unparsable"] + ["ok"] * 9
    assert results["average_score"].isna().tolist() == [True] + [False] * 9
    assert results["average_score"].mean() == 80
    assert len(scores) == 60
    assert scores["score"].count() == 54
    assert list(scores["criterion"].cat.categories) == CRITERIA
    assert [*results["category"].cat.categories] == [*dict.fromkeys(q.category for q in questions)]


@pytest.mark.slow
def test_the_breakdown_shows_means_and_n_in_japanese_that_renders(
    service: Service, questions: list[EvalQuestion], tmp_path: Path
) -> None:
    answers = [AssistantAnswer(q.question, "回答", "抜粋") for q in questions]
    service.script = [Reply(judgement(dict(zip(CRITERIA, [0, 20, 40, 60, 80, 100], strict=True))))]
    run = run_evaluation_suite(
        questions,
        answers=answers,
        judge_model="gpt-4o-mini",
        logs_dir=tmp_path,
        progress=False,
        options=RunOptions(max_concurrency=1),
    )
    before = dict(mpl.rcParams)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a missing glyph is a warning
        ax = plot_category_breakdown(run.scores_frame())
        ax.figure.savefig(tmp_path / "chart.png")
    assert dict(mpl.rcParams) == before
    mpl.pyplot.close("all")
    cells = [text.get_text() for text in ax.texts]
    assert cells[:2] == ["60\nn=4", "65\nn=4"]  # (0 + 80 + 80 + 80) / 4 and (20 + 240) / 4
    assert [label.get_text() for label in ax.get_xticklabels()] == CRITERIA


def test_a_run_without_any_score_cannot_be_charted(service: Service, tmp_path: Path) -> None:
    service.default = "読めない返事"
    question = EvalQuestion(1, "正常系", "q", ("k",))
    run = run_evaluation_suite(
        [question], answers=[AssistantAnswer("", "a")], judge_model="gpt-4o-mini", logs_dir=tmp_path, progress=False
    )
    with pytest.raises(ValueError, match="no row has a score"):
        plot_category_breakdown(run.scores_frame())


# -- logs as frames

# Of the logs in tests/data/logs, by their date: judged answers and those among them without a mark; None: left out.
KEPT = {
    "20240105": (5, 0),
    "20240212": (5, 0),  # one line, its Japanese escaped
    "20240301": (5, 1),  # six zeros without a reason
    "20240315": (5, 0),  # an average that is not the mean
    "20240402": (5, 0),  # a summary that passes what did not
    "20240420": None,  # a score of 110
    "20240505": (5, 0),  # five criteria in one answer
    "20240518": None,  # a question twice
    "20240601": None,  # cut off
    "20240610": (5, 0),  # packed
    "20240704": (5, 1),  # a byte order mark, and NaN for a score
}


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A copy of the eleven logs of the specification's format."""
    return Path(shutil.copytree(DATA / "logs", tmp_path / "logs", ignore=shutil.ignore_patterns(".*")))


def test_old_logs_load_as_documented(logs: Path) -> None:
    with pytest.warns(UserWarning, match="3 of 11 logs are left out.*check_logs"):
        runs = load_runs(logs)
    counts = {log[11:19]: (n, unscored) for log, n, unscored in runs[["log", "n_results", "n_unscored"]].to_numpy()}
    assert counts == {date: found for date, found in KEPT.items() if found}
    assert list(runs["log"]) == sorted(runs["log"])
    assert set(runs["judge_model"]) == {"unknown"}
    for unknown in ("cost_usd", "calls", "wall_time_s", "k", "judge_repeats"):
        assert runs[unknown].isna().all(), unknown
    assert runs["run_id"].iloc[0] == "judge_eval_20240105_093000"


def test_the_scores_of_old_logs_are_missing_where_they_were_not_read(logs: Path) -> None:
    with pytest.warns(UserWarning, match="left out"):
        scores = load_scores(logs, text=True)
    assert len(scores) == 8 * 5 * 6
    unread = scores[scores["score"].isna()]
    assert unread.groupby(["log", "question_id"], observed=True).size().to_dict() == {
        ("judge_eval_20240301_120000.json", 2): 6,
        ("judge_eval_20240505_090000.json", 1): 1,
        ("judge_eval_20240704_090000.json", 1): 6,
    }
    assert set(unread["status"]) == {"suspect_zero", "unparsable", "ok"}
    assert unread[unread["status"] != "ok"]["passed"].isna().all()
    # The mean over the rest of that log: (5 answers - the unread one) of 85, 85, 90, … would fall by zeros.
    assert scores.loc[scores["log"] == "judge_eval_20240301_120000.json", "score"].min() > 0


@pytest.mark.parametrize("date", [date for date, found in KEPT.items() if found])
@pytest.mark.parametrize("text", [False, True])
def test_many_logs_at_once_read_as_each_alone(logs: Path, date: str, text: bool) -> None:
    (path,) = logs.glob(f"judge_eval_{date}_*")
    for other in logs.glob("judge_eval_*"):
        if other != path:
            other.unlink()
    run = load_run(path)
    for loaded, alone in (
        (load_results(logs, text=text), run.results_frame()),
        (load_scores(logs, text=text), run.scores_frame()),
    ):
        assert_frame_equal(loaded, alone[loaded.columns], check_categorical=False)
        assert text == (list(loaded.columns) == list(alone.columns))


TEXTS = st.text(max_size=20)
MARKS = st.builds(
    lambda points, status, texts, seconds, cost: Evaluation(
        scores=dict(zip(CRITERIA, points if status == "ok" else [0] * 6, strict=True)),
        average_score=sum(points) / 6 if status == "ok" else 0.0,
        rationale=dict.fromkeys(CRITERIA, texts[0]), overall_comment=texts[1], passed=sum(points) >= 420,
        processing_time=seconds, status=status, model=texts[2], usage=Usage(1, 2, 3, cost), error=texts[3],
    ),
    st.lists(st.integers(0, 100), min_size=6, max_size=6), st.sampled_from(["ok", "unparsable", "failed"]),
    st.lists(TEXTS, min_size=4, max_size=4), st.floats(0, 1e6), st.none() | st.floats(0, 10),
)  # fmt: skip
RESULTS = st.builds(
    lambda number, text, texts, marks, repeat, flags: EvaluationResult(
        EvalQuestion(number if text is None else text, texts[0], texts[1], (texts[2],)),
        AssistantAnswer(texts[1], texts[3], texts[4], flags=Flags(*flags)), marks, repeat, repeat,
    ),
    st.integers(-5, 2**40), st.none() | TEXTS, st.lists(TEXTS, min_size=5, max_size=5), MARKS, st.integers(0, 3),
    st.tuples(st.booleans(), st.booleans(), st.booleans()),
)  # fmt: skip


@pytest.mark.slow
@settings(max_examples=60)
@given(st.lists(RESULTS, max_size=4, unique_by=lambda each: (str(each.question.id), each.answer_repeat)))
def test_what_was_saved_is_loaded(results: list[EvaluationResult]) -> None:
    started = "2026-01-02T03:04:05+09:00"
    run = EvaluationRun(tuple(results), summarise_results(results), RunInfo("r", started, judge_model="m"))
    with tempfile.TemporaryDirectory() as folder:
        path = save_evaluation_results(run, folder)
        kept = load_run(path)
        for loaded, alone in (
            (load_results(folder, text=True), kept.results_frame()),
            (load_scores(folder, text=True), kept.scores_frame()),
        ):
            assert_frame_equal(loaded, alone, check_categorical=False)
        if results:
            assert load_scores(folder)["started_at"].dt.tz_convert("Asia/Tokyo").iloc[0].isoformat() == started


def test_frames_have_the_documented_types(logs: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    documented = documented_columns()
    for folder in (logs, tmp_path / "empty"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            frames = {
                "runs": load_runs(folder),
                "results": load_results(folder, text=True),
                "scores": load_scores(folder, text=True),
            }
        for name, frame in frames.items():
            assert set(frame.columns) == set(documented[name])
            for column, kind in documented[name].items():
                found = str(frame[column].dtype)
                expected = kind.replace("datetime, UTC", "datetime64[us, UTC]").replace("category, ordered", "category")
                assert found in expected.split(", or ") or (kind == "str" and found == "object"), (name, column, found)
                if kind == "category, ordered":
                    assert frame[column].cat.ordered


def documented_columns() -> dict[str, dict[str, str]]:
    """The tables of docs/frames.md: frame -> column -> type."""
    found: dict[str, dict[str, str]] = {}
    section = ""
    for line in (ROOT / "docs" / "frames.md").read_text("utf-8").splitlines():
        if line.startswith("## "):
            section = line
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `") and len(cells) == 3:
            for name in re.findall(r"`(\w+)`", cells[0]):
                kind = "str" if cells[1].startswith("str") else cells[1]
                found.setdefault(section, {})[name] = kind
    shared, runs, results, scores, *_ = found.values()  # and the people's marks, see test_labels
    same = [
        "question_id",
        "category",
        "answer_repeat",
        "judge_repeat",
        "status",
        "passed",
        "answer_sha256",
        "processing_time",
        "cost_usd",
    ]
    return {
        "runs": shared | runs,
        "results": shared | results,
        "scores": shared | {n: results[n] for n in same} | scores,
    }


# -- what was read is remembered


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the logs that are read, as they are."""
    names: list[str] = []
    load = reading.load_log

    def counted(path: Path) -> bytes:
        names.append(path.name)
        return load(path)

    monkeypatch.setattr(reading, "load_log", counted)
    return names


@pytest.fixture
def three(logs: Path) -> Path:
    """Three logs without a fault, as old as their names."""
    for path in logs.glob("judge_eval_*"):
        if path.name[11:19] not in ("20240105", "20240212", "20240610"):
            path.unlink()
        else:
            written = datetime.strptime(path.name[11:26], "%Y%m%d_%H%M%S").timestamp()
            os.utime(path, (written, written))
    return logs


def test_only_what_changed_is_read_again(three: Path, reads: list[str]) -> None:
    first = load_scores(three)
    assert len(reads) == 3
    assert_frame_equal(load_scores(three), first)
    assert len(load_runs(three)) == 3
    assert len(reads) == 3

    log = three / "judge_eval_20240105_093000.json"
    value = json.loads(log.read_text("utf-8"))
    value["results"][0]["evaluation"]["scores"]["安全性"] = 1
    log.write_text(json.dumps(value, ensure_ascii=False), "utf-8")
    changed = load_scores(three)
    assert reads[3:] == [log.name]
    assert sorted(changed["score"])[0] == 1
    reading._remembered.cache_clear()
    assert_frame_equal(changed, load_scores(three))
    assert [path.name for path in three.iterdir() if not path.name.startswith("judge_eval_")] == ["README.md"]


def test_a_log_that_is_gone_is_gone_from_the_frames(three: Path) -> None:
    assert len(load_runs(three)) == 3
    (three / "judge_eval_20240212_181500.json").unlink()
    assert list(load_runs(three)["log"].str[11:19]) == ["20240105", "20240610"]
    assert len(load_results(three)) == 10


def test_a_log_of_the_same_size_and_time_of_change_is_still_seen_to_have_changed(three: Path) -> None:
    load_runs(three)
    log = three / "judge_eval_20240105_093000.json"
    before, text = log.stat(), log.read_text("utf-8")
    log.write_text(text.replace('"mvp_passed": true', '"mvp_passed":false'), "utf-8")
    os.utime(log, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert log.stat().st_size == before.st_size
    assert not load_runs(three)["mvp_passed"][0]


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="the system takes no such name")
def test_a_folder_whose_name_is_no_utf8_is_read_all_the_same(three: Path, tmp_path: Path, reads: list[str]) -> None:
    folder = tmp_path / os.fsdecode(b"log\xff")  # also how a Japanese name looks with LC_ALL=C
    three.rename(folder)
    assert len(load_scores(folder)) == len(load_scores(folder)) == 90
    assert len(reads) == 3


# -- filters


def test_an_answer_that_was_cut_is_told_in_the_frame_and_where_nobody_said_it_is_missing(tmp_path: Path) -> None:
    marks = Evaluation(dict.fromkeys(CRITERIA, 80), 80.0, {}, "", True, 1.0)
    results = [
        EvaluationResult(EvalQuestion(place, "正常系", "q", ()), AssistantAnswer("q", "a", truncated=said), marks)
        for place, said in enumerate((True, False, None))
    ]
    run = EvaluationRun(tuple(results), summarise_results(results), RunInfo("r", "2026-01-02T03:04:05+09:00"))
    path = save_evaluation_results(run, tmp_path)
    for frame in (load_results(tmp_path), load_run(path).results_frame()):
        assert frame["truncated"].tolist() == [True, False, pd.NA]


def test_what_is_known_of_a_run_is_a_condition_or_known_to_be_none() -> None:
    """A new field of RunInfo has to be put into one of the two."""
    none = {"run_id", "started_at", "finished_at", "rejudged_from", "assistant_usage", "judge_usage"}
    none |= {"wall_time_s", "sessions", "schema_version", "most_usd"}
    none |= {"rubric", "judge_prompt_text"}  # its criteria, line and rate, and its hash, are
    none |= {"project"}  # what of them decides is
    none |= {"judges_asked", "asked"}  # of one of several judges, and of a part, there is no verdict
    none |= {"questions_sha256", "answers_sha256", "embedder"}  # dataset, assistant and index say them in words
    none |= {"embedded_judge", "embedded_assistant", "only_failed_of"}  # the model that answered, rejudged_from
    columns = {each.column for each in CONDITIONS} - {"criteria"}
    renamed = {"prompt_id": "judge_prompt_id", "prompt_sha256": "judge_prompt_sha256"}
    assert {renamed.get(name, name) for name in columns} == {field.name for field in fields(RunInfo)} - none


def test_every_frame_tells_all_conditions_of_its_runs(service: Service, tmp_path: Path) -> None:
    answers = [AssistantAnswer("q", "回答")]
    run_evaluation_suite(
        [EvalQuestion(1, "正常系", "q", ("k",))], answers=answers, judge_model="gpt-4o-mini", logs_dir=tmp_path,
        judge_repeats=2, progress=False,
    )  # fmt: skip
    told = [conditions_of(load(tmp_path)) for load in (load_runs, load_results, load_scores)]
    assert told[0] == told[1] == told[2]
    (conditions,) = told[0].values()
    assert conditions["criteria"] == "、".join(CRITERIA)
    assert (conditions["judge_repeats"], conditions["pass_threshold"], conditions["mode"]) == ("2", "70", "live")
    assert conditions["judge_service"] == service.base_url.rstrip("/")


def test_since_is_a_time_or_a_day_in_this_machines_zone(three: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert list(load_runs(three, since="2024-02-12")["log"].str[11:19]) == ["20240212", "20240610"]
        assert len(load_runs(three, since="2024-02-12 18:15")) == 2
        assert len(load_runs(three, since=datetime(2024, 2, 12, 18, 16))) == 1
        assert len(load_runs(three, since="2024-02-12T09:16:00+00:00")) == 1
        assert len(load_runs(three, since=date(2024, 6, 11))) == 0
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_time_that_is_none_is_refused(three: Path) -> None:
    with pytest.raises(ConfigError, match="since is 'yesterday', expected a time such as"):
        load_runs(three, since="yesterday")


# -- what goes wrong


def test_a_second_log_of_a_run_is_left_out(three: Path) -> None:
    shutil.copy(three / "judge_eval_20240610_090000.json.gz", three / "judge_eval_20240610_090000 (1).json.gz")
    plain = gzip.decompress((three / "judge_eval_20240610_090000.json.gz").read_bytes())
    (three / "judge_eval_20240610_090000.json").write_bytes(plain)  # the same bare name: the same run
    with pytest.warns(UserWarning, match="1 of 5 logs are left out"):
        runs = load_runs(three)
    assert list(runs["run_id"]).count("judge_eval_20240610_090000") == 1


def test_no_folder_is_an_error_and_an_empty_one_is_not(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nowhere: no such folder"):
        load_scores(tmp_path / "nowhere")
    assert load_scores(tmp_path).empty


def test_a_packed_log_that_is_cut_or_a_bomb_is_left_out(three: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = three / "judge_eval_20240610_090000.json.gz"
    packed.write_bytes(packed.read_bytes()[:-20])
    with pytest.warns(UserWarning, match="1 of 3 logs"):
        assert len(load_runs(three)) == 2
    with pytest.raises(ConfigError, match="not a whole gzip file"):
        load_run(packed)
    packed.write_bytes(gzip.compress(b" " * 10_000))
    monkeypatch.setattr(logs_module, "MAX_UNPACKED", 9_999)
    with pytest.raises(ConfigError, match="more than 9,999 bytes when unpacked"):
        load_run(packed)


@pytest.mark.slow
@settings(max_examples=150)
@given(
    path=st.sampled_from(
        [
            ("question_id",), ("category",), ("flags",), ("flags", "ambiguous_query"), ("evaluation",),
            ("evaluation", "scores"), ("evaluation", "scores", "安全性"), ("evaluation", "average_score"),
            ("evaluation", "passed"), ("evaluation", "processing_time"), ("evaluation", "status"),
            ("evaluation", "usage"), ("evaluation", "usage", "cost_usd"), ("evaluation", "model"),
            ("answer_repeat",), ("judge_repeat",),
        ]
    ),
    value=st.none() | st.booleans() | st.integers(-5, 200) | st.floats() | st.text(max_size=3)
    | st.just({}) | st.just([]) | st.just("unparsable") | st.just("DROP"),
)  # fmt: skip
def test_a_damaged_value_is_judged_alike_in_a_run_and_in_the_history(path: tuple[str, ...], value: Any) -> None:
    log = json.loads((DATA / "logs" / "judge_eval_20240105_093000.json").read_text("utf-8"))
    row = log["results"][1]
    row["evaluation"] |= {"status": "ok", "usage": {"cost_usd": 0.1}, "model": "m"}
    row |= {"answer_repeat": 0, "judge_repeat": 0}
    *parents, last = path
    for name in parents:
        row = row[name]
    if value == "DROP":
        row.pop(last, None)
    else:
        row[last] = value
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "judge_eval_20240105_093000.json"
        file.write_text(json.dumps(log, ensure_ascii=False), "utf-8")
        try:
            right = load_run(file).scores_frame()
        except ConfigError:
            with pytest.warns(UserWarning, match="1 of 1 logs are left out"):
                assert load_scores(folder).empty
        else:
            loaded = load_scores(folder)
            assert_frame_equal(loaded, right[loaded.columns], check_categorical=False)


@pytest.mark.parametrize("damage", [("overall_comment", None), ("rationale", {"安全性": 3})])
@pytest.mark.parametrize("text", [False, True])
def test_a_log_whose_texts_are_damaged_is_left_out_with_a_warning(
    three: Path, damage: tuple[str, Any], text: bool
) -> None:
    edit(three, lambda row: row["evaluation"].update([damage]))
    with pytest.warns(UserWarning, match="1 of 3 logs are left out"):
        assert len(load_results(three, text=text)) == 10


def test_a_log_of_more_criteria_than_a_report_can_show_is_left_out_and_says_so(three: Path) -> None:
    many = {f"観点{number}": 80 for number in range(3000)}
    edit(three, lambda row: row["evaluation"].update(scores=many))
    with pytest.warns(UserWarning, match="1 of 3 logs are left out"):
        assert len(load_results(three)) == 10
    assert check_logs(three)["what"].str.contains("there are 3000 criteria; keep to 50 at most").any()


def edit(folder: Path, change: Any, name: str = "judge_eval_20240105_093000.json") -> None:
    """Change the first row of a log."""
    value = json.loads((folder / name).read_text("utf-8"))
    change(value["results"][0])
    (folder / name).write_text(json.dumps(value, ensure_ascii=False), "utf-8")


def test_an_answer_without_its_hash_is_known_by_it_however_the_log_is_spelt(samples: Path) -> None:
    log = min(samples.glob("*.json"))
    value = json.loads(log.read_text("utf-8"))
    for row in value["results"]:
        row["context"] += "<a>"
        del row["answer_sha256"]
    log.write_text(json.dumps(value).replace("<", "\\u003c"), "ascii")
    whole = load_results(samples, text=True)
    assert load_results(samples)["answer_sha256"].tolist() == whole["answer_sha256"].tolist()
    alone = whole[whole["log"] == log.name]
    assert load_run(log).results_frame()["answer_sha256"].tolist() == alone["answer_sha256"].tolist()


def test_a_context_that_comes_again_is_looked_at_again_where_it_differs(samples: Path) -> None:
    value = json.loads(min(samples.glob("*.json")).read_text("utf-8"))
    for row in value["results"]:
        row["context"] += "C:\\users <a/>"
        del row["answer_sha256"]
    plain = json.dumps({"results": value["results"], "summary": value["summary"]}, ensure_ascii=False)
    spelt = [plain, plain.replace("<", "\\u003c"), plain.replace("/>", "\\/>"), plain]
    for day, text in enumerate(spelt, start=1):
        (samples / f"judge_eval_2023010{day}_000000.json").write_text(text, "utf-8")
    (samples / "judge_eval_20230105_000000.json").write_bytes(plain.encode().replace(b"<a/>", b"\xed\xa0\x80"))
    found, whole = (load_results(samples, text=text) for text in (False, True))
    assert found["answer_sha256"].tolist() == whole["answer_sha256"].tolist()
    assert found[found["log"].str.startswith("judge_eval_202301")]["answer_sha256"].nunique() == 20


@pytest.mark.parametrize("value", [3, None, ["a"]])
@pytest.mark.parametrize("name", ["answer", "context"])
def test_a_log_without_hashes_whose_text_is_no_text_is_left_out(three: Path, name: str, value: object) -> None:
    edit(three, lambda row: row.update({name: value}))
    with pytest.warns(UserWarning, match="1 of 3 logs are left out"):
        assert len(load_scores(three)) == 60


def test_a_byte_that_is_no_utf8_costs_its_log_and_not_the_others(three: Path) -> None:
    log = three / "judge_eval_20240105_093000.json"
    log.write_bytes(log.read_bytes().replace("端末".encode(), b"\xff", 1))
    with pytest.warns(UserWarning, match="1 of 3 logs are left out"):
        assert len(load_scores(three, text=True)) == 60


@pytest.mark.parametrize("name", ["question_id", "answer_repeat", "judge_repeat"])
def test_a_number_beyond_64_bits_costs_its_log_and_not_the_others(three: Path, name: str) -> None:
    edit(three, lambda row: row.update({name: 2**63}))
    with pytest.warns(UserWarning, match="1 of 3 logs are left out"):
        assert len(load_scores(three)) == 60


@pytest.mark.parametrize("depth", [900, 2_000, 100_000])
def test_a_log_that_is_nested_deeply_costs_at_most_itself(three: Path, depth: int) -> None:
    log = three / "judge_eval_20240212_181500.json"
    raw = log.read_bytes()
    log.write_bytes(raw[: raw.rindex(b"}")] + b', "x": ' + b"[" * depth + b"]" * depth + b"}")
    if depth < 1000:
        assert len(load_runs(three)) == 3
        return
    with pytest.warns(UserWarning, match="1 of 3 logs are left out"):
        assert len(load_runs(three)) == 2
    assert "not valid JSON" in check_logs(three)["what"][0]


def test_a_pipe_with_the_name_of_a_log_is_named_and_waited_for_by_nobody(three: Path) -> None:
    os.mkfifo(three / "judge_eval_20240301_000000.json")
    with pytest.warns(UserWarning, match="1 of 4 logs are left out"):
        assert len(load_runs(three)) == 3
    assert "it is no regular file" in check_logs(three)["what"][0]
    with pytest.raises(ConfigError, match="it is no regular file"):
        load_run(three / "judge_eval_20240301_000000.json")


def test_a_read_error_that_passes_is_not_remembered(three: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(path: Path) -> bytes:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(reading, "load_log", failing)
        with pytest.warns(UserWarning, match="3 of 3 logs are left out"):
            assert load_runs(three).empty
    assert len(load_runs(three)) == 3


def test_a_link_to_nowhere_is_one_log_that_cannot_be_read(three: Path) -> None:
    (three / "judge_eval_20250101_000000.json").symlink_to(three / "nowhere")
    with pytest.warns(UserWarning, match="1 of 4 logs are left out"):
        assert len(load_runs(three)) == 3


def test_a_time_without_a_zone_is_read_in_the_zone_of_today(three: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        for zone, hour in (("Asia/Tokyo", 0), ("UTC", 9)):
            monkeypatch.setenv("TZ", zone)
            time.tzset()
            assert load_runs(three)["started_at"].iloc[0] == pd.Timestamp(f"2024-01-05 0{hour}:30", tz="UTC")
    finally:
        monkeypatch.undo()
        time.tzset()


def test_an_answer_has_one_hash_however_its_log_escapes_it(three: Path) -> None:
    log = three / "judge_eval_20240105_093000.json"
    right = load_results(three)["answer_sha256"].astype(str).tolist()
    log.write_text(log.read_text("utf-8").replace("SOC", "\\u0053OC").replace("[malware", "\\u005bmalware"), "utf-8")
    for text in (False, True):
        assert load_results(three, text=text)["answer_sha256"].astype(str).tolist() == right
