"""Upserts, told by what is in the table afterwards and compared with a fold in plain Python."""

from __future__ import annotations

import datetime as dt
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from threading import Thread

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from calve import changes, gateway
from calve.catalogs import Catalog as CatalogDeclaration
from calve.errors import DataRefused, TableGone, Unavailable
from calve.iceberg.deletes import unpartitioned
from calve.iceberg.stage import Staged
from calve.sink.delta import Delta
from calve.verify import opening
from tests.changes import KINDS, LAYOUTS, Sink
from tests.lake import Lake

REWRITE = "map('rewrite-all', 'true')"


@pytest.fixture(params=KINDS.values(), ids=KINDS.keys())
def kind(request):
    return request.param


@pytest.fixture(params=LAYOUTS.values(), ids=LAYOUTS.keys())
def sink(request, kind, lake):
    return Sink(lake, kind, request.param)


@pytest.mark.one_in(3)
def test_changes_of_one_key_within_a_batch_and_over_batches(sink):
    sink.take(("i", (1, "eu", 1)), ("u", (1, "eu", 2)), ("d", (1, "eu", 2)), ("i", (1, "eu", 3)))
    sink.check()
    sink.take(("i", (2, "eu", 1)), ("i", (3, "us", 1)), ("i", (4, "us", 1)))
    sink.take(("u", (2, "eu", 2)), ("d", (3, "us", 1)))
    sink.check()
    sink.take(("d", (2, "eu", 2)), ("u", (4, "us", 2)))
    sink.take(("i", (2, "eu", 9)), ("u", (4, "us", 3)))
    sink.check()


@pytest.mark.one_in(3)
def test_a_row_that_moves_to_another_partition_is_there_once(sink):
    sink.take(("i", (1, "eu", 1)), ("i", (2, "us", 1)))
    sink.take(("u", (1, "us", 2)))
    sink.check()
    sink.take(("u", (1, "eu", 3)), ("u", (2, "eu", 3)))
    sink.check()


@pytest.mark.one_in(3)
def test_a_delete_needs_nothing_but_the_key(sink):
    sink.take(("i", (1, "eu", 1)), ("i", (2, "eu", 1)))
    sink.take(("d", (1, None, None)))
    sink.check()


@pytest.mark.one_in(3)
def test_deletes_of_keys_that_are_not_there_change_nothing(sink):
    sink.take(("d", (7, "eu", None)))
    sink.take(("i", (1, "eu", 1)))
    sink.take(("d", (7, "eu", None)), ("d", (8, None, None)))
    sink.check()


def test_a_folder_that_cannot_be_written_to_is_said_and_waited_for(lake):
    sink = Sink(lake, KINDS["position, format 2"])
    sink.take(("i", (1, "eu", 1)))
    data = Path(sink.writer.table.metadata().location.removeprefix("file:")) / "data"
    aside = data.rename(data.with_name("aside"))
    data.touch()
    with pytest.raises(Unavailable, match=r"Cannot write \w+ files of table 'shop.t': .*data"):
        sink.writer.stage(sink.frame([("u", (1, "eu", 2))]), 1)
    data.unlink()
    aside.rename(data)
    sink.take(("u", (1, "eu", 2)))
    sink.check()


def test_a_delete_that_only_leaves_a_tombstone_is_committed():
    assert not Delta((), 0, 0, tombstones=Staged((), 1, 1)).is_empty
    assert Delta((), 0, 0).is_empty


@pytest.mark.one_in(3)
def test_a_batch_without_changes_changes_nothing(sink):
    sink.take(("i", (1, "eu", 1)))
    sink.take()
    sink.check()


@pytest.mark.one_in(3)
def test_the_same_changes_again_change_nothing(sink):
    batch = (("i", (1, "eu", 1)), ("i", (2, "us", 1)), ("d", (1, "eu", 1)))
    sink.take(*batch)
    sink.take(*batch)
    sink.check()


def test_many_keys_in_one_commit(lake, kind):
    sink = Sink(lake, kind)
    sink.take(*(("i", (number, "eu", 0)) for number in range(2_000)))
    sink.take(*(("u", (number, "us", 1)) for number in range(1_000, 3_000)), *[("u", (5, "eu", 5))] * 2)
    sink.check()


