"""What `socjudge doctor` finds in questions, runbooks and logs; the files stay as they are."""

from __future__ import annotations

import ast
import hashlib
import itertools
import json
import shutil
from pathlib import Path

import pandas as pd
import pytest
from conftest import ROOT
from conftest import text as words
from support.service import Reply, Service, judgement
from typer.testing import CliRunner

from socjudge import (
    AssistantAnswer,
    ConfigError,
    EvalQuestion,
    Rubric,
    RunOptions,
    constants,
    load_results,
    load_runs,
    load_scores,
    run_evaluation_suite,
    summary_text,
    write_report,
)
from socjudge.cli.app import app
from socjudge.history.doctor import check_dataset, check_logs, check_runbooks
from socjudge.runs.logs import log_files
from socjudge.stats import gate_confidence


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A copy of the eleven logs of the specification's format."""
    logs = ROOT / "tests" / "data" / "logs"
    return Path(shutil.copytree(logs, tmp_path / "logs", ignore=shutil.ignore_patterns(".*")))


@pytest.fixture
def log(service: Service, questions: list[EvalQuestion], tmp_path: Path) -> Path:
    """A log of ours, in a folder of its own."""
    answers = [AssistantAnswer(q.question, "回答", "抜粋") for q in questions]
    run = run_evaluation_suite(
        questions, answers=answers, judge_model="gpt-4o-mini", logs_dir=tmp_path / "ours", progress=False
    )
    assert run.log_path is not None
    return run.log_path


def contents(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.glob("judge_eval_*")}


def found(problems: pd.DataFrame, *levels: str) -> dict[str, list[tuple[str, str]]]:
    """Date of the log -> [(where, problem)]."""
    there: dict[str, list[tuple[str, str]]] = {}
    for row in problems[problems["level"].isin(levels)].to_dict("records"):
        there.setdefault(row["file"][11:19], []).append((row["where"], row["problem"]))
    return there


@pytest.mark.slow
def test_a_log_is_judged_by_its_own_pass_line_and_rate(
    service: Service, questions: list[EvalQuestion], tmp_path: Path
) -> None:
    answers = [AssistantAnswer(q.question, "回答", "抜粋") for q in questions]
    run_evaluation_suite(
        questions, answers=answers, judge_model="gpt-4o-mini", logs_dir=tmp_path, progress=False,
        rubric=Rubric(pass_threshold=95.0, pass_rate=0.0),
    )  # fmt: skip
    results, scores = load_results(tmp_path), load_scores(tmp_path)
    for frame in (load_runs(tmp_path), results, scores):
        assert frame["pass_threshold"].unique().tolist() == [95.0]
        assert frame["pass_rate_required"].unique().tolist() == [0.0]
    assert results["average_score"].between(70, 94).all()
    assert not results["passed"].any()
    assert gate_confidence(results)["passed"].tolist() == [0]
    assert gate_confidence(results)["needed"].tolist() == [0]
    assert check_logs(tmp_path).empty
    assert "平均95点以上" in words(
        write_report(tmp_path / "report.html", tmp_path, lang="ja").read_text(encoding="utf-8")
    )


def test_the_folder_of_the_logs_is_looked_up_when_it_is_read(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "LOGS_DIR", log.parent)
    assert load_runs()["log"].tolist() == load_results()["log"].unique().tolist() == [log.name]
    assert set(load_scores()["log"]) == {log.name}
    assert check_logs().empty
    assert log_files() == [log]
    assert CliRunner().invoke(app, ["doctor"]).stdout == "0 errors, 0 warnings, 0 notes\n"


