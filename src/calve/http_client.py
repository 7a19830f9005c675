"""HTTP requests with a deadline and bounded answers, to the named host and nobody else."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from email.message import Message
from urllib.parse import urlsplit

from calve.addresses import is_metadata

DEADLINE = 30.0
"""How many seconds a request may take, from the first byte sent to the last one read."""


class TooLarge(Exception):
    """An answer that is longer than what is read of it."""


class MetadataHost(Exception):
    """A name that stands for an address at which a cloud tells its machines their credentials."""


@dataclass(frozen=True)
class Answer:
    """What a server answers."""

    status: int
    headers: Message
    body: bytes


def ask(
    address: str,
    headers: Mapping[str, str],
    *,
    largest: int,
    content: bytes | None = None,
    deadline: float = DEADLINE,
) -> Answer:
    """The answer of the server at `address`: to a POST if there is `content`, else to a GET.

    Proxies of the environment are not used, because they would get the credentials in `headers`, and
    redirects are not followed. Raises OSError or http.client.HTTPException where nobody answers properly in
    time, TooLarge, MetadataHost, and ValueError for an address that is none.
    """
    parts = urlsplit(address)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=deadline)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        connection.connect()
        _refuse_metadata(connection.sock)
        with _Deadline(connection.sock, deadline) as timer:
            try:
                connection.request("GET" if content is None else "POST", target, content, dict(headers))
                answer = connection.getresponse()
                body = answer.read(largest + 1)
                if answer.length and len(body) <= largest:
                    raise http.client.IncompleteRead(body, answer.length)
            except (OSError, http.client.HTTPException):
                if timer.passed:
                    raise TimeoutError(f"no answer within {deadline:g} s") from None
                raise
            if timer.passed:
                raise TimeoutError(f"no answer within {deadline:g} s")
    finally:
        connection.close()
    if len(body) > largest:
        raise TooLarge
    return Answer(answer.status, answer.headers, body)


def _refuse_metadata(connected: socket.socket) -> None:
    """Compare the address that a name has led to, before anything is sent there."""
    if connected.family in (socket.AF_INET, socket.AF_INET6) and is_metadata(connected.getpeername()[0]):
        raise MetadataHost


class _Deadline:
    """Ends a connection in time: a time-out of the socket begins again with each byte."""

    def __init__(self, connected: socket.socket, seconds: float) -> None:
        self.passed = False
        self._connected = connected
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True

    def __enter__(self) -> _Deadline:
        self._timer.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._timer.cancel()

    def _end(self) -> None:
        self.passed = True
        with suppress(OSError):
            # The plain socket also below TLS, whose own shutdown would wait for the other side.
            socket.socket.shutdown(self._connected, socket.SHUT_RDWR)
