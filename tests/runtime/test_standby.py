"""Two processes of one pipeline take turns without fencing each other."""

import threading

import pytest

from calve.project import ResolvedPipeline
from calve.runtime.report import Report
from calve.runtime.runner import Runner
from calve.runtime.stop import Stop
from calve.sink import heartbeat
from calve.sink.declaration import IcebergSink
from calve.sink.heartbeat import BEATS
from calve.sources.files import FilesSource
from tests.faults.process import wait_for

pytestmark = pytest.mark.spark

LIMIT = 60
SOON = 1.5


class Life:
    """One run of the pipeline, in a thread of its own."""

    def __init__(self, lake, folder, seconds):
        place = {"catalog": lake.declaration, "namespace": "shop", "table": "orders"}
        sink = IcebergSink.model_validate({**place, "batch_size": 1, "flush_interval_secs": 1})
        keys = {"path": str(folder / "*.json"), "format": "json", "schema": "id BIGINT NOT NULL"}
        source = FilesSource.model_validate(keys)
        pipeline = ResolvedPipeline("orders", source, sink, (), "orders", True)
        self._stop, self._report = Stop(), Report("orders")
        runner = Runner(pipeline, lake.spark, self._stop, self._report, standby=seconds)
        self._thread = threading.Thread(target=runner.run, daemon=True)
        self._thread.start()

    @property
    def status(self):
        return self._report.status

    def end(self):
        self._stop.request()
        self._thread.join(LIMIT)
        assert not self._thread.is_alive()


@pytest.fixture
def life(lake, tmp_path):
    made = []

    def start(seconds):
        made.append(Life(lake, tmp_path / "inbox", seconds))
        return made[-1]

    (tmp_path / "inbox").mkdir()
    yield start
    for one in made:
        one.end()


def beat(lake):
    table = lake.catalog.load(lake.name("orders")).metadata()
    return heartbeat.parse(table.property(heartbeat.property_name("orders")))


def test_a_standby_waits_for_an_idle_holder_and_follows_one_that_ended(lake, life, tmp_path):
    (tmp_path / "inbox" / "a.json").write_text('{"id": 1}\n{"id": 2}\n')
    first = life(SOON)
    wait_for(lambda: first.status.rows == 2, "the rows of the first")
    snapshots = len(lake.catalog.load(lake.name("orders")).metadata().snapshots())
    second = life(SOON)
    wait_for(lambda: second.status.state == "standby", "the standby")
    seen = beat(lake).number if beat(lake) else 0
    wait_for(lambda: (found := beat(lake)) and found.number > seen + BEATS, "heartbeats")
    assert (first.status.state, second.status.state) == ("running", "standby")
    assert len(lake.catalog.load(lake.name("orders")).metadata().snapshots()) == snapshots
    first.end()
    assert beat(lake).ended
    wait_for(lambda: second.status.state == "running", "the second")
    assert second.status.epoch == first.status.epoch + 1
    (tmp_path / "inbox" / "b.json").write_text('{"id": 3}\n')
    wait_for(lambda: second.status.rows == 1, "the rows of the second")
    assert lake.ids(lake.catalog.load(lake.name("orders"))) == [1, 2, 3]


def test_a_stop_ends_a_standby_that_waits(lake, life, tmp_path):
    (tmp_path / "inbox" / "a.json").write_text('{"id": 1}\n')
    first = life(SOON)
    wait_for(lambda: first.status.rows == 1, "the rows of the first")
    second = life(3600)
    wait_for(lambda: second.status.state == "standby", "the standby")
    second.end()
    assert second.status.epoch == 0
    assert first.status.state == "running"
