"""Where the time of a batch goes, by named steps; nothing is measured unless somebody asks for it.

A step counts without the steps inside it, so that what one thread did adds up. Steps of another thread
(`carried`) run beside those, and are kept apart.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import wraps
from typing import ParamSpec, TypeVar

STEPS = {
    "plan": "asking the source what is there",
    "read": "reading, decoding and transforming, as far as that is a pass of its own",
    "transform": "putting the transforms in front of the rows",
    "evolve": "having the table fit the rows",
    "dedupe": "finding the last change of each key",
    "look-up": "finding the rows that are replaced, and writing deletes for them",
    "stage": "writing data files; an append reads, decodes and transforms in the same pass",
    "letters": "keeping bad records",
    "commit": "the commit itself",
    "after": "telling the source",
    "wait": "waiting for what another thread does",
}
"""The steps, in the order in which they are shown, and what is in them."""

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class Taken:
    """What one batch took, in seconds; `beside` is what other threads did meanwhile."""

    wall: float
    steps: dict[str, float]
    beside: dict[str, float] = field(default_factory=dict)

    @property
    def other(self) -> float:
        """What no step was at work in."""
        return max(self.wall - sum(self.steps.values()), 0.0)


class Clock:
    """Measures the steps of one thread, and of those that it carries along."""

    def __init__(self, now: Callable[[], float] = time.perf_counter) -> None:
        self._now = now
        self._lock = threading.Lock()
        self.reset()

    def reset(self) -> None:
        """Forget what was measured, and begin a batch now."""
        self._begun = self._now()
        self._steps: dict[str, float] = {}
        self._beside: dict[str, float] = {}
        self._inside: list[float] = []

    def take(self) -> Taken:
        """What was measured since the last time; the next batch begins."""
        found = Taken(self._now() - self._begun, self._steps, self._beside)
        self.reset()
        return found

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Count what happens inside for `name`."""
        begun = self._now()
        self._inside.append(0.0)
        try:
            yield
        finally:
            seconds = self._now() - begun
            self._add(self._steps, name, seconds - self._inside.pop())
            if self._inside:
                self._inside[-1] += seconds

    def carry(self, other: Clock) -> None:
        """Take over what a thread has measured that ran beside this one."""
        for name, seconds in other._steps.items():
            self._add(self._beside, name, seconds)

    def _add(self, steps: dict[str, float], name: str, seconds: float) -> None:
        with self._lock:
            steps[name] = steps.get(name, 0.0) + seconds


_current: ContextVar[Clock | None] = ContextVar("clock", default=None)


@contextmanager
def using(clock: Clock | None) -> Iterator[None]:
    """Have `clock` measure the steps of this thread."""
    before = _current.set(clock)
    try:
        yield
    finally:
        _current.reset(before)


def timed(name: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Make every call of a function a step, where somebody measures."""
    assert name in STEPS, f"no step '{name}'"

    def wrap(work: Callable[P, T]) -> Callable[P, T]:
        @wraps(work)
        def measured(*values: P.args, **named: P.kwargs) -> T:
            clock = _current.get()
            if clock is None:
                return work(*values, **named)
            with clock.step(name):
                return work(*values, **named)

        return measured

    return wrap


def carried(work: Callable[[], T]) -> Callable[[], T]:
    """The same work for another thread; its steps are those of this thread's batch."""
    clock = _current.get()
    if clock is None:
        return work

    def beside() -> T:
        own = Clock(clock._now)
        try:
            with using(own):
                return work()
        finally:
            clock.carry(own)

    return beside
