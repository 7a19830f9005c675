"""Requests over HTTP: what is not followed, not waited for and not read."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from calve import http_client

Serve = Callable[[socket.socket], None]


@contextmanager
def server(serve: Serve) -> Iterator[str]:
    """A server that hands each connection to `serve`."""
    listener = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection, suppress(OSError):
                    connection.recv(65536)
                    serve(connection)

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/x?y=1"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def drip(text: bytes) -> Serve:
    """Sends a byte every 20 ms, for ever."""

    def serve(connection: socket.socket) -> None:
        connection.sendall(text)
        while True:
            connection.sendall(b"x")
            time.sleep(0.02)

    return serve


@pytest.mark.parametrize("text", [b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.1 200 OK\r\n\r\n", b""])
def test_an_answer_that_comes_byte_by_byte_is_not_waited_for_longer_than_the_deadline(text: bytes) -> None:
    begin = time.monotonic()
    with server(drip(text)) as address, pytest.raises(TimeoutError, match=r"no answer within 0\.3 s"):
        http_client.ask(address, {}, largest=10**9, deadline=0.3)
    assert time.monotonic() - begin < 5


def test_a_long_answer_is_not_read_to_its_end() -> None:
    def serve(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 100)

    with server(serve) as address:
        with pytest.raises(http_client.TooLarge):
            http_client.ask(address, {}, largest=99)
        assert http_client.ask(address, {}, largest=100).body == b"x" * 100


def test_an_answer_that_is_cut_off_is_an_error() -> None:
    def serve(connection: socket.socket) -> None:
        connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"a": 1}')

    with server(serve) as address, pytest.raises(http.client.IncompleteRead):
        http_client.ask(address, {}, largest=1000)


def test_what_is_no_http_is_an_error_of_the_protocol() -> None:
    with (
        server(lambda connection: connection.sendall(b"SSH-2.0-x\r\n")) as address,
        pytest.raises(http.client.HTTPException),
    ):
        http_client.ask(address, {}, largest=100)


def test_a_name_that_leads_to_a_metadata_address_is_sent_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = []
    with server(sent.append) as address:
        monkeypatch.setattr(http_client, "is_metadata", lambda name: name == "127.0.0.1")
        with pytest.raises(http_client.MetadataHost):
            http_client.ask(address, {"Authorization": "secret"}, largest=100)
    assert sent == []
