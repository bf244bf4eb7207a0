"""Somebody's assistant behind HTTP, on loopback: real HTTP, replies from a function, and a record of what was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


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
