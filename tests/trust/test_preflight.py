"""A catalog is asked for its settings before Iceberg's client is."""

from __future__ import annotations

import json
import socket
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

import pytest

from calve.errors import ConfigurationError, NotPermitted, Unavailable
from calve.trust import Policy, preflight

Answer = tuple[int, dict[str, str], bytes]


class Server(ThreadingHTTPServer):
    """Answers what it is told to, and keeps what it was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answering)
        self.asked: list[tuple[str, str, dict[str, str], str]] = []
        self.answers: dict[str, Answer | Callable[[], Answer]] = {}

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Answering(BaseHTTPRequestHandler):
    server: Server

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        self.server.asked.append((self.command, self.path, dict(self.headers), body))
        found = self.server.answers.get(self.path.partition("?")[0], (404, {}, b""))
        status, headers, text = found() if callable(found) else found
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(text))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = _answer

    def log_message(self, *_: Any) -> None:
        pass


def said(status: int = 200, **value: Any) -> Answer:
    return status, {"Content-Type": "application/json"}, json.dumps(value).encode()


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True).start()
    yield running
    running.shutdown()
    running.server_close()


@pytest.fixture
def other() -> Iterator[Server]:
    running = Server()
    threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True).start()
    yield running
    running.shutdown()
    running.server_close()


def policy(*servers: Server, **keys: Any) -> Policy:
    given = {"hosts": ("127.0.0.1",), "has_secrets": True, **keys}
    return Policy(catalog="the catalog", uris=tuple(one.uri for one in servers), **given)


def test_the_settings_of_an_honest_catalog_are_taken(server: Server) -> None:
    server.answers["/v1/config"] = said(defaults={"a": "1", "b": 2}, overrides={"b": "3", "prefix": "lake"})
    properties = {"uri": server.uri, "token": "geheim-token", "warehouse": "my lake", "header.X-Team": "shop"}
    assert preflight.settings(server.uri, properties, "c") == {"a": "1", "b": "3", "prefix": "lake"}
    ((method, path, headers, _),) = server.asked
    assert (method, path) == ("GET", "/v1/config?warehouse=my+lake")
    assert (headers["Authorization"], headers["X-Team"]) == ("Bearer geheim-token", "shop")
    assert preflight.checked(policy(server), properties) == properties


def test_a_client_gets_a_token_first(server: Server) -> None:
    server.answers["/v1/oauth/tokens"] = said(access_token="fresh-token")
    server.answers["/v1/config"] = said(defaults={}, overrides={})
    properties = {"uri": server.uri, "credential": "id:geheim", "scope": "all", "audience": "them"}
    preflight.checked(policy(server), properties)
    (_, _, _, form), (_, _, headers, _) = server.asked
    assert parse_qs(form) == {
        "grant_type": ["client_credentials"],
        "client_id": ["id"],
        "client_secret": ["geheim"],
        "scope": ["all"],
        "audience": ["them"],
    }
    assert headers["Authorization"] == "Bearer fresh-token"


def test_name_and_password(server: Server) -> None:
    server.answers["/v1/config"] = said()
    named = {"rest.auth.basic.username": "me", "rest.auth.basic.password": "geheim"}
    preflight.settings(server.uri, {"rest.auth.type": "basic", **named}, "c")
    assert server.asked[0][2]["Authorization"] == f"Basic {b64encode(b'me:geheim').decode()}"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("path", ["/v1/config", "/v1/oauth/tokens"])
def test_no_redirect_is_followed(server: Server, other: Server, status: int, path: str) -> None:
    server.answers["/v1/oauth/tokens"] = said(access_token="fresh-token")
    server.answers[path] = (status, {"Location": f"{other.uri}{path}"}, b"")
    with pytest.raises(ConfigurationError, match=r"sends us to '127.0.0.1', which is not followed"):
        preflight.checked(policy(server), {"uri": server.uri, "credential": "id:geheim"})
    assert other.asked == []


def test_settings_that_lead_elsewhere_are_refused(server: Server) -> None:
    server.answers["/v1/config"] = said(overrides={"uri": "https://evil.example"})
    with pytest.raises(ConfigurationError, match=r"it wants 'uri' to be at 'evil.example'"):
        preflight.checked(policy(server), {"uri": server.uri, "token": "t"})


@pytest.mark.parametrize(
    ("answer", "error", "why"),
    [
        (said(401, error={"message": "who are you?"}), NotPermitted, "answers 401: who are you?"),
        (said(403, error={"message": "no"}), NotPermitted, "answers 403: no"),
        (
            said(401, error="invalid_client", error_description="unknown"),
            NotPermitted,
            "answers 401: unknown",
        ),
        (said(400, error={"message": "warehouse x not found"}), ConfigurationError, "warehouse x not found"),
        ((404, {}, b"<html>"), ConfigurationError, "answers 404"),
        ((503, {}, b""), Unavailable, "answers 503"),
        (said(429, error={"message": "slow down"}), Unavailable, "answers 429: slow down"),
        ((200, {}, b"<html>"), ConfigurationError, "does not answer as a catalog"),
        ((200, {}, b"[" * 100_000), ConfigurationError, "does not answer as a catalog"),
        (lambda: (200, {}, b'{"x": "' + b"x" * 5 * 2**20 + b'"}'), ConfigurationError, "more than 4 MiB"),
    ],
)
def test_other_answers_are_told(server: Server, answer: Any, error: type[Exception], why: str) -> None:
    server.answers["/v1/config"] = answer
    with pytest.raises(error, match=why):
        preflight.checked(policy(server), {"uri": server.uri, "token": "t"})


def test_a_secret_that_a_server_sends_back_is_not_shown(server: Server) -> None:
    from calve.model import Secret

    token = Secret("a-token-nobody-else-has").reveal()
    server.answers["/v1/config"] = said(401, error={"message": f"{token} is not a token"})
    with pytest.raises(NotPermitted, match=r"\*\*\* is not a token"):
        preflight.checked(policy(server), {"uri": server.uri, "token": token})


def test_addresses_are_tried_in_turn(server: Server, other: Server) -> None:
    server.answers["/v1/config"] = (503, {}, b"")
    server.answers["/v1/oauth/tokens"] = other.answers["/v1/oauth/tokens"] = said(access_token="fresh-token")
    other.answers["/v1/config"] = said()
    given = {
        "uri": server.uri,
        "credential": "id:geheim",
        "oauth2-server-uri": f"{server.uri}/v1/oauth/tokens",
    }
    found = preflight.checked(policy(server, other), given)
    assert (found["uri"], found["oauth2-server-uri"]) == (other.uri, f"{other.uri}/v1/oauth/tokens")
    assert len(other.asked) == 2


def test_an_address_that_refuses_is_not_passed_over(server: Server, other: Server) -> None:
    server.answers["/v1/config"] = said(401)
    with pytest.raises(NotPermitted):
        preflight.checked(policy(server, other), {"uri": server.uri, "token": "t"})
    assert other.asked == []


def test_nobody_there() -> None:
    gone = Server()
    gone.server_close()
    with pytest.raises(Unavailable, match=r"connection refused"):
        preflight.checked(policy(gone), {"uri": gone.uri, "token": "t"})
    unknown = Policy(catalog="c", uris=("http://no-such-host.invalid",), has_secrets=True)
    with pytest.raises(Unavailable, match=r"the name is not known"):
        preflight.checked(unknown, {"token": "t"})


@pytest.mark.parametrize(
    ("keys", "properties", "needed"),
    [
        ({"has_secrets": True}, {}, True),
        ({"has_secrets": False}, {}, False),
        ({"has_secrets": True}, {"rest.auth.type": "sigv4"}, False),
        ({"has_secrets": True}, {"rest.sigv4-enabled": "true"}, False),
        ({"uris": ("http://a", "http://b")}, {}, True),
        ({"uris": (), "has_secrets": True}, {}, False),
    ],
)
def test_when_it_is_asked_first(keys: dict[str, Any], properties: dict[str, str], needed: bool) -> None:
    found = Policy(**{"catalog": "c", "uris": ("http://a",), **keys})
    assert preflight.is_needed(found, properties) is needed


class Raw:
    """A server that answers every connection with the same bytes."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.uri = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                with connection:
                    connection.recv(65536)
                    connection.sendall(self._answer)
                    connection.shutdown(socket.SHUT_WR)
                    connection.recv(1)

    def close(self) -> None:
        self._socket.close()


