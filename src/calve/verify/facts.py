"""What is known of a table, as plain values, and what a check finds in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

MAIN = "main"


class Invariant(str, Enum):
    """What must hold of a table."""

    FILE_ADDED_ONCE = "file-added-once"
    FILE_LIVE_ONCE = "file-live-once"
    FILE_READABLE = "file-readable"
    FILE_EXISTS = "file-exists"
    FILE_SIZE = "file-size"
    ORPHANS_BOUNDED = "orphans-bounded"
    EPOCH_GROWS = "epoch-grows"
    COMMIT_ONCE = "commit-once"
    MARK_AGREES = "mark-agrees"
    MARK_REACHABLE = "mark-reachable"
    HISTORY_GROWS = "history-grows"
    COUNTS_AGREE = "counts-agree"
    TOTALS_ADD_UP = "totals-add-up"
    KEY_UNIQUE = "key-unique"
    NO_LOSS = "no-loss"
    NO_DUPLICATE = "no-duplicate"
    NO_STRANGER = "no-stranger"


@dataclass(frozen=True)
class Finding:
    """One place where an invariant does not hold."""

    invariant: Invariant
    what: str
    where: str

    def __str__(self) -> str:
        return f"{self.invariant.value}: {self.where}: {self.what}"


class Status(Enum):
    """What a manifest says of a file: whether its snapshot added it, kept it or removed it."""

    EXISTING = 0
    ADDED = 1
    DELETED = 2


@dataclass(frozen=True)
class Entry:
    """A file as one manifest lists it; `snapshot` is the one that gave it its status."""

    path: str
    size: int
    records: int
    snapshot: int
    status: Status = Status.ADDED
    deletes: bool = False


@dataclass(frozen=True)
class Manifest:
    """A list of files, and how long the list itself is."""

    path: str
    size: int
    entries: tuple[Entry, ...] = ()

    def live(self) -> Iterator[Entry]:
        """The files that a snapshot with this manifest has."""
        return (entry for entry in self.entries if entry.status is not Status.DELETED)

    def added(self) -> Iterator[Entry]:
        """The files that came with a snapshot."""
        return (entry for entry in self.entries if entry.status is Status.ADDED)


@dataclass(frozen=True)
class Snapshot:
    """One retained snapshot; its manifests by their paths."""

    id: int
    parent: int | None
    sequence: int
    summary: Mapping[str, str] = field(default_factory=dict)
    manifest_list: str = ""
    manifests: tuple[str, ...] = ()


@dataclass(frozen=True)
class Version:
    """The marks of one version of the metadata, and the commits that were an operator's decision."""

    file: str
    marks: Mapping[str, str] = field(default_factory=dict)
    decisions: frozenset[str] = frozenset()


@dataclass(frozen=True)
class File:
    """A file that a retained snapshot needs; `size` is None where nothing says how long it is."""

    path: str
    kind: str
    size: int | None


@dataclass(frozen=True)
class Facts:
    """A table at one moment.

    Snapshots and versions stand oldest first; `branches` has the heads, `marks` the properties. `manifests`
    are those that could be read; `unread` says why the others, or manifest lists, could not.
    """

    snapshots: tuple[Snapshot, ...] = ()
    branches: Mapping[str, int] = field(default_factory=dict)
    marks: Mapping[str, str] = field(default_factory=dict)
    manifests: Mapping[str, Manifest] = field(default_factory=dict)
    versions: tuple[Version, ...] = ()
    unread: Mapping[str, str] = field(default_factory=dict)

    def by_id(self) -> dict[int, Snapshot]:
        """The snapshots by their ids."""
        return {snapshot.id: snapshot for snapshot in self.snapshots}

    def chain(self, branch: str) -> list[Snapshot]:
        """The snapshots of `branch`, newest first, as far as they are retained.

        A branch that does not exist has those of main, where the writer of a new branch begins.
        """
        known, found = self.by_id(), []
        at: int | None = self.branches.get(branch, self.branches.get(MAIN))
        while at is not None and at in known:
            found.append(known[at])
            at = known[at].parent
        return found

    def is_first(self, snapshot: Snapshot) -> bool:
        """Whether the history begins with `snapshot`: it has no parent, and no file of another one.

        PyIceberg takes the parent away from the snapshot after one that it expires.
        """
        entries = (entry for manifest in self.manifests_of(snapshot) for entry in manifest.entries)
        return snapshot.parent is None and all(entry.snapshot == snapshot.id for entry in entries)

    def is_whole(self, snapshot: Snapshot) -> bool:
        """Whether all manifests of `snapshot` could be read."""
        lists = snapshot.manifest_list not in self.unread
        return lists and all(path in self.manifests for path in snapshot.manifests)

    def manifests_of(self, snapshot: Snapshot) -> Iterator[Manifest]:
        """The manifests of `snapshot` that could be read."""
        return (self.manifests[path] for path in snapshot.manifests if path in self.manifests)
