"""A table that fits the declaration, and rows that fit the table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from calve import changes, schema
from calve.errors import ConfigurationError, DataRefused, TableMismatch, Unavailable
from calve.iceberg import shape
from calve.iceberg.catalog import Catalog
from calve.iceberg.name import TableName, quoted
from calve.iceberg.stage import Staged
from calve.iceberg.table import Table
from calve.model import suggestion
from calve.partitioning import SortField
from calve.schema import Policy, Schema
from calve.sink import choice
from calve.sink.choice import Held
from calve.sink.declaration import IcebergSink
from calve.sink.routes import ROUTABLE, Template

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from calve.iceberg.parquet import Format
    from calve.iceberg.places import Bucket

_CODEC_PROPERTIES = {
    "parquet": "write.parquet.compression-codec",
    "avro": "write.avro.compression-codec",
    "orc": "write.orc.compression-codec",
}
_CODECS = {
    ("parquet", "none"): "uncompressed",
    ("parquet", "lz4"): "lz4_raw",
    ("avro", "none"): "uncompressed",
    ("orc", "gzip"): "zlib",
}

PREVIOUS_VERSIONS = "50"
"""How many metadata files of a table are kept: each is as large as its list of snapshots, and a copy of the
catalog is good for as many commits."""


def table_name(sink: IcebergSink) -> TableName:
    """The table that `sink` writes to."""
    return TableName(sink.catalog.spark_name(), tuple(sink.namespace.split(".")), sink.table)


def codec(sink: IcebergSink) -> str:
    """The name that Iceberg's writers know the declared compression by."""
    return _CODECS.get((sink.format, sink.compression), sink.compression)


def write_options(sink: IcebergSink) -> dict[str, str]:
    """What is passed with every write; the properties of a table that exists stay as they are."""
    return {
        "write-format": sink.format,
        "compression-codec": codec(sink),
        "target-file-size-bytes": str(sink.target_file_size_mb * 2**20),
    }


def creation_properties(sink: IcebergSink) -> dict[str, str]:
    """The properties of a table that we create."""
    return {
        "format-version": str(sink.format_version),
        "write.format.default": sink.format,
        _CODEC_PROPERTIES[sink.format]: codec(sink),
        "write.target-file-size-bytes": str(sink.target_file_size_mb * 2**20),
        "write.metadata.delete-after-commit.enabled": "true",
        "write.metadata.previous-versions-max": PREVIOUS_VERSIONS,
        **sink.table_properties,
    }


def create(catalog: Catalog, sink: IcebergSink, columns: Schema) -> Table:
    """Create the declared table, its namespace included."""
    name = table_name(sink)
    partition = sink.partition_fields_declared()
    if partition is None:
        raise ConfigurationError(
            f"Cannot create table '{name}': partitioning is 'table_default' and there is no table yet; "
            "create the table first, or declare its partitioning"
        )
    catalog.create_namespace(name.namespace)
    keys = sink.key_fields if sink.commit_mode == "upsert" else ()
    return catalog.create(name, columns, partition, sink.sort_fields(), creation_properties(sink), keys)


def table_columns(columns: Schema, sink: IcebergSink) -> Schema:
    """`columns` as the table has them: the keys of an upsert NOT NULL, the columns of kept changes added."""
    keys = sink.key_fields if sink.commit_mode == "upsert" else ()
    missing = sorted(set(keys) - set(columns.names))
    if missing:
        raise ConfigurationError(
            f"Cannot write to table '{table_name(sink)}': the rows have no column '{missing[0]}', which "
            "'key_fields' names"
        )
    columns = schema.storable(columns)
    names = new_names(columns.names, sink)
    columns = Schema(tuple(replace(one, name=new) for one, new in zip(columns.columns, names, strict=True)))
    _refuse_columns(columns, sink)
    held = tuple(replace(one, nullable=False) if one.name in keys else one for one in columns.columns)
    return Schema((*held, *(changes.KEPT.columns if sink.change_columns else ())))


def _refuse_columns(columns: Schema, sink: IcebergSink) -> None:
    """Refuse columns that no table can have, before there is a table."""
    lines = [
        *_doubles(columns.names),
        *changes.reserved(columns.names),
        *(changes.kept_twice(columns.names) if sink.change_columns else ()),
        # What depends on the format version of a table is for Iceberg to say: it may be there already.
        *schema.unsupported(columns, format_version=3),
    ]
    for line in lines:
        raise ConfigurationError(f"Cannot write to table '{table_name(sink)}': {line}")


def _doubles(names: Sequence[str]) -> Iterator[str]:
    """A line for each name that comes again, in whatever case: Spark takes them for one."""
    first: dict[str, str] = {}
    for name in names:
        other = first.setdefault(name.lower(), name)
        if other is not name:
            told = "twice" if other == name else f"beside '{other}', and case does not tell columns apart"
            yield f"the rows have a column '{name}' {told}; give one of them another name"


def check_routes(columns: Schema, template: Template, tables: str, is_said: bool = True) -> None:
    """Refuse rows that lack a column which names their table, or in which it cannot."""
    refused = ConfigurationError if is_said else DataRefused
    for name in template.columns:
        column = columns.column(name)
        if column is None:
            meant = suggestion(name, columns.names)
            raise refused(f"Cannot route rows to '{tables}': they have no column '{name}'{meant}")
        if column.type not in ROUTABLE:
            raise refused(
                f"Cannot route rows to '{tables}': column '{name}' is {column.type.ddl()}; text or a whole "
                "number can name a table"
            )


