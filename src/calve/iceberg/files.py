"""The data files of a snapshot with the deletes that apply to them, and how two snapshots differ. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class Kind(Enum):
    """What a delete file holds."""

    POSITION = "position"
    VECTOR = "vector"
    EQUALITY = "equality"


@dataclass(frozen=True)
class Delete:
    """A delete file, or one vector of a file of them."""

    place: str
    kind: Kind


@dataclass(frozen=True)
class Task:
    """A data file to read, and the deletes that apply to it."""

    location: str
    rows: int
    bytes: int
    deletes: frozenset[Delete] = frozenset()
    java: Any = field(default=None, compare=False, repr=False)


Plan = Mapping[str, Task]
"""The data files of a snapshot by their locations."""


@dataclass(frozen=True)
class Pair:
    """A data file that stays, with other deletes than before."""

    before: Task
    after: Task

    @property
    def may_bring_back(self) -> bool:
        """Whether rows that were deleted may be there again.

        A vector takes in what the file's older vector or position deletes have: the format asks for that.
        """
        lost = self.before.deletes - self.after.deletes
        merged = any(one.kind is Kind.VECTOR for one in self.after.deletes)
        return any(not merged or one.kind is Kind.EQUALITY for one in lost)


@dataclass(frozen=True)
class Touched:
    """The files in which two states of a table differ; what is in all others is the same in both."""

    added: tuple[Task, ...] = ()
    removed: tuple[Task, ...] = ()
    changed: tuple[Pair, ...] = ()

    @property
    def only_adds(self) -> bool:
        """Whether no row is gone."""
        return not self.removed and not self.changed


def compare(before: Plan, after: Plan) -> Touched:
    """How the files of two states differ."""
    added = [task for place, task in after.items() if place not in before]
    removed = [task for place, task in before.items() if place not in after]
    stay = [Pair(before[place], task) for place, task in after.items() if place in before]
    changed = [pair for pair in stay if pair.before.deletes != pair.after.deletes]
    return Touched(_sorted(added), _sorted(removed), tuple(sorted(changed, key=_place)))


def by_location(tasks: Iterable[Task]) -> dict[str, Task]:
    """The tasks by their locations, in the order of those."""
    return {task.location: task for task in _sorted(tasks)}


def _sorted(tasks: Iterable[Task]) -> tuple[Task, ...]:
    return tuple(sorted(tasks, key=lambda task: task.location))


def _place(pair: Pair) -> str:
    return pair.after.location


def split_size(size: int, parallelism: int) -> int:
    """How much one of Spark's tasks reads, so that `size` bytes keep all of them busy."""
    return max(_SMALLEST, min(_LARGEST, -(-size // max(1, parallelism))))


_SMALLEST, _LARGEST = 4 * 2**20, 128 * 2**20
