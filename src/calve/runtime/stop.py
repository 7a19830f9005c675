"""The end of a run: the first signal asks for it, a second one or the deadline enforces it."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType

DEADLINE = 30.0


class Stop:
    """Whether the run is to end after the batch in flight."""

    def __init__(self, deadline: float = DEADLINE, leave: Callable[[int], None] = os._exit) -> None:
        self._event = threading.Event()
        self._deadline = deadline
        self._leave = leave
        self._signal = 0

    def listen(self) -> None:
        """Take SIGTERM and SIGINT as the wish to end."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def request(self) -> None:
        """Ask for the end."""
        self._event.set()

    def is_requested(self) -> bool:
        return self._event.is_set()

    def wait(self, seconds: float) -> bool:
        """Sleep, but not longer than until the end is asked for."""
        return self._event.wait(seconds)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._signal:
            self._cut_off(number, "a second signal came")
            return
        self._signal = number
        self.request()
        timer = threading.Timer(self._deadline, self._cut_off, (number, f"it took over {self._deadline:g} s"))
        timer.daemon = True
        timer.start()

    def _cut_off(self, number: int, why: str) -> None:
        sys.stderr.write(f"The batch in flight was cut off because {why}; the next run repeats it\n")
        sys.stderr.flush()
        self._leave(128 + number)
