"""Files that other tools wrote: every value as the tool has it, what is missing stays missing, and what is odd is told by its place."""

from __future__ import annotations

import json
import math
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from service import Service
from typer.testing import CliRunner

import socjudge as sj
from socjudge.cli.app import app
from socjudge.history.imports.importing import import_runs
from socjudge.stats.quick_check import check_judge, check_text

DATA = Path(__file__).resolve().parents[1] / "data" / "imports"
FILES = [
    "inspect.eval",
    "inspect.json",
    "promptfoo.json",
    "promptfoo.jsonl",
    "deepeval_run.json",
    "deepeval_wrapped.json",
]
WIDE = pd.DataFrame(
    {
        "question_id": [1, 2, 3], "question": ["問1", "問2", "問3"], "answer": ["答1", "答2", "答3"],
        "正確性": [5, 3, 1], "安全性": [4, None, 2],
    }
)  # fmt: skip
MARKS = {"marks": ["正確性", "安全性"]}
TEXTS = pd.DataFrame({"user_input": ["問1", "問2"], "response": ["答1", "答2"]})
TABLES = {  # and what the command is told of them
    "wide.csv": (WIDE, ["--mark", "正確性", "--mark", "安全性", "--scale", "1,5"]),
    "wide.parquet": (WIDE, ["--mark", "正確性", "--scale", "1,5"]),
    "wide.xlsx": (WIDE, ["--mark", "正確性", "--scale", "1,5"]),
    "ragas.jsonl": (TEXTS.assign(正確性=[0.5, 1.0]), []),
    "langsmith.csv": (
        pd.DataFrame({"inputs.question": ["a", "b"], "outputs.answer": ["A", "B"], "feedback.正確性": [1, 0]}), []
    ),
    "langfuse.csv": (
        pd.DataFrame({"traceId": ["t", "u"], "name": ["安全性"] * 2, "value": [1, 0], "output": ["A", "B"]}), []
    ),
}  # fmt: skip


def scores(name: str) -> dict[tuple[Any, ...], float | None]:
    frame = sj.history.import_results(DATA / name)
    keys = ["assistant_model", "question_id", "answer_repeat", "criterion"]
    marks = [None if pd.isna(mark) else mark for mark in frame["score"]]
    return dict(zip(frame[keys].itertuples(index=False, name=None), marks, strict=True))


@pytest.mark.parametrize("name", ["inspect.eval", "inspect.json"])
def test_inspects_marks_are_those_of_its_samples(name: str) -> None:
    expected: dict[tuple[Any, ...], float | None] = {}
    for sample in json.loads((DATA / "inspect.json").read_text("utf-8"))["samples"]:
        at = "mockllm/model", sample["id"], sample["epoch"] - 1
        value = sample["scores"]["rubric"]["value"]
        for criterion in ("正確性", "安全性"):
            expected[(*at, criterion)] = 100 * value[criterion] if isinstance(value, dict) else None
        expected[(*at, "verdict")] = {"C": 100, "I": 0}[sample["scores"]["verdict"]["value"]]
    assert scores(name) == pytest.approx(expected, nan_ok=True)


def test_inspects_reason_is_why_a_mark_is_missing() -> None:
    (run,) = import_runs(DATA / "inspect.json")
    (partly,) = [result.evaluation for result in run.results if result.evaluation.missing]
    assert partly.missing == {"正確性": "grader_failed", "安全性": "grader_failed"} and partly.scores["verdict"] == 0


@pytest.mark.parametrize("name", ["promptfoo.json", "promptfoo.jsonl"])
def test_promptfoos_named_scores_are_criteria_and_its_errors_are_no_failures(name: str) -> None:
    expected: dict[tuple[Any, ...], float | None] = {}
    for result in json.loads((DATA / "promptfoo.json").read_text("utf-8"))["results"]["results"]:
        at = result["provider"]["label"], result["testIdx"] + 1, 0
        named = result["namedScores"] or {"score": result["score"]}
        if result["failureReason"] == 2:
            named = dict.fromkeys(("網羅性", "簡潔性"))
        expected |= {(*at, name): None if mark is None else 100 * mark for name, mark in named.items()}
    assert scores(name) == pytest.approx(expected)
    broken, ours = import_runs(DATA / name)
    failed = [result.evaluation for result in broken.results if result.evaluation.status == "failed"]
    assert [each.error for each in failed] == ["HTTP 503 service unavailable"] and broken.summary.n_unscored == 1
    assert ours.summary.n_unscored == 0


