"""Rows of Parquet files, read with Arrow in a Python worker: exactly, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from calve.decode.arrow import arrow_schema, schema_of_arrow
from calve.decode.changes import RowChanges
from calve.decode.division import Mismatch
from calve.decode.exact import exact_column, holds_all, takes
from calve.decode.file_columns import numbered, refuse_other_letters, united
from calve.decode.reading import Split, over_tasks, refuse_change
from calve.errors import BadRecord
from calve.schema import Column, Schema, SchemaError

T = TypeVar("T")

_ROWS = 64 * 1024
_OLD_CALENDAR = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")


@dataclass(frozen=True)
class Footer:
    """What a file says of its columns."""

    path: str
    fields: pa.Schema
    is_old: bool
    """Whether it has times of the old form, or days of the old calendar, which Spark knows how to read."""

    def columns(self) -> Schema:
        """The columns that its rows have; raises BadRecord."""
        try:
            found = schema_of_arrow(self.fields)
        except SchemaError as error:
            raise BadRecord(f"file '{self.path}'", f"{error}; declare 'schema' without it") from None
        return Schema(tuple(Column(one.name, one.type) for one in found.columns))


def footers(paths: Sequence[str]) -> list[Footer]:
    """What the files say of their columns; raises BadRecord where one is no Parquet."""
    return [_footer(path) for path in paths]


def _footer(path: str) -> Footer:
    try:
        metadata = pq.read_metadata(path)
        fields = metadata.schema.to_arrow_schema()
    except (OSError, pa.ArrowException) as error:
        raise BadRecord(f"file '{path}'", f"it is damaged or cut off: {error}") from None
    old_times = {
        metadata.schema.column(at).path.split(".")[0]
        for at in range(metadata.num_columns)
        if metadata.schema.column(at).physical_type == "INT96"
    }
    is_old = bool(old_times) or any(name in (fields.metadata or {}) for name in _OLD_CALENDAR)
    for name in old_times:
        at = fields.get_field_index(name)
        # Times of the old form are instants.
        fields = fields.set(at, pa.field(name, _zoned(fields.field(at).type))) if at >= 0 else fields
    return Footer(path, fields, is_old)


def _zoned(kind: Any) -> Any:
    return pa.timestamp("us", "UTC") if pa.types.is_timestamp(kind) else kind


def columns_of(files: Sequence[Footer], declared: Schema | None) -> Schema:
    """The columns that rows of the files have: all that any has, unless they are declared; raises BadRecord.

    Which files are read together does not matter: a column that another batch has is added then.
    """
    columns = declared or united([(file.path, file.columns()) for file in files])
    for file in files:
        _refuse_others(file, columns)
    return columns


def _refuse_others(file: Footer, columns: Schema) -> None:
    """Raise BadRecord where the file has a column in another type than can be taken, or in other letters."""
    place, names = f"file '{file.path}'", list(file.fields.names)
    for column in columns.columns:
        if names.count(column.name) > 1:
            raise BadRecord(place, f"it has column '{column.name}' twice")
        if column.name not in names:
            refuse_other_letters(place, column.name, names)
            continue
        given = file.fields.field(column.name).type
        if not takes(given, column.type) or (file.is_old and not holds_all(given, column.type)):
            why = f"column '{column.name}' is {given} in the file, which is not a {column.type.ddl()}"
            raise BadRecord(place, f"{why}; declare a type that takes it")


def parquet_rows(
    tasks: list[list[Split]], columns: Schema, changes: RowChanges | None = None
) -> Callable[[Any], Any]:
    """A function for `mapInArrow` over the numbers of tasks."""
    if changes is None:
        return over_tasks(tasks, lambda split: _rows(split, columns))
    return over_tasks(tasks, lambda split: _changes(split, columns, changes))


def _changes(split: Split, columns: Schema, changes: RowChanges) -> Iterator[pa.RecordBatch]:
    """The rows as changes, in the order of their file."""
    at = None
    for rows in _rows(split, columns):
        at = _first(split) if at is None else at
        yield numbered(rows, split, at, changes)
        at += len(rows)


def _first(split: Split) -> int:
    """The number of the first row of the part, in its file."""
    footer = pq.read_metadata(split.path)
    first = next(_groups(footer, split))
    return sum(footer.row_group(number).num_rows for number in range(first))


def _rows(split: Split, columns: Schema) -> Iterator[pa.RecordBatch]:
    """The rows of the row groups whose middle lies in the part; the next are read while some are written."""
    refuse_change(split)
    place = f"file '{split.path}'"
    try:
        with pq.ParquetFile(split.path) as file:
            there = [name for name in columns.names if name in file.schema_arrow.names]
            groups = list(_groups(file.metadata, split))
            read = file.iter_batches(_ROWS, row_groups=groups, columns=there) if groups else iter(())
            for rows in ahead(read):
                yield _fitted(rows, columns, place)
    except (OSError, pa.ArrowException) as error:
        raise BadRecord(place, f"it is damaged or cut off: {error}") from None


def _groups(metadata: Any, split: Split) -> Iterator[int]:
    for number in range(metadata.num_row_groups):
        columns = [metadata.row_group(number).column(at) for at in range(metadata.num_columns)]
        begins = [one.dictionary_page_offset or one.data_page_offset for one in columns]
        middle = min(begins) + sum(one.total_compressed_size for one in columns) // 2
        if split.start <= middle < split.end:
            yield number


def _fitted(rows: pa.RecordBatch, columns: Schema, place: str) -> pa.RecordBatch:
    names = rows.schema.names
    try:
        arrays = [
            exact_column(rows.column(one.name) if one.name in names else pa.nulls(len(rows)), one)
            for one in columns.columns
        ]
    except Mismatch as error:
        raise BadRecord(place, str(error)) from None
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(columns))


def ahead(made: Iterator[T]) -> Iterator[T]:
    """What `made` gives, the next of which is made in another thread meanwhile."""
    end: Any = object()
    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(next, made, end)
        while (one := following.result()) is not end:
            following = pool.submit(next, made, end)
            yield one
