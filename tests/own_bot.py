"""Somebody's assistant behind HTTP, on loopback: real HTTP, replies from a function, and a record of what was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ANSWER = "端末を隔離します[1]。"
CITED = [{"text": "端末を隔離する。", "source": "malware.md"}, {"text": "報告する。", "source": "report.md"}]


@dataclass(frozen=True)
class Said:
    """One HTTP response. body: text as it is, or what becomes JSON."""

    body: Any = ""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    kind: str = "application/json"


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
            data = (said.body if isinstance(said.body, str) else json.dumps(said.body, ensure_ascii=False)).encode()
            self.send_response(said.status)
            for name, value in {"Content-Type": said.kind, "Content-Length": str(len(data)), **said.headers}.items():
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


# -- replies in the published shapes of services


def dify(asked: Any) -> Said:
    resources = [{"position": k, "document_name": c["source"], "content": c["text"]} for k, c in enumerate(CITED, 1)]
    usage = {
        "prompt_tokens": 1033,
        "completion_tokens": 128,
        "total_tokens": 1161,
        "total_price": "0.0012890",
        "currency": "USD",
    }
    metadata = {"usage": usage, "retriever_resources": resources}
    if asked["response_mode"] == "blocking":
        return Said({"event": "message", "message_id": "m", "mode": "chat", "answer": ANSWER, "metadata": metadata})
    events = [{"event": "message", "answer": piece} for piece in (ANSWER[:4], ANSWER[4:])]
    events.append({"event": "message_end", "metadata": metadata})
    ping = "event: ping\n\n"
    body = ping.join(f"data: {json.dumps(event, ensure_ascii=False)}\n\n" for event in events)
    return Said(body, kind="text/event-stream")


def azure(asked: Any) -> Said:
    citations = [
        {"content": c["text"], "title": "", "filepath": c["source"], "url": None, "chunk_id": "0"} for c in CITED
    ]
    message = {
        "role": "assistant",
        "content": "端末を隔離します[doc1]。",
        "context": {"citations": citations, "intent": "[]"},
    }
    usage = {"prompt_tokens": 1033, "completion_tokens": 128}
    choices = [{"index": 0, "finish_reason": "stop", "message": message}]
    return Said({"id": "x", "model": "gpt-4o", "choices": choices, "usage": usage})


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
