"""Overwrites: what a batch replaces, and what it does when another writer was there."""

from __future__ import annotations

import pytest

from calve.errors import DataRefused
from calve.patience import Patience
from calve.schema import parse
from calve.sink.declaration import IcebergSink
from calve.sink.writer import Writer

COLUMNS = "id BIGINT, region STRING"
OLD = [(1, "eu"), (2, "eu"), (3, "us")]


class Table:
    def __init__(self, lake, **keys):
        place = {"catalog": lake.declaration, "namespace": "shop", "table": "t", "partition_by": ["region"]}
        declared = IcebergSink.model_validate({**place, "commit_mode": "overwrite", **keys})
        self.lake, self.writer = lake, Writer(lake.spark, declared, "orders", Patience(5))
        self.writer.find("source")
        self.writer.open("source", {"row": 0}, parse(COLUMNS))
        self.insert(OLD)

    def insert(self, rows):
        frame = self.lake.spark.createDataFrame(rows, COLUMNS)
        frame.writeTo(self.writer.name.sql()).append()
        self.writer.table.refresh()

    def stage(self, rows):
        return self.writer.stage(self.lake.spark.createDataFrame(rows, COLUMNS), len(rows))

    def take(self, rows):
        self.writer.commit(self.stage(rows), {"row": 1})

    def rows(self):
        return sorted(tuple(row) for row in self.lake.spark.table(self.writer.name.sql()).collect())


def test_the_partitions_of_the_batch_are_replaced(lake):
    table = Table(lake)
    table.take([(9, "eu")])
    assert table.rows() == [(3, "us"), (9, "eu")]


def test_the_whole_table_is_replaced(lake):
    table = Table(lake, overwrite="table")
    table.take([(9, "eu")])
    assert table.rows() == [(9, "eu")]


def test_what_filters_name_is_replaced(lake):
    table = Table(lake, overwrite=["region = 'us'", "region = 'asia'"])
    table.take([(9, "us"), (8, "asia")])
    assert table.rows() == [(1, "eu"), (2, "eu"), (8, "asia"), (9, "us")]


@pytest.mark.parametrize("overwrite", ["partitions", "table", ["region = 'us'"]])
def test_a_batch_without_rows_moves_the_position_and_replaces_nothing(lake, overwrite):
    table = Table(lake, overwrite=overwrite)
    table.take([])
    assert table.rows() == OLD
    assert table.writer.committer.held.position == {"row": 1}


def test_rows_that_the_filters_do_not_name_are_refused(lake):
    from calve.errors import CalveError

    table = Table(lake, overwrite=["region = 'us'"])
    with pytest.raises(CalveError, match="Cannot append file"):
        table.take([(9, "eu")])
    assert table.rows() == OLD


def test_a_batch_again_leaves_the_same(lake):
    table = Table(lake)
    table.take([(9, "eu"), (8, "us")])
    table.take([(9, "eu"), (8, "us")])
    assert table.rows() == [(8, "us"), (9, "eu")]


@pytest.mark.parametrize("overwrite", ["partitions", "table", ["region = 'eu'"]])
def test_another_writer_in_the_same_partitions_is_not_overwritten_unseen(lake, overwrite):
    table = Table(lake, overwrite=overwrite)
    staged = table.stage([(9, "eu")])
    lake.spark.createDataFrame([(7, "eu")], COLUMNS).writeTo(table.writer.name.sql()).append()
    with pytest.raises(DataRefused, match="another writer committed to the same data"):
        table.writer.commit(staged, {"row": 1})
    assert table.rows() == [(1, "eu"), (2, "eu"), (3, "us"), (7, "eu")]


def test_the_last_writer_wins_where_that_is_declared(lake):
    table = Table(lake, overwrite_conflicts="last_wins")
    staged = table.stage([(9, "eu")])
    lake.spark.createDataFrame([(7, "eu")], COLUMNS).writeTo(table.writer.name.sql()).append()
    table.writer.commit(staged, {"row": 1})
    assert table.rows() == [(3, "us"), (9, "eu")]


