"""Which writes of a program are in a table: what takes the place of a source's position in the mark. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from calve.errors import UsageError
from calve.position import Position

REMEMBERED = 1000
"""How many ids that are text a table remembers; an older one, given again, counts as a new one."""

WriteId = int | str | None
"""What a program calls a write: a number that only grows, text of its own, or nothing."""

_NUMBER, _IDS, _SOURCES = "number", "ids", "sources"


@dataclass(frozen=True)
class Step:
    """The way of a source from one position to another, whose rows are one write."""

    source: str
    after: Position
    to: Position


@dataclass(frozen=True)
class Written:
    """The writes that a table has: up to a number, some ids, and how far each source was read."""

    number: int | None = None
    ids: tuple[str, ...] = ()
    sources: Mapping[str, Position] = field(default_factory=dict)

    def has(self, write: WriteId | Step) -> bool:
        """Whether `write` is in the table; raises UsageError for a step that does not follow."""
        if isinstance(write, Step):
            return self._has_step(write)
        if isinstance(write, str):
            return digest(write) in self.ids
        return write is not None and self.number is not None and write <= self.number

    def with_(self, write: WriteId | Step) -> Written:
        """The same and `write`."""
        if isinstance(write, Step):
            return replace(self, sources={**self.sources, write.source: write.to})
        if isinstance(write, str):
            return replace(self, ids=(*self.ids, digest(write))[-REMEMBERED:])
        return self if write is None else replace(self, number=write)

    def onto(self, position: Position) -> Position:
        """`position` with what is known here in it; what others keep there stays."""
        told: dict[str, Any] = {_NUMBER: self.number, _IDS: list(self.ids), _SOURCES: dict(self.sources)}
        rest = {key: value for key, value in position.items() if key not in told}
        return {**rest, **{key: value for key, value in told.items() if value not in (None, [], {})}}

    def _has_step(self, step: Step) -> bool:
        known = self.sources.get(step.source)
        if known is None or known == step.after:
            return False
        if known == step.to:
            return True
        raise UsageError(
            f"Cannot write rows behind {step.after} of '{step.source}': the table has them up to {known}; "
            "begin the stream there, as in source.stream(after=sink.position(source))"
        )


def of(position: Position) -> Written:
    """The writes that a mark's position tells of."""
    return Written(position.get(_NUMBER), tuple(position.get(_IDS, ())), position.get(_SOURCES, {}))


def checked(write: object) -> WriteId | Step:
    """`write`, if it can name a write; raises UsageError."""
    if write is None or isinstance(write, Step):
        return write
    if isinstance(write, str) and write:
        # A lone surrogate is no character, and cannot be kept in the table.
        if any("\ud800" <= letter <= "\udfff" for letter in write):
            raise UsageError(f"Cannot name a write {write!r}: it has characters that are none")
        return write
    if isinstance(write, int) and not isinstance(write, bool) and write >= 0:
        return write
    raise UsageError(f"Cannot name a write {write!r}: give text, or a number that grows from write to write")


def digest(text: str) -> str:
    """A short fingerprint of an id, of which a mark has room for many."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
