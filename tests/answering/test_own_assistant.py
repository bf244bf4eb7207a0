"""Assistants that are functions or chains: how they are called, what they may return, and what tells them apart."""

from __future__ import annotations

import asyncio
import functools
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from socjudge.answering.own_answers import as_answer
from socjudge.answering.own_assistant import Assistant
from socjudge.base.redact import redact
from socjudge.errors import ConfigError, NoAnswer, SocJudgeError


def plain(question: str) -> str:
    return f"{question}には、端末を隔離します。"


async def waiting(question: str) -> dict[str, Any]:
    await asyncio.sleep(0)
    return {"answer": "端末を隔離します[1]。", "contexts": ["端末を隔離する。"], "version": 3, "cost_usd": "0.01"}


def told(question: str, expected_keypoints: list[str]) -> str:
    return "、".join(expected_keypoints)


def test_a_function_is_given_the_question() -> None:
    answer = Assistant(plain).ask("初動")
    assert (answer.question, answer.answer) == ("初動", "初動には、端末を隔離します。")


def test_a_coroutine_may_say_more() -> None:
    answer = Assistant(waiting).ask("初動")
    assert (answer.version, answer.usage.cost_usd) == ("3", 0.01)
    assert answer.context == "[出典: 資料1]\n端末を隔離する。"


def test_nobody_is_told_what_is_expected() -> None:
    with pytest.raises(ConfigError, match="expected_keypoints"):
        Assistant(told)


@pytest.mark.parametrize("ask", [lambda: "", lambda a, b: a, 3, "no-such-bot"])
def test_what_cannot_be_asked_is_told(ask: Any) -> None:
    with pytest.raises(ConfigError):
        Assistant(ask)


def _exits(question: str) -> str:
    raise SystemExit(3)


def _echoes_key(question: str) -> str:
    raise RuntimeError("refused: Bearer sk-0123456789abcdef")


@pytest.mark.parametrize(
    ("ask", "cause"),
    [
        (_exits, "SystemExit"),
        (_echoes_key, "RuntimeError"),
        (lambda question: {"error": "out of credit"}, "out of credit"),
        (lambda question: "", "empty"),
    ],
)
def test_a_failure_of_the_assistant_is_no_answer(ask: Any, cause: str) -> None:
    with pytest.raises(NoAnswer, match=cause) as failure:
        Assistant(ask).ask("初動は。")
    assert "0123456789" not in str(failure.value)


@pytest.mark.parametrize(
    "name", ["BOT_AUTH", "BOT_PASS", "AZURE_KEY1", "GITHUB_PAT", "bot_api_key", "SMTPPASS", "DB_PASSWORD_2", "MY_PWD",
             "CLIENT_CREDENTIALS", "SLACK_SIG", "PROXY_AUTHORIZATION", "SESSION_COOKIE"],
)  # fmt: skip
def test_a_secret_of_the_environment_is_not_told(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "blue-horse-42")

    def fails(question: str) -> str:
        raise RuntimeError(f"401 for user soc, {os.environ[name]}")

    def says(question: str) -> dict[str, str]:
        return {"error": f"401 for user soc, {os.environ[name]}"}

    for ask in (fails, says, lambda question: {"answer": "x", "contexts": [{"key": os.environ[name]}]}):
        with pytest.raises(SocJudgeError) as told:
            Assistant(ask).ask("初動は。")
        assert "blue-horse" not in str(told.value) and (
            "[key]" in str(told.value) or "unknown field" in str(told.value)
        )


def test_what_is_no_secret_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    told = {"GIT_AUTHOR_NAME": "Yamada Taro", "KEYBOARD_LAYOUT": "jp-106", "AUTH_TYPE": "Bearer", "COMPAT": "version-2",
            "TOKENIZERS_PARALLELISM": "disabled", "SSH_AUTH_SOCK": "/tmp/agent.1", "SIGNAL": "SIGTERM"}  # fmt: skip
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    said = " ".join(text for name, text in told.items() if name != "AUTH_TYPE")
    assert redact(f"{said}: Bearer abcdefgh12345678") == f"{said}: [key]"


