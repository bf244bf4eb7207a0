"""An HTTP proxy on loopback that lets nobody through without user and password, and notes what it was asked for."""

from __future__ import annotations

import base64
import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

USER, PASSWORD = "soc", "p@ss/word-77"


class Proxy:
    """seen: the addresses that were asked for, by whoever had the right to."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.refused = 0
        self.address = ""

    @property
    def url(self) -> str:
        return f"http://{USER}:p%40ss%2Fword-77@{self.address}"


@contextmanager
def proxying() -> Iterator[Proxy]:
    """A running proxy. It forwards plain HTTP, and refuses tunnels with 502 after it has noted them."""
    proxy = Proxy()
    right = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if self.headers.get("Proxy-Authorization") != right:
                proxy.refused += 1
                return self._reply(407, b"who are you?", {"Proxy-Authenticate": "Basic"})
            proxy.seen.append(self.path)
            if self.command == "CONNECT":
                return self._reply(502, b"", {})
            to = urlsplit(self.path)
            onward = http.client.HTTPConnection(to.netloc, timeout=20)
            headers = {name: value for name, value in self.headers.items() if not name.startswith("Proxy-")}
            onward.request(self.command, f"{to.path}?{to.query}".rstrip("?"), body, headers)
            came = onward.getresponse()
            kept = {name: value for name, value in came.getheaders() if name.lower() == "content-type"}
            said = came.read()
            onward.close()
            return self._reply(came.status, said, kept)

        do_GET = do_CONNECT = do_POST

        def _reply(self, status: int, body: bytes, headers: dict[str, str]) -> None:
            self.close_connection = True
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body)), "Connection": "close"}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

    with Server(("127.0.0.1", 0), Handler) as server:
        proxy.address = f"127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        yield proxy
        server.shutdown()
        thread.join()