@pytest.mark.parametrize("name", ["deepeval_run.json", "deepeval_wrapped.json"])
def test_deepevals_metric_with_an_error_is_no_mark(name: str) -> None:
    cases = json.loads((DATA / "deepeval_run.json").read_text("utf-8"))["testCases"]
    expected = {
        ("DeepEval", number, 0, metric["name"]): None if "error" in metric else 100 * metric["score"]
        for number, case in enumerate(cases, start=1)
        for metric in case["metricsData"]
    }
    assert scores(name) == pytest.approx(expected)
    (run,) = import_runs(DATA / name)
    assert run.results[2].evaluation.missing == {"安全性": "TimeoutError: judge timeout"}


def test_a_folder_of_deepeval_is_its_last_whole_run(tmp_path: Path) -> None:
    (tmp_path / ".deepeval").mkdir()
    shutil.copy(DATA / "deepeval_run.json", tmp_path / ".deepeval" / ".latest_run_full.json")
    assert len(sj.history.import_results(tmp_path)) == 6


def file_of(name: str, folder: Path) -> tuple[Path, list[str]]:
    """The file, and what the command has to be told of it."""
    if name not in TABLES:
        return DATA / name, []
    table, told = TABLES[name]
    path, kind = folder / name, name.split(".")[1]
    write: dict[str, Any] = {
        "csv": lambda: table.to_csv(path, index=False), "parquet": lambda: table.to_parquet(path),
        "xlsx": lambda: table.to_excel(path, index=False),
        "jsonl": lambda: table.to_json(path, orient="records", lines=True, force_ascii=False),
    }  # fmt: skip
    write[kind]()
    return path, told


@pytest.mark.slow
@pytest.mark.parametrize("name", [*FILES, *TABLES])
def test_an_imported_file_goes_through_all_views_and_is_judged_again(
    name: str, tmp_path: Path, service: Service
) -> None:
    logs, (path, told) = tmp_path / "logs", file_of(name, tmp_path)
    command = ["import", str(path), *told, "--logs-dir", str(logs)]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    runs, frame = sj.load_runs(logs), sj.load_scores(logs, text=True)
    assert not sj.summarise_scores(frame).empty
    run = sj.load_run(logs / runs["log"].iloc[0])
    assert sj.stats.gate_confidence(run.results_frame())["verdict"].notna().all()
    page = sj.write_report(tmp_path / "page.html", run).read_text("utf-8")
    assert all(criterion in page for criterion in run.rubric.criteria)
    again = sj.rejudge(run, judge_model="gpt-4o-mini", logs_dir=logs, progress=False)
    assert again.info.rejudged_from == run.run.run_id
    both = sj.load_scores(logs)
    both = both[both["assistant_model"] == run.run.assistant_model]
    common = [name for name in run.rubric.criteria if name in sj.Rubric().criteria]
    compared = sj.compare_judges(both[both["criterion"].isin(common)], baseline=run.judge_model)
    assert (compared["n"] > 0).all() and set(common) <= set(compared["criterion"])
    assert CliRunner().invoke(app, command).exit_code == 0
    with pytest.warns(UserWarning, match="left out|was read|runs"):
        assert set(sj.load_runs(logs)["run_id"]) == {*runs["run_id"], again.info.run_id}  # the same is the same run


# -- tables


