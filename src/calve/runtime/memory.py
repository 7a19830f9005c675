"""The memory of this process and of all that it started."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

_PROC = Path("/proc")


def held(proc: Path = _PROC, root: int | None = None) -> int:
    """The resident bytes of a process and its descendants; 0 where the system has no /proc.

    Pages that processes share count for each of them.
    """
    children: dict[int, list[int]] = {}
    for pid, parent in _parents(proc):
        children.setdefault(parent, []).append(pid)
    left, total = [root or os.getpid()], 0
    while left:
        pid = left.pop()
        total += _resident(proc / str(pid))
        left += children.get(pid, ())
    return total


def _parents(proc: Path) -> Iterator[tuple[int, int]]:
    for folder in proc.glob("[0-9]*"):
        try:
            # The name of a process stands in brackets and may hold anything.
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        yield int(folder.name), int(fields[1])


def _resident(folder: Path) -> int:
    try:
        return int((folder / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


class Peak:
    """The most that was held while this was open, looked at every now and then."""

    def __init__(self, every: float = 0.5) -> None:
        self.bytes = 0
        self._every = every
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="memory", daemon=True)

    def __enter__(self) -> Peak:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._end.set()
        self._thread.join()

    def _watch(self) -> None:
        while True:
            self.bytes = max(self.bytes, held())
            if self._end.wait(self._every):
                return
