"""What order is, in plain Python: which of two changes is the later one, and what a table has after a log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any


class Refused(Exception):
    """A change that no table can take."""


@dataclass(frozen=True)
class Change:
    """One change, and its place: which lane, how far in it, which part of its record."""

    operation: str
    key: Any
    values: dict[str, Any] = field(default_factory=dict)
    lane: int = 0
    at: int = 0
    part: int = 0
    time: int | None = None
    seq: int | None = None
    unknown: tuple[str, ...] = ()

    @property
    def place(self) -> tuple[int, int, int]:
        return self.lane, self.at, self.part


def arrivals(batch: Iterable[Change]) -> list[Change]:
    """The changes of a batch as they arrived, those of each key in their order."""
    found = []
    latest: dict[Any, tuple[Any, Any]] = {}
    for change in sorted(batch, key=lambda one: one.place):
        time, seq = latest.get((change.key, change.lane), ((), ()))
        mine = (() if change.time is None else (change.time,), () if change.seq is None else (change.seq,))
        latest[change.key, change.lane] = both = (max(time, mine[0]), max(seq, mine[1]))
        found.append(((*both, *change.place), change))
    return [change for _, change in sorted(found, key=lambda one: one[0])]


@dataclass
class Model:
    """A table that changes are applied to one by one."""

    order_by: str | None = None
    truncate: str = "refuse"
    rows: dict[Any, dict[str, Any]] = field(default_factory=dict)
    newest: dict[Any, Any] = field(default_factory=dict)
    """The greatest order that each key has had."""

    def take(self, batch: Iterable[Change]) -> None:
        for change in arrivals(batch):
            self.apply(change)

    def apply(self, change: Change) -> None:
        if change.operation == "t":
            self._empty()
        elif self._counts(change):
            self._put(change)

    def _empty(self) -> None:
        if self.truncate == "refuse":
            raise Refused("truncated")
        if self.truncate == "delete":
            self.rows.clear()

    def _counts(self, change: Change) -> bool:
        """Whether a change is not older than what its key has had; without an order it never is."""
        order = None if self.order_by is None else change.values.get(self.order_by)
        if order is None:
            return True
        if change.key in self.newest and order < self.newest[change.key]:
            return False
        self.newest[change.key] = order
        return True

    def _put(self, change: Change) -> None:
        before = self.rows.pop(change.key, None)
        if change.operation == "d":
            return
        if change.unknown and before is None:
            raise Refused("unknown columns")
        kept = {name: before[name] for name in change.unknown} if before else {}
        self.rows[change.key] = {**change.values, **kept}


def after(log: Sequence[Change], **rules: Any) -> dict[Any, dict[str, Any]]:
    """What a table has after all of a log."""
    model = Model(**rules)
    model.take(log)
    return model.rows
