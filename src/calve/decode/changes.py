"""Rows → changes: each row with its operation, its order, its time and the columns that nobody knows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from calve import changes
from calve.decode.arrow import Values, arrow_schema, compute
from calve.decode.bad import Bad, others, raise_first
from calve.decode.decoder import Place, shown

_FIELDS: Any = arrow_schema(changes.COLUMNS)
_ORDER: Any = _FIELDS.field(changes.ORDER).type
_GONE = pa.array([changes.DELETE, changes.TRUNCATE])


@dataclass(frozen=True)
class Records:
    """Records on their way to changes: where each of them is, as numbers and in words."""

    lanes: Values
    ats: Values
    place: Place
    times: Values | None = None
    """When each was written, where lanes have no order among themselves."""

    def take(self, indices: Values) -> Records:
        """Those of `indices`; their places in words are those of all."""
        times = None if self.times is None else self.times.take(indices)
        return Records(self.lanes.take(indices), self.ats.take(indices), self.place, times)


@dataclass(frozen=True)
class Details:
    """What the log of a database tells of changes, one value for each."""

    sequences: Values
    parts: Values
    times: Values
    unknown: Values


def with_changes(
    rows: pa.RecordBatch, operations: Values, records: Records, details: Details | None = None
) -> pa.RecordBatch:
    """`rows` with the columns of changes behind the values."""
    told = details or _untold(len(operations))
    times = pa.nulls(len(operations), pa.int64()) if records.times is None else records.times
    order = pa.StructArray.from_arrays(
        [told.sequences, records.lanes, records.ats, told.parts, times], fields=list(_ORDER)
    )
    arrays = [*rows.columns, operations, order, told.times, told.unknown]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([*rows.schema, *_FIELDS]))


def _untold(count: int) -> Details:
    times, unknown = (_FIELDS.field(name).type for name in (changes.TIME, changes.UNKNOWN))
    parts: Values = pa.array([0], pa.int32()).take(pa.array([0] * count, pa.int32()))
    return Details(pa.nulls(count, pa.int64()), parts, pa.nulls(count, times), pa.nulls(count, unknown))


@dataclass(frozen=True)
class RowChanges:
    """How rows become changes: upserts all of them, or by what one of their columns says.

    Where there are deletes, they may leave out every column: `required` is asked of other rows only.
    """

    column: str | None = None
    operations: Mapping[str, str] = field(default_factory=dict)
    required: Sequence[str] = ()

    def of(self, rows: pa.RecordBatch, records: Records) -> pa.RecordBatch:
        """The changes that decoded rows are; raises BadRecord."""
        made, bad = self.sift(rows, records)
        raise_first(bad, records.place)
        return made

    def sift(self, rows: pa.RecordBatch, records: Records) -> tuple[pa.RecordBatch, list[Bad]]:
        """The changes that decoded rows are, and the rows that are none."""
        if self.column is None:
            operations = pa.array([changes.UPDATE] * len(rows), pa.string())
            bad = self._nulls(rows, operations)
            return self._changes(rows, operations, records, bad), bad
        found = compute.index_in(rows.column(self.column), pa.array(list(self.operations), pa.string()))
        operations = pa.array(list(self.operations.values()), pa.string()).take(found)
        bad = [*self._without_operation(rows.column(self.column), found), *self._nulls(rows, operations)]
        return self._changes(rows, operations, records, bad), bad

    def _changes(
        self, rows: pa.RecordBatch, operations: Values, records: Records, bad: Sequence[Bad]
    ) -> pa.RecordBatch:
        """The changes of the rows that are not bad."""
        if bad:
            kept = others(len(rows), bad)
            rows, operations, records = rows.take(kept), operations.take(kept), records.take(kept)
        return with_changes(rows.drop_columns([self.column]) if self.column else rows, operations, records)

    def _without_operation(self, texts: Values, found: Values) -> Iterator[Bad]:
        for index in _indices(found.is_null()):
            text = texts[index].as_py()
            what = "NULL" if text is None else shown(text)
            yield Bad(index, "bad_operation", f"column '{self.column}': {what} is none of the operations")

    def _nulls(self, rows: pa.RecordBatch, operations: Values) -> list[Bad]:
        """Rows that lack a column that they need; an operation that is none is what counts where both are."""
        if not self.required:
            return []
        stays = compute.fill_null(compute.invert(compute.is_in(operations, _GONE)), False)
        stays = compute.and_(stays, operations.is_valid())
        found: dict[int, Bad] = {}
        for name in self.required:
            for index in _indices(compute.and_(rows.column(name).is_null(), stays)):
                why = f"column '{name}': NULL, and the column is NOT NULL"
                found.setdefault(index, Bad(index, "null", why))
        return list(found.values())


def _indices(flags: Values) -> list[int]:
    found: list[int] = compute.indices_nonzero(flags).to_pylist()
    return found
