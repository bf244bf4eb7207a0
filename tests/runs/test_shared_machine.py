"""A machine with other users: nobody reads a log that had to go into the temporary folder, or slips a journal in."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
from pathlib import Path
from typing import Any

import pytest
from support.runs import with_options
from support.service import AfterCalls, Service

from socjudge import (
    AssistantAnswer,
    ConfigError,
    EvalQuestion,
    RunStopped,
    load_run,
    run_evaluation_suite,
    unfinished_runs,
)
from socjudge.runs.logs import save_evaluation_results

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "geteuid"), reason="users by number"),
    pytest.mark.filterwarnings("ignore:.*(cannot be written|the log is in):UserWarning"),
]


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


def judge(questions: list[EvalQuestion], logs_dir: Path, **options: Any) -> Any:
    answers = [AssistantAnswer(q.question, f"回答{q.id} [出典: a.md]", "文脈") for q in questions]
    return run_evaluation_suite(
        questions,
        answers=answers,
        judge_model="gpt-4o-mini",
        logs_dir=logs_dir,
        progress=False,
        **with_options(**options),
    )


def broken_off(service: Service, questions: list[EvalQuestion], logs_dir: Path) -> Path:
    """The journal of a run that was stopped."""
    with pytest.raises(RunStopped):
        judge(questions, logs_dir, stop=AfterCalls(service.requests, 4), max_concurrency=1)
    (run,) = unfinished_runs(logs_dir)
    return run.path


def a_year_later(journal: Path) -> Path:
    year = journal.name.removeprefix("judge_eval_")[:4]
    return journal.with_name(journal.name.replace(year, str(int(year) + 1), 1))


def forged(journal: Path, place: Path) -> Path:
    """A journal in which all is judged and passed, made from one that could be read."""
    header, *lines = journal.read_text("utf-8").splitlines()
    row = next(line for line in lines if "row" in json.loads(line))
    rows = []
    for sample in range(10):
        line = json.loads(row)
        line["sample"], line["row"]["question_id"] = sample, sample + 1
        line["row"]["evaluation"] |= {"average_score": 100.0, "passed": True, "overall_comment": "FORGED"}
        rows.append(json.dumps(line))
    place.parent.mkdir(exist_ok=True)
    place.write_text("\n".join([header, *rows, ""]), encoding="utf-8")
    return place


def not_a_folder(logs_dir: Path) -> Path:
    """A place that no log and no journal can be written to."""
    logs_dir.write_text("")
    return logs_dir / "logs"


def test_what_has_to_go_into_the_temporary_folder_is_readable_by_its_user_alone(
    service: Service, questions: list[EvalQuestion], tmp_path: Path
) -> None:
    path = save_evaluation_results(judge(questions, tmp_path / "logs"), not_a_folder(tmp_path / "file"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("how", ["owned by another", "a link"])
def test_a_journal_that_somebody_else_put_among_the_logs_is_no_run(
    service: Service, questions: list[EvalQuestion], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    journal = broken_off(service, questions, tmp_path / "logs")
    fake = forged(journal, a_year_later(journal))
    told: Any = contextlib.nullcontext()
    if how == "a link":
        fake.rename(tmp_path / "theirs.jsonl")
        fake.symlink_to(tmp_path / "theirs.jsonl")
    else:
        real = os.lstat
        monkeypatch.setattr(os, "lstat", lambda path, **how: _of_another(real(path, **how), Path(path) == fake))
        told = pytest.warns(UserWarning, match="another user's file")
    asked = len(service.requests)
    with told:
        run = judge(questions, tmp_path / "logs")
    assert len(service.requests) == 10 > asked  # its own journal was taken up
    assert {result.evaluation.overall_comment for result in run.results} == {"総評です。"}
    assert os.path.lexists(fake)


def _of_another(there: os.stat_result, is_it: bool) -> os.stat_result:
    return os.stat_result([*there[:4], there.st_uid + 1, *there[5:]]) if is_it else there


def test_a_pipe_among_the_logs_is_told_and_not_read_as_a_journal(
    service: Service, questions: list[EvalQuestion], tmp_path: Path
) -> None:
    journal = broken_off(service, questions, tmp_path / "logs")
    pipe = a_year_later(journal)
    os.mkfifo(pipe)
    with pytest.warns(UserWarning, match="another user's file"):
        assert [run.path for run in unfinished_runs(tmp_path / "logs")] == [journal]
    with pytest.raises(ConfigError, match="another user's file"):
        load_run(pipe)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")
def test_a_file_of_another_user_among_the_logs_is_read_where_the_folder_is_theirs(
    service: Service, questions: list[EvalQuestion], tmp_path: Path
) -> None:
    journal = broken_off(service, questions, tmp_path / "logs")
    shutil.copy(journal, tmp_path / "kept")
    os.chown(journal, 65534, 65534)
    with pytest.warns(UserWarning, match="another user's file"):
        assert unfinished_runs(tmp_path / "logs") == []
    os.chown(journal.parent, 65534, 65534)
    assert len(unfinished_runs(tmp_path / "logs")) == 1
