"""Data files written with Arrow, without Spark: for batches that fit into this process."""

from __future__ import annotations

import json
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from calve import clock
from calve.iceberg import java, partitions
from calve.iceberg.failures import translated
from calve.iceberg.near import path_of
from calve.iceberg.parquet import ID, TOLD, Format, Target, Told, Work, writer, written
from calve.iceberg.partitions import Field
from calve.iceberg.places import Bucket
from calve.iceberg.stage import Staged
from calve.iceberg.table import Table
from calve.partitioning import is_divided

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

make: Any = pa
"""Arrow without the types of its stubs, which do not know fields with metadata."""

MOST_PARTITIONS = 50
"""Spark's writers work side by side, which pays where a batch goes to many partitions."""
_STEP = 100_000
_PLAIN: Mapping[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
    "string": pa.string(),
    "binary": pa.binary(),
}
_NULL = "__HIVE_DEFAULT_PARTITION__"
_DATA_FILES = java.Statics("org.apache.iceberg.DataFiles")


class Unsupported(Exception):
    """A type or a transform that is left to Spark."""


def schema_of(java_schema: Any) -> pa.Schema:
    """The columns of an Iceberg schema as Arrow has them, with their field ids; raises Unsupported."""
    told = json.loads(java.Statics("org.apache.iceberg.SchemaParser").toJson(java_schema))
    return pa.schema(_fields(told))


def _fields(kind: Mapping[str, Any]) -> list[Any]:
    return [_field(one["name"], one["id"], one["type"], one["required"]) for one in kind["fields"]]


def _field(name: str, number: int, kind: Any, required: bool) -> Any:
    return make.field(name, _type(kind), not required, {ID: str(number).encode()})


def _type(kind: Any) -> Any:
    if isinstance(kind, str):
        return _primitive(kind)
    if kind["type"] == "struct":
        return pa.struct(
            [_field(one["name"], one["id"], one["type"], one["required"]) for one in kind["fields"]]
        )
    if kind["type"] == "list":
        return make.list_(_field("element", kind["element-id"], kind["element"], kind["element-required"]))
    if kind["type"] == "map":
        key = _field("key", kind["key-id"], kind["key"], True)
        return make.map_(key, _field("value", kind["value-id"], kind["value"], kind["value-required"]))
    raise Unsupported(kind["type"])


def _primitive(kind: str) -> pa.DataType:
    if kind.startswith("decimal("):
        precision, scale = kind.removeprefix("decimal(").removesuffix(")").split(",")
        return pa.decimal128(int(precision), int(scale))
    if kind not in _PLAIN:
        raise Unsupported(kind)
    return _PLAIN[kind]


@dataclass(frozen=True)
class Written:
    """A file that belongs to no snapshot yet, and what Iceberg reads from its footer."""

    location: str
    bytes: int
    metrics: Any
    format: str = "parquet"


@clock.timed("stage")
def write(table: Table, rows: pa.Table, form: Format) -> Staged:
    """Write `rows` as data files; raises Unsupported where it takes Spark."""
    spec, fields = table.java.spec(), target_fields(table)
    fitted = _fitted(rows, schema_of(table.java.schema()))
    with translated(f"write data files of table '{table.name}'"):
        files = [
            file
            for partition, part in list(_partitions(spec, fitted, fields))
            for file in _files(table, spec, partition, part, form)
        ]
    rows_written = sum(file.recordCount() for file in files)
    return Staged(tuple(files), rows_written, sum(file.fileSizeInBytes() for file in files))


def write_keys(table: Table, keys: pa.Table, schema: Any) -> list[Written]:
    """Write `keys` as a file with the columns of `schema`."""
    fitted = _fitted(keys, schema_of(schema))
    with translated(f"write delete files of table '{table.name}'"):
        return list(_written(table, None, None, fitted, Format("zstd", fitted.nbytes + 1)))


def _fitted(rows: pa.Table, wanted: pa.Schema) -> pa.Table:
    """`rows` with the columns of the table, in its order; those that are not there are NULL."""
    held = [
        rows.column(field.name).cast(field.type)
        if field.name in rows.column_names
        else pa.nulls(rows.num_rows, field.type)
        for field in wanted
    ]
    return pa.table(held, schema=wanted)


