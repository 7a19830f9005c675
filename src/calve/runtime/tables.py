"""What is in a table: its rows, its snapshots and where its metadata is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from calve import gateway
from calve.catalogs import Catalog as CatalogDeclaration
from calve.errors import UsageError
from calve.iceberg.catalog import Catalog
from calve.iceberg.name import TableName
from calve.iceberg.table import Table
from calve.iceberg.travel import Snapshot
from calve.runtime import versions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_AS_JSON = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


@dataclass(frozen=True)
class Rows:
    """Some rows of a table, a JSON object each, and whether there are more."""

    columns: tuple[str, ...]
    rows: tuple[str, ...]
    more: bool


@dataclass(frozen=True)
class History:
    """The snapshots of a table, oldest first, and where it is."""

    location: str
    metadata_file: str
    snapshots: tuple[Snapshot, ...]
    refs: Mapping[int, tuple[str, ...]]
    """The branches and tags that are at a snapshot, by its id."""


def is_there(declaration: CatalogDeclaration) -> bool:
    """Whether the catalog exists; opening the embedded one would create it."""
    return declaration.type is not None or Path(str(declaration.warehouse), "catalog.db").exists()


def check_catalog(declaration: CatalogDeclaration, name: TableName) -> None:
    """Refuse a table of an embedded catalog that nothing has been written to."""
    if not is_there(declaration):
        raise missing(name)


def exists(spark: SparkSession, name: TableName) -> bool:
    """Whether there is such a table."""
    return Catalog(spark, name.catalog).has_table(name)


def load(spark: SparkSession, name: TableName) -> Table:
    """The table; raises UsageError if there is none."""
    if not exists(spark, name):
        raise missing(name)
    return Catalog(spark, name.catalog).load(name)


def missing(name: TableName) -> UsageError:
    """The error for a table that does not exist."""
    return UsageError(
        f"Cannot find table '{name}': it does not exist; 'calve run' creates the tables of sinks"
    )


def history(table: Table) -> History:
    """All retained snapshots of `table`."""
    metadata = table.metadata()
    told = metadata.history(str(table.name))
    refs: dict[int, tuple[str, ...]] = {}
    for name, ref in sorted(told.refs.items()):
        refs[ref.snapshot] = (*refs.get(ref.snapshot, ()), name)
    return History(metadata.location, metadata.file, told.snapshots, refs)


def rows(
    spark: SparkSession,
    table: Table,
    limit: int,
    at: str | None = None,
    branch: str = "main",
    where: str | None = None,
    columns: Sequence[str] | None = None,
) -> Rows:
    """The first `limit` rows that Spark finds in the state that `at` names, or in the newest of `branch`."""
    from calve.iceberg import states

    found = versions.snapshot(table.metadata().history(str(table.name)), at, branch)
    if found is None:
        return Rows(tuple(columns or table.metadata().schema().names), (), False)
    frame = states.state(spark, table, found.id, columns, where, as_now=at is None)
    return shown(frame, limit, f"read table '{table.name}'")


def shown(frame: DataFrame, limit: int, what: str) -> Rows:
    """The first `limit` rows of `frame`; `what` completes "Cannot …"."""
    from pyspark.sql import functions as F

    with gateway.translated(what):
        some = frame.limit(limit + 1)
        texts = [row[0] for row in some.select(F.to_json(F.struct("*"), _AS_JSON)).collect()]
    return Rows(tuple(frame.columns), tuple(texts[:limit]), len(texts) > limit)
