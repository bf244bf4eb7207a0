"""What `check_logs` and `socjudge doctor` find in a folder of logs; the logs stay as they are."""

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
from service import Reply, Service, judgement
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
from socjudge.history import check_logs, check_verdicts
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
        there.setdefault(row["log"][11:19], []).append((row["where"], row["problem"]))
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
    assert check_verdicts(results)["passed"].tolist() == gate_confidence(results)["passed"].tolist() == [0]
    assert gate_confidence(results)["needed"].tolist() == [0]
    assert check_logs(tmp_path).empty
    assert "平均95点以上" in words(write_report(tmp_path / "report.html", tmp_path).read_text(encoding="utf-8"))


def test_the_folder_of_the_logs_is_looked_up_when_it_is_read(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "LOGS_DIR", log.parent)
    assert load_runs()["log"].tolist() == check_verdicts(load_results())["log"].tolist() == [log.name]
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
    assert found(problems, "error") == {"20240420": [("", "unreadable")], "20240601": [("", "unreadable")]}
    assert found(problems, "warning") == {
        "20240301": [("results[1], question 2", "suspect zero")],
        "20240315": [("results[2], question 3", "average"), ("summary", "summary")],
        "20240402": [("summary", "summary")],
        "20240505": [("results[0], question 1", "criterion missing"), ("results[0], question 1", "average")],
        "20240518": [("results", "duplicate id"), ("summary", "summary")],
        "20240704": [("results[0], question 1", "unscored"), ("summary", "summary")],
    }
    assert set(problems.loc[problems["level"] == "note", "problem"]) == {"judge unknown"}
    assert (problems["remedy"].str.len() > 10).all()
    assert list(problems["level"]) == sorted(problems["level"], key=["error", "warning", "note"].index)
    assert contents(logs) == before

    said = problems.set_index("problem")["what"]
    assert "results[3].evaluation.scores.安全性 is 110, expected a number from 0 to 100" in said["unreadable"].iloc[0]
    assert said["summary"].iloc[1] == (
        "passed_questions is 5, by the results 2; pass_rate is 1, by the results 0.4; "
        "mvp_passed is true, by the results false"
    )


def test_a_log_of_ours_is_in_order(log: Path) -> None:
    assert check_logs(log.parent).empty


def test_what_failed_is_to_be_asked_for_again_and_what_could_not_be_read_judged_again() -> None:
    problems = check_logs(ROOT / "tests" / "data" / "v0_1" / "logs")
    remedies = problems.loc[problems["problem"] == "unscored", ["what", "remedy"]].to_numpy().tolist()
    told = {
        what.partition("(")[2].partition(":")[0]: remedy.partition(": ")[2].partition(" judge_")[0]
        for what, remedy in remedies
    }
    assert told == {"unparsable": "socjudge rejudge", "failed": "socjudge run --repair"}


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
    assert row["remedy"].endswith(f"socjudge rejudge {log.name} --judge-model 'gpt 4; rm -rf x' --judge-prompt guide-1")


def test_an_answer_that_was_changed_after_it_was_judged_is_seen(log: Path) -> None:
    value = json.loads(log.read_text("utf-8"))
    value["results"][4]["answer"] = "よりよい回答"
    log.write_text(json.dumps(value, ensure_ascii=False), "utf-8")
    assert check_logs(log.parent)[["where", "problem"]].to_numpy().tolist() == [
        ["results[4], question 5", "answer changed"]
    ]


def test_a_verdict_of_its_own_that_does_not_fit_the_average_is_seen(log: Path) -> None:
    value = json.loads(log.read_text("utf-8"))
    value["results"][0]["evaluation"]["passed"] = False
    log.write_text(json.dumps(value, ensure_ascii=False), "utf-8")
    (row,) = check_logs(log.parent).to_dict("records")
    assert (row["problem"], row["what"]) == ("passed", "passed is false at 80 points (pass line 70)")


def test_two_logs_of_one_run_and_an_unfinished_run_are_seen(log: Path) -> None:
    shutil.copy(log, log.with_name("judge_eval_20990101_000000.json"))
    header = {"journal": 1, "run": json.loads(log.read_text("utf-8"))["run"], "key": {}, "total": 10}
    log.with_name("judge_eval_20990102_000000.partial.jsonl").write_text(json.dumps(header) + "\n")
    problems = check_logs(log.parent)
    assert problems[["level", "log", "problem"]].to_numpy().tolist() == [
        ["error", "judge_eval_20990101_000000.json", "duplicate run"],
        ["note", "judge_eval_20990102_000000.partial.jsonl", "unfinished run"],
    ]
    assert "0 of 10 judged answers" in problems["what"].iloc[1]


