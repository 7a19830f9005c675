"""A port of the loopback interface, and the connections that come to it."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress

HOST = "127.0.0.1"
CLOSE_WITHIN = 5.0


class Listener:
    """Gives each connection to `serve`, in a thread of its own, until it is closed."""

    def __init__(self, serve: Callable[[socket.socket], None]) -> None:
        self._serve = serve
        self._socket = socket.create_server((HOST, 0), backlog=128)
        self.port = int(self._socket.getsockname()[1])
        self._live: dict[socket.socket, threading.Thread] = {}
        self._lock = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._accept, daemon=True, name="calve-testing-listener")
        self._thread.start()

    def close(self) -> None:
        """End every connection and wait, within bounds, for the threads that served them."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            live = dict(self._live)
        # Closing a socket does not wake the thread that accepts from it; a connection does.
        with suppress(OSError):
            socket.create_connection((HOST, self.port), CLOSE_WITHIN).close()
        self._thread.join(CLOSE_WITHIN)
        self._socket.close()
        _end(live)

    def _accept(self) -> None:
        while True:
            connection, _ = self._socket.accept()
            with self._lock:
                if self._closed:
                    connection.close()
                    return
                thread = threading.Thread(target=self._run, args=(connection,), daemon=True)
                self._live[connection] = thread
                thread.start()

    def _run(self, connection: socket.socket) -> None:
        try:
            with suppress(OSError):
                self._serve(connection)
        finally:
            connection.close()
            with self._lock:
                self._live.pop(connection, None)


def _end(live: dict[socket.socket, threading.Thread]) -> None:
    for connection in live:
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
    end = time.monotonic() + CLOSE_WITHIN
    for thread in live.values():
        thread.join(max(0.0, end - time.monotonic()))
