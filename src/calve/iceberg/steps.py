"""What is to be read of a snapshot: its state, the files that it added, or all that it changed. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from calve.iceberg.files import Task
from calve.iceberg.travel import Snapshot

_REMOVING = ("deleted-data-files", "added-delete-files", "removed-delete-files")


@dataclass(frozen=True)
class Step:
    """Something of one snapshot that is to be read; of files, those behind one and up to another."""

    snapshot: Snapshot
    is_state: bool = False
    """Whether all that the table has at the snapshot is meant, and not what the snapshot changed."""
    behind: str = ""
    up_to: str | None = None

    @property
    def is_files(self) -> bool:
        """Whether its rows are those of files that can be taken one by one."""
        return self.is_state or only_adds(self.snapshot)

    @property
    def needs_parent(self) -> bool:
        """Whether the files before the snapshot have to be known."""
        is_append = self.snapshot.operation == "append" and only_adds(self.snapshot)
        return not self.is_state and not is_append

    def mine(self, tasks: Iterable[Task]) -> list[Task]:
        """Those of the files that belong to the step, in the order of their locations."""
        found = (task for task in tasks if task.location > self.behind)
        chosen = (task for task in found if self.up_to is None or task.location <= self.up_to)
        return sorted(chosen, key=lambda task: task.location)


def is_change(snapshot: Snapshot) -> bool:
    """Whether rows may differ from those before the snapshot; after a compaction they do not."""
    return snapshot.operation != "replace"


def only_adds(snapshot: Snapshot) -> bool:
    """Whether the snapshot says that it has added rows and taken none away."""
    told = snapshot.summary
    if any(told.get(name, "0") != "0" for name in _REMOVING):
        return False
    is_told = snapshot.operation == "overwrite" and "added-data-files" in told
    return snapshot.operation == "append" or is_told


def changed_rows(snapshot: Snapshot) -> int:
    """About how many rows a snapshot has changed, as it tells itself."""
    names = ("added-records", "deleted-records", "added-position-deletes", "added-equality-deletes")
    return sum(int(snapshot.summary.get(name) or 0) for name in names)


def runs(wanted: Sequence[Step]) -> list[list[int]]:
    """The numbers of the steps: one by one, but those together that follow each other and are files."""
    found: list[list[int]] = []
    for number, step in enumerate(wanted):
        if found and step.is_files and wanted[found[-1][-1]].is_files:
            found[-1].append(number)
        else:
            found.append([number])
    return found


def expired_before(table: str, snapshot: Snapshot) -> str:
    """What is said where the snapshot before one is needed and gone."""
    return (
        f"Cannot tell what snapshot {snapshot.id} of table '{table}' changed: snapshot {snapshot.parent}, "
        "which it came from, was expired"
    )
