"""A table as it was at a snapshot, in the columns of whichever one: its files, and frames of their rows."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from calve import gateway, schema
from calve.iceberg import filters, java, names
from calve.iceberg.bulk import (
    BYTES,
    CONTENT,
    DELETES,
    FILE_OF,
    FORMAT,
    LOCATION,
    OFFSET,
    ROWS,
    SIZE,
    Listed,
    Place,
    gathered,
    planned,
)
from calve.iceberg.failures import translated
from calve.iceberg.files import Delete, Kind, Plan, Task, by_location, split_size
from calve.iceberg.name import quoted
from calve.iceberg.table import Table
from calve.iceberg.travel import Snapshot
from calve.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILE, POSITION, DELETED = "_file", "_pos", "_deleted"
_REWRITES = "default_rewrite_catalog"
_MOST_SCHEMAS = 100
_SMALL_ROW, _ROWS_AT_ONCE = 1024, "10000"
"""Rows of so many bytes are read so many at once: a tenth faster than with the default."""
_CONTENTS = {"POSITION_DELETES": Kind.POSITION, "EQUALITY_DELETES": Kind.EQUALITY}


class Held:
    """What Spark's reader needs as long as frames are read; a few hundred bytes for each file."""

    def __init__(self) -> None:
        self._groups: list[tuple[Any, str]] = []

    def add(self, table: Any, tasks: Sequence[Task]) -> str:
        """Keep `tasks` for a frame; returns the path by which it is loaded."""
        group = str(uuid.uuid4())
        _cache().add(group, table)
        self._groups.append((table, group))
        if tasks:
            _tasks().stageTasks(table, group, gathered(task.java for task in tasks))
        return group

    def release(self) -> None:
        """The frames will not be read again."""
        for table, group in self._groups:
            _tasks().removeTasks(table, group)
            _cache().remove(group)
        self._groups.clear()


def text_of(java_schema: Any) -> str:
    """A schema as JSON, with the numbers of its columns."""
    return str(java.Statics("org.apache.iceberg.SchemaParser").toJson(java_schema))


