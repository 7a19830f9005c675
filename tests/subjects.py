"""A schema registry in this process: Confluent's protocol, as far as readers use it."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from types import TracebackType
from typing import Any
from urllib.parse import unquote

from fastavro import parse_schema, schemaless_writer

Schema = Mapping[str, Any] | Sequence[Any] | str


class Subjects:
    """Subjects and their versions; `asked` has every path that was asked for."""

    def __init__(self, authorization: str | None = None) -> None:
        self.authorization = authorization
        self.registered: list[dict[str, Any]] = []
        self.asked: list[str] = []
        self.failing = 0
        self.moved_to: str | None = None
        self.missing: dict[str, Any] = {"error_code": 40403}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Subjects:
        threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        ).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def register(
        self, subject: str, schema: Schema, kind: str = "AVRO", references: Sequence[str] = ()
    ) -> int:
        """The id of a new version; ids begin at 300, so that none fits in one byte."""
        version = 1 + sum(one["subject"] == subject for one in self.registered)
        text = schema if isinstance(schema, str) else json.dumps(schema)
        referred = [{"name": name, "subject": name, "version": 1} for name in references]
        entry = {"subject": subject, "version": version, "id": 300 + len(self.registered), "schema": text}
        entry |= {"references": referred} if referred else {}
        self.registered.append(entry | ({} if kind == "AVRO" else {"schemaType": kind}))
        return int(entry["id"])

    def _found(self, path: str) -> dict[str, Any] | None:
        parts = [unquote(part) for part in path.strip("/").split("/")]
        if parts[:2] == ["schemas", "ids"]:
            return next((one for one in self.registered if str(one["id"]) == parts[2]), None)
        _, subject, _, version = parts
        there = [one for one in self.registered if one["subject"] == subject]
        return next((one for one in reversed(there) if version in ("latest", str(one["version"]))), None)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        subjects = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                subjects.asked.append(self.path)
                code, found = subjects._answer(self.path, self.headers.get("Authorization"))
                body = json.dumps(found).encode()
                self.send_response(code)
                if code == 302:
                    self.send_header("Location", f"{subjects.moved_to}{self.path}")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        return Handler

    def _answer(self, path: str, authorization: str | None) -> tuple[int, Any]:
        if self.failing:
            self.failing -= 1
            return 503, {}
        if self.moved_to is not None:
            return 302, {}
        if authorization != self.authorization:
            return 401, {"error_code": 401}
        found = self._found(path)
        return (200, found) if found else (404, self.missing)


def datum(schema: Schema, value: Any) -> bytes:
    """One value as Avro writes it."""
    out = BytesIO()
    schemaless_writer(out, parse_schema(schema), value)
    return out.getvalue()


def headed(number: int, body: bytes) -> bytes:
    """A record that begins with the id of its schema."""
    return b"\0" + number.to_bytes(4, "big") + body


def record(*fields: tuple[str, Any] | dict[str, Any], name: str = "Row", **more: Any) -> dict[str, Any]:
    """The schema of a record."""
    told = [one if isinstance(one, dict) else {"name": one[0], "type": one[1]} for one in fields]
    return {"type": "record", "name": name, "fields": told, **more}
