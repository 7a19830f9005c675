"""The contract of a decoder, and what all of them share."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pyarrow as pa

from calve.decode.arrow import Values, arrow_schema, compute
from calve.decode.bad import Bad, raise_first
from calve.schema import Array, Column, Schema, Struct, Type

Place = Callable[[int], str]
"""Where the record of an index is, in words."""

_SHOWN = 60
_FEW = 16
_PARTS = 16
_HINTS = 32
_BLOCK = 2048
_ROW = re.compile(r"in row (\d+)")


class Mismatch(Exception):
    """A record that does not fit the schema; its text says why, `reason` is one of `bad.REASONS`."""

    def __init__(self, message: str, reason: str = "malformed") -> None:
        self.reason = reason
        super().__init__(message)


class Decoder(ABC):
    """Makes rows of records. Travels to Python workers: it holds values only."""

    is_fast = True
    """Whether there is a fast way for the schema at all."""

    skips_blank = True
    """Whether lines of a file that hold nothing are no records."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._had_bad = False

    def decode(self, values: Values, place: Place) -> pa.RecordBatch:
        """One row for each of the binary `values`, in their order; raises BadRecord for the first bad one."""
        rows, bad = self.sift(values)
        raise_first(bad, place)
        return rows

    def sift(self, values: Values) -> tuple[pa.RecordBatch, list[Bad]]:
        """One row for each of `values` that is not bad, in their order, and the bad ones."""
        bad: list[Bad] = []
        batches: list[pa.RecordBatch] = []
        # Where one block had bad records the next has some too: the whole is then not tried.
        is_wary = self._had_bad and len(values) > _BLOCK
        for begin, end in parts(len(values)) if is_wary else [(0, len(values))]:
            batches += self._batches(values.slice(begin, end - begin), begin, bad, _HINTS)
        self._had_bad = bool(bad)
        return batches[0] if len(batches) == 1 else _one(batches), bad

    def _batches(self, values: Values, first: int, bad: list[Bad], hints: int) -> Iterator[pa.RecordBatch]:
        """The fast way for what it accepts; what it does not is divided, down to a few records.

        Small blocks are divided around the record that Arrow complains of, `hints` times; where more of them
        are bad, looking at each costs less.
        """
        count, suspect = len(values), None
        if count and not values.null_count:
            try:
                yield self._fast(values)
                return
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError, Mismatch) as error:
                suspect = _suspect(error, count) if hints and count <= _BLOCK else None
        if count == 1 or (count <= _FEW and suspect is None) or not self.is_fast:
            yield self._slow(values, first, bad)
            return
        left = _HINTS if count > _BLOCK else 0 if suspect is None else hints - 1
        for begin, end in parts(count, suspect):
            yield from self._batches(values.slice(begin, end - begin), first + begin, bad, left)

    @abstractmethod
    def _fast(self, values: Values) -> pa.RecordBatch:
        """All rows at once; raises ArrowInvalid or Mismatch where a record needs a closer look."""

    @abstractmethod
    def record(self, value: bytes) -> list[Any]:
        """The values of one record, as `pyarrow.array` takes them; raises Mismatch."""

    def _slow(self, values: Values, first: int, bad: list[Bad]) -> pa.RecordBatch:
        rows = []
        for index, value in enumerate(values.to_pylist(), first):
            try:
                rows.append(self._row(value))
            except Mismatch as error:
                bad.append(Bad(index, error.reason, str(error)))
        schema = arrow_schema(self.schema)
        arrays = [pa.array([row[index] for row in rows], field.type) for index, field in enumerate(schema)]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _row(self, value: bytes | None) -> list[Any]:
        if value is None:
            raise Mismatch("the value is null", "null_value")
        return self.record(value)


def _suspect(error: Exception, count: int) -> int | None:
    """The record that Arrow names in its message."""
    found = _ROW.search(str(error))
    return int(found[1]) if found and int(found[1]) < count else None


def parts(count: int, suspect: int | None = None) -> list[tuple[int, int]]:
    """Where a block is divided: around the record that is suspected, or evenly."""
    if count > _BLOCK:
        cuts = [*range(0, count, _BLOCK), count]
    elif suspect is None:
        cuts = [count * part // _PARTS for part in range(_PARTS + 1)]
    else:
        cuts = [0, suspect, suspect + 1, count]
    return [(begin, end) for begin, end in pairwise(cuts) if begin < end]


def _one(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    whole = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return whole[0] if whole else batches[0]


def utf8(value: bytes) -> str:
    """The text of a record."""
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Mismatch(f"not valid UTF-8 at byte {error.start + 1}", "not_utf8") from None


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
            raise Mismatch(f"column '{column.name}': NULL", "null")
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
