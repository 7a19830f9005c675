"""A catalog of one process: a version per table, and a record of every request that came."""

from __future__ import annotations

import gzip
import json
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Upstream(ThreadingHTTPServer):
    """Answers like a REST catalog whose tables have no rows, only versions."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Speaker)
        self.reached: list[tuple[str, str, dict[str, str], bytes]] = []
        self.versions: Counter[str] = Counter()
        self.chunked = False
        self.lock = threading.Lock()
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def paths(self, method: str) -> list[str]:
        return [path for one, path, _, _ in self.reached if one == method]

    def close(self) -> None:
        self.shutdown()
        self.server_close()

    def take(self, method: str, path: str, headers: dict[str, str], body: bytes) -> dict[str, Any]:
        with self.lock:
            self.reached.append((method, path, headers, body))
            if method == "POST":
                self.versions[path] += 1
            return table(path, self.versions[path])


def table(path: str, version: int) -> dict[str, Any]:
    name = path.partition("?")[0]
    metadata = {"properties": {"version": str(version)}, "snapshots": [], "last-updated-ms": 0}
    return {"metadata-location": f"{name}/metadata/{version}.metadata.json", "metadata": metadata}


class _Speaker(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Upstream

    def log_message(self, format: str, *args: object) -> None:
        pass

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        found = self.server.take(self.command, self.path, dict(self.headers.items()), body)
        if self.path.startswith("/refused"):
            self._answer(409, {"error": {"message": "the base has moved", "code": 409}})
        elif self.path.endswith("/nothing"):
            self.send_response(204)
            self.end_headers()
        elif self.headers.get("If-None-Match") == found["metadata-location"]:
            self.send_response(304)
            self.end_headers()
        else:
            self._answer(200, found)

    do_GET = do_HEAD = do_POST = do_DELETE = _serve

    def _answer(self, status: int, value: dict[str, Any]) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("X-Told", "by the catalog")
        self.send_header("ETag", value.get("metadata-location", ""))
        if "gzip" in self.headers.get("Accept-Encoding", ""):
            self.send_header("Content-Encoding", "gzip")
            body = gzip.compress(body)
        if self.server.chunked:
            self.send_header("Transfer-Encoding", "chunked")
            body = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (body[:7], body[7:], b""))
        else:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