def test_a_judge_that_answers_under_several_model_names_is_told_in_the_summary_and_by_the_doctor(
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
    (row,) = check_logs(tmp_path).to_dict("records")
    assert (row["level"], row["problem"]) == ("warning", "several models")
    assert "gpt-4o (5), llama-9b (5)" in row["what"]


def test_verdicts_of_a_folder_are_asked_for_in_words() -> None:
    with pytest.raises(ConfigError, match=r"check_verdicts\(load_results\(folder\)\)"):
        check_verdicts("logs")  # type: ignore[arg-type]


def test_a_journal_that_was_cut_in_its_first_line_is_listed(log: Path) -> None:
    stub = log.with_name("judge_eval_20260101_000000.partial.jsonl")
    stub.write_bytes(b'{"journal":1,"run":{"run_id":')
    (row,) = check_logs(log.parent).to_dict("records")
    assert (row["level"], row["log"], row["problem"]) == ("note", stub.name, "unfinished run")


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such folder"):
        check_logs(tmp_path / "nowhere")


def results_with(points: list[float | None]) -> pd.DataFrame:
    frame = pd.DataFrame({"question_id": range(len(points)), "average_score": pd.array(points, dtype="Float64")})
    return frame.assign(run_id="r", log="l")


@pytest.mark.parametrize(
    ("points", "expected"),
    [
        ([80] * 7 + [60] * 3, (10, 0, 7, True, True, True)),  # mean 74
        ([80] * 7 + [None] * 3, (10, 3, 7, True, False, True)),  # with zeros the mean is 56
        ([80] * 6 + [60] * 3 + [None], (10, 1, 6, False, False, True)),  # 6 of 9; with 100 points 7 of 10 and 76
        ([90] * 9 + [None], (10, 1, 9, True, True, True)),  # 81 at worst
        ([60] * 9 + [None], (10, 1, 0, False, False, False)),
    ],
)
def test_a_verdict_is_given_without_the_unread_replies_and_with_what_they_leave_open(
    points: list[float | None], expected: tuple[int, int, int, bool, bool, bool]
) -> None:
    (row,) = check_verdicts(results_with(points)).to_dict("records")
    names = ["n", "n_unscored", "passed", "mvp_passed", "worst_case", "best_case"]
    assert tuple(row[name] for name in names) == expected
    assert ("The verdict hangs" in row["note"]) == (row["worst_case"] != row["best_case"])


def test_a_run_without_any_mark_has_no_verdict_of_its_own() -> None:
    (row,) = check_verdicts(results_with([None] * 3)).to_dict("records")
    assert pd.isna(row["mvp_passed"])
    assert (row["n"], row["n_unscored"], row["worst_case"], row["best_case"]) == (3, 3, False, True)


def test_verdicts_of_old_logs_stand_beside_what_they_claim(logs: Path) -> None:
    with pytest.warns(UserWarning, match="left out"):
        verdicts = check_verdicts(load_results(logs)).set_index("log")["mvp_passed"]
    assert not verdicts["judge_eval_20240402_090000.json"]
    assert verdicts.sum() == 7


@pytest.mark.parametrize(("arguments", "code"), [([], 1), (["--notes"], 1)])
def test_the_command_says_what_to_do(logs: Path, arguments: list[str], code: int) -> None:
    with pytest.warns(UserWarning, match="left out"):
        result = CliRunner().invoke(app, ["doctor", "--logs-dir", str(logs), *arguments])
    assert result.exit_code == code
    assert "error: judge_eval_20240601_090000.json\n    not valid JSON" in result.stdout
    assert "→ judge its answers again: socjudge rejudge judge_eval_20240301_120000.json" in result.stdout
    assert "2 errors, 10 warnings, 9 notes" in result.stdout
    assert ("judge unknown" in result.stdout or "names no judge" in result.stdout) == bool(arguments)


def test_the_command_is_content_with_good_logs(log: Path) -> None:
    result = CliRunner().invoke(app, ["doctor", "--logs-dir", str(log.parent)])
    assert (result.exit_code, result.stdout) == (0, "0 errors, 0 warnings, 0 notes\n")


def test_the_command_cannot_look_where_nothing_is(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["doctor", "--logs-dir", str(tmp_path / "nowhere")])
    assert result.exit_code == 2
    assert "no such folder" in result.stderr


def test_an_edited_answer_is_seen_also_where_the_log_has_a_byte_order_mark(log: Path) -> None:
    value = json.loads(log.read_text("utf-8"))
    value["results"][0]["answer"] = "よりよい回答"
    log.write_bytes(b"\xef\xbb\xbf" + json.dumps(value, ensure_ascii=False).encode())
    assert check_logs(log.parent)["problem"].tolist() == ["answer changed"]