HEAD = b"HTTP/1.1 200 OK\r\nConnection: close\r\n"


@pytest.mark.parametrize(
    ("answer", "kind", "why"),
    [
        (b"SSH-2.0-OpenSSH_9.6\r\n", Unavailable, "does not answer as a web server does"),
        (
            HEAD + b"X-Long: " + b"x" * 70_000 + b"\r\n\r\n",
            Unavailable,
            "does not answer as a web server does",
        ),
        (HEAD + b"Content-Length: 100\r\n\r\n{", Unavailable, "the connection ended before the answer did"),
        (HEAD + b"\r\n" + b"[" * 200_000, ConfigurationError, "does not answer as a catalog"),
        (HEAD.replace(b"200 OK", b"503 Busy") + b"\r\n[]", Unavailable, "answers 503"),
        (HEAD.replace(b"200 OK", b"400 Bad") + b"\r\n7", ConfigurationError, "answers 400"),
        (HEAD.replace(b"200 OK", b"401 No") + b"\r\n" + b"[" * 200_000, NotPermitted, "answers 401"),
        (
            HEAD.replace(b"200 OK", b"503 Busy") + b"Content-Length: 9\r\n\r\n{",
            Unavailable,
            "answers 503",
        ),
    ],
    ids=[
        "no web server",
        "endless header",
        "cut",
        "deep",
        "a list",
        "a number",
        "deep refusal",
        "cut refusal",
    ],
)
def test_whatever_a_server_sends_is_an_error_of_ours(answer: bytes, kind: type[Exception], why: str) -> None:
    server = Raw(answer)
    try:
        with pytest.raises(kind, match=why):
            preflight.settings(server.uri, {}, "the catalog")
    finally:
        server.close()


def test_an_answer_that_drips_has_an_end(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "PATIENCE", 0.3)

    class Dripping:
        length = None

        def read1(self, size: int) -> bytes:
            return b" "

    with pytest.raises(TimeoutError):
        preflight._body(Dripping())
