"""Somebody's assistant behind HTTP, on loopback: real HTTP, replies from a function, and a record of what was asked."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "docs" / "reference.md"
ANSWER = "端末を隔離します[1]。"
CITED = [{"text": "端末を隔離する。", "source": "malware.md"}, {"text": "報告する。", "source": "report.md"}]


@dataclass(frozen=True)
class Said:
    """One HTTP response. body: text or bytes as they are, or what becomes JSON. The connection may be cut before its
    end, or the end of the connection may be the only end of the body."""

    body: Any = ""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    kind: str = "application/json"
    is_cut: bool = False
    has_length: bool = True


class Bot:
    """reply: a function of what was asked; asked: the bodies that came in, headers: those of each."""

    def __init__(self, reply: Callable[[Any], Said]) -> None:
        self.reply = reply
        self.asked: list[Any] = []
        self.headers: list[dict[str, str]] = []
        self.lock = threading.Lock()
        self.url = ""


@contextmanager
def running(reply: Callable[[Any], Said]) -> Iterator[Bot]:
    """A running bot; its `url` has no path."""
    bot = Bot(reply)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            asked = json.loads(raw) if raw else self.path
            with bot.lock:
                bot.asked.append(asked)
                bot.headers.append(dict(self.headers))
            said = bot.reply(asked)
            body = said.body if isinstance(said.body, str | bytes) else json.dumps(said.body, ensure_ascii=False)
            data = body if isinstance(body, bytes) else body.encode()
            length = {"Content-Length": str(len(data) + 9 * said.is_cut)} if said.has_length else {}
            self.close_connection |= said.is_cut or not said.has_length
            self.send_response(said.status)
            for name, value in {"Content-Type": said.kind, **length, **said.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST

        def log_message(self, *_: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        request_queue_size = 128
        daemon_threads = True

    with Server(("127.0.0.1", 0), Handler) as server:
        bot.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        yield bot
        server.shutdown()
        thread.join()


def page_tables(url: str) -> dict[str, str]:
    """The tables [assistants.NAME] that docs/reference.md shows, as {name: text}, for a service at this address."""
    blocks = re.findall(r"```toml\n(\[assistants\.(\w+)\].*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    return {name: re.sub(r"https?://HOST", url, text) for text, name in blocks}


# -- replies in the published shapes of services


def plain(asked: Any) -> Said:
    if not asked.get("question"):
        return Said({"detail": "question is missing"}, status=422)
    sources = [{"body": c["text"], "name": c["source"], "section": "初動"} for c in CITED]
    return Said({"reply": {"text": ANSWER}, "sources": sources, "release": "7"})


def dify(asked: Any) -> Said:
    if not asked.get("query") or not asked.get("user") or not isinstance(asked.get("inputs"), dict):
        return Said({"code": "invalid_param", "message": "query is required", "status": 400}, status=400)
    known = {"conversation_id": "c-1", "message_id": "m-1", "task_id": "t-1", "created_at": 1764000000}
    resources = [
        {
            "position": k, "dataset_id": "d-1", "dataset_name": "runbooks", "document_id": f"o-{k}", "segment_id": f"s-{k}",
            "document_name": c["source"], "content": c["text"], "score": 0.9, "retriever_from": "api",
        }
        for k, c in enumerate(CITED, 1)
    ]  # fmt: skip
    usage = {
        "prompt_tokens": 1033, "prompt_unit_price": "0.001", "prompt_price_unit": "0.001", "prompt_price": "0.0010330",
        "completion_tokens": 128, "completion_unit_price": "0.002", "completion_price_unit": "0.001",
        "completion_price": "0.0002560", "total_tokens": 1161, "total_price": "0.0012890", "currency": "USD",
        "latency": 0.77,
    }  # fmt: skip
    metadata = {"usage": usage, "retriever_resources": resources}
    if asked["response_mode"] == "blocking":
        return Said({"event": "message", "id": "m-1", "mode": "chat", "answer": ANSWER, "metadata": metadata, **known})
    events = [{"event": "message", "answer": piece, **known} for piece in (ANSWER[:4], ANSWER[4:])]
    events.append({"event": "message_end", "id": "m-1", "metadata": metadata, **known})
    ping = "event: ping\n\n"
    body = ping.join(f"data: {json.dumps(event, ensure_ascii=False)}\n\n" for event in events)
    return Said(body, kind="text/event-stream")


def azure(asked: Any) -> Said:
    (source,) = asked.get("data_sources") or [{}]
    if not {"endpoint", "index_name", "authentication"} <= source.get("parameters", {}).keys():
        said = {"code": "400", "message": "Validation error at #/data_sources/0/parameters"}
        return Said({"error": said}, status=400)
    citations = [
        {"content": c["text"], "title": "", "filepath": c["source"], "url": None, "chunk_id": "0"} for c in CITED
    ]
    message = {
        "role": "assistant",
        "content": "端末を隔離します[doc1]。",
        "end_turn": True,
        "context": {"citations": citations, "intent": '["初動"]'},
    }
    usage = {"prompt_tokens": 1033, "completion_tokens": 128, "total_tokens": 1161}
    choices = [{"index": 0, "finish_reason": "stop", "message": message}]
    kind = "extensions.chat.completion"
    return Said(
        {"id": "x", "object": kind, "created": 1764000000, "model": "gpt-4o", "choices": choices, "usage": usage}
    )


def chat(asked: Any) -> Said:
    usage = {"prompt_tokens": 1033, "completion_tokens": 128}
    if not asked.get("stream"):
        message = {"role": "assistant", "content": ANSWER}
        return Said({"model": "bot-1", "choices": [{"index": 0, "message": message}], "usage": usage})
    chunks: list[Any] = [{"model": "bot-1", "choices": [{"delta": {"role": "assistant", "content": ""}}]}]
    chunks += [{"model": "bot-1", "choices": [{"delta": {"content": piece}}]} for piece in (ANSWER[:3], ANSWER[3:])]
    chunks += [{"model": "bot-1", "choices": [{"delta": {}, "finish_reason": "stop"}]}, {"choices": [], "usage": usage}]
    body = "".join(f"data: {json.dumps(chunk, ensure_ascii=False)}\r\n\r\n" for chunk in chunks)
    return Said(f"{body}data: [DONE]\r\n\r\n", kind="text/event-stream")