def test_nothing_that_constants_py_lets_users_change_is_bound_in_a_signature_or_at_import() -> None:
    bound = []
    for path in sorted((ROOT / "socjudge").glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        signatures = [node.args for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        defaults = [default for found in signatures for default in [*found.defaults, *found.kw_defaults] if default]
        classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
        assigned = [
            node.value
            for owner in [tree, *classes]
            for node in owner.body
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value and not isinstance(node.value, ast.Call)
        ]
        bound += [
            f"{path.name}: {text}" for node in [*defaults, *assigned] if "constants." in (text := ast.unparse(node))
        ]
    assert bound == []


def test_each_fault_is_named_with_its_place(logs: Path) -> None:
    before = contents(logs)
    problems = check_logs(logs)
    assert found(problems, "error") == {date: [("", "unreadable")] for date in ("20240420", "20240518", "20240601")}
    assert found(problems, "warning") == {
        "20240301": [("1 results (questions 2)", "unscored")],
        "20240402": [("summary", "contradictory")],
        "20240505": [("1 results (questions 1)", "criterion missing")],
        "20240704": [("1 results (questions 1)", "unscored")],
    }
    assert not (problems["level"] == "note").any()
    assert (problems["remedy"].str.len() > 10).all()
    assert list(problems["level"]) == sorted(problems["level"], key=["error", "warning", "note"].index)
    assert contents(logs) == before
    said = problems.set_index("problem")["what"]
    assert (
        "results[3].evaluation.scores[...] is not as a log has it (Expected `int` <= 100)" in said["unreadable"].iloc[0]
    )


def test_a_log_of_ours_is_in_order(log: Path) -> None:
    assert check_logs(log.parent).empty


def test_one_problem_of_many_questions_is_one_row_with_their_ids_and_the_judge_in_its_remedy(log: Path) -> None:
    value = json.loads(log.read_text("utf-8"))
    ids = [result["question_id"] for result in value["results"]]
    for result in value["results"]:
        result["evaluation"] |= {"status": "unparsable", "error": "no JSON", "scores": {}, "rationale": {}}
    value["run"]["judge_model"] = "gpt 4; rm -rf x"  # a log is no text to trust
    log.write_text(json.dumps(value, ensure_ascii=False), "utf-8")
    problems = check_logs(log.parent)
    (row,) = problems[problems["problem"] == "unscored"].to_dict("records")
    assert row["where"] == f"{len(ids)} results (questions {', '.join(map(str, ids[:10]))})"
    assert row["remedy"].endswith(f"socjudge rejudge --log {log.name} --only-failed")
    for result in value["results"]:
        result["evaluation"] |= {"status": "ok", "error": "", "scores": {"安全性": 80}, "average_score": 80.0}
    log.write_text(json.dumps(value, ensure_ascii=False), "utf-8")
    problems = check_logs(log.parent)
    (row,) = problems[problems["problem"] == "criterion missing"].to_dict("records")
    assert f"socjudge rejudge --log {log.name} --judge-model 'gpt 4; rm -rf x' --judge-prompt guide-1" in row["remedy"]


def test_two_logs_of_one_run_and_an_unfinished_run_are_seen(log: Path) -> None:
    shutil.copy(log, log.with_name("judge_eval_20990101_000000.json"))
    header = {"journal": 3, "run": json.loads(log.read_text("utf-8"))["run"], "key": {}, "total": 10}
    log.with_name("judge_eval_20990102_000000.partial.jsonl").write_text(json.dumps(header) + "\n")
    problems = check_logs(log.parent)
    assert problems[["level", "file", "problem"]].to_numpy().tolist() == [
        ["error", "judge_eval_20990101_000000.json", "duplicate"],
        ["note", "judge_eval_20990102_000000.partial.jsonl", "unfinished"],
    ]
    assert "0 of 10 judged answers" in problems["what"].iloc[1]
    log.with_name("judge_eval_20990101_500000.partial.jsonl").write_text("garbage\n")
    problems = check_logs(log.parent).query("file.str.endswith('.jsonl')")
    assert problems["problem"].tolist() == ["unreadable", "unfinished"]


def test_a_judge_that_answers_under_several_model_names_is_told_in_the_summary(
    service: Service, questions: list[EvalQuestion], tmp_path: Path
) -> None:
    names = itertools.cycle(["gpt-4o", "llama-9b"])
    usage = {"prompt_tokens": 1000, "completion_tokens": 200}
    choices = [{"message": {"content": judgement(80)}, "finish_reason": "stop"}]
    service.default = lambda request: Reply(body=json.dumps({"model": next(names), "choices": choices, "usage": usage}))
    answers = [AssistantAnswer(q.question, "回答", "抜粋") for q in questions]
    run = run_evaluation_suite(
        questions,
        answers=answers,
        judge_model="gpt-4o",
        logs_dir=tmp_path,
        progress=False,
        options=RunOptions(max_concurrency=1),
    )
    assert "under 2 model names: gpt-4o, llama-9b" in summary_text(run)


def test_a_dataset_that_no_run_can_use_is_an_error_and_a_weak_one_a_note(
    tmp_path: Path, questions: list[EvalQuestion]
) -> None:
    assert check_dataset().empty
    path = tmp_path / "質問.csv"
    head = "id,category,question,expected_keypoints\n"
    path.write_text(
        f"{head}1,正常系,隔離は？,\n1,正常系,報告は？,当番|30分以内\n1,正常系,削除は？,禁止|承認\n", "utf-8"
    )
    (row,) = check_dataset(path).to_dict("records")
    assert (row["level"], row["file"], row["problem"]) == ("error", "質問.csv", "unreadable")
    assert "row 2: the field 'expected_keypoints' is [], expected a list" in row["what"]
    assert "row 2, row 3, row 4: id 1 is used 3 times" in row["what"] and not row["what"].startswith(str(path))
    path.write_text(f"{head}1,正常系,隔離は？,当番\n2,正常系,隔離は？,当番|30分以内\n", "utf-8")
    weak = check_dataset(path)
    assert set(weak["level"]) == {"note"} and weak["remedy"].str.len().min() > 10
    assert weak["what"].str.contains("id 1 has 1 expected keypoint").any()
    assert weak["what"].str.contains("the same question stands 2 times").any()


def test_runbooks_that_cannot_be_read_or_say_the_same_are_named(tmp_path: Path) -> None:
    assert check_runbooks().empty
    (tmp_path / "a.md").write_text("# 隔離\n\n端末を隔離する。\n", "utf-8")
    (tmp_path / "b.md").write_text("# 隔離\r\n\r\n端末を隔離する。\r\n", "utf-8")
    (tmp_path / "c.docx").write_bytes(b"PK\x03\x04")
    (tmp_path / "d.txt").write_text("\n", "utf-8")
    (tmp_path / "e.md").write_text("# 報告\n\n当番が報告する。連絡は三十分以内とする。\n", "cp932")
    (tmp_path / "f.exe").write_bytes(b"MZ")
    (tmp_path / "synonyms.json").write_text('{"端末": "PC"}', "utf-8")
    problems = check_runbooks(tmp_path)
    assert problems[["level", "file", "problem"]].to_numpy().tolist() == [
        ["error", "c.docx", "unreadable"],
        ["error", tmp_path.name, "unreadable"],
        ["warning", "b.md", "duplicate"],
        ["warning", "d.txt", "no text"],
        ["warning", tmp_path.name, "left out"],
        ["note", "e.md", "encoding"],
    ]
    said = problems["what"].tolist()
    assert "synonyms.json" in said[1] and "the same text as a.md" in said[2] and "f.exe" in said[4]
    (row,) = check_runbooks(tmp_path / "nowhere").to_dict("records")
    assert (row["level"], row["problem"]) == ("error", "unreadable")


@pytest.mark.slow
def test_the_command_checks_all_three_and_says_what_to_do(logs: Path, tmp_path: Path) -> None:
    (tmp_path / "runbooks").mkdir()
    (tmp_path / "q.json").write_text("[]", "utf-8")
    arguments = ["--dataset", str(tmp_path / "q.json"), "--runbooks", str(tmp_path / "runbooks")]
    (tmp_path / "runbooks" / "d.txt").write_text("\n", "utf-8")
    result = CliRunner().invoke(app, ["doctor", "--logs-dir", str(logs), *arguments])
    assert result.exit_code == 1
    assert "error: q.json" in result.stdout and "warning: d.txt" in result.stdout
    assert "error: judge_eval_20240601_090000.json\n    not valid JSON" in result.stdout
    assert "→ judge its answers again: socjudge rejudge --log judge_eval_20240301_120000.json" in result.stdout
    assert result.stdout.endswith("4 errors, 5 warnings, 0 notes\n")


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such folder"):
        check_logs(tmp_path / "nowhere")


@pytest.mark.slow
def test_the_command_is_content_with_good_logs(log: Path) -> None:
    result = CliRunner().invoke(app, ["doctor", "--logs-dir", str(log.parent)])
    assert (result.exit_code, result.stdout) == (0, "0 errors, 0 warnings, 0 notes\n")


def test_the_command_cannot_look_where_nothing_is(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["doctor", "--logs-dir", str(tmp_path / "nowhere")])
    assert result.exit_code == 2
    assert "no such folder" in result.stderr
