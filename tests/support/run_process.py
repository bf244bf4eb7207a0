"""A run in a process of its own, for tests that kill it. Imports little, for each process imports it anew."""

from __future__ import annotations

import multiprocessing
import os
import signal
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from socjudge import AssistantAnswer, EvalQuestion, RunOptions, run_evaluation_suite
from socjudge.models import prices
from support.service import sell_on_loopback

# Processes are forked from one that has imported these, which takes most of a start.
processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(
    ["pytest", "socjudge.suite", "socjudge.providers", "openai", "openai.types.chat", "tqdm.auto"]
)


def started(
    service: Any, logs: Path, count: int, most_bytes: int | None = None, judging: dict[str, Any] | None = None
) -> ForkServerProcess:
    """A process that runs `judge_all` against a service."""
    arguments = (service.base_url, logs, count, logs.with_name("stderr.txt"), most_bytes, judging or {})
    process = processes.Process(target=judge_all, args=arguments, daemon=True)
    process.start()
    return process


def ended(process: ForkServerProcess) -> int | None:
    """The process's exit code, once it has ended."""
    process.join(120)
    return process.exitcode


def judge_all(
    base_url: str, logs: Path, count: int, stderr: Path, most_bytes: int | None, judging: dict[str, Any]
) -> None:
    """A run of `count` questions by a service; what it says goes to the end of the file `stderr`.

    most_bytes: that a file may take, as under a quota. judging: judge_model, max_cost_usd and what belongs into RunOptions."""
    if most_bytes is not None:
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, resource.RLIM_INFINITY))
    os.dup2(os.open(stderr, os.O_CREAT | os.O_WRONLY | os.O_APPEND), 2)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in what a script started in the background
    prices.door_of = sell_on_loopback  # type: ignore[assignment]
    os.environ.update(OPENAI_API_KEY="sk-test-0123456789abcdefghij", OPENAI_BASE_URL=base_url)
    questions = [EvalQuestion(i, "正常系", f"質問{i}", ("要点",)) for i in range(count)]
    answers = [AssistantAnswer(q.question, f"回答{q.id}", "文脈") for q in questions]
    how = {"judge_model": "gpt-4o-mini", "max_cost_usd": None, **judging}
    run_evaluation_suite(
        questions,
        answers=answers,
        judge_model=how.pop("judge_model"),
        max_cost_usd=how.pop("max_cost_usd"),
        logs_dir=logs,
        progress=False,
        options=RunOptions(max_concurrency=8, **how),
    )