def test_a_password_in_an_address_of_the_environment_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgres://bot:blue%2Dhorse%2D42@db/soc")
    assert redact("login failed for bot with blue-horse-42") == "login failed for bot with [key]"


# -- functions that take longer than they may


def test_a_function_that_runs_on_counts_against_concurrency() -> None:
    going, running, most = threading.Event(), 0, 0
    lock = threading.Lock()

    def slow(question: str) -> str:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        going.wait(20)
        with lock:
            running -= 1
        return "隔離します。"

    assistant = Assistant(slow, name="slow", concurrency=2, timeout_s=0.3)
    try:
        for _ in range(2):
            with pytest.raises(NoAnswer, match=r"0\.3 seconds"):
                assistant.ask("初動は。")
        with pytest.raises(NoAnswer, match="2 earlier calls of slow still run"):
            assistant.ask("初動は。")
        assert (running, most) == (2, 2)
    finally:
        going.set()
    assert assistant.ask("初動は。").answer == "隔離します。"  # as soon as they have ended
    assert most == 2


@pytest.mark.parametrize(
    ("reply", "named"),
    [
        (3, "int"),
        ({"text": "x"}, "answer"),
        ({"answer": "x", "context": ["y"]}, "contexts"),
        ({"answer": "x", "contexts": [3]}, r"contexts\[0\]"),
        ({"answer": "x", "flags": {"danger": True}}, "danger"),
        ({"answer": "x", "cost_usd": -1}, "cost_usd"),
        ({"answer": "x", "input_tokens": True}, "input_tokens"),
    ],
)
def test_a_reply_of_another_form_is_told(reply: Any, named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        Assistant(lambda question: reply).ask("初動は。")


def test_names_in_contexts_cannot_end_a_citation() -> None:
    given = {"answer": "x", "contexts": [{"text": "y", "source": "a]b > c", "heading": "d\n[e"}]}
    assert as_answer(given).context == "[出典: a)b › c > d (e]\ny"


def test_a_chain_is_asked_with_its_one_key_and_its_documents_are_read() -> None:
    from langchain_core.documents import Document
    from langchain_core.prompts import PromptTemplate
    from langchain_core.runnables import RunnableLambda

    found = [Document("端末を隔離する。", metadata={"source": "malware.md"})]
    chain = PromptTemplate.from_template("{input}?") | RunnableLambda(
        lambda prompt: {"input": prompt.text, "result": prompt.text, "source_documents": found}
    )
    answer = Assistant(chain, name="chain", version="1").ask("初動")
    assert answer.answer == "初動?"
    assert [p.citation for p in answer.passages] == ["[出典: malware.md]"]
    assert Assistant(RunnableLambda(plain)).ask("初動").answer == plain("初動")


class Bot:
    def ask(self, question: str) -> str:
        return question

    __call__ = ask


def _closure() -> Any:
    here = "x"
    return lambda question: here


def _configured(question: str, client: Any = object()) -> str:  # noqa: B008
    return question


@pytest.mark.parametrize(
    "ask",
    [lambda question: question, _closure(), functools.partial(plain), Bot().ask, Bot(), _configured],
)
def test_what_has_no_code_of_its_own_needs_a_version_to_be_known_again(ask: Any) -> None:
    assert Assistant(ask).fingerprint != Assistant(ask).fingerprint
    assert "give it a version" in Assistant(ask).told_before
    named = [Assistant(ask, name="bot", version="3") for _ in range(2)]
    assert named[0].fingerprint == named[1].fingerprint


def _write(path: Path, code: str) -> Assistant:
    path.write_text(code, encoding="utf-8")
    return Assistant(f"{path}:ask")


def test_the_whole_file_of_a_function_is_its_fingerprint(tmp_path: Path) -> None:
    code = "def helper(q):\n    return q + '。'\n\ndef ask(q):\n    return helper(q)\n\ndef other(q):\n    return q\n"
    file = tmp_path / "mybot.py"
    first = _write(file, code)
    assert first.ask("はい").answer == "はい。"
    assert first.name == f"{file}:ask"
    assert _write(file, code).fingerprint == first.fingerprint
    assert Assistant(f"{file}:other").fingerprint != first.fingerprint
    assert _write(file, code.replace("'。'", "'！'")).fingerprint != first.fingerprint
