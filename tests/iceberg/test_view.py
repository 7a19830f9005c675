"""What planning tells of the files of a table, and how often it asks Java for it."""

from __future__ import annotations

from collections import Counter

import pytest

from calve.iceberg import java
from calve.iceberg.files import Kind
from calve.iceberg.lookup import Keys, look_up
from calve.iceberg.view import View
from calve.partitioning import PartitionField

pytestmark = pytest.mark.spark

FILES = 120
VALUES = ", ".join(f"({number}, 'p{number}')" for number in range(FILES))


@pytest.fixture
def table(lake):
    """A table of many files, one of which has a row that is deleted."""
    properties = {"write.delete.mode": "merge-on-read"}
    table = lake.table(partition=[PartitionField("identity", "name")], properties=properties)
    lake.spark.sql(f"INSERT INTO {table.name.sql()} VALUES {VALUES}, (1000, 'p7')")
    lake.spark.sql(f"DELETE FROM {table.name.sql()} WHERE id = 1000")
    return lake.catalog.load(table.name)


@pytest.fixture
def calls(spark, monkeypatch) -> list[str]:
    """The commands that Java was sent."""
    client, sent = java.running()._gateway_client, []
    send = client.send_command

    def counted(command, *arguments, **named):
        sent.append(command)
        return send(command, *arguments, **named)

    monkeypatch.setattr(client, "send_command", counted)
    return sent


def test_a_plan_tells_what_the_table_lists(lake, table):
    snapshot = table.metadata().java.currentSnapshot().snapshotId()
    found = View(table, None).plan(snapshot)
    listed = lake.spark.sql(
        f"SELECT file_path, record_count, file_size_in_bytes FROM {table.name.sql()}.data_files"
    ).collect()
    assert {(one.location, one.rows, one.bytes) for one in found.values()} == set(map(tuple, listed))
    deletes = Counter(one.kind for task in found.values() for one in task.deletes)
    assert deletes == {Kind.POSITION: 1}
    assert ["name=p7/" in place for place, task in found.items() if task.deletes] == [True]


def test_rows_are_read_of_the_tasks_that_are_chosen(lake, table):
    view = View(table, None)
    tasks = view.plan(table.metadata().java.currentSnapshot().snapshotId())
    chosen = [task for place, task in tasks.items() if "name=p7/" in place or "name=p11/" in place]
    assert sorted(row.id for row in view.rows(lake.spark, chosen).collect()) == [7, 11]


def test_java_is_not_asked_file_by_file(table, calls):
    snapshot = table.metadata().java.currentSnapshot().snapshotId()
    View(table, None).plan(snapshot)
    calls.clear()
    view = View(table, None)
    assert len(view.plan(snapshot)) == FILES
    assert len(calls) < FILES


def test_a_look_up_does_not_ask_java_file_by_file(lake, table, calls):
    import pyarrow as pa

    snapshot = table.metadata().java.currentSnapshot().snapshotId()
    keys = Keys.of(pa.table({"id": pa.array([7, 59], pa.int64())}))
    look_up(lake.spark, table, snapshot, keys)
    calls.clear()
    hits, looked_at = look_up(lake.spark, table, snapshot, keys)
    assert sorted(len(hit.positions) for hit in hits) == [1, 1]
    assert len(calls) < FILES
    assert looked_at
