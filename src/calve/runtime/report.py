"""What a pipeline tells of itself while it runs, kept in `.calve/status`."""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from calve.redaction import cleaned
from calve.runtime import scratch

log = logging.getLogger("calve")

_WAITING_EVERY = 1.0
"""After how many seconds other processes are told of a number that changes all the time."""


@dataclass
class Status:
    """What is known of one pipeline's run."""

    pipeline: str
    table: str = ""
    state: str = "starting"
    pid: int = field(default_factory=os.getpid)
    started: float = field(default_factory=time.time)
    epoch: int = 0
    rows: int = 0
    dropped: int = 0
    """Changes that were passed over: deletes where rows are only added, and changes that came too late."""
    dead_letters: int = 0
    """Records that could not be taken and are in the table for dead letters."""
    bytes: int = 0
    batches: int = 0
    files: int = 0
    retries: int = 0
    waiting: int = 0
    commit_seconds: float = 0.0
    stage_seconds: float = 0.0
    lookups: int = 0
    lookup_files: int = 0
    lookup_seconds: float = 0.0
    """How often, in how many files and how long the rows were looked for that an upsert replaces."""
    profile: dict[str, float] = field(default_factory=dict)
    """With `--profile`: the seconds of each step, over all batches."""
    peak_memory: int = 0
    """With `--profile`: the most bytes that this process and those it started have held at once."""
    last_commit: float | None = None
    position: Any = None
    uuids: dict[str, str] = field(default_factory=dict)
    """The UUIDs of the tables that this pipeline has written, also in earlier runs."""
    message: str = ""
    exit_code: int | None = None
    """What a run of this pipeline alone ends with; none while it runs."""


class Report:
    """The status of one run, in memory for the terminal and in a file for other processes."""

    def __init__(self, pipeline: str, folder: Path | None = None) -> None:
        self._file = folder / f"{pipeline}.json" if folder else None
        self.status = Status(pipeline, uuids=_uuids(self._file))
        self._lock = threading.Lock()
        self._written, self._written_waiting = float("-inf"), 0
        self._is_kept = True

    def update(self, **values: Any) -> None:
        """Change the status and keep it."""
        with self._lock:
            for name, value in values.items():
                setattr(self.status, name, value)
            self._written, self._written_waiting = time.monotonic(), self.status.waiting
            self._write()

    def add(self, **amounts: float) -> None:
        """Count."""
        self.update(**{name: getattr(self.status, name) + amount for name, amount in amounts.items()})

    def wait_for(self, rows: int) -> None:
        """Count what waits; other processes hear of it, but not more often than once in a second."""
        self.status.waiting = rows
        if rows != self._written_waiting and time.monotonic() - self._written > _WAITING_EVERY:
            self.update()

    def remember(self, table: str, uuid: str) -> None:
        """Keep which table it is that a name stands for."""
        self.update(uuids={**self.status.uuids, table: uuid})

    def notice(self, line: str) -> None:
        """Say something that the operator should know."""
        log.warning("%s: %s", self.status.pipeline, line)
        self.update(message=line)

    def _write(self) -> None:
        if self._file is None:
            return
        text = json.dumps(cleaned(asdict(self.status)), default=str)
        # Another process may run the same pipeline until one of them is refused.
        fresh = self._file.with_suffix(f".{os.getpid()}.tmp")
        try:
            scratch.make_private(self._file.parent)
            fresh.write_text(text)
            fresh.replace(self._file)
        except OSError as error:
            self._complain(error)

    def _complain(self, error: OSError) -> None:
        """A run goes on where its status cannot be kept, and says so once."""
        if not self._is_kept:
            return
        self._is_kept = False
        log.warning(
            "%s: Cannot keep the status in '%s': %s; the run goes on without, "
            "name another folder with --state or CALVE_STATE",
            self.status.pipeline, self._file, error.strerror or error,
        )  # fmt: skip


def read(folder: Path) -> list[Status]:
    """The status of all pipelines that ran beside a declaration; what cannot be read is as good as none."""
    found = (_parsed(file) for file in sorted(folder.glob("*.json")))
    return [status for status in found if status is not None]


def _uuids(file: Path | None) -> dict[str, str]:
    """What an earlier run has kept: a hint, which nothing but a refusal may be built on."""
    before = _parsed(file) if file else None
    return before.uuids if before and isinstance(before.uuids, dict) else {}


def _parsed(file: Path) -> Status | None:
    try:
        return Status(**json.loads(file.read_text()))
    except (OSError, TypeError, ValueError):
        return None
