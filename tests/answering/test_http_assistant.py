"""Assistants behind HTTP: what they are sent, and what becomes of their replies."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from support.own_bot import ANSWER, CITED, Said, azure, chat, dify, page_tables, plain, running

from socjudge import constants, settings
from socjudge.answering.own_assistant import Assistant
from socjudge.errors import ConfigError, NoAnswer

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
    before = settings.open_project().folder
    constants.use_project(tmp_path)
    yield tmp_path
    constants.use_project(before)


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
        {"method": "PUT"},
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


# -- encodings

JAPANESE = "端末①を隔離し、情報ｼｽﾃﾑ課へ～連絡する。"


@pytest.mark.parametrize(
    ("kind", "encoding"),
    [
        ("application/json; charset=Shift_JIS", "cp932"), ("application/json;charset=windows-31j", "cp932"),
        ('application/json; charset="x-sjis"', "cp932"), ("text/json; charset=UTF-16", "utf-16"),
        ("application/json; charset=iso-8859-1", "utf-8"), ("application/json", "utf-8-sig"),
        ("application/json", "utf-16-le"), ("application/problem+json; charset=utf-8", "utf-8"),
        ("application/json; charset=EUC-JP", "euc_jis_2004"),
    ],
)  # fmt: skip
def test_a_reply_is_read_in_the_encoding_that_it_declares(kind: str, encoding: str) -> None:
    body = json.dumps({"reply": {"text": JAPANESE}}, ensure_ascii=False).encode(encoding)
    with running(lambda asked: Said(body, kind=kind)) as bot:
        assert Assistant(table(bot.url), name="bot").ask("初動は。").answer == JAPANESE


@pytest.mark.parametrize(
    "kind", ["application/json", "application/json; charset=utf-8", "text/plain; charset=no-such", "text/html", "x/y; charset=hex"]
)  # fmt: skip
def test_text_that_cannot_be_decoded_is_no_answer(kind: str) -> None:
    body = json.dumps({"reply": {"text": JAPANESE}}, ensure_ascii=False).encode("cp932")
    with running(lambda asked: Said(body, kind=kind)) as bot, pytest.raises(NoAnswer, match="Content-Type"):
        Assistant(table(bot.url), name="bot").ask("初動は。")


# -- streams

STREAM = "text/event-stream"


def stream(*events: Any, name: str = "", end: str = "\n") -> str:
    """Events as a service sends them: a dict as JSON, a text as it is."""
    lines = []
    for event in events:
        named = [f"event: {event.pop('sse')}"] if isinstance(event, dict) and "sse" in event else []
        data = event if isinstance(event, str) else json.dumps(event, ensure_ascii=False)
        lines.append(end.join([*named, f"data: {data}", "", ""]))
    return "".join(lines)


def said_in(body: str | bytes, answer: str = "text", **how: Any) -> str:
    more = how.pop("table", {})
    with running(lambda asked: Said(body, kind=STREAM, **how)) as bot:
        return Assistant(table(bot.url, **more) | {"answer": answer}, name="bot").ask("初動は。").answer


@pytest.mark.parametrize(
    "events",
    [
        [{"event": "message", "text": "社外秘の"}, {"event": "message_replace", "text": "お答えできません。"}],
        [{"text": "社外秘の"}, {"text": "お答えできません。", "replace": True}],
        [{"sse": "token", "text": "社外秘の"}, {"sse": "revised", "text": "お答えできません。"}],
        [{"type": "delta", "text": "社外秘の"}, {"type": "overwrite", "text": "お答え"}, {"type": "delta", "text": "できません。"}],
        [{"text": "お答え"}, {"text": "お答えできま"}, {"text": "お答えできません。"}],  # the text so far
        [{"type": "d", "text": "お答え"}, {"type": "d", "text": "できません。"}, {"type": "all", "text": "お答えできません。"}],
    ],
)  # fmt: skip
def test_an_event_that_replaces_what_was_said_replaces_it(events: list[Any]) -> None:
    assert said_in(stream(*events)) == "お答えできません。"


@pytest.mark.parametrize(
    ("events", "told"),
    [
        (
            [{"type": "answer", "text": "隔離します。"}, {"type": "thought", "text": "これでよいか。"}],
            "answer, thought",
        ),
        ([{"event": "message", "text": "隔離"}, {"event": "verdict", "text": "中止"}], "message, verdict"),
        ([{"text": "隔離します。"}, {"sse": "moderation", "blocked": True}], "moderation"),
        ([{"text": "隔離します。"}, {"event": "retract"}], "retract"),
        ([{"text": "隔離"}, {"sse": "error", "detail": "out of memory"}], "out of memory"),
        ([{"text": "隔離"}, {"type": "response.failed", "why": "overloaded"}], "overloaded"),
        ([{"text": "隔離"}, '{"text": "します'], "JSON"),
    ],
)
def test_an_event_that_is_not_known_is_told(events: list[Any], told: str) -> None:
    with pytest.raises(NoAnswer, match=told):
        said_in(stream(*events))


@pytest.mark.parametrize(
    ("events", "told"),
    [
        ([{"choices": [{"delta": {"content": "隔離"}}]}, {"choices": [{"delta": {}, "finish_reason": "content_filter"}]}], "content_filter"),
        ([{"choices": [{"delta": {"content": "隔離"}}]}, {"choices": [{"delta": {}, "finish_reason": "length"}]}, "[DONE]"], "length"),
    ],
)  # fmt: skip
def test_an_answer_that_was_cut_off_is_told(events: list[Any], told: str) -> None:
    with pytest.raises(NoAnswer, match=told):
        said_in(stream(*events), answer="choices[0].delta.content")
    whole = {"choices": [{"message": {"content": "隔離"}, "finish_reason": told}]}
    with running(lambda asked: Said(whole)) as bot, pytest.raises(NoAnswer, match=told):
        Assistant(table(bot.url) | {"answer": "choices[0].message.content"}).ask("初動は。")


def test_json_lines_are_a_stream_too() -> None:
    lines = [{"response": "隔離\u0085報告\u2028し", "done": False}, {"response": "ます。", "done": True}]
    body = "\r\n".join(json.dumps(line, ensure_ascii=False) for line in lines)
    for text, is_whole in ((body, True), (body.partition("\n")[0], False), (body[:-9], False)):
        with running(lambda asked, text=text: Said(text, kind="application/x-ndjson")) as bot:
            assistant = Assistant(table(bot.url) | {"answer": "response"})
            if is_whole:
                assert assistant.ask("初動は。").answer == "隔離\u0085報告\u2028します。"
            else:
                with pytest.raises(NoAnswer):
                    assistant.ask("初動は。")


@pytest.mark.parametrize(
    ("reply", "path"),
    [
        (Said("<!DOCTYPE html><title>サインイン</title>", kind="text/html"), "$"),
        (Said('0:"端末を"\n0:"隔離します。"\nd:{"finishReason":"stop"}\n', kind="text/plain"), "$"),
        (Said('{"reply": {"text": "隔離 \\ud83d する"}}'), "reply.text"),
        (Said({"reply": {"text": " \u3000\n\u200b"}}), "reply.text"),
        (Said({"reply": {"text": "申し訳ありません。"}, "error": {"code": "VDB-01"}}), "reply.text"),
    ],
)
def test_what_nobody_would_read_as_an_answer_is_none(reply: Said, path: str) -> None:
    with running(lambda asked: reply) as bot, pytest.raises(NoAnswer):
        Assistant(table(bot.url) | {"answer": path}).ask("初動は。")


def test_an_answer_in_several_messages_is_one() -> None:
    with running(said([{"text": "隔離します。"}, {"text": "報告します。"}])) as bot:
        assert Assistant(table(bot.url) | {"answer": "[*].text"}).ask("初動は。").answer == "隔離します。\n報告します。"


def test_which_events_are_the_answer_can_be_said() -> None:
    body = stream(
        {"type": "answer", "text": "隔離"}, {"type": "thought", "text": "ふむ"}, {"type": "answer", "text": "します。"}
    )
    assert said_in(body, table={"events": ["answer"]}) == "隔離します。"
    with pytest.raises(ConfigError, match="events"):
        Assistant(table("http://127.0.0.1:9", events="answer"))


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_only_the_ends_of_lines_end_a_line(end: str) -> None:
    text = "一行目\u2028二行目\u0085三行目\x0b\x0c\x1c四行目。"
    assert said_in(stream({"text": text[:5]}, {"text": text[5:]}, end=end)) == text.encode().decode()


def test_plain_text_of_a_stream_keeps_its_spaces_and_numbers() -> None:
    assert said_in(stream("run", " isolate", "7", "。", "[DONE]"), answer="$") == "run isolate7。"


HALF = [{"text": "端末を隔離し"}, {"text": "、承認なく再起動しな"}]


@pytest.mark.parametrize(
    "body",
    [
        Said({"reply": {"text": "端末を隔離し"}}, is_cut=True),
        Said('{"reply": {"text": "端末を隔', has_length=False, kind="text/plain"),
        Said(stream(*HALF), kind=STREAM, is_cut=True),
        Said(stream(*HALF), kind=STREAM, has_length=False),
        Said(stream(*({**each, "done": False} for each in HALF)), kind=STREAM),
        Said(stream({"type": "message_start"}, *HALF), kind=STREAM),
        Said(stream(*HALF) + 'data: {"text": "いこ', kind=STREAM),
    ],
)
def test_a_reply_that_stops_in_the_middle_is_no_answer(body: Said) -> None:
    with running(lambda asked: body) as bot, pytest.raises(NoAnswer):
        Assistant(table(bot.url) | {"answer": "text" if body.kind == STREAM else "reply.text"}).ask("初動は。")


@pytest.mark.parametrize(("reply", "path"), [(dify, "answer"), (chat, "choices[0].delta.content")])
def test_nor_is_a_stream_without_the_end_that_its_service_marks(reply: Any, path: str) -> None:
    asked = {"query": "初動は。", "user": "x", "inputs": {}, "response_mode": "streaming", "stream": True}
    whole = reply(asked).body
    half = re.split(r'data: (?=\{"event": "message_end|.*finish_reason|\[DONE)', whole)[0]
    assert said_in(whole, path) == ANSWER
    with pytest.raises(NoAnswer, match="before its end"):
        said_in(half, path)


def test_a_stream_that_ends_with_the_connection_needs_an_end_mark() -> None:
    whole = [*HALF, {"text": "い。"}]
    assert said_in(stream(*whole), has_length=True).endswith("再起動しない。")
    assert said_in(stream(*whole, "[DONE]"), has_length=False).endswith("再起動しない。")
    assert said_in(stream(*whole, {"sse": "end"}), has_length=False).endswith("再起動しない。")


# -- secrets


def everywhere(value: Any) -> list[str]:
    """All texts of a record."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for inner in value.values() for text in everywhere(inner)]
    return [text for inner in value for text in everywhere(inner)] if isinstance(value, list | tuple) else []


