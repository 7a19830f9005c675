"""Positions and marks: what a table remembers of its source, and what may be done on that ground. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from itertools import takewhile
from typing import Any

Position = Mapping[str, Any]
"""Where a source stands, as a JSON object that only the source itself understands."""

MARK_LIMIT = 256 * 1024
MARK_VERSION = 1
"""The version of marks that this code writes; Calve 0.1.0 wrote none, which is 0.

It grows where older code must not continue a table. A field that older code may pass over needs no new
version: fields that the code does not know stay in the mark.
"""
PREFIX = "calve.sink."
SUMMARY_EPOCH = "calve.epoch"
SUMMARY_COMMIT = "calve.commit"
SUMMARY_SINK = "calve.sink"
SUMMARY_DIGEST = "calve.position-digest"


@dataclass(frozen=True)
class Mark:
    """What the last commit of a sink left in its table."""

    epoch: int
    writer: str
    source: str
    position: Position
    commit: str
    above: int
    main: int | None = None
    """In a table that is kept beside the table of the rows: the epoch of that one, to which this belongs."""
    version: int = MARK_VERSION
    unknown: Mapping[str, Any] = field(default_factory=dict)
    """The fields that another version of Calve wrote and this one does not know."""

    def dump(self) -> str:
        """The text of the table property."""
        known = {name: getattr(self, name) for name in _FIELDS if getattr(self, name) is not None}
        return json.dumps({**self.unknown, **known}, sort_keys=True, separators=(",", ":"))

    def digest(self) -> str:
        """A short fingerprint of the source and the position, for the snapshot's summary."""
        text = json.dumps([self.source, self.position], sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def summary(self, name: str) -> dict[str, str]:
        """What the snapshot that this mark is committed with says of it; `name` is the mark's property."""
        return {
            SUMMARY_SINK: name.removeprefix(PREFIX),
            SUMMARY_EPOCH: str(self.epoch),
            SUMMARY_COMMIT: self.commit,
            SUMMARY_DIGEST: self.digest(),
        }

    def moved(self, *, position: Position, commit: str, above: int) -> Mark:
        """The mark that follows this one in the same epoch."""
        return replace(self, position=position, commit=commit, above=above)


def property_name(sink_id: str, branch: str = "main") -> str:
    """The table property that holds the mark of `sink_id` on `branch`."""
    return f"{PREFIX}{sink_id}" if branch == "main" else f"{PREFIX}{sink_id}.{branch}"


_FIELDS = tuple(one.name for one in fields(Mark) if one.name != "unknown")


class NewerMark(ValueError):
    """A mark that only a newer version of Calve can read."""

    def __init__(self, version: int) -> None:
        self.version = version
        super().__init__(f"a mark of version {version}, and this Calve knows versions up to {MARK_VERSION}")


def parse(text: str) -> Mark:
    """The mark that a table property holds; raises ValueError where it is none, NewerMark if too new."""
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"not a mark: {error}") from error
    if not isinstance(found, dict):
        raise ValueError("not a mark: not a JSON object")
    version = found.get("version", 0)
    if type(version) is int and version > MARK_VERSION:
        raise NewerMark(version)
    known = {name: value for name, value in found.items() if name in _FIELDS}
    unknown = {name: value for name, value in found.items() if name not in _FIELDS}
    try:
        mark = Mark(**{**known, "version": version}, unknown=unknown)
    except TypeError as error:
        raise ValueError(f"not a mark: {error}") from error
    if not _is_sound(mark):
        raise ValueError("not a mark: a value has the wrong type")
    return mark


def _is_sound(mark: Mark) -> bool:
    numbers = (mark.epoch, mark.above, mark.version, *(() if mark.main is None else (mark.main,)))
    return (
        all(type(number) is int and number >= 0 for number in numbers)
        and isinstance(mark.position, dict)
        and all(isinstance(t, str) for t in (mark.writer, mark.source, mark.commit))
    )


@dataclass(frozen=True)
class Ancestor:
    """One snapshot on the way back from the head of a branch, and the commit that its summary tells of."""

    sequence: int
    continues: bool = False
    """Whether others came before it, retained or not."""
    sink: str | None = None
    epoch: int = 0
    commit: str | None = None
    digest: str | None = None
    id: int = 0


class Lineage(Enum):
    """Whether a mark's commit is still part of the branch."""

    FOUND = "found"
    EDITED = "edited"
    ROLLED_BACK = "rolled back"
    EXPIRED = "expired"


def lineage(mark: Mark, ancestors: Iterable[Ancestor], name: str) -> Lineage:
    """Walk `ancestors`, newest first, to the commit of `mark`, which is the table property `name`.

    No other commit of the sink may come first: a mark of an earlier commit that was put back would have the
    rows behind it written again. The walk ends early where expiry has broken the chain; then nothing speaks
    against the mark.
    """
    last, sink = None, name.removeprefix(PREFIX)
    for ancestor in ancestors:
        last = ancestor
        if ancestor.commit == mark.commit:
            return Lineage.FOUND if ancestor.digest in (None, mark.digest()) else Lineage.EDITED
        if ancestor.sequence <= mark.above:
            return Lineage.ROLLED_BACK
        if ancestor.sink == sink:
            return Lineage.EDITED
    return Lineage.EXPIRED if last is not None and last.continues else Lineage.ROLLED_BACK


