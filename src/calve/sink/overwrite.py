"""Overwrites: a batch replaces the partitions it has rows in, the table, or what filters name."""

from __future__ import annotations

from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from calve.errors import CalveError, Moved
from calve.iceberg import filters, java
from calve.iceberg.failures import translated
from calve.iceberg.stage import Staged
from calve.iceberg.table import Table
from calve.sink.declaration import IcebergSink
from calve.sink.delta import Replaced

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def replacing(
    spark: SparkSession, table: Table, sink: IcebergSink, staged: Staged, begun_at: int, sink_id: str
) -> Replaced:
    """`staged` as a replacement of what `sink` declares; its batch was begun at the snapshot `begun_at`."""
    made = Replaced(
        staged.files,
        staged.rows,
        staged.bytes,
        name=str(table.name),
        filter=_filter(spark, table, sink.overwrite),
    )
    if sink.overwrite_conflicts == "last_wins":
        return made
    return replace(made, checked_from=_checked(table, sink, made, begun_at, sink_id))


def head(table: Table, branch: str) -> int:
    """The snapshot at the head of `branch`."""
    return int(table.metadata().head(branch).snapshotId())


def _checked(table: Table, sink: IcebergSink, made: Replaced, begun_at: int, sink_id: str) -> int:
    """The snapshot behind which the commit looks for conflicts; what lies before it is looked at here.

    Where the batch was begun ahead, one of our own commits is behind `begun_at`, which is no conflict.
    """
    metadata = table.metadata()
    behind = takewhile(lambda one: one.id != begun_at, metadata.ancestors(sink.branch))
    own = next((one.id for one in behind if one.sink == sink_id), None)
    if own is None:
        return begun_at
    before = metadata.parent(own)
    if before == begun_at:
        return own
    if before is None:
        made.renewed()
    try:
        with translated(f"overwrite in table '{table.name}'"):
            past = table.frozen(metadata.at(before, sink.branch)).java
            replace(made, checked_from=begun_at).update(past).toBranch(sink.branch).apply()
    except Moved:
        made.renewed()
    except CalveError as error:
        # Iceberg looks for conflicts first; what follows is to write manifests, and a view takes none.
        if _OF_A_VIEW not in str(error):
            raise
    return own


_OF_A_VIEW = "Cannot modify a static table"


def _filter(spark: SparkSession, table: Table, overwrite: str | list[str]) -> Any:
    """What is replaced as an expression of Iceberg's; None for the partitions of the rows."""
    if overwrite == "partitions":
        return None
    if overwrite == "table":
        return java.always_true()
    where = " OR ".join(f"({one})" for one in overwrite)
    with translated(f"understand 'overwrite: {overwrite}'"):
        return filters.converted(table.name.sql(), where, spark)
