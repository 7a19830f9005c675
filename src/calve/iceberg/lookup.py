"""Find the rows of a table that have the keys of a batch: where they are, not what they hold."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from typing import TYPE_CHECKING, Any

from calve import gateway
from calve.iceberg import java
from calve.iceberg.failures import translated
from calve.iceberg.name import quoted
from calve.iceberg.table import Table

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

FILE, POSITION = "_file", "_pos"
FEW = 200
"""As many values as Iceberg compares one by one; above it, planning looks at the range only."""


@dataclass(frozen=True)
class Keys:
    """The keys of a batch: a frame of them, and for each column its range or its few values."""

    frame: DataFrame
    names: tuple[str, ...]
    count: int
    ranges: Mapping[str, tuple[Any, Any]]
    few: Mapping[str, Sequence[Any]]

    def filter(self) -> Column:
        """What every row with one of the keys satisfies."""
        from pyspark.sql import functions as f

        found = f.lit(True)
        for name, (least, greatest) in self.ranges.items():
            found = found & f.col(quoted(name)).between(f.lit(least), f.lit(greatest))
        for name, values in self.few.items():
            found = found & f.col(quoted(name)).isin(*values)
        return found

    def expression(self) -> Any:
        """The same for Iceberg's planning, as far as it knows the types."""
        make = gateway.jvm().org.apache.iceberg.expressions.Expressions
        parts = []
        for name, (least, greatest) in self.ranges.items():
            if _is_plain(least):
                parts.append(make.greaterThanOrEqual(name, _literal(least)))
                parts.append(make.lessThanOrEqual(name, _literal(greatest)))
        for name, values in self.few.items():
            if values and _is_plain(values[0]):
                parts.append(getattr(make, "in")(name, java.object_list(map(_literal, values))))
        return reduce(getattr(make, "and"), parts, make.alwaysTrue())


@dataclass(frozen=True)
class Hits:
    """Rows of one data file: the file as the table lists it, its position deletes, and where the rows are."""

    path: str
    file: Any
    deletes: tuple[Any, ...]
    positions: Any


def rows_at(spark: SparkSession, table: Table, snapshot: int) -> DataFrame:
    """The rows of `table` in `snapshot`; `_file` and `_pos` can be selected."""
    return spark.read.option("versionAsOf", str(snapshot)).table(table.name.sql())


def look_up(spark: SparkSession, table: Table, snapshot: int, keys: Keys, as_java: bool) -> list[Hits]:
    """The rows of `snapshot` that have one of `keys`, by data file.

    Positions are a list of Java's or an Arrow array, whichever the writer of deletes wants.
    """
    from pyspark.sql import functions as f

    with translated(f"look up keys in table '{table.name}'"):
        names = [quoted(name) for name in keys.names]
        old = rows_at(spark, table, snapshot).where(keys.filter()).select(*names, FILE, POSITION)
        hits = old.join(_broadcast(keys), list(keys.names), "left_semi")
        found = hits.groupBy(FILE).agg(f.collect_list(POSITION).alias("at"))
        positions = _in_java(found) if as_java else _in_arrow(found)
        files = _files(table, snapshot, keys.expression(), positions.keys())
        return [_hits(path, files[path], at) for path, at in positions.items()]


def _broadcast(keys: Keys) -> DataFrame:
    from pyspark.sql import functions as f

    return f.broadcast(keys.frame) if keys.count <= 1_000_000 else keys.frame


def _in_java(found: DataFrame) -> dict[str, Any]:
    return {row.getString(0): row.getList(1) for row in found._jdf.collectAsList()}


def _in_arrow(found: DataFrame) -> dict[str, Any]:
    table = found.toArrow()
    return {path.as_py(): at.values for path, at in zip(table.column(0), table.column(1), strict=True)}


def _hits(path: str, task: Any, positions: Any) -> Hits:
    deletes = tuple(one for one in task.deletes() if one.content().name() == "POSITION_DELETES")
    return Hits(path, task.file(), deletes, positions)


def _files(table: Table, snapshot: int, expression: Any, wanted: Collection[str]) -> dict[str, Any]:
    """The tasks of the files `wanted`; planning is asked for no more than could hold the keys."""
    found: dict[str, Any] = {}
    if not wanted:
        return found
    tasks = table.java.newScan().useSnapshot(snapshot).filter(expression).planFiles()
    try:
        walk = tasks.iterator()
        while len(found) < len(wanted) and walk.hasNext():
            task = walk.next()
            path = task.file().location()
            if path in wanted:
                found[path] = task
    finally:
        tasks.close()
    return found


def _is_plain(value: Any) -> bool:
    return isinstance(value, (bool, int, str, Decimal, dt.date, dt.datetime))


def _literal(value: Any) -> Any:
    """A value that Iceberg binds to the column's type by itself."""
    if isinstance(value, dt.datetime):
        return value.isoformat(timespec="microseconds")
    return str(value) if isinstance(value, (dt.date, Decimal)) else value