@pytest.mark.parametrize(
    "echo", [KEY, KEY.upper(), base64.b64encode(KEY.encode()).decode(), f"https://wiki/a?id=1&token={KEY}#初動"]
)
def test_a_secret_that_comes_back_in_any_field_is_hidden(echo: str) -> None:
    reply = {
        "reply": {"text": f"隔離します[1]。{echo}"}, "sources": [{"body": f"隔離する。{echo}", "name": f"a {echo}", "h": f"h {echo}"}],
        "model": f"m {echo}", "v": f"7 {echo}",
    }  # fmt: skip
    paths = {"contexts": "sources[*].body", "sources": "sources[*].name", "headings": "sources[*].h", "model": "model"}
    with running(said(reply)) as bot:
        headers = {"X-Auth": "${BOT_KEY}"}
        answer = Assistant(table(bot.url, headers=headers, version="path:v", **paths), name="bot").ask("初動は。")
    texts = everywhere(asdict(answer))
    assert sum(bool(re.search(r"[\[(]key[\])]", text)) for text in texts) == 7
    assert not any(KEY.lower() in text.lower() or echo in text for text in texts)


def test_a_secret_that_the_table_holds_itself_is_hidden_too() -> None:
    reply = {"reply": {"text": "tok-0123456789 と body-secret-1 と query-secret-2"}}
    with running(said(reply)) as bot:
        described = table(f"{bot.url}/x?api_key=query-secret-2#", headers={"Authorization": "Bearer tok-0123456789"})
        described["body"] = {"q": "{question}", "auth": {"token": "body-secret-1"}}
        assert Assistant(described, name="bot").ask("初動は。").answer == "[key] と [key] と [key]"


