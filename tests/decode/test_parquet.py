"""Parquet files that Arrow reads: which they are, and that each row of them is read once."""

from __future__ import annotations

import datetime as dt
import os
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from calve import changes
from calve.decode.parquet import ahead, columns_of, parquet_rows
from calve.decode.reading import Split
from calve.gateway import WorkerError
from calve.schema import parse

ROWS = pa.table(
    {
        "id": pa.array(range(1000), pa.int64()),
        "name": pa.array([None if n % 7 == 0 else f"n{n}" for n in range(1000)]),
        "amount": pa.array([Decimal(n).scaleb(-2) for n in range(1000)], pa.decimal128(12, 2)),
        "at": pa.array([dt.datetime(2026, 1, 1)] * 1000, pa.timestamp("us", "UTC")),
    }
)
DECLARED = parse("id BIGINT NOT NULL, name STRING, amount DECIMAL(12,2), at TIMESTAMP")


@pytest.fixture
def write(tmp_path):
    def written(rows=ROWS, name="a.parquet", **options) -> str:
        path = str(tmp_path / name)
        pq.write_table(rows, path, row_group_size=150, **options)
        return path

    return written


def splits(path: str, *ends: int) -> list[list[Split]]:
    """Tasks of one part each, which end at `ends` and at the end of the file."""
    state = os.stat(path)
    bounds = [0, *ends, state.st_size]
    return [[Split(path, *part, state.st_size, state.st_mtime_ns)] for part in pairwise(bounds)]


def read(tasks: list[list[Split]], columns=DECLARED, **keys) -> pa.Table:
    numbers = pa.RecordBatch.from_arrays([pa.array(range(len(tasks)))], names=["id"])
    return pa.Table.from_batches(list(parquet_rows(tasks, columns, **keys)([numbers])))


def test_columns_are_those_of_the_first_file_or_the_declared_ones(write):
    path = write()
    assert columns_of([path], None) == parse("id BIGINT, name STRING, amount DECIMAL(12,2), at TIMESTAMP")
    assert columns_of([path], DECLARED) == DECLARED


@pytest.mark.parametrize("share", [0.1, 0.37, 0.5, 0.93])
def test_every_row_is_read_once_wherever_a_file_is_divided(write, share):
    path = write()
    found = read(splits(path, int(os.path.getsize(path) * share)))
    assert found.sort_by("id").to_pylist() == ROWS.to_pylist()


@pytest.mark.parametrize("share", [0.1, 0.37, 0.5, 0.93])
def test_changes_are_in_the_order_of_their_file_wherever_it_is_divided(write, share):
    path = write()
    tasks = splits(path, int(os.path.getsize(path) * share))
    found = read([[replace(one, number=3) for one in task] for task in tasks], as_changes=True)
    assert found.select(ROWS.column_names).sort_by("id").to_pylist() == ROWS.to_pylist()
    orders = found.column(changes.ORDER).to_pylist()
    assert [(one["lane"], one["at"]) for one in orders] == [(3, id) for id in found.column("id").to_pylist()]
    assert set(found.column(changes.OPERATION).to_pylist()) == {changes.UPDATE}


def test_a_column_that_a_file_does_not_have_is_null(write):
    first, second = write(), write(ROWS.select(["id", "at"]), "b.parquet")
    assert columns_of([first, second], DECLARED) == DECLARED
    assert read(splits(second)).column("name").null_count == 1000


LEFT_TO_SPARK = {
    "another type": pa.table({"id": pa.array([1], pa.int32())}),
    "nanoseconds": pa.table({"at": pa.array([1], pa.timestamp("ns", "UTC"))}),
    "another zone": pa.table({"at": pa.array([1], pa.timestamp("us", "Europe/Berlin"))}),
    "a name in other letters": pa.table({"ID": pa.array([1], pa.int64())}),
    "two names in other letters": pa.table({"id": pa.array([1], pa.int64()), "Id": pa.array([1])}),
    "a dictionary": pa.table({"name": pa.array(["a"]).dictionary_encode()}),
    "a scale": pa.table({"amount": pa.array([Decimal("1.0")], pa.decimal128(12, 1))}),
}


@pytest.mark.parametrize("rows", LEFT_TO_SPARK.values(), ids=LEFT_TO_SPARK.keys())
def test_a_file_that_spark_might_read_otherwise_is_left_to_it(write, rows):
    assert columns_of([write(), write(rows, "b.parquet")], DECLARED) is None


@pytest.mark.parametrize(
    "column",
    [
        pa.array([[1]]),
        pa.array([{"a": 1}]),
        pa.array([1], pa.uint64()),
        pa.array([1], pa.int8()),
        pa.array([1], pa.time64("us")),
    ],
    ids=lambda column: str(column.type),
)
def test_other_types_are_left_to_spark(write, column):
    assert columns_of([write(pa.table({"value": column}))], None) is None


def test_times_in_the_old_form_are_left_to_spark(write):
    assert columns_of([write(use_deprecated_int96_timestamps=True)], None) is None
    old = ROWS.replace_schema_metadata({"org.apache.spark.legacyDateTime": ""})
    assert columns_of([write(old)], None) is None


def test_what_is_no_parquet_is_left_to_spark(tmp_path):
    path = tmp_path / "a.parquet"
    path.write_bytes(b"nothing of it")
    assert columns_of([str(path)], None) is None


def test_a_null_where_there_must_be_none_names_its_file(write):
    path = write(pa.table({"id": pa.array([1, None], pa.int64())}))
    with pytest.raises(WorkerError, match=r"a\.parquet.*column 'id': NULL, and the column is NOT NULL"):
        read(splits(path))


def test_a_file_that_was_changed_is_refused(write):
    path = write()
    tasks = splits(path)
    os.utime(path)
    with pytest.raises(WorkerError, match="changed after the batch was planned"):
        read(tasks)


def test_a_damaged_file_is_refused(write):
    path = write(compression="zstd")
    with open(path, "r+b") as file:
        file.seek(200)
        file.write(b"\0" * 3000)
    with pytest.raises(WorkerError, match="damaged or cut off"):
        read(splits(path))


def test_what_is_made_ahead_is_all_there_and_its_error_too():
    def made():
        yield from (1, 2, 3)
        raise ValueError("four")

    found = ahead(made())
    assert [next(found) for _ in range(3)] == [1, 2, 3]
    with pytest.raises(ValueError, match="four"):
        next(found)
