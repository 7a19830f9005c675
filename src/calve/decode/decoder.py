"""The contract of a decoder, and what all of them share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from calve.decode.arrow import Values, arrow_schema, compute
from calve.errors import BadRecord
from calve.schema import Array, Column, Schema, Struct, Type

Place = Callable[[int], str]
"""Where the record of an index is, in words."""

_SHOWN = 60
_FEW = 64


class Mismatch(Exception):
    """A record that does not fit the schema; its text is the reason."""


class Decoder(ABC):
    """Makes rows of records. Travels to Python workers: it holds values only."""

    is_fast = True
    """Whether there is a fast way for the schema at all."""

    skips_blank = True
    """Whether lines of a file that hold nothing are no records."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    def decode(self, values: Values, place: Place) -> pa.RecordBatch:
        """One row for each of the binary `values`, in their order; raises BadRecord for the first bad one."""
        batches = list(self._batches(values, 0, place))
        return batches[0] if len(batches) == 1 else _one(batches)

    def _batches(self, values: Values, first: int, place: Place) -> Iterator[pa.RecordBatch]:
        """The fast way for what it accepts; what it does not is halved, down to a few records."""
        count = len(values)
        if count and not values.null_count:
            try:
                yield self._fast(values)
                return
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError, Mismatch):
                pass
        if count <= _FEW or not self.is_fast:
            yield self._slow(values, first, place)
            return
        half = count // 2
        yield from self._batches(values.slice(0, half), first, place)
        yield from self._batches(values.slice(half), first + half, place)

    @abstractmethod
    def _fast(self, values: Values) -> pa.RecordBatch:
        """All rows at once; raises ArrowInvalid or Mismatch where a record needs a closer look."""

    @abstractmethod
    def record(self, value: bytes) -> list[Any]:
        """The values of one record, as `pyarrow.array` takes them; raises Mismatch."""

    def _slow(self, values: Values, first: int, place: Place) -> pa.RecordBatch:
        rows = [self._row(value, index, place) for index, value in enumerate(values.to_pylist(), first)]
        schema = arrow_schema(self.schema)
        arrays = [pa.array([row[index] for row in rows], field.type) for index, field in enumerate(schema)]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _row(self, value: bytes | None, index: int, place: Place) -> list[Any]:
        if value is None:
            raise BadRecord(place(index), "the value is null")
        try:
            return self.record(value)
        except Mismatch as error:
            raise BadRecord(place(index), str(error)) from None


def _one(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


def utf8(value: bytes) -> str:
    """The text of a record."""
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Mismatch(f"not valid UTF-8 at byte {error.start + 1}") from None


def texts(values: Values) -> Values:
    """The texts of records; raises ArrowInvalid where one is not UTF-8."""
    return values.cast(pa.string())


def shown(value: Any) -> str:
    """A value in a message: quoted, and not longer than it helps."""
    text = value if isinstance(value, str) else repr(value)
    return repr(text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…")


def refuse_nulls(arrays: list[Values], columns: tuple[Column, ...]) -> None:
    """Raise Mismatch where a NULL is in a column, inner column or element that must not be NULL."""
    for array, column in zip(arrays, columns, strict=True):
        if not column.nullable and array.null_count:
            raise Mismatch(f"column '{column.name}': NULL")
        if array.null_count < len(array):
            _refuse_inner(array, column.type)


def _refuse_inner(array: Values, kind: Type) -> None:
    if isinstance(kind, Struct):
        there = array.drop_null() if array.null_count else array
        refuse_nulls([there.field(index) for index in range(len(kind.columns))], kind.columns)
    elif isinstance(kind, Array):
        refuse_nulls([array.flatten()], (Column("element", kind.element, kind.element_nullable),))


def all_true(flags: Values) -> bool:
    """Whether no flag is false."""
    return bool(compute.all(flags, min_count=0).as_py())
