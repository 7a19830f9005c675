"""What a commit of an upsert or an overwrite does to a table, and what must still hold when it does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, NoReturn

from calve.errors import DataRefused
from calve.iceberg import java
from calve.iceberg.deletes import NONE, Deletes
from calve.iceberg.stage import NOTHING, Staged


@dataclass(frozen=True)
class Found:
    """Deletes for the rows that a batch replaces, and the snapshot in which they were looked up."""

    deletes: Deletes = NONE
    files: tuple[str, ...] = ()
    snapshot: int | None = None
    expression: Any = None


NOT_FOUND = Found()


@dataclass
class Cost:
    """What finding the rows that a batch replaces has taken, over all its look-ups."""

    lookups: int = 0
    lookup_files: int = 0
    """Data files that could have held one of the keys."""
    lookup_seconds: float = 0.0

    def add(self, files: int, seconds: float) -> None:
        """Count one look-up."""
        self.lookups += 1
        self.lookup_files += files
        self.lookup_seconds += seconds


@dataclass(frozen=True)
class Delta(Staged):
    """Data files, and deletes for the rows that they replace; tombstones are committed before them."""

    found: Found = NOT_FOUND
    tombstones: Staged = NOTHING
    again: Callable[[Delta], Delta] = lambda delta: delta
    done: Callable[[], None] = lambda: None
    cost: Cost = field(default_factory=Cost)

    @property
    def is_empty(self) -> bool:
        return self.rows == 0 and not self.found.deletes.added and self.tombstones.rows == 0

    def update(self, table: Any) -> Any:
        update = table.newRowDelta()
        for file in self.files:
            update = update.addRows(file)
        for file in self.found.deletes.added:
            update = update.addDeletes(file)
        for file in self.found.deletes.removed:
            update = update.removeDeletes(file)
        return self._validated(update)

    def _validated(self, update: Any) -> Any:
        """Have the update refused if what was looked up is no longer so."""
        if self.found.snapshot is None:
            return update
        update = update.validateFromSnapshot(self.found.snapshot)
        update = update.conflictDetectionFilter(self.found.expression).validateNoConflictingDataFiles()
        if not self.found.files:
            return update
        return update.validateDataFilesExist(java.object_list(self.found.files)).validateDeletedFiles()

    def renewed(self) -> Delta:
        return self.again(self)

    @property
    def counts(self) -> dict[str, float]:
        return asdict(self.cost)

    def release(self) -> None:
        self.done()


@dataclass(frozen=True)
class Emptied(Staged):
    """Data files that are all that the table has afterwards."""

    @property
    def is_empty(self) -> bool:
        return False

    def update(self, table: Any) -> Any:
        update = table.newOverwrite().overwriteByRowFilter(java.always_true())
        for file in self.files:
            update = update.addFile(file)
        return update


@dataclass(frozen=True)
class Replaced(Staged):
    """Data files that replace the partitions they are in, or what a filter of Iceberg's matches."""

    name: str = ""
    filter: Any = None
    checked_from: int | None = None
    """The snapshot behind which no other writer may have touched the same; None to let the last one win."""

    def update(self, table: Any) -> Any:
        update = self._begun(table)
        for file in self.files:
            update = update.addFile(file)
        if self.checked_from is None:
            return update
        update = update.validateFromSnapshot(self.checked_from)
        return update.validateNoConflictingData().validateNoConflictingDeletes()

    def _begun(self, table: Any) -> Any:
        if self.filter is None:
            return table.newReplacePartitions()
        update = table.newOverwrite().overwriteByRowFilter(self.filter).conflictDetectionFilter(self.filter)
        return update.validateAddedFilesMatchOverwriteFilter()

    def renewed(self) -> NoReturn:
        raise DataRefused(
            f"Cannot overwrite in table '{self.name}': another writer committed to the same data while this "
            "batch was written, and nothing of the batch was committed; run again to overwrite that as well, "
            "or declare 'overwrite_conflicts: last_wins'"
        )
