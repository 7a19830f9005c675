"""Find the rows of a table that have the keys of a batch: where they are, not what they hold."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import reduce
from typing import TYPE_CHECKING, Any

from calve import addresses, schema
from calve.iceberg import content, java, near, shape
from calve.iceberg.bulk import FILE_OF, FORMAT, LOCATION, Listed, planned
from calve.iceberg.failures import reading_files
from calve.iceberg.name import quoted
from calve.iceberg.table import Table
from calve.schema import Policy, Schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

FILE, POSITION = "_file", "_pos"
_BROADCAST = 1_000_000
_POSITION_DELETES = 1
_NAME_MAPPING = "schema.name-mapping.default"
FEW = 200
"""As many values as Iceberg compares one by one; above it, planning looks at the range only."""


@dataclass(frozen=True)
class Keys:
    """The keys of a batch: a frame of them, their values if they are at hand, and what planning can use."""

    names: tuple[str, ...]
    count: int
    ranges: Mapping[str, tuple[Any, Any]]
    few: Mapping[str, Sequence[Any]]
    frame: DataFrame | None = None
    values: pa.Table | None = None

    @classmethod
    def of(cls, values: pa.Table) -> Keys:
        """Keys whose values are at hand."""
        names, ranges = tuple(values.column_names), {}
        for name in names if values.num_rows else ():
            ends = near.compute.min_max(values.column(name)).as_py()
            ranges[name] = (ends["min"], ends["max"])
        is_few = len(names) == 1 and 0 < values.num_rows <= FEW
        few = {names[0]: values.column(0).to_pylist()} if is_few else {}
        return cls(names, values.num_rows, ranges, few, values=values)

    def in_spark(self, spark: SparkSession) -> DataFrame:
        """The keys as a DataFrame."""
        if self.frame is not None:
            return self.frame
        assert self.values is not None
        return spark.createDataFrame(self.values)

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
        make = java.EXPRESSIONS
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
    deleted: Any = None
    """What the position deletes have already, where it is known."""

    def gone(self) -> Any:
        """The positions that are found, and those that are known to be deleted already."""
        import pyarrow as pa

        return self.positions if self.deleted is None else pa.concat_arrays([self.positions, self.deleted])


def rows_at(spark: SparkSession, table: Table, snapshot: int) -> DataFrame:
    """The rows of `table` in `snapshot`; `_file` and `_pos` can be selected."""
    return spark.read.option("versionAsOf", str(snapshot)).table(table.name.sql())


def known_at(spark: SparkSession, table: Table, snapshot: int) -> DataFrame:
    """The rows of `table` in `snapshot` with the columns that the table has now.

    Spark reads a snapshot with the columns of its time; a column is known by its id.
    """
    from pyspark.sql import functions as f

    metadata = table.metadata()
    number = metadata.java.snapshot(snapshot).schemaId()
    rows = rows_at(spark, table, snapshot)
    if number is None or number == metadata.java.currentSchemaId():
        return rows
    before, now = metadata.java.schemasById().get(number), metadata.schema()
    names = {one: before.findColumnName(metadata.java.schema().findField(one).fieldId()) for one in now.names}
    rows = rows.select(*(f.col(quoted(old)).alias(new) for new, old in names.items() if old is not None))
    then = schema.from_spark_json(rows.schema.jsonValue())

    def name_now(path: tuple[str, ...]) -> str:
        field = before.findField(".".join((names[path[0]], *path[1:])))
        found = field and metadata.java.schema().findField(field.fieldId())
        return str(found.name()) if found else path[-1]

    kinds = {one.name: shape.called(one.type, (one.name,), name_now) for one in then.columns}
    for one in then.columns:
        if kinds[one.name] != one.type:
            # Spark casts structs by the order of what is inside.
            rows = rows.withColumn(one.name, f.col(quoted(one.name)).cast(kinds[one.name].ddl()))
    then = Schema(tuple(replace(one, type=kinds[one.name]) for one in then.columns))
    made = shape.placed(then, now, Policy())
    nulls = {one.name: f.lit(None).cast(one.type.ddl()).alias(one.name) for one in now.columns}
    return rows.select(*({**nulls, **made}[name] for name in now.names))


class _Tasks:
    """The tasks of the files that could hold the keys, by location."""

    def __init__(self, found: Listed) -> None:
        self._found = found
        self._places = {location: at for at, location in enumerate(found.texts(FILE_OF, LOCATION))}

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __getitem__(self, location: str) -> Any:
        return self._found[self._places[location]]

    def formats(self) -> set[str]:
        """The formats of all files."""
        return set(self._found.texts(FILE_OF, FORMAT))


def look_up(spark: SparkSession, table: Table, snapshot: int, keys: Keys) -> tuple[list[Hits], int]:
    """The rows of `snapshot` that have one of `keys`, by data file; and how many files could have some."""
    with reading_files(f"look up keys in table '{table.name}'"):
        tasks = _Tasks(planned(table.java.newScan().useSnapshot(snapshot).filter(keys.expression())))
        found = _near(table, tasks, keys)
        return (_far(spark, table, snapshot, keys, tasks) if found is None else found), len(tasks)


def _far(spark: SparkSession, table: Table, snapshot: int, keys: Keys, tasks: _Tasks) -> list[Hits]:
    found = _with_spark(spark, table, snapshot, keys)
    return [
        Hits(path, tasks[path].file(), _position_deletes(tasks[path]), positions)
        for path, positions in found.items()
    ]


def _near(table: Table, tasks: _Tasks, keys: Keys) -> list[Hits] | None:
    """The rows found without Spark; None where a file cannot be opened from here."""
    if keys.values is None:
        return None
    paths = {location: addresses.local_path(location) for location in tasks}
    if None in paths.values() or tasks.formats() - {"PARQUET"}:
        return None
    table.confine_files(paths)
    locations = {str(path): location for location, path in paths.items()}
    specs = table.java.specs()

    def partition_of(path: str) -> dict[int, Any]:
        return _identity_values(tasks[locations[path]].file(), specs)

    try:
        found = near.find(list(locations), _key_columns(table, keys.names), keys.values, partition_of)
    except near.NeedsSpark:
        return None
    there = {place: found[str(path)] for place, path in paths.items() if path in found}
    return _not_deleted(table, there, tasks)


def _key_columns(table: Table, names: Sequence[str]) -> list[near.KeyColumn]:
    """How the key columns are found in data files, whoever wrote them."""
    metadata = table.metadata().java
    told = json.loads(java.Statics("org.apache.iceberg.SchemaParser").toJson(metadata.schema()))
    fields = {one["name"]: one for one in told["fields"]}
    text = metadata.properties().get(_NAME_MAPPING)
    mapping = None if text is None else {one.get("field-id"): one["names"] for one in json.loads(text)}
    identities = {
        field.sourceId()
        for spec in java.each(metadata.specs())
        for field in java.each(spec.fields())
        if field.transform().isIdentity()
    }
    return [
        near.KeyColumn(
            (number := fields[name]["id"]),
            None if mapping is None else tuple(mapping.get(number, ())),
            fields[name].get("initial-default"),
            number in identities,
        )
        for name in names
    ]


def _identity_values(file: Any, specs: Any) -> dict[int, Any]:
    """The values of a data file's partition that are those of a column in all its rows, by field id."""
    spec = specs.get(file.specId())
    values = content.about(file, spec)["partition"]
    fields = java.each(spec.fields())
    return {
        field.sourceId(): value
        for field, value in zip(fields, values, strict=True)
        if field.transform().isIdentity()
    }