class View:
    """The snapshots of one version of a table, in the columns that one of them has.

    Spark reads a snapshot with the columns of its time, and what is to be compared must have the same ones.
    """

    def __init__(
        self, table: Table, shape: Snapshot | None, held: Held | None = None, where: str | None = None
    ) -> None:
        """`shape` is the snapshot whose columns count; None: those of the table. `where` leaves out rows."""
        self._table, self._held, self._where = table, held or Held(), where
        self._base = table.metadata().java
        self._number = self._base.currentSchemaId() if shape is None or shape.schema is None else shape.schema
        self._schema = self._base.schemasById().get(self._number)
        self._filter: Any = None
        self._plans: dict[int | None, Plan] = {None: {}}

    @cached_property
    def columns(self) -> Schema:
        """The columns of the rows."""
        convert = java.Statics("org.apache.iceberg.spark.SparkSchemaUtil").convert
        return schema.from_spark_json(json.loads(convert(self._schema).json()))

    @cached_property
    def named_columns(self) -> Schema:
        """The columns of the rows, with the names that they had in other schemas of the table."""
        schemas = list(java.each(self._base.schemas()))
        if len(schemas) < 2:
            return self.columns
        others = [text_of(one) for one in schemas[-_MOST_SCHEMAS:] if one.schemaId() != self._number]
        return names.with_earlier_names(self.columns, text_of(self._schema), others)

    def exchanged_since(self, earlier: Snapshot) -> list[str]:
        """The names that stood for another column at a snapshot: it was dropped, or names were exchanged."""
        before = None if earlier.schema is None else self._base.schemasById().get(earlier.schema)
        if before is None or earlier.schema == self._number:
            return []
        return names.exchanged(text_of(before), text_of(self._schema))

    def identifier_fields(self) -> tuple[str, ...]:
        """The columns that tell rows apart, if the table says so."""
        names = java.each(self._schema.identifierFieldNames())
        return tuple(name for name in self.columns.names if name in names)

    def plan(self, snapshot: int | None) -> Plan:
        """The files that `snapshot` is made of; it is asked twice for each, as what was before and after."""
        if snapshot not in self._plans:
            with translated(f"plan a scan of table '{self._table.name}'"):
                found = _planned(self._at(snapshot).newScan().filter(self.expression()))
            last = list(self._plans)[-1]
            self._plans = {None: {}, last: self._plans[last], snapshot: found}
        return self._plans[snapshot]

    def appended(self, snapshot: int) -> Plan:
        """The files that `snapshot`, an append, has added."""
        with translated(f"plan a scan of table '{self._table.name}'"):
            scan = self._at(snapshot).newIncrementalAppendScan()
            scan = scan.fromSnapshotInclusive(snapshot).toSnapshot(snapshot)
            return _planned(scan.filter(self.expression()))

    def expression(self) -> Any:
        """The filter as planning takes it: files in which no row satisfies it are not read."""
        if self._filter is None:
            pushed = None if self._where is None else self._converted(self._where)
            self._filter = java.always_true() if pushed is None else pushed
        return self._filter

    def is_pushed(self) -> bool:
        """Whether the filter leaves out files, and not only rows."""
        return self._where is None or self._converted(self._where) is not None

    def rows(self, spark: SparkSession, tasks: Iterable[Task], *names: str) -> DataFrame:
        """The live rows of `tasks`: all columns, and those of `names` that Iceberg knows of each row.

        With the column `_deleted`, rows that are deleted are there as well.
        """
        chosen = list(tasks)
        known = self.columns.names
        if not chosen:
            return self._nothing(spark, names)
        group = self._held.add(self._at(None), chosen)
        size = sum(task.bytes for task in chosen)
        options = {"split-size": str(split_size(size, spark.sparkContext.defaultParallelism))}
        if size <= sum(task.rows for task in chosen) * _SMALL_ROW:
            options["batch-size"] = _ROWS_AT_ONCE
        frame = spark.read.format("iceberg").options(**options).load(group)
        # In format 3 the reader has the columns of row lineage as well.
        rows: DataFrame = gateway.first_columns(frame, len(known)).select(*map(quoted, [*known, *names]))
        return rows if self._where is None else rows.where(self._where)

    def _nothing(self, spark: SparkSession, names: Sequence[str]) -> DataFrame:
        from pyspark.sql import functions as f
        from pyspark.sql.types import StructType

        types = {FILE: "string", POSITION: "bigint", DELETED: "boolean"}
        empty = spark.createDataFrame([], StructType.fromJson(self.columns.to_spark_json()))
        return empty.select("*", *(f.lit(None).cast(types[name]).alias(name) for name in names))

    def _at(self, snapshot: int | None) -> Any:
        """A table in memory that stands at `snapshot` and has the columns of this view."""
        iceberg = gateway.jvm().org.apache.iceberg
        # Executors look into the file for columns that are gone, which old equality deletes may need. It
        # is named first: with it comes the time of the last update, which all that follows is told with.
        builder = iceberg.TableMetadata.buildFrom(self._base)
        builder = builder.withMetadataLocation(self._base.metadataFileLocation())
        builder = builder.setCurrentSchema(self._number)
        if self._number != self._base.currentSchemaId():
            # A spec or a sort order of later may need columns that were not there yet.
            builder = builder.setDefaultPartitionSpec(self._fitting_spec())
            builder = builder.setDefaultSortOrder(iceberg.SortOrder.unsorted())
        if snapshot is not None:
            builder = builder.setBranchSnapshot(snapshot, "main")
        made = builder.discardChanges().build()
        io, places = self._table.java.io(), self._table.java.locationProvider()
        operations = iceberg.StaticTableOperations(made, io, places)
        # Executors cache deletes by the name of the table, and their types are those of its columns.
        return iceberg.BaseTable(operations, f"{self._table.name}, columns {self._number}")

    def _fitting_spec(self) -> int:
        for spec in java.each(self._base.specs()):
            fields = java.each(spec.fields())
            if all(self._schema.findField(one.sourceId()) is not None for one in fields):
                return int(spec.specId())
        return int(self._base.defaultSpecId())

    def _converted(self, where: str) -> Any:
        """The expression for Iceberg's planning; None where Spark cannot say it without looking at rows."""
        held = Held()
        group = held.add(self._at(None), [])
        try:
            with translated(f"filter table '{self._table.name}' by {where!r}"):
                return filters.converted(f"{_REWRITES}.{quoted(group)}", where)
        except Exception as error:
            if filters.is_beyond_planning(error.__cause__ or error):
                return None
            raise
        finally:
            held.release()


def _planned(scan: Any) -> Plan:
    tasks = planned(scan)
    deletes = _deletes(tasks)
    facts = (tasks.texts(FILE_OF, LOCATION), tasks.numbers(FILE_OF, ROWS), tasks.numbers(FILE_OF, BYTES))
    return by_location(
        Task(place, rows, size, deletes.get(index, frozenset()), Place(tasks, index))
        for index, (place, rows, size) in enumerate(zip(*facts, strict=True))
    )


def _deletes(tasks: Listed) -> dict[int, frozenset[Delete]]:
    """The delete files of tasks that have some, by the index of the task."""
    counts = tasks.numbers(DELETES, SIZE)
    owners = [index for index, count in enumerate(counts) for _ in range(count)]
    files, found = tasks.inside(DELETES), dict[int, set[Delete]]()
    facts = (files.texts(LOCATION), files.texts(FORMAT), files.texts(CONTENT), files.texts(OFFSET))
    for index, told in zip(owners, zip(*facts, strict=True), strict=True):
        found.setdefault(index, set()).add(_delete(*told))
    return {index: frozenset(ones) for index, ones in found.items()}


def _delete(location: str, form: str, content: str, offset: str) -> Delete:
    """A delete file by its place; vectors of several data files share a file."""
    if form == "PUFFIN":
        return Delete(f"{location}#{offset}", Kind.VECTOR)
    return Delete(location, _CONTENTS[content])


def _cache() -> Any:
    # The class has a static get() and an instance get(String); Py4J's look-up by name finds the wrong one.
    return java.static_member("org.apache.iceberg.spark.SparkTableCache", "get")()


def _tasks() -> Any:
    return java.Statics("org.apache.iceberg.spark.ScanTaskSetManager").get()
