"""A run in a process of its own, for tests that kill it. Imports little, for each process imports it anew."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from socjudge import AssistantAnswer, EvalQuestion, RunOptions, run_evaluation_suite


def judge_all(key: str, base_url: str, logs: Path, count: int, stderr: Path, most_bytes: int | None = None) -> None:
    """A run of `count` questions by a service; what it says goes to the end of the file `stderr`.

    most_bytes: that a file may take, as under a quota."""
    if most_bytes is not None:
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, resource.RLIM_INFINITY))
    os.dup2(os.open(stderr, os.O_CREAT | os.O_WRONLY | os.O_APPEND), 2)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in what a script started in the background
    os.environ.update(OPENAI_API_KEY=key, OPENAI_BASE_URL=base_url)
    questions = [EvalQuestion(i, "正常系", f"質問{i}", ("要点",)) for i in range(count)]
    answers = [AssistantAnswer(q.question, f"回答{q.id}", "文脈") for q in questions]
    run_evaluation_suite(
        questions,
        answers=answers,
        judge_model="gpt-4o-mini",
        logs_dir=logs,
        progress=False,
        options=RunOptions(max_concurrency=8),
    )
