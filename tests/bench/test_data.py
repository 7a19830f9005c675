import json

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from bench import data
from bench.data import Expected, Shape, Upserts

SHAPES = [Shape(), Shape("wide", wide=3), Shape("days", days=1000), Shape("heavy", payload=64)]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda one: one.name)
def test_the_same_seed_gives_the_same_rows(shape):
    first, second = ([*shape.blocks(5, 1000)] for _ in range(2))
    assert first == second
    assert next(Shape(seed=2).blocks(5, 1000)) != next(Shape().blocks(5, 1000))


@pytest.mark.parametrize("shape", SHAPES, ids=lambda one: one.name)
def test_rows_have_the_columns_that_are_told(shape):
    table = next(shape.blocks(0, 10))
    assert table.column_names == list(shape.columns)
    assert not any(column.null_count for column in table.columns)


def test_a_row_is_the_same_in_whatever_block_it_is(monkeypatch):
    whole = pa.concat_tables(Shape().blocks(0, 1000))
    monkeypatch.setattr(data, "BLOCK", 300)
    parts = [*Shape().blocks(0, 1000)]
    assert [part.num_rows for part in parts] == [300, 300, 300, 100]
    assert pa.concat_tables(parts).combine_chunks() == whole.combine_chunks()


def test_days_are_as_many_as_asked_for():
    table = next(Shape(days=7).blocks(0, 5000))
    assert len(table["ordered_at"].cast(pa.date32(), safe=False).unique()) == 7


def test_a_payload_hardly_shrinks():
    table = next(Shape(payload=160).blocks(0, 1000))
    assert set(map(len, table["note"].to_pylist())) == {160}
    assert len(table["note"].unique()) == 1000


def test_what_is_expected_is_what_the_rows_add_up_to():
    rows = [row for table in Shape().blocks(3, 250) for row in table.to_pylist()]
    assert Expected.of(Shape().blocks(3, 250)) == Expected(
        250,
        250,
        {
            "id": sum(row["id"] for row in rows),
            "amount": int(sum(row["amount"] for row in rows) * 100),
            "ordered_at": sum(round(row["ordered_at"].timestamp() * 1000) for row in rows),
            "customer": sum(len(row["customer"]) for row in rows),
        },
    )


def test_upserts_leave_the_last_version_of_each_row():
    upserts = Upserts(Shape(), base=1000, size=100, count=7)
    table = {row["id"]: row for block in Shape().blocks(0, 1000) for row in block.to_pylist()}
    for number in range(7):
        batch = upserts.batch(number).to_pylist()
        assert len({row["id"] for row in batch}) == 100
        assert sum(row["id"] in table for row in batch) == 50
        table.update({row["id"]: row for row in batch})
    left = pa.Table.from_pylist(list(table.values()), schema=next(Shape().blocks(0, 1)).schema)
    assert upserts.expected() == Expected.of([left])
    assert upserts.expected().rows == 1350


def test_an_update_changes_the_amount_by_the_version():
    upserts = Upserts(Shape(), base=1000, size=100, count=3)
    old = Shape().rows(upserts.ids(2))
    new = upserts.batch(2)
    cents = [
        int((b - a) * 100) for a, b in zip(old["amount"].to_pylist(), new["amount"].to_pylist(), strict=True)
    ]
    assert set(cents) == {3}


def test_lines_of_json_hold_the_rows():
    table = next(Shape("wide", wide=2).blocks(0, 20))
    rows = [json.loads(line) for line in data.json_lines(table)]
    for row, wanted in zip(rows, table.to_pylist(), strict=True):
        assert row["id"] == wanted["id"]
        assert row["amount"] == float(wanted["amount"])
        assert row["ordered_at"] == wanted["ordered_at"].strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
        assert row["items"] == wanted["items"]
        assert row["address"] == wanted["address"]


def test_one_line_in_so_many_is_bad_and_the_others_are_expected():
    table = next(Shape().blocks(0, 100))
    rows = [json.loads(line) for line in data.json_lines(table, bad_every=25)]
    assert [number for number, row in enumerate(rows) if isinstance(row["id"], str)] == [12, 37, 62, 87]
    good = data.good_of(table, 25)
    assert good["id"].to_pylist() == [row["id"] for row in rows if isinstance(row["id"], int)]
    assert data.good_of(table, 0) is table


def test_bad_lines_are_counted_over_all_blocks():
    parts = [data.json_lines(Shape().rows(np.arange(at, at + 10)), 25, at) for at in range(0, 100, 10)]
    whole = data.json_lines(next(Shape().blocks(0, 100)), 25)
    assert [line for part in parts for line in part] == whole


def test_files_hold_the_rows(tmp_path):
    tables = [*Shape().blocks(0, 100), *Shape().blocks(100, 50)]
    there = pq.read_table(data.write_parquet(tables, tmp_path / "a" / "x.parquet"))
    assert (
        data.sums(there.set_column(4, "ordered_at", there["ordered_at"].cast(data._UTC)))
        == Expected.of(tables).sums
    )
    lines = pyarrow.csv.read_csv(data.write_csv(tables, tmp_path / "b" / "x.csv"))
    assert lines.column_names == list(Shape().columns)
    assert lines["id"].to_pylist() == list(range(150))
    assert (tmp_path / "b" / "x.csv").read_text().count("Z") == 150
