import os
import threading
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from calve.errors import Unavailable
from calve.project import ResolvedPipeline
from calve.runtime.ahead import Ahead
from calve.runtime.report import Report
from calve.runtime.runner import Runner
from calve.runtime.stop import Stop
from calve.sink import choice, collected
from calve.sink.declaration import IcebergSink
from calve.sink.upsert import Upsert
from calve.sink.writer import Writer
from calve.sources.datagen import DatagenSource
from calve.sources.files import FilesSource

pytestmark = pytest.mark.spark

MODES = {
    "append": {},
    "overwrite": {"commit_mode": "overwrite", "partition_by": ["bucket(4, id)"]},
    "upsert": {"commit_mode": "upsert", "key_fields": ["id"]},
}
PATIENCE = 60


@pytest.fixture
def run(lake):
    def run(stop=None, rows=60, **keys):
        place = {"catalog": lake.declaration, "namespace": "shop", "table": "orders"}
        sizes = {"batch_size": 20, "max_batch_size": 20}
        sink = IcebergSink.model_validate({**place, **sizes, **keys})
        declared = ResolvedPipeline("orders", DatagenSource(rows=rows), sink, (), "orders", True)
        report = Report("orders")
        Runner(declared, lake.spark, stop or Stop(), report).run()
        return report.status

    return run


@pytest.fixture
def orders(lake):
    return lambda: lake.catalog.load(lake.name("orders"))


def meanwhile(monkeypatch, check):
    """Have `check` called before each commit, with how many batches were begun by then."""
    begun, changed = [], threading.Condition()
    begin, commit = Writer.begin, Writer.commit

    def counted(self, *values):
        found = begin(self, *values)
        with changed:
            begun.append(threading.current_thread().name)
            changed.notify_all()
        return found

    def committed(self, staged, to):
        with changed:
            check(changed, begun, to)
        return commit(self, staged, to)

    monkeypatch.setattr(Writer, "begin", counted)
    monkeypatch.setattr(Writer, "commit", committed)
    return begun


@pytest.mark.parametrize("mode", MODES)
def test_the_next_batch_is_read_while_one_is_committed(lake, run, orders, monkeypatch, mode):
    def next_is_begun(changed, begun, to):
        number = to["row"] // 20
        assert changed.wait_for(lambda: len(begun) > number or number == 3, PATIENCE), "nobody reads ahead"

    begun = meanwhile(monkeypatch, next_is_begun)
    assert run(**MODES[mode]).batches == 3
    assert [name.startswith("ahead") for name in begun] == [False, True, True]
    if mode != "overwrite":
        assert lake.ids(orders()) == list(range(1, 61))


def test_an_error_ahead_is_met_by_the_batch_that_it_belongs_to(lake, run, orders, monkeypatch):
    begin, failed = Writer.begin, []

    def failing(self, *values):
        if threading.current_thread().name.startswith("ahead"):
            failed.append(1)
            raise Unavailable("the store is away")
        return begin(self, *values)

    monkeypatch.setattr(Writer, "begin", failing)
    status = run()
    assert failed
    assert (status.rows, status.batches, status.retries) == (60, 3, 0)
    assert lake.ids(orders()) == list(range(1, 61))


def test_a_stop_commits_what_was_begun(lake, run, orders, monkeypatch):
    stop = Stop()

    def stop_when_begun(changed, begun, to):
        if to["row"] == 20:
            assert changed.wait_for(lambda: len(begun) == 2, PATIENCE), "nobody reads ahead"
            stop.request()

    begun = meanwhile(monkeypatch, stop_when_begun)
    assert run(stop, rows=1000).rows == 40
    assert len(begun) == 2
    assert lake.ids(orders()) == list(range(1, 41))


