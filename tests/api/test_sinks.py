"""Programs that write: each write once, whatever happens to the program."""

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

import calve
from calve import crash
from calve.crash import Crash, Fault
from calve.errors import (
    ConfigurationError,
    DataRefused,
    DeclarationError,
    Fenced,
    StartRefused,
    UsageError,
)
from calve.position import parse

POINTS = ("fence.swapped", "stage.after", "commit.before", "commit.swapped", "commit.confirmed")


@pytest.fixture(autouse=True)
def no_plan():
    yield
    crash.load(())


def table(lake):
    return lake.catalog.load(lake.name("t"))


def mark(lake):
    return parse(table(lake).metadata().property("calve.sink.loader"))


def commits(lake):
    return [one for one in table(lake).metadata().snapshots() if int(one.summary.get("added-records", 0))]


def test_writes_are_held_back_and_committed_together(lake, sink):
    now = [0.0]
    one = sink(checkpoint_interval="1m", clock=lambda: now[0])
    assert one.write(lake.rows([1, 2]), id="a")
    assert one.write(lake.rows([3]), id="b")
    assert (one.status().pending_writes, one.status().pending_rows, one.status().rows) == (2, 3, 0)
    assert lake.ids(table(lake)) == []
    now[0] = 61.0
    assert one.write(lake.rows([4]), id="c")
    assert (one.status().pending_writes, one.status().rows, one.status().commits) == (0, 4, 1)
    assert lake.ids(table(lake)) == [1, 2, 3, 4]
    assert len(commits(lake)) == 1
    now[0] = 62.0
    one.write(lake.rows([5]))
    assert one.flush().rows == 5
    assert one.stop().state == "stopped"


def test_a_program_that_is_run_again_writes_nothing_again(lake, sink):
    for _ in range(2):
        with sink() as one:
            one.write(lake.rows([1]), id="monday")
            one.write(lake.rows([2]), id="tuesday")
    before = table(lake).metadata().file
    again = sink()
    assert not again.write(lake.rows([1]), id="monday")
    assert again.stop().skipped == 1
    assert lake.ids(table(lake)) == [1, 2]
    assert table(lake).metadata().file == before


def test_a_number_stands_for_all_before_it(lake, sink):
    with sink(checkpoint_interval=0) as one:
        assert one.write(lake.rows([1]), id=5)
        assert not one.write(lake.rows([2]), id=4)
        assert one.write(lake.rows([3]), id=6)
    assert mark(lake).position["number"] == 6
    assert lake.ids(table(lake)) == [1, 3]


def test_writes_without_a_name_are_each_one_of_their_own(lake, sink):
    with sink() as one:
        one.write(lake.rows([1]))
        one.write(lake.rows([1]))
    assert lake.ids(table(lake)) == [1, 1]


@pytest.mark.parametrize("point", POINTS)
def test_a_crash_at_any_point_and_another_run_give_every_write_once(lake, sink, point):
    def program():
        one = sink(checkpoint_interval=0)
        for number in (1, 2, 3):
            one.write(lake.rows([number]), id=f"write {number}")
        one.stop()

    crash.load((Fault(point, nth=1 if point == "fence.swapped" else 2),))
    with pytest.raises(Crash):
        program()
    assert len(crash.fired()) == 1
    crash.load(())
    program()
    assert lake.ids(table(lake)) == [1, 2, 3]


def test_what_a_failed_program_held_back_is_left_for_its_next_run(lake, sink):
    one = sink()
    one.write(lake.rows([1]), id="a")
    one.__exit__(ZeroDivisionError)
    assert one.status().state == "failed"
    with sink() as one:
        assert one.write(lake.rows([1]), id="a")
    assert lake.ids(table(lake)) == [1]


def test_a_second_program_takes_the_sink_over(lake, sink):
    first = sink(checkpoint_interval=0)
    first.write(lake.rows([1]))
    second = sink(checkpoint_interval=0)
    second.write(lake.rows([2]))
    with pytest.raises(Fenced):
        first.write(lake.rows([3]))
    assert first.status().state == "failed"
    with pytest.raises(UsageError, match="it has failed; make another one"):
        first.write(lake.rows([3]))
    assert lake.ids(table(lake)) == [1, 2]


