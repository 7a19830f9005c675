"""Which record of a topic is the later one, and what records without a value do, through whole pipelines."""

from __future__ import annotations

import json
import uuid

import pytest

from calve.errors import DataRefused
from calve.project import ResolvedPipeline
from calve.runtime.report import Report
from calve.runtime.runner import Runner
from calve.runtime.stop import Stop
from calve.sink.declaration import IcebergSink
from calve.sources.kafka import KafkaSource

SCHEMA = {"schema": "id BIGINT NOT NULL, name STRING NOT NULL"}
OPERATION = {"schema": "op STRING, id BIGINT, name STRING", "operation": {"field": "op"}}
UPSERT = {"commit_mode": "upsert", "key_fields": ["id"]}


@pytest.fixture
def pipeline(kafka, lake):
    topic = f"orders.{uuid.uuid4().hex[:8]}"

    def make(source, **keys):
        declared = {"bootstrap_servers": kafka.bootstrap, "topics": [topic], **source}
        sink = {"catalog": lake.declaration, "namespace": "shop", "table": "orders", **UPSERT, **keys}
        made = KafkaSource.model_validate(declared), IcebergSink.model_validate(sink)
        return ResolvedPipeline("orders", *made, (), "orders", True)

    make.topic = topic
    return make


def run(lake, pipeline):
    report = Report("orders")
    Runner(pipeline, lake.spark, Stop(), report, once=True).run()
    return report.status


def rows(lake):
    found = lake.spark.table(lake.name("orders").sql()).select("id", "name").collect()
    return sorted((row.id, row.name) for row in found)


def named(name, id=1, **more):
    return json.dumps({"id": id, "name": name, **more})


@pytest.mark.parametrize(
    "options", [{}, {"socket.connection.setup.timeout.max.ms": "9000"}], ids=["worker", "Spark"]
)
def test_of_a_key_in_two_partitions_the_record_with_the_later_time_counts(kafka, lake, pipeline, options):
    kafka.create_topic(pipeline.topic, 3)
    kafka.produce(pipeline.topic, [named("old")], partition=2, timestamp=1_000)
    kafka.produce(pipeline.topic, [named("new")], partition=0, timestamp=2_000)
    run(lake, pipeline({**SCHEMA, "options": options}))
    assert rows(lake) == [(1, "new")]


def test_a_truncate_is_refused_where_the_topic_has_several_partitions_even_in_a_batch_of_one(
    kafka, lake, pipeline
):
    kafka.create_topic(pipeline.topic, 2)
    kafka.produce(pipeline.topic, [named("a", op="c")], partition=0)
    declared = pipeline(OPERATION, truncate="delete")
    run(lake, declared)
    kafka.produce(pipeline.topic, [json.dumps({"op": "t"})], partition=0)
    with pytest.raises(DataRefused, match="several partitions"):
        run(lake, declared)
    assert rows(lake) == [(1, "a")]


def test_a_truncate_of_a_topic_of_one_partition_takes_out_what_came_before(kafka, lake, pipeline):
    kafka.create_topic(pipeline.topic, 1)
    changes = [named("a", op="c"), json.dumps({"op": "t", "id": 2}), named("b", id=2, op="c")]
    kafka.produce(pipeline.topic, changes, partition=0)
    run(lake, pipeline(OPERATION, truncate="delete"))
    assert rows(lake) == [(2, "b")]


def test_tombstones_of_a_compacted_topic_are_deletes_within_a_batch_and_over_batches(kafka, lake, pipeline):
    kafka.create_topic(pipeline.topic, 2)
    kafka.produce(pipeline.topic, [named("a"), named("b", 2), None], keys=["1", "2", "2"], partition=0)
    declared = pipeline({**SCHEMA, "tombstones": "delete", "key_fields": ["id"]})
    run(lake, declared)
    assert rows(lake) == [(1, "a")]
    values, keys = [None, named("c", 2), None, None], ["1", "2", "3", "no number"]
    kafka.produce(pipeline.topic, values, keys=keys, partition=0)
    status = run(lake, declared)
    assert (rows(lake), status.dead_letters) == ([(2, "c")], 1)


def test_tombstones_of_a_compacted_topic_may_be_nothing(kafka, lake, pipeline):
    kafka.create_topic(pipeline.topic, 1)
    kafka.produce(pipeline.topic, [named("a"), None], keys=["1", "1"], partition=0)
    status = run(lake, pipeline({**SCHEMA, "tombstones": "ignore"}, commit_mode="append", key_fields=[]))
    assert (rows(lake), status.dead_letters) == ([(1, "a")], 0)
