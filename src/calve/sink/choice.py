"""Which writer makes data files: Arrow, in the workers that decode the rows, or Iceberg's own. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from calve import partitioning
from calve.iceberg import shape
from calve.partitioning import PartitionField
from calve.schema import Array, Decimal, Map, Schema, Struct, Type, parts
from calve.sink.declaration import IcebergSink
from calve.stores import S3, Stores

ARROW = "Arrow, in the Python workers that decode the rows"
JAVA = "Iceberg's own, in Spark"

MOST_ROWS = 1_000_000
MOST_BYTES = 256 * 2**20
"""How large a batch of changes may be that is held where the loop runs."""
MOST_BYTES_OF_SPARK = 64 * 2**20
"""The same of rows that Spark made, which hands them over less tightly packed."""
HERE = (
    f"Arrow, in this process, for up to {MOST_ROWS:,} changes and {MOST_BYTES >> 20} MiB "
    f"({MOST_BYTES_OF_SPARK >> 20} MiB of rows that Spark makes); else {JAVA}"
)

_WRITTEN = {
    "boolean", "int", "long", "float", "double", "date", "timestamp", "timestamptz", "string", "binary",
    "decimal",
}  # fmt: skip
"""Iceberg's types without parts that Arrow writes as Iceberg wants them."""
_OURS = {
    **dict.fromkeys(("tinyint", "smallint"), "int"),
    "bigint": "long",
    "timestamp": "timestamptz",
    "timestamp_ntz": "timestamp",
}
_HEEDED = {
    "write.parquet.compression-codec",
    "write.parquet.compression-level",
    "write.parquet.row-group-size-bytes",
}
_OBEYED_BY_JAVA = ("write.parquet.", "write.location-provider.", "encryption.")


@dataclass(frozen=True)
class Held:
    """What a table is like, or will be: its columns, also by Iceberg's types, and how its files are kept."""

    columns: Schema
    types: Mapping[str, str]
    """Each column without parts, by its path, and its type as Iceberg calls it."""
    partition: tuple[PartitionField, ...] = ()
    is_sorted: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)
    location: str | None = None
    defaults: frozenset[str] = frozenset()
    """Columns that are not NULL where a row does not have them."""


@dataclass(frozen=True)
class Needs:
    """All that decides which writer it is; None where it is not known yet."""

    sink: IcebergSink
    decodes: bool
    """Whether the source's rows are made in Python workers."""
    transforms: bool = False
    held: Held | None = None
    rows: Schema | None = None


def why_java(needs: Needs) -> str | None:
    """Why Iceberg's own writer makes the files; None where Arrow does."""
    return next(_reasons(needs), None)


def described(needs: Needs) -> str:
    """The writer, in words."""
    if needs.sink.template is None and is_held(needs.sink):
        return HERE
    why = why_java(needs)
    return ARROW if why is None else f"{JAVA}: {why}"


def is_held(sink: IcebergSink) -> bool:
    """Whether batches of changes that are not too large are sorted out and written where the loop runs."""
    is_plain = sink.format == "parquet" and not sink.sort_by and not sink.order_by
    return sink.commit_mode == "upsert" and is_plain


def passes_spark_by(needs: Needs) -> bool:
    """Whether rows are decoded, sorted out and written in Python, unless a batch is too large for it."""
    of_changes = (
        is_held(needs.sink) and needs.sink.template is None and needs.decodes and not needs.transforms
    )
    return of_changes or why_java(needs) is None


def _reasons(needs: Needs) -> Iterator[str]:
    sink, held = needs.sink, needs.held
    if sink.commit_mode == "upsert":
        yield "'commit_mode: upsert' has to see all changes of a key first"
    if sink.template is not None:
        yield "rows go to several tables"
    if needs.transforms:
        yield "transforms stand between decoding and writing"
    if not needs.decodes:
        yield "the rows that reach the sink are made in Spark"
    if sink.renames:
        yield "columns are renamed on the way"
    if sink.format != "parquet":
        yield f"Arrow writes no '{sink.format}' as Iceberg wants it"
    if sink.sort_by or (held and held.is_sorted):
        yield "files are sorted"
    yield from _store_reasons(sink.catalog.stores, held.location if held else None)
    if held is not None:
        yield from _type_reasons(held)
        yield from _property_reasons(held.properties)
        yield from _shape_reasons(held, needs.rows)


