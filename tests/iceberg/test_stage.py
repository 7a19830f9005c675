"""Rows that Spark writes: partition by partition, with one file open, however many partitions there are."""

from __future__ import annotations

import datetime as dt

import pytest

from calve.errors import CalveError
from calve.iceberg import stage as module
from calve.iceberg.stage import cluster, stage
from calve.partitioning import PartitionField

COLUMNS = "id BIGINT, at TIMESTAMP, day DATE, name STRING, part STRUCT<x: INT>, ratio DOUBLE"
FIELDS = (
    PartitionField("bucket", "id", 7),
    PartitionField("hour", "at", None),
    PartitionField("month", "day", None),
    PartitionField("truncate", "name", 1),
    PartitionField("identity", "part.x", None),
)


def rows(lake, count):
    """Rows that change their partition from one to the next."""
    begin = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)
    return lake.spark.createDataFrame(
        [
            (n, begin + dt.timedelta(hours=n % 5), dt.date(2026, 1 + n % 3, 1), f"{n % 4}", (n % 2,), 0.5)
            for n in range(count)
        ],
        COLUMNS,
    ).coalesce(1)


def test_rows_of_many_partitions_are_written_with_one_file_open(lake, monkeypatch):
    table = lake.table(columns=COLUMNS, partition=FIELDS)
    frame = rows(lake, 300)
    staged = stage(table, frame, {}, [frame.id.desc()])
    assert staged.rows == 300
    assert len(staged.files) > 200
    # Iceberg's writer that has one file open refuses rows which come back to a partition.
    monkeypatch.setattr(module, "cluster", lambda table, frame, order: (frame, True))
    with pytest.raises(CalveError, match="clustered"):
        stage(table, frame, {}, [])


def test_within_a_partition_the_declared_order_holds(lake):
    table = lake.table(columns=COLUMNS, partition=[PartitionField("identity", "name", None)])
    frame = rows(lake, 40)
    placed, is_clustered = cluster(table, frame, [frame.id.desc()])
    assert is_clustered
    found = [(row.name, -row.id) for row in placed.collect()]
    assert found == sorted(found)


def test_partitions_that_spark_cannot_tell_apart_are_written_side_by_side(lake):
    table = lake.table(columns=COLUMNS, partition=[PartitionField("identity", "ratio", None)])
    frame = lake.spark.createDataFrame([(1, 0.0), (2, -0.0), (3, 0.0), (4, -0.0)], "id BIGINT, ratio DOUBLE")
    assert not cluster(table, frame, [])[1]
    assert stage(table, frame.coalesce(1), {}, []).rows == 4