def test_upserts_see_the_rows_of_the_write_before(lake, sink):
    with sink(commit_mode="upsert", key_fields=["id"], operation="_op") as one:
        one.write(lake.rows([1, 2]).selectExpr("*", "'u' AS _op"), id="a")
        changed = lake.spark.createDataFrame(
            [(2, "two", "U"), (3, "three", "insert")], "id BIGINT NOT NULL, name STRING, _op STRING"
        )
        one.write(changed, id="b")
        gone = lake.spark.createDataFrame([(1, None, "d")], "id BIGINT NOT NULL, name STRING, _op STRING")
        one.write(gone, id="c")
    rows = lake.spark.table(lake.name("t").sql()).collect()
    assert sorted((row.id, row.name) for row in rows) == [(2, "two"), (3, "three")]


CHANGE = "id BIGINT NOT NULL, name STRING, _op STRING"


@pytest.mark.parametrize("word", ["zzz", None, "Delete"])
def test_an_operation_that_is_none_is_refused_and_nothing_is_written(lake, sink, word):
    one = sink(commit_mode="upsert", key_fields=["id"], operation="_op", checkpoint_interval=0)
    one.write(lake.spark.createDataFrame([(1, "a", "i"), (2, "b", "INSERT")], CHANGE))
    rows = lake.spark.createDataFrame([(2, "c", "update"), (1, None, word)], CHANGE)
    with pytest.raises(DataRefused, match=r"column '_op': .* is none of the operations 'c', 'r', 'i'"):
        one.write(rows)
    assert one.status().state == "failed"
    found = lake.spark.table(lake.name("t").sql()).collect()
    assert sorted((row.id, row.name) for row in found) == [(1, "a"), (2, "b")]


def test_words_of_its_own_say_what_rows_do(lake, sink):
    said = {"field": "_op", "delete": ["gone"]}
    with sink(commit_mode="upsert", key_fields=["id"], operation=said) as one:
        one.write(lake.spark.createDataFrame([(1, "a", "i"), (2, "b", "i"), (1, None, "gone")], CHANGE))
    assert lake.ids(table(lake)) == [2]


def test_a_column_called_op_is_data_unless_an_upsert_leaves_open_what_it_says(lake, sink):
    rows = lake.spark.createDataFrame([(1, "a", "d"), (2, "b", "zzz"), (3, "c", None)], CHANGE)
    upsert = {"commit_mode": "upsert", "key_fields": ["id"]}
    with pytest.raises(ConfigurationError, match="give the sink operation='_op' if it says what"):
        sink(**upsert).write(rows)
    assert not lake.catalog.has_table(lake.name("t"))
    for number, keys in enumerate(({}, {**upsert, "operation": None}, upsert)):
        with sink(table=f"t{min(number, 1)}", **keys) as one:
            one.write(rows)
        found = lake.spark.table(lake.name(f"t{min(number, 1)}").sql()).orderBy("id").collect()
        assert [row["_op"] for row in found] == ["d", "zzz", None]


def test_an_operation_that_cannot_be_is_refused(lake, sink):
    upsert = {"commit_mode": "upsert", "key_fields": ["id"]}
    with pytest.raises(DeclarationError, match="operation: has no effect without commit_mode: upsert"):
        sink(operation="_op")
    with pytest.raises(DeclarationError, match="operation: name a column, or give a mapping"):
        sink(**upsert, operation=5)
    with pytest.raises(ConfigurationError, match="they have no column 'opp', which 'operation' names"):
        sink(**upsert, operation="opp").write(lake.rows([1]))
    with pytest.raises(ConfigurationError, match="is BIGINT; it must be a STRING"):
        sink(**upsert, operation="id").write(lake.rows([1]))


def test_a_first_write_that_cannot_be_computed_leaves_no_table_and_a_failed_sink(lake, sink):
    one = sink()
    with pytest.raises(DataRefused):
        one.write(lake.rows([1]).selectExpr("id", "CAST('x' || name AS INT) AS n"))
    assert not lake.catalog.has_table(lake.name("t"))
    with pytest.raises(UsageError, match="it has failed; make another one"):
        one.write(lake.rows([1]))


