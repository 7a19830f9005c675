"""Rows of Parquet files, read with Arrow in a Python worker; only of files that Spark would read alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from calve.decode.arrow import arrow_schema, schema_of_arrow
from calve.decode.changes import Records, RowChanges
from calve.decode.reading import Split, over_tasks, refuse_change
from calve.errors import BadRecord
from calve.schema import Column, Schema, SchemaError

T = TypeVar("T")

_ROWS = 64 * 1024
_ALIKE = {
    "bool", "int32", "int64", "float", "double", "string", "binary", "date32[day]", "timestamp[us, tz=UTC]",
    "timestamp[us]",
}  # fmt: skip
"""The types that Arrow and Spark read alike, besides decimals."""
_OLD_CALENDAR = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")


def columns_of(paths: Sequence[str], declared: Schema | None) -> Schema | None:
    """The columns that rows of the files have, the first one's unless they are declared.

    None where Spark has to read one of the files: it may take values for others, or say what is wrong.
    """
    try:
        schemas = [pq.read_schema(path) for path in paths]
        columns = declared or _nullable(schema_of_arrow(schemas[0]))
        wanted = arrow_schema(columns)
    except (OSError, pa.ArrowException, SchemaError, ValueError):
        return None
    return columns if all(_is_alike(one, wanted) for one in schemas) else None


def _nullable(columns: Schema) -> Schema:
    return Schema(tuple(Column(one.name, one.type) for one in columns.columns))


def _is_alike(there: pa.Schema, wanted: pa.Schema) -> bool:
    if any(name in (there.metadata or {}) for name in _OLD_CALENDAR):
        return False
    names = [name.lower() for name in there.names]
    if len(set(names)) < len(names):
        return False
    return all(_is_column_alike(there, names, one) for one in wanted)


def _is_column_alike(there: pa.Schema, names: Sequence[str], wanted: Any) -> bool:
    """Whether the file has the column as it is wanted, or none that Spark would take for it."""
    if wanted.name in there.names:
        kind = there.field(wanted.name).type
        return kind == wanted.type and (pa.types.is_decimal128(kind) or str(kind) in _ALIKE)
    return wanted.name.lower() not in names


def parquet_rows(tasks: list[list[Split]], columns: Schema, as_changes: bool = False) -> Callable[[Any], Any]:
    """A function for `mapInArrow` over the numbers of tasks."""
    read = _changes if as_changes else _rows
    return over_tasks(tasks, lambda split: read(split, arrow_schema(columns)))


def _changes(split: Split, wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows as changes, in the order of their file."""
    at = None
    for rows in _rows(split, wanted):
        at = _first(split) if at is None else at
        lanes = pa.array(np.full(len(rows), split.number))
        ats = pa.array(np.arange(at, at + len(rows)))
        yield RowChanges().of(rows, Records(lanes, ats, lambda index: f"file '{split.path}'"))
        at += len(rows)


def _first(split: Split) -> int:
    """The number of the first row of the part, in its file."""
    footer = pq.read_metadata(split.path)
    first = next(_groups(footer, split))
    return sum(footer.row_group(number).num_rows for number in range(first))


def _rows(split: Split, wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of the row groups whose middle lies in the part; the next are read while some are written."""
    refuse_change(split)
    place = f"file '{split.path}'"
    try:
        with pq.ParquetFile(split.path) as file:
            there = [name for name in wanted.names if name in file.schema_arrow.names]
            groups = list(_groups(file.metadata, split))
            read = file.iter_batches(_ROWS, row_groups=groups, columns=there) if groups else iter(())
            for rows in ahead(read):
                yield _fitted(rows, wanted, place)
    except (OSError, pa.ArrowException) as error:
        raise BadRecord(place, f"it is damaged or cut off: {error}") from None


def _groups(metadata: Any, split: Split) -> Iterator[int]:
    for number in range(metadata.num_row_groups):
        columns = [metadata.row_group(number).column(at) for at in range(metadata.num_columns)]
        begins = [one.dictionary_page_offset or one.data_page_offset for one in columns]
        middle = min(begins) + sum(one.total_compressed_size for one in columns) // 2
        if split.start <= middle < split.end:
            yield number


def _fitted(rows: pa.RecordBatch, wanted: pa.Schema, place: str) -> pa.RecordBatch:
    held = [
        rows.column(one.name) if one.name in rows.schema.names else pa.nulls(len(rows), one.type)
        for one in wanted
    ]
    for one, values in zip(wanted, held, strict=True):
        if values.null_count and not one.nullable:
            raise BadRecord(place, f"column '{one.name}': NULL, and the column is NOT NULL")
    return pa.RecordBatch.from_arrays(held, schema=wanted)


def ahead(made: Iterator[T]) -> Iterator[T]:
    """What `made` gives, the next of which is made in another thread meanwhile."""
    end: Any = object()
    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(next, made, end)
        while (one := following.result()) is not end:
            following = pool.submit(next, made, end)
            yield one
