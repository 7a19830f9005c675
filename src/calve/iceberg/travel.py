"""Which snapshot a table is read at, and which ones lie between two. Pure."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any

from calve.errors import UsageError
from calve.model import suggestion

_SHOWN = 10


@dataclass(frozen=True)
class Snapshot:
    """One snapshot of a table."""

    id: int
    parent: int | None
    sequence: int
    committed_ms: int
    operation: str
    summary: dict[str, str]
    schema: int | None = None

    @property
    def is_first(self) -> bool:
        """Whether nothing came before it; an expired parent is taken away by some engines."""
        total = self.summary.get("total-data-files")
        return self.parent is None and total in (None, self.summary.get("added-data-files", "0"))

    def told(self) -> str:
        """The snapshot by its id and time."""
        return f"{self.id} of {shown(self.committed_ms)}"


@dataclass(frozen=True)
class Ref:
    """A branch or a tag."""

    name: str
    snapshot: int
    is_tag: bool


@dataclass(frozen=True)
class History:
    """What one version of a table's metadata tells of its snapshots."""

    table: str
    uuid: str
    format_version: int
    snapshots: tuple[Snapshot, ...]
    current: int | None
    schema: int
    refs: Mapping[str, Ref] = field(default_factory=dict)
    log: tuple[tuple[int, int], ...] = ()
    """When `main` came to which snapshot, oldest first."""

    @cached_property
    def by_id(self) -> Mapping[int, Snapshot]:
        """The retained snapshots by their ids."""
        return {one.id: one for one in self.snapshots}

    def head(self, branch: str = "main") -> int | None:
        """The newest snapshot of `branch`; None while there is none. Raises UsageError for another branch."""
        if branch == "main":
            return self.current
        ref = self.refs.get(branch)
        if ref is None or ref.is_tag:
            known = {"main", *(one.name for one in self.refs.values() if not one.is_tag)}
            raise UsageError(self._nothing_called("branch", branch, known))
        return ref.snapshot

    def snapshot(self, number: int) -> Snapshot:
        """The snapshot with that id; raises UsageError where there is none."""
        if number not in self.by_id:
            left = (
                f"the oldest that is left is {self.snapshots[0].told()}" if self.snapshots else "it has none"
            )
            why = f"it has no such snapshot, or it was expired; {left}"
            raise UsageError(f"Cannot read table '{self.table}' at snapshot {number}: {why}")
        return self.by_id[number]

    def tag(self, name: str) -> int:
        """The snapshot that a tag names; raises UsageError without such a tag."""
        ref = self.refs.get(name)
        if ref is None or not ref.is_tag:
            known = {one.name for one in self.refs.values() if one.is_tag}
            raise UsageError(self._nothing_called("tag", name, known))
        return ref.snapshot

    def ancestors(self, number: int | None) -> Iterator[Snapshot]:
        """The snapshots from that one back, newest first, as far as they are retained."""
        found = None if number is None else self.by_id.get(number)
        while found is not None:
            yield found
            found = None if found.parent is None else self.by_id.get(found.parent)

    def oldest(self, branch: str = "main") -> Snapshot | None:
        """The oldest snapshot from which all that follow on `branch` are retained."""
        found = list(self.ancestors(self.head(branch)))
        return found[-1] if found else None

    def _nothing_called(self, kind: str, name: str, known: set[str]) -> str:
        some = ", ".join(sorted(known)[:_SHOWN]) + (" …" if len(known) > _SHOWN else "")
        there = f"there is {some}{suggestion(name, known)}" if known else "it has none"
        return f"Cannot read table '{self.table}' at {kind} '{name}': there is no such {kind}; {there}"


@dataclass(frozen=True)
class Version:
    """The state of a table that is asked for; nothing given is the newest one of `main`."""

    snapshot_id: int | None = None
    timestamp: dt.datetime | None = None
    tag: str | None = None
    branch: str | None = None


def parse(text: str, table: str) -> History:
    """The history that a metadata file holds, which is JSON."""
    told: dict[str, Any] = json.loads(text)
    current = told.get("current-snapshot-id")
    current = None if current in (None, -1) else int(current)
    refs = {name: Ref(name, one["snapshot-id"], one["type"] == "tag") for name, one in _refs(told).items()}
    snapshots = tuple(_snapshot(one) for one in told.get("snapshots") or ())
    log = tuple((one["timestamp-ms"], one["snapshot-id"]) for one in told.get("snapshot-log") or ())
    return History(
        table,
        str(told["table-uuid"]),
        int(told["format-version"]),
        snapshots,
        current,
        int(told.get("current-schema-id") or 0),
        refs,
        log,
    )


def _refs(told: dict[str, Any]) -> dict[str, Any]:
    return told.get("refs") or {}


def _snapshot(told: dict[str, Any]) -> Snapshot:
    summary = {str(key): str(value) for key, value in (told.get("summary") or {}).items()}
    return Snapshot(
        id=told["snapshot-id"],
        parent=told.get("parent-snapshot-id"),
        sequence=told.get("sequence-number") or 0,
        committed_ms=told["timestamp-ms"],
        operation=summary.pop("operation", ""),
        summary=summary,
        schema=told.get("schema-id"),
    )