@pytest.mark.parametrize("names", [["id", "id"], ["a", "A"]])
def test_columns_that_one_name_stands_for_are_refused_before_there_is_a_table(lake, sink, names):
    with pytest.raises(ConfigurationError, match=f"the rows have a column '{names[1]}'") as caught:
        sink().write(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=names))
    assert "\n" not in str(caught.value)
    assert not lake.catalog.has_table(lake.name("t"))


def test_a_copy_of_changes_takes_out_what_was_deleted(lake, orders, sink):
    lake.spark.sql(f"DELETE FROM `{lake.catalog.name}`.shop.orders WHERE id = 2")
    source = calve.IcebergSource(
        catalog=lake.declaration, namespace="shop", table="orders", read_mode="changes",
        start_snapshot="earliest", key_fields=["id"],
    )  # fmt: skip
    assert set(source.read(lake.spark).columns) == {"id", "name", "_op", "_seq", "_ts"}
    with sink(commit_mode="upsert", key_fields=["id"]) as one:
        for batch in source.stream(lake.spark, available_now=True):
            one.write(batch)
    assert lake.ids(table(lake)) == [1, 3]


def test_rows_of_arrow_are_written_and_new_columns_added(lake, sink):
    with sink() as one:
        one.write(pa.table({"id": [1, 2]}), id="a")
        one.write(pa.table({"id": [3], "note": ["x"]}), id="b")
    rows = lake.spark.table(lake.name("t").sql()).collect()
    assert sorted((row.id, row.note) for row in rows) == [(1, None), (2, None), (3, "x")]


def test_a_write_without_rows_is_remembered(lake, sink):
    with sink() as one:
        assert one.write(lake.rows([1]).where("id > 5"), id="nothing")
    with sink() as one:
        assert not one.write(lake.rows([1]), id="nothing")


def test_a_copy_goes_on_where_its_table_stands(lake, orders, sink):
    from tests.api.conftest import append

    def copy():
        source = calve.IcebergSource(
            catalog=lake.declaration, namespace="shop", table="orders", read_mode="incremental",
            start_snapshot="full",
        )  # fmt: skip
        with sink(checkpoint_interval=0) as one:
            after = one.position(source)
            for batch in source.stream(lake.spark, after=after, available_now=True):
                one.write(batch)
            return one.status().rows

    assert copy() == 3
    append(lake, "shop.orders", [4])
    assert copy() == 1
    assert copy() == 0
    assert lake.ids(table(lake)) == [1, 2, 3, 4]


def stream(lake, tmp_path, one):
    """A stream of the program's own, up to the end of what is there."""
    frame = lake.spark.readStream.schema("id BIGINT, name STRING").option("maxFilesPerTrigger", 1)
    writer = frame.json(str(tmp_path / "in")).writeStream.trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(tmp_path / "state")).foreachBatch(one.batch).start()
    query.awaitTermination()


def put(tmp_path, name, number):
    (tmp_path / "in").mkdir(exist_ok=True)
    (tmp_path / "in" / name).write_text(f'{{"id": {number}, "name": "x"}}\n')


def test_a_stream_of_the_program_is_written_batch_by_batch(lake, sink, tmp_path):
    put(tmp_path, "1.json", 1)
    put(tmp_path, "2.json", 2)
    stream(lake, tmp_path, sink())
    assert mark(lake).position["batch"] == 1
    put(tmp_path, "3.json", 3)
    one = sink()
    stream(lake, tmp_path, one)
    assert one.status().rows == 1
    assert lake.ids(table(lake)) == [1, 2, 3]


def test_a_stream_with_another_checkpoint_is_refused_until_the_program_forgets(lake, sink, tmp_path):
    import shutil

    from pyspark.errors import StreamingQueryException

    put(tmp_path, "1.json", 1)
    stream(lake, tmp_path, sink())
    shutil.rmtree(tmp_path / "state")
    with pytest.raises(StreamingQueryException, match="and the stream has checkpoint"):
        stream(lake, tmp_path, sink())
    sink().forget(lake.spark)
    stream(lake, tmp_path, sink())
    assert lake.ids(table(lake)) == [1, 1]


