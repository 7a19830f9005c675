"""Data files written with Arrow, without Spark: for batches that fit into this process."""

from __future__ import annotations

import json
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from calve import clock
from calve.addresses import local_path
from calve.errors import TableMismatch
from calve.iceberg import content, durable, java, partitions
from calve.iceberg.failures import translated
from calve.iceberg.metrics import COUNTS, ID, WHOLE, leaves
from calve.iceberg.parquet import (
    TOLD,
    Format,
    Target,
    Told,
    Work,
    Written,
    describe,
    nan_counts,
    writer,
    written,
)
from calve.iceberg.partitions import Field
from calve.iceberg.places import Bucket
from calve.iceberg.stage import Staged
from calve.iceberg.table import Metadata, Table
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
_METRICS = "write.metadata.metrics."
_SCHEMAS = java.Statics("org.apache.iceberg.SchemaParser")
_ORDERS = java.Statics("org.apache.iceberg.SortOrderParser")


class Unsupported(Exception):
    """A type or a transform that is left to Spark."""


def schema_of(java_schema: Any) -> pa.Schema:
    """The columns of an Iceberg schema as Arrow has them, with their field ids; raises Unsupported."""
    told = json.loads(_SCHEMAS.toJson(java_schema))
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


@clock.timed("stage")
def write(table: Table, rows: pa.Table, form: Format) -> Staged:
    """Write `rows` as data files; raises Unsupported where it takes Spark."""
    made = divided_target(table, form)
    fitted = _fitted(table, rows, made.schema)
    with translated(f"write data files of table '{table.name}'"):
        files = [
            file
            for values, part in list(_partitions(fitted, made.fields))
            for file in _written(table, made, values, part)
        ]
        durable.flush(file.location for file in files)
        return _staged(table, made, files)


def _staged(table: Table, target: Target, files: Sequence[Written], dropped: int = 0) -> Staged:
    """What was written as files that a commit can add."""
    told = [content.described(file, spec_id=target.spec_id) for file in files]
    made = content.files(told, table.java.specs())
    rows, size = sum(file.rows for file in files), sum(file.bytes for file in files)
    return Staged(made, rows, size, dropped, made_for=table.metadata().shape)


def write_keys(table: Table, keys: pa.Table, schema: Any) -> list[Written]:
    """Write `keys` as a file with the columns of `schema`."""
    fitted = _fitted(table, keys, schema_of(schema))
    form = Format("zstd", fitted.nbytes + 1)
    with translated(f"write delete files of table '{table.name}'"):
        only = Target(fitted.schema, folder(table), form, lengths=bounds(table.metadata()))
        files = list(_written(table, only, (), fitted))
        durable.flush(file.location for file in files)
        return files


def _fitted(table: Table, rows: pa.Table, wanted: pa.Schema) -> pa.Table:
    """`rows` with the columns of the table, in its order; those that are not there are NULL."""
    extra = [name for name in rows.column_names if name not in wanted.names]
    if extra:
        raise TableMismatch(
            f"Cannot write to table '{table.name}': it has no column {extra}", table=str(table.name)
        )
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
        divided_target(table, Format("none", 0))
    except Unsupported:
        return False
    return True


def divided_target(table: Table, form: Format) -> Target:
    """What files of `table` are like; raises Unsupported where Arrow cannot divide its rows."""
    made = target(table, form)
    types, _ = table.metadata().types()
    for one in made.fields:
        if not is_divided(one.transform, types.get(".".join(one.path), "")):
            raise Unsupported(one.transform)
    return made


def _partitions(rows: pa.Table, fields: tuple[Field, ...]) -> Iterator[tuple[tuple[Any, ...], pa.Table]]:
    """The rows of each partition, behind its values."""
    if not fields or not rows.num_rows:
        yield (), rows
        return
    (whole,) = rows.combine_chunks().to_batches()
    parts = list(partitions.divided(whole, fields))
    if len(parts) > MOST_PARTITIONS:
        raise Unsupported("partitions")
    for values, part in parts:
        yield values, pa.Table.from_batches([part])


def _written(table: Table, target: Target, values: tuple[Any, ...], rows: pa.Table) -> Iterator[Written]:
    """Write `rows` of one partition as files of about the target's size."""
    partition = [partitions.as_json(value) for value in values]
    columns = tuple(leaves(rows.schema))
    while rows.num_rows:
        location = _location(table, target.spec_id, partition)
        size, footer = _put(table, location, rows, target.form)
        part, rows = rows.slice(0, footer.num_rows), rows.slice(footer.num_rows)
        told = Written(location, partition, footer.num_rows, size)
        describe(told, footer, columns, target.lengths, dict(nan_counts(part, columns)))
        yield told


def _location(table: Table, spec_id: int, partition: list[Any]) -> str:
    """Where a new file of a partition goes."""
    name = f"{uuid.uuid4()}.parquet"
    if not partition:
        return new_location(table, None, None, name)
    specs = table.java.specs()
    (file,) = content.files([content.described(Written("none", partition), spec_id=spec_id)], specs)
    return new_location(table, specs.get(spec_id), file.partition(), name)


