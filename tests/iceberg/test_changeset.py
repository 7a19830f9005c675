"""Change sets are the difference of the states, over tables that several engines changed at random."""

from __future__ import annotations

import os
import random
from collections import Counter

import pytest

from calve import schema
from calve.catalogs import embedded
from calve.errors import UsageError
from calve.iceberg import multiset
from calve.iceberg.changeset import changes_between, difference, touched
from calve.iceberg.states import state
from calve.iceberg.travel import between
from tests.changes import KINDS, LAYOUTS, Sink
from tests.folding import COME, GONE, collected, folded
from tests.lake import Lake
from tests.origin import COLUMNS, Origin

pytestmark = pytest.mark.spark

SEED = int(os.environ.get("CALVE_FAULT_SEED", "7"))
STEPS = 7
SOME = 6


@pytest.fixture
def files(spark, tmp_path) -> Lake:
    """A catalog that PyIceberg opens as well."""
    return Lake.open(spark, embedded(str(tmp_path)))


def check_history(lake: Lake, seed: int) -> None:
    chance = random.Random(seed)
    origin = Origin(lake, chance, f"t{seed}")
    for _ in range(STEPS):
        origin.step()
    origin.finish()
    table, told = origin.table(), f"seed {seed}: {'; '.join(origin.told)}"
    history = table.metadata().history(str(table.name))
    numbers = [one.id for one in between(history, None, history.current)]
    start = chance.randrange(len(numbers) - 1)
    found = collected(changes_between(lake.spark, table, numbers[start]))
    rows = origin.rows_at(numbers[start])
    for number in numbers[start + 1 :]:
        rows = folded(rows, [(values, kind) for values, kind, _, at in found if at == number])
        assert rows == origin.rows_at(number), f"{told}; snapshot {number}"
    net = collected(difference(lake.spark, table, numbers[start], numbers[-1]))
    before, after = origin.rows_at(numbers[start]), origin.rows_at(numbers[-1])
    assert Counter(v for v, kind, _, _ in net if kind in COME) == after - before, told
    assert Counter(v for v, kind, _, _ in net if kind in GONE) == before - after, told


@pytest.mark.parametrize("seed", range(SEED, SEED + SOME))
def test_change_sets_are_the_difference_of_states(files, seed):
    check_history(files, seed)


@pytest.mark.full
@pytest.mark.parametrize("part", range(30))
def test_change_sets_of_three_hundred_histories_are_the_difference_of_states(files, part):
    for seed in range(SEED + max(part * 10, SOME), SEED + part * 10 + 10):
        check_history(files, seed)


@pytest.fixture(params=sorted(KINDS))
def sink(request, lake):
    return Sink(lake, KINDS[request.param], LAYOUTS["partitioned"], columns=COLUMNS)


def head(sink) -> int:
    return sink.lake.catalog.load(sink.writer.name).metadata().java.currentSnapshot().snapshotId()


def changed(sink, after, **keys):
    frame = changes_between(sink.lake.spark, sink.lake.catalog.load(sink.writer.name), after, **keys)
    return sorted((values, kind) for values, kind, _, _ in collected(frame))


def test_an_upsert_is_updates_inserts_and_deletes(sink):
    sink.take(("u", (1, "eu", 10)), ("u", (2, "eu", 20)), ("u", (3, "us", 30)))
    before = head(sink)
    sink.take(("u", (1, "eu", 11)), ("d", (2, None, None)), ("u", (3, "us", 30)), ("u", (4, "us", 40)))
    assert changed(sink, before) == [
        ((1, "eu", 10), "update_before"),
        ((1, "eu", 11), "update_after"),
        ((2, "eu", 20), "delete"),
        ((4, "us", 40), "insert"),
    ]


def test_a_row_that_changes_its_partition_is_updated(sink):
    sink.take(("u", (1, "eu", 10)))
    before = head(sink)
    sink.take(("u", (1, "us", 10)))
    assert changed(sink, before) == [((1, "eu", 10), "update_before"), ((1, "us", 10), "update_after")]


def test_without_keys_an_update_is_a_delete_and_an_insert(sink):
    sink.take(("u", (1, "eu", 10)))
    before = head(sink)
    sink.take(("u", (1, "eu", 11)))
    assert changed(sink, before, keys=()) == [((1, "eu", 10), "delete"), ((1, "eu", 11), "insert")]


def test_a_row_that_was_deleted_before_is_not_deleted_again(sink):
    sink.take(("u", (1, "eu", 10)), ("u", (2, "eu", 20)))
    sink.take(("d", (1, None, None)))
    before = head(sink)
    sink.take(("d", (2, None, None)))
    assert changed(sink, before) == [((2, "eu", 20), "delete")]


def test_compaction_is_no_change(sink):
    sink.take(("u", (1, "eu", 10)), ("u", (2, "eu", 20)))
    sink.take(("u", (1, "eu", 11)))
    before = head(sink)
    sink.lake.call("rewrite_data_files", table="'shop.t'", options="map('rewrite-all', 'true')")
    assert head(sink) != before
    assert changed(sink, before) == []


