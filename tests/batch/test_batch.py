"""Batches: rounds, failures, limits, and that nothing is sent or counted twice, over real HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from batch_service import BatchService, Outcome, serving_batches
from command_line import socjudge
from conftest import ANSWER
from hypothesis import given
from hypothesis import strategies as st
from service import KEY, Reply, error, is_judge_call, judgement
from typer.testing import CliRunner

from socjudge import (
    AssistantAnswer,
    ConfigError,
    EvalQuestion,
    EvaluationRun,
    RunOptions,
    load_run,
    rejudge,
    run_evaluation_suite,
    unfinished_runs,
)
from socjudge.base import atomic_files as whole_files
from socjudge.batch import api as batch
from socjudge.batch import batch_status, collect_batch, prepare_batch, submit_batch
from socjudge.batch import files as batch_files
from socjudge.batch import jobs as batch_jobs
from socjudge.batch.files import Line, RequestFile, load_requests, parse_custom_id, parse_replies, write_requests
from socjudge.batch.jobs import BatchJob
from socjudge.batch.state import load_state
from socjudge.cli.app import app
from socjudge.constants import EVAL_DATASET_PATH
from socjudge.errors import ProviderError
from socjudge.runbooks.index import RunbookIndex
from socjudge.runs.journal import Journal

MODEL = "gpt-4o-mini"
CALL_USD = (1000 * 0.15 + 200 * 0.60) / 1e6  # list price of a call of the test service: 0.00027


def reply_to(request: dict[str, Any]) -> str:
    return judgement(80) if is_judge_call(request) else ANSWER


@pytest.fixture(scope="module")
def batch_server() -> Iterator[BatchService]:
    with serving_batches(reply_to) as running:
        yield running


@pytest.fixture
def service(batch_server: BatchService, monkeypatch: pytest.MonkeyPatch) -> Iterator[BatchService]:
    """A service with a batch endpoint, with the environment pointing to it. At the end: every call had the key."""
    batch_server.forget(reply_to)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_BASE_URL", batch_server.base_url)
    yield batch_server
    assert set(batch_server.keys) <= {f"Bearer {KEY}"}


@pytest.fixture(scope="session")
def answered(index: RunbookIndex, questions: list[EvalQuestion], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log of an offline run of four questions, whose answers are to be judged."""
    run = run_evaluation_suite(
        questions[:4], index=index, assistant_model="offline", judge_model="offline", k=5,  # a call has then 1,000 tokens
        logs_dir=tmp_path_factory.mktemp("earlier"), progress=False,
    )  # fmt: skip
    assert run.log_path is not None
    return run.log_path


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    """A dataset of three questions."""
    path = tmp_path / "dataset.json"
    items = json.loads(EVAL_DATASET_PATH.read_text("utf-8"))[:3]
    path.write_text(json.dumps(items, ensure_ascii=False), encoding="utf-8")
    return path


def prepare(tmp_path: Path, **keywords: Any) -> BatchJob:
    return prepare_batch(**{"judge_model": MODEL, "k": 5, "logs_dir": tmp_path / "logs", **keywords})


def finish(job: BatchJob, *, rounds: int = 9) -> EvaluationRun:
    """Submit and collect until the log is written."""
    for _ in range(rounds):
        submit_batch(job.path)
        job = collect_batch(job.path)
        if job.run is not None:
            return job.run
    raise AssertionError(f"not finished after {rounds} rounds")


def marks(run: EvaluationRun) -> list[Any]:
    """What a run says, without what it took and when."""
    return [
        (r.question, r.answer_repeat, r.judge_repeat, r.answer.answer, r.answer.context, r.answer.flags, r.answer.passages,
         r.evaluation.scores, r.evaluation.rationale, r.evaluation.status, r.evaluation.error)
        for r in run.results
    ]  # fmt: skip


def test_nothing_is_submitted_that_may_cost_more_than_the_cap(
    service: BatchService, answered: Path, tmp_path: Path
) -> None:
    job = prepare(tmp_path, log=answered)
    with pytest.raises(ConfigError, match=r"estimated at \$0.*the cap is \$0.0001"):
        submit_batch(job.path, max_cost_usd=0.0001)
    assert not service.calls
    assert submit_batch(job.path, max_cost_usd=1.0).next_step == "wait"
    unpriced = prepare(tmp_path, log=answered, judge_model="my-own")
    with pytest.raises(ConfigError, match="an unknown amount"):
        submit_batch(unpriced.path, max_cost_usd=1.0)
    assert submit_batch(unpriced.path, max_cost_usd=float("inf")).next_step == "wait"


# -- whole runs


def test_stored_answers_are_judged_in_one_round_at_half_the_price(
    service: BatchService, answered: Path, tmp_path: Path
) -> None:
    job = prepare(tmp_path, log=answered, judge_repeats=2)
    assert (job.next_step, job.round, job.done, job.total) == ("submit", 1, 0, 8)
    assert [(file.requests, file.status) for file in job.files] == [(8, "prepared")]
    assert (job.estimate.calls, job.rest.calls) == (8, 8)
    assert not service.calls  # nothing was sent

    assert submit_batch(job.path).next_step == "wait"
    (created,) = service.batches.values()
    assert (created["endpoint"], created["completion_window"]) == ("/v1/chat/completions", "24h")

    job = collect_batch(job.path)
    run = job.run
    assert run is not None
    assert (job.next_step, job.done, job.notes) == ("done", 8, ())
    assert [(r.question.id, r.judge_repeat) for r in run.results] == [(q, j) for q in (1, 2, 3, 4) for j in (0, 1)]
    assert {r.evaluation.status for r in run.results} == {"ok"}
    assert {r.evaluation.processing_time for r in run.results} == {0.0}
    assert run.run.mode == "batch"
    assert run.run.rejudged_from == load_run(answered).run.run_id
    assert run.usage.calls == 8
    assert run.usage.cost_usd == pytest.approx(8 * CALL_USD / 2, rel=0.05)
    assert run.log_path is not None
    assert load_run(run.log_path) == run
    assert [path.name for path in (tmp_path / "logs").iterdir()] == [run.log_path.name]  # job and journal are gone


@pytest.mark.slow
def test_answers_are_the_first_round_and_judgements_the_second(
    service: BatchService, index: RunbookIndex, dataset: Path, tmp_path: Path
) -> None:
    job = prepare(tmp_path, dataset=dataset, index=index, assistant_model=MODEL, answer_repeats=2)
    assert (job.estimate.calls, job.rest.calls) == (6, 12)
    submit_batch(job.path)
    job = collect_batch(job.path)
    assert (job.next_step, job.round, job.done, job.run, job.notes) == ("submit", 2, 0, None, ())
    assert (job.estimate.calls, job.rest.calls) == (6, 6)
    run = finish(job, rounds=1)
    assert [is_judge_call(body) for body in service.bodies] == [False] * 6 + [True] * 6
    assert all(ANSWER in r.answer.answer for r in run.results)
    assert (run.run.assistant_usage.calls, run.run.judge_usage.calls) == (6, 6)
    assert run.usage.cost_usd == pytest.approx(12 * CALL_USD / 2)
    assert {r.answer.processing_time for r in run.results} == {0.0}


