"""The end of a run: the first signal asks for it, a second one or the deadline enforces it."""

from __future__ import annotations

import os
import select
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

DEADLINE = 30.0
SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Stop:
    """Whether the run is to end after the batch in flight.

    A signal handler may interrupt any line of the main thread, also one that holds a lock. So the handler
    takes no lock: it writes a byte to a pipe, and a thread that waits for it does the rest.
    """

    def __init__(self, deadline: float = DEADLINE, leave: Callable[[int], None] = os._exit) -> None:
        self.deadline = deadline
        self._event = threading.Event()
        self._leave = leave
        self._signal = 0
        self._pipe: int | None = None

    def listen(self) -> None:
        """Take SIGTERM and SIGINT as the wish to end."""
        if self._pipe is None:
            reading, self._pipe = os.pipe()
            threading.Thread(target=self._watch, args=(reading,), name="stop", daemon=True).start()
        for number in SIGNALS:
            signal.signal(number, self._on_signal)

    def request(self) -> None:
        """Ask for the end."""
        self._event.set()

    def is_requested(self) -> bool:
        return bool(self._signal) or self._event.is_set()

    def wait(self, seconds: float) -> bool:
        """Sleep, but not longer than until the end is asked for."""
        return self._event.wait(seconds)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._signal:
            self._cut_off(number, "a second signal came")
            return
        self._signal = number
        assert self._pipe is not None, "signals are listened for"
        os.write(self._pipe, b"!")

    def _watch(self, reading: int) -> None:
        """Pass a signal on to whoever waits, and see to the deadline."""
        os.read(reading, 1)
        self.request()
        # Nothing more ever comes: a second signal does not need this thread.
        select.select([reading], [], [], self.deadline)
        self._cut_off(self._signal, f"it took over {self.deadline:g} s")

    def _cut_off(self, number: int, why: str) -> None:
        line = f"The batch in flight was cut off because {why}; the next run repeats it\n"
        # sys.stderr refuses to be written to by a handler that interrupts a writing.
        with suppress(OSError):
            os.write(2, line.encode())
        self._leave(128 + number)
