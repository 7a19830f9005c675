"""Changes that are held in the process: which one of each key counts."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calve.sink import collected
from tests.order import Change, after

PARTS = {"seq": pa.int64(), "lane": pa.int64(), "at": pa.int64(), "part": pa.int32(), "time": pa.int64()}
ORDER = pa.struct(list(PARTS.items()))
SOMETIMES = st.none() | st.integers(-(2**62), 3)
PLACES = st.tuples(SOMETIMES, st.integers(0, 2), st.integers(0, 50), st.integers(0, 1), SOMETIMES)
KEYS = st.tuples(st.integers(0, 4), st.sampled_from(["a", "b"]))


def batch(changes):
    """Changes of the form (key, name, operation, order, unknown columns)."""
    keys, names, operations, orders, unknown = zip(*changes, strict=True) if changes else [()] * 5
    told = [None if one is None else dict(zip(ORDER.names, one, strict=True)) for one in orders]
    return pa.table(
        {
            "key": pa.array(keys, pa.int64()),
            "name": pa.array(names, pa.string()),
            "row": pa.array(range(len(keys)), pa.int64()),
            "_calve_op": pa.array(operations, pa.string()),
            "_calve_order": pa.chunked_array([pa.array(told, ORDER)]),
            "_calve_unknown": pa.array(unknown, pa.list_(pa.string())),
        }
    )


def of(keys, places):
    return batch([(*key, "u", place, None) for key, place in zip(keys, places, strict=True)])


@pytest.mark.thorough
@pytest.mark.parametrize("names", [("key",), ("key", "name")], ids=["one column", "two columns"])
@given(st.lists(st.tuples(KEYS, PLACES), max_size=40, unique_by=lambda change: change[1][1:4]))
def test_the_last_change_of_each_key_is_the_one_that_arrived_last(names, changes):
    keys, places = [key for key, _ in changes], [order for _, order in changes]
    log = [
        Change("u", key[: len(names)], {"row": row}, **dict(zip(PARTS, order, strict=True)))
        for row, (key, order) in enumerate(changes)
    ]
    found = collected.last(of(keys, places), names)
    assert sorted(found.column("row").to_pylist()) == sorted(row["row"] for row in after(log).values())


def test_within_a_lane_neither_the_log_nor_the_time_beats_the_place():
    log = [(9_000, 0, 0, 0, 9_000), (3, 0, 1, 0, 3), (None, 0, 2, 0, None)]
    rows = batch([(1, "a", "u", order, None) for order in log])
    assert collected.last(rows, ["key"]).column("row").to_pylist() == [2]


def test_between_lanes_the_time_tells_the_later_change_and_then_the_log():
    log = [(2, 2, 0, 0, 100), (1, 0, 0, 0, 200), (3, 1, 0, 0, 200)]
    rows = batch([(1, "a", "u", order, None) for order in log])
    assert collected.last(rows, ["key"]).column("row").to_pylist() == [2]
    assert collected.last(rows.slice(0, 2), ["key"]).column("row").to_pylist() == [1]


def test_an_order_of_before_has_no_time():
    order = pa.struct([one for one in ORDER if one.name != "time"])
    rows = of([(1, "a"), (1, "a")], [(None, 0, 0, 0, None), (None, 1, 0, 0, None)])
    places = pa.array([{"seq": None, "lane": lane, "at": 0, "part": 0} for lane in (0, 1)], order)
    rows = rows.set_column(
        rows.column_names.index("_calve_order"), "_calve_order", pa.chunked_array([places])
    )
    assert collected.last(rows, ["key"]).column("row").to_pylist() == [1]


def test_null_is_a_key_like_any_other():
    rows = batch([(None, "a", "u", (None, 0, at, 0, None), None) for at in range(3)])
    assert collected.last(rows, ["key"]).column("row").to_pylist() == [2]


def test_of_a_delete_only_the_key_has_to_be_there():
    rows = batch(
        [
            (1, None, "d", (None, 0, 0, 0, None), None),
            (2, None, "u", (None, 0, 1, 0, None), None),
            (None, "a", "d", (None, 0, 2, 0, None), None),
        ]
    )
    assert collected.nulls(rows, ["key"], ["name"]) == {"key": 1, "name": 1}


@pytest.mark.parametrize(
    ("operation", "unknown", "plain"),
    [("u", None, True), ("u", [], True), ("d", ["name"], True), ("u", ["name"], False), ("t", None, False)],
)
def test_changes_that_take_a_closer_look_are_told(operation, unknown, plain):
    rows = batch(
        [(1, "a", "i", (None, 0, 0, 0, None), None), (2, "b", operation, (None, 0, 1, 0, None), unknown)]
    )
    assert collected.is_plain(rows) is plain


def test_a_batch_fits_by_its_rows_and_by_its_bytes():
    assert collected.fits(collected.MOST_ROWS, 10, 10)
    assert not collected.fits(collected.MOST_ROWS + 1, 0, 10)
    assert not collected.fits(1, 11, 10)
