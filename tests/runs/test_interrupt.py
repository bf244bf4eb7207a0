"""The stop button of a notebook (■) while a run is under way: what to do next is the last thing that is shown."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.service import Service

pytestmark = [pytest.mark.kernel, pytest.mark.slow]

CELL = """
import socjudge as sj
questions = [sj.EvalQuestion(i, "正常系", f"質問{{i}}", ("要点",)) for i in range(40)]
answers = [sj.AssistantAnswer(question.question, "回答") for question in questions]
judge, options = "gpt-4o-mini", sj.RunOptions(max_concurrency=2)
sj.run_evaluation_suite(questions, answers=answers, judge_model=judge, logs_dir={folder!r}, options=options)
"""


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