@pytest.mark.slow
def test_two_models_are_in_files_of_their_own(
    service: BatchService, index: RunbookIndex, dataset: Path, tmp_path: Path
) -> None:
    # In round 2, the answer that failed is asked for again, beside the judgements of the others.
    failed = iter([error(500, "down")])
    service.reply = lambda request: next(failed, ANSWER) if not is_judge_call(request) else judgement(80)
    job = prepare(tmp_path, dataset=dataset, index=index, assistant_model="gpt-4o", judge_model=MODEL)
    submit_batch(job.path)
    job = collect_batch(job.path)
    assert sorted(file.requests for file in job.files) == [1, 2]
    run = finish(job)
    assert [r.evaluation.status for r in run.results] == ["ok"] * 3
    assert run.results[0].answer.retries == ("down (500)",)


@pytest.mark.slow
def test_the_log_is_that_of_a_live_run_at_half_the_cost(
    service: BatchService, index: RunbookIndex, dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replies = {}

    def reply(request: dict[str, Any]) -> Reply | str:
        text = request["messages"][0]["content"]
        return replies.setdefault(text, judgement(50 + 7 * len(replies)) if is_judge_call(request) else ANSWER)

    service.reply = reply
    # 3 questions from one thread, so that both runs get to the same points in the same order.
    from service import serving

    from socjudge.judging.dataset import load_eval_dataset

    batched = finish(prepare(tmp_path, dataset=dataset, index=index, assistant_model=MODEL))
    with serving(reply) as live_service:
        monkeypatch.setenv("OPENAI_BASE_URL", live_service.base_url)
        live = run_evaluation_suite(
            load_eval_dataset(dataset), index=index, assistant_model=MODEL, judge_model=MODEL,
            k=5, logs_dir=tmp_path / "live", progress=False,
        )  # fmt: skip
    assert len({r.evaluation.average_score for r in live.results}) == 3
    assert marks(batched) == marks(live)
    assert batched.summary == live.summary
    assert live.usage.cost_usd is not None
    assert batched.usage == replace(live.usage, cost_usd=batched.usage.cost_usd)
    assert batched.usage.cost_usd == pytest.approx(live.usage.cost_usd / 2)
    assert (batched.run.mode, live.run.mode) == ("batch", "live")
    ours = ("run_id", "started_at", "finished_at", "judge_service", "assistant_service", "mode", "sessions")
    ours += ("assistant_usage", "judge_usage", "most_usd", "wall_time_s")
    same = {name: "" for name in ours}
    assert replace(batched.run, **same) == replace(live.run, **same)  # type: ignore[arg-type]


@pytest.mark.slow
def test_an_embedded_assistant_answers_while_the_batch_is_prepared(
    service: BatchService, index: RunbookIndex, dataset: Path, tmp_path: Path
) -> None:
    job = prepare(tmp_path, dataset=dataset, index=index, assistant_model="offline")
    run = finish(job, rounds=1)
    assert len(service.bodies) == 3
    assert run.run.assistant_model_resolved == "offline-extract-9"
    assert all("[出典:" in r.answer.answer for r in run.results)


# -- failures


def test_an_unreadable_reply_is_asked_for_again_in_the_next_round(
    service: BatchService, answered: Path, tmp_path: Path
) -> None:
    first = iter(["採点できません"])
    service.reply = lambda request: next(first, judgement(80))
    run = finish(prepare(tmp_path, log=answered), rounds=2)
    assert len(service.bodies) == 5
    assert len(service.bodies[-1]["messages"]) == 3  # with the reply, and what was wrong with it
    asked_twice = [r.evaluation for r in run.results if r.evaluation.attempts == 2]
    assert [evaluation.status for evaluation in asked_twice] == ["ok"]
    assert "reply 1:" in asked_twice[0].error
    assert asked_twice[0].usage.cost_usd == pytest.approx(2 * CALL_USD / 2)


def test_a_cut_reply_gets_twice_the_room(service: BatchService, answered: Path, tmp_path: Path) -> None:
    cut = iter([Reply(judgement(80)[:40], finish_reason="length")])
    service.reply = lambda request: next(cut, judgement(80))
    finish(prepare(tmp_path, log=answered), rounds=2)
    assert [body["max_tokens"] for body in service.bodies] == [4000] * 4 + [8000]


def test_three_unreadable_replies_are_an_unparsable_row(service: BatchService, answered: Path, tmp_path: Path) -> None:
    shown = load_run(answered).results[1].answer.answer
    service.reply = lambda request: "採点できません" if shown in request["messages"][0]["content"] else judgement(80)
    run = finish(prepare(tmp_path, log=answered), rounds=3)
    assert [r.evaluation.status for r in run.results] == ["ok", "unparsable", "ok", "ok"]
    assert run.results[1].evaluation.attempts == 3
    assert run.usage.calls == len(service.bodies) == 6


@pytest.mark.parametrize("rounds", [1, 2])
def test_a_reply_that_is_withheld_is_a_failed_row_and_is_not_asked_for_again(
    service: BatchService, answered: Path, tmp_path: Path, rounds: int
) -> None:
    shown = load_run(answered).results[1].answer.answer
    replies = iter(["採点できません"] * (rounds - 1) + [Reply("", finish_reason="content_filter")])
    service.reply = lambda request: next(replies) if shown in request["messages"][0]["content"] else judgement(80)
    run = finish(prepare(tmp_path, log=answered), rounds=rounds)
    assert [r.evaluation.status for r in run.results] == ["ok", "failed", "ok", "ok"]
    assert run.usage.calls == len(service.bodies) == 3 + rounds
    assert run.results[1].evaluation.usage.cost_usd == pytest.approx(rounds * CALL_USD / 2)


def test_a_failed_line_is_sent_again_and_says_so(service: BatchService, answered: Path, tmp_path: Path) -> None:
    down = iter([error(500, "The server had an error")])
    service.reply = lambda request: next(down, judgement(80))
    job = prepare(tmp_path, log=answered)
    submit_batch(job.path)
    job = collect_batch(job.path)
    assert (job.next_step, job.done, job.files[0].requests) == ("submit", 3, 1)
    assert job.notes == (f"{job.path.stem}-r1-001.jsonl: 1 requests failed: 1 × The server had an error (500)",)
    assert service.requests == ["round1-s0-r0-t0", "round1-s1-r0-t0", "round1-s2-r0-t0", "round1-s3-r0-t0"]
    run = finish(job, rounds=1)
    assert service.requests[4:] == ["round2-s0-r0-t0"]
    assert run.results[0].evaluation.error == "retried: The server had an error (500)"
    assert run.usage.calls == 4


def test_after_three_failures_a_line_is_a_failed_row_with_the_services_reason(
    service: BatchService, answered: Path, tmp_path: Path
) -> None:
    shown = load_run(answered).results[2].answer.answer
    service.reply = lambda request: (
        error(500, f"Out of order, key {KEY}") if shown in request["messages"][0]["content"] else judgement(80)
    )
    run = finish(prepare(tmp_path, log=answered), rounds=3)
    assert [r.evaluation.status for r in run.results] == ["ok", "ok", "failed", "ok"]
    assert (
        run.results[2].evaluation.error == "failed in 3 rounds of the batch, last with: Out of order, key [key] (500)"
    )
    assert run.summary.n_unscored == 1
    assert len(service.requests) == 4 + 1 + 1
    assert run.usage.calls == 3


def test_a_line_that_fails_after_an_unreadable_reply_keeps_what_that_cost(
    service: BatchService, answered: Path, tmp_path: Path
) -> None:
    shown = load_run(answered).results[0].answer.answer
    service.reply = lambda request: (
        judgement(80) if shown not in request["messages"][0]["content"]
        else error(503, "down") if len(request["messages"]) > 1 else "採点できません"
    )  # fmt: skip
    run = finish(prepare(tmp_path, log=answered), rounds=4)
    assert run.results[0].evaluation.status == "failed"
    assert run.results[0].evaluation.usage.cost_usd == pytest.approx(CALL_USD / 2)


@pytest.mark.slow
def test_an_answer_that_cannot_be_had_is_a_failed_row(
    service: BatchService, index: RunbookIndex, dataset: Path, tmp_path: Path
) -> None:
    asked = json.loads(dataset.read_text("utf-8"))[1]["question"]
    service.reply = lambda request: (
        judgement(80) if is_judge_call(request)
        else error(500, "down") if asked in request["messages"][0]["content"] else ANSWER
    )  # fmt: skip
    run = finish(prepare(tmp_path, dataset=dataset, index=index, assistant_model=MODEL, judge_repeats=2), rounds=3)
    assert [r.evaluation.status for r in run.results] == ["ok", "ok", "failed", "failed", "ok", "ok"]
    assert "down (500)" in run.results[2].evaluation.error


@pytest.mark.slow
def test_an_empty_answer_is_not_judged(
    service: BatchService, index: RunbookIndex, dataset: Path, tmp_path: Path
) -> None:
    silent = iter([""])
    service.reply = lambda request: judgement(80) if is_judge_call(request) else next(silent, ANSWER)
    run = finish(prepare(tmp_path, dataset=dataset, index=index, assistant_model=MODEL), rounds=2)
    assert [r.evaluation.status for r in run.results].count("failed") == 1
    assert sum(map(is_judge_call, service.bodies)) == 2


def test_what_came_of_an_expired_batch_is_kept_and_the_rest_is_sent_again(
    service: BatchService, answered: Path, tmp_path: Path
) -> None:
    service.outcomes = [Outcome("expired", answered=1), Outcome("cancelled", answered=1, listed=False)]
    job = prepare(tmp_path, log=answered)
    submit_batch(job.path)
    job = collect_batch(job.path)
    assert (job.done, job.files[0].requests) == (1, 3)
    assert "3 requests failed: 3 × This request could not be executed" in job.notes[0]
    submit_batch(job.path)
    job = collect_batch(job.path)
    assert (job.done, job.files[0].requests) == (2, 2)
    assert "2 × the batch is cancelled, without a reply to it" in job.notes[0]
    run = finish(job, rounds=1)
    assert {r.evaluation.status for r in run.results} == {"ok"}
    assert run.usage.calls == 4


def test_a_file_that_is_refused_as_a_whole_counts_against_no_line(
    service: BatchService, answered: Path, tmp_path: Path
) -> None:
    full = {"code": "token_limit_exceeded", "message": "Enqueued token limit reached", "param": None, "line": None}
    service.outcomes = [Outcome(errors=(full,))] * 4
    job = prepare(tmp_path, log=answered)
    for _ in range(4):
        submit_batch(job.path)
        with pytest.raises(ProviderError, match="token_limit_exceeded: Enqueued token limit reached"):
            collect_batch(job.path)
    run = finish(job, rounds=1)
    assert {r.evaluation.status for r in run.results} == {"ok"}
    assert run.results[0].evaluation.error == ""


def test_one_refused_file_among_others_is_reported_and_sent_again(
    service: BatchService, answered: Path, tmp_path: Path
) -> None:
    full = {"code": "token_limit_exceeded", "message": "Enqueued token limit reached", "param": None, "line": None}
    service.outcomes = [Outcome(), Outcome(errors=(full,))]
    job = prepare(tmp_path, log=answered, requests_per_file=2)
    submit_batch(job.path)
    job = collect_batch(job.path)
    assert (job.done, [file.requests for file in job.files]) == (2, [2])
    assert "refused the file, and nothing was billed: token_limit_exceeded" in job.notes[0]
    assert {r.evaluation.status for r in finish(job, rounds=1).results} == {"ok"}


def test_a_refused_parameter_is_left_out_in_the_next_round_and_not_held_against_the_line(
    service: BatchService, answered: Path, tmp_path: Path
) -> None:
    def reply(request: dict[str, Any]) -> Reply | str:
        for name in ("temperature", "max_tokens", "response_format"):
            if name in request and request.get("response_format", {}).get("type") != "json_object":
                return error(400, f"Unsupported parameter: '{name}'", param=name, code="unsupported_parameter")
        return judgement(80)

    service.reply = reply
    run = finish(prepare(tmp_path, log=answered), rounds=4)
    assert {r.evaluation.status for r in run.results} == {"ok"}
    last = service.bodies[-1]
    assert "temperature" not in last
    assert last["max_completion_tokens"] == 4000
    assert last["response_format"]["type"] == "json_object"
    assert run.usage.calls == 4


def test_replies_come_in_any_order_twice_and_with_strays(service: BatchService, answered: Path, tmp_path: Path) -> None:
    stray = {"custom_id": "round1-s99-r0-t0", "response": {"status_code": 200, "body": {}}, "error": None}
    extra = (json.dumps(stray), json.dumps({**stray, "custom_id": "round7-s0-r0-t0"}), "{half a li", "[1]", '"x"')
    service.outcomes = [Outcome(extra=extra, twice=True)]
    shown = {r.answer.answer: 60 + 5 * i for i, r in enumerate(load_run(answered).results)}
    service.reply = lambda request: next(
        judgement(score) for text, score in shown.items() if text in request["messages"][0]["content"]
    )
    job = prepare(tmp_path, log=answered)
    submit_batch(job.path)
    job = collect_batch(job.path)
    assert job.run is not None
    assert [r.evaluation.average_score for r in job.run.results] == [60, 65, 70, 75]
    assert job.run.usage.calls == 4
    (note,) = job.notes
    assert "10 lines belong to no request" in note
    assert "and 7 more" in note


def test_a_reply_that_is_no_completion_is_a_failed_line(service: BatchService, answered: Path, tmp_path: Path) -> None:
    odd = iter([Reply(body='{"choices": []}'), Reply(body="[]"), Reply(body='"text"'), Reply(body="null")])
    service.reply = lambda request: next(odd, judgement(80))
    job = prepare(tmp_path, log=answered)
    submit_batch(job.path)
    job = collect_batch(job.path)
    assert job.done == 0
    assert "4 requests failed: 1 × the response is no usable chat completion (IndexError" in job.notes[0]
    assert {r.evaluation.status for r in finish(job, rounds=1).results} == {"ok"}


def test_a_bug_in_reading_one_reply_costs_the_others_nothing(
    service: BatchService, answered: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = batch.add_reply

    def buggy(assignment: Any, journal: Any, line: Line, completion: Any) -> None:
        if line.sample == 1:
            raise KeyError("surprise")
        real(assignment, journal, line, completion)

    monkeypatch.setattr(batch, "add_reply", buggy)
    run = finish(prepare(tmp_path, log=answered), rounds=3)
    assert [r.evaluation.status for r in run.results] == ["ok", "failed", "ok", "ok"]
    assert "KeyError: 'surprise'" in run.results[1].evaluation.error


def test_an_output_file_that_is_gone_is_sent_again(service: BatchService, answered: Path, tmp_path: Path) -> None:
    job = prepare(tmp_path, log=answered)
    submit_batch(job.path)
    del service.files[next(iter(service.batches.values()))["output_file_id"]]
    job = collect_batch(job.path)
    assert "the service has this file no more" in job.notes[0]
    assert len(finish(job, rounds=1).results) == 4


# -- safe to repeat


def test_collecting_and_submitting_again_adds_nothing(service: BatchService, answered: Path, tmp_path: Path) -> None:
    first = iter(["採点できません"] * 2)
    service.reply = lambda request: next(first, judgement(80))
    job = prepare(tmp_path, log=answered, requests_per_file=2)
    service.outcomes = [Outcome(), Outcome(ended=False)]
    for _ in range(2):
        assert submit_batch(job.path).next_step == "wait"
    assert len(service.batches) == service.calls["POST /v1/files"] == 2
    (journal,) = (tmp_path / "logs").glob("*.partial.jsonl")
    for _ in range(2):
        assert collect_batch(job.path).next_step == "wait"
        assert journal.read_text("utf-8").count('"reply":') == 2
    assert batch_status(job.path).next_step == "wait"
    service.end()
    status = batch_status(job.path)
    assert (status.next_step, status.files[1].completed) == ("collect", 2)
    for _ in range(2):
        job = collect_batch(job.path)
        assert (job.next_step, job.round, job.done) == ("submit", 2, 2)
        assert journal.read_text("utf-8").count('"row":') == 2
    run = finish(job, rounds=1)
    assert run.usage.calls == 6
    with pytest.raises(ConfigError, match="a finished one leaves only its log"):
        collect_batch(job.path)


def test_collecting_again_counts_no_failure_again(service: BatchService, answered: Path, tmp_path: Path) -> None:
    service.reply = lambda request: error(500, "down")
    service.outcomes = [Outcome(), Outcome(ended=False)]
    job = prepare(tmp_path, log=answered, requests_per_file=2)
    submit_batch(job.path)
    for _ in range(4):
        assert collect_batch(job.path).next_step == "wait"
    assert load_state(job.path).failures == {"s0-r0-t0": ["down (500)"], "s1-r0-t0": ["down (500)"]}
    service.reply = reply_to
    service.end()
    assert collect_batch(job.path).files[0].requests == 2
    assert {r.evaluation.status for r in finish(job, rounds=1).results} == {"ok"}


@pytest.mark.parametrize("at", range(1, 12))
def test_a_kill_at_any_write_of_the_state_loses_and_repeats_nothing(
    service: BatchService, answered: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    """The process dies just before the state is written for the n-th time, and everything is called again."""
    first = iter(["採点できません"])
    service.reply = lambda request: next(first, judgement(80))
    left = at
    real = whole_files.os.replace

    def dying(source: Any, target: Any) -> None:
        nonlocal left
        left -= str(target).endswith("state.json")
        if left == 0:
            left = -1
            raise KeyboardInterrupt
        real(source, target)

    monkeypatch.setattr(whole_files.os, "replace", dying)
    run = None
    while run is None:
        try:
            job = prepare(tmp_path, log=answered, requests_per_file=3)
            submit_batch(job.path)
            run = collect_batch(job.path).run
        except KeyboardInterrupt:
            continue
    assert len(service.requests) == len(set(service.requests)) == 5
    assert len(service.batches) == 3
    assert run.usage.calls == 5
    assert run.usage.cost_usd == pytest.approx(
        5 * CALL_USD / 2, rel=0.05
    )  # a long prompt counts more than 1,000 tokens
    assert {r.evaluation.status for r in run.results} == {"ok"}
    assert [path.suffix for path in (tmp_path / "logs").iterdir()] == [".json"]


def test_a_job_that_changed_before_it_was_locked_is_read_again(
    service: BatchService, answered: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = prepare(tmp_path, log=answered)
    for function, step in ((submit_batch, "wait"), (collect_batch, "done")):

        def overtaken(path: Path, function: Any = function) -> Any:
            state = load_state(path)
            monkeypatch.setattr(batch, "load_state", load_state)
            function(path)  # by another process
            return state

        monkeypatch.setattr(batch, "load_state", overtaken)
        assert function(job.path).next_step == step
    assert len(service.batches) == 1
    assert [path.suffix for path in (tmp_path / "logs").iterdir()] == [".json"]


def test_a_kill_midway_through_a_file_adds_no_reply_twice(
    service: BatchService, answered: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.reply = lambda request: judgement(80) if len(request["messages"]) > 1 else "採点できません"
    job = prepare(tmp_path, log=answered)
    submit_batch(job.path)
    real, left = batch.add_reply, 3

    def dying(*arguments: Any) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise KeyboardInterrupt
        real(*arguments)

    monkeypatch.setattr(batch, "add_reply", dying)
    with pytest.raises(KeyboardInterrupt):
        collect_batch(job.path)
    run = finish(job, rounds=2)
    assert [r.evaluation.attempts for r in run.results] == [2] * 4
    assert run.usage.calls == 8


@pytest.mark.parametrize("when", ["before the journal is removed", "before the job is removed"])
def test_a_kill_after_the_log_was_written_makes_no_second_log(
    service: BatchService, answered: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    def die(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    job = prepare(tmp_path, log=answered)
    submit_batch(job.path)
    with monkeypatch.context() as patch:
        if when == "before the journal is removed":
            real = Journal.close
            patch.setattr(Journal, "close", lambda self, discard=False: die() if discard else real(self))
        else:
            patch.setattr("shutil.rmtree", die)
        with pytest.raises(KeyboardInterrupt):
            collect_batch(job.path)
    assert len(list((tmp_path / "logs").glob("judge_eval_*.json"))) == 1
    run = collect_batch(job.path).run
    assert run is not None
    assert [r.evaluation.status for r in run.results] == ["ok"] * 4
    assert [path for path in (tmp_path / "logs").iterdir() if path.suffix != ".lock"] == [run.log_path]


def test_a_batch_whose_creation_was_not_heard_of_is_found_again(
    service: BatchService, answered: Path, tmp_path: Path
) -> None:
    service.create_replies = [Reply(drop=True)]
    job = prepare(tmp_path, log=answered, requests_per_file=2)
    submit_batch(job.path)
    assert len(service.batches) == 2
    assert len(finish(job).results) == 4
    assert len(service.batches) == 2


def test_it_is_found_on_a_later_page_of_the_list_too(
    service: BatchService, answered: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = prepare(tmp_path, log=answered)
    with monkeypatch.context() as patch:
        patch.setattr("socjudge.batch.service.save_state", _dying_with_a_batch)
        with pytest.raises(KeyboardInterrupt):
            submit_batch(job.path)
    (ours,) = service.batches.values()
    for _ in range(4):  # of others, submitted since
        service.create({**ours, "metadata": None})
    service.page = 2
    submit_batch(job.path)
    assert service.calls["POST /v1/batches"] == 1
    assert load_state(job.path).files[0].batch_id == ours["id"]


def _dying_with_a_batch(state: Any) -> None:
    from socjudge.batch.state import save_state

    if state.files[0].batch_id:
        raise KeyboardInterrupt
    save_state(state)


def test_a_busy_service_is_asked_again_and_a_lasting_refusal_can_be_taken_up(
    service: BatchService, answered: Path, tmp_path: Path
) -> None:
    busy = error(429, "Too many requests", code="rate_limit_exceeded")
    service.create_replies = [busy, busy]
    job = prepare(tmp_path, log=answered, requests_per_file=2)
    assert submit_batch(job.path).next_step == "wait"
    assert len(service.batches) == 2

    other = prepare(tmp_path, log=answered, judge_repeats=2)
    service.create_replies = [busy] * 3
    with pytest.raises(ProviderError, match="429.*run the same command again"):
        submit_batch(other.path)
    assert submit_batch(other.path).next_step == "wait"
    assert (len(service.batches), service.calls["POST /v1/files"]) == (3, 3)
    assert service.calls["GET /v1/batches"] == 0  # refused is not created


def test_a_file_that_the_service_does_not_know_any_more_is_uploaded_again(
    service: BatchService, answered: Path, tmp_path: Path
) -> None:
    service.create_replies = [error(400, "No such File object: file-1", param="input_file_id")]
    job = prepare(tmp_path, log=answered)
    with pytest.raises(ProviderError, match="No such File object"):
        submit_batch(job.path)
    submit_batch(job.path)
    assert service.calls["POST /v1/files"] == 2
    assert len(service.batches) == 1


def test_preparing_again_rewrites_what_was_not_submitted_and_leaves_what_was(
    service: BatchService, answered: Path, tmp_path: Path
) -> None:
    job = prepare(tmp_path, log=answered)
    again = prepare(tmp_path, log=answered, requests_per_file=1)
    assert again.path == job.path
    assert [file.requests for file in again.files] == [1] * 4
    submit_batch(job.path)
    third = prepare(tmp_path, log=answered)
    assert (third.path, third.next_step, len(third.files)) == (job.path, "wait", 4)
    assert "was prepared before" in third.notes[0]
    other = prepare(tmp_path, log=answered, judge_model="gpt-4o")
    assert other.path != job.path


# -- batch and live


def test_a_batch_is_finished_live_and_its_job_says_so(service: BatchService, answered: Path, tmp_path: Path) -> None:
    service.outcomes = [Outcome("expired", answered=3)]
    job = prepare(tmp_path, log=answered)
    submit_batch(job.path)
    assert collect_batch(job.path).done == 3
    asked = live_rejudge(service, answered, tmp_path)
    assert asked == 1
    with pytest.raises(ConfigError, match="the run is finished"):
        submit_batch(job.path)
    collected = collect_batch(job.path)
    assert collected.run is not None
    assert collected.run.run.mode == "batch"
    assert collected.run.usage.cost_usd == pytest.approx(3 * CALL_USD / 2 + CALL_USD)
    assert not job.path.exists()


def live_rejudge(service: BatchService, log: Path, tmp_path: Path) -> int:
    """Judge the log's answers live, under the address of the batch service; how many calls that took."""
    chat: list[dict[str, Any]] = []

    def complete(self: Any, request: Any, run: Any = None) -> Any:
        chat.append(request)
        body = {"choices": [{"message": {"content": judgement(80)}, "finish_reason": "stop"}], "model": MODEL}
        usage = {"prompt_tokens": 1000, "completion_tokens": 200}

        async def reply() -> Any:
            return self.read({**body, "usage": usage})

        return reply()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("socjudge.models.openai_model.OpenAIModel.complete_async", complete)
        rejudge(load_run(log), judge_model=MODEL, logs_dir=tmp_path / "logs", progress=False)
    return len(chat)


def test_a_new_batch_of_a_run_that_was_finished_live_starts_anew(
    service: BatchService, answered: Path, tmp_path: Path
) -> None:
    job = prepare(tmp_path, log=answered)
    live_rejudge(service, answered, tmp_path)
    again = prepare(tmp_path, log=answered)
    assert load_state(again.path).run["run_id"] != load_run(next((tmp_path / "logs").glob("*.json"))).run.run_id
    assert len(finish(again, rounds=1).results) == 4
    assert not job.path.exists()


def test_a_live_run_that_was_broken_off_is_finished_by_a_batch(
    service: BatchService, answered: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(result: Any) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(
            "socjudge.models.openai_model.OpenAIModel.complete_async",
            lambda self, request, run=None: _one_then_stop(self, run),
        )
        with pytest.raises(ZeroDivisionError):
            rejudge(load_run(answered), judge_model=MODEL, logs_dir=tmp_path / "logs", progress=False, options=RunOptions(max_concurrency=1, on_result=stop))  # fmt: skip
    (unfinished,) = unfinished_runs(tmp_path / "logs")
    job = prepare(tmp_path, log=answered)
    assert (job.done, job.files[0].requests) == (unfinished.done, 4 - unfinished.done)
    run = finish(job, rounds=1)
    assert run.run.run_id == unfinished.run.run_id
    assert run.run.mode == "batch"
    assert [r.evaluation.status for r in run.results] == ["ok"] * 4


async def _one_then_stop(model: Any, run: Any) -> Any:
    if run.budget.spent_usd > 0.5:
        await run.sleep(30)  # until the first result has ended the run
    run.budget.add("", 1)
    message = {"message": {"content": judgement(70)}, "finish_reason": "stop"}
    return model.read({"choices": [message], "usage": {"prompt_tokens": 1000, "completion_tokens": 200}})


def test_requests_that_were_answered_live_meanwhile_are_not_paid_for_again(
    service: BatchService, answered: Path, tmp_path: Path
) -> None:
    from socjudge.batch.jobs import assign, open_job
    from socjudge.batch.rounds import add_reply
    from socjudge.records import Completion, Usage

    job = prepare(tmp_path, log=answered)
    state = load_state(job.path)
    assignment = assign(state.source)
    with open_job(state, state.key) as journal:
        add_reply(assignment, journal, Line(1, 0, 0), Completion(judgement(90), MODEL, Usage(1)))
    with pytest.raises(ConfigError, match="1 judged answers came in.*prepare"):
        submit_batch(job.path)
    assert not service.calls
    assert prepare(tmp_path, log=answered).files[0].requests == 3
    assert len(finish(job, rounds=1).results) == 4


def test_a_journal_that_a_failed_live_run_removed_is_made_again(
    service: BatchService, answered: Path, tmp_path: Path
) -> None:
    job = prepare(tmp_path, log=answered)
    submit_batch(job.path)
    next((tmp_path / "logs").glob("*.partial.jsonl")).unlink()
    job = collect_batch(job.path)
    assert job.run is not None
    assert len(job.run.results) == 4


# -- bad input


def test_what_a_batch_cannot_do_is_said_before_anything_is_written(
    service: BatchService, answered: Path, dataset: Path, index: RunbookIndex, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="'offline' needs no batch: socjudge run"):
        prepare(tmp_path, log=answered, judge_model="offline")
    with pytest.raises(ConfigError, match="not both"):
        prepare(tmp_path, log=answered, dataset=dataset)
    with pytest.raises(ConfigError, match="requests_per_file is 0"):
        prepare(tmp_path, log=answered, requests_per_file=0)
    with pytest.raises(ConfigError, match="judge_repeats is 0"):
        prepare(tmp_path, log=answered, judge_repeats=0)

    from langchain_core.language_models import FakeListChatModel

    with pytest.raises(ConfigError, match="by strings"):
        prepare(tmp_path, log=answered, judge_model=FakeListChatModel(responses=[]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("socjudge.models.opening.init_langchain_model", lambda *_: FakeListChatModel(responses=[]))
        with pytest.raises(ConfigError, match="the judge 'fake:model' has no batch endpoint here"):
            prepare(tmp_path, log=answered, judge_model="fake:model")
        with pytest.raises(ConfigError, match="batch prepare --log"):
            prepare(tmp_path, dataset=dataset, index=index, assistant_model="fake:model")
    assert not (tmp_path / "logs").exists()


def test_without_a_key_it_says_so(service: BatchService, answered: Path, tmp_path: Path, monkeypatch: Any) -> None:
    job = prepare(tmp_path, log=answered)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    with pytest.raises(ConfigError, match=r"prepared for .*, but OPENAI_BASE_URL is http://127.0.0.1:9/v1"):
        submit_batch(job.path)
    monkeypatch.delenv("OPENAI_BASE_URL")
    monkeypatch.delenv("OPENAI_API_KEY")
    for function in (submit_batch, batch_status, collect_batch):
        with pytest.raises(ConfigError, match="OPENAI_API_KEY is not set"):
            function(job.path)
    with pytest.raises(ConfigError, match="set OPENAI_API_KEY"):
        prepare(tmp_path, log=answered, judge_model="auto")


@pytest.mark.slow
def test_a_dataset_that_changed_meanwhile_is_named_and_nothing_is_lost(
    service: BatchService, index: RunbookIndex, dataset: Path, tmp_path: Path
) -> None:
    job = prepare(tmp_path, dataset=dataset, index=index, assistant_model="offline")
    submit_batch(job.path)
    kept = dataset.read_text("utf-8")
    dataset.write_text(kept.replace("？", "?!").replace("ください", "下さい"), encoding="utf-8")
    with pytest.raises(
        ConfigError, match=r"questions_sha256 is .* there and .* here(.|\n)*prepared from .*dataset.json"
    ):
        collect_batch(job.path)
    dataset.write_text(kept, encoding="utf-8")
    assert collect_batch(job.path).run is not None


def test_a_damaged_or_missing_job_is_one_clear_error(service: BatchService, answered: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nowhere: no batch job there"):
        submit_batch(tmp_path / "nowhere")
    job = prepare(tmp_path, log=answered)
    requests = job.path / job.files[0].name
    kept = requests.read_bytes()
    requests.unlink()
    with pytest.raises(ConfigError, match="the requests cannot be read"):
        submit_batch(job.path)
    requests.write_bytes(kept)
    submit_batch(job.path)
    requests.write_text("{}", encoding="utf-8")
    with pytest.raises(ConfigError, match="the requests were changed"):
        collect_batch(job.path)
    requests.write_bytes(kept)
    (job.path / "state.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"state.json: damaged"):
        collect_batch(job.path)


def test_a_disk_that_is_full_is_one_clear_error(
    service: BatchService, answered: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = prepare(tmp_path, log=answered)
    submit_batch(job.path)

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(whole_files.os, "fsync", full)
        with pytest.raises(ConfigError, match="No space left on device.*run the same command again"):
            collect_batch(job.path)
    assert collect_batch(job.path).run is not None


def test_another_process_that_has_the_run_is_named(service: BatchService, answered: Path, tmp_path: Path) -> None:
    job = prepare(tmp_path, log=answered)
    state = load_state(job.path)
    with batch_jobs.open_job(state, state.key), pytest.raises(ConfigError, match="under way in another process"):
        submit_batch(job.path)
    assert submit_batch(job.path).next_step == "wait"


@pytest.mark.parametrize(
    ("fault", "kind", "why"),
    [
        (error(401, f"Incorrect API key provided: {KEY}"), ConfigError, "check OPENAI_API_KEY"),
        (error(429, "quota", code="insufficient_quota"), ConfigError, "quota is used up"),
        (error(404, "nothing here"), ConfigError, "has the service .* a batch endpoint"),
        (error(422, f"no such model {KEY}"), ProviderError, "refused it"),
    ],
)
def test_what_the_service_refuses_is_told_without_the_key(
    service: BatchService, answered: Path, tmp_path: Path, fault: Reply, kind: type[Exception], why: str
) -> None:
    service.create_replies = [fault]
    job = prepare(tmp_path, log=answered)
    with pytest.raises(kind, match=why) as caught:
        submit_batch(job.path)
    assert KEY not in str(caught.value)
    assert service.calls["POST /v1/batches"] == 1
    assert submit_batch(job.path).next_step == "wait"


@pytest.mark.slow
def test_a_service_that_is_away_is_told(
    service: BatchService, answered: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    job = prepare(tmp_path, log=answered)
    with pytest.raises(ProviderError, match="cannot be reached"):
        submit_batch(job.path)


def test_the_key_is_in_no_file(service: BatchService, answered: Path, tmp_path: Path) -> None:
    service.outcomes = [Outcome(errors=({"code": "invalid", "message": f"bad key {KEY}", "line": 1},))]
    service.reply = lambda request: error(401, f"Incorrect API key provided: {KEY}")
    job = prepare(tmp_path, log=answered)
    seen = b""
    for _ in range(3):
        submit_batch(job.path)
        seen += b"".join(path.read_bytes() for path in (tmp_path / "logs").rglob("*") if path.is_file())
        try:
            job = collect_batch(job.path)
        except ProviderError as failure:
            seen += str(failure).encode()
        seen += repr(job).encode()
        seen += b"".join(path.read_bytes() for path in (tmp_path / "logs").rglob("*") if path.is_file())
    assert b"[key]" in seen
    assert KEY.encode() not in seen


# -- the lines of files


def test_files_are_split_at_the_services_limits(
    service: BatchService, answered: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_files, "MAX_REQUESTS", 3)
    service.max_requests = 3
    job = prepare(tmp_path, log=answered, judge_repeats=2)
    assert [file.requests for file in job.files] == [3, 3, 2]
    assert [file.name for file in job.files] == [f"{job.path.stem}-r1-00{n}.jsonl" for n in (1, 2, 3)]
    longest = max(file.size_bytes for file in job.files)
    monkeypatch.setattr(batch_files, "MAX_BYTES", longest - 1)
    job = prepare(tmp_path, log=answered, judge_repeats=2)
    assert [file.requests for file in job.files] != [3, 3, 2]
    assert all(file.size_bytes < longest for file in job.files)
    assert [file.size_bytes for file in job.files] == [(job.path / file.name).stat().st_size for file in job.files]
    run = finish(job, rounds=1)
    assert len(service.requests) == 8
    assert run.usage.calls == 8

    monkeypatch.setattr(batch_files, "MAX_BYTES", 100)
    with pytest.raises(ConfigError, match="round1-s0-r0-t0: the request has .* bytes, and a file may have 100"):
        prepare(tmp_path, log=answered)
    folders = [path for path in (tmp_path / "logs").iterdir() if path.is_dir()]
    assert folders == []  # the finished one is gone, and nothing is left of this one
    assert not list((tmp_path / "logs").glob("*.partial.jsonl"))


def test_the_limits_are_the_services() -> None:
    assert (batch_files.MAX_REQUESTS, batch_files.MAX_BYTES) == (50_000, 200_000_000)


texts = st.text(max_size=40)


@pytest.mark.slow
@given(
    requests=st.lists(st.tuples(st.sampled_from(["a", "b", "c"]), texts), max_size=30),
    max_requests=st.integers(1, 7),
    max_bytes=st.integers(500, 1500),
)
def test_splitting_keeps_every_request_in_order_and_every_file_within_the_limits(
    tmp_path_factory: pytest.TempPathFactory, requests: list[tuple[str, str]], max_requests: int, max_bytes: int
) -> None:
    folder = tmp_path_factory.mktemp("requests")
    lines = [
        (Line(i, i % 2 or None), f"round1-{i}", {"model": model, "messages": [text]})
        for i, (model, text) in enumerate(requests)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch_files, "MAX_BYTES", max_bytes)
        files: list[RequestFile] = write_requests(folder, "judge_eval", iter(lines), max_requests=max_requests)
    assert sorted(path.name for path in folder.iterdir()) == [file.name for file in files]
    read: dict[str, list[str]] = {}
    for file in files:
        found = list(load_requests(folder / file.name))
        assert 1 <= len(found) == file.requests <= max_requests
        assert (folder / file.name).stat().st_size == file.size_bytes <= max_bytes
        assert {body["model"] for _, body in found} == {file.model}
        read.setdefault(file.model, []).extend(custom_id for custom_id, _ in found)
    written: dict[str, list[str]] = {}
    for _, custom_id, body in lines:
        written.setdefault(body["model"], []).append(custom_id)
    assert read == written
    assert sum(file.answers for file in files) == sum(line.repeat is None for line, _, _ in lines)


@given(st.integers(0, 10**6), st.none() | st.integers(0, 99), st.integers(0, 9), st.integers(1, 99))
def test_a_custom_id_tells_its_line_in_its_round_only(sample: int, repeat: int | None, turn: int, number: int) -> None:
    line = Line(sample, repeat, turn if repeat is not None else 0)
    assert parse_custom_id(line.custom_id(number), number) == line
    assert parse_custom_id(line.custom_id(number), number + 1) is None


@given(st.lists(st.tuples(texts, texts), max_size=8), st.binary(max_size=60))
def test_reading_gives_every_line_and_stumbles_over_none(replies: list[tuple[str, str]], junk: bytes) -> None:
    junk = junk.replace(b"\n", b"")
    whole = [
        json.dumps({"custom_id": custom_id, "response": {"status_code": 200, "body": {"said": text}}}).encode()
        for custom_id, text in replies
    ]
    found = list(parse_replies(b"\n".join([*whole, junk, b""])))
    good = [(custom_id, body["said"]) for custom_id, body in found[: len(replies)]]
    assert [custom_id for custom_id, _ in good] == [batch_files.from_json(json.dumps(c).encode()) for c, _ in replies]
    assert len(found) == len(replies) + bool(junk.strip())
    assert all(isinstance(reply, batch_files.Failure) for _, reply in found[len(replies) :])


@pytest.mark.parametrize(
    ("line", "message", "status"),
    [
        ('{"custom_id": "x", "response": null, "error": {"code": "batch_expired", "message": "late"}}', "late", 0),
        ('{"custom_id": "x", "response": {"status_code": 500, "body": {"error": {"message": "m"}}}}', "m", 500),
        ('{"custom_id": "x", "response": {"status_code": 200, "body": {}}, "error": "odd"}', "odd", 200),
        ('{"custom_id": "x", "response": {"status_code": 429, "body": "slow"}}', "slow", 429),
        ('{"custom_id": "x", "response": {"status_code": "?"}}', "no reason given", 0),
        ('{"custom_id": "x"}', "no reason given", 0),
    ],
)
def test_every_kind_of_failure_tells_its_reason(line: str, message: str, status: int) -> None:
    ((custom_id, failure),) = parse_replies(line.encode())
    assert (custom_id, failure.message, failure.status_code) == ("x", message, status)


@pytest.mark.slow
def test_estimates_are_half_the_list_price(
    service: BatchService, index: RunbookIndex, questions: list[EvalQuestion], tmp_path: Path
) -> None:
    from socjudge import estimate_run

    whole = estimate_run(questions, assistant_model=MODEL, judge_model=MODEL, k=5)
    job = prepare(tmp_path, index=index, assistant_model=MODEL)
    assert whole.cost_usd is not None
    assert (job.rest.calls, job.rest.input_tokens, job.rest.output_tokens) == (
        whole.calls, whole.input_tokens, whole.output_tokens,
    )  # fmt: skip
    assert job.rest.cost_usd == pytest.approx(whole.cost_usd / 2)
    assert job.estimate.calls == 10
    unknown = prepare(tmp_path, index=index, assistant_model="offline", judge_model="my-7b")
    assert unknown.rest.cost_usd is None


def test_stored_answers_without_text_are_failed_rows_and_not_sent(
    service: BatchService, questions: list[EvalQuestion], tmp_path: Path
) -> None:
    earlier = run_evaluation_suite(
        questions[:2], answers=[AssistantAnswer("q", ""), AssistantAnswer("q", "答え")], judge_model="offline",
        logs_dir=tmp_path / "earlier", progress=False,
    )  # fmt: skip
    run = finish(prepare(tmp_path, log=earlier.log_path), rounds=1)
    assert len(service.requests) == 1
    assert [r.evaluation.status for r in run.results] == ["failed", "ok"]
    assert "nothing to judge" in run.results[0].evaluation.error


# -- the command line


def command(*arguments: str) -> Any:
    """The command's outcome, in this process: `exit_code`, `stdout`, `stderr`."""
    return CliRunner(env={"NO_COLOR": "1", "COLUMNS": "120"}).invoke(app, ["batch", *arguments])


@pytest.mark.slow
def test_the_commands_from_end_to_end(
    service: BatchService, index: RunbookIndex, dataset: Path, tmp_path: Path
) -> None:
    place = ["--logs-dir", str(tmp_path / "logs")]
    models = ["--judge-model", MODEL, "--assistant-model", MODEL, "--index-dir", str(index.index_dir)]
    prepared = command("prepare", "--dataset", str(dataset), *models, *place)
    assert prepared.exit_code == 0, prepared.stderr
    assert "0 of 3 judged answers, round 1" in prepared.stdout
    assert "3 requests" in prepared.stdout
    assert "In all, later rounds too: 6 calls" in prepared.stdout
    assert "at half the list price" in prepared.stdout
    assert not service.calls

    refused = command("submit", *place)
    assert refused.exit_code == 2
    assert "コストがかかります: 3 calls" in refused.stderr
    assert "--yes" in refused.stderr
    assert not service.calls

    service.outcomes = [Outcome(ended=False)]
    submitted = command("submit", "--yes", *place)
    assert submitted.exit_code == 0, submitted.stderr
    assert "Next: wait for the service" in submitted.stdout
    assert command("collect", *place).exit_code == 3
    service.end()
    status = command("status", *place)
    assert status.exit_code == 0
    assert "completed, 3 done, 0 failed" in status.stdout
    assert "Next: socjudge batch collect" in status.stdout

    first = command("collect", *place)
    assert first.exit_code == 3
    assert "Next: socjudge batch submit (3 calls" in first.stdout
    (folder,) = (tmp_path / "logs").glob("*.batch")
    assert command("submit", str(folder), "-y").exit_code == 0
    last = command("collect", str(folder))
    assert last.exit_code == 0, last.stderr
    assert "**✅ MVP合格**" in last.stdout
    assert f"cost: ${6 * CALL_USD / 2:.4f}" in last.stderr
    (log,) = (tmp_path / "logs").glob("judge_eval_*.json")
    assert f"評価完了！結果を {log} に保存しました" in last.stdout
    assert not any(KEY in done.stdout + done.stderr for done in (prepared, refused, submitted, status, first, last))


@pytest.mark.parametrize(("score", "code", "said"), [(60, 1, "❌ MVP不合格"), (None, 2, "⚠️ undecided")])
def test_exit_codes_of_collect_are_those_of_run(
    service: BatchService, answered: Path, tmp_path: Path, score: int | None, code: int, said: str
) -> None:
    service.reply = lambda request: "採点できません" if score is None else judgement(score)
    job = prepare(tmp_path, log=answered)
    done = None
    while done is None or done.exit_code == 3:
        submit_batch(job.path)
        done = command("collect", str(job.path))
    assert done.exit_code == code
    assert f"**{said}" in done.stdout


@pytest.mark.slow
def test_a_process_of_its_own_collects_too(service: BatchService, answered: Path, tmp_path: Path) -> None:
    job = prepare(tmp_path, log=answered)
    submit_batch(job.path)
    done = socjudge("batch", "collect", str(job.path), OPENAI_API_KEY=KEY, OPENAI_BASE_URL=service.base_url)
    assert done.returncode == 0, done.stderr
    assert "**✅ MVP合格**" in done.stdout
    assert KEY not in done.stdout + done.stderr


def test_several_jobs_are_not_mixed_up_and_none_is_said(service: BatchService, answered: Path, tmp_path: Path) -> None:
    place = ["--logs-dir", str(tmp_path / "logs")]
    none = command("status", *place)
    assert none.exit_code == 2
    assert "no unfinished batch job" in none.stderr
    jobs = [prepare(tmp_path, log=answered, judge_repeats=n).path for n in (1, 2)]
    several = command("status", *place)
    assert several.exit_code == 2
    assert all(str(path) in several.stderr for path in jobs)
    gone = command("collect", str(tmp_path / "nowhere"))
    assert gone.exit_code == 2
    assert "no batch job there" in gone.stderr


def test_a_log_is_prepared_from_the_command_line(service: BatchService, answered: Path, tmp_path: Path) -> None:
    done = command("prepare", "--log", str(answered), "--judge-model", MODEL, "--logs-dir", str(tmp_path / "logs"))
    assert done.exit_code == 0, done.stderr
    assert "4 requests" in done.stdout
    refused = command("prepare", "--log", str(answered), "--judge-model", "offline")
    assert refused.exit_code == 2
    assert "socjudge run is free" in refused.stderr