def test_a_batch_outside_of_a_stream_is_refused(lake, sink):
    with pytest.raises(UsageError, match=r"writeStream.foreachBatch\(sink.batch\)"):
        sink().batch(lake.rows([1]), 0)


def test_a_refusal_names_the_call_that_decides(lake, sink):
    with sink() as one:
        one.write(lake.rows([1]), id="a")
    lake.call("rollback_to_snapshot", table="'shop.t'", snapshot_id=str(first(lake)))
    with pytest.raises(StartRefused, match=r"was rolled back .* decide with: IcebergSink.forget\(\)$"):
        sink().write(lake.rows([2]), id="b")
    one = sink()
    one.forget(lake.spark)
    assert one.write(lake.rows([1]), id="a")


def first(lake):
    return table(lake).metadata().snapshots()[0].id


def test_every_arrow_type_of_the_docs_is_written_as_the_docs_say(lake, sink):
    at = dt.datetime(2026, 1, 2, 3, 4, 5, 123456)
    utc = dt.timezone.utc
    values = {
        "u8": pa.array([255], pa.uint8()),
        "u16": pa.array([65535], pa.uint16()),
        "u32": pa.array([2**32 - 1], pa.uint32()),
        "u64": pa.array([2**64 - 1], pa.uint64()),
        "half": pa.array([1.5], pa.float16()),
        "view": pa.array(["é"], pa.string_view()),
        "word": pa.array(["a"]).dictionary_encode(),
        "day": pa.array([at.date()], pa.date64()),
        "local": pa.array([at], pa.timestamp("ns")),
        "zoned": pa.array([at.replace(tzinfo=utc)], pa.timestamp("us", "Africa/Lagos")),
        "items": pa.array([[1, 2]], pa.large_list(pa.uint8())),
        "pairs": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.uint16())),
    }
    with sink() as one:
        assert one.write(pa.table(values), id="a")
    assert table(lake).metadata().schema().ddl() == (
        "u8 INT, u16 INT, u32 BIGINT, u64 DECIMAL(20,0), half FLOAT, view STRING, word STRING, day DATE, "
        "local TIMESTAMP_NTZ, zoned TIMESTAMP, items ARRAY<INT>, pairs MAP<STRING, INT>"
    )
    (row,) = lake.spark.table(lake.name("t").sql()).toArrow().to_pylist()
    assert row == {
        "u8": 255, "u16": 65535, "u32": 2**32 - 1, "u64": Decimal(2**64 - 1), "half": 1.5, "view": "é",
        "word": "a", "day": at.date(), "local": at, "zoned": at.replace(tzinfo=utc), "items": [1, 2],
        "pairs": [("a", 1)],
    }  # fmt: skip


NOT_UTF8 = pa.Array.from_buffers(
    pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff")]
)


@pytest.mark.parametrize(
    ("values", "why"),
    [
        (
            pa.array([1_123_456_789], pa.timestamp("ns")),
            "column 'v': a value is not a TIMESTAMP_NTZ: .*lose data",
        ),
        (pa.array([1_123_456_789], pa.timestamp("ns", "UTC")), "column 'v': a value is not a TIMESTAMP: "),
        (
            pa.array([[("a", 1), ("a", 2)]], pa.map_(pa.string(), pa.int32())),
            "column 'v': a key of a map comes twice",
        ),
        (NOT_UTF8, "column 'v': a text is not valid UTF-8"),
        (pa.array([5], pa.time64("us")), "column 'v' is time64"),
        (pa.array([1], pa.duration("s")), "column 'v' is duration"),
    ],
)
def test_what_arrow_has_and_a_table_cannot_hold_exactly_is_refused(lake, sink, values, why):
    with pytest.raises(DataRefused, match=f"^Cannot write an Arrow table: {why}"):
        sink().write(pa.table({"v": values}))
    assert not lake.catalog.has_table(lake.name("t"))


@pytest.mark.parametrize("rows", [None, [1], {"a": 1}, "x"])
def test_what_is_no_rows_is_refused(lake, sink, rows):
    with pytest.raises(UsageError, match=r"Cannot write a \w+: give a DataFrame of Spark, an Arrow table"):
        sink().write(rows)
