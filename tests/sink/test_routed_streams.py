"""Rows routed by their topic, from a real broker."""

from __future__ import annotations

import json
import uuid

import pytest

from calve import crash
from calve.crash import Crash, Fault
from calve.errors import ConfigurationError, DataRefused
from calve.project import ResolvedPipeline
from calve.runtime.report import Report
from calve.runtime.runner import Runner
from calve.runtime.stop import Stop
from calve.sink import dead_letter
from calve.sink.declaration import IcebergSink
from calve.sources.kafka import KafkaSource
from calve.transforms.sql import SqlTransform

UPSERT = {"commit_mode": "upsert", "key_fields": ["id"]}


class Topics:
    """Topics of one test, and a pipeline that reads all of them."""

    def __init__(self, kafka, lake):
        self.kafka, self.lake, self.prefix = kafka, lake, f"t{uuid.uuid4().hex[:8]}"

    def put(self, topic, *ids):
        name = f"{self.prefix}{topic}"
        if name not in self.kafka.admin.list_topics(timeout=30).topics:
            self.kafka.create_topic(name, 2)
        self.kafka.produce(name, [json.dumps({"id": number, "n": number}) for number in ids])

    def run(self, sql=None, metadata=(), **keys):
        pattern = f"{self.prefix}.*"
        source = {"topic_pattern": pattern, "schema": "id BIGINT NOT NULL, n BIGINT", "metadata": metadata}
        source = KafkaSource.model_validate({"bootstrap_servers": self.kafka.bootstrap, **source})
        declared = {"catalog": self.lake.declaration, "namespace": "shop", "table": "raw_{stream}", **keys}
        sink = IcebergSink.model_validate(declared)
        transforms = (SqlTransform(sql=sql),) if sql else ()
        report = Report("raw")
        pipeline = ResolvedPipeline("raw", source, sink, transforms, "raw", True)
        Runner(pipeline, self.lake.spark, Stop(), report, once=True).run()
        return report.status

    def table(self, topic):
        return self.lake.catalog.load(self.lake.name(f"raw_{self.prefix}{topic}"))

    def ids(self, topic):
        return self.lake.ids(self.table(topic))


@pytest.fixture
def topics(kafka, lake):
    yield Topics(kafka, lake)
    crash.load(())


@pytest.mark.parametrize("keys", [{}, UPSERT], ids=["append", "upsert"])
def test_each_topic_has_its_table_and_a_new_one_gets_one(topics, keys):
    topics.put("_orders", 1, 2, 3, 3)
    topics.put("_bills", 1, 2)
    assert topics.run(**keys).rows == (5 if keys else 6)
    topics.put("_bills", 3)
    topics.put("_late", 7)
    crash.load((Fault("commit.swapped", 2),))
    with pytest.raises(Crash):
        topics.run(**keys)
    crash.load(())
    topics.put("_orders", 4)
    topics.run(**keys)
    assert topics.ids("_orders") == ([1, 2, 3, 4] if keys else [1, 2, 3, 3, 4])
    assert topics.ids("_bills") == [1, 2, 3]
    assert topics.ids("_late") == [7]
    assert topics.table("_late").metadata().schema().names == ("id", "n")


def test_a_transform_may_change_the_stream_and_must_keep_it(topics):
    topics.put(".orders", 1)
    with pytest.raises(DataRefused, match="a name has small letters"):
        topics.run(dead_letter="off")
    with pytest.raises(ConfigurationError, match="they drop _calve_stream"):
        topics.run("SELECT id, length(_calve_stream) AS n FROM input")
    sql = "SELECT * EXCEPT (_calve_stream), replace(_calve_stream, '.', '_') AS _calve_stream FROM input"
    assert topics.run(sql).rows == 1
    assert topics.ids("_orders") == [1]


@pytest.mark.parametrize("carried", [2_000, 0])
@pytest.mark.parametrize("metadata", [(), ("topic",)])
def test_records_of_a_topic_that_no_table_is_for_are_dead_letters(topics, monkeypatch, metadata, carried):
    monkeypatch.setattr(dead_letter, "CARRIED_RECORDS", carried)
    topics.put("_orders", 1, 2)
    topics.put(".bills", 3)
    status = topics.run(metadata=list(metadata))
    assert (status.rows, status.dead_letters) == (2, 1)
    assert topics.ids("_orders") == [1, 2]
    found = topics.lake.spark.table(topics.lake.name("raw_stream__dead_letter").sql()).collect()
    assert [(one.reason, json.loads(one.position)["topic"]) for one in found] == [
        ("no_route", f"{topics.prefix}.bills")
    ]


def test_the_topic_may_be_a_column_as_well(topics):
    topics.put("_orders", 1)
    topics.run(metadata=["topic"])
    assert topics.table("_orders").metadata().schema().names == ("id", "n", "_topic")
