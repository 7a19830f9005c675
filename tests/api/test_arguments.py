"""What programs give wrongly is an error of Calve's, in one line that says what to give."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

import calve
from calve.api import arguments
from calve.errors import CalveError, UsageError


@pytest.mark.parametrize(
    "position",
    [
        {"snapshot": 5},
        {"snapshot": None},
        {"snapshot": 5, "state": True, "behind": ""},
        {"snapshot": 5, "behind": "a"},
    ],
)
def test_a_position_of_a_table_is_taken(position):
    assert arguments.iceberg_position(position) == position


@pytest.mark.parametrize(
    "position",
    ["x", 5, [], {}, {"snapshot": "x"}, {"snapshot": True}, {"snapshot": 1.5},
     {"snapshot": 5, "behind": 1}, {"snapshot": 5, "state": "yes"}, {"row": 5}],
)  # fmt: skip
def test_what_is_no_position_is_refused(position):
    with pytest.raises(UsageError, match=r"Cannot read behind .*: it is not a position; give"):
        arguments.iceberg_position(position)


WRONG = {
    "as_of_version(None)": lambda lake, orders: orders.as_of_version(None),
    "as_of_version(True)": lambda lake, orders: orders.as_of_version(True),
    "as_of_timestamp(5)": lambda lake, orders: orders.as_of_timestamp(5),
    "as_of_timestamp(a date)": lambda lake, orders: orders.as_of_timestamp(dt.date(2026, 1, 1)),
    "snapshot_by_id('x')": lambda lake, orders: orders.snapshot_by_id("x"),
    "changes_between('x')": lambda lake, orders: orders.changes_between("x"),
    "evolve(5)": lambda lake, orders: orders.evolve(5),
    "evolve(to=5)": lambda lake, orders: orders.evolve(to=5),
    "evolve(to='x y z')": lambda lake, orders: orders.evolve(to="x y z"),
    "expire_snapshots(retain_last='x')": lambda _, orders: orders.expire_snapshots("2000", retain_last="x"),
    "load_table(None)": lambda lake, orders: catalog(lake).load_table(None),
    "table_exists(5)": lambda lake, orders: catalog(lake).table_exists(5),
    "create_table(…, 5)": lambda lake, orders: catalog(lake).create_table("shop.new", 5),
    "list_tables(5)": lambda lake, orders: catalog(lake).list_tables(5),
    "open_catalog('x')": lambda lake, orders: calve.open_catalog("x", spark=lake.spark),
    "stream(after='x')": lambda lake, orders: source(lake).stream(lake.spark, after="x"),
    "stream(after={'snapshot': 'x'})": lambda lake, orders: source(lake).stream(after={"snapshot": "x"}),
    "rows(batch_size=0)": lambda lake, orders: source(lake).rows(batch_size=0),
    "rows(batch_size=-1)": lambda lake, orders: source(lake).rows(batch_size=-1),
    "rows(batch_size='x')": lambda lake, orders: source(lake).rows(batch_size="x"),
    "a source without its table": lambda lake, orders: source(lake, "nobody").read(lake.spark),
    "write(None)": lambda lake, orders: sink(lake).write(None),
    "write(a list)": lambda lake, orders: sink(lake).write([1, 2]),
    "write(a dict)": lambda lake, orders: sink(lake).write({"id": 1}),
    "write(…, id=a surrogate)": lambda lake, orders: sink(lake).write(pa.table({"id": [1]}), id="\ud800"),
}  # fmt: skip


def catalog(lake):
    return calve.open_catalog(lake.declaration, spark=lake.spark)


def source(lake, table="orders"):
    return calve.IcebergSource(catalog=lake.declaration, namespace="shop", table=table)


def sink(lake):
    return calve.IcebergSink(sink_id="loader", catalog=lake.declaration, namespace="shop", table="orders")


@pytest.mark.spark
@pytest.mark.parametrize("work", WRONG.values(), ids=WRONG.keys())
def test_a_wrong_argument_is_a_usage_error_in_one_line(lake, orders, work):
    with pytest.raises(CalveError) as caught:
        work(lake, orders)
    assert isinstance(caught.value, UsageError)
    assert str(caught.value).startswith("Cannot ")
    assert "\n" not in str(caught.value)
