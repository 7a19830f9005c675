"""A catalog with one Iceberg table, in plain Python, behind the part of Iceberg's Java interface we call.

It follows Iceberg's rules for format 2: a swap compares the branch's snapshot and the table's UUID (REST) or
the whole metadata (every other catalog), and refuses a snapshot whose sequence number is not above the last.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import count
from types import SimpleNamespace
from typing import Any

from calve.errors import ConfigurationError, Conflict, NotPermitted, Unavailable

Row = tuple[str, int]
"""A row: its source and its number there."""

SOON = {"late 1": 1, "late 2": 2, "late 3": 3}
"""Answers to attempts that arrive so many calls of the catalog later: before the writer looks, and after."""

ANSWERS = (
    *("fine", "lost", "late", *SOON, "conflict landed", "denied landed"),
    *("conflict", "error", "denied", "phantom", "unmarked"),
)
"""How the catalog answers a swap.

`lost`, `conflict landed` and `denied landed` apply it and answer an error; `late` answers an error and may
apply it at any later time; `conflict`, `error` and `denied` apply nothing; `phantom` neither, but answers
success; `unmarked` takes the snapshot without the properties, and answers success.
"""

_ERRORS = {
    "lost": Unavailable,
    **dict.fromkeys(("late", *SOON), Unavailable),
    "error": Unavailable,
    "conflict": Conflict,
    "conflict landed": Conflict,
    "denied": NotPermitted,
    "denied landed": NotPermitted,
}


@dataclass(frozen=True)
class File:
    """A data file and the rows of our source in it; a foreign file has none."""

    name: str
    rows: tuple[Row, ...] = ()


@dataclass(frozen=True, eq=False)
class Snapshot:
    """One snapshot; `live` are all files that a reader of it sees."""

    id: int
    parent: int | None
    sequence: int
    said: Mapping[str, str]
    added: tuple[File, ...]
    live: tuple[File, ...]

    def snapshotId(self) -> int:
        return self.id

    def parentId(self) -> int | None:
        return self.parent

    def sequenceNumber(self) -> int:
        return self.sequence

    def summary(self) -> Mapping[str, str]:
        return self.said

    def manifestListLocation(self) -> str:
        return f"memory://snap-{self.id}"


@dataclass(frozen=True, eq=False)
class Version:
    """One version of the table's metadata."""

    table: str
    values: Mapping[str, str]
    retained: Mapping[int, Snapshot]
    refs: Mapping[str, int]
    last: int

    def uuid(self) -> str:
        return self.table

    def properties(self) -> Mapping[str, str]:
        return self.values

    def lastSequenceNumber(self) -> int:
        return self.last

    def lastUpdatedMillis(self) -> int:
        return 0

    def metadataFileLocation(self) -> str:
        return f"memory://{self.last}"

    def ref(self, branch: str) -> Any:
        found = self.refs.get(branch)
        return None if found is None else SimpleNamespace(snapshotId=lambda: found)

    def snapshot(self, number: int) -> Snapshot | None:
        return self.retained.get(number)

    def currentSnapshot(self) -> Snapshot | None:
        return self.head("main")

    def head(self, branch: str) -> Snapshot | None:
        found = self.refs.get(branch, self.refs.get("main"))
        return None if found is None else self.retained[found]

    def chain(self, branch: str) -> list[Snapshot]:
        """The retained snapshots of a branch, newest first."""
        found, snapshot = [], self.head(branch)
        while snapshot is not None:
            found.append(snapshot)
            snapshot = None if snapshot.parent is None else self.retained.get(snapshot.parent)
        return found

    def has_behind(self, head: int, known: int) -> bool:
        """Whether the snapshot `known` is reached from `head`."""
        while head in self.retained and head != known:
            head = self.retained[head].parent or 0
        return head in self.retained

    def with_snapshot(self, snapshot: Snapshot, branch: str) -> Version:
        retained = {**self.retained, snapshot.id: snapshot}
        return replace(
            self, retained=retained, refs={**self.refs, branch: snapshot.id}, last=snapshot.sequence
        )

    def with_values(self, values: Mapping[str, str]) -> Version:
        return replace(self, values={**self.values, **values})


class Swap:
    """A change of the metadata and the base it was made for: Iceberg's builder, and what it builds."""

    def __init__(self, base: Version) -> None:
        self.base = base
        self.snapshot: Snapshot | None = None
        self.branch = "main"
        self.values: dict[str, str] = {}
        self.dropped: dict[str, str] = {}

    def setBranchSnapshot(self, snapshot: Snapshot, branch: str) -> Swap:
        self.snapshot, self.branch = snapshot, branch
        return self

    def setProperties(self, values: Mapping[str, str]) -> Swap:
        self.values.update(values)
        return self

    def build(self) -> Swap:
        return self

    def on(self, version: Version) -> Version:
        """What `version` becomes."""
        changed = version.with_snapshot(self.snapshot, self.branch) if self.snapshot else version
        return changed.with_values(self.values)


