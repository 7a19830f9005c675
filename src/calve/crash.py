"""Named crash points of the production path; inert unless a test loads a plan.

A plan is a JSON list of `{"point", "nth", "action", "seed"}`, given in the environment variable
`CALVE_CRASH_PLAN` (the list itself, or the path of a file that holds it). The `nth` time (from 1)
the process reaches `point` it does `action`: `kill` (SIGKILL), `stop` (SIGSTOP), `term` (SIGTERM)
or `raise`. Every fault that fires is first appended, synced, to the file that `CALVE_CRASH_TRACE`
names, so that a test can tell a fault that fired from one that did not.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

POINTS = (
    "start.before_fence",
    "fence.applied",
    "fence.swapped",
    "plan.before",
    "plan.after",
    "read.after",
    "stage.before",
    "stage.after",
    "commit.before",
    "commit.applied",
    "commit.swapped",
    "commit.confirmed",
    "acknowledge.before",
    "acknowledge.after",
    "batch.end",
)
"""The points that every run with rows reaches."""

SCHEMA_POINTS = ("schema.before", "schema.applied", "schema.swapped")
"""Those that a run reaches where it changes the schema of a table."""

_SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP, "term": signal.SIGTERM}


class Crash(BaseException):
    """The death of the process, played within one process; nothing that survives errors may survive it."""


@dataclass(frozen=True)
class Fault:
    """One planned fault."""

    point: str
    nth: int = 1
    action: Literal["kill", "stop", "term", "raise"] = "raise"
    seed: int = 0

    def __post_init__(self) -> None:
        known = (*POINTS, *SCHEMA_POINTS)
        if self.point not in known:
            raise ValueError(
                f"Cannot plan a fault at '{self.point}': no such crash point; one of {', '.join(known)}"
            )


class _Plan:
    def __init__(self) -> None:
        self.faults: tuple[Fault, ...] = ()
        self.reached: Counter[str] = Counter()
        self.fired: list[Fault] = []
        self.lock = threading.Lock()

    def load(self, faults: tuple[Fault, ...]) -> None:
        with self.lock:
            self.faults, self.reached, self.fired = faults, Counter(), []

    def reach(self, name: str) -> Fault | None:
        with self.lock:
            self.reached[name] += 1
            due = [fault for fault in self.faults if (fault.point, fault.nth) == (name, self.reached[name])]
            self.fired.extend(due[:1])
            return due[0] if due else None


_plan = _Plan()


def load(faults: tuple[Fault, ...]) -> None:
    """Load a plan into this process and forget what was reached before."""
    _plan.load(faults)


def load_environment() -> None:
    """Load the plan that the environment names, if it names one."""
    text = os.environ.get("CALVE_CRASH_PLAN", "").strip()
    if text:
        source = text if text.startswith("[") else Path(text).read_text()
        load(tuple(Fault(**fault) for fault in json.loads(source)))


def fired() -> tuple[Fault, ...]:
    """The faults of the loaded plan that fired in this process."""
    return tuple(_plan.fired)


def point(name: str) -> None:
    """A place where the process may be made to crash."""
    if not _plan.faults:
        return
    fault = _plan.reach(name)
    if fault is None:
        return
    _trace(fault)
    if fault.action == "raise":
        raise Crash(f"crash point '{name}', occurrence {fault.nth}")
    os.kill(os.getpid(), _SIGNALS[fault.action])


def _trace(fault: Fault) -> None:
    path = os.environ.get("CALVE_CRASH_TRACE")
    if path:
        with open(path, "a") as trace:
            trace.write(json.dumps({**asdict(fault), "pid": os.getpid()}) + "\n")
            trace.flush()
            os.fsync(trace.fileno())
