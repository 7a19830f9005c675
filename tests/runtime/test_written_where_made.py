"""Appends whose files are written by the workers that decode: each row is there once, whatever happens."""

from __future__ import annotations

import datetime as dt
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JError

from calve import crash
from calve.crash import Crash, Fault
from calve.errors import BadRecord, Unavailable
from calve.iceberg import arrow
from calve.project import ResolvedPipeline
from calve.runtime.profile import Profile
from calve.runtime.report import Report
from calve.runtime.runner import Runner
from calve.runtime.stop import Stop
from calve.sink.choice import ARROW, JAVA
from calve.sink.declaration import IcebergSink
from calve.sources.files import FilesSource
from calve.transforms.sql import SqlTransform
from tests.test_readers import with_duckdb, with_polars, with_pyiceberg

pytestmark = pytest.mark.spark

SCHEMA = "id BIGINT NOT NULL, at TIMESTAMP, x DOUBLE, tags ARRAY<STRING>"


@pytest.fixture(autouse=True)
def no_plan(monkeypatch):
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")
    yield
    crash.load(())


@pytest.fixture
def pipeline(lake, tmp_path):
    (tmp_path / "in").mkdir()

    def make(schema=SCHEMA, source=(), transforms=(), **keys):
        declared = {"path": str(tmp_path / "in"), "schema": schema, "max_files_per_batch": 1, **dict(source)}
        sink = {"catalog": lake.declaration, "namespace": "shop", "table": "orders", **keys}
        made = FilesSource.model_validate(declared), IcebergSink.model_validate(sink)
        return ResolvedPipeline("orders", *made, tuple(transforms), "orders", True)

    return make


def write(tmp_path, name, *rows):
    text = "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows)
    (tmp_path / "in" / name).write_text(text)


def orders(count, first=0):
    return [
        {"id": n, "at": f"2026-01-{1 + n % 3:02}T10:00:00Z", "x": n / 2, "tags": [str(n), None]}
        for n in range(first, first + count)
    ]


def run(lake, pipeline):
    report, profile = Report("orders"), Profile()
    Runner(pipeline, lake.spark, Stop(), report, once=True, profile=profile).run()
    return report.status, profile


def table(lake):
    return lake.catalog.load(lake.name("orders"))


def files(lake):
    """The data files that lie in the folder of the table."""
    location = table(lake).metadata().location.removeprefix("file:")
    from pathlib import Path

    return sorted(Path(location).glob("data/**/*.parquet"))


def live(lake):
    return lake.spark.table(f"{lake.name('orders').sql()}.files").collect()


def test_rows_land_and_every_reader_finds_them(lake, pipeline, tmp_path):
    write(tmp_path, "a", *orders(5))
    status, profile = run(lake, pipeline())
    assert profile.writer == ARROW
    assert f"  Data files were written by {ARROW}" in profile.lines()
    assert (status.rows, status.files, len(files(lake))) == (5, 1, 1)
    assert lake.ids(table(lake)) == [0, 1, 2, 3, 4]
    held = table(lake).metadata().file
    for reader in (with_pyiceberg, with_duckdb, with_polars):
        found = sorted(reader(held), key=lambda row: row["id"])
        assert [(row["id"], row["x"], row["tags"]) for row in found] == [
            (n, n / 2, [str(n), None]) for n in range(5)
        ], reader.__name__
    assert lake.spark.table(lake.name("orders").sql()).where("id = 3 AND x > 1").count() == 1


FLAT = "id BIGINT NOT NULL, at TIMESTAMP, x DOUBLE"


def write_parquet(tmp_path, name, rows, kind=None):
    at = [dt.datetime.fromisoformat(row["at"]) for row in rows]
    columns = {
        "id": pa.array([row["id"] for row in rows], kind or pa.int64()),
        "at": pa.array(at, pa.timestamp("us", "UTC")),
        "x": pa.array([row["x"] for row in rows]),
    }
    pq.write_table(pa.table(columns), tmp_path / "in" / f"{name}.parquet", row_group_size=100)


