"""Overwrites: a batch replaces the partitions it has rows in, the table, or what filters name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from calve.iceberg import filters, java
from calve.iceberg.failures import translated
from calve.iceberg.stage import Staged
from calve.iceberg.table import Table
from calve.sink.declaration import IcebergSink
from calve.sink.delta import Replaced

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def replacing(spark: SparkSession, table: Table, sink: IcebergSink, staged: Staged) -> Replaced:
    """`staged` as a replacement of what `sink` declares."""
    checked = None if sink.overwrite_conflicts == "last_wins" else _head(table, sink.branch)
    return Replaced(
        staged.files,
        staged.rows,
        staged.bytes,
        name=str(table.name),
        filter=_filter(spark, table, sink.overwrite),
        checked_from=checked,
    )


def _head(table: Table, branch: str) -> int:
    return int(table.metadata().head(branch).snapshotId())


def _filter(spark: SparkSession, table: Table, overwrite: str | list[str]) -> Any:
    """What is replaced as an expression of Iceberg's; None for the partitions of the rows."""
    if overwrite == "partitions":
        return None
    if overwrite == "table":
        return java.always_true()
    where = " OR ".join(f"({one})" for one in overwrite)
    with translated(f"understand 'overwrite: {overwrite}'"):
        return filters.converted(table.name.sql(), where, spark)
