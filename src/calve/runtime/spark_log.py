"""What the processes of Spark print, kept in a file of bounded size, without secrets."""

from __future__ import annotations

import logging
import os
import re
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from calve.redaction import redacted
from calve.runtime import scratch

log = logging.getLogger("calve")

LARGEST = 16 * 2**20
"""How many bytes a file has at the most; the one before it is kept as `spark.log.1`."""

_TAIL = 200
_REASON = re.compile(
    r"^(?:Caused by:|Exception in thread \"[^\"]*\"|Error:|Error occurred during initialization of VM)\s*(.*)"
)


class SparkLog:
    """The output of the JVM and of its workers, passed on line by line."""

    def __init__(self, file: Path | None) -> None:
        """`file` gets the lines; without one they go to the terminal."""
        self._file = file
        self._target = os.dup(2) if file is None else self._opened(file)
        self._tail: deque[str] = deque(maxlen=_TAIL)
        self._thread: threading.Thread | None = None
        self._saved: tuple[int, ...] = ()

    def _opened(self, file: Path) -> int:
        try:
            scratch.make_private(file.parent)
            return os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError as error:
            log.warning(
                "Cannot keep what Spark prints in '%s': %s; name another folder with --state or CALVE_STATE",
                file, error.strerror,
            )  # fmt: skip
            self._file = None
            return os.open(os.devnull, os.O_WRONLY)

    @contextmanager
    def taking_output(self) -> Iterator[None]:
        """Inside, this process and those that it starts print into the log."""
        sys.stdout.flush()
        sys.stderr.flush()
        saved = os.dup(1), os.dup(2)
        reading, writing = os.pipe()
        self._thread = threading.Thread(target=self._keep, args=(reading,), name="spark-log", daemon=True)
        self._thread.start()
        os.dup2(writing, 1)
        os.dup2(writing, 2)
        os.close(writing)
        self._saved = saved
        try:
            yield
        finally:
            self.give_back()

    def give_back(self) -> None:
        """Let this process print where it did before."""
        saved, self._saved = self._saved, ()
        for number, copy in zip((1, 2), saved, strict=bool(saved)):
            os.dup2(copy, number)
            os.close(copy)

    def reason(self) -> str:
        """Why a JVM did not start, as its last lines tell; empty where they tell nothing."""
        self.give_back()
        if self._thread is not None:
            self._thread.join(5)
        lines = list(self._tail)
        for number in range(len(lines) - 1, -1, -1):
            match = _REASON.match(lines[number])
            if match:
                return (match[1] or "".join(lines[number + 1 : number + 2])).strip()
        return ""

    def _keep(self, reading: int) -> None:
        """Pass on what comes out of a pipe, until nobody can write to it any more."""
        with os.fdopen(reading, "rb") as lines:
            for line in lines:
                text = redacted(line.decode(errors="backslashreplace"))
                self._tail.append(text.rstrip())
                # A full disk costs lines of the log; Spark goes on.
                with suppress(OSError):
                    self._write(text.encode(errors="backslashreplace"))
        os.close(self._target)

    def _write(self, line: bytes) -> None:
        if self._file is not None and os.fstat(self._target).st_size + len(line) > LARGEST:
            self._file.replace(self._file.with_name(f"{self._file.name}.1"))
            fresh = self._opened(self._file)
            os.close(self._target)
            self._target = fresh
        os.write(self._target, line)
