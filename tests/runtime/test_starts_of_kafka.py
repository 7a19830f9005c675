"""Where pipelines that read Kafka begin, and what is decided where records are gone."""

from __future__ import annotations

import json
import uuid

import pytest
from confluent_kafka import TopicPartition

from calve.errors import ConfigurationError, StartRefused
from calve.project import ResolvedPipeline
from calve.runtime import repair
from calve.runtime.report import Report
from calve.runtime.runner import Runner
from calve.runtime.stop import Stop
from calve.sink.declaration import IcebergSink
from calve.sources.kafka import KafkaSource


@pytest.fixture
def pipeline(kafka, lake):
    def make(topic=None, name="orders", **source):
        if topic is None:
            topic = f"orders.{uuid.uuid4().hex[:8]}"
            kafka.create_topic(topic, 2)
        declared = {"bootstrap_servers": kafka.bootstrap, "topics": [topic], **source}
        sink = {"catalog": lake.declaration, "namespace": "shop", "table": "orders"}
        made = KafkaSource.model_validate(declared), IcebergSink.model_validate(sink)
        return ResolvedPipeline(name, *made, (), name, True)

    return make


def run(lake, pipeline):
    Runner(pipeline, lake.spark, Stop(), Report(pipeline.name), once=True).run()


def produce(kafka, pipeline, *ids, partition=0):
    values = [json.dumps({"id": number}) for number in ids]
    kafka.produce(pipeline.source.topics[0], values, partition=partition)


def ids(lake):
    return lake.ids(lake.catalog.load(lake.name("orders")))


@pytest.mark.parametrize("schema", [{"schema": "id BIGINT"}, {}])
def test_what_comes_after_the_first_start_at_the_latest_is_read(kafka, lake, pipeline, schema):
    """Also where only the records before that place tell which columns the table has."""
    made = pipeline(start="latest", **schema)
    produce(kafka, made, 1)
    run(lake, made)
    assert ids(lake) == []
    produce(kafka, made, 2, 3)
    run(lake, made)
    assert ids(lake) == [2, 3]


def test_the_latest_of_an_empty_topic_without_columns_is_refused(lake, pipeline):
    with pytest.raises(ConfigurationError, match=r"declare 'schema', or, .* 'start: earliest'"):
        run(lake, pipeline(start="latest"))
    assert not lake.catalog.has_table(lake.name("orders"))


def test_two_projects_write_different_topics_of_one_cluster_to_one_table(kafka, lake, pipeline):
    one, other = pipeline(name="one", schema="id BIGINT"), pipeline(name="other", schema="id BIGINT")
    for number, made in enumerate((one, other)):
        produce(kafka, made, number)
        run(lake, made)
    assert ids(lake) == [0, 1]
    renamed = pipeline(topic=one.source.topics[0], name="renamed", schema="id BIGINT")
    with pytest.raises(StartRefused, match="set 'sink_id: one' to continue it"):
        run(lake, renamed)


def test_an_accepted_loss_moves_only_the_partition_that_lost_records(kafka, lake, pipeline):
    made = pipeline(schema="id BIGINT")
    produce(kafka, made, *range(5))
    produce(kafka, made, *range(10, 15), partition=1)
    run(lake, made)
    produce(kafka, made, 5, 6, 7)
    place = TopicPartition(made.source.topics[0], 0, 7)
    kafka.admin.delete_records([place])[place].result()
    with pytest.raises(StartRefused, match="were deleted unread") as caught:
        run(lake, made)
    assert caught.value.command == "calve repair --accept-loss"
    repair.write(repair.accept_loss(lake.spark, made), made)
    run(lake, made)
    assert ids(lake) == [0, 1, 2, 3, 4, 7, 10, 11, 12, 13, 14]