class Trail:
    """The way from the head of a branch back to a commit, of which nothing is walked twice.

    Others may add snapshots faster than they can be walked one by one between two attempts.
    """

    def __init__(self) -> None:
        self._walked: tuple[str, str, int] | None = None

    def begins(self, mark: Mark) -> int | None:
        """The snapshot from which an earlier walk has reached the commit of `mark`."""
        return self._walked[2] if self._walked and self._walked[:2] == (mark.commit, mark.digest()) else None

    def back_to(self, mark: Mark, ancestors: Iterable[Ancestor]) -> Iterator[Ancestor]:
        """`ancestors`, newest first; where an earlier walk to the commit of `mark` began, that commit."""
        known, ours, head = self.begins(mark), (mark.commit, mark.digest()), None
        for ancestor in ancestors:
            head = ancestor.id if head is None else head
            if ancestor.id == known:
                ancestor = replace(ancestor, commit=mark.commit, digest=mark.digest())
            if (ancestor.commit, ancestor.digest) == ours:
                self._walked = (*ours, head)
            yield ancestor


def is_stale(held: Mark, last_sequence: int) -> bool:
    """Whether metadata with that last sequence number is older than the commit that left `held`."""
    return last_sequence <= held.above


def has_commit(commit: str, above: int, ancestors: Iterable[Ancestor]) -> bool:
    """Whether the branch has `commit` among its snapshots above the sequence number `above`."""
    return any(found.commit == commit for found in takewhile(lambda one: one.sequence > above, ancestors))


def last_epoch(name: str, ancestors: Iterable[Ancestor]) -> int:
    """The newest epoch of the sink whose mark is the property `name`, as the retained summaries tell it."""
    sink = name.removeprefix(PREFIX)
    return max((ancestor.epoch for ancestor in ancestors if ancestor.sink == sink), default=0)


class Decision(Enum):
    """What an attempt may do on the base it would swap."""

    COMMIT = "commit"
    COMMITTED = "committed"
    FENCED = "fenced"
    ROLLED_BACK = "rolled back"
    UNMARKED = "a commit is there without its mark"


def decide(
    current: Mark | None, held: Mark, commit: str, ancestors: Iterable[Ancestor], name: str
) -> Decision:
    """What a writer that holds `held` may do with its commit `commit` on a base whose mark is `current`.

    The mark is the table property `name`.
    """
    if current is not None and current.commit == commit:
        return Decision.COMMITTED
    if current != held:
        return Decision.FENCED
    found = lineage(held, ancestors, name)
    if found is Lineage.ROLLED_BACK:
        return Decision.ROLLED_BACK
    return Decision.UNMARKED if found is Lineage.EDITED else Decision.COMMIT


def is_unmarked(
    current: Mark | None, held: Mark, commit: str, above: int, ancestors: Iterable[Ancestor]
) -> bool:
    """Whether the branch has `commit`, above the sequence number `above`, and the mark is the one before it.

    A catalog that takes a snapshot and drops the property leaves that; another attempt would double rows.
    """
    return current in (None, held) and has_commit(commit, above, ancestors)


def next_epoch(
    current: Mark | None,
    *,
    writer: str,
    source: str,
    start: Position,
    commit: str,
    above: int,
    past: int = 0,
    main: int | None = None,
) -> Mark:
    """The mark of a writer that starts on a base whose mark is `current`; it begins where that one stands.

    `past` is the last epoch that is known where the mark is gone or an older one, `main` the epoch of the
    table of the rows where this table is kept beside it; without one, the mark belongs to the one as before.
    """
    if current is None:
        return Mark(past + 1, writer, source, start, commit, above, main)
    return replace(
        current,
        epoch=max(current.epoch, past) + 1,
        writer=writer,
        source=source,
        commit=commit,
        above=above,
        main=current.main if main is None else main,
        version=MARK_VERSION,
    )


def is_of_later_epoch(mark: Mark, main: int | None) -> bool:
    """Whether `mark` belongs to a later epoch of the table of the rows than `main`, which a writer holds."""
    return main is not None and mark.main is not None and mark.main > main


def is_orphaned(name: str, ancestors: Iterable[Ancestor]) -> bool:
    """Whether the branch has commits of the sink whose mark `name` is gone."""
    return any(ancestor.sink == name.removeprefix(PREFIX) for ancestor in ancestors)


def others(
    properties: Mapping[str, str],
    source: str,
    branch: str,
    declared: Collection[str],
    overlaps: Callable[[Position], bool] = lambda position: True,
) -> list[str]:
    """The sinks that hold a mark of `source` on `branch` and that nobody declares.

    `overlaps` tells whether a position is about something that is read here as well, such as a topic.
    """
    marks = {name: mark for name, text in properties.items() if (mark := _mark_of(name, text, source))}
    found = (_sink_of(name, branch) for name, mark in marks.items() if overlaps(mark.position))
    return sorted(sink_id for sink_id in found if sink_id is not None and sink_id not in declared)


def _sink_of(name: str, branch: str) -> str | None:
    sink_id, _, other = name.removeprefix(PREFIX).partition(".")
    return sink_id if (other or "main") == branch else None


def _mark_of(name: str, text: str, source: str) -> Mark | None:
    if not name.startswith(PREFIX):
        return None
    try:
        mark = parse(text)
    except ValueError:
        return None
    return mark if mark.source == source else None
