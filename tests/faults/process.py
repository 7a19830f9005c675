"""`calve run` as a process of its own, with faults planned for it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

LIMIT = 240


@dataclass
class Calve:
    """A project in a directory, and the processes that run it."""

    folder: Path
    declaration: str
    is_measured: bool = True
    """Whether coverage is measured; it makes every Python worker slow, and a killed process tells nothing."""
    prefix: tuple[str, ...] = ()
    """A command that runs the process, and tells something of it."""
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "calve.yaml").write_text(self.declaration)

    def start(self, *arguments: str, fault: dict[str, Any] | None = None) -> subprocess.Popen[str]:
        """Start `calve`; its output is in the process's pipes."""
        inherited = {k: v for k, v in os.environ.items() if self.is_measured or not k.startswith("COVERAGE_")}
        environment = {**inherited, "CALVE_CRASH_TRACE": str(self.trace)}
        if fault:
            environment["CALVE_CRASH_PLAN"] = json.dumps([fault])
        command = [*self.prefix, sys.executable, "-m", "calve.cli", *arguments]
        process = subprocess.Popen(
            command, cwd=self.folder, env=environment, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            start_new_session=True,
        )  # fmt: skip
        self.started.append(process)
        return process

    def run(self, *arguments: str, fault: dict[str, Any] | None = None) -> tuple[int, str]:
        """Run `calve` to its end; the exit code and what it said."""
        return ended(self.start(*arguments, fault=fault))

    @property
    def trace(self) -> Path:
        return self.folder / "trace.jsonl"

    def status(self, pipeline: str) -> dict[str, Any]:
        """What the pipeline tells of itself; nothing before it first started."""
        file = self.folder / ".calve/status" / f"{pipeline}.json"
        return dict(json.loads(file.read_text())) if file.exists() else {}

    def fired(self) -> list[str]:
        """The crash points that fired so far."""
        lines = self.trace.read_text().splitlines() if self.trace.exists() else []
        return [json.loads(line)["point"] for line in lines]

    def end(self) -> None:
        """End what is still running."""
        for process in self.started:
            if process.poll() is None:
                send(process, signal.SIGKILL, whole=True)
            process.communicate()


def ended(process: subprocess.Popen[str], seconds: float = LIMIT) -> tuple[int, str]:
    """Wait for the end of a process; the exit code and what it said."""
    out, err = process.communicate(timeout=seconds)
    return process.returncode, out + err


def send(process: subprocess.Popen[str], number: signal.Signals, whole: bool = False) -> None:
    """Send a signal to a process, or to the `whole` of it: the JVM and Spark's workers as well."""
    below = psutil.Process(process.pid).children(recursive=True) if whole else []
    process.send_signal(number)
    for child in below:
        with suppress(psutil.NoSuchProcess):
            child.send_signal(number)


def wait_for(condition: Callable[[], Any], what: str, seconds: float = LIMIT) -> Any:
    """The first true answer of `condition`."""
    limit = time.monotonic() + seconds
    while not (answer := condition()):
        assert time.monotonic() < limit, f"waited in vain for {what}"
        time.sleep(0.1)
    return answer
