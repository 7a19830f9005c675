"""Change the columns and the partition spec of a table: one compare-and-swap that brings no rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from calve import crash, gateway
from calve.iceberg import java
from calve.iceberg.failures import reading_files
from calve.iceberg.table import Metadata, Table
from calve.partitioning import PartitionChange, PartitionField
from calve.schema import (
    AddColumn,
    Change,
    Column,
    DropColumn,
    MakeOptional,
    MoveColumn,
    RenameColumn,
    Schema,
    UpdateType,
    event,
)


@dataclass(frozen=True)
class Steps:
    """What is to be done to a table."""

    columns: tuple[Change, ...] = ()
    partition: tuple[PartitionChange, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.columns or self.partition)

    def __str__(self) -> str:
        return "; ".join(map(str, (*self.columns, *self.partition)))

    def events(self) -> list[dict[str, Any]]:
        return [*map(event, self.columns), *(change.event() for change in self.partition)]


def attempt(table: Table, decide: Callable[[Metadata], Steps], branch: str = "main") -> Steps:
    """Swap the table's metadata once for one with the steps that `decide` finds for the newest, if any.

    A snapshot without rows goes with them onto `branch`. Some catalogs compare only what a commit is about: a
    REST server takes new columns whatever has become of the branch, unless the commit moves the branch too.
    The transaction is only asked for metadata and never committed. Nothing is retried here: after an
    exception only the table itself can tell whether the swap took place.
    """
    with reading_files(f"change table '{table.name}'"):
        transaction = table.java.newTransaction()
        base = Metadata(transaction.startMetadata())
        steps = decide(base)
        if steps:
            crash.point("schema.before")
            _make(transaction, steps)
            _move(transaction, branch)
            crash.point("schema.applied")
            table.commit(base, transaction.currentMetadata())
            crash.point("schema.swapped")
        return steps


def _move(transaction: Any, branch: str) -> None:
    """Put a snapshot without rows onto `branch`, so that a fence that comes first has the swap refused."""
    transaction.newFastAppend().toBranch(branch).commit()


def _make(transaction: Any, steps: Steps) -> None:
    # Iceberg finds columns by the names of before; so what has new names comes in an update of its own.
    renames = [change for change in steps.columns if isinstance(change, RenameColumn)]
    others = [change for change in steps.columns if not isinstance(change, RenameColumn)]
    groups: tuple[Sequence[Change], ...] = (renames, others)
    for group in filter(None, groups):
        update = transaction.updateSchema()
        for change in group:
            update = _changed(update, change)
        update.commit()
    if steps.partition:
        update = transaction.updateSpec()
        for one in steps.partition:
            update = _repartitioned(update, one)
        update.commit()


def _changed(update: Any, change: Change) -> Any:
    name, parent = _name(change.path), _name(change.path[:-1]) or None
    if isinstance(change, AddColumn):
        column = change.column
        return update.addColumn(parent, column.name, _type(column), column.comment)
    if isinstance(change, DropColumn):
        return update.deleteColumn(name)
    if isinstance(change, RenameColumn):
        return update.renameColumn(name, change.name)
    if isinstance(change, UpdateType):
        return update.updateColumn(name, _type(Column("c", change.after)))
    if isinstance(change, MakeOptional):
        return update.makeColumnOptional(name)
    return _moved(update, change)


def _moved(update: Any, change: MoveColumn) -> Any:
    name = _name(change.path)
    if change.after is None:
        return update.moveFirst(name)
    return update.moveAfter(name, _name((*change.path[:-1], change.after)))


def _name(path: tuple[str, ...]) -> str:
    return ".".join(path)


def _type(column: Column) -> Any:
    """The type of a column as Iceberg has it; it numbers the parts anew where they are added."""
    jvm = gateway.jvm()
    spark_type = jvm.org.apache.spark.sql.types.DataType.fromJson(
        json.dumps(Schema((column,)).to_spark_json())
    )
    return jvm.org.apache.iceberg.spark.SparkSchemaUtil.convert(spark_type).columns().get(0).type()


def _repartitioned(update: Any, change: PartitionChange) -> Any:
    term = _term(change.field)
    return update.addField(term) if change.added else update.removeField(term)


def _term(field: PartitionField) -> Any:
    make = java.EXPRESSIONS
    if field.transform == "identity":
        return make.ref(field.column)
    build = getattr(make, field.transform)
    return build(field.column) if field.parameter is None else build(field.column, field.parameter)