def test_columns_and_a_filter_leave_out_the_rest(sink):
    sink.take(("u", (1, "eu", 10)), ("u", (2, "us", 20)))
    before = head(sink)
    sink.take(("u", (1, "eu", 11)), ("u", (2, "us", 21)), ("u", (3, None, 30)))
    assert changed(sink, before, columns=["id"], where="region = 'eu'") == []
    assert changed(sink, before, columns=["amount", "id"], where="region = 'us'") == [
        ((20, 2), "update_before"),
        ((21, 2), "update_after"),
    ]


def test_changes_are_numbered_by_their_snapshots(sink):
    before = head(sink)
    sink.take(("u", (1, "eu", 10)))
    sink.take(("u", (2, "eu", 10)))
    sink.take(("u", (1, "eu", 11)))
    frame = changes_between(sink.lake.spark, sink.lake.catalog.load(sink.writer.name), before)
    found = sorted((ordinal, values[0], kind) for values, kind, ordinal, _ in collected(frame))
    assert found == [
        (0, 1, "insert"),
        (1, 2, "insert"),
        (2, 1, "update_after"),
        (2, 1, "update_before"),
    ]


def test_only_the_files_that_an_upsert_touches_are_read(sink):
    sink.take(("u", (1, "eu", 10)), ("u", (2, "us", 20)), ("u", (3, "asia", 30)))
    before = head(sink)
    sink.take(("u", (1, "eu", 11)))
    table = sink.lake.catalog.load(sink.writer.name)
    found = touched(sink.lake.spark, table, before, head(sink))
    assert (len(found.added), len(found.removed), len(found.changed)) == (1, 0, 1)
    assert "region=eu" in found.changed[0].after.location


def test_a_rollback_is_a_difference_and_no_way(sink):
    sink.take(("u", (1, "eu", 10)))
    first = head(sink)
    sink.take(("u", (1, "eu", 11)))
    last = head(sink)
    sink.lake.call("rollback_to_snapshot", table="'shop.t'", snapshot_id=str(first))
    table = sink.lake.catalog.load(sink.writer.name)
    with pytest.raises(UsageError, match="the table was rolled back, or has branches"):
        changes_between(sink.lake.spark, table, last)
    found = sorted(
        (values, kind) for values, kind, _, _ in collected(difference(sink.lake.spark, table, last, first))
    )
    assert found == [((1, "eu", 10), "update_after"), ((1, "eu", 11), "update_before")]


def test_rows_that_cannot_be_compared_as_they_are_cancel_out_too(lake):
    name = lake.name("nested")
    lake.catalog.create_namespace(name.namespace)
    lake.spark.sql(
        f"CREATE TABLE {name.sql()} (id BIGINT, tags MAP<STRING, ARRAY<INT>>, "
        "place STRUCT<at: MAP<INT, STRING>>) USING iceberg "
        "TBLPROPERTIES ('format-version' = '2', 'write.delete.mode' = 'copy-on-write')"
    )
    row = "map('b', array({0}), 'a', array(2, NULL)), named_struct('at', map({0}, 'x'))"
    rows = ", ".join(f"({number}, {row.format(number)})" for number in range(4))
    lake.spark.sql(f"INSERT INTO {name.sql()} VALUES {rows}")
    table = lake.catalog.load(name)
    before = table.metadata().java.currentSnapshot().snapshotId()
    lake.spark.sql(f"DELETE FROM {name.sql()} WHERE id = 2")
    found = collected(changes_between(lake.spark, table, before))
    assert [(values[0], kind) for values, kind, _, _ in found] == [(2, "delete")]


def test_a_change_set_of_a_table_without_snapshots_is_empty(lake):
    table = lake.table()
    assert changes_between(lake.spark, table, None).collect() == []


def test_a_state_has_the_rows_and_columns_of_its_time(sink):
    sink.take(("u", (1, "eu", 10)), ("u", (2, "us", 20)))
    before = head(sink)
    sink.take(("u", (1, "eu", 11)))
    table = sink.lake.catalog.load(sink.writer.name)
    rows = state(sink.lake.spark, table, before, ["amount", "id"], "region = 'eu'")
    assert [tuple(row) for row in rows.collect()] == [(10, 1)]
    with pytest.raises(UsageError, match=r"it has no column 'amuont'; did you mean 'amount'\?"):
        state(sink.lake.spark, table, before, ["amuont"])


def test_a_zero_that_changes_its_sign_is_an_update(lake):
    columns = schema.parse("id BIGINT, d DOUBLE, s STRUCT<f: FLOAT>")
    rows = "SELECT * FROM VALUES (1L, {0}D, named_struct('f', 1F)), (2L, 0D, named_struct('f', {0}F))"
    old, new = (lake.spark.sql(f"{rows.format(zero)} AS t(id, d, s)") for zero in ("0.0", "-0.0"))
    net = multiset.paired(multiset.difference(old, new, columns, "kind"), ["id"], columns, "kind")
    found = sorted((row.id, row.kind, str(row.d), str(row.s.f)) for row in net.collect())
    assert found == [
        (1, "update_after", "-0.0", "1.0"),
        (1, "update_before", "0.0", "1.0"),
        (2, "update_after", "0.0", "-0.0"),
        (2, "update_before", "0.0", "0.0"),
    ]
    assert multiset.difference(new, new, columns, "kind").count() == 0
