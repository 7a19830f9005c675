"""Real processes, killed for real."""

from __future__ import annotations

import json
import shutil
import signal
import uuid

import pytest

from calve import crash
from tests.faults import evidence
from tests.faults.process import Calve, wait_for

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

DECLARATION = """
version: "1.0"
sources:
  topic:
    connector: kafka
    config:
      bootstrap_servers: {bootstrap}
      topics: [{topic}]
      format: json
      schema: "id BIGINT NOT NULL, name STRING"
sinks:
  lake:
    connector: iceberg
    config:
      {catalog}
      namespace: {namespace}
      table: events
      batch_size: {batch}
      max_batch_size: {batch}
      flush_interval_secs: 1
      retry_for: 2m
spark:
  master: "local[1]"
  driver_memory: 1g
  config: {{spark.driver.extraJavaOptions: "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}}
pipelines:
  events: {{source: topic, sink: lake}}
"""
IN_TIME = ("fence.swapped", "stage.after", "commit.applied", "commit.swapped", "acknowledge.before")


class Stream:
    """A topic that is filled as the test goes, and the project that reads it."""

    def __init__(self, kafka, tmp_path, rest=None, batch=40):
        self.topic = f"events-{uuid.uuid4().hex[:8]}"
        self.kafka = kafka
        self.produced = 0
        namespace = f"n{uuid.uuid4().hex[:8]}"
        kafka.create_topic(self.topic, 3)
        catalog = f"catalog: {{type: rest, rest: {{uri: '{rest.uri}'}}}}" if rest else ""
        keys = {"bootstrap": kafka.bootstrap, "topic": self.topic, "catalog": catalog, "batch": batch}
        self.calve = Calve(
            tmp_path / "project", DECLARATION.format(namespace=namespace, **keys), is_measured=False
        )
        self.catalog = evidence.rest(rest.uri) if rest else evidence.embedded(self.calve.folder)
        self.table = f"{namespace}.events"

    def produce(self, count, abort=False):
        first = self.produced + 1
        values = [json.dumps({"id": number, "name": f"n{number}"}) for number in range(first, first + count)]
        if abort:
            lost = [json.dumps({"id": -number, "name": "aborted"}) for number in range(count)]
            self.kafka.produce_in_transaction(self.topic, lost, commit=False)
        self.kafka.produce_in_transaction(self.topic, values, commit=True)
        self.produced += count

    def load(self):
        return evidence.load(self.catalog, self.table)

    def check(self):
        table = self.load()
        assert evidence.values(table, "id") == list(range(1, self.produced + 1))
        assert evidence.files_added_twice(table) == []
        evidence.assert_only_grows(evidence.marks(table, "events"))


@pytest.fixture
def stream(kafka, tmp_path):
    made = []

    def make(**options):
        made.append(Stream(kafka, tmp_path, **options))
        return made[-1]

    yield make
    for one in made:
        one.calve.end()


def killed_at_every_point(stream, points):
    """Each life of the pipeline is killed at the next point; the last one ends by itself."""
    for point in points:
        stream.produce(40, abort=True)
        first_only = point.startswith(("start", "fence"))
        fault = {"point": point, "nth": 1 if first_only else 2, "action": "kill"}
        code, said = stream.calve.run("run", fault=fault)
        assert code == -signal.SIGKILL, (point, said)
    assert stream.calve.fired() == list(points)
    stream.produce(10)
    code, said = stream.calve.run("run", "--once")
    assert code == 0, said
    stream.check()


def test_a_run_that_is_killed_at_every_point_in_turn_writes_every_row_once(stream):
    killed_at_every_point(stream(), crash.POINTS)


@pytest.mark.rest
def test_a_run_on_a_rest_catalog_that_is_killed_around_the_commit_writes_every_row_once(stream, rest_catalog):
    killed_at_every_point(stream(rest=rest_catalog), IN_TIME)


@pytest.mark.full
@pytest.mark.rest
def test_a_run_on_a_rest_catalog_that_is_killed_at_every_point_writes_every_row_once(stream, rest_catalog):
    killed_at_every_point(stream(rest=rest_catalog), crash.POINTS)


def test_local_state_is_disposable_also_after_compaction_and_expiry(stream, spark):
    one = stream()
    for _ in range(2):
        one.produce(60)
        code, said = one.calve.run("run", "--once")
        assert code == 0, said
        shutil.rmtree(one.calve.folder / ".calve")
    compact_and_expire(spark, one)
    one.produce(60)
    code, said = one.calve.run("run", "--once")
    assert code == 0, said
    one.check()


def compact_and_expire(spark, stream):
    from calve import declare
    from tests.lake import Lake

    project = declare.load(stream.calve.folder)
    lake = Lake.open(spark, project.pipeline("events").sink.catalog)
    lake.call("rewrite_data_files", table=f"'{stream.table}'", options="map('rewrite-all', 'true')")
    lake.call(
        "expire_snapshots", table=f"'{stream.table}'", older_than="TIMESTAMP '2100-01-01'", retain_last="1"
    )


def test_a_second_run_makes_the_first_exit_with_80(stream):
    one = stream()
    one.produce(50)
    first = one.calve.start("run")
    wait_for(lambda: (table := one.load()) and len(table.snapshots()) > 1, "the first commit")
    second = one.calve.start("run")
    wait_for(lambda: evidence.marks(one.load(), "events")[-1]["epoch"] == 2, "the second epoch")
    one.produce(50)
    assert first.wait(60) == 80
    assert "another process runs it" in first.stderr.read()
    wait_for(lambda: len(evidence.values(one.load(), "id")) == 100, "the rows of the second")
    second.send_signal(signal.SIGTERM)
    assert second.wait(60) == 0
    one.check()


def test_a_process_that_was_stopped_before_its_swap_writes_nothing_when_it_goes_on(stream):
    one = stream()
    one.produce(50)
    paused = one.calve.start("run", fault={"point": "commit.applied", "nth": 1, "action": "stop"})
    wait_for(lambda: one.calve.fired() == ["commit.applied"], "the stop")
    code, said = one.calve.run("run", "--once")
    assert code == 0, said
    before = one.load().metadata_location
    paused.send_signal(signal.SIGCONT)
    assert paused.wait(60) == 80
    assert one.load().metadata_location == before
    one.check()


def test_a_broker_that_goes_away_is_waited_for(stream, kafka):
    one = stream()
    one.produce(50)
    running = one.calve.start("run")
    wait_for(lambda: (table := one.load()) and len(table.snapshots()) > 1, "the first commit")
    kafka.stop()
    try:
        wait_for(lambda: "trying again" in one.calve.status("events")["message"], "the notice")
    finally:
        kafka.start()
    one.produce(50)
    wait_for(lambda: len(evidence.values(one.load(), "id")) == 100, "the rows after the outage")
    running.send_signal(signal.SIGTERM)
    assert running.wait(60) == 0
    one.check()