def _not_deleted(table: Table, found: Mapping[str, Any], tasks: _Tasks) -> list[Hits] | None:
    left = []
    for location, positions in found.items():
        deletes = _position_deletes(tasks[location])
        files = [_near_by(one) for one in deletes]
        if None in files:
            return None
        table.confine_files(file.path for file in files if file)
        gone = near.deleted(location, [file for file in files if file])
        live = near.without(positions, gone)
        if len(live):
            left.append(Hits(location, tasks[location].file(), deletes, live, gone))
    return left


def _near_by(deletes: Any) -> near.DeleteFile | None:
    path = addresses.local_path(deletes.location())
    if path is None or str(deletes.format()) not in ("PARQUET", "PUFFIN"):
        return None
    about = deletes.referencedDataFile()
    return near.DeleteFile(path, about, deletes.contentOffset(), deletes.contentSizeInBytes())


def _with_spark(spark: SparkSession, table: Table, snapshot: int, keys: Keys) -> dict[str, Any]:
    from pyspark.sql import functions as f

    names = [quoted(name) for name in keys.names]
    old = rows_at(spark, table, snapshot).where(keys.filter()).select(*names, FILE, POSITION)
    wanted = keys.in_spark(spark)
    if keys.count <= _BROADCAST:
        wanted = f.broadcast(wanted)
    hits = old.join(wanted, list(keys.names), "left_semi")
    rows = hits.groupBy(FILE).agg(f.collect_list(POSITION).alias("at")).toArrow()
    return {path.as_py(): at.values for path, at in zip(rows.column(0), rows.column(1), strict=True)}


def _position_deletes(task: Any) -> tuple[Any, ...]:
    return tuple(one for one in java.each(task.deletes()) if one.content().id() == _POSITION_DELETES)


def _is_plain(value: Any) -> bool:
    return isinstance(value, (bool, int, str, Decimal, dt.date, dt.datetime))


def _literal(value: Any) -> Any:
    """A value that Iceberg binds to the column's type by itself."""
    if isinstance(value, dt.datetime):
        return value.isoformat(timespec="microseconds")
    return str(value) if isinstance(value, (dt.date, Decimal)) else value