def test_another_writer_in_other_partitions_is_no_conflict(lake):
    table = Table(lake)
    staged = table.stage([(9, "eu")])
    lake.spark.createDataFrame([(7, "us")], COLUMNS).writeTo(table.writer.name.sql()).append()
    table.writer.commit(staged, {"row": 1})
    assert table.rows() == [(3, "us"), (7, "us"), (9, "eu")]


def begun_ahead(table, rows):
    """A batch that is begun before the one before it is in the table."""
    frame = table.lake.spark.createDataFrame(rows, COLUMNS)
    return table.writer.begin(frame, len(rows), view=table.writer.view())


@pytest.mark.parametrize("overwrite", ["partitions", "table", ["region = 'eu'"]])
def test_a_batch_begun_ahead_overwrites_nothing_that_came_before_our_commit(lake, overwrite):
    table = Table(lake, overwrite=overwrite)
    first = table.stage([(8, "eu")])
    ahead = begun_ahead(table, [(9, "eu")])
    table.lake.spark.createDataFrame([(7, "us")], COLUMNS).writeTo(table.writer.name.sql()).append()
    if overwrite == "table":
        with pytest.raises(DataRefused, match="another writer committed to the same data"):
            table.writer.commit(first, {"row": 1})
        return
    table.writer.commit(first, {"row": 1})
    table.writer.commit(ahead.finish(), {"row": 2})
    assert table.rows() == [(3, "us"), (7, "us"), (9, "eu")]


def test_a_batch_begun_ahead_is_refused_where_another_writer_was_faster_than_our_commit(lake):
    table = Table(lake)
    first = table.stage([(8, "eu")])
    ahead = begun_ahead(table, [(9, "us")])
    lake.spark.createDataFrame([(7, "us")], COLUMNS).writeTo(table.writer.name.sql()).append()
    table.writer.commit(first, {"row": 1})
    with pytest.raises(DataRefused, match="another writer committed to the same data"):
        ahead.finish()
    assert table.rows() == [(3, "us"), (7, "us"), (8, "eu")]


def test_a_batch_begun_ahead_overwrites_what_the_batch_before_it_wrote(lake):
    table = Table(lake)
    first = table.stage([(8, "eu")])
    ahead = begun_ahead(table, [(9, "eu")])
    table.writer.commit(first, {"row": 1})
    table.writer.commit(ahead.finish(), {"row": 2})
    assert table.rows() == [(3, "us"), (9, "eu")]


def test_a_compaction_between_two_batches_is_no_conflict(lake):
    table = Table(lake)
    lake.call("rewrite_data_files", table=f"'{table.writer.name}'", options="map('rewrite-all', 'true')")
    table.take([(9, "eu")])
    assert table.rows() == [(3, "us"), (9, "eu")]


def append(lake, **keys):
    from tests.changes import Sink

    sink = Sink.__new__(Sink)
    place = {"catalog": lake.declaration, "namespace": "shop", "table": "kept", "commit_mode": "append"}
    sink.lake, sink.columns, sink.keys = lake, parse(COLUMNS), ("id",)
    sink.has_equality = False
    sink.declared = IcebergSink.model_validate({**place, **keys})
    sink.start()
    return sink


CHANGES = [("i", (1, "eu")), ("u", (1, "us")), ("d", (1, None))]


def test_appended_changes_add_a_row_each_and_deletes_are_counted(lake):
    sink = append(lake)
    staged = sink.writer.stage(sink.frame(CHANGES), 3)
    sink.writer.commit(staged, {"row": 3})
    assert sorted(sink.rows()) == [(1, "eu"), (1, "us")]
    assert staged.dropped == 1


def test_changes_may_be_kept_as_they_are(lake):
    sink = append(lake, change_columns=True)
    sink.writer.commit(sink.writer.stage(sink.frame(CHANGES), 3), {"row": 3})
    rows = lake.spark.table(sink.writer.name.sql()).orderBy("_seq").collect()
    assert [(row.id, row.region, row._op, row._seq) for row in rows] == [
        (1, "eu", "i", 0),
        (1, "us", "u", 1),
        (1, None, "d", 2),
    ]