def bounds(metadata: Metadata) -> Mapping[int, int]:
    """How long the bounds of the columns are that a table wants to know of its files, by field id."""
    wanted = {key: said for key, said in metadata.properties().items() if key.startswith(_METRICS)}
    schema, order = metadata.java.schema(), metadata.java.sortOrder()
    return _bounds(_SCHEMAS.toJson(schema), _ORDERS.toJson(order), tuple(sorted(wanted.items())))


@lru_cache(maxsize=64)
def _bounds(schema: str, order: str, properties: tuple[tuple[str, str], ...]) -> Mapping[int, int]:
    java_schema = _SCHEMAS.fromJson(schema)
    java_order = _ORDERS.fromJson(java_schema, order)
    known = java.static_member("org.apache.iceberg.MetricsConfig", "from")
    config = known(java.string_map(dict(properties)), java_schema, java_order)
    names = java.strings(
        java.Statics("org.apache.iceberg.types.TypeUtil").indexNameById(java_schema.asStruct())
    )
    modes = {int(number): str(config.columnMode(name)) for number, name in names.items()}
    return {number: _length(mode) for number, mode in modes.items() if mode != "none"}


def _length(mode: str) -> int:
    """The length that a mode such as truncate(16) tells."""
    if mode == "counts":
        return COUNTS
    return WHOLE if mode == "full" else int(mode.removeprefix("truncate(").removesuffix(")"))


def target(table: Table, form: Format, keeps_changes: bool = False, bucket: Bucket | None = None) -> Target:
    """What workers have to know of `table` to write its files; raises Unsupported for types."""
    # The table may be loaded anew by another thread, with another spec.
    now = table.metadata()
    schema, spec = schema_of(now.java.schema()), now.java.spec()
    paths = {one.number: one.path for one in leaves(schema)}
    fields = tuple(
        Field(one.name(), paths[one.sourceId()], *_transform(str(one.transform())))
        for one in java.each(spec.fields())
    )
    made = Target(schema, folder(table), form, fields, keeps_changes, bucket)
    return replace(made, lengths=bounds(now), spec_id=spec.specId())


def folder(table: Table) -> str:
    """Where the files of `table` go."""
    return new_location(table, None, None, "file").rpartition("/")[0]


def _transform(text: str) -> tuple[str, int]:
    kind, _, size = text.rstrip("]").partition("[")
    return kind, int(size or 0)


@clock.timed("stage")
def write_where_made(table: Table, records: DataFrame, work: Work, target: Target) -> tuple[Staged, int]:
    """Run `work` over `records` and have the workers write the rows that it makes; how many those were."""
    with translated(f"write data files of table '{table.name}'"):
        lines = records.mapInArrow(written(work, target), TOLD).collect()
        told = Told.of(line[0] for line in lines)
        return _staged(table, target, told.files, told.dropped), told.rows


def new_location(table: Table, spec: Any, partition: Any, name: str) -> str:
    """Where a file of the table goes; without a partition, its path has no empty part for one."""
    place = table.java.locationProvider()
    return str(place.newDataLocation(*([] if partition is None else [spec, partition]), name))


def put(table: Table, location: str, content: bytearray) -> None:
    """Write a file that is held here."""
    near_by = local_path(location)
    if near_by is not None:
        Path(near_by).parent.mkdir(parents=True, exist_ok=True)
        Path(near_by).write_bytes(content)
        return
    out = table.java.io().newOutputFile(location).create()
    try:
        out.write(content)
    finally:
        out.close()


def _put(table: Table, location: str, rows: pa.Table, form: Format) -> tuple[int, Any]:
    """Write as many of `rows` to `location` as make a file of the target's size: its bytes and footer."""
    near_by = local_path(location)
    if near_by is not None:
        Path(near_by).parent.mkdir(parents=True, exist_ok=True)
        footer = _write_parquet(near_by, rows, form)
        return Path(near_by).stat().st_size, footer
    with tempfile.NamedTemporaryFile(suffix=".parquet") as held:
        footer = _write_parquet(held.name, rows, form)
        return _upload(table, held.name, location), footer


def _upload(table: Table, path: str, location: str) -> int:
    local = java.new("java.io.File", path).toPath()
    out = table.java.io().newOutputFile(location).create()
    try:
        return int(java.Statics("java.nio.file.Files").copy(local, out))
    finally:
        out.close()


def _write_parquet(path: str, rows: pa.Table, form: Format) -> Any:
    step = min(_STEP, max(1, rows.num_rows * form.target_bytes // max(1, rows.nbytes)))
    count = 0
    footers: list[Any] = []
    with pa.OSFile(path, "wb") as out, writer(out, rows, form, footers) as made:
        while count < rows.num_rows and (count == 0 or out.tell() < form.target_bytes):
            made.write_table(rows.slice(count, step), row_group_size=step)
            count += step
    return footers[0]
