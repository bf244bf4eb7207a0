"""An OpenAI-compatible chat service on loopback: real HTTP, scripted replies, and a record of what was asked."""

from __future__ import annotations

import json
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sized
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from socjudge.models.prices import door_of as _door_of

CRITERIA = ["根拠性", "正確性", "網羅性", "安全性", "引用明示", "簡潔性"]
KEY = "sk-test-0123456789abcdefghij"


def sell_on_loopback(address: str) -> str:
    """`prices.door_of`, but what is called on loopback, or by an object, has OpenAI's list prices."""
    return "https://api.openai.com" if not address or "://127.0.0.1" in address else _door_of(address)


@dataclass(frozen=True)
class Reply:
    """One HTTP response. content: the assistant message; body: the whole response body instead of it."""

    content: str | None = None
    status: int = 200
    finish_reason: str = "stop"
    headers: Mapping[str, str] = field(default_factory=dict)
    error: Mapping[str, Any] | None = None
    body: str | bytes | None = None
    delay_s: float = 0.0
    drop: bool = False  # close the connection without a response


def judgement(score: int | Mapping[str, Any] = 80, *, reason: str = "理由です。", comment: str = "総評です。") -> str:
    """A well-formed judgement as a judge sends it: one score for all criteria, or one each."""
    scores = dict.fromkeys(CRITERIA, score) if isinstance(score, int) else dict(score)
    return json.dumps(
        {"scores": scores, "rationale": dict.fromkeys(CRITERIA, reason), "overall_comment": comment},
        ensure_ascii=False,
    )


def judgement_of(request: Mapping[str, Any], score: int | Mapping[str, int] = 80) -> str:
    """The same for the criteria that a request asks for by its schema; a mapping's `""` is for the rest."""
    asked = request["response_format"]["json_schema"]["schema"]["properties"]["scores"]["required"]
    scores = {name: score if isinstance(score, int) else score.get(name, score[""]) for name in asked}
    told = {"scores": scores, "rationale": dict.fromkeys(asked, "理由です。"), "overall_comment": "総評です。"}
    return json.dumps(told, ensure_ascii=False)


def error(status: int, message: str, *, code: str | None = None, param: str | None = None, **headers: str) -> Reply:
    """An error as OpenAI words it."""
    return Reply(
        status=status,
        headers={name.replace("_", "-"): value for name, value in headers.items()},
        error={"message": message, "type": "error", "code": code, "param": param},
    )


def is_judge_call(request: Mapping[str, Any]) -> bool:
    """Whether a recorded request asks for a judgement."""
    return "【評価観点】" in request["messages"][0]["content"]


class Held:
    """A reply that waits until `going` is set; `asked` is set when the first call came."""

    def __init__(self, reply: Reply | str | Callable[[dict[str, Any]], Reply | str]) -> None:
        self.reply = reply
        self.asked, self.going = threading.Event(), threading.Event()

    def __call__(self, request: dict[str, Any]) -> Reply | str:
        self.asked.set()
        self.going.wait(20)
        return self.reply(request) if callable(self.reply) else self.reply


class AfterCalls(threading.Event):
    """Set as soon as so many calls were made."""

    def __init__(self, calls: Sized, most: int) -> None:
        super().__init__()
        self._calls, self._most = calls, most

    def is_set(self) -> bool:
        return len(self._calls) >= self._most


class Service:
    """Replies from a script, one after the other, then with `default`; `requests` holds what came in.

    default may be a function of the request. max_at_once: the most requests seen in flight; refused: how many were
    told "too many"."""

    def __init__(self, default: Reply | str | Callable[[dict[str, Any]], Reply | str]) -> None:
        self.default = default
        self.script: list[Reply | str] = []
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.times: list[float] = []
        self.max_at_once = self.refused = self.connections = 0
        self._at_once = 0
        self._changed = threading.Condition()
        self.base_url = ""

    def hold(self) -> Held:
        """Have `default` wait from now on."""
        self.default = held = Held(self.default)
        return held

    def wait_for(self, condition: Callable[[], bool], timeout_s: float = 30) -> None:
        """Wait until the condition holds, which is looked at whenever a request comes or goes."""
        with self._changed:
            assert self._changed.wait_for(condition, timeout_s), "what the test waits for never came"

    def settle(self) -> None:
        """Wait until all that came from processes that have ended is in `requests`."""
        host, _, port = self.base_url.removeprefix("http://").removesuffix("/v1").partition(":")
        with socket.create_connection((host, int(port))) as knock:
            knock.shutdown(socket.SHUT_WR)
            knock.recv(1)  # accepted and closed, hence all that stood before it is accepted too
        self.wait_for(lambda: self.connections == 0)

    def reply_to(self, request: dict[str, Any], key: str) -> Reply:
        with self._changed:
            self.requests.append(request)
            self.keys.append(key)
            self.times.append(time.monotonic())
            self._at_once += 1
            self.max_at_once = max(self.max_at_once, self._at_once)
            self._changed.notify_all()
            reply = self.script.pop(0) if self.script else self.default
        if callable(reply):
            reply = reply(request)
        reply = Reply(reply) if isinstance(reply, str) else reply
        time.sleep(reply.delay_s)
        with self._changed:
            self._at_once -= 1
            self.refused += reply.status == 429
            self._changed.notify_all()
        return reply

    def count_connections(self, change: int) -> None:
        with self._changed:
            self.connections += change
            self._changed.notify_all()

    @property
    def judge_calls(self) -> int:
        return sum(map(is_judge_call, self.requests))


@contextmanager
def serving(default: Reply | str | Callable[[dict[str, Any]], Reply | str]) -> Iterator[Service]:
    """A running service; its `base_url` ends in /v1."""
    service = Service(default)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # head and body are two writes: with it, each reply may wait 40 ms

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["content-length"])))
            reply = service.reply_to(request, self.headers.get("authorization", ""))
            if reply.drop:
                self.close_connection = True
                self.connection.close()
                return
            body = _body(request, reply)
            body = body.encode() if isinstance(body, str) else body
            self.send_response(reply.status)
            headers = {"content-type": "application/json", "content-length": str(len(body)), **reply.headers}
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 512  # many connections at the same moment

        def process_request(self, *connection: Any) -> None:
            service.count_connections(1)
            super().process_request(*connection)

        def shutdown_request(self, request: Any) -> None:
            super().shutdown_request(request)
            service.count_connections(-1)

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    service.base_url = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        yield service
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _body(request: Mapping[str, Any], reply: Reply) -> str | bytes:
    if reply.body is not None:
        return reply.body
    if reply.error is not None:
        return json.dumps({"error": reply.error})
    message = {"role": "assistant", "content": reply.content}
    # As many as the text can have: fewer are not believed.
    asked = max(1000, sum(len(each["content"].encode()) for each in request["messages"]) // 16 + 1)
    return json.dumps(
        {
            "id": f"chatcmpl-{uuid.uuid4().hex}",
            "object": "chat.completion",
            "created": 0,
            "model": f"{request['model']}-2024-07-18",
            "choices": [{"index": 0, "message": message, "finish_reason": reply.finish_reason}],
            "usage": {"prompt_tokens": asked, "completion_tokens": 200, "total_tokens": asked + 200},
        }
    )