KEYS = {
    "STRING": ["plain", "it's", 'a "quoted" one', "🧊", "", "a\\b\n", "NULL"],
    "DECIMAL(20,4)": [Decimal("1.0000"), Decimal("-99999999999.1234"), Decimal("0.0001")],
    "DATE": [dt.date(1500, 1, 1), dt.date(1970, 1, 1), dt.date(2026, 11, 16)],
    "TIMESTAMP_NTZ": [dt.datetime(1970, 1, 1), dt.datetime(2026, 1, 1, 12, 0, 0, 123456)],
    "BINARY": [bytearray(b""), bytearray(b"\x00\xff"), bytearray(b"abc")],
    "INT": [0, -1, 2**31 - 1],
    "BOOLEAN": [True, False],
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", KEYS)
def test_keys_of_every_type(lake, kind, name):
    sink = Sink(lake, kind, columns=f"k {name}, n INT", keys=("k",))
    sink.fold = lambda batch: None
    sink.take(*(("i", (value, 0)) for value in KEYS[name]))
    sink.take(*(("u", (value, 1)) for value in KEYS[name][1:]))
    sink.take(("d", (KEYS[name][0], None)))
    assert sorted(sink.rows(), key=repr) == sorted([(value, 1) for value in KEYS[name][1:]], key=repr)


def test_a_key_of_several_columns(lake, kind):
    sink = Sink(lake, kind, columns="a STRING, b INT, n INT", keys=("a", "b"))
    sink.take(("i", ("x", 1, 0)), ("i", ("x", 2, 0)), ("i", ("y", 1, 0)))
    sink.take(("u", ("x", 2, 1)), ("d", ("y", 1, None)), ("i", ("y", 2, 1)))
    sink.check()


def test_a_change_without_a_key_is_refused_and_nothing_is_committed(lake, kind):
    sink = Sink(lake, kind)
    with pytest.raises(DataRefused, match="NULL in key column 'id'"):
        sink.take(("i", (1, "eu", 1)), ("i", (None, "eu", 1)))
    sink.check()


def test_the_key_is_the_tables_identifier(lake, kind):
    sink = Sink(lake, kind, columns="a STRING, b INT, n INT", keys=("a", "b"))
    names = sink.writer.table.metadata().java.schema().identifierFieldNames()
    assert set(names) == {"a", "b"}


@pytest.mark.one_in(3)
def test_a_restart_goes_on_where_the_table_is(sink):
    sink.take(("i", (1, "eu", 1)), ("i", (2, "us", 1)))
    sink.start()
    sink.take(("u", (1, "eu", 2)))
    sink.check()


def test_both_kinds_of_deletes_live_in_one_table(lake):
    sink = Sink(lake, KINDS["position, format 2"], ["region"])
    sink.take(("i", (1, "eu", 1)), ("i", (2, "us", 1)), ("i", (3, "us", 1)))
    for deletes in ("equality", "position", "equality"):
        sink.declared = sink.declared.model_copy(update={"deletes": deletes})
        sink.start()
        sink.take(("u", (1, "eu", sink.position)), ("u", (2, "us", sink.position)))
        sink.check()


def test_partitions_that_were_evolved_are_found(lake, kind):
    sink = Sink(lake, kind, ["region"])
    sink.take(("i", (1, "eu", 1)), ("i", (2, "us", 1)))
    java = sink.writer.table.java
    java.updateSpec().removeField("region").addField("amount").commit()
    sink.declared = sink.declared.model_copy(update={"partition_by": [], "partitioning": "table_default"})
    sink.start()
    sink.take(("u", (1, "eu", 2)), ("i", (3, "eu", 2)))
    sink.take(("u", (1, "us", 3)), ("d", (2, None, None)), ("u", (3, "eu", 3)))
    sink.check()


def foreign(lake, sink):
    """Another writer's view of the table."""
    return lake.catalog.load(sink.writer.name)


def test_rows_that_another_writer_adds_under_the_commit_are_replaced_too(lake, kind):
    sink = Sink(lake, kind)
    sink.take(("i", (1, "eu", 1)))
    staged = sink.writer.stage(sink.frame([("u", (1, "eu", 2)), ("u", (5, "eu", 2))]), 2)
    lake.spark.sql(f"INSERT INTO {sink.writer.name.sql()} VALUES (5, 'us', 0)")
    sink.writer.commit(staged, {"row": 9})
    sink.fold([("u", (1, "eu", 2)), ("u", (5, "eu", 2))])
    sink.check()


def test_a_spec_for_equality_deletes_is_added_to_a_table_that_another_writer_has_changed(lake):
    sink = Sink(lake, KINDS["equality"], LAYOUTS["partitioned"])
    known = sink.writer.table
    lake.spark.sql(f"INSERT INTO {sink.writer.name.sql()} VALUES (1, 'eu', 1), (2, 'us', 2)")
    assert unpartitioned(known).isUnpartitioned()
    sink.take(("u", (1, "eu", 10)))
    assert sorted(sink.rows()) == [(1, "eu", 10), (2, "us", 2)]


def test_a_compaction_under_the_commit_is_looked_up_again(lake, kind):
    sink = Sink(lake, kind)
    sink.take(("i", (1, "eu", 1)), ("i", (2, "eu", 1)))
    sink.take(("i", (3, "eu", 1)), ("u", (2, "eu", 2)))
    staged = sink.writer.stage(sink.frame([("u", (1, "eu", 2)), ("d", (3, None, None))]), 2)
    lake.call("rewrite_data_files", table=f"'{sink.writer.name}'", options="map('rewrite-all', 'true')")
    sink.writer.commit(staged, {"row": 9})
    sink.fold([("u", (1, "eu", 2)), ("d", (3, None, None))])
    sink.check()


@pytest.mark.one_in(3)
def test_compactions_beside_upserts_bring_nothing_back(lake, kind):
    sink, compactions = Sink(lake, kind), []
    sink.take(*(("i", (number, "eu", 0)) for number in range(50)))

    def compact():
        for _ in range(40):
            with suppress(Exception):  # It is refused where a batch has changed what it rewrote.
                lake.call("rewrite_data_files", table=f"'{sink.writer.name}'", options=REWRITE)
                compactions.append(1)
            if len(compactions) == 4:
                return

    compactor = Thread(target=compact, daemon=True)
    compactor.start()
    batches, lookups = 0, 0
    while compactor.is_alive() or batches < 8:
        batches += 1
        updates = [("u", (number, "eu", batches)) for number in range(batches % 7, 50, 7)]
        staged = sink.take(*updates, ("d", (batches % 50, None, None)))
        lookups += staged.cost.lookups
        if batches % 4 == 0:
            # A compaction takes longer than a batch; without a pause none would get through.
            compactor.join(3)
    print(f"{batches} batches, {len(compactions)} compactions, {lookups} look-ups")
    assert len(compactions) == 4
    sink.check()


def changed(sink, rows, unknown=None):
    """A batch whose changes carry what `unknown` says for their index."""
    frame = sink.frame(rows)
    from pyspark.sql import functions as f

    for index, names in (unknown or {}).items():
        told = f.array(*map(f.lit, names))
        frame = frame.withColumn(
            "_calve_unknown",
            f.when(f.col("_calve_order").at == index, told).otherwise(f.col("_calve_unknown")),
        )
    return frame


def commit(sink, frame):
    staged = sink.writer.stage(frame, 3)
    sink.position += 1
    sink.writer.commit(staged, {"row": sink.position})
    return staged


def test_columns_that_a_change_does_not_know_keep_the_tables_value(lake, kind):
    sink = Sink(lake, kind)
    sink.take(("i", (1, "eu", 1)), ("i", (2, "us", 1)))
    commit(sink, changed(sink, [("u", (1, None, 5)), ("u", (2, "us", 7))], {0: ["region"]}))
    assert sorted(sink.rows()) == [(1, "eu", 5), (2, "us", 7)]


def test_columns_that_only_the_last_change_does_not_know_are_taken_from_the_batch(lake, kind):
    sink = Sink(lake, kind)
    sink.take(("i", (1, "eu", 1)), ("i", (2, "us", 2)))
    batch = [("u", (1, "asia", 2)), ("u", (1, None, 3)), ("d", (2, None, None))]
    commit(sink, changed(sink, batch, {1: ["region"]}))
    assert sorted(sink.rows()) == [(1, "asia", 3)]


def test_a_null_that_the_batch_knows_is_not_replaced_by_the_tables_value(lake, kind):
    sink = Sink(lake, kind)
    sink.take(("i", (1, "eu", 1)))
    commit(sink, changed(sink, [("u", (1, None, 2)), ("u", (1, None, 3))], {1: ["region"]}))
    assert sink.rows() == [(1, None, 3)]


def test_a_column_that_nobody_knows_is_refused(lake, kind):
    sink = Sink(lake, kind)
    sink.take(("i", (1, "eu", 1)))
    with pytest.raises(DataRefused, match="no row with their keys"):
        commit(sink, changed(sink, [("u", (9, None, 5))], {0: ["region"]}))
    assert sink.rows() == [(1, "eu", 1)]


def test_changes_that_are_older_than_what_the_table_has_are_passed_over(lake, kind):
    sink = Sink(lake, kind, order_by="amount")
    sink.take(("i", (1, "eu", 5)), ("i", (2, "eu", 5)))
    staged = commit(sink, sink.frame([("u", (1, "old", 4)), ("u", (2, "new", 6))]))
    assert sorted(sink.rows()) == [(1, "eu", 5), (2, "new", 6)]
    assert staged.dropped == 1


def test_changes_that_are_older_than_a_delete_are_passed_over(lake, kind):
    sink = Sink(lake, kind, order_by="amount")
    sink.take(("i", (1, "eu", 1)), ("i", (2, "eu", 1)))
    commit(sink, sink.frame([("d", (1, "eu", 5))]))
    sink.start()
    commit(sink, sink.frame([("u", (1, "late", 4)), ("u", (2, "new", 2))]))
    assert sorted(sink.rows()) == [(2, "new", 2)]
    commit(sink, sink.frame([("i", (1, "again", 6))]))
    assert sorted(sink.rows()) == [(1, "again", 6), (2, "new", 2)]


def test_within_a_batch_the_order_is_that_of_the_declared_column(lake, kind):
    sink = Sink(lake, kind, order_by="amount")
    commit(sink, sink.frame([("u", (1, "late", 9)), ("u", (1, "early", 3))]))
    assert sink.rows() == [(1, "late", 9)]


def test_a_delete_without_an_order_counts_and_leaves_the_order_of_the_row(lake):
    sink = Sink(lake, KINDS["vectors"], order_by="amount")
    commit(sink, sink.frame([("i", (1, "eu", 5)), ("d", (1, None, None)), ("i", (2, "eu", 5))]))
    assert sink.rows() == [(2, "eu", 5)]
    commit(sink, sink.frame([("d", (2, None, None))]))
    commit(sink, sink.frame([("u", (1, "late", 4)), ("u", (2, "late", 4))]))
    assert sink.rows() == []
    commit(sink, sink.frame([("u", (1, "new", 5)), ("u", (2, "new", 6))]))
    assert sorted(sink.rows()) == [(1, "new", 5), (2, "new", 6)]


def test_a_row_without_an_order_counts_when_it_arrives_and_keeps_older_ones_out(lake):
    sink = Sink(lake, KINDS["vectors"], order_by="amount")
    commit(sink, sink.frame([("i", (1, "eu", 5)), ("u", (1, "none", None)), ("i", (2, "none", None))]))
    assert sorted(sink.rows()) == [(1, "none", None), (2, "none", None)]
    commit(sink, sink.frame([("u", (1, "late", 4)), ("u", (2, "any", 4))]))
    assert sorted(sink.rows()) == [(1, "none", None), (2, "any", 4)]


def test_a_column_of_a_row_that_the_batch_took_out_is_not_known(lake):
    sink = Sink(lake, KINDS["vectors"])
    sink.take(("i", (1, "eu", 1)))
    with pytest.raises(DataRefused, match="no row with their keys"):
        commit(sink, changed(sink, [("d", (1, None, None)), ("u", (1, None, 5))], {1: ["region"]}))
    sink.check()


TRUNCATED = [("i", (7, "before", 1)), ("t", (None, None, None)), ("i", (8, "after", 1))]


def test_a_truncated_source_stops_the_pipeline(lake, kind):
    sink = Sink(lake, kind)
    sink.take(("i", (1, "eu", 1)))
    with pytest.raises(DataRefused, match="the source was truncated"):
        commit(sink, sink.frame(TRUNCATED))
    sink.check()


def test_a_truncated_source_may_be_ignored(lake, kind):
    sink = Sink(lake, kind, truncate="ignore")
    sink.take(("i", (1, "eu", 1)))
    commit(sink, sink.frame(TRUNCATED))
    assert sorted(sink.rows()) == [(1, "eu", 1), (7, "before", 1), (8, "after", 1)]


def test_a_truncated_source_may_empty_the_table(lake, kind):
    sink = Sink(lake, kind, truncate="delete")
    sink.take(("i", (1, "eu", 1)))
    commit(sink, sink.frame(TRUNCATED))
    assert sink.rows() == [(8, "after", 1)]


def test_a_truncate_that_has_a_key_empties_the_table_too(lake):
    sink = Sink(lake, KINDS["vectors"], truncate="delete")
    sink.take(("i", (1, "eu", 1)))
    commit(sink, sink.frame([("t", (8, None, None)), ("i", (8, "after", 1))]))
    assert sink.rows() == [(8, "after", 1)]


def test_a_column_that_is_not_known_behind_a_truncate_is_refused(lake):
    sink = Sink(lake, KINDS["vectors"], truncate="delete")
    sink.take(("i", (1, "eu", 1)))
    with pytest.raises(DataRefused, match="no row with their keys"):
        commit(sink, changed(sink, [("t", (None, None, None)), ("u", (1, None, 5))], {1: ["region"]}))
    sink.check()


def test_a_truncate_among_records_of_several_partitions_is_refused(lake):
    from pyspark.sql import functions as f

    sink = Sink(lake, KINDS["vectors"], truncate="delete")
    sink.take(("i", (1, "eu", 1)))
    order = f.col(changes.ORDER).withField("time", f.lit(5).cast("bigint"))
    with pytest.raises(DataRefused, match="several partitions"):
        commit(sink, sink.frame(TRUNCATED).withColumn(changes.ORDER, order))
    sink.check()


def test_two_hundred_thousand_keys_in_one_commit_of_which_a_hundred_twice(lake, kind):
    sink = Sink(lake, kind)
    place = "named_struct('seq', CAST(NULL AS BIGINT), 'lane', 0L, 'at', at, 'part', 0) AS _calve_order"
    rest = (place, "CAST(NULL AS TIMESTAMP) AS _calve_ts", "CAST(NULL AS ARRAY<STRING>) AS _calve_unknown")

    def batch(amount, first, count):
        ids = lake.spark.range(count).selectExpr(f"id + {first} AS id", "id AS at")
        again = lake.spark.range(100).selectExpr(f"id + {first} AS id", f"id + {count} AS at")
        both = ids.selectExpr("*", f"{amount} AS amount").union(
            again.selectExpr("*", f"{amount + 1} AS amount")
        )
        return both.selectExpr("id", "'eu' AS region", "amount", "'u' AS _calve_op", *rest)

    for amount, first in ((10, 0), (20, 100_000)):
        sink.writer.commit(sink.writer.stage(batch(amount, first, 200_000), 200_100), {"row": amount})
    found = lake.spark.table(sink.writer.name.sql()).groupBy("amount").count().collect()
    assert {row["amount"]: row["count"] for row in found} == {10: 99_900, 11: 100, 20: 199_900, 21: 100}


def migrate(sink, folder, **columns):
    """Write a Parquet file without field ids into a folder of the table's data."""
    place = Path(sink.writer.table.metadata().location.removeprefix("file:")) / "data" / folder
    place.mkdir(parents=True)
    kinds = [pa.field(name, values.type, name == "amount") for name, values in columns.items()]
    pq.write_table(pa.table(list(columns.values()), schema=pa.schema(kinds)), place / "x.parquet")
    return place / "x.parquet"


NUMBERS, AMOUNTS = pa.array([1, 2, 3], pa.int64()), pa.array([0, 0, 0], pa.int32())


def test_rows_of_files_without_field_ids_are_replaced(spark, tmp_path):
    lake = Lake.open(spark, CatalogDeclaration.model_validate({"warehouse": str(tmp_path)}))
    sink = Sink(lake, KINDS["position, format 2"])
    file = migrate(sink, "hive", id=NUMBERS, region=pa.array(["eu"] * 3), amount=AMOUNTS)
    opening.embedded(str(tmp_path)).load_table("shop.t").add_files([str(file)])
    sink.expected = {(number,): (number, "eu", 0) for number in (1, 2, 3)}
    sink.writer.table.refresh()
    sink.take(("u", (1, "us", 5)), ("d", (2, "eu", None)), ("i", (4, "us", 7)))
    sink.check()


def test_rows_whose_key_is_only_in_the_partition_are_replaced(lake):
    sink = Sink(lake, KINDS["vectors"], ["region"], keys=("id", "region"))
    file = migrate(sink, "region=eu", id=NUMBERS, amount=AMOUNTS)
    lake.call("add_files", table="'shop.t'", source_table=f"'`parquet`.`{file.parent.parent}`'")
    sink.writer.table.refresh()
    sink.take(("u", (1, "eu", 5)), ("d", (2, "eu", None)), ("i", (3, "us", 7)))
    assert sorted(sink.rows()) == [(1, "eu", 5), (3, "eu", 0), (3, "us", 7)]


def test_rows_that_have_a_key_by_its_initial_default_are_replaced(lake):
    sink = Sink(lake, KINDS["vectors"], columns="id BIGINT, amount INT")
    sink.take(("i", (1, 0)), ("i", (2, 0)))
    table, iceberg = sink.writer.table, gateway.jvm().org.apache.iceberg
    kind, default = iceberg.types.Types.StringType.get(), iceberg.expressions.Literal.of("eu")
    table.java.updateSchema().addRequiredColumn("region", kind, None, default).commit()
    sink = Sink(lake, KINDS["vectors"], columns="id BIGINT, region STRING, amount INT", keys=("id", "region"))
    sink.take(("u", (1, "eu", 5)), ("d", (2, "us", None)), ("i", (3, "us", 7)))
    found = {(row.id, row.region, row.amount) for row in lake.spark.table(sink.writer.name.sql()).collect()}
    assert found == {(1, "eu", 5), (2, "eu", 0), (3, "us", 7)}


def test_the_tombstone_of_a_delete_that_counts_only_when_it_is_staged_again_is_kept(lake):
    """The table has a newer row when the delete is looked at first, and an older one when it is committed."""
    sink = Sink(lake, KINDS["position, format 2"], order_by="amount")
    sink.take(("i", (1, "eu", 9)), ("i", (2, "eu", 1)))
    batch = [("d", (1, "eu", 5)), ("u", (2, "eu", 5))]
    staged = sink.writer.stage(sink.frame(batch), len(batch))
    lake.spark.sql(f"UPDATE {sink.writer.name.sql()} SET amount = 3 WHERE id = 1")
    sink.writer.commit(staged, {"row": 4})
    sink.take(("u", (1, "eu", 4)))
    assert sink.rows() == [(2, "eu", 5)]


def test_a_table_of_tombstones_that_was_dropped_is_named(lake):
    sink = Sink(lake, KINDS["position, format 2"], order_by="amount")
    sink.take(("i", (1, "eu", 1)))
    lake.catalog.drop(lake.name("t__tombstones"))
    with pytest.raises(TableGone, match=r"table 'shop.t__tombstones': it is no longer there") as caught:
        sink.take(("u", (1, "eu", 2)))
    assert caught.value.exit_code == 78
