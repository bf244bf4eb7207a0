"""OpenAI's files and batches endpoints on loopback: real HTTP, scripted outcomes, and the real service's checks."""

from __future__ import annotations

import email
import json
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from service import Reply, _body

Answering = Callable[[dict[str, Any]], Reply | str]


@dataclass(frozen=True)
class Outcome:
    """How a batch ends.

    answered: so many of its requests are worked off, all if None; what is left is in the error file if `listed`.
    errors: of a batch that fails as a whole. extra: lines that are put into the output file. twice: each line of the
    output comes twice. ended: whether it has ended when it is asked for."""

    status: str = "completed"
    answered: int | None = None
    listed: bool = True
    errors: tuple[Mapping[str, Any], ...] = ()
    extra: tuple[str, ...] = ()
    twice: bool = False
    ended: bool = True


@dataclass
class BatchService:
    """What the service holds. outcomes: of the next batches, then Outcome(); create_replies: to the next creations,
    instead of a batch, or with drop=True instead of telling about it. bodies: all requests that were worked off."""

    reply: Answering
    base_url: str = ""
    max_requests: int = 50_000
    page: int = 100  # batches in one answer of the list endpoint
    files: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    batches: dict[str, dict[str, Any]] = field(default_factory=dict)
    outcomes: list[Outcome] = field(default_factory=list)
    create_replies: list[Reply] = field(default_factory=list)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    calls: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def forget(self, reply: Answering) -> None:
        """Be as new, under the same address."""
        vars(self).update(vars(BatchService(reply, self.base_url)))

    @property
    def requests(self) -> list[str]:
        """The custom ids of all batches, in the order in which they came."""
        return [line["custom_id"] for batch in self.batches.values() for line in self._lines(batch)]

    def end(self, outcome: Outcome | None = None) -> None:
        """Let the batches end that are still being worked off."""
        for batch in self.batches.values():
            if batch["status"] == "in_progress":
                self._work(batch, outcome or Outcome())

    def upload(self, name: str, content: bytes) -> dict[str, Any]:
        file_id = f"file-{len(self.files) + 1}"
        self.files[file_id] = name, content
        return {
            "id": file_id, "object": "file", "bytes": len(content), "created_at": 0, "filename": name,
            "purpose": "batch", "status": "processed",
        }  # fmt: skip

    def create(self, request: dict[str, Any]) -> dict[str, Any]:
        batch = {
            "id": f"batch_{len(self.batches) + 1}", "object": "batch", "endpoint": request["endpoint"], "errors": None,
            "input_file_id": request["input_file_id"], "completion_window": request["completion_window"],
            "status": "in_progress", "output_file_id": None, "error_file_id": None, "metadata": request["metadata"],
            "created_at": 4_000_000_000 + len(self.batches),
            "request_counts": {"total": 0, "completed": 0, "failed": 0},
        }  # fmt: skip
        self.batches[batch["id"]] = batch
        outcome = self.outcomes.pop(0) if self.outcomes else Outcome()
        told = {**batch, "status": "validating"}
        if outcome.ended:
            self._work(batch, outcome)
        return told

    def _lines(self, batch: dict[str, Any]) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.files[batch["input_file_id"]][1].splitlines()]

    def _work(self, batch: dict[str, Any], outcome: Outcome) -> None:
        lines = self._lines(batch)
        errors = [*outcome.errors, *self._check(batch, lines)]
        if errors:
            batch |= {"status": "failed", "errors": {"object": "list", "data": errors}}
            return
        done = lines if outcome.answered is None else lines[: outcome.answered]
        out, err = list(outcome.extra), []
        for line in done:
            self.bodies.append(line["body"])
            reply = self.reply(line["body"])
            reply = Reply(reply) if isinstance(reply, str) else reply
            body = json.loads(_body(line["body"], reply))
            response = {"status_code": reply.status, "request_id": "req", "body": body}
            entry = {"id": "batch_req", "custom_id": line["custom_id"], "response": response, "error": None}
            (out if reply.status == 200 else err).append(json.dumps(entry))
        code = "batch_expired" if outcome.status == "expired" else "batch_cancelled"
        for line in lines[len(done) :] if outcome.listed else []:
            why = {"code": code, "message": "This request could not be executed before the window expired."}
            err.append(json.dumps({"id": "x", "custom_id": line["custom_id"], "response": None, "error": why}))
        random.Random(batch["id"]).shuffle(out)
        out = [line for line in out for _ in range(1 + outcome.twice)]
        for name, content in (("output_file_id", out), ("error_file_id", err)):
            if content:
                batch[name] = self.upload(name, "\n".join([*content, ""]).encode())["id"]
        counts = {"total": len(lines), "completed": len(lines) - len(err), "failed": len(err)}
        batch |= {"status": outcome.status, "request_counts": counts}

    def _check(self, batch: dict[str, Any], lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """What the real service refuses a whole file for."""
        said = []
        if len(lines) > self.max_requests:
            said.append("The number of requests exceeds the limit")
        if len({line["custom_id"] for line in lines}) < len(lines):
            said.append("Duplicate custom_id")
        if len({line["body"]["model"] for line in lines}) > 1:
            said.append("All requests in a batch must be for the same model")
        if any(line["url"] != batch["endpoint"] or line["method"] != "POST" for line in lines):
            said.append("The URL does not match the endpoint")
        return [{"code": "invalid_request", "message": message, "param": None, "line": 1} for message in said]


@contextmanager
def serving_batches(reply: Answering) -> Iterator[BatchService]:
    """A running service; its `base_url` ends in /v1."""
    service = BatchService(reply)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # the body follows the head at once, not 40 ms later

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers["content-length"]))
            with service.lock:
                service.keys.append(self.headers.get("authorization", ""))
                service.calls[f"POST {self.path}"] += 1
                if self.path == "/v1/files":
                    self.send(200, service.upload(*self.form(raw)))
                    return
                scripted = service.create_replies.pop(0) if service.create_replies else None
                if scripted is None or scripted.drop:
                    batch = service.create(json.loads(raw))
                if scripted is None:
                    self.send(200, batch)
                elif scripted.drop:
                    self.close_connection = True
                    self.connection.close()
                else:
                    self.send(scripted.status, {"error": scripted.error})

        def do_GET(self) -> None:
            path = urlsplit(self.path)
            with service.lock:
                service.calls[f"GET {path.path}"] += 1
                _, _, kind, *rest = path.path.split("/")
                if kind == "batches" and not rest:
                    self.list(parse_qs(path.query))
                elif kind == "batches" and rest[0] in service.batches:
                    self.send(200, service.batches[rest[0]])
                elif kind == "files" and rest[0] in service.files:
                    self.send(200, service.files[rest[0]][1])
                else:
                    self.send(404, {"error": {"message": f"No such object: {path.path}", "code": None, "param": "id"}})

        def list(self, query: dict[str, Any]) -> None:
            found = list(service.batches.values())[::-1]
            ids = [batch["id"] for batch in found]
            start = ids.index(query["after"][0]) + 1 if "after" in query else 0
            page = found[start : start + min(service.page, int(query["limit"][0]))]
            more = start + len(page) < len(found)
            self.send(200, {"object": "list", "data": page, "has_more": more})

        def form(self, raw: bytes) -> tuple[str, bytes]:
            head = f"content-type: {self.headers['content-type']}\r\n\r\n".encode()
            parts = {
                part.get_param("name", header="content-disposition"): part
                for part in email.message_from_bytes(head + raw).get_payload()
            }
            assert parts["purpose"].get_payload(decode=True) == b"batch"
            content = parts["file"].get_payload(decode=True)
            return parts["file"].get_filename(), content

        def send(self, status: int, value: Any) -> None:
            body = value if isinstance(value, bytes) else json.dumps(value).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    service.base_url = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        yield service
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
