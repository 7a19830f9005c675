"""HTTP as the faulty catalog speaks it: requests, answers, and connections that end badly."""

from __future__ import annotations

import socket
import struct
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPSConnection
from http.server import BaseHTTPRequestHandler
from socketserver import BaseServer
from typing import cast
from urllib.parse import urlsplit

Headers = tuple[tuple[str, str], ...]

_OF_ONE_CONNECTION = {
    *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te"),
    *("trailer", "transfer-encoding", "upgrade", "http2-settings", "content-length", "host", "expect"),
}
_WITHOUT_BODY = (204, 304)
IDLE_FOR = 600.0


@dataclass(frozen=True)
class Request:
    """A request as a client sent it; the body may be compressed."""

    method: str
    path: str
    headers: Headers = ()
    body: bytes = b""


@dataclass(frozen=True)
class Answer:
    """An answer to a request; the body may be compressed."""

    status: int
    headers: Headers = ()
    body: bytes = b""


@dataclass(frozen=True)
class Break:
    """No answer: the connection is reset at once, or stays silent for some seconds and is closed."""

    silent_for: float | None = None


Outcome = Answer | Break


def header(message: Request | Answer, name: str) -> str:
    """The value of a header, or nothing."""
    return next((value for key, value in message.headers if key.lower() == name), "")


def without(headers: Headers, *names: str) -> Headers:
    """Headers, but for those with the names."""
    return tuple((key, value) for key, value in headers if key.lower() not in names)


def content(message: Request | Answer) -> bytes:
    """The body, not compressed; raises ValueError where it cannot be read."""
    encoding = header(message, "content-encoding").strip().lower()
    if encoding in ("", "identity") or not message.body:
        return message.body
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise ValueError(f"Cannot read a body: its encoding is '{encoding}'")
    try:
        return zlib.decompress(message.body, wbits=zlib.MAX_WBITS | 32)
    except zlib.error as error:
        raise ValueError(f"Cannot read a body: {error}") from error


def reset_on_close(connection: socket.socket) -> None:
    """Let closing the connection send RST, as a peer does that died."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


class Upstream:
    """The real server. Each request has a connection of its own, so that none is ever sent twice."""

    def __init__(self, uri: str, timeout: float) -> None:
        parts = urlsplit(uri)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"Cannot stand in front of '{uri}': not an address of HTTP")
        self._connection = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self._host, self._port, self._authority = parts.hostname, parts.port, parts.netloc
        self._path = parts.path.rstrip("/")
        self._timeout = timeout

    def ask(self, request: Request) -> Answer:
        """The answer to `request`; raises OSError or HTTPException where there is none."""
        connection = self._connection(self._host, self._port, timeout=self._timeout)
        try:
            connection.putrequest(
                request.method, self._path + request.path, skip_host=True, skip_accept_encoding=True
            )
            for key, value in self._headers(request):
                connection.putheader(key, value)
            connection.endheaders(request.body or None)
            response = connection.getresponse()
            headers = without(tuple(response.getheaders()), *_OF_ONE_CONNECTION)
            return Answer(response.status, headers, response.read())
        finally:
            connection.close()

    def _headers(self, request: Request) -> Headers:
        length = (("Content-Length", str(len(request.body))),) if _has_body(request) else ()
        own = (("Host", self._authority), ("Connection", "close"), *length)
        return (*own, *without(request.headers, *_OF_ONE_CONNECTION))


class Speaker(BaseHTTPRequestHandler):
    """Speaks HTTP/1.1 on one connection, for as long as the client keeps it."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = IDLE_FOR

    def __init__(self, connection: socket.socket, respond: Callable[[Request], Outcome]) -> None:
        self._respond = respond
        super().__init__(connection, connection.getpeername(), cast(BaseServer, None))

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is logged: the ledger and the trace tell."""

    def _serve(self) -> None:
        outcome = self._respond(Request(self.command, self.path, tuple(self.headers.items()), self._body()))
        if isinstance(outcome, Break):
            self._break(outcome)
        else:
            self._send(outcome)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = _serve

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            return b"".join(iter(self._chunk, b""))
        return self._exactly(int(self.headers.get("Content-Length", 0)))

    def _chunk(self) -> bytes:
        chunk = self._exactly(int(self.rfile.readline().split(b";")[0] or b"0", 16))
        while self.rfile.readline().strip():
            pass  # trailers, which only the last chunk has
        return chunk

    def _exactly(self, size: int) -> bytes:
        found = self.rfile.read(size)
        if len(found) < size:
            raise ConnectionError("the client went away within its request")
        return found

    def _send(self, answer: Answer) -> None:
        self.send_response_only(answer.status)
        for key, value in answer.headers:
            self.send_header(key, value)
        if self.command != "HEAD" and answer.status not in _WITHOUT_BODY:
            self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)

    def _break(self, end: Break) -> None:
        self.close_connection = True
        if end.silent_for is None:
            reset_on_close(self.connection)
            self.connection.close()
            return
        self.connection.settimeout(end.silent_for)
        with suppress(OSError):
            self.connection.recv(1)


def _has_body(request: Request) -> bool:
    return bool(request.body) or request.method in ("POST", "PUT")