class Catalog:
    """The catalog; what it answers to the next swaps is planned by the test."""

    def __init__(self, style: str = "rest", keeps_properties: bool = True) -> None:
        self.style = style
        self.keeps_properties = keeps_properties
        self.answers: deque[str] = deque()
        self.fired: Counter[str] = Counter()
        self.late: list[Swap] = []
        self._soon: list[tuple[int, Swap]] = []
        self.dark = 0
        self.stale: deque[Version] = deque()
        self.past: deque[Version] = deque(maxlen=3)
        self.applied: Callable[[Swap], None] = lambda swap: None
        self._numbers = count(1)
        self.current = self._empty()

    def number(self) -> int:
        return next(self._numbers)

    def _empty(self) -> Version:
        return Version(f"table-{self.number()}", {}, {}, {}, 0)

    def recreate(self) -> None:
        """Drop the table and create it anew under its name."""
        self.past.clear()
        self.stale.clear()
        self.current = self._empty()

    def become(self, version: Version) -> None:
        """The metadata is another from now on."""
        self.past.append(self.current)
        self.current = version

    def _called(self) -> None:
        """Count a call; attempts whose time has come arrive before it."""
        self._soon = [(calls - 1, swap) for calls, swap in self._soon]
        for swap in [swap for calls, swap in self._soon if calls == 0]:
            self.arrive(swap)

    def load(self) -> Version:
        self._called()
        if self.dark > 0:
            self.dark -= 1
            self.fired["unreadable"] += 1
            raise Unavailable("Cannot load the table: the catalog does not answer")
        if self.stale:
            self.fired["stale"] += 1
            return self.stale.popleft()
        return self.current

    def commit(self, swap: Swap) -> Version:
        """Apply `swap` if its base is still current, and answer as planned."""
        self._called()
        answer = self.answers.popleft() if self.answers else "fine"
        self.fired[answer] += 1
        if answer == "late":
            self.late.append(swap)
        elif answer in SOON:
            self._soon.append((SOON[answer], swap))
        elif answer == "phantom":
            return self.current
        elif answer in ("fine", "lost", "conflict landed", "denied landed", "unmarked"):
            self._swap(swap, is_marked=answer != "unmarked")
        if answer not in ("fine", "unmarked"):
            raise _ERRORS[answer](f"Cannot commit: {answer}")
        return self.current

    def arrive(self, swap: Swap) -> None:
        """Apply an attempt that was under way, if its base is still current."""
        if self.fits(swap):
            self.fired["arrived"] += 1
            self._apply(swap)

    def fits(self, swap: Swap) -> bool:
        """Whether the catalog would take `swap` now."""
        if self.style != "rest":
            return swap.base is self.current
        now, base, new = self.current, swap.base, swap.snapshot
        if now.table != base.table:
            return False
        if new is None:
            return True
        is_next = new.parent is None or new.sequence > now.last
        return is_next and now.refs.get(swap.branch) == base.refs.get(swap.branch)

    def _swap(self, swap: Swap, is_marked: bool = True) -> None:
        if not self.fits(swap):
            raise Conflict("Cannot commit: the table has moved")
        if not is_marked:
            swap.dropped, swap.values = swap.values, {}
        self._apply(swap)

    def _apply(self, swap: Swap) -> None:
        if not self.keeps_properties:
            swap.values.clear()
        self.become(swap.on(self.current))
        self.applied(swap)


class JavaTable:
    """A process's handle of the table: Iceberg's Table and its TableOperations in one."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self._seen = catalog.load()

    def operations(self) -> JavaTable:
        return self

    def current(self) -> Version:
        return self._seen

    def refresh(self) -> Version:
        version = self.catalog.load()
        if self.catalog.style != "rest" and version.table != self._seen.table:
            raise ConfigurationError("Cannot load the table: its UUID is not the one that was loaded")
        self._seen = version
        return version

    def commit(self, base: Version, swap: Swap) -> None:
        assert swap.base is base
        self._seen = self.catalog.commit(swap)

    def newFastAppend(self) -> Append:
        return Append(self)

    def newAppend(self) -> Append:
        return Append(self)

    def io(self) -> None:
        return None


class Append:
    """Iceberg's FastAppend: `apply` refreshes the table and makes a snapshot that follows its head."""

    def __init__(self, table: JavaTable) -> None:
        self._table = table
        self._branch = "main"
        self._files: list[File] = []
        self._said: dict[str, str] = {}

    def toBranch(self, branch: str) -> Append:
        self._branch = branch
        return self

    def appendFile(self, file: File) -> Append:
        self._files.append(file)
        return self

    def set(self, key: str, value: str) -> Append:
        self._said[key] = value
        return self

    def apply(self) -> Snapshot:
        version = self._table.refresh()
        return following(self._table.catalog, version, self._branch, tuple(self._files), self._said)


def following(
    catalog: Catalog,
    version: Version,
    branch: str,
    added: tuple[File, ...],
    said: Mapping[str, str] = {},
    is_rewrite: bool = False,
) -> Snapshot:
    """A snapshot that adds files to the head of a branch, or puts them in the place of all others."""
    head = version.head(branch)
    live = added if is_rewrite or head is None else head.live + added
    counts = {"total-data-files": str(len(live))} | ({"added-data-files": str(len(added))} if added else {})
    parent = head.id if head else None
    return Snapshot(catalog.number(), parent, version.last + 1, {**said, **counts}, added, live)


def jvm() -> Any:
    """What `calve.gateway.jvm` gives, as far as a commit asks it."""
    iceberg = SimpleNamespace(
        TableMetadata=SimpleNamespace(buildFrom=Swap),
        StaticTableOperations=lambda version, io: version,
        BaseTable=lambda version, name: version,
        util=SimpleNamespace(SnapshotUtil=SimpleNamespace(isAncestorOf=Version.has_behind)),
    )
    return SimpleNamespace(org=SimpleNamespace(apache=SimpleNamespace(iceberg=iceberg)))
