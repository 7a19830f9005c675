"""The figures of a run: counted where a fault is done, handed over with each test, summed up in the end."""

from __future__ import annotations

import os
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import wraps
from math import inf
from statistics import median
from typing import Any

import pytest

from calve import crash
from calve.verify import Finding, reader
from calve.verify.facts import Invariant

SEED = "CALVE_FAULT_SEED"
LIVES, UNTIL = "CALVE_FAULT_LIVES", "CALVE_FAULT_UNTIL"

HISTORIES, STEPS = "model: histories", "model: steps"
CYCLES = "warm: cycles"
PAIRS = "interleaved: pairs"
KILLS, RECOVERY = "cold: SIGKILLs", "SIGKILL to the first new commit"
PLANNED, FIRED = "faults planned", "faults fired"
CUT_LOGS, CUTS = "cuts: logs", "cuts: ways to cut them"
LOOKS = "looks of the independent reader"
LOST, DOUBLED, DANGLING, OTHER = "found: lost", "found: doubled", "found: dangling", "found: other"

MEANING = {
    Invariant.NO_LOSS: LOST,
    **dict.fromkeys((Invariant.NO_DUPLICATE, Invariant.FILE_ADDED_ONCE, Invariant.FILE_LIVE_ONCE), DOUBLED),
    **dict.fromkeys((Invariant.FILE_EXISTS, Invariant.FILE_SIZE, Invariant.FILE_READABLE), DANGLING),
}
"""What the findings are that everybody asks for first."""

FULL = {
    HISTORIES: 2000,
    CYCLES: 500,
    PAIRS: 1000,
    KILLS: 60,
    CUT_LOGS: 500,
    **{f"{KILLS} at {point}": 3 for point in crash.POINTS},
}
"""What a run with full counts has to reach."""


def seed() -> int:
    """What all random faults of a run are drawn from."""
    return int(os.environ.get(SEED) or 1)


def lives(share: int = 1) -> Iterator[int]:
    """The numbers of the lives of a random chain, which has one `share`th; fewer when the time is over."""
    until = float(os.environ.get(UNTIL) or inf)
    for number in range(int(os.environ.get(LIVES) or 8) // share):
        if number and time.time() > until:
            return
        yield number


@dataclass
class Figures:
    """Counts and durations by their names."""

    counts: Counter[str] = field(default_factory=Counter)
    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def add(self, name: str, number: int = 1) -> None:
        self.counts[name] += number

    def took(self, name: str, seconds: Iterable[float]) -> None:
        self.seconds[name].extend(seconds)

    def plain(self) -> dict[str, Any]:
        """What one process of a test run can tell another."""
        return {"counts": dict(self.counts), "seconds": dict(self.seconds)}

    def take(self, plain: dict[str, Any]) -> None:
        """Add what another process counted."""
        self.counts.update(plain["counts"])
        for name, seconds in plain["seconds"].items():
            self.took(name, seconds)

    def clear(self) -> None:
        self.counts.clear()
        self.seconds.clear()

    def shortfalls(self, least: dict[str, int]) -> list[str]:
        """Where less happened than was planned, or less than the `least`."""
        wanted = {**least, FIRED: self.counts[PLANNED]}
        return [
            f"{name}: {self.counts[name]}, and it should be {number}"
            for name, number in wanted.items()
            if self.counts[name] < number
        ]

    def lines(self) -> list[str]:
        """A table of everything."""
        names = sorted({*self.counts, LOST, DOUBLED, DANGLING, OTHER})
        rows = [(name, f"{self.counts[name]:,}") for name in names]
        rows += [(name, spread(seconds)) for name, seconds in sorted(self.seconds.items())]
        width = max((len(name) for name, _ in rows), default=0)
        return [f"{name:<{width}}  {text}" for name, text in rows]


def spread(seconds: list[float]) -> str:
    if not seconds:
        return "never"
    return f"median {median(seconds):.1f} s, worst {max(seconds):.1f} s, {len(seconds)} times"


current = Figures()
"""What the test that runs now has counted."""


def listen(patch: pytest.MonkeyPatch) -> None:
    """Count what every tier does at the place where it happens, so that no test has to remember to."""
    from calve.runtime.runner import Runner
    from calve.testing.faults import Schedule
    from tests.faults.model.world import World

    _count(patch, World, "__init__", lambda *_: {HISTORIES: 1})
    _count(patch, World, "check", lambda *_: {STEPS: 1})
    _count(patch, Runner, "run", lambda *_: {CYCLES: 1})
    _count(patch, reader, "facts", lambda *_: {LOOKS: 1})
    _count(patch, Finding, "__init__", lambda _, one, *__, **___: {MEANING.get(one.invariant, OTHER): 1})
    _count(patch, crash._Plan, "load", lambda _, plan, faults: {PLANNED: len(faults)})
    _count(patch, crash._Plan, "reach", lambda fault, *_: {FIRED: int(fault is not None)})
    _count(patch, Schedule, "__init__", lambda _, schedule, plan: {PLANNED: len(schedule.plan)})
    _count(patch, Schedule, "fire", lambda _, schedule, fault: {FIRED: int(fault in schedule.plan)})


def _count(patch: pytest.MonkeyPatch, owner: Any, name: str, counts: Callable[..., dict[str, int]]) -> None:
    """Add `counts` of the result and the arguments after every call, also one that raises."""
    original = getattr(owner, name)

    @wraps(original)
    def counted(*arguments: Any, **named: Any) -> Any:
        result = None
        try:
            result = original(*arguments, **named)
        finally:
            current.counts.update(counts(result, *arguments, **named))
        return result

    patch.setattr(owner, name, counted)
