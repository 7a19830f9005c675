"""Rows → changes: each row with its operation, its order, its time and the columns that nobody knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from calve import changes
from calve.decode.arrow import Values, arrow_schema, compute
from calve.decode.decoder import Place, shown
from calve.errors import BadRecord

_FIELDS: Any = arrow_schema(changes.COLUMNS)
_ORDER: Any = _FIELDS.field(changes.ORDER).type
_GONE = pa.array([changes.DELETE, changes.TRUNCATE])


@dataclass(frozen=True)
class Records:
    """Records on their way to changes: where each of them is, as numbers and in words."""

    lanes: Values
    ats: Values
    place: Place


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
    order = pa.StructArray.from_arrays(
        [told.sequences, records.lanes, records.ats, told.parts], fields=list(_ORDER)
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

    Where there are operations, a delete may leave out every column: `required` is asked of other rows only.
    """

    column: str | None = None
    operations: Mapping[str, str] = field(default_factory=dict)
    required: Sequence[str] = ()

    def of(self, rows: pa.RecordBatch, records: Records) -> pa.RecordBatch:
        """The changes that decoded rows are; raises BadRecord."""
        if self.column is None:
            return with_changes(rows, pa.array([changes.UPDATE] * len(rows), pa.string()), records)
        operations = self._operations(rows.column(self.column), records.place)
        self._refuse_nulls(rows, operations, records.place)
        return with_changes(rows.drop_columns([self.column]), operations, records)

    def _operations(self, texts: Values, place: Place) -> Values:
        found = compute.index_in(texts, pa.array(list(self.operations), pa.string()))
        at = _first(found.is_null())
        if at is not None:
            text = texts[at].as_py()
            what = "NULL" if text is None else shown(text)
            raise BadRecord(place(at), f"column '{self.column}': {what} is none of the operations")
        return pa.array(list(self.operations.values()), pa.string()).take(found)

    def _refuse_nulls(self, rows: pa.RecordBatch, operations: Values, place: Place) -> None:
        stays = compute.invert(compute.is_in(operations, _GONE))
        for name in self.required:
            at = _first(compute.and_(rows.column(name).is_null(), stays))
            if at is not None:
                raise BadRecord(place(at), f"column '{name}': NULL, and the column is NOT NULL")


def _first(flags: Values) -> int | None:
    at: int = compute.index(flags, True).as_py()
    return None if at < 0 else at
