"""The journal: a run that is broken off, in whatever way, is taken up where it stopped, and nothing is paid twice."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import re
import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from run_process import judge_all
from service import KEY, Reply, Service, error, judgement

from socjudge import (
    AssistantAnswer,
    ConfigError,
    EvalQuestion,
    EvaluationRun,
    RunStopped,
    load_prompt,
    load_run,
    rejudge,
    run_evaluation_suite,
    unfinished_runs,
)
from socjudge.journal import open_journal
from socjudge.record_json import run_to_dict
from socjudge.records import Completion, EvaluationResult, RunInfo, Usage
from socjudge.retrieval import RunbookIndex

Default = Callable[[dict[str, Any]], Reply | str]


def run_suite(questions: list[EvalQuestion], tmp_path: Path, **keywords: Any) -> EvaluationRun:
    keywords = {"assistant_model": "gpt-4o-mini", "judge_model": "gpt-4o-mini", "max_concurrency": 1, **keywords}
    return run_evaluation_suite(questions, logs_dir=tmp_path / "logs", progress=False, **keywords)


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
    data = json.loads(json.dumps(run_to_dict(run)))
    for row in data["results"]:
        row["evaluation"]["processing_time"] = row["assistant"]["processing_time"] = 0
    for name in ("run_id", "started_at", "finished_at", "wall_time_s", "sessions"):
        del data["run"][name]
    return data


def test_a_stopped_run_is_taken_up_and_asks_only_for_the_rest(
    service: Service,
    index: RunbookIndex,
    questions: list[EvalQuestion],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    whole = run_suite(questions, tmp_path, index=index)
    service.requests.clear()
    stop = stop_after(service, 7)  # the answer to the fourth question: three are judged
    with pytest.raises(RunStopped, match=r"3 of 10 judged answers are safe in .*partial.jsonl"):
        run_suite(questions, tmp_path, index=index, stop=stop)
    assert len(service.requests) == 7
    (unfinished,) = unfinished_runs(tmp_path / "logs")
    assert (unfinished.done, unfinished.total) == (3, 10)
    assert unfinished.cost_usd == pytest.approx(7 * 0.00027)
    assert len(load_run(unfinished.path).results) == 3

    journal = unfinished.path.read_text("utf-8")
    unfinished.path.write_text(re.sub(r'"t":(\d)', r'"t":50\1', journal), encoding="utf-8")
    run = run_suite(questions, tmp_path, index=index)
    assert "3/10問は前回の中断から再開" in capsys.readouterr().err
    assert len(service.requests) == 20  # the answer that was not judged yet is not asked for again
    assert comparable(run) == comparable(whole)
    assert (run.run.sessions, run.usage.calls) == (2, 20)
    assert run.run.started_at == unfinished.run.started_at
    assert run.run.wall_time_s > 500  # the first session's too, made longer
    assert journals(tmp_path) == []
    assert run.log_path is not None
    assert load_run(run.log_path) == run


def test_a_reply_that_could_not_be_read_is_paid_once(
    service: Service, questions: list[EvalQuestion], tmp_path: Path
) -> None:
    service.script = [Reply("読めない返事")]
    stop = stop_after(service, 1)
    with pytest.raises(RunStopped):
        run_suite(questions[:1], tmp_path, answers=stored(questions[:1]), stop=stop)
    run = run_suite(questions[:1], tmp_path, answers=stored(questions[:1]))
    assert len(service.requests) == 2
    assert "読めない返事" in json.dumps(service.requests[1], ensure_ascii=False)  # asked again, with what was wrong
    evaluation = run.results[0].evaluation
    assert (evaluation.status, evaluation.attempts, evaluation.usage.calls) == ("ok", 2, 2)


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
        ({"judge_model": "gpt-4o"}, "judge_model is gpt-4o-mini there and gpt-4o here"),
        (
            {"judge_prompt": replace(load_prompt("guide-1"), text=load_prompt("guide-1").text + "。")},
            "judge_prompt_sha",
        ),
        ({"judge_repeats": 2}, "judge_repeats is 1 there and 2 here"),
        ({"dataset": 1}, "dataset_sha256 is .*…"),
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
    with pytest.raises(ConfigError, match=f"the journal is of another run: .*{difference}"):
        run_suite(questions, tmp_path, answers=answers, resume=journal, **change)
    assert service.requests == []
    run_suite(questions, tmp_path, answers=answers, **change)
    assert len(service.requests) == 10 * change.get("judge_repeats", 1)
    assert journals(tmp_path) == [journal]


def test_runbooks_that_changed_make_it_another_run(
    service: Service, index: RunbookIndex, questions: list[EvalQuestion], tmp_path: Path
) -> None:
    with pytest.raises(RunStopped):
        run_suite(questions, tmp_path, index=index, stop=stop_after(service, 3))
    (journal,) = journals(tmp_path)
    with pytest.raises(ConfigError, match=r"k is 5 there and 3 here"):
        run_suite(questions, tmp_path, index=index, k=3, resume=journal)
    with pytest.raises(ConfigError, match=r"no journal of an unfinished run"):
        run_suite(questions, tmp_path, index=index, resume=ROOT / "README.md")


def test_a_rejudged_run_is_taken_up_too(service: Service, questions: list[EvalQuestion], tmp_path: Path) -> None:
    first = run_suite(questions, tmp_path, answers=stored(questions))
    service.requests.clear()
    with pytest.raises(RunStopped):
        rejudge(first, judge_model="gpt-4o", logs_dir=tmp_path / "logs", max_concurrency=1, progress=False,
                stop=stop_after(service, 4))  # fmt: skip
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
        with pytest.raises(ConfigError, match=r"partial.jsonl: line 3 is damaged .*fresh"):
            read(journal)


def test_a_kill_after_the_log_was_written_leaves_no_second_log(
    service: Service, questions: list[EvalQuestion], tmp_path: Path
) -> None:
    answers = stored(questions)
    kept = b""

    def keep(result: EvaluationResult) -> None:
        nonlocal kept
        kept = journals(tmp_path)[0].read_bytes()

    run = run_suite(questions, tmp_path, answers=answers, on_result=keep)
    assert run.log_path is not None
    run.log_path.with_name(run.log_path.stem + ".partial.jsonl").write_bytes(kept)  # as if it had not been removed
    assert unfinished_runs(tmp_path / "logs")[0].done == 10
    again = run_suite(questions, tmp_path, answers=answers)
    assert journals(tmp_path) == []
    assert again.run.run_id != run.run.run_id
    assert len(service.requests) == 20


text = st.text(max_size=20)


@given(st.lists(st.tuples(text, text, st.integers(0, 2**40)), max_size=5), st.integers(0, 40))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_goes_into_a_journal_comes_out_wherever_it_was_cut(
    tmp_path_factory: pytest.TempPathFactory, texts: list[tuple[str, str, int]], cut: int
) -> None:
    folder = tmp_path_factory.mktemp("journal")
    info, key = RunInfo("r", "2026-01-02T03:04:05+09:00"), {"judge_model": "m"}
    journal = open_journal(folder, info, key, total=5)
    # Lone halves of characters, which no file takes, were replaced before.
    answers = [AssistantAnswer(*(t.encode("utf-8", "replace").decode() for t in (q, a))) for q, a, _ in texts]
    replies = [
        Completion(answer.answer, "m", Usage(1, n, n, None)) for answer, (_, _, n) in zip(answers, texts, strict=True)
    ]
    for i, (answer, reply) in enumerate(zip(answers, replies, strict=True)):
        journal.add_answer(i, answer, 0.5)
        journal.add_reply(i, 0, reply, 0.6)
    journal.close()
    whole = journal.path.read_bytes()
    journal.path.write_bytes(whole[: len(whole) - cut] if texts else whole)
    again = open_journal(folder, info, key, total=5)
    n_answers = sum(again.answer(i) == answer for i, answer in enumerate(answers))
    n_replies = sum(again.replies(i, 0) == [reply] for i, reply in enumerate(replies))
    again.close()
    assert n_answers + n_replies >= 2 * len(texts) - 1  # a cut of 40 bytes is within the last line
    assert again.sessions == 2


# Processes are forked from one that has imported these, which takes most of a start.
processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(
    ["pytest", "socjudge.suite", "socjudge.providers", "openai", "openai.types.chat", "tqdm.auto"]
)


def started(service: Service, logs: Path, count: int) -> ForkServerProcess:
    arguments = (KEY, service.base_url, logs, count, logs.with_name("stderr.txt"))
    process = processes.Process(target=judge_all, args=arguments, daemon=True)
    process.start()
    return process


def ended(process: ForkServerProcess) -> int | None:
    """The process's exit code, once it has ended."""
    process.join(120)
    return process.exitcode


def asked(request: dict[str, Any]) -> str:
    """The question of a judge call; that of a later reply is in the same first message."""
    return re.search(r"質問(\d+)", request["messages"][0]["content"])[1]  # type: ignore[index]


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
    while "中断します" not in stderr.read_text("utf-8"):
        assert process.is_alive()
    interrupted.set()
    assert ended(process) == 1
    calls = len(service.requests)
    assert 12 <= calls < 40
    assert f"{calls} of 40 judged answers are safe" in stderr.read_text("utf-8")
    assert ended(started(service, tmp_path / "logs", 40)) == 0
    assert len(service.requests) == 40
