"""The contract of a decoder, and what all of them share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from calve.decode.arrow import Values, arrow_schema, compute
from calve.decode.bad import Bad, raise_first
from calve.decode.division import (
    FEW,
    LARGE,
    REFUSED,
    Division,
    Doubts,
    Mismatch,
    cut,
    doubtful,
    located,
    suspect,
)
from calve.schema import Array, Column, Schema, Struct, Type

Place = Callable[[int], str]
"""Where the record of an index is, in words."""

_SHOWN = 60


class Decoder(ABC):
    """Makes rows of records. Travels to Python workers: it holds values only."""

    is_fast = True
    """Whether there is a fast way for the schema at all."""

    skips_blank = True
    """Whether lines of a file that hold nothing are no records."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._division = Division()

    def decode(self, values: Values, place: Place) -> pa.RecordBatch:
        """One row for each of the binary `values`, in their order; raises BadRecord for the first bad one."""
        rows, bad = self.sift(values)
        raise_first(bad, place)
        return rows

    def sift(self, values: Values) -> tuple[pa.RecordBatch, list[Bad]]:
        """One row for each of `values` that is not bad, in their order, and the bad ones."""
        bad: list[Bad] = []
        batches: list[pa.RecordBatch] = []
        begin = 0
        while begin < len(values) or not batches:
            end = begin + self._division.begin(len(values) - begin)
            many = end - begin > LARGE and self.is_fast
            part = values[begin:end]
            rows = self._all(part) if many else self._rows(part, range(begin, end), bad)
            self._division.end(is_done=rows is not None)
            if rows is not None:
                batches.append(rows)
                begin = end
        return one_batch(batches), bad

    def _all(self, values: Values) -> pa.RecordBatch | None:
        """The fast way for many records, if there is nothing wrong with any of them."""
        try:
            if not values.null_count:
                return self._fast(values)
        except REFUSED:
            pass
        self._division.fail()
        return None

    def _rows(self, values: Values, places: Sequence[int], bad: list[Bad]) -> pa.RecordBatch:
        """The fast way for what it accepts, the slow one for the others."""
        if not len(values) or not self.is_fast or self._division.is_hopeless:
            return self._slow(values, places, bad)
        try:
            if values.null_count:
                raise doubtful(values.is_null(), "the value is null", "null_value")
            return self._fast(values)
        except REFUSED as error:
            self._division.fail()
            failure = error
        if len(values) <= FEW:
            return self._slow(values, places, bad)
        if isinstance(failure, Doubts):
            return self._around(failure, values, places, bad)
        return one_batch(
            [
                (self._rows if end - begin > FEW else self._slow)(values[begin:end], places[begin:end], bad)
                for begin, end in cut(len(values), suspect(failure, len(values)))
            ]
        )

    def _around(
        self, doubts: Doubts, values: Values, places: Sequence[int], bad: list[Bad]
    ) -> pa.RecordBatch:
        """The records in doubt in the slow way, and the others at once."""
        others = sorted(set(range(len(values))).difference(doubts.places))
        refused: list[Bad] = []
        looked_at = self._slow(_at(values, doubts.places), [places[at] for at in doubts.places], refused)
        rows = doubts.rows
        if rows is None:
            rows = self._rows(_at(values, others), [places[at] for at in others], refused)
        bad += refused
        if not len(looked_at):
            return rows
        gone = {one.at for one in refused}
        order = [at for at in (*doubts.places, *others) if places[at] not in gone]
        return one_batch([looked_at, rows]).take(compute.sort_indices(pa.array(order, pa.int64())))

    @abstractmethod
    def _fast(self, values: Values) -> pa.RecordBatch:
        """All rows at once; raises ArrowInvalid or Mismatch where a record needs a closer look."""

    @abstractmethod
    def record(self, value: bytes) -> list[Any]:
        """The values of one record, as `pyarrow.array` takes them; raises Mismatch."""

    def _slow(self, values: Values, places: Sequence[int], bad: list[Bad]) -> pa.RecordBatch:
        """Record by record; what is bad is told by its place."""
        rows = []
        for index, value in zip(places, values.to_pylist(), strict=True):
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


def _at(values: Values, places: Sequence[int]) -> Values:
    return values.take(pa.array(places, pa.int64()))


def one_batch(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """All rows, in one batch."""
    if len(batches) == 1:
        return batches[0]
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


def lines_of(values: Values) -> Values:
    """The texts of records; raises Doubts where one is not UTF-8."""
    try:
        return texts(values)
    except pa.ArrowInvalid as error:
        raise Doubts(located(texts, values), str(error), "not_utf8") from None


Making: TypeAlias = tuple[Callable[[Values], Values], Values]
"""How a column is made, and what of."""


def batch_of(columns: Sequence[Making], schema: pa.Schema) -> pa.RecordBatch:
    """The rows of columns; raises Doubts where values are refused, with the rows that have none of them."""
    made: list[Values] = []
    refused: set[int] = set()
    for make, array in columns:
        try:
            made.append(make(array))
        except REFUSED as error:
            places = located(make, array) if len(array) <= LARGE else []
            if not places:
                # Values that are fine, and not together: times of which some only name a zone.
                raise Mismatch(str(error)) from None
            refused.update(places)
    if refused:
        raise Doubts(sorted(refused), "values that do not fit", rows=_without(refused, columns, schema))
    return pa.RecordBatch.from_arrays(made, schema=schema)


def _without(places: set[int], columns: Sequence[Making], schema: pa.Schema) -> pa.RecordBatch | None:
    """The rows at other places, if nothing is refused there either."""
    others = [at for at in range(len(columns[0][1])) if at not in places]
    try:
        made = [make(_at(array, others)) for make, array in columns]
    except REFUSED:
        return None
    return pa.RecordBatch.from_arrays(made, schema=schema)


def shown(value: Any) -> str:
    """A value in a message: quoted, and not longer than it helps."""
    text = value if isinstance(value, str) else repr(value)
    return repr(text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…")


def column_of(array: Values, column: Column) -> Values:
    """`array`, if it has no NULL that must not be; raises Doubts or Mismatch."""
    if not column.nullable and array.null_count:
        raise doubtful(array.is_null(), f"column '{column.name}': NULL", "null")
    refuse_nulls([array], (column,))
    return array


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
