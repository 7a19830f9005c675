import threading

import pytest

from calve.errors import Unavailable
from calve.project import ResolvedPipeline
from calve.runtime.report import Report
from calve.runtime.runner import Runner
from calve.runtime.stop import Stop
from calve.sink.declaration import IcebergSink
from calve.sink.writer import Writer
from calve.sources.datagen import DatagenSource

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
    from calve.sink.upsert import Upsert

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
