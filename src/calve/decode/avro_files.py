"""Rows of Avro files, read in a Python worker by the rules for Avro records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
from fastavro import block_reader, schemaless_reader

from calve.decode.arrow import arrow_schema
from calve.decode.avro import Member, Writer, column_values, members_of, writer_of
from calve.decode.changes import RowChanges
from calve.decode.decoder import refuse_nulls
from calve.decode.division import Mismatch
from calve.decode.file_columns import numbered, refuse_other_letters, united
from calve.decode.reading import Split, over_tasks, refuse_change
from calve.errors import BadRecord
from calve.schema import Column, Schema, SchemaError
from calve.schema.avro import AvroSchema, load
from calve.schema.avro import columns as columns_of_schema

_ROWS = 16 * 1024


@dataclass(frozen=True)
class Header:
    """What a file says of its columns."""

    path: str
    text: str

    def columns(self) -> Schema:
        """The columns that its rows have; raises BadRecord."""
        try:
            found = columns_of_schema(load(self.text))
        except SchemaError as error:
            raise BadRecord(f"file '{self.path}'", f"{error}; declare 'schema' without it") from None
        return Schema(tuple(Column(one.name, one.type) for one in found.columns))

    def names(self) -> list[str]:
        """The names of its fields; raises BadRecord."""
        try:
            schema = load(self.text)
        except SchemaError as error:
            raise BadRecord(f"file '{self.path}'", str(error)) from None
        return [str(one["name"]) for one in schema.node(schema.root).get("fields", ())]


def headers(paths: Sequence[str]) -> list[Header]:
    """What the files say of their columns; raises BadRecord where one is no Avro."""
    return [_header(path) for path in paths]


def _header(path: str) -> Header:
    try:
        with open(path, "rb") as file:
            return Header(path, block_reader(file).metadata["avro.schema"])
    except Exception as error:
        # fastavro raises whatever the bytes lead it to.
        raise BadRecord(f"file '{path}'", f"it is damaged or cut off: {_said(error)}") from None


def _said(error: Exception) -> str:
    return str(error) or type(error).__name__


def columns_of(files: Sequence[Header], declared: Schema | None, reader: str | None) -> Schema:
    """The columns that rows of the files have: all that any has, if none are declared; raises BadRecord."""
    columns = declared or united([(file.path, file.columns()) for file in files])
    for file in files:
        _members(file, columns, reader)
    return columns


def _members(file: Header, columns: Schema, reader: str | None) -> tuple[Writer, list[Member]]:
    """How the columns are made of what the file has; raises BadRecord where its types do not fit."""
    place, names = f"file '{file.path}'", file.names()
    try:
        written = writer_of(file.text)
        own: AvroSchema | None = load(reader) if reader else None
        members = members_of(written, own, columns)
    except SchemaError as error:
        raise BadRecord(place, str(error).replace("the record's schema", "the file")) from None
    for column, member in zip(columns.columns, members, strict=True):
        if member.name is None:
            refuse_other_letters(place, column.name, names)
    return written, members


def avro_rows(
    tasks: list[list[Split]], columns: Schema, changes: RowChanges | None = None, reader: str | None = None
) -> Callable[[Any], Any]:
    """A function for `mapInArrow` over the numbers of tasks, each of whole files."""
    if changes is None:
        return over_tasks(tasks, partial(_rows, columns=columns, reader=reader))
    return over_tasks(tasks, partial(_changes, columns=columns, reader=reader, changes=changes))


def _changes(
    split: Split, columns: Schema, reader: str | None, changes: RowChanges
) -> Iterator[pa.RecordBatch]:
    at = 0
    for rows in _rows(split, columns, reader):
        yield numbered(rows, split, at, changes)
        at += len(rows)


def _rows(split: Split, columns: Schema, reader: str | None) -> Iterator[pa.RecordBatch]:
    refuse_change(split)
    file = _header(split.path)
    written, members = _members(file, columns, reader)
    number = 0
    for records in _records(split.path, written.parsed):
        yield _batch(records, columns, members, f"file '{split.path}'", number)
        number += len(records)


def _records(path: str, parsed: Any) -> Iterator[list[Any]]:
    """What the records of the file hold, some at a time; raises BadRecord."""
    held: list[Any] = []
    try:
        with open(path, "rb") as file:
            for block in block_reader(file):
                data: Any = block.bytes_  # type: ignore[attr-defined]
                held += [schemaless_reader(data, parsed, None) for _ in range(block.num_records)]
                if data.read(1):
                    raise ValueError("a block has more bytes than its records")
                if len(held) >= _ROWS:
                    yield held
                    held = []
    except UnicodeDecodeError as error:
        raise BadRecord(f"file '{path}'", f"a text is not valid UTF-8: {error.reason}") from None
    except BadRecord:
        raise
    except Exception as error:
        raise BadRecord(f"file '{path}'", f"it is damaged or cut off: {_said(error)}") from None
    if held:
        yield held


def _batch(
    records: list[Any], columns: Schema, members: list[Member], place: str, number: int
) -> pa.RecordBatch:
    try:
        return _made(records, columns, members)
    except Mismatch as error:
        for at, record in enumerate(records):
            try:
                _made([record], columns, members)
            except Mismatch as own:
                raise BadRecord(place, f"record {number + at + 1}: {own}") from None
        raise BadRecord(place, str(error)) from None


def _made(records: list[Any], columns: Schema, members: list[Member]) -> pa.RecordBatch:
    pairs = zip(columns.columns, members, strict=True)
    arrays = [column_values(column, member, records) for column, member in pairs]
    refuse_nulls(arrays, columns.columns)
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(columns))
