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
from calve.decode.arrow import arrow_schema
from calve.decode.changes import RowChanges
from calve.decode.parquet import ahead, columns_of, footers, parquet_rows
from calve.decode.reading import Split
from calve.errors import BadRecord
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


def test_columns_are_those_of_the_file_or_the_declared_ones(write):
    files = footers([write()])
    assert columns_of(files, None) == parse("id BIGINT, name STRING, amount DECIMAL(12,2), at TIMESTAMP")
    assert columns_of(files, DECLARED) == DECLARED


@pytest.mark.parametrize("share", [0.1, 0.37, 0.5, 0.93])
def test_every_row_is_read_once_wherever_a_file_is_divided(write, share):
    path = write()
    found = read(splits(path, int(os.path.getsize(path) * share)))
    assert found.sort_by("id").to_pylist() == ROWS.to_pylist()


@pytest.mark.parametrize("share", [0.1, 0.37, 0.5, 0.93])
def test_changes_are_in_the_order_of_their_file_wherever_it_is_divided(write, share):
    path = write()
    tasks = splits(path, int(os.path.getsize(path) * share))
    found = read([[replace(one, number=3) for one in task] for task in tasks], changes=RowChanges())
    assert found.select(ROWS.column_names).sort_by("id").to_pylist() == ROWS.to_pylist()
    orders = found.column(changes.ORDER).to_pylist()
    assert [(one["lane"], one["at"]) for one in orders] == [(3, id) for id in found.column("id").to_pylist()]
    assert set(found.column(changes.OPERATION).to_pylist()) == {changes.UPDATE}


def test_a_column_that_a_file_does_not_have_is_null(write):
    first, second = write(), write(ROWS.select(["id", "at"]), "b.parquet")
    assert columns_of(footers([first, second]), DECLARED) == DECLARED
    assert read(splits(second)).column("name").null_count == 1000


TAKEN = {
    "another width": pa.table({"id": pa.array([1], pa.int32())}),
    "no sign": pa.table({"id": pa.array([1], pa.uint64())}),
    "whole microseconds": pa.table({"at": pa.array([1000], pa.timestamp("ns", "UTC"))}),
    "another zone": pa.table({"at": pa.array([1], pa.timestamp("us", "Europe/Berlin"))}),
    "no zone": pa.table({"at": pa.array([1], pa.timestamp("us"))}),
    "a dictionary": pa.table({"name": pa.array(["a"]).dictionary_encode()}),
    "bytes": pa.table({"name": pa.array([b"a"])}),
    "a scale": pa.table({"amount": pa.array([Decimal("1.0")], pa.decimal128(12, 1))}),
}
LOOSE = parse("id BIGINT, name STRING, amount DECIMAL(12,2), at TIMESTAMP, n TINYINT, local TIMESTAMP_NTZ")


@pytest.mark.parametrize("rows", TAKEN.values(), ids=TAKEN.keys())
def test_what_the_column_holds_is_taken(write, rows):
    path = write(rows)
    assert columns_of(footers([path]), LOOSE) == LOOSE
    (name,) = rows.column_names
    found = read(splits(path), LOOSE).column(name)
    assert found.null_count == 0
    assert found.type == arrow_schema(LOOSE).field(name).type


REFUSED = {
    "a sign": ({"id": pa.array([2**64 - 1], pa.uint64())}, "column 'id': a value is not a BIGINT"),
    "a width": ({"n": pa.array([300], pa.int32())}, "column 'n': a value is not a TINYINT"),
    "a byte": ({"n": pa.array([255], pa.uint8())}, "column 'n': a value is not a TINYINT"),
    "nanoseconds": ({"at": pa.array([1], pa.timestamp("ns", "UTC"))}, "column 'at': a value is not"),
    "bytes": ({"name": pa.array([b"\xff\xfe"])}, "column 'name': a text is not valid UTF-8"),
    "a scale": ({"amount": pa.array([Decimal("1.005")], pa.decimal128(12, 3))}, "a value is not"),
}  # fmt: skip


@pytest.mark.parametrize(("rows", "why"), REFUSED.values(), ids=REFUSED.keys())
@pytest.mark.parametrize("has_dictionary", [False, True])
def test_what_the_column_does_not_hold_is_refused_by_its_file(write, rows, why, has_dictionary):
    path = write(pa.table(rows), use_dictionary=has_dictionary)
    assert columns_of(footers([path]), LOOSE) == LOOSE
    with pytest.raises(WorkerError, match=rf"a\.parquet.*{why}"):
        read(splits(path), LOOSE)


