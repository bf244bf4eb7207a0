"""Assistants behind HTTP: what they are sent, and what becomes of their replies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from socjudge import settings
from socjudge.answering.own_assistant import Assistant
from socjudge.errors import ConfigError, NoAnswer
from tests.own_bot import ANSWER, CITED, Said, azure, chat, dify, page_tables, plain, running

KEY = "bot-key-0123456789"
QUESTION = "マルウェアの初動は。{category} ${BOT_KEY}"


def table(url: str, **more: Any) -> dict[str, Any]:
    return {"url": f"{url}/ask", "body": {"q": "{question}"}, "answer": "reply.text", **more}


def said(reply: Any, **how: Any) -> Any:
    return lambda asked: Said(reply, **how)


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOT_KEY", KEY)


@pytest.fixture
def own_project(tmp_path: Path) -> Iterator[Path]:
    before = settings.current_project().folder
    settings.use_project(tmp_path)
    yield tmp_path
    settings.use_project(before)


def test_a_plain_service_is_asked_as_the_table_says() -> None:
    reply = {"reply": {"text": ANSWER}, "sources": [{"body": c["text"], "name": c["source"]} for c in CITED], "v": "7"}
    with running(said(reply)) as bot:
        described = table(
            bot.url, headers={"Authorization": "Bearer ${BOT_KEY}"}, contexts="sources[*].body",
            sources="sources[*].name", version="path:v",
        )  # fmt: skip
        answer = Assistant(described, name="bot").ask(QUESTION)
    assert bot.asked == [{"q": QUESTION}]  # once, and nothing in it was filled in a second time
    assert bot.headers[0]["Authorization"] == f"Bearer {KEY}"
    assert (answer.answer, answer.version) == (ANSWER, "7")
    assert [(p.text, p.source) for p in answer.passages] == [(c["text"], c["source"]) for c in CITED]


@pytest.mark.parametrize(("name", "reply"), [("bot", plain), ("dify", dify), ("azure", azure)])
def test_each_table_of_the_page_on_servers_reads_its_service(
    name: str, reply: Any, own_project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("DIFY_API_KEY", "AZURE_OPENAI_API_KEY", "AZURE_SEARCH_KEY"):
        monkeypatch.setenv(variable, KEY)
    with running(reply) as bot:
        (own_project / "socjudge.toml").write_text(page_tables(bot.url)[name], encoding="utf-8")
        answer = Assistant(name).ask("初動は。")
    assert answer.answer.startswith("端末を隔離します[")
    assert [(p.text, p.source) for p in answer.passages] == [(c["text"], c["source"]) for c in CITED]
    assert KEY in str(bot.headers[0])
    told = (answer.version, {p.heading for p in answer.passages}, answer.model, answer.usage.cost_usd)
    assert (
        told
        == {
            "bot": ("7", {"初動"}, "unknown", None),
            "dify": ("", {""}, "unknown", pytest.approx(0.001289)),
            "azure": ("", {""}, "gpt-4o", None),
        }[name]
    )
    tokens = (0, 0) if name == "bot" else (1033, 128)
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == tokens


def test_the_page_on_servers_shows_no_other_tables() -> None:
    assert list(page_tables("http://127.0.0.1")) == ["bot", "dify", "azure"]


DELTA = {"answer": "choices[0].delta.content", "model": "model", "output_tokens": "usage.completion_tokens"}


@pytest.mark.parametrize(
    ("body", "paths", "reply"),
    [
        ({"query": "{question}", "inputs": {}, "user": "x", "response_mode": "streaming"}, {"answer": "answer"}, dify),
        ({"messages": [{"role": "user", "content": "{question}"}], "stream": True}, DELTA, chat),
    ],
)
def test_an_answer_that_comes_in_pieces_is_put_together(body: Any, paths: dict[str, str], reply: Any) -> None:
    with running(reply) as bot:
        answer = Assistant({"url": bot.url, "body": body, **paths}, name="bot").ask("初動は。")
    assert answer.answer == ANSWER
    assert (answer.model, answer.usage.output_tokens) == (("bot-1", 128) if reply is chat else ("unknown", 0))


@pytest.mark.parametrize(
    ("reply", "cause"),
    [
        (Said({"reply": {}}), "reply.text"),
        (Said('{"reply": '), "JSON"),
        (Said("busy", status=503), "503"),
        (Said(f"no right for {KEY}", status=403), "403"),
        (Said({"reply": {"text": "  "}}), "empty"),
        (Said(status=302, headers={"Location": "http://elsewhere.example/"}), "elsewhere.example"),
        (Said('data: {"event": "error", "message": "out of credit"}\n\n', kind="text/event-stream"), "out of credit"),
    ],
)
def test_what_is_no_answer_is_told_with_its_cause_and_no_key(reply: Said, cause: str) -> None:
    with running(lambda asked: reply) as bot:
        described = table(bot.url, headers={"X-Key": "${BOT_KEY}"})
        with pytest.raises(NoAnswer, match=cause) as told:
            Assistant(described, name="bot").ask("初動は。")
    assert len(bot.asked) == 1
    assert KEY not in str(told.value)


def test_a_key_that_comes_back_is_taken_out_of_the_answer() -> None:
    with running(said({"reply": {"text": f"鍵は{KEY}です。"}})) as bot:
        answer = Assistant(table(bot.url, headers={"X-Key": "${BOT_KEY}"}), name="bot").ask("初動は。")
    assert answer.answer == "鍵は[key]です。"


def test_who_asks_to_wait_is_asked_again() -> None:
    waits = iter([Said(status=429, headers={"Retry-After": "0.01"}), Said(status=503, headers={"Retry-After": "0.01"})])
    with running(lambda asked: next(waits, Said({"reply": {"text": "はい。"}}))) as bot:
        answer = Assistant(table(bot.url), name="bot").ask("初動は。")
    assert len(bot.asked) == 3
    assert len(answer.retries) == 2


def test_each_question_stands_alone() -> None:
    reply = Said({"reply": {"text": "はい。"}}, headers={"Set-Cookie": "conversation=1"})
    with running(lambda asked: reply) as bot:
        assistant = Assistant(table(bot.url), name="bot")
        assert [assistant.ask(question).answer for question in ("初動は。", "報告先は。")] == ["はい。"] * 2
    assert not any("Cookie" in headers for headers in bot.headers)


def test_an_unset_variable_is_told_before_anything_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BOT_KEY")
    with pytest.raises(ConfigError, match="BOT_KEY"):
        Assistant(table("http://127.0.0.1:9", headers={"X-Key": "${BOT_KEY}"}), name="bot")


def test_what_goes_where_is_said_before_the_first_call() -> None:
    assistant = Assistant(table("http://127.0.0.1:9", headers={"X-Key": "${BOT_KEY}"}), name="bot")
    assert "BOT_KEY" in assistant.told_before
    assert "127.0.0.1:9" in assistant.told_before
    assert KEY not in assistant.told_before


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"answer": "a..b"}, "a..b"),
        ({"answers": "x"}, "answers"),
        ({"body": {"q": "fixed"}}, "question"),
        ({"url": "ftp://bot/{question}"}, "ftp"),
        ({"sources": "s[*]"}, "contexts"),
        ({"like": "dify"}, "like"),
    ],
)
def test_a_wrong_table_is_told(change: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        Assistant(table("http://127.0.0.1:9") | change, name="bot")


@pytest.mark.parametrize(
    "change",
    [
        {"url": "http://127.0.0.1:9/other"}, {"body": {"q": "{question}", "mode": "fast"}}, {"answer": "reply"},
        {"contexts": "sources[*].body"}, {"headers": {"X-Mode": "fast"}}, {"url": "http://127.0.0.1:9/ask?style=short"},
        {"method": "PUT"}, {"contexts": "runbooks"},
    ],
)  # fmt: skip
def test_what_decides_its_answers_is_in_the_fingerprint(change: dict[str, Any]) -> None:
    first = Assistant(table("http://127.0.0.1:9"), name="bot")
    assert first.fingerprint == Assistant(table("http://127.0.0.1:9"), name="bot").fingerprint
    assert first.fingerprint != Assistant(table("http://127.0.0.1:9") | change, name="bot").fingerprint


def test_how_it_is_called_and_its_keys_are_not() -> None:
    first = Assistant(table("http://127.0.0.1:9"), name="bot")
    same = {"timeout_s": 5, "concurrency": 3, "headers": {"Authorization": "Bearer ${BOT_KEY}"}}
    assert first.fingerprint == Assistant(table("http://127.0.0.1:9") | same, name="bot").fingerprint