def test_a_batch_that_is_staged_again_is_not_mixed_up_with_the_next(lake, run, orders, monkeypatch):
    """What an upsert looks up fails once, while the next batch is being read."""
    find, failures = Upsert._find, []

    def failing(self, keys):
        if not failures:
            failures.append(1)
            raise Unavailable("the store is away")
        return find(self, keys)

    monkeypatch.setattr(Upsert, "_find", failing)
    status = run(commit_mode="upsert", key_fields=["id"])
    assert failures
    assert (status.rows, status.retries) == (60, 1)
    assert lake.ids(orders()) == list(range(1, 61))


class Inbox:
    """A folder of Parquet files that tell their columns themselves, of which a batch takes one."""

    def __init__(self, lake, folder, **keys):
        self._lake, self._folder = lake, folder
        source = FilesSource(path=str(folder), format="parquet", max_files_per_batch=1)
        place = {"catalog": lake.declaration, "namespace": "shop", "table": "orders"}
        sink = IcebergSink.model_validate({**place, "batch_size": 1, "schema_evolution": "full", **keys})
        self._declared = ResolvedPipeline("orders", source, sink, (), "orders", True)
        folder.mkdir()

    def put(self, number, **columns):
        path = self._folder / f"{number}.parquet"
        pq.write_table(pa.table(columns), path)
        os.utime(path, (1_000_000 + number, 1_000_000 + number))

    def run(self):
        Runner(self._declared, self._lake.spark, Stop(), Report("orders"), once=True).run()
        found = self._lake.spark.table(self._lake.name("orders").sql())
        return sorted((row.asDict() for row in found.collect()), key=lambda row: row["id"])


def test_files_that_tell_their_columns_are_read_ahead_while_these_stay_the_same(lake, tmp_path, monkeypatch):
    begun = meanwhile(monkeypatch, lambda changed, begun, to: None)
    inbox = Inbox(lake, tmp_path / "in")
    for number in (1, 2):
        inbox.put(number, id=[number])
    inbox.put(3, id=[3], more=["x"])
    inbox.put(4, id=[4], more=["y"])
    found = inbox.run()
    assert [(row["id"], row["more"]) for row in found] == [(1, None), (2, None), (3, "x"), (4, "y")]
    assert [name.startswith("ahead") for name in begun] == [False, True, False, True]


@pytest.mark.parametrize("most", [None, 400])
def test_the_last_row_of_a_key_in_the_last_file_counts(lake, tmp_path, monkeypatch, most):
    """Also where a batch becomes larger than it looked like."""
    held = []
    delta = Upsert._delta
    monkeypatch.setattr(Upsert, "_delta", lambda self, last: held.append(1) or delta(self, last))
    if most is not None:
        monkeypatch.setattr(collected, "fits", lambda rows, size, most: size < 2**40)
        monkeypatch.setattr(choice, "MOST_BYTES", most)
    inbox = Inbox(lake, tmp_path / "in", commit_mode="upsert", key_fields=["id"])
    inbox.put(1, id=[1, 2, 1, 3] * 50, n=list(range(200)))
    inbox.put(2, id=[2, 4] * 50, n=list(range(200, 300)))
    inbox.put(3, id=[4], n=[1000])
    found = inbox.run()
    assert [(row["id"], row["n"]) for row in found] == [(1, 198), (2, 298), (3, 199), (4, 1000)]
    assert len(held) == (3 if most is None else 0)


def test_a_batch_that_is_only_begun_is_given_up_at_the_end(spark):
    """A stop or a failure does not wait for a source that hangs."""
    ahead, tracker = Ahead(spark), spark.sparkContext.statusTracker()

    def hang(number):
        time.sleep(10 * PATIENCE)
        return number

    ahead.start(lambda: spark.sparkContext.parallelize([1], 1).map(hang).count())
    limit = time.monotonic() + PATIENCE
    while not tracker.getActiveJobsIds() and time.monotonic() < limit:
        time.sleep(0.01)
    assert not ahead.is_done
    ahead.close()
    assert time.monotonic() < limit
    assert list(tracker.getActiveJobsIds()) == []