@pytest.mark.parametrize("schema", [FLAT, None], ids=["declared", "of the first file"])
def test_rows_of_parquet_do_not_go_through_spark(lake, pipeline, tmp_path, schema):
    for number, name in enumerate(("a", "b")):
        write_parquet(tmp_path, name, orders(500, 500 * number))
    declared = pipeline(schema, source={"format": "parquet"}, partition_by=["day(at)"])
    status, profile = run(lake, declared)
    assert profile.writer == ARROW
    assert (status.rows, status.batches) == (1000, 2)
    assert lake.ids(table(lake)) == list(range(1000))
    day = lake.spark.table(lake.name("orders").sql()).where("at >= '2026-01-02' AND at < '2026-01-03'")
    assert sorted((row.id, row.x) for row in day.collect()) == [(n, n / 2) for n in range(1, 1000, 3)]


def test_parquet_of_another_width_is_read_by_workers_and_times_of_the_old_form_by_spark(
    lake, pipeline, tmp_path
):
    write_parquet(tmp_path, "a", orders(10))
    write_parquet(tmp_path, "b", orders(10, 10), pa.int32())
    _, profile = run(lake, pipeline(FLAT, source={"format": "parquet"}))
    assert profile.writer == ARROW
    assert lake.ids(table(lake)) == list(range(20))
    old = pa.table({"id": [20], "old": pa.array([0], pa.timestamp("us"))})
    pq.write_table(old, tmp_path / "in" / "c.parquet", use_deprecated_int96_timestamps=True)
    _, profile = run(lake, pipeline(FLAT, source={"format": "parquet"}))
    assert profile.writer == f"{JAVA}: the rows that reach the sink are made in Spark"
    assert lake.ids(table(lake)) == list(range(21))


@pytest.mark.parametrize("version", [2, 3])
def test_rows_land_in_partitions(lake, pipeline, tmp_path, version):
    write(tmp_path, "a", *orders(30))
    by = ["day(at)", "bucket(2, id)"]
    status, profile = run(lake, pipeline(partition_by=by, format_version=version))
    assert profile.writer == ARROW
    assert (status.rows, status.files) == (30, 6)
    assert lake.ids(table(lake)) == list(range(30))
    day = lake.spark.table(lake.name("orders").sql()).where("at >= '2026-01-02' AND at < '2026-01-03'")
    assert day.count() == 10
    assert len(set(with_pyiceberg_ids(lake, "id = 7"))) == 1


def with_pyiceberg_ids(lake, where):
    from pyiceberg.table import StaticTable

    scan = StaticTable.from_metadata(table(lake).metadata().file).scan(row_filter=where)
    return scan.to_arrow().column("id").to_pylist()


def test_bad_records_go_elsewhere_and_the_others_land(lake, pipeline, tmp_path):
    write(tmp_path, "a", *orders(2), "{", '{"id": "x"}', *orders(2, 2))
    status, profile = run(lake, pipeline())
    assert profile.writer == ARROW
    assert (status.rows, status.dead_letters) == (4, 2)
    assert lake.ids(table(lake)) == [0, 1, 2, 3]


def test_a_batch_that_fails_leaves_no_data_file(lake, pipeline, tmp_path):
    write(tmp_path, "a", *orders(2000), "{")
    with pytest.raises(BadRecord, match="line 2001"):
        run(lake, pipeline(dead_letter="off", target_file_size_mb=1))
    assert files(lake) == []
    assert lake.ids(table(lake)) == []


@pytest.mark.parametrize("point", ["stage.before", "stage.after", "commit.applied", "commit.swapped"])
def test_after_a_crash_every_row_is_there_once(lake, pipeline, tmp_path, point):
    write(tmp_path, "a", *orders(10))
    crash.load([Fault(point, 1, "raise")])
    with pytest.raises(Crash):
        run(lake, pipeline())
    crash.load(())
    left = len(files(lake))
    assert left == (0 if point == "stage.before" else 1)
    run(lake, pipeline())
    assert lake.ids(table(lake)) == list(range(10))
    assert len(live(lake)) == 1
    assert len(files(lake)) == (1 if point in ("stage.before", "commit.swapped") else 2)


def test_changes_that_take_rows_out_are_counted_and_dropped(lake, pipeline, tmp_path):
    codes = {"field": "op", "insert": ["c"], "update": ["u"], "delete": ["d"]}
    write(tmp_path, "a", *({"id": n, "op": op} for n, op in enumerate("ccduc")))
    status, profile = run(lake, pipeline(schema="id BIGINT, op STRING", source={"operation": codes}))
    assert profile.writer == ARROW
    assert (status.rows, status.dropped) == (4, 1)
    assert lake.ids(table(lake)) == [0, 1, 3, 4]


