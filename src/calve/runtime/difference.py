"""What is between two snapshots of a table: its changes one by one, or the difference in all."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from calve import schema as schemas
from calve.gateway import translated
from calve.iceberg.table import Table
from calve.runtime import tables, versions
from calve.runtime.tables import Rows
from calve.schema import Change, Schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TYPES = ("insert", "update_before", "update_after", "delete")
_NONE = Rows((), (), False)


@dataclass(frozen=True)
class Part:
    """What of the rows is asked for: those of a predicate, some columns, and what tells rows apart."""

    where: str | None = None
    columns: tuple[str, ...] | None = None
    keys: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Changes:
    """The first changes between two snapshots, as rows."""

    begin: int | None
    end: int | None
    rows: Rows


@dataclass(frozen=True)
class Difference:
    """In what two states of a table differ."""

    begin: int | None
    end: int | None
    schema: tuple[Change, ...] = ()
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    """Files that stay, of which other rows are deleted."""
    counts: dict[str, int] = field(default_factory=dict)
    """How many rows of each type of change there are."""
    rows: Rows = _NONE

    @property
    def is_empty(self) -> bool:
        """Whether nothing differs."""
        return not (self.schema or self.added or self.removed or self.changed or any(self.counts.values()))


def changes(
    spark: SparkSession, table: Table, begin: str | None, end: str | None, branch: str, part: Part, limit: int
) -> Changes:
    """What changed behind the state that `begin` names, up to the one that `end` names."""
    from calve.iceberg import changeset

    first, last = versions.bounds(table.metadata().history(str(table.name)), begin, end, branch)
    added = (changeset.TYPE, changeset.ORDINAL, changeset.SNAPSHOT)
    names = [*(part.columns or table.metadata().schema().names), *added]
    if last is None:
        return Changes(first, last, Rows(tuple(names), (), False))
    found = changeset.changes_between(
        spark, table, first, last, keys=part.keys, branch=branch, columns=part.columns, where=part.where
    )
    return Changes(first, last, tables.shown(found, limit, f"read the changes of table '{table.name}'"))


def difference(
    spark: SparkSession, table: Table, one: str, other: str, branch: str, part: Part, limit: int
) -> Difference:
    """In what the states that `one` and `other` name differ."""
    from calve.iceberg import changeset

    first, last = versions.bounds(table.metadata().history(str(table.name)), one, other, branch)
    if first == last:
        return Difference(first, last)
    touched = changeset.touched(spark, table, first, last, where=part.where)
    frame = changeset.difference(
        spark, table, first, last, keys=part.keys, columns=part.columns, where=part.where
    ).persist()
    what = f"tell the difference of two states of table '{table.name}'"
    try:
        with translated(what):
            counts = {row[0]: row[1] for row in frame.groupBy(changeset.TYPE).count().collect()}
        rows = tables.shown(frame.drop(changeset.ORDINAL, changeset.SNAPSHOT), limit, what)
    finally:
        frame.unpersist()
    return Difference(
        first,
        last,
        tuple(schemas.changes(_columns(spark, table, first), _columns(spark, table, last))),
        tuple(one.location for one in touched.added),
        tuple(one.location for one in touched.removed),
        tuple(pair.after.location for pair in touched.changed),
        {name: counts.get(name, 0) for name in TYPES},
        rows,
    )


def _columns(spark: SparkSession, table: Table, snapshot: int | None) -> Schema:
    """The columns at a snapshot; before the first one, those that the table has now."""
    from calve.iceberg import states

    if snapshot is None:
        return table.metadata().schema()
    return schemas.from_spark_json(states.state(spark, table, snapshot).schema.jsonValue())
