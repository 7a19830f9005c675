"""The rows of a table at one of its snapshots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from calve.iceberg import lookup
from calve.iceberg.changeset import refuse_unknown
from calve.iceberg.failures import translated
from calve.iceberg.name import quoted
from calve.iceberg.table import Table
from calve.schema import from_spark_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def state(
    spark: SparkSession,
    table: Table,
    snapshot: int,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    as_now: bool = False,
) -> DataFrame:
    """The rows of `snapshot`, of whichever branch, with the columns of its time, or `columns` of them.

    With `as_now` the columns are those that the table has now: they may have changed since its last snapshot.
    `where` is a predicate of SQL; Spark hands it to Iceberg's planning, as far as that can use it.
    """
    with translated(f"read table '{table.name}'"):
        rows = (lookup.known_at if as_now else lookup.rows_at)(spark, table, snapshot)
        known = from_spark_json(rows.schema.jsonValue())
        refuse_unknown(str(table.name), known, columns or ())
        chosen = rows if where is None else rows.where(where)
        return chosen if columns is None else chosen.select(*map(quoted, columns))