@pytest.mark.parametrize("kind", ["frame", "csv", "cp932", "bom", "jsonl", "parquet", "xlsx"])
def test_a_table_is_read_alike_in_every_form(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"table.{'csv' if kind in ('cp932', 'bom') else kind}"
    if kind == "jsonl":
        WIDE.to_json(path, orient="records", lines=True, force_ascii=False)
    elif kind == "parquet":
        WIDE.to_parquet(path)
    elif kind == "xlsx":
        WIDE.to_excel(path, index=False)
    else:
        encoding = {"cp932": "cp932", "bom": "utf-8-sig"}.get(kind, "utf-8")
        WIDE.to_csv(path, index=False, encoding=encoding)
    frame = sj.history.import_results(WIDE if kind == "frame" else path, columns=MARKS, scale=(1, 5))
    assert frame["score"].fillna(-1).tolist() == [100, 75, 50, -1, 0, 25]
    assert frame["question"].tolist() == ["問1", "問1", "問2", "問2", "問3", "問3"]


def test_what_our_own_frames_export_comes_back_the_same(samples: Path, tmp_path: Path) -> None:
    ours = sj.load_scores(samples)
    ours.to_csv(tmp_path / "scores.csv", index=False)
    back = sj.history.import_results(tmp_path / "scores.csv")
    assert sorted(back["score"].dropna()) == sorted(ours["score"].dropna().astype(float))
    assert set(back["criterion"]) == set(ours["criterion"]) and set(back["judge_model"]) == set(ours["judge_model"])


def test_columns_of_ragas_langsmith_and_langfuse_are_known() -> None:
    ragas = pd.DataFrame(
        {"user_input": ["a"], "response": ["A"], "retrieved_contexts": [["c1", "c2"]], "faithfulness": [0.5]}
    )
    frame = sj.history.import_results(ragas)
    assert frame[["criterion", "score", "context"]].values.tolist() == [["faithfulness", 50, "c1\n\nc2"]]
    langsmith = pd.DataFrame(
        {
            "inputs.question": ["a", "b"],
            "outputs.answer": ["A", "B"],
            "feedback.correct": [1, 0],
            "example_id": ["x", "y"],
        }
    )
    assert sj.history.import_results(langsmith)["score"].tolist() == [100, 0]
    langfuse = pd.DataFrame(
        {
            "traceId": ["t", "t", "u"],
            "name": ["安全性", "正確性", "安全性"],
            "value": [1, 0, 1],
            "comment": ["x", "", "y"],
        }
    )
    assert sj.history.import_results(langfuse)["score"].isna().sum() == 1  # of the other trace nobody marked 正確性


@pytest.mark.parametrize(
    ("table", "how", "told"),
    [
        (WIDE, {"columns": MARKS}, "on what scale.*正確性"),
        (WIDE, {"columns": MARKS, "scale": 4}, r"正確性, 2: the mark 5 lies outside of 0–4"),
        (WIDE, {"columns": {"marks": ["無い列"]}, "scale": 5}, "no such columns: 無い列"),
        (WIDE, {"columns": {**MARKS, "qustion": "question"}, "scale": 5}, "qustion"),
        (WIDE, {"scale": 5}, "which columns are marks"),
        (WIDE.drop(columns=["question_id", "question"]), {"columns": MARKS, "scale": 5}, "tells questions apart"),
        (WIDE.assign(安全性=["良い", "悪い", "良い"]), {"columns": MARKS, "scale": 5}, "安全性, 2: 良い is neither"),
        (WIDE[:0], {"columns": MARKS, "scale": 5}, "not one result"),
        (WIDE, {"columns": MARKS, "scale": (5, 1)}, "scale is"),
        (
            pd.DataFrame({"question_id": [1, 1], "criterion": ["安全性"] * 2, "score": [1, 0]}), {},
            "stands there twice.*1, 安全性",
        ),
    ],
)  # fmt: skip
def test_a_table_that_cannot_be_read_beyond_doubt_is_refused_by_its_place(
    table: pd.DataFrame, how: dict[str, Any], told: str
) -> None:
    with pytest.raises(sj.ConfigError, match=told):
        sj.history.import_results(table, **how)


def test_rows_of_one_question_are_repeats_and_that_is_said() -> None:
    twice = pd.concat([WIDE, WIDE])
    with pytest.warns(UserWarning, match="3 rows count as repeats"):
        frame = sj.history.import_results(twice, columns=MARKS, scale=(1, 5))
    assert frame.groupby("question_id")["answer_repeat"].nunique().eq(2).all()


@pytest.mark.slow
@given(st.lists(st.one_of(st.none(), st.floats(0, 1)), min_size=1, max_size=20))
def test_no_mark_is_invented_or_lost(marks: list[float | None]) -> None:
    table = pd.DataFrame({"question_id": range(len(marks)), "安全性": marks}, dtype=object)
    frame = sj.history.import_results(table, columns={"marks": ["安全性"]}, scale=1)
    found = [None if pd.isna(mark) else float(mark) for mark in frame["score"]]
    assert found == pytest.approx([None if mark is None else 100 * mark for mark in marks], abs=1e-5)


def test_several_judges_in_one_file_are_runs_of_their_own_and_that_is_said() -> None:
    mixed = WIDE.assign(judge=["gpt-4o", "o3", "gpt-4o"])
    with pytest.warns(
        UserWarning, match=r"2 judges marked in this file .first at: gpt-4o .DataFrame: 2., o3 .*: 3.*compare"
    ):
        runs = import_runs(mixed, columns=MARKS, scale=(1, 5))
    assert [run.judge_model for run in runs] == ["gpt-4o", "o3"]


def test_shares_beside_whole_points_are_told_as_two_scales_perhaps() -> None:
    with pytest.warns(
        UserWarning, match=r"正確性 has shares between 0 and 1 .2, the first, 0.8, in row 3. beside whole marks"
    ):
        sj.history.import_results(WIDE.assign(正確性=[4, 0.8, 0.9]), columns={"marks": ["正確性"]}, scale=5)
    for fine in ([4, 2, 1], [0.5, 1.5, 4], [0.25, 0.5, 1]):  # whole; steps of a half; shares alone
        sj.history.import_results(WIDE.assign(正確性=fine), columns={"marks": ["正確性"]}, scale=5)


def test_an_answer_that_stands_there_twice_is_told_with_both_places(tmp_path: Path) -> None:
    table = WIDE.assign(question_id=[1, 1, 2], answer_repeat=0)
    with pytest.raises(sj.ConfigError, match=r"DataFrame: 3: question 1 .* at DataFrame: 2 too"):
        sj.history.import_results(table, columns=MARKS, scale=(1, 5))
    document = json.loads((DATA / "inspect.json").read_text("utf-8"))
    document["samples"].append(document["samples"][0] | {"uuid": "another"})
    (tmp_path / "twice.json").write_text(json.dumps(document), "utf-8")
    with pytest.raises(sj.ConfigError, match="is marked under the same number"):
        sj.history.import_results(tmp_path / "twice.json")


def test_two_prompts_of_one_provider_are_two_assistants(tmp_path: Path) -> None:
    document = json.loads((DATA / "promptfoo.json").read_text("utf-8"))
    for result in document["results"]["results"]:
        result["provider"]["label"] = "bot"
    (tmp_path / "two.json").write_text(json.dumps(document), "utf-8")
    runs = import_runs(tmp_path / "two.json")
    assert [run.run.assistant_model for run in runs] == ["bot #1", "bot #2"] and runs[0].run.answer_repeats == 1


# -- files that are damaged, newer, or somebody else's


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("a.json", b"{", "cannot be imported"),
        ("a.json", b"{}", "which tool wrote it"),
        ("a.json", json.dumps({"results": {"version": 4, "results": []}}).encode(), "version 4"),
        ("a.json", json.dumps({"version": 9, "status": "success", "eval": {}, "samples": []}).encode(), "version 9"),
        ("a.json", json.dumps({"testRunLink": "https://example.invalid"}).encode(), "only a link"),
        ("a.json", (DATA / "promptfoo.json").read_bytes()[:5000], "cannot be imported"),
        ("a.eval", (DATA / "inspect.eval").read_bytes()[:9000], "cut short"),
        ("a.eval", b"no zip", "cut short"),
        ("a.csv", b"", "cannot be imported"),
        ("a.jsonl", b"\n", "not one result"),
        ("a.json", b"[" * 100_000, "cannot be imported"),
    ],
)
def test_a_file_that_is_none_is_told(name: str, content: bytes, told: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(sj.ConfigError, match=told) as caught:
        sj.history.import_results(path)
    assert str(path) in str(caught.value)


def test_what_is_whole_is_kept_of_lines_that_are_cut_short(tmp_path: Path) -> None:
    path = tmp_path / "cut.jsonl"
    path.write_bytes((DATA / "promptfoo.jsonl").read_bytes()[:-500])
    with pytest.warns(UserWarning, match="1 lines were left out, they cannot be read .first line 6"):
        assert len(import_runs(path)) == 2


def test_what_is_whole_is_kept_of_samples_that_are_damaged(tmp_path: Path) -> None:
    path, names = tmp_path / "damaged.eval", []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        document = json.loads((DATA / "inspect.json").read_text("utf-8"))
        for sample in document.pop("samples"):
            names.append(f"samples/{sample['id']}_epoch_{sample['epoch']}.json")
            archive.writestr(names[-1], json.dumps(sample) if len(names) > 1 else "{")
        archive.writestr("header.json", json.dumps(document))
    with pytest.warns(UserWarning, match=r"samples/\w+_epoch_1.json: left out"):
        (run,) = import_runs(path)
    assert len(run.results) == 5


def test_a_mark_beyond_a_tools_scale_stops_the_import_with_its_place(tmp_path: Path) -> None:
    document = json.loads((DATA / "promptfoo.json").read_text("utf-8"))
    document["results"]["results"][1]["namedScores"]["網羅性"] = 4
    path = tmp_path / "five.json"
    path.write_text(json.dumps(document), "utf-8")
    with pytest.raises(sj.ConfigError, match=r"results\[1\].網羅性: the mark 4 lies outside of 0–1"):
        sj.history.import_results(path)
    assert sj.history.import_results(path, scale=5)["score"].max() == 80


# -- one judge beside one column of people's verdicts


def test_the_check_is_counted_by_hand() -> None:
    human = [True] * 20 + [False] * 12
    judge = [True] * 19 + [False] + [False] * 9 + [True] * 3
    table = check_judge(judge, human).set_index("of")
    assert table.loc["passed", ["n", "n_same"]].tolist() == [20, 19] and table.loc["failed", "n_same"] == 9
    assert (table.loc["failed", "low"], table.loc["failed", "high"]) == pytest.approx(
        (0.4677, 0.9111), abs=1e-4
    )  # Wilson
    assert "passed 95%" in check_text(table.reset_index())


def test_few_labels_say_nothing_and_how_many_are_missing() -> None:
    told = check_text(check_judge([True] * 9 + [None], [True] * 8 + [False, True]))
    assert "people passed 8; label 2 more" in told and "9 more failed answers" in told and "1 answers without" in told


@pytest.mark.parametrize("line", [None, 70.0])
def test_only_no_and_yes_need_no_line(line: float | None) -> None:
    assert check_judge([0, 1], [False, True], line=None)["n_same"].tolist() == [1, 1, 2]
    if line is None:
        with pytest.raises(sj.ConfigError, match="from which mark"):
            check_judge([80.0], [True])
    else:
        assert check_judge([80.0, 60.0], [True, False], line=line)["n_same"].tolist() == [1, 1, 2]


def test_check_works_in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = ["SCORE,LABEL"] + ["90,合格"] * 30 + ["40,不合格"] * 15 + ["90,不合格"] * 5
    (tmp_path / "t.csv").write_text("\n".join(rows), "cp932")
    done = CliRunner().invoke(app, ["check", "t.csv", "--judge", "SCORE", "--human", "LABEL", "--line", "70"])
    assert done.exit_code == 0 and "passed 100% (n=30" in done.output and "failed 75% (n=20" in done.output
    refused = CliRunner().invoke(app, ["check", "t.csv", "--judge", "SCORE", "--human", "LABEL"])
    assert refused.exit_code == 2 and "from which mark" in refused.output


def test_nan_is_no_number_anywhere() -> None:
    table = WIDE.assign(正確性=[math.nan, math.inf, 1])
    with pytest.raises(sj.ConfigError, match="inf lies outside"):
        sj.history.import_results(table, columns=MARKS, scale=(1, 5))
