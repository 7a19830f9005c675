"""Proxies in front of servers: what goes in and out can be watched, refused and changed."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from typing import Any
from urllib.parse import parse_qs, urlsplit

from calve.testing import ledger
from calve.testing.listener import HOST, Listener
from calve.testing.wire import Answer, Request, Speaker, content, header, without

_OF_ONE_CONNECTION = ("connection", "keep-alive", "transfer-encoding", "content-length", "expect")
_JSON = (("Content-Type", "application/json"),)
_XML = (("Content-Type", "application/xml"),)


def as_json(value: Any, status: int = 200) -> Answer:
    """An answer in JSON."""
    return Answer(status, _JSON, json.dumps(value).encode())


def refusal(status: int, kind: str, message: str) -> Answer:
    """An error as a REST catalog tells it."""
    return as_json({"error": {"message": message, "type": kind, "code": status}}, status)


class Gate:
    """A proxy on the loopback interface; a subclass says what becomes of a request.

    The host that the client asked for is passed on, because it may have signed it. The length in the answer
    to a HEAD is passed on too: to a store it is the size of a file.
    """

    def __init__(self, upstream: str | None = None) -> None:
        self._target = urlsplit(upstream).netloc if upstream else None
        self.seen: list[tuple[Request, int]] = []
        """Every request and the status of its answer."""
        self._listener = Listener(self._serve)

    @property
    def uri(self) -> str:
        return f"http://{HOST}:{self._listener.port}"

    def _serve(self, connection: socket.socket) -> None:
        Speaker(connection, self._answered)

    def _answered(self, request: Request) -> Answer:
        answer = self.respond(request)
        self.seen.append((request, answer.status))
        return answer

    def respond(self, request: Request) -> Answer:
        """The answer to a request; by default that of the server."""
        return self.ask(request)

    def ask(self, request: Request) -> Answer:
        """What the server behind answers."""
        if self._target is None:
            return Answer(404)
        connection = HTTPConnection(self._target, timeout=60)
        try:
            headers = dict(without(request.headers, *_OF_ONE_CONNECTION))
            connection.request(request.method, request.path, request.body or None, headers)
            found = connection.getresponse()
            kept = tuple(
                pair
                for pair in found.getheaders()
                if pair[0].lower() not in _OF_ONE_CONNECTION
                or (request.method == "HEAD" and pair[0].lower() == "content-length")
            )
            return Answer(found.status, kept, found.read())
        except OSError as error:
            return refusal(502, "BadGateway", f"the server behind the gate does not answer: {error}")
        finally:
            connection.close()

    def paths(self, method: str | None = None) -> list[str]:
        return [request.path for request, _ in self.seen if method in (None, request.method)]

    def close(self) -> None:
        self._listener.close()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


class StoreGate(Gate):
    """In front of an S3 store: slows clients down, and knows how long the keys are good that were vended."""

    def __init__(self, upstream: str) -> None:
        super().__init__(upstream)
        self.slow_downs = 0
        """How many requests are still to be answered with SlowDown."""
        self.ends: dict[str, float] = {}
        """Until when each key is good; other keys are good for ever."""
        self.expired = 0
        self._lock = threading.Lock()

    def respond(self, request: Request) -> Answer:
        if self._is_too_much():
            return _store_refusal(503, "SlowDown", "Please reduce your request rate.")
        key = re.search(r"Credential=([^/]+)/", header(request, "authorization"))
        if key and time.monotonic() > self.ends.get(key[1], float("inf")):
            self.expired += 1
            return _store_refusal(400, "ExpiredToken", "The provided token has expired.")
        return self.ask(request)

    def _is_too_much(self) -> bool:
        with self._lock:
            due = self.slow_downs > 0
            self.slow_downs -= due
            return due


def _store_refusal(status: int, code: str, message: str) -> Answer:
    text = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{message}</Message></Error>"
    return Answer(status, _XML, text.encode())


@dataclass
class Vended:
    """Credentials that a catalog vends, one after the other, each for some seconds."""

    store: StoreGate
    seconds: float
    given: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def next(self) -> dict[str, str]:
        """The properties of new credentials."""
        with self.lock:
            self.given += 1
            key = f"vended{self.given}"
        self.store.ends[key] = time.monotonic() + self.seconds
        return {
            "s3.endpoint": self.store.uri,
            "s3.path-style-access": "true",
            "client.region": "us-east-1",
            "s3.access-key-id": key,
            "s3.secret-access-key": f"secret-of-{key}",
            "s3.session-token": f"token-of-{key}",
            "s3.session-token-expires-at-ms": str(int((time.time() + self.seconds) * 1000)),
        }


class VendingCatalog(Gate):
    """In front of a REST catalog: every table comes with credentials that are good for a short time.

    With `refresh` the catalog says where a client gets new ones; without, it must load the table again.
    """

    def __init__(self, upstream: str, vended: Vended, bucket: str, refresh: bool) -> None:
        super().__init__(upstream)
        self._vended, self._bucket, self._refresh = vended, bucket, refresh

    def respond(self, request: Request) -> Answer:
        path = urlsplit(request.path).path
        if path.endswith("/credentials"):
            return as_json({"storage-credentials": [self._credentials()]})
        answer = self.ask(Request(request.method, request.path, _plain(request), request.body))
        if answer.status != 200 or "metadata" not in (found := ledger.body(answer)):
            return answer
        one = self._credentials()
        where = path if ledger.point(request) != "catalog.create" else f"{path}/{_name(request)}"
        more = {"client.refresh-credentials-endpoint": f"{where}/credentials"} if self._refresh else {}
        told = {**found.get("config", {}), **one["config"], **more}
        return as_json(
            {**found, "config": told, "storage-credentials": [{**one, "config": {**one["config"], **more}}]}
        )

    def _credentials(self) -> dict[str, Any]:
        return {"prefix": f"s3://{self._bucket}", "config": self._vended.next()}


def _name(request: Request) -> str:
    return str(ledger.body(request).get("name"))


def _plain(request: Request) -> tuple[tuple[str, str], ...]:
    """The headers of a request whose answer is to be changed: it must not come compressed."""
    return without(request.headers, "accept-encoding")


class TokenCatalog(Gate):
    """In front of a REST catalog: OAuth2, with tokens that are good for some seconds."""

    def __init__(self, upstream: str, credential: str, seconds: int = 3600) -> None:
        super().__init__(upstream)
        self.credential, self.seconds = credential, seconds
        self.given = self.refused = 0
        self._good: dict[str, float] = {}
        self._revoke_at: int | None = None
        self._commits = 0

    def revoke_at_commit(self, nth: int) -> None:
        """Take back every token when the nth commit from now on arrives: after the load it was made for."""
        self._revoke_at, self._commits = nth, 0

    def respond(self, request: Request) -> Answer:
        if urlsplit(request.path).path == "/v1/oauth/tokens":
            return self._token(request)
        if ledger.point(request) == "catalog.commit":
            self._commits += 1
            if self._commits == self._revoke_at:
                self._good.clear()
        token = header(request, "authorization").removeprefix("Bearer ")
        if time.monotonic() > self._good.get(token, 0):
            self.refused += 1
            return refusal(401, "NotAuthorizedException", "the token has expired")
        return self.ask(request)

    def _token(self, request: Request) -> Answer:
        asked = {key: values[0] for key, values in parse_qs(content(request).decode()).items()}
        told = f"{asked.get('client_id')}:{asked.get('client_secret')}"
        is_known = told == self.credential or asked.get("subject_token", "") in self._good
        if not is_known and "basic" not in header(request, "authorization").lower():
            return as_json({"error": "invalid_client", "error_description": "not known here"}, 401)
        self.given += 1
        token = f"token-{self.given}"
        self._good[token] = time.monotonic() + self.seconds
        kind = {"token_type": "bearer", "issued_token_type": "urn:ietf:params:oauth:token-type:access_token"}
        return as_json({"access_token": token, "expires_in": self.seconds, **kind})


@contextmanager
def meanwhile(action: Callable[[], object]) -> Iterator[None]:
    """Do `action` in a thread while the block runs, and wait for it; what it raises is raised at the end."""
    failed: list[BaseException] = []

    def run() -> None:
        try:
            action()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    yield
    thread.join(120)
    assert not thread.is_alive(), "what was to be done meanwhile has not ended"
    for error in failed:
        raise error
