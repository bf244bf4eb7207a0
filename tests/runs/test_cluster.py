"""executor=: the same run made by processes elsewhere. Dask's here are real, with a service on loopback."""

from __future__ import annotations

import logging
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cloudpickle
import pytest
from conftest import ANSWER, ROOT
from langchain_core.language_models import FakeListChatModel
from support import own_prices
from support.own_prices import set_prices
from support.runs import with_options
from support.service import KEY, Reply, Service, error, is_judge_call, judgement, serving

from socjudge import (
    AssistantAnswer,
    ConfigError,
    EvalQuestion,
    EvaluationRun,
    RunStopped,
    constants,
    load_eval_dataset,
    load_run,
    run_evaluation_suite,
    unfinished_runs,
)
from socjudge.errors import BudgetReached, ProviderError, RequestRefused
from socjudge.models import event_loop as background
from socjudge.models.opening import open_model
from socjudge.runbooks.index import RunbookIndex

pytestmark = pytest.mark.cluster

WORKER_KEY = "sk-test-of-the-workers-0123456789"
THREADS = 4  # of each of the two workers
QUESTIONS = load_eval_dataset()


def reply(request: dict[str, Any]) -> str:
    """What the model says depends on the question alone, so that two runs can be compared."""
    content = request["messages"][0]["content"]
    (number,) = [q.id for q in QUESTIONS if q.question in content]
    return judgement(60 + 3 * int(number)) if is_judge_call(request) else f"{number}. {ANSWER}"


@pytest.fixture(scope="module")
def chat() -> Iterator[Service]:
    with serving(reply) as running:
        yield running


@pytest.fixture(scope="module")
def client(chat: Service) -> Iterator[Any]:
    """A client of two Dask workers, processes of their own with an environment of their own."""
    from distributed import Client, LocalCluster

    environment = {"OPENAI_API_KEY": WORKER_KEY, "OPENAI_BASE_URL": chat.base_url}
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=THREADS, processes=True, dashboard_address=":0",
            silence_logs=logging.CRITICAL, env=environment, preload=own_prices.__file__,
        ) as cluster,
        Client(cluster) as client,
    ):  # fmt: skip
        yield client


@pytest.fixture
def service(chat: Service, monkeypatch: pytest.MonkeyPatch) -> Service:
    """The workers' service as if it were new, and this process's environment pointing to it."""
    chat.default, chat.script = reply, []
    chat.requests.clear()
    chat.keys.clear()
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_BASE_URL", chat.base_url)
    return chat


def run_suite(questions: list[EvalQuestion], tmp_path: Path, **keywords: Any) -> EvaluationRun:
    keywords = {
        "assistant_model": "gpt-4o-mini",
        "judge_model": "gpt-4o-mini",
        "logs_dir": tmp_path / "logs",
        **keywords,
    }
    return run_evaluation_suite(questions, progress=False, **with_options(**keywords))


def stored(questions: list[EvalQuestion]) -> list[AssistantAnswer]:
    return [AssistantAnswer(q.question, f"回答{q.id}", "文脈") for q in questions]


def substance(run: EvaluationRun) -> list[Any]:
    """What has to be the same wherever a run was made; vectors may differ in their last bits."""
    return [
        (r.question, r.answer.answer, [replace(p, score=round(p.score, 4)) for p in r.answer.passages], r.answer.flags, r.answer.usage, r.answer_repeat,
         r.judge_repeat, r.evaluation.scores, r.evaluation.status, r.evaluation.usage, r.evaluation.rationale)
        for r in run.results
    ]  # fmt: skip