OTHER = {
    "texts": ({"id": pa.array(["1"])}, "column 'id' is string in the file, which is not a BIGINT"),
    "fractions": ({"id": pa.array([1.0])}, "column 'id' is double in the file"),
    "a zone": ({"local": pa.array([1], pa.timestamp("us", "UTC"))}, "is not a TIMESTAMP_NTZ"),
    "other letters": ({"ID": pa.array([1])}, "it has no column 'id', but one called 'ID'"),
}


@pytest.mark.parametrize(("rows", "why"), OTHER.values(), ids=OTHER.keys())
def test_a_file_of_another_kind_is_refused_before_it_is_read(write, rows, why):
    with pytest.raises(BadRecord, match=rf"b\.parquet.*{why}"):
        columns_of(footers([write(), write(pa.table(rows), "b.parquet")]), LOOSE)


def test_without_a_schema_files_have_the_columns_of_all_of_them_in_the_widest_type(write):
    files = [
        pa.table({"a": pa.array([1], pa.int32()), "s": pa.array([{"x": 1}])}),
        pa.table({"l": pa.array([[1]], pa.list_(pa.int32()))}),
        pa.table({"a": pa.array([1], pa.int64()), "b": pa.array(["x"]), "s": pa.array([{"y": "t"}])}),
        pa.table({"l": pa.array([[2**40]]), "d": pa.array([Decimal(1)], pa.decimal128(9, 0))}),
        pa.table({"d": pa.array([Decimal(1)], pa.decimal128(12, 0)), "n": pa.nulls(1)}),
        pa.table({"u": pa.array([1], pa.uint32())}),
    ]  # fmt: skip
    expected = {"a": "BIGINT", "l": "ARRAY<BIGINT>", "b": "STRING",
                "d": "DECIMAL(12,0)", "n": "VOID", "u": "BIGINT"}  # fmt: skip
    paths = [write(rows, f"{number}.parquet") for number, rows in enumerate(files)]
    for order in (paths, paths[::-1]):
        found = columns_of(footers(order), None)
        kinds = {one.name: one.type for one in found.columns}
        inside = kinds.pop("s")
        assert {name: kind.ddl() for name, kind in kinds.items()} == expected
        assert sorted(one.name for one in inside.columns) == ["x", "y"]
        assert all(one.nullable for one in found.columns)


def test_files_that_no_column_holds_together_are_refused(write):
    paths = [write(pa.table({"v": [1]})), write(pa.table({"v": ["x"]}), "b.parquet")]
    with pytest.raises(BadRecord, match=r"b\.parquet.*column 'v' is STRING, and BIGINT in another file"):
        columns_of(footers(paths), None)


@pytest.mark.parametrize(
    ("column", "why"),
    [
        (pa.array([1], pa.time64("us")), "column 'value' is time64"),
        (pa.array([Decimal(10**49)], pa.decimal256(50, 0)), "Iceberg's decimals have at most 38 digits"),
    ],
)
def test_a_type_that_no_table_has_is_refused_and_may_be_left_out(write, column, why):
    path = write(pa.table({"value": column, "id": [1]}))
    with pytest.raises(BadRecord, match=why):
        columns_of(footers([path]), None)
    assert columns_of(footers([path]), parse("id BIGINT")) == parse("id BIGINT")


def test_times_in_the_old_form_are_left_to_spark_which_looks_at_no_value(write):
    (file,) = footers([write(use_deprecated_int96_timestamps=True)])
    assert file.is_old
    assert columns_of([file], None) == parse("id BIGINT, name STRING, amount DECIMAL(12,2), at TIMESTAMP")
    for narrower in ("id INT", "amount DECIMAL(11,2)", "at TIMESTAMP_NTZ"):
        with pytest.raises(BadRecord, match="declare a type that takes it"):
            columns_of([file], parse(narrower))
    old = ROWS.replace_schema_metadata({"org.apache.spark.legacyDateTime": ""})
    assert footers([write(old)])[0].is_old


def test_what_is_no_parquet_is_refused(tmp_path):
    path = tmp_path / "a.parquet"
    path.write_bytes(b"nothing of it")
    with pytest.raises(BadRecord, match=r"a\.parquet.*it is damaged or cut off"):
        footers([str(path)])


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