def writes(table: Table) -> bool:
    """Whether Arrow knows the types and the partitions of `table`."""
    try:
        target_fields(table)
    except Unsupported:
        return False
    return True


def target_fields(table: Table) -> tuple[Field, ...]:
    """The fields by which the rows of `table` are divided; raises Unsupported where Arrow cannot do it."""
    fields = target(table, Format("none", 0)).fields
    types, _ = table.metadata().types()
    for one in fields:
        if not is_divided(one.transform, types.get(".".join(one.path), "")):
            raise Unsupported(one.transform)
    return fields


def _partitions(spec: Any, rows: pa.Table, fields: tuple[Field, ...]) -> Iterator[tuple[Any, pa.Table]]:
    """The rows of each partition, with the partition as Iceberg has it."""
    if not fields or not rows.num_rows:
        yield None, rows
        return
    (whole,) = rows.combine_chunks().to_batches()
    parts = list(partitions.divided(whole, fields))
    if len(parts) > MOST_PARTITIONS:
        raise Unsupported("partitions")
    for values, part in parts:
        yield _as_iceberg(spec, [partitions.text(one) for one in values]), pa.Table.from_batches([part])


def _as_iceberg(spec: Any, values: Sequence[str | None]) -> Any:
    """The partition as Iceberg has it; on a way through Python, a long would become an int."""
    texts = java.object_list(values)
    builder = _DATA_FILES.builder(spec).withPath("none").withFormat("parquet").withFileSizeInBytes(0)
    made = builder.withRecordCount(0).withPartitionValues(texts).build().partition()
    for index, value in enumerate(values):
        # A text that Iceberg takes for NULL.
        if value == _NULL:
            made.set(index, value)
    return made


def _files(table: Table, spec: Any, partition: Any, rows: pa.Table, form: Format) -> Iterator[Any]:
    for file in _written(table, spec, partition, rows, form):
        builder = _DATA_FILES.builder(spec).withPath(file.location).withFormat(file.format)
        builder = builder.withFileSizeInBytes(file.bytes).withMetrics(file.metrics)
        yield (builder if partition is None else builder.withPartition(partition)).build()


def _written(table: Table, spec: Any, partition: Any, rows: pa.Table, form: Format) -> Iterator[Written]:
    """Write `rows` as files of about the target's size."""
    metrics = java.Statics("org.apache.iceberg.parquet.ParquetUtil").fileMetrics
    config = java.Statics("org.apache.iceberg.MetricsConfig").forTable(table.java)
    while rows.num_rows:
        location = new_location(table, spec, partition, f"{uuid.uuid4()}.parquet")
        size, count = _put(table, location, rows, form)
        rows = rows.slice(count)
        yield Written(location, size, metrics(table.java.io().newInputFile(location), config))


def target(table: Table, form: Format, keeps_changes: bool = False, bucket: Bucket | None = None) -> Target:
    """What workers have to know of `table` to write its files; raises Unsupported for types."""
    schema = schema_of(table.java.schema())
    paths = dict(_paths(schema, ()))
    fields = tuple(
        Field(one.name(), paths[one.sourceId()], *_transform(str(one.transform())))
        for one in java.each(table.java.spec().fields())
    )
    return Target(schema, folder(table), form, fields, keeps_changes, bucket)


def folder(table: Table) -> str:
    """Where the files of `table` go."""
    return new_location(table, None, None, "file").rpartition("/")[0]


def _transform(text: str) -> tuple[str, int]:
    kind, _, size = text.rstrip("]").partition("[")
    return kind, int(size or 0)