def resolve(history: History, version: Version, now: dt.datetime | None = None) -> Snapshot | None:
    """The snapshot that `version` means; None only for a table that has none. Raises UsageError."""
    told = [name for name in ("snapshot_id", "timestamp", "tag") if getattr(version, name) is not None]
    if len(told) > 1 or (version.branch is not None and told not in ([], ["timestamp"])):
        names = [*told, *(["branch"] if version.branch is not None else [])]
        raise UsageError(f"Cannot read table '{history.table}' at {' and '.join(names)} at once: name one")
    if version.snapshot_id is not None:
        return history.snapshot(version.snapshot_id)
    if version.tag is not None:
        return history.snapshot(history.tag(version.tag))
    branch = version.branch or "main"
    if version.timestamp is not None:
        return _at(history, branch, version.timestamp, now or dt.datetime.now(dt.timezone.utc))
    head = history.head(branch)
    return None if head is None else history.snapshot(head)


def _at(history: History, branch: str, time: dt.datetime, now: dt.datetime) -> Snapshot:
    """The snapshot that was the head of `branch` at that time."""
    wanted = millis(time)
    what = f"Cannot read table '{history.table}' at {shown(wanted)}"
    if wanted > millis(now):
        raise UsageError(f"{what}: that is in the future")
    moves = _moves(history, branch)
    if not moves:
        raise UsageError(f"{what}: it has no snapshots")
    before = [number for ms, number in moves if ms <= wanted]
    if not before:
        raise UsageError(f"{what}: its history begins at {shown(moves[0][0])}")
    return history.snapshot(before[-1])


def _moves(history: History, branch: str) -> list[tuple[int, int]]:
    """When `branch` came to which snapshot; of branches other than main, their commits tell."""
    if branch == "main" and history.log:
        return list(history.log)
    return [(one.committed_ms, one.id) for one in history.ancestors(history.head(branch))][::-1]


class Break(Enum):
    """Why no way leads from one snapshot to another."""

    EXPIRED = "expired"
    ROLLED_BACK = "rolled back"


def chain(history: History, after: int | None, to: int | None) -> list[Snapshot] | Break:
    """The snapshots behind `after` up to `to`, oldest first; None stands for before the first one.

    `after` itself need not be retained, if the one that follows it is.
    """
    if after == to:
        return []
    found: list[Snapshot] = []
    for one in history.ancestors(to):
        if one.id == after:
            return found[::-1]
        found.append(one)
    last = found[-1] if found else None
    if last is not None and (last.parent == after if after is not None else last.is_first):
        return found[::-1]
    return Break.ROLLED_BACK if after in history.by_id else Break.EXPIRED


def between(history: History, after: int | None, to: int) -> list[Snapshot]:
    """Like `chain`; raises UsageError where no way leads from `after` to `to`."""
    history.snapshot(to)
    found = chain(history, after, to)
    if not isinstance(found, Break):
        return found
    begin = "its first snapshot" if after is None else f"snapshot {after}"
    what = f"Cannot tell what changed in table '{history.table}' from {begin} to {to}"
    if found is Break.ROLLED_BACK:
        raise UsageError(f"{what}: {to} did not come from it; the table was rolled back, or has branches")
    oldest = list(history.ancestors(to))[-1]
    raise UsageError(f"{what}: snapshots in between were expired; the oldest that is left is {oldest.told()}")


_TIME = re.compile(
    r"(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?))?\s*(Z|UTC|[+-]\d{2}:?\d{2})?"
)


def parse_timestamp(text: str) -> dt.datetime:
    """A point in time such as `2026-11-15 10:00:00` or `2026-11-15T10:00:00+01:00`; without a zone it is UTC.

    Raises ValueError.
    """
    match = _TIME.fullmatch(text.strip())
    if match is None:
        raise ValueError("not a time; write it as 2026-11-15 10:00:00, with a zone such as +01:00 if not UTC")
    day, time, zone = match[1], match[2] or "00:00", match[3] or "Z"
    time = time if time.count(":") == 2 else f"{time}:00"
    whole, _, part = time.partition(".")
    offset = "+00:00" if zone in ("Z", "UTC") else f"{zone[:3]}:{zone[-2:]}"
    try:
        return dt.datetime.fromisoformat(f"{day}T{whole}.{part.ljust(6, '0')}{offset}")
    except ValueError:
        raise ValueError(f"not a time: there is no {text.strip()}") from None


def millis(time: dt.datetime) -> int:
    """The time as Iceberg counts it; one without a zone is UTC."""
    aware = time if time.tzinfo is not None else time.replace(tzinfo=dt.timezone.utc)
    return (aware - dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)) // dt.timedelta(milliseconds=1)


def shown(ms: int) -> str:
    """A time for people."""
    time = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(milliseconds=ms)
    return f"{time:%Y-%m-%d %H:%M:%S}.{ms % 1000:03d} UTC"
