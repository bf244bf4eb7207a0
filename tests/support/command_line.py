"""The command `socjudge`, in a process of its own or in this one."""

from __future__ import annotations

import io
import multiprocessing
import os
import signal
import subprocess
import sys
import warnings
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import IO, Any

import pytest
from conftest import ROOT

from socjudge import AssistantAnswer, EvalQuestion, RunOptions, constants, run_evaluation_suite
from socjudge.cli.app import main
from socjudge.models import prices
from support.service import sell_on_loopback

TERMINAL = {"NO_COLOR": "1", "COLUMNS": "120"}


def socjudge(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own, as a user starts it."""
    keep = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")}
    return subprocess.run(
        [sys.executable, "-m", "socjudge", *arguments],
        capture_output=True, text=True, cwd=ROOT, env={**keep, **TERMINAL, **environment},
        stdin=subprocess.DEVNULL, timeout=120,
    )  # fmt: skip


def socjudge_here(
    *arguments: str, stdin: IO[str] | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """The same in this process, which has the libraries and the embedder already: for what a command does and says."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings(), Path(os.devnull).open() as nothing:
        for name in [name for name in os.environ if name.startswith("OPENAI_")]:
            patch.delenv(name)
        for name, value in {**TERMINAL, **environment}.items():
            patch.setenv(name, value)
        patch.chdir(ROOT)
        for name, given in {
            "argv": ["socjudge", *arguments],
            "stdin": stdin or nothing,
            "stdout": out,
            "stderr": err,
        }.items():
            patch.setattr(sys, name, given)
        warnings.simplefilter("default", UserWarning)  # a line on stderr, as everywhere but under pytest
        project = constants.PROJECT_DIR
        with pytest.raises(SystemExit) as ended:
            main()
        if project != constants.PROJECT_DIR:  # by --project, for this command alone
            constants.use_project(project)
    told = [stream.detach().getvalue().decode() for stream in (out, err)]  # type: ignore[attr-defined]
    return subprocess.CompletedProcess(arguments, int(ended.value.code or 0), *told)


# --- A run in a process of its own, for tests that kill it. Imports little, for each process imports it anew

# Processes are forked from one that has imported these, which takes most of a start.
processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(
    ["pytest", "socjudge.runs.suite", "socjudge.models.openai_model", "openai.types.chat", "tqdm.auto"]
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