def test_changes_are_kept_where_the_table_keeps_them(lake, pipeline, tmp_path):
    codes = {"field": "op", "insert": ["c"], "update": ["u"], "delete": ["d"]}
    write(tmp_path, "a", *({"id": n, "op": op} for n, op in enumerate("cd")))
    made = pipeline(schema="id BIGINT, op STRING", source={"operation": codes}, change_columns=True)
    status, profile = run(lake, made)
    assert profile.writer == ARROW
    assert (status.rows, status.dropped) == (2, 0)
    held = lake.spark.table(lake.name("orders").sql()).orderBy("id").select("id", "_op", "_seq").collect()
    assert [(row[0], row[1], row[2] is None) for row in held] == [(0, "i", False), (1, "d", False)]


def test_an_overwrite_replaces_the_partitions_of_the_batch(lake, pipeline, tmp_path):
    keys = {"commit_mode": "overwrite", "partition_by": ["day(at)"]}
    write(tmp_path, "a", *orders(6))
    run(lake, pipeline(**keys))
    write(tmp_path, "b", *orders(1, 9))
    _, profile = run(lake, pipeline(**keys))
    assert profile.writer == ARROW
    assert lake.ids(table(lake)) == [1, 2, 4, 5, 9]


def test_columns_that_come_later_are_added_and_written(lake, pipeline, tmp_path):
    write(tmp_path, "a", {"id": 1})
    run(lake, pipeline(schema="id BIGINT"))
    write(tmp_path, "b", {"id": 2, "name": "n"})
    _, profile = run(lake, pipeline(schema="id BIGINT, name STRING"))
    assert profile.writer == ARROW
    held = lake.spark.table(lake.name("orders").sql()).orderBy("id").collect()
    assert [tuple(row) for row in held] == [(1, None), (2, "n")]


def test_a_table_with_more_columns_gets_nulls(lake, pipeline, tmp_path):
    lake.table(lake.name("orders"), columns="other STRING, id BIGINT, at TIMESTAMP")
    write(tmp_path, "a", {"id": 1})
    _, profile = run(lake, pipeline(schema="id BIGINT"))
    assert profile.writer == ARROW
    assert [tuple(row) for row in lake.spark.table(lake.name("orders").sql()).collect()] == [(None, 1, None)]


def test_transforms_leave_it_to_icebergs_own_writer(lake, pipeline, tmp_path):
    write(tmp_path, "a", *orders(2))
    twice = SqlTransform.model_validate({"sql": "SELECT id * 2 AS id FROM input"})
    _, profile = run(lake, pipeline(transforms=[twice]))
    assert profile.writer.startswith(JAVA)
    assert lake.ids(table(lake)) == [0, 2]


def test_values_that_have_to_be_cast_leave_it_to_icebergs_own_writer(lake, pipeline, tmp_path):
    lake.table(lake.name("orders"), columns="id BIGINT, amount DOUBLE")
    write(tmp_path, "a", {"id": 1, "amount": 1.5})
    _, profile = run(lake, pipeline(schema="id BIGINT, amount FLOAT"))
    assert "cast" in profile.writer
    assert [tuple(row) for row in lake.spark.table(lake.name("orders").sql()).collect()] == [(1, 1.5)]


def test_rows_that_are_too_large_for_what_is_taken_at_once_are_taken_in_smaller_parts(
    lake, pipeline, tmp_path, monkeypatch
):
    write(tmp_path, "a", *orders(5))
    taken = []
    known = arrow.write_where_made

    def tight(table, records, work, target):
        taken.append(lake.spark.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch"))
        if len(taken) == 1:
            raise Unavailable("Cannot write") from Py4JError("java.lang.OutOfMemoryError: no memory")
        return known(table, records, work, target)

    monkeypatch.setattr(arrow, "write_where_made", tight)
    status, _ = run(lake, pipeline(retry_for="30s"))
    assert taken == ["4096", "50000"]
    assert (status.rows, status.retries) == (5, 1)
    assert lake.ids(table(lake)) == [0, 1, 2, 3, 4]
