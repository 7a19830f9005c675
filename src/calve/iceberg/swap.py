"""One attempt to commit: a single compare-and-swap of the table's metadata."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from calve import crash, gateway
from calve.errors import Conflict, Unavailable
from calve.iceberg import durable, java, manifests
from calve.iceberg.failures import reading_files, translated
from calve.iceberg.stage import NOTHING, Staged
from calve.iceberg.table import Metadata, Table
from calve.position import Mark

_MOST_AHEAD_MS = 60_000


@dataclass(frozen=True)
class Proposal:
    """The mark that a commit leaves on a base; `landed` if the base has that commit already."""

    mark: Mark
    landed: bool = False


@dataclass(frozen=True)
class Change:
    """What a commit brings: what was staged, what its summary says, and where its mark is kept."""

    branch: str
    property: str
    staged: Staged = NOTHING
    summary: Mapping[str, str] | None = None


def attempt(table: Table, change: Change, propose: Callable[[Metadata], Proposal], place: str) -> Mark:
    """Swap the table's metadata once for one that has the files and the mark of `change`.

    `apply` refreshes the table and writes manifests for the base it saw. `propose` judges that very base,
    and the catalog refuses the swap if the branch has moved since. Nothing is retried here and no file is
    ever deleted: after an exception only the table itself can tell whether the swap took place.
    """
    with reading_files(f"commit to table '{table.name}'"):
        known = table.metadata()
        expected = propose(known)
        if not expected.landed:
            change.staged.check(known, str(table.name))
        snapshot = _update(table, change, expected.mark).apply()
        base = table.metadata()
        proposal = propose(base)
        if proposal.landed:
            return proposal.mark
        change.staged.check(base, str(table.name))
        if proposal.mark.summary(change.property) != expected.mark.summary(change.property):
            raise Conflict(f"Cannot commit to table '{table.name}': its mark changed under the commit")
        _check_clock(table, base)
        crash.point(f"{place}.applied")
        _swap(table, base, snapshot, change, proposal.mark)
        crash.point(f"{place}.swapped")
        return proposal.mark


def _check_clock(table: Table, base: Metadata) -> None:
    """Raise Unavailable where Iceberg would refuse the commit: it takes none that is older than the last one.

    The history of a table may go back by a minute at the most, whoever's clock is wrong.
    """
    ahead = base.updated_ms - time.time() * 1000
    if ahead > _MOST_AHEAD_MS:
        raise Unavailable(
            f"Cannot commit to table '{table.name}': its last commit is {_length(ahead / 1000)} ahead of "
            "this machine's clock; correct the clock that is wrong, or wait until that time has come"
        )


def _length(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} minutes"


def _update(table: Table, change: Change, mark: Mark) -> Any:
    update = change.staged.update(table.java).toBranch(change.branch)
    for key, value in {**(change.summary or {}), **mark.summary(change.property)}.items():
        update = update.set(key, value)
    return update


def _swap(table: Table, base: Metadata, snapshot: Any, change: Change, mark: Mark) -> None:
    builder = gateway.jvm().org.apache.iceberg.TableMetadata.buildFrom(base.java)
    builder = builder.setBranchSnapshot(snapshot, change.branch)
    builder = builder.setProperties(java.string_map({change.property: mark.dump()}))
    if change.staged.made_for is not None and java.is_a(table.java.operations(), _OF_REST):
        _pin(builder, base)
    table.commit(base, builder.build(), manifests.written(snapshot))


_OF_REST = "org.apache.iceberg.rest.RESTTableOperations"


def _pin(builder: Any, base: Metadata) -> None:
    """Have a REST catalog refuse the commit where it has another schema or spec by now than `base`.

    The client asks the server to compare what a commit changes, and nothing else. So the commit sets both to
    what they are, which the builder has no call for, as it leaves out what changes nothing.
    """
    kinds = gateway.jvm().org.apache.iceberg
    private = builder.getClass().getDeclaredField("changes")
    private.setAccessible(True)
    changes = private.get(builder)
    shape = base.shape
    changes.add(getattr(kinds, "MetadataUpdate$SetCurrentSchema")(shape.schema_id))
    changes.add(getattr(kinds, "MetadataUpdate$SetDefaultPartitionSpec")(shape.spec_id))


def flush_metadata(table: Table, base: Metadata) -> None:
    """Have the metadata file of a commit on disk that a catalog wrote, which does not wait for the disk."""
    # A file that is gone has been replaced by so many commits that the table does not keep it any more.
    with translated(f"commit to table '{table.name}'"), suppress(FileNotFoundError):
        durable.flush([base.file])


def set_property(table: Table, base: Metadata, name: str, value: str) -> None:
    """Set a property of `table` as it is in `base`; no snapshot is made."""
    with translated(f"set property '{name}' of table '{table.name}'"):
        builder = gateway.jvm().org.apache.iceberg.TableMetadata.buildFrom(base.java)
        fresh = builder.setProperties(java.string_map({name: value})).build()
        table.java.operations().commit(base.java, fresh)


def held_back(table: Table) -> Callable[[], None]:
    """An empty commit made for `table` as it is now, as a function that swaps it in.

    A catalog that takes it after another commit has come first does not compare what it swaps.
    """
    with translated(f"commit to table '{table.name}'"):
        snapshot = table.java.newFastAppend().apply()
        base = table.metadata()

    def swap() -> None:
        with translated(f"commit to table '{table.name}'"):
            builder = gateway.jvm().org.apache.iceberg.TableMetadata.buildFrom(base.java)
            fresh = builder.setBranchSnapshot(snapshot, "main").build()
            table.commit(base, fresh)

    return swap