def is_near(location: str) -> bool:
    """Whether files lie on this machine."""
    return location.startswith(("/", "file:"))


def _store_reasons(stores: Stores, location: str | None) -> Iterator[str]:
    if location is not None and is_near(location):
        return
    if location is not None and not location.startswith(("s3://", "s3a://")):
        yield f"files lie in a store, at '{location.partition(':')[0]}:'"
    declared = stores.declared()
    for name in declared if location is None else ():
        if name != "s3":
            yield f"files lie in a store, '{name}'"
    if stores.s3 is not None:
        yield from _s3_reasons(stores.s3)
    elif location is not None:
        yield "the keys of the store are not declared"


def _s3_reasons(store: S3) -> Iterator[str]:
    if store.access_key_id is None and store.profile is None:
        yield "the keys of the store are not declared"
    if store.sse != "none" or store.requester_pays:
        yield "the store wants to be told more than Arrow tells it"
    if store.endpoint is None and store.region is None:
        yield "the region of the store is not declared"
    if store.endpoint is not None and store.endpoint.startswith("https:"):
        yield "whether the store is who it says is for Java to decide"


def _type_reasons(held: Held) -> Iterator[str]:
    for name, kind in held.types.items():
        if kind.partition("(")[0] not in _WRITTEN:
            yield f"column '{name}' is {kind}"
    for path in _strict_inside(held.columns):
        yield f"column '{path}' is NOT NULL inside another one"
    for one in held.partition:
        if not partitioning.is_divided(one.transform, held.types.get(one.column, "")):
            yield f"the partition '{one}' is left to it"


def _strict_inside(columns: Schema) -> Iterator[str]:
    """Columns of structs that must not be NULL; Arrow takes no struct that is NULL where there are some."""
    for one in columns.columns:
        yield from _strict(one.name, one.type)


def _strict(path: str, kind: Type) -> Iterator[str]:
    for one in parts(kind):
        if isinstance(kind, Struct) and not one.nullable:
            yield f"{path}.{one.name}"
        yield from _strict(f"{path}.{one.name}", one.type)


def _property_reasons(properties: Mapping[str, str]) -> Iterator[str]:
    for name in sorted(properties):
        if name.startswith(_OBEYED_BY_JAVA) and name not in _HEEDED:
            yield f"the table has the property '{name}'"
    if properties.get("write.object-storage.enabled", "").lower() == "true":
        yield "the table has the property 'write.object-storage.enabled'"


def _shape_reasons(held: Held, rows: Schema | None) -> Iterator[str]:
    if rows is None:
        return
    if not shape.is_placed(rows, held.columns):
        yield "values have to be cast, or put elsewhere, to fit the table"
        return
    lacking = sorted(held.defaults - set(rows.names))
    if lacking:
        yield f"column '{lacking[0]}' has a default, and the rows do not have it"
    there = {one.name: one.type for one in held.columns.columns}
    for one in rows.columns:
        if _is_looser(one.type, there[one.name]):
            yield f"inside column '{one.name}' the table has NOT NULL, and the rows do not"


def _is_looser(rows: Type, table: Type) -> bool:
    """Whether something inside may be NULL that must not be NULL in the table."""
    return any(
        (one.nullable and not other.nullable) or _is_looser(one.type, other.type)
        for one, other in zip(parts(rows), parts(table), strict=False)
    )


def types_of(columns: Schema) -> dict[str, str]:
    """The types that Iceberg has for columns, those inside others by their path."""
    return {path: kind for one in columns.columns for path, kind in _leaves(one.name, one.type)}


def _leaves(path: str, kind: Type) -> Iterator[tuple[str, str]]:
    if isinstance(kind, (Struct, Array, Map)):
        for one in parts(kind):
            yield from _leaves(f"{path}.{one.name}", one.type)
    elif isinstance(kind, Decimal):
        yield path, f"decimal({kind.precision}, {kind.scale})"
    else:
        yield path, _OURS.get(kind.name, kind.name)
