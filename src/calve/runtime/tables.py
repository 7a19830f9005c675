"""What is in a table: its rows, its snapshots and where its metadata is."""

from __future__ import annotations

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
from calve.model import suggestion

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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


def rows(spark: SparkSession, table: Table, limit: int, branch: str = "main") -> Rows:
    """The first `limit` rows that Spark finds on `branch`."""
    from pyspark.sql import functions as F

    with gateway.translated(f"read table '{table.name}'"):
        _check_branch(spark, table, branch)
        frame = spark.sql(f"SELECT * FROM {table.name.sql()}{_at(branch)}").limit(limit + 1)
        columns = tuple(frame.columns)
        found = [row[0] for row in frame.select(F.to_json(F.struct("*"), _AS_JSON)).collect()]
    return Rows(columns, tuple(found[:limit]), len(found) > limit)


def history(table: Table) -> History:
    """All retained snapshots of `table`."""
    metadata = table.metadata()
    return History(metadata.location, metadata.file, tuple(metadata.snapshots()))


def _check_branch(spark: SparkSession, table: Table, branch: str) -> None:
    refs = spark.sql(f"SELECT name FROM {table.name.sql()}.refs").collect()
    known = sorted({"main", *(row[0] for row in refs)})
    if branch not in known:
        listed = f"there is {', '.join(known)}{suggestion(branch, known)}"
        raise UsageError(f"Cannot find branch '{branch}' of table '{table.name}': {listed}")


def _at(branch: str) -> str:
    return "" if branch == "main" else f" VERSION AS OF '{branch}'"