def check_count(counted: int, staged: Staged, table: Table) -> None:
    """Refuse files that do not hold as many rows as were decoded."""
    if counted != staged.rows:
        raise Unavailable(
            f"Cannot commit to table '{table.name}': {counted} rows were decoded, "
            f"{staged.rows} are in the files"
        )


def check_version(table: Table, sink: IcebergSink) -> None:
    """Refuse a table of another format version than the declared one."""
    version = table.metadata().format_version
    wanted = "format_version" in sink.model_fields_set and sink.format_version != version
    if version < 2 or wanted:
        raise TableMismatch(
            f"Cannot write to table '{table.name}': it has format version {version}, the declaration says "
            f"{sink.format_version}; upgrade the table or change 'format_version'",
            table=str(table.name),
        )


def columns_of(rows: DataFrame) -> Schema:
    """The schema of a DataFrame."""
    return schema.from_spark_json(rows.schema.jsonValue())


def renamed(frame: DataFrame, sink: IcebergSink) -> DataFrame:
    """`frame` with the columns that still have a name of before called as they are now."""
    new = new_names(frame.columns, sink)
    return frame if new == list(frame.columns) else frame.toDF(*new)


def new_names(names: Sequence[str], sink: IcebergSink) -> list[str]:
    """What columns called `names` are called now, as `renames` says."""
    for old, new in sink.renames.items():
        if old in names and new in names:
            raise DataRefused(
                f"Cannot write to table '{table_name(sink)}': the rows have both '{old}' and '{new}', and "
                "'renames' says that one has become the other"
            )
    return [sink.renames.get(name, name) for name in names]


def values_of(rows: Schema) -> Schema:
    """The columns of `rows` without those that tell what a change is."""
    return Schema(tuple(column for column in rows.columns if column.name not in changes.NAMES))


def held(table: Table) -> Held:
    """What decides which writer makes the files of `table`."""
    metadata = table.metadata()
    types, defaults = metadata.types()
    return Held(
        metadata.schema(),
        types,
        metadata.partition(),
        bool(metadata.sort_columns()),
        metadata.properties(),
        metadata.data_location,
        frozenset(defaults),
    )


def held_by_new(columns: Schema | None, sink: IcebergSink) -> Held | None:
    """The same of a table that `sink` would create for `columns`; None where that is not known."""
    partition = sink.partition_fields_declared()
    if columns is None or partition is None:
        return None
    made = schema.storable(columns)
    return Held(made, choice.types_of(made), partition, properties=creation_properties(sink))


def bucket(sink: IcebergSink, table: Table) -> Bucket | None:
    """The store that workers write the files of `table` to; None where they lie on this machine."""
    from calve.iceberg.places import Bucket

    store = sink.catalog.stores.s3
    if store is None or choice.is_near(table.metadata().data_location):
        return None
    told = store.file_io()
    return Bucket(
        told["s3.access-key-id"],
        told["s3.secret-access-key"],
        told.get("s3.session-token"),
        told.get("client.region"),
        store.endpoint,
        store.path_style_access,
    )


def parquet_format(table: Table, sink: IcebergSink) -> Format:
    """How Arrow writes the Parquet files of `table`."""
    from calve.iceberg import parquet

    properties = table.metadata().properties()
    return parquet.format_of(sink.compression, sink.target_file_size_mb * 2**20, properties)


def shaped(frame: DataFrame, table: Table, policy: Callable[[], Policy]) -> DataFrame:
    """`frame` with its values where the table has them, also inside structs, lists and maps."""
    rows, existing = columns_of(frame), table.metadata().schema()
    kept = [name for name in rows.names if name in changes.NAMES]
    values = values_of(rows)
    if shape.is_placed(values, existing):
        return frame
    made = shape.placed(values, existing, policy())
    _refuse_extra(made, existing, table)
    return frame.select(*made.values(), *map(quoted, kept))


def _refuse_extra(names: Iterable[str], existing: Schema, table: Table) -> None:
    extra = sorted(set(names) - set(existing.names))
    if extra:
        raise TableMismatch(
            f"Cannot write to table '{table.name}': it has no column {extra}", table=str(table.name)
        )


def fitted(frame: DataFrame, table: Table) -> DataFrame:
    """The rows with the columns of the table, by name."""
    existing = table.metadata().schema()
    columns = [name for name in existing.names if name in frame.columns]
    _refuse_extra(frame.columns, existing, table)
    return frame.select(*map(quoted, columns))


def sort_order(frame: DataFrame, table: Table, sink: IcebergSink) -> list[Column]:
    """The declared order of the rows of a file, as far as `frame` has its columns."""
    lacking = set(table.metadata().schema().names) - set(frame.columns)
    return [_sort_column(frame, field) for field in sink.sort_fields() if field.column not in lacking]


def _sort_column(frame: DataFrame, field: SortField) -> Column:
    column = frame[quoted(field.column)]
    if field.descending:
        return column.desc_nulls_first() if field.nulls_first else column.desc_nulls_last()
    return column.asc_nulls_first() if field.nulls_first else column.asc_nulls_last()