def test_a_secret_in_two_events_or_in_basic_form_is_hidden() -> None:
    assert said_in(stream({"text": f"鍵は{KEY[:8]}"}, {"text": f"{KEY[8:]}です。"}), table={"headers": {"X-Key": "${BOT_KEY}"}}) == (
        "鍵は[key]です。"
    )  # fmt: skip
    told = base64.b64encode(b"svc:Pa55!sora/umi+7").decode()
    with running(said({"reply": {"text": f"隔離します。{told} Pa55!sora/umi+7"}})) as bot:
        url = bot.url.replace("//", "//svc:Pa55%21sora%2Fumi%2B7@")
        answer = Assistant(table(url)).ask("初動は。").answer
    assert "umi" not in answer and told[4:20] not in answer and answer.startswith("隔離します。")


def test_an_error_is_read_as_it_declares_its_encoding() -> None:
    page = "<title>アクセスがブロックされました</title>".encode("cp932")
    blocked = Said(page, status=403, kind="text/html; charset=Shift_JIS")
    with running(lambda asked: blocked) as bot, pytest.raises(NoAnswer, match="ブロックされました"):
        Assistant(table(bot.url)).ask("初動は。")


def test_a_token_in_a_link_is_hidden_wherever_it_comes_from() -> None:
    link = "https://files.example/a.pdf?page=3&sig=zzYYxx11&keyword=隔離"
    reply = {"reply": {"text": f"手順: {link}"}, "sources": [{"body": "隔離する。", "name": link}]}
    with running(said(reply)) as bot:
        described = table(bot.url, contexts="sources[*].body", sources="sources[*].name")
        answer = Assistant(described, name="bot").ask("初動は。")
    hidden = "https://files.example/a.pdf?page=3&sig=[key]&keyword=隔離"
    assert answer.answer == f"手順: {hidden}"
    assert "zzYYxx11" not in str(asdict(answer))