def asked(service: Service) -> Counter[str]:
    """How often each request was made."""
    return Counter(request["messages"][0]["content"] for request in service.requests)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def in_background(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


class Recorder(Executor):
    """Threads that get what is submitted as other machines would: pickled. `sent` holds it."""

    def __init__(self) -> None:
        self.pool = ThreadPoolExecutor(8)
        self.sent: list[bytes] = []

    def submit(self, function: Any, /, *arguments: Any, **keywords: Any) -> Future[Any]:
        self.sent.append(cloudpickle.dumps((function, arguments, keywords)))
        return self.pool.submit(self._work, self.sent[-1])

    def _work(self, sent: bytes) -> Any:
        function, arguments, keywords = pickle.loads(sent)
        self.sent.append(cloudpickle.dumps(function(*arguments, **keywords)))
        return pickle.loads(self.sent[-1])


# -- the same run


def test_an_offline_run_is_the_same_on_a_cluster(client: Any, index: RunbookIndex, tmp_path: Path) -> None:
    models = {"assistant_model": "offline", "judge_model": "offline"}
    here = run_suite(QUESTIONS[:2], tmp_path, index=index, **models)
    there = run_suite(QUESTIONS[:2], tmp_path, index=index, executor=client.get_executor(), **models)
    assert substance(there) == substance(here)
    assert there.log_path is not None
    assert load_run(there.log_path) == there


def test_a_hosted_run_is_the_same_on_a_cluster_and_asks_everything_once(
    service: Service, client: Any, index: RunbookIndex, tmp_path: Path
) -> None:
    here = run_suite(QUESTIONS, tmp_path, index=index)
    assert set(service.keys) == {f"Bearer {KEY}"}
    expected = asked(service)
    service.requests.clear()
    service.keys.clear()
    there = run_suite(QUESTIONS, tmp_path, index=index, executor=client.get_executor())
    assert substance(there) == substance(here)
    assert len({r.evaluation.average_score for r in there.results}) == 10
    assert asked(service) == expected
    assert set(expected.values()) == {1}
    assert len(expected) == 20
    assert set(service.keys) == {f"Bearer {WORKER_KEY}"}  # workers use the key of their own environment


def test_repeats_are_real_calls_on_a_cluster(service: Service, client: Any, tmp_path: Path) -> None:
    run = run_suite(
        QUESTIONS[:2], tmp_path, answers=stored(QUESTIONS[:2]), judge_repeats=3, executor=client.get_executor()
    )
    assert set(asked(service).values()) == {3}
    assert [(r.question.id, r.judge_repeat) for r in run.results] == [(q, r) for q in (1, 2) for r in (0, 1, 2)]
    assert run.run.judge_usage.calls == 6


def test_a_process_pool_gives_the_same_and_its_death_loses_nothing(service: Service, tmp_path: Path) -> None:
    here = run_suite(QUESTIONS[:3], tmp_path, answers=stored(QUESTIONS[:3]))
    with ProcessPoolExecutor(
        2, mp_context=multiprocessing.get_context("spawn"), initializer=own_prices.stand_in
    ) as pool:
        there = run_suite(QUESTIONS[:3], tmp_path, answers=stored(QUESTIONS[:3]), executor=pool)
        assert substance(there) == substance(here)
        service.requests.clear()
        judged = threading.Event()

        def hold_the_last(request: dict[str, Any]) -> str:
            if len(service.requests) > 4:
                judged.wait(30)
            return reply(request)

        def kill() -> None:
            wait_until(lambda: len(service.requests) > 4)
            os.kill(next(iter(pool._processes)), signal.SIGKILL)
            judged.set()

        service.default = hold_the_last
        killing = in_background(kill)
        with pytest.raises(ConfigError, match=r"the executor is gone \(BrokenProcessPool.*\n.*are safe in"):
            run_suite(QUESTIONS, tmp_path, answers=stored(QUESTIONS), executor=pool, max_concurrency=2)
        killing.join()
    (unfinished,) = unfinished_runs(tmp_path / "logs")
    done = unfinished.done
    assert 3 <= done <= len(service.requests)
    service.requests.clear()
    run_suite(QUESTIONS, tmp_path, answers=stored(QUESTIONS))
    assert len(service.requests) == 10 - done


def test_socjudge_does_not_need_dask() -> None:
    code = "import sys, socjudge.runs.executor, socjudge.runs.suite; print({'dask', 'distributed'} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert found.stdout.strip() == "set()"


# -- what is sent, and to whom


def test_no_key_is_in_what_is_sent_or_comes_back(service: Service, index: RunbookIndex, tmp_path: Path) -> None:
    pytest.importorskip("distributed")  # once it is imported, an error is pickled with its causes
    executor = Recorder()
    service.script = [Reply(ANSWER), Reply("読めません"), error(400, f"{KEY} is wrong", code="content_filter")]
    run = run_suite(QUESTIONS[:2], tmp_path, index=index, executor=executor, max_cost_usd=1.0, max_concurrency=1)
    assert len(service.requests) == 5
    assert {r.evaluation.status for r in run.results} == {"ok", "failed"}  # asked again, it refused
    assert len(executor.sent) == 10
    assert QUESTIONS[0].question.encode() in executor.sent[0]  # texts can be seen in it, so a key could be
    assert not any(KEY.encode() in sent for sent in executor.sent)


@pytest.mark.parametrize("model", [open_model("offline"), FakeListChatModel(responses=["x"])])
def test_open_models_are_not_sent(service: Service, tmp_path: Path, model: Any) -> None:
    with ThreadPoolExecutor() as pool, pytest.raises(ConfigError, match="name the models by strings"):
        run_suite(QUESTIONS, tmp_path, answers=stored(QUESTIONS), judge_model=model, executor=pool)


def test_a_client_is_not_its_executor(service: Service, client: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"executor= is a Client; of a Dask client, pass client.get_executor\(\)"):
        run_suite(QUESTIONS, tmp_path, answers=stored(QUESTIONS), executor=client)


def test_auto_is_the_model_of_the_driver(service: Service, client: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(constants, "DEFAULT_JUDGE_MODEL", "gpt-4o")  # in this session alone
    run_suite(
        QUESTIONS[:1], tmp_path, answers=stored(QUESTIONS[:1]), judge_model="auto", executor=client.get_executor()
    )
    assert [request["model"] for request in service.requests] == ["gpt-4o"]


def test_a_worker_that_would_ask_another_service_is_refused(
    service: Service, client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    with pytest.raises(ConfigError, match=rf"address .*'{service.base_url}.* on a worker and .*http://127.0.0.1:9"):
        run_suite(QUESTIONS, tmp_path, answers=stored(QUESTIONS), executor=client.get_executor())
    assert service.requests == []


def test_a_run_has_its_own_rubric_whatever_a_worker_has_set(
    service: Service, client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "JUDGE_PASS_THRESHOLD", 85.0)  # in this session alone
    run = run_suite(QUESTIONS, tmp_path, answers=stored(QUESTIONS), executor=client.get_executor())
    passed = [result.evaluation.average_score >= 85 for result in run.results]
    assert run.rubric.pass_threshold == 85 and [r.evaluation.passed for r in run.results] == passed
    assert run.summary.passed_questions == sum(passed) < len(QUESTIONS)


def test_prices_that_are_known_in_one_place_only_are_refused(
    service: Service, client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_prices(tmp_path, monkeypatch, {"gpt-4o-mini": (1, 2)})
    with pytest.raises(ConfigError, match="price of gpt-4o-mini are .* on a worker"):
        run_suite(QUESTIONS, tmp_path, answers=stored(QUESTIONS), executor=client.get_executor())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_forked_processes_are_refused(service: Service, tmp_path: Path) -> None:
    background.get_loop()
    forking = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(1, forking) as pool, pytest.raises(ConfigError, match="was forked from one.*spawn"):
        run_suite(QUESTIONS, tmp_path, answers=stored(QUESTIONS), executor=pool)
    assert service.requests == []


# -- failures and stops


def test_a_wrong_key_on_the_workers_ends_the_run_and_keeps_what_was_paid_for(
    service: Service, client: Any, tmp_path: Path
) -> None:
    service.script = [Reply(judgement(80))] * 3
    service.default = error(401, f"Incorrect API key provided: {WORKER_KEY}")
    with pytest.raises(
        ConfigError, match=r"refused the key \(401\).*\(on the worker .*\)\n3 of 10 .* safe in"
    ) as caught:
        run_suite(QUESTIONS, tmp_path, answers=stored(QUESTIONS), executor=client.get_executor(), max_concurrency=2)
    assert WORKER_KEY not in str(caught.value)
    assert len(service.requests) <= 5  # two at once: none of them went on after the refusal
    (unfinished,) = unfinished_runs(tmp_path / "logs")
    assert unfinished.done == 3
    service.requests.clear()
    service.default = reply
    run_suite(QUESTIONS, tmp_path, answers=stored(QUESTIONS), executor=client.get_executor())
    assert len(service.requests) == 7


def test_a_refused_question_is_a_row_on_a_cluster(service: Service, client: Any, tmp_path: Path) -> None:
    service.script = [error(400, "The response was filtered", code="content_filter")]
    run = run_suite(
        QUESTIONS[:3], tmp_path, answers=stored(QUESTIONS[:3]), executor=client.get_executor(), max_concurrency=1
    )
    assert [r.evaluation.status for r in run.results] == ["failed", "ok", "ok"]
    assert "filtered" in run.results[0].evaluation.error


def test_a_stop_lets_calls_in_flight_finish_and_begins_no_other(service: Service, client: Any, tmp_path: Path) -> None:
    stop, released = threading.Event(), threading.Event()

    def hold(request: dict[str, Any]) -> str:
        released.wait(30)
        return reply(request)

    def stop_when_busy() -> None:
        wait_until(lambda: len(service.requests) == 2 * THREADS)
        stop.set()
        time.sleep(0.5)
        released.set()

    service.default = hold
    stopping = in_background(stop_when_busy)
    with pytest.raises(RunStopped, match=f"{2 * THREADS} of 20 judged answers are safe"):
        run_suite(
            QUESTIONS, tmp_path, answers=stored(QUESTIONS), judge_repeats=2, executor=client.get_executor(),
            max_concurrency=2 * THREADS, stop=stop,
        )  # fmt: skip
    stopping.join()
    assert len(service.requests) == 2 * THREADS
    run_suite(QUESTIONS, tmp_path, answers=stored(QUESTIONS), judge_repeats=2, executor=client.get_executor())
    assert set(asked(service).values()) == {2}
    assert len(service.requests) == 20


def test_a_reply_that_cannot_be_read_is_kept_and_not_asked_for_again(service: Service, tmp_path: Path) -> None:
    arguments: dict[str, Any] = {"answers": stored(QUESTIONS[:2]), "max_concurrency": 1}
    service.script = [Reply(judgement(80)), Reply("読めません"), error(401, "Incorrect API key provided")]
    with ThreadPoolExecutor() as pool:
        with pytest.raises(ConfigError, match="refused the key"):
            run_suite(QUESTIONS[:2], tmp_path, executor=pool, **arguments)
        run = run_suite(QUESTIONS[:2], tmp_path, executor=pool, **arguments)
    assert len(service.requests) == 4
    assert [r.evaluation.attempts for r in run.results] == [1, 2]
    assert run.run.judge_usage.calls == 3
    assert "読み取れません" in service.requests[-1]["messages"][-1]["content"]


def test_the_budget_holds_behind_an_executor(service: Service, index: RunbookIndex, tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        with pytest.raises(BudgetReached) as caught:
            run_suite(QUESTIONS, tmp_path, index=index, executor=pool, max_cost_usd=0.009, k=5)
        assert 3 <= len(service.requests) < 20
        assert f"${len(service.requests) * 0.00027:.4f} are spent" in str(caught.value)
        run = run_suite(QUESTIONS, tmp_path, index=index, executor=pool, max_cost_usd=0.1, k=5)
    assert run.usage.cost_usd == pytest.approx(20 * 0.00027)
    assert len(service.requests) == 20


def test_a_call_without_a_reply_is_made_again_and_counted_in_the_budget(service: Service, tmp_path: Path) -> None:
    executor = Recorder()
    arguments: dict[str, Any] = {"answers": stored(QUESTIONS[:2]), "max_concurrency": 1, "executor": executor}
    service.script = [Reply(drop=True), Reply(drop=True), Reply(judgement(80))]
    run = run_suite(QUESTIONS[:2], tmp_path, max_cost_usd=0.1, **arguments)
    assert [r.evaluation.usage.lost_calls for r in run.results] == [2, 0]
    assert len(service.requests) == 4
    for budget in (None, 0.1):
        service.script = [Reply(judgement(80)), *[Reply(drop=True)] * 5]
        with pytest.raises(ProviderError, match="did not deliver 1 judged answer"):
            run_suite(QUESTIONS[:2], tmp_path, max_cost_usd=budget, fresh=True, **arguments)
        assert service.script == []
    service.requests.clear()
    service.default = Reply(drop=True)
    with pytest.raises(
        BudgetReached
    ):  # a call that may have been billed counts with the most that it can cost, about $0.003
        run_suite(QUESTIONS[:2], tmp_path, max_cost_usd=0.008, fresh=True, **arguments)
    assert len(service.requests) == 2


class Losing(Executor):
    """An executor that has this to say to its second and later calls."""

    def __init__(self, problem: BaseException | None) -> None:
        self.problem, self.submitted = problem, 0
        self.pool = ThreadPoolExecutor(1)

    def submit(self, function: Any, /, *arguments: Any, **keywords: Any) -> Future[Any]:
        self.submitted += 1
        if self.submitted == 1:
            return self.pool.submit(function, *arguments, **keywords)
        future: Future[Any] = Future()
        if self.problem is not None:
            future.set_exception(self.problem)
        else:
            future.cancel()
            future.set_running_or_notify_cancel()
        return future


def test_an_errand_that_kills_its_workers_is_a_row_that_says_so(service: Service, tmp_path: Path) -> None:
    from distributed.scheduler import KilledWorker

    service.default = judgement(80)
    executor = Losing(KilledWorker("errand-1", SimpleNamespace(address="tcp://127.0.0.1:1"), 3))
    run = run_suite(
        QUESTIONS[:3], tmp_path, answers=stored(QUESTIONS[:3]), judge_model="offline", executor=executor,
        max_concurrency=1,
    )  # fmt: skip
    assert [r.evaluation.status for r in run.results] == ["ok", "failed", "failed"]
    assert "the executor failed (KilledWorker: Attempted to run task" in run.results[1].evaluation.error
    assert run.results[1].evaluation.usage.lost_calls == 1


def test_a_cluster_that_was_closed_ends_the_run_and_keeps_what_was_done(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"the executor is gone \(CancelledError\).*\n1 of 3 judged answers are safe"):
        run_suite(
            QUESTIONS[:3], tmp_path, answers=stored(QUESTIONS[:3]), judge_model="offline", executor=Losing(None),
            max_concurrency=1,
        )  # fmt: skip


@pytest.mark.parametrize("kind", [ConfigError, ProviderError, RequestRefused, RunStopped, BudgetReached])
def test_errors_travel_whole(kind: type[Exception]) -> None:
    problem = kind("何かが違います")
    problem.lost_calls = 3  # type: ignore[attr-defined]
    there = pickle.loads(pickle.dumps(problem))
    assert (type(there), str(there), there.lost_calls) == (kind, "何かが違います", 3)


# The last one, because the worker takes a while to come back.
def test_a_killed_worker_costs_its_calls_in_flight_and_nothing_else(
    service: Service, client: Any, tmp_path: Path
) -> None:
    killed = threading.Event()

    def hold(request: dict[str, Any]) -> str:
        killed.wait(30)
        return reply(request)

    def kill() -> None:
        pid = next(iter(client.run(os.getpid).values()))
        wait_until(lambda: len(service.requests) > THREADS)  # so both workers have begun
        os.kill(pid, signal.SIGKILL)
        killed.set()

    service.default = hold
    killing = in_background(kill)
    run = run_suite(
        QUESTIONS, tmp_path, answers=stored(QUESTIONS), judge_repeats=2, executor=client.get_executor(),
        max_concurrency=2 * THREADS,
    )  # fmt: skip
    killing.join()
    assert 1 <= len(service.requests) - 20 <= THREADS
    assert run.log_path is not None
    rows = load_run(run.log_path).results
    assert Counter((r.question.id, r.judge_repeat) for r in rows) == Counter(
        (i, j) for i in range(1, 11) for j in (0, 1)
    )
    assert {r.evaluation.status for r in rows} == {"ok"}
    assert [r.evaluation.average_score for r in rows] == [60 + 3 * int(r.question.id) for r in rows]
