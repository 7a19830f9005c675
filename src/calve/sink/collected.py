"""The changes of a batch as an Arrow table: which one of each key counts, and what it leaves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute

from calve import changes, clock
from calve.sink.choice import MOST_ROWS

compute: Any = pyarrow.compute

_PLACE = "_place"
_LEAST = -(2**63)


def fits(rows: int, size: int, most: int) -> bool:
    """Whether a batch of about that many rows and bytes may be held in this process."""
    return rows <= MOST_ROWS and size <= most


def is_plain(rows: pa.Table) -> bool:
    """Whether every change has all columns and is about one row."""
    operation, unknown = rows.column(changes.OPERATION), rows.column(changes.UNKNOWN)
    is_truncate = compute.equal(operation, changes.TRUNCATE)
    lacks = compute.and_(compute.greater(compute.list_value_length(unknown), 0), is_kept(rows))
    return not (compute.any(is_truncate).as_py() or compute.any(lacks).as_py())


def is_kept(rows: pa.Table) -> Any:
    """Whether a change leaves a row in the table."""
    return compute.invert(
        compute.is_in(rows.column(changes.OPERATION), value_set=pa.array([changes.DELETE, changes.TRUNCATE]))
    )


@clock.timed("dedupe")
def last(rows: pa.Table, keys: Sequence[str]) -> pa.Table:
    """The last change of each key, by the source's order."""
    if len(keys) == 1 and len(rows.column(keys[0]).unique()) == rows.num_rows:
        return rows
    names = [f"k{index}" for index in range(len(keys))]
    keyed = pa.table([rows.column(key) for key in keys], names=names)
    found = keyed.append_column(_PLACE, _places(rows.column(changes.ORDER)))
    newest = found.group_by(names).aggregate([(_PLACE, "max")]).column(f"{_PLACE}_max")
    if len(newest) == rows.num_rows:
        return rows
    is_newest = compute.is_in(found.column(_PLACE), value_set=newest)
    return rows.filter(is_newest)


def _places(order: Any) -> Any:
    """The rank of each row by its order; what the log does not number comes before what it does."""
    parts = order.combine_chunks().flatten()
    parts = [compute.fill_null(part, _LEAST) if part.null_count else part for part in parts]
    differing = {str(index): part for index, part in enumerate(parts) if len(part.unique()) > 1}
    if not differing:
        return pa.array(range(len(order)), pa.uint64())
    in_order = compute.sort_indices(
        pa.table(differing), sort_keys=[(name, "ascending") for name in differing]
    )
    return compute.sort_indices(in_order)


def nulls(rows: pa.Table, keys: Sequence[str], required: Sequence[str]) -> dict[str, int]:
    """How many changes have NULL in each column that must not; of a delete, only the key has to be there."""
    kept = rows.filter(is_kept(rows))
    return {
        **{name: rows.column(name).null_count for name in keys},
        **{name: kept.column(name).null_count for name in required},
    }
