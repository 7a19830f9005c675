"""Positions and marks: what a table remembers of its source, and what may be done on that ground. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from enum import Enum
from itertools import takewhile
from typing import Any

Position = Mapping[str, Any]
"""Where a source stands, as a JSON object that only the source itself understands."""

MARK_LIMIT = 256 * 1024
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

    def dump(self) -> str:
        """The text of the table property."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))

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


def parse(text: str) -> Mark:
    """The mark that a table property holds; raises ValueError where it is none."""
    try:
        mark = Mark(**json.loads(text))
    except (TypeError, json.JSONDecodeError) as error:
        raise ValueError(f"not a mark: {error}") from error
    if not _is_sound(mark):
        raise ValueError("not a mark: a value has the wrong type")
    return mark


def _is_sound(mark: Mark) -> bool:
    numbers = all(type(number) is int and number >= 0 for number in (mark.epoch, mark.above))
    return (
        numbers
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


def lineage(mark: Mark, ancestors: Iterable[Ancestor]) -> Lineage:
    """Walk `ancestors`, newest first, to the commit of `mark`.

    The walk ends early where expiry has broken the chain; then nothing speaks against the mark.
    """
    last = None
    for ancestor in ancestors:
        last = ancestor
        if ancestor.commit == mark.commit:
            return Lineage.FOUND if ancestor.digest in (None, mark.digest()) else Lineage.EDITED
        if ancestor.sequence <= mark.above:
            return Lineage.ROLLED_BACK
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


def decide(current: Mark | None, held: Mark, commit: str, ancestors: Iterable[Ancestor]) -> Decision:
    """What a writer that holds `held` may do with its commit `commit` on a base whose mark is `current`."""
    if current is not None and current.commit == commit:
        return Decision.COMMITTED
    if current != held:
        return Decision.FENCED
    if lineage(held, ancestors) is Lineage.ROLLED_BACK:
        return Decision.ROLLED_BACK
    return Decision.COMMIT


def next_epoch(
    current: Mark | None, *, writer: str, source: str, start: Position, commit: str, above: int, past: int = 0
) -> Mark:
    """The mark of a writer that starts on a base whose mark is `current`; it begins where that one stands.

    `past` is the last epoch that is known where there is no mark.
    """
    epoch = current.epoch if current else past
    return Mark(epoch + 1, writer, source, current.position if current else start, commit, above)


def is_orphaned(name: str, ancestors: Iterable[Ancestor]) -> bool:
    """Whether the branch has commits of the sink whose mark `name` is gone."""
    return any(ancestor.sink == name.removeprefix(PREFIX) for ancestor in ancestors)


def others(properties: Mapping[str, str], source: str, branch: str, declared: Collection[str]) -> list[str]:
    """The sinks that hold a mark of `source` on `branch` and that nobody declares."""
    found = (_sink_of(name, branch) for name, text in properties.items() if _is_mark_of(name, text, source))
    return sorted(sink_id for sink_id in found if sink_id is not None and sink_id not in declared)


def _sink_of(name: str, branch: str) -> str | None:
    sink_id, _, other = name.removeprefix(PREFIX).partition(".")
    return sink_id if (other or "main") == branch else None


def _is_mark_of(name: str, text: str, source: str) -> bool:
    if not name.startswith(PREFIX):
        return False
    try:
        return parse(text).source == source
    except ValueError:
        return False
