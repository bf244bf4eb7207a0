"""The journal: a run that is broken off, in whatever way, is taken up where it stopped, and nothing is paid twice."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import random
import re
import shutil
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.command_line import ended, started
from support.runs import log_of, with_options
from support.service import Reply, Service, error, judgement

from socjudge import (
    AssistantAnswer,
    ConfigError,
    EvalQuestion,
    EvaluationRun,
    RunOptions,
    RunStopped,
    load_prompt,
    load_run,
    rejudge,
    run_evaluation_suite,
    unfinished_runs,
)
from socjudge.errors import BudgetReached, RunNote
from socjudge.records import Completion, EvaluationResult, Rubric, RunInfo, Usage
from socjudge.runbooks.index import RunbookIndex
from socjudge.runs import journal as journal_module
from socjudge.runs import plan, running
from socjudge.runs.identity import Identity
from socjudge.runs.journal import open_journal
from socjudge.runs.plan import plan_answers

Default = Callable[[dict[str, Any]], Reply | str]


def run_suite(questions: list[EvalQuestion], tmp_path: Path, **keywords: Any) -> EvaluationRun:
    keywords = {"assistant_model": "gpt-4o-mini", "judge_model": "gpt-4o-mini", "max_concurrency": 1, **keywords}
    return run_evaluation_suite(questions, logs_dir=tmp_path / "logs", progress=False, **with_options(**keywords))


def stored(questions: list[EvalQuestion]) -> list[AssistantAnswer]:
    return [AssistantAnswer(q.question, f"回答{q.id} [出典: a.md]", "文脈") for q in questions]


def stop_after(service: Service, calls: int) -> threading.Event:
    """An event that is set when the service gets its `calls`-th request."""
    stop, default = threading.Event(), service.default

    def reply(request: dict[str, Any]) -> Reply | str:
        if len(service.requests) >= calls:
            stop.set()
        return default(request) if callable(default) else default

    service.default = reply
    return stop


def journals(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "logs").glob("*.partial.jsonl"))


def comparable(run: EvaluationRun) -> Any:
    """All of a run but its times and what names it."""
    data = json.loads(json.dumps(log_of(run)))
    for row in data["results"]:
        row["evaluation"]["processing_time"] = row["assistant"]["processing_time"] = 0
    for name in ("run_id", "started_at", "finished_at", "wall_time_s", "sessions"):
        del data["run"][name]
    return data


@pytest.mark.slow
def test_a_stopped_run_is_taken_up_and_asks_only_for_the_rest(
    service: Service,
    index: RunbookIndex,
    questions: list[EvalQuestion],
    tmp_path: Path,
) -> None:
    whole = run_suite(questions, tmp_path, index=index, k=5)
    service.requests.clear()
    stop = stop_after(service, 7)  # the answer to the fourth question: three are judged
    with pytest.raises(RunStopped, match=r"3 of 10 judged answers are safe in .*partial.jsonl"):
        run_suite(questions, tmp_path, index=index, stop=stop, k=5)
    assert len(service.requests) == 7
    (unfinished,) = unfinished_runs(tmp_path / "logs")
    assert (unfinished.done, unfinished.total) == (3, 10)
    assert unfinished.cost_usd == pytest.approx(7 * 0.00027)
    assert len(load_run(unfinished.path).results) == 3

    journal = unfinished.path.read_text("utf-8")
    unfinished.path.write_text(re.sub(r'"t":(\d)', r'"t":50\1', journal), encoding="utf-8")
    run = run_suite(questions, tmp_path, index=index, k=5)
    assert len(service.requests) == 20  # the answer that was not judged yet is not asked for again
    assert comparable(run) == comparable(whole)
    assert (run.run.sessions, run.usage.calls) == (2, 20)
    assert run.run.started_at == unfinished.run.started_at
    assert run.run.wall_time_s > 500  # the first session's too, made longer
    assert journals(tmp_path) == []
    assert run.log_path is not None
    assert load_run(run.log_path) == run


def test_langchain_objects_of_one_name_do_not_take_up_each_others_run(
    service: Service, questions: list[EvalQuestion], tmp_path: Path
) -> None:
    from langchain_core.language_models import FakeListChatModel
    from langchain_openai import ChatOpenAI

    def key(judge: Any) -> Identity:
        return plan_answers(
            questions, index=None, answers=stored(questions), assistant_model="offline", judge_model=judge,
            judge_prompt=None, assistant_prompt=None, rubric=Rubric(), answer_repeats=1, judge_repeats=1, k=5,
        ).identity  # fmt: skip

    one, other = (FakeListChatModel(responses=[judgement(score)]) for score in (80, 60))
    here, there = ChatOpenAI(model="m"), ChatOpenAI(model="m", base_url="http://127.0.0.1:9/v1")
    for judge, different in ((one, other), (here, there)):
        assert key(judge).values["judge_settings"] != key(different).values["judge_settings"]
        before = key(judge)
        judge.invoke("x")  # what it has answered so far does not make it another
        assert key(judge) == before == key(judge.model_copy())
    assert key("gpt-4o-mini").values["judge_settings"] == "default"


def test_a_reply_that_could_not_be_read_is_paid_once(
    service: Service, questions: list[EvalQuestion], tmp_path: Path
) -> None:
    service.default = lambda request: "読めない返事" if len(service.requests) == 1 else judgement(80)
    stop = stop_after(service, 1)
    with pytest.raises(RunStopped, match="0 of 1"):
        run_suite(questions[:1], tmp_path, answers=stored(questions[:1]), stop=stop)
    assert len(service.requests) == 1
    run = run_suite(questions[:1], tmp_path, answers=stored(questions[:1]))
    assert len(service.requests) == 2
    assert "読めない返事" in json.dumps(service.requests[1], ensure_ascii=False)  # asked again, with what was wrong
    evaluation = run.results[0].evaluation
    assert (evaluation.status, evaluation.attempts, evaluation.usage.calls) == ("ok", 2, 2)


def test_a_judge_that_was_never_readable_is_asked_anew_when_the_run_is_taken_up(
    service: Service, questions: list[EvalQuestion], tmp_path: Path
) -> None:
    service.default = "採点できません"
    with pytest.raises(ConfigError, match="none of its first 5 judgements could be read"):
        run_suite(questions, tmp_path, answers=stored(questions))
    n_paid = len(service.requests)
    service.default = judgement(80)
    run = run_suite(questions, tmp_path, answers=stored(questions))
    assert [r.evaluation.status for r in run.results] == ["ok"] * len(questions)
    assert len(service.requests) == n_paid + len(questions)
    assert run.run.judge_usage.calls == len(service.requests)  # what could not be read was paid for, too


def test_what_failed_is_asked_again(service: Service, questions: list[EvalQuestion], tmp_path: Path) -> None:
    service.script = [error(400, "filtered", code="content_filter")]
    stop = stop_after(service, 2)
    with pytest.raises(RunStopped, match="1 of 3"):
        run_suite(questions[:3], tmp_path, answers=stored(questions[:3]), stop=stop)
    run = run_suite(questions[:3], tmp_path, answers=stored(questions[:3]))
    assert [r.evaluation.status for r in run.results] == ["ok"] * 3
    assert len(service.requests) == 4


def test_fresh_starts_anew_and_leaves_the_unfinished_run(
    service: Service, questions: list[EvalQuestion], tmp_path: Path
) -> None:
    answers = stored(questions)
    with pytest.raises(RunStopped):
        run_suite(questions, tmp_path, answers=answers, stop=stop_after(service, 3))
    service.requests.clear()
    run = run_suite(questions, tmp_path, answers=answers, fresh=True)
    assert len(service.requests) == 10
    assert run.run.sessions == 1
    assert len(journals(tmp_path)) == 1


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        ({"judge_model": "gpt-4o"}, "judge is gpt-4o-mini there and gpt-4o here"),
        (
            {"judge_prompt": replace(load_prompt("guide-1"), id="mine", text=load_prompt("guide-1").text + "。")},
            "text of the judge prompt",
        ),
        ({"judge_repeats": 2}, "judgements per answer is 1 there and 2 here"),
        ({"dataset": 1}, "questions_sha256 is .*…"),
        ({"answers": 1}, "answers_sha256 is .*…"),
    ],
    ids=["model", "prompt", "repeats", "dataset", "answers"],
)
def test_another_run_is_not_taken_up_and_the_difference_is_named(
    service: Service, questions: list[EvalQuestion], tmp_path: Path, change: dict[str, Any], difference: str
) -> None:
    answers = stored(questions)
    with pytest.raises(RunStopped):
        run_suite(questions, tmp_path, answers=answers, stop=stop_after(service, 3))
    (journal,) = journals(tmp_path)
    if change.pop("dataset", None):
        questions = [replace(questions[0], expected_keypoints=("別の要点",)), *questions[1:]]
    if change.pop("answers", None):
        answers = [replace(answers[0], answer="別の回答"), *answers[1:]]
    service.requests.clear()
    with pytest.warns(RunNote, match=f"is not resumed, because it differs: .*{difference}"):
        run_suite(questions, tmp_path, answers=answers, **change)
    assert len(service.requests) == 10 * change.get("judge_repeats", 1)
    assert journals(tmp_path) == [journal]


def test_runbooks_that_changed_make_it_another_run(
    service: Service, index: RunbookIndex, questions: list[EvalQuestion], tmp_path: Path
) -> None:
    with pytest.raises(RunStopped):
        run_suite(questions, tmp_path, index=index, stop=stop_after(service, 3))
    (journal,) = journals(tmp_path)
    with pytest.warns(RunNote, match=r"k is 10 there and 3 here"):
        run_suite(questions, tmp_path, index=index, k=3)
    assert journals(tmp_path) == [journal]


def test_a_rejudged_run_is_taken_up_too(service: Service, questions: list[EvalQuestion], tmp_path: Path) -> None:
    first = run_suite(questions, tmp_path, answers=stored(questions))
    service.requests.clear()
    with pytest.raises(RunStopped):
        rejudge(first, judge_model="gpt-4o", logs_dir=tmp_path / "logs", progress=False, options=RunOptions(max_concurrency=1, stop=stop_after(service, 4)))  # fmt: skip
    second = rejudge(first, judge_model="gpt-4o", logs_dir=tmp_path / "logs", progress=False)
    assert len(service.requests) == 10
    assert second.run.rejudged_from == first.run.run_id


def test_the_same_run_in_a_second_process_is_refused(
    service: Service, questions: list[EvalQuestion], tmp_path: Path
) -> None:
    refused: list[str] = []

    def start_another(result: EvaluationResult) -> None:
        with pytest.raises(ConfigError) as caught:
            run_suite(questions[:2], tmp_path, answers=stored(questions[:2]))
        refused.append(str(caught.value))

    run_suite(questions[:2], tmp_path, answers=stored(questions[:2]), on_result=start_another)
    assert len(service.requests) == 2
    assert all("under way in another process" in message for message in refused)
    assert len(refused) == 2


def test_half_a_line_at_the_end_is_left_out_and_a_damaged_one_named(
    service: Service, questions: list[EvalQuestion], tmp_path: Path
) -> None:
    answers = stored(questions)
    with pytest.raises(RunStopped):
        run_suite(questions, tmp_path, answers=answers, stop=stop_after(service, 4))
    (journal,) = journals(tmp_path)
    lines = journal.read_bytes().splitlines(keepends=True)
    assert len(lines) == 2 + 4  # header, session, results
    journal.write_bytes(b"".join(lines[:-1]) + lines[-1][:50])
    service.requests.clear()
    run_suite(questions, tmp_path, answers=answers)
    assert len(service.requests) == 7

    journal.write_bytes(b"".join(lines[:2]) + lines[2][:50] + b"\n" + b"".join(lines[3:]))
    for read in (load_run, lambda path: run_suite(questions, tmp_path, answers=answers)):
        with pytest.raises(ConfigError, match=r"partial.jsonl: line 3 is damaged .*start anew"):
            read(journal)


DAMAGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "no place": lambda line: line.pop("sample"),
    "place before the first": lambda line: line.update(sample=-1),
    "place beyond the last": lambda line: line.update(sample=99),
    "place is a text": lambda line: line.update(repeat="0"),
    "time is a text": lambda line: line.update(t="1.0"),
    "spending is a list": lambda line: line.update(spent_usd=[]),
    "row is null": lambda line: line.update(row=None),
    "no scores": lambda line: line["row"].pop("evaluation"),
    "status is an object": lambda line: line["row"]["evaluation"].update(status={}),
    "cost is a text": lambda line: line["row"]["evaluation"]["usage"].update(cost_usd="1"),
    "a count that nobody knows": lambda line: line["row"]["evaluation"]["usage"].update(tokens=1),
    "no model": lambda line: line["row"]["assistant"].pop("model"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_line_that_is_no_record_of_ours_is_named_before_anything_is_paid(
    service: Service, questions: list[EvalQuestion], tmp_path: Path, damage: str
) -> None:
    answers = stored(questions[:2])
    with pytest.raises(RunStopped):
        run_suite(questions[:2], tmp_path, answers=answers, stop=stop_after(service, 1))
    (journal,) = journals(tmp_path)
    lines = journal.read_bytes().splitlines()
    row = json.loads(lines[2])
    DAMAGES[damage](row)
    journal.write_bytes(b"\n".join([*lines[:2], json.dumps(row, ensure_ascii=False).encode(), b""]))
    with pytest.raises(ConfigError, match=r"partial.jsonl: line 3 is damaged .*start anew"):
        run_suite(questions[:2], tmp_path, answers=answers)
    with contextlib.suppress(ConfigError):
        unfinished_runs(tmp_path / "logs")
    with contextlib.suppress(ConfigError):
        load_run(journal)
    assert len(service.requests) == 1


def test_a_kept_reply_whose_usage_nobody_knows_is_named_before_anything_is_paid(
    service: Service, questions: list[EvalQuestion], tmp_path: Path
) -> None:
    service.default = "読めない返事"
    with pytest.raises(RunStopped):
        run_suite(questions[:1], tmp_path, answers=stored(questions[:1]), stop=stop_after(service, 1))
    (journal,) = journals(tmp_path)
    journal.write_bytes(journal.read_bytes().replace(b'"input_tokens"', b'"tokens"'))
    with pytest.raises(ConfigError, match=r"partial.jsonl: line 3 is damaged .*start anew"):
        run_suite(questions[:1], tmp_path, answers=stored(questions[:1]))
    assert len(service.requests) == 1


@pytest.mark.parametrize("header", [{"run": None}, {"total": "2"}, {"journal": None, "run": {}}])
def test_a_journal_whose_first_line_is_no_header_is_named_and_left_by_fresh(
    service: Service, questions: list[EvalQuestion], tmp_path: Path, header: dict[str, Any]
) -> None:
    answers = stored(questions[:2])
    with pytest.raises(RunStopped):
        run_suite(questions[:2], tmp_path, answers=answers, stop=stop_after(service, 1))
    (journal,) = journals(tmp_path)
    first, *rest = journal.read_bytes().splitlines()
    journal.write_bytes(b"\n".join([json.dumps(json.loads(first) | header).encode(), *rest, b""]))
    for read in (unfinished_runs, lambda logs: load_run(journal)):
        with pytest.raises(ConfigError, match=r"partial.jsonl: line 1 is damaged"):
            read(tmp_path / "logs")
    run_suite(questions[:2], tmp_path, answers=answers, fresh=True)
    assert journals(tmp_path) == [journal]


@pytest.mark.slow
@pytest.mark.parametrize("lines", [12, 5], ids=["whole", "cut by a power failure"])
@pytest.mark.parametrize("name", ["its own", "judge_eval_20991231_235959"], ids=["own name", "moved on"])
def test_a_kill_after_the_log_was_written_leaves_no_second_log(
    service: Service, questions: list[EvalQuestion], tmp_path: Path, name: str, lines: int
) -> None:
    """Also where the journal was named after a later second, because an older journal had the name."""
    answers = stored(questions)
    kept = b""

    def keep(result: EvaluationResult) -> None:
        nonlocal kept
        kept = journals(tmp_path)[0].read_bytes()

    run = run_suite(questions, tmp_path, answers=answers, on_result=keep)
    assert run.log_path is not None
    name = run.log_path.stem if name == "its own" else name
    run.log_path.with_name(name + ".partial.jsonl").write_bytes(
        b"".join(kept.splitlines(keepends=True)[:lines])  # as if it had not been removed
    )
    assert unfinished_runs(tmp_path / "logs")[0].done == lines - 2
    again = run_suite(questions, tmp_path, answers=answers)
    assert journals(tmp_path) == []
    assert again == run  # it was finished, and only its journal was left
    assert len(service.requests) == 10


def test_a_clock_that_is_set_back_or_forward_changes_no_id_and_no_duration(
    service: Service, questions: list[EvalQuestion], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moments = [datetime(2026, 1, 31, 9, 0).astimezone()]

    class Clock(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return moments[-1]

    for module in (plan, journal_module, running):
        monkeypatch.setattr(module, "datetime", Clock)
    answers = stored(questions)

    def set_to(year: int) -> Callable[[EvaluationResult], None]:
        return lambda result: moments.append(moments[0].replace(year=year, day=1))

    first = run_suite(questions[:2], tmp_path, answers=answers[:2], on_result=set_to(2016))
    moments.append(moments[0])  # the very moment of the first once more
    with pytest.raises(RunStopped):
        run_suite(questions[:2], tmp_path, answers=answers[:2], stop=stop_after(service, 3), on_result=set_to(2036))
    moments.append(moments[0].replace(year=2006))
    second = run_suite(questions[:2], tmp_path, answers=answers[:2])
    moments.append(moments[0])
    third = run_suite(questions[:2], tmp_path, answers=answers[:2])
    assert len(service.requests) == 6
    assert len({run.run.run_id for run in (first, second, third)}) == 3
    names = [run.log_path.name for run in (first, second, third) if run.log_path is not None]
    assert [name[11:26] for name in sorted(names)] == ["20260131_090000", "20260131_090001", "20260131_090002"]
    for run in (first, second, third):
        assert run.run.started_at.startswith("2026-01-31T")  # as it was then, also of one that was taken up
        assert 0 <= run.run.wall_time_s < 3600
        assert all(0 <= result.evaluation.processing_time < 3600 for result in run.results)
    assert first.run.finished_at.startswith("2016-")  # what the clock said
    assert second.run.sessions == 2


# -- disks that are full, and folders that go


def fill_disk(monkeypatch: pytest.MonkeyPatch, folder: Path, *, rows: int) -> None:
    """Let journals in the folder hold so many judged answers."""
    real, written = os.write, 0

    def write(handle: int, data: bytes) -> int:
        nonlocal written
        if bytes(data).startswith(b'{"row"') and os.readlink(f"/proc/self/fd/{handle}").startswith(f"{folder}/"):
            written += 1
            if written > rows:
                raise OSError(errno.ENOSPC, "No space left on device")
        return real(handle, data)

    monkeypatch.setattr(os, "write", write)


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_run_whose_disk_is_full_ends_at_once_and_resumes_after_what_was_written(
    service: Service, questions: list[EvalQuestion], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        fill_disk(patch, tmp_path / "logs", rows=2)
        with pytest.raises(ConfigError, match="No space left on device.*the run ends here"):
            run_suite(questions, tmp_path, answers=stored(questions), max_concurrency=1)
    assert len(service.requests) == 3  # the third reply is lost, and none is asked for after it
    (unfinished,) = unfinished_runs(tmp_path / "logs")
    assert unfinished.done == 2
    assert len(run_suite(questions, tmp_path, answers=stored(questions)).results) == 10
    assert len(service.requests) == 11


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="Windows removes no file that is open")
@pytest.mark.parametrize("how", ["removed", "renamed", "replaced"])
def test_a_logs_folder_that_goes_away_midway_loses_nothing(
    service: Service, questions: list[EvalQuestion], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    logs, away, lost, default = tmp_path / "logs", tmp_path / "away", threading.Event(), service.default

    def reply(request: dict[str, Any]) -> Reply | str:
        assert len(service.requests) < 5 or lost.wait(30)  # there is something left to be written then
        return default(request)  # type: ignore[operator]

    service.default = reply

    def lose_folder(result: EvaluationResult) -> None:
        if result.question.id == 3:
            logs.rename(away)
            if how == "removed":
                shutil.rmtree(away)
            elif how == "replaced":
                shutil.copytree(away, logs)
            lost.set()

    run = run_suite(questions, tmp_path, answers=stored(questions), on_result=lose_folder)
    assert run.log_path is not None
    assert run.log_path.parent == logs
    assert load_run(run.log_path) == run
    assert len(run.results) == len(service.requests) == 10
    assert unfinished_runs(logs) == []


@pytest.mark.skipif(os.name == "nt", reason="Windows removes no file that is open")
def test_answers_are_said_to_be_safe_only_where_they_are(
    service: Service, questions: list[EvalQuestion], tmp_path: Path
) -> None:
    stop = stop_after(service, 4)

    def lose_folder(result: EvaluationResult) -> None:
        if stop.is_set():
            shutil.rmtree(tmp_path / "logs", ignore_errors=True)

    with pytest.raises((RunStopped, ConfigError)) as caught:
        run_suite(questions, tmp_path, answers=stored(questions), stop=stop, on_result=lose_folder)
    assert "4 of 10 judged answers may be lost" in str(caught.value)


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="no such limit")
def test_a_file_size_limit_is_one_clear_error(service: Service, tmp_path: Path) -> None:
    assert ended(started(service, tmp_path / "logs", 40, most_bytes=20_000)) == 1
    said = (tmp_path / "stderr.txt").read_text("utf-8")
    last = said[said.rindex("socjudge.errors.ConfigError: ") :]
    assert re.search(r"cannot be written \(File too large\).*free some disk space", last)
    (unfinished,) = unfinished_runs(tmp_path / "logs")
    assert f"{unfinished.done} of 40 judged answers are safe in {unfinished.path}" in last
    assert ended(started(service, tmp_path / "logs", 40)) == 0
    assert len(service.requests) <= 40 + 8  # at most the calls in flight


def test_a_stop_that_comes_with_the_last_result_stops_nothing(
    service: Service, questions: list[EvalQuestion], tmp_path: Path
) -> None:
    stop = threading.Event()
    run = run_suite(
        questions[:2], tmp_path, answers=stored(questions[:2]), stop=stop,
        on_result=lambda result: stop.set() if result.question.id == 2 else None,
    )  # fmt: skip
    assert run.log_path is not None
    assert journals(tmp_path) == []


def test_calls_without_a_reply_count_against_the_budget_after_a_break_too(
    service: Service, questions: list[EvalQuestion], tmp_path: Path
) -> None:
    # A call costs $0.00027, and at most some $0.003. Each question's first call is lost, and counts at that most.
    service.default = lambda request: Reply(drop=True) if len(service.requests) % 2 else judgement(80)
    for _ in range(5):
        with pytest.raises(BudgetReached):
            run_suite(questions, tmp_path, answers=stored(questions), max_cost_usd=0.01)
    assert len(service.requests) <= 2 * 4


def test_two_runs_that_begin_at_once_get_a_name_each(tmp_path: Path) -> None:
    info = RunInfo("r", "2026-01-02T03:04:05+09:00")
    (tmp_path / "judge_eval_20260102_030405.partial.jsonl").touch()  # of a run that has only begun
    journal = open_journal(tmp_path, info, total=1)
    journal.close()
    assert journal.path == tmp_path / "judge_eval_20260102_030406.partial.jsonl"


def test_what_an_error_carries_is_kept_when_the_run_ends_with_it(
    service: Service, questions: list[EvalQuestion], tmp_path: Path
) -> None:
    error = ConfigError("読めません", of_one=True)

    def fail(result: EvaluationResult) -> None:
        raise error

    with pytest.raises(ConfigError, match="読めません\n1 of 1 judged answers are safe") as caught:
        run_suite(questions[:1], tmp_path, answers=stored(questions[:1]), on_result=fail)
    assert caught.value.of_one


text = st.text(max_size=20)


@pytest.mark.slow
@given(st.lists(st.tuples(text, text, st.integers(0, 2**40)), max_size=5), st.integers(0, 40))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_goes_into_a_journal_comes_out_wherever_it_was_cut(
    tmp_path_factory: pytest.TempPathFactory, texts: list[tuple[str, str, int]], cut: int
) -> None:
    folder = tmp_path_factory.mktemp("journal")
    info = RunInfo("r", "2026-01-02T03:04:05+09:00", judge_model="m")
    journal = open_journal(folder, info, total=5)
    # Lone halves of characters, which no file takes, were replaced before.
    answers = [AssistantAnswer(*(t.encode("utf-8", "replace").decode() for t in (q, a))) for q, a, _ in texts]
    replies = [
        Completion(answer.answer, "m", Usage(1, n, n, None)) for answer, (_, _, n) in zip(answers, texts, strict=True)
    ]
    for i, (answer, reply) in enumerate(zip(answers, replies, strict=True)):
        journal.add(answer, i)
        journal.add(reply, i)
    journal.close()
    whole = journal.path.read_bytes()
    journal.path.write_bytes(whole[: len(whole) - cut] if texts else whole)
    again = open_journal(folder, info, total=5)
    n_answers = sum(again.answers.get(i) == answer for i, answer in enumerate(answers))
    n_replies = sum(again.unparsable.get((i, 0)) == [reply] for i, reply in enumerate(replies))
    again.close()
    assert n_answers + n_replies >= 2 * len(texts) - 1  # a cut of 40 bytes is within the last line
    assert again.sessions == 2


def asked(request: dict[str, Any]) -> str:
    """The question of a judge call; that of a later reply is in the same first message."""
    return re.search(r"質問(\d+)", request["messages"][0]["content"])[1]  # type: ignore[index]


@pytest.mark.slow
def test_killed_at_twenty_random_moments_no_journalled_call_is_repeated(service: Service, tmp_path: Path) -> None:
    count, draw = 300, random.Random(3)
    broken = {str(i) for i in range(0, count, 17)}  # first replies that cannot be read
    running: list[ForkServerProcess] = []  # the one that is to be killed
    goal = 0

    def reply(request: dict[str, Any]) -> Reply:
        if running and len(service.requests) >= goal:
            running[0].kill()  # while it takes in the replies to the calls before
        first = len(request["messages"]) == 1
        return Reply("読めない" if first and asked(request) in broken else judgement(80), delay_s=0.005)

    service.default = reply
    assert ended(started(service, tmp_path / "whole", count)) == 0
    (whole,) = (tmp_path / "whole").glob("*.json")
    calls_needed = len(service.requests)
    assert calls_needed == count + len(broken)

    service.requests.clear()
    lost = 0
    for _ in range(20):
        goal = len(service.requests) + draw.randint(1, 14)
        running = [started(service, tmp_path / "logs", count)]
        assert ended(running[0]) == -signal.SIGKILL
        running = []
        service.settle()
        (journal,) = journals(tmp_path)
        kept = [json.loads(line) for line in journal.read_bytes().splitlines() if line.endswith(b"}")]
        held = sum("reply" in line for line in kept) + sum("row" in line for line in kept)
        assert len(service.requests) - held - lost <= 8  # at most the calls in flight
        lost = len(service.requests) - held
    assert ended(started(service, tmp_path / "logs", count)) == 0

    assert len(service.requests) == calls_needed + lost
    assert lost <= 20 * 8
    (log,) = (tmp_path / "logs").glob("*.json")
    assert comparable(load_run(log)) == comparable(load_run(whole))
    assert load_run(log).run.sessions == 21
    assert journals(tmp_path) == []


@pytest.mark.slow
def test_ctrl_c_lets_calls_in_flight_finish_and_says_how_to_go_on(service: Service, tmp_path: Path) -> None:
    interrupted = threading.Event()

    def reply(request: dict[str, Any]) -> Reply:
        if len(service.requests) >= 12:  # nothing comes back before the signal was seen
            interrupted.wait(30)
        return Reply(judgement(80))

    service.default = reply
    process, stderr = started(service, tmp_path / "logs", 40), tmp_path / "stderr.txt"
    service.wait_for(lambda: len(service.requests) >= 12, 120)
    assert process.pid is not None
    os.kill(process.pid, signal.SIGINT)
    while "stopping" not in stderr.read_text("utf-8"):
        assert process.is_alive()
    interrupted.set()
    assert ended(process) == 1
    calls = len(service.requests)
    assert 12 <= calls < 40
    assert f"{calls} of 40 judged answers are safe" in stderr.read_text("utf-8")
    assert ended(started(service, tmp_path / "logs", 40)) == 0
    assert len(service.requests) == 40


# --- The stop button of a notebook (■) while a run is under way: what to do next is the last thing that is shown

CELL = """
import socjudge as sj
questions = [sj.EvalQuestion(i, "正常系", f"質問{{i}}", ("要点",)) for i in range(40)]
answers = [sj.AssistantAnswer(question.question, "回答") for question in questions]
judge, options = "gpt-4o-mini", sj.RunOptions(max_concurrency=2)
sj.run_evaluation_suite(questions, answers=answers, judge_model=judge, logs_dir={folder!r}, options=options)
"""


@pytest.mark.kernel
@pytest.mark.slow
def test_an_interrupted_cell_ends_with_what_to_do_below_a_short_traceback(service: Service, tmp_path: Path) -> None:
    from jupyter_client.manager import start_new_kernel

    held = service.hold()
    service.default = lambda request: held(request) if len(service.requests) > 4 else held.reply
    manager, client = start_new_kernel(kernel_name="python3")
    try:
        asked = client.execute(CELL.format(folder=str(tmp_path)))
        assert held.asked.wait(120)
        manager.interrupt_kernel()
        told: list[str] = []
        while not told:
            message = client.get_iopub_msg(timeout=60)
            if message["msg_type"] == "stream" and "stopping" in message["content"]["text"]:
                held.going.set()
            if message["msg_type"] == "error" and message["parent_header"]["msg_id"] == asked:
                told = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(message["content"]["traceback"])).splitlines()
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    assert re.search(r"KeyboardInterrupt: \d+ of 40 judged answers are safe in .*to go on", told[-1])
    assert len(told) <= 60
