"""The changes of a batch as an Arrow table: which one of each key counts, and what it leaves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute

from calve import changes, clock
from calve.sink.choice import MOST_ROWS

compute: Any = pyarrow.compute

_PLACE, _LANE = "place", "lane"
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
    """The last change of each key: `sink.batch.arrived` tells which it is."""
    if len(keys) == 1 and len(rows.column(keys[0]).unique()) == rows.num_rows:
        return rows
    names = [f"k{index}" for index in range(len(keys))]
    keyed = pa.table([rows.column(key) for key in keys], names=names)
    order = _parts(rows.column(changes.ORDER))
    found = keyed.append_column(_PLACE, _ranks([order[name] for name in ("lane", "at", "part")]))
    is_parted = len(order["lane"].unique()) > 1
    if is_parted:
        found = found.append_column(_LANE, order["lane"])
    asked = [(_PLACE, "max"), *(((_LANE, "min"), (_LANE, "max")) if is_parted else ())]
    newest = found.group_by(names).aggregate(asked)
    if newest.num_rows == rows.num_rows:
        return rows
    if is_parted and not newest.column(f"{_LANE}_min").equals(newest.column(f"{_LANE}_max")):
        return rows.filter(compute.is_in(found.column(_PLACE), value_set=_over_lanes(found, names, order)))
    return rows.filter(compute.is_in(found.column(_PLACE), value_set=newest.column(f"{_PLACE}_max")))


def _over_lanes(found: pa.Table, names: list[str], order: Mapping[str, Any]) -> Any:
    """The place of each key's last change, where keys are in several lanes.

    The last of each lane competes with the latest time and place in the log that the lane has for its key.
    """
    none = pa.nulls(found.num_rows, pa.int64())
    for name in ("time", "seq"):
        # What has no time, or is not numbered by a log, comes before what has or is.
        found = found.append_column(name, compute.fill_null(order.get(name, none), _LEAST))
    lanes = found.group_by([*names, _LANE]).aggregate([(_PLACE, "max"), ("time", "max"), ("seq", "max")])
    ranked = lanes.append_column(
        "rank", _ranks([lanes.column(name) for name in ("time_max", "seq_max", _LANE)])
    )
    best = ranked.group_by(names).aggregate([("rank", "max")]).column("rank_max")
    return ranked.filter(compute.is_in(ranked.column("rank"), value_set=best)).column(f"{_PLACE}_max")


def _parts(order: Any) -> dict[str, Any]:
    """The parts of orders by their names."""
    whole = order.combine_chunks()
    names = (whole.type.field(at).name for at in range(whole.type.num_fields))
    return dict(zip(names, whole.flatten(), strict=True))


def _ranks(columns: Sequence[Any]) -> Any:
    """The rank of each row by `columns`; no two have the same."""
    differing = {str(index): part for index, part in enumerate(columns) if len(part.unique()) > 1}
    if not differing:
        return pa.array(range(len(columns[0])), pa.uint64())
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