def _paths(fields: Any, path: tuple[str, ...]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """The path of each column, inside structs too, by field id."""
    for one in fields:
        here = (*path, one.name)
        yield int(one.metadata[ID]), here
        if pa.types.is_struct(one.type):
            yield from _paths([one.type.field(index) for index in range(one.type.num_fields)], here)


@clock.timed("stage")
def write_where_made(table: Table, records: DataFrame, work: Work, target: Target) -> tuple[Staged, int]:
    """Run `work` over `records` and have the workers write the rows that it makes; how many those were."""
    with translated(f"write data files of table '{table.name}'"):
        lines = records.mapInArrow(written(work, target), TOLD).collect()
    told = Told.of(line[0] for line in lines)
    return _staged(table, told), told.rows


def _staged(table: Table, told: Told) -> Staged:
    """What workers have written, as files that a commit can add; their footers are read here."""
    spec = table.java.spec()
    metrics = java.Statics("org.apache.iceberg.parquet.ParquetUtil").fileMetrics
    config = java.Statics("org.apache.iceberg.MetricsConfig").forTable(table.java)
    files = []
    with translated(f"read the data files of table '{table.name}'"):
        for file in told.files:
            found = _with_nans(metrics(table.java.io().newInputFile(file.location), config), file.nans)
            builder = _DATA_FILES.builder(spec).withPath(file.location).withFormat("parquet")
            builder = builder.withFileSizeInBytes(file.bytes).withMetrics(found)
            builder = builder.withSplitOffsets(java.long_list(file.splits))
            if file.partition:
                builder = builder.withPartition(_as_iceberg(spec, file.partition))
            files.append(builder.build())
    rows = sum(file.recordCount() for file in files)
    return Staged(tuple(files), rows, sum(one.bytes for one in told.files), told.dropped)


def _with_nans(metrics: Any, nans: Mapping[int, int]) -> Any:
    """`metrics` with what a footer does not tell, of the columns of which the table wants to know."""
    counts = metrics.valueCounts()
    wanted = {number: count for number, count in nans.items() if counts.containsKey(number)}
    if not wanted:
        return metrics
    return java.new(
        "org.apache.iceberg.Metrics", metrics.recordCount(), metrics.columnSizes(), counts,
        metrics.nullValueCounts(), java.long_map(wanted), metrics.lowerBounds(), metrics.upperBounds(),
    )  # fmt: skip


def new_location(table: Table, spec: Any, partition: Any, name: str) -> str:
    """Where a file of the table goes; without a partition, its path has no empty part for one."""
    place = table.java.locationProvider()
    return str(place.newDataLocation(*([] if partition is None else [spec, partition]), name))


def put(table: Table, location: str, content: bytearray) -> None:
    """Write a file that is held here."""
    near_by = path_of(location)
    if near_by is not None:
        Path(near_by).parent.mkdir(parents=True, exist_ok=True)
        Path(near_by).write_bytes(content)
        return
    out = table.java.io().newOutputFile(location).create()
    try:
        out.write(content)
    finally:
        out.close()


def _put(table: Table, location: str, rows: pa.Table, form: Format) -> tuple[int, int]:
    """Write as many of `rows` to `location` as make a file of the target's size: its bytes and rows."""
    near_by = path_of(location)
    if near_by is not None:
        Path(near_by).parent.mkdir(parents=True, exist_ok=True)
        count = _write_parquet(near_by, rows, form)
        return Path(near_by).stat().st_size, count
    with tempfile.NamedTemporaryFile(suffix=".parquet") as held:
        count = _write_parquet(held.name, rows, form)
        return _upload(table, held.name, location), count


def _upload(table: Table, path: str, location: str) -> int:
    local = java.new("java.io.File", path).toPath()
    out = table.java.io().newOutputFile(location).create()
    try:
        return int(java.Statics("java.nio.file.Files").copy(local, out))
    finally:
        out.close()


def _write_parquet(path: str, rows: pa.Table, form: Format) -> int:
    step = min(_STEP, max(1, rows.num_rows * form.target_bytes // max(1, rows.nbytes)))
    count = 0
    with pa.OSFile(path, "wb") as out, writer(out, rows, form) as made:
        while count < rows.num_rows and (count == 0 or out.tell() < form.target_bytes):
            made.write_table(rows.slice(count, step), row_group_size=step)
            count += step
    return min(count, rows.num_rows)
