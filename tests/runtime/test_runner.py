import threading
import time

import pytest

from calve import crash
from calve.crash import Crash, Fault
from calve.errors import Fenced, TableMismatch
from calve.position import parse
from calve.project import ResolvedPipeline
from calve.runtime.report import Report
from calve.runtime.runner import Runner
from calve.runtime.stop import Stop
from calve.sink.declaration import IcebergSink
from calve.sources.datagen import DatagenSource
from calve.transforms.sql import SqlTransform
from tests.lake import Lake
from tests.script import Batch, ScriptSource


@pytest.fixture(autouse=True)
def no_plan():
    yield
    crash.load(())


@pytest.fixture
def pipeline(lake):
    def make(rows=100, transforms=(), rows_per_second=None, **keys):
        source = DatagenSource(rows=rows, rows_per_second=rows_per_second)
        sink = IcebergSink.model_validate(
            {"catalog": lake.declaration, "namespace": "shop", "table": "orders", **keys}
        )
        return ResolvedPipeline("orders", source, sink, tuple(transforms), "orders", True)

    return make


def run(lake, pipeline, stop=None, once=False):
    report = Report("orders")
    Runner(pipeline, lake.spark, stop or Stop(), report, once).run()
    return report.status


def orders(lake):
    return lake.catalog.load(lake.name("orders"))


def test_a_bounded_source_is_read_to_its_end(lake, pipeline):
    status = run(lake, pipeline(250, batch_size=10, max_batch_size=100))
    table = orders(lake)
    assert lake.ids(table) == upto(250)
    assert (status.rows, status.batches, status.epoch) == (250, 3, 1)
    assert parse(table.metadata().property("calve.sink.orders")).position == {"row": 250}


def test_a_second_run_with_nothing_new_writes_nothing(lake, pipeline):
    run(lake, pipeline(), once=True)
    before = orders(lake).metadata().file
    assert run(lake, pipeline(), once=True).batches == 0
    assert orders(lake).metadata().file == before


def test_without_rows_no_table_is_created(lake, pipeline):
    run(lake, pipeline(0), once=True)
    assert not lake.catalog.has_table(lake.name("orders"))


def test_a_run_continues_where_the_table_says(lake, pipeline):
    run(lake, pipeline(100), once=True)
    status = run(lake, pipeline(150), once=True)
    assert (status.rows, status.epoch) == (50, 2)
    assert lake.ids(orders(lake)) == upto(150)


@pytest.mark.parametrize("point", crash.POINTS)
def test_a_crash_at_any_point_and_a_restart_give_every_row_once(lake, pipeline, point):
    declared = pipeline(60, batch_size=20, max_batch_size=20)
    crash.load(
        (Fault(point, nth=2 if point not in ("start.before_fence", "fence.applied", "fence.swapped") else 1),)
    )
    with pytest.raises(Crash):
        run(lake, declared)
    assert len(crash.fired()) == 1
    crash.load(())
    run(lake, declared)
    assert lake.ids(orders(lake)) == upto(60)
    added = [f"{snapshot.id}" for snapshot in orders(lake).metadata().snapshots()]
    assert len(added) == len(set(added))


def test_a_second_run_fences_the_first(lake, pipeline, spark):
    endless = pipeline(None, rows_per_second=500, batch_size=100)
    failed: list[BaseException] = []

    def first():
        try:
            run(Lake.open(spark, lake.declaration), endless)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=first)
    thread.start()
    wait_for(lambda: lake.catalog.has_table(lake.name("orders")) and orders(lake).metadata().snapshots()[1:])
    run(lake, endless, once=True)
    thread.join(30)
    assert isinstance(failed[0], Fenced)
    ids = lake.ids(orders(lake))
    assert ids == upto(len(ids))


def test_a_stop_finishes_the_batch_and_keeps_what_was_read(lake, pipeline, spark):
    stop = Stop()
    endless = pipeline(None, rows_per_second=500, batch_size=50)
    thread = threading.Thread(target=lambda: run(Lake.open(spark, lake.declaration), endless, stop))
    thread.start()
    wait_for(
        lambda: lake.catalog.has_table(lake.name("orders")) and len(orders(lake).metadata().snapshots()) > 1
    )
    stop.request()
    thread.join(30)
    assert not thread.is_alive()
    ids = lake.ids(orders(lake))
    assert ids == upto(len(ids))


def test_a_table_with_other_columns_is_refused_with_both_sides_shown(lake, pipeline):
    lake.table(lake.name("orders"), "id STRING NOT NULL")
    with pytest.raises(TableMismatch, match="the table has") as caught:
        run(lake, pipeline())
    assert caught.value.exit_code == 78


def test_a_table_with_another_spec_is_refused_with_both_specs_named(lake, pipeline):
    run(lake, pipeline(10), once=True)
    with pytest.raises(
        TableMismatch, match=r"partitioned by nothing, the declaration says \(day\(order_date\)\)"
    ):
        run(lake, pipeline(20, partition_by=["day(order_date)"]))
    run(lake, pipeline(20, partitioning="table_default"), once=True)
    assert lake.ids(orders(lake)) == upto(20)


def test_the_created_table_has_the_declared_properties(lake, pipeline):
    run(
        lake,
        pipeline(10, table_properties={"team": "shop"}, snapshot_properties={"run": "7"}, format_version=3),
        once=True,
    )
    metadata = orders(lake).metadata()
    assert metadata.format_version == 3
    assert metadata.property("team") == "shop"
    assert metadata.property("write.metadata.delete-after-commit.enabled") == "true"
    assert metadata.property("write.metadata.previous-versions-max") == "50"
    assert metadata.snapshots()[-1].summary["run"] == "7"
    assert not metadata.schema().column("id").nullable


def wait_for(condition, seconds=30):
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, "waited in vain"
        time.sleep(0.05)


def upto(number):
    return list(range(1, number + 1))


class Late(ScriptSource):
    """Starts behind all that is there, as `start: latest` does."""

    @property
    def start_moves(self):
        return True

    def start(self):
        return {"batch": len(self.batches)}


@pytest.mark.parametrize("once", [True, False])
def test_a_start_that_moves_is_remembered_where_nothing_is_there_yet(lake, pipeline, once):
    sink = pipeline().sink
    some = [Batch("id BIGINT", [(number,)]) for number in range(3)]

    def run_with(batches):
        made = ResolvedPipeline("orders", Late(batches=batches), sink, (), "orders", True)
        run(lake, made, once=once)

    run_with(some[:1])
    assert lake.ids(orders(lake)) == []
    run_with(some)
    assert lake.ids(orders(lake)) == [1, 2]


def position_of(lake):
    return parse(orders(lake).metadata().property("calve.sink.orders")).position


def test_what_was_read_and_filtered_is_remembered_at_the_end_of_a_run(lake, pipeline):
    nothing = (SqlTransform(sql="SELECT * FROM input WHERE rand() > 2"),)
    run(lake, pipeline(100, nothing, max_batch_size=30), once=True)
    assert (lake.ids(orders(lake)), position_of(lake)) == ([], {"row": 100})
    before = orders(lake).metadata().file
    run(lake, pipeline(100, nothing), once=True)
    assert orders(lake).metadata().file == before
