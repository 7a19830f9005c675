"""Bad records of Kafka topics: what is kept of them, and that each way of decoding tells them apart."""

from __future__ import annotations

import json
import time
import uuid

import pytest

from calve.project import ResolvedPipeline
from calve.runtime import letters
from calve.runtime.letters import Wanted
from calve.runtime.report import Report
from calve.runtime.runner import Runner
from calve.runtime.stop import Stop
from calve.sink import dead_letter
from calve.sink.declaration import IcebergSink
from calve.sources.kafka import KafkaSource
from tests.subjects import Subjects, datum, headed, record
from tests.test_readers import with_pyiceberg


@pytest.fixture
def pipeline(kafka, lake):
    topic = f"orders.{uuid.uuid4().hex[:8]}"
    kafka.create_topic(topic, 2)

    def make(source=(), **keys):
        declared = {"bootstrap_servers": kafka.bootstrap, "topics": [topic], **dict(source)}
        sink = {"catalog": lake.declaration, "namespace": "shop", "table": "orders", **keys}
        made = KafkaSource.model_validate(declared), IcebergSink.model_validate(sink)
        return ResolvedPipeline("orders", *made, (), "orders", True)

    make.topic = topic
    return make


def run(lake, pipeline):
    report = Report("orders")
    Runner(pipeline, lake.spark, Stop(), report, once=True).run()
    return report.status


def read(lake, table):
    return with_pyiceberg(lake.catalog.load(lake.name(table)).metadata().file)


def test_a_dead_letter_has_all_that_kafka_knows_of_the_record(kafka, lake, pipeline):
    good = [json.dumps({"id": number}) for number in range(2000)]
    kafka.produce(pipeline.topic, good, partition=0)
    now = int(time.time()) * 1000 + 123
    more = {"timestamp": now, "headers": [("trace", b"\x01")]}
    kafka.produce(pipeline.topic, ['{"id": "abc"}'], keys=["k"], partition=1, **more)
    kafka.produce(pipeline.topic, ['{"id": 2000}', None], partition=1)
    schema = {"schema": "id BIGINT NOT NULL", "metadata": ["offset", "key"]}
    status = run(lake, pipeline(schema))
    assert (status.rows, status.dead_letters) == (2001, 2)
    found = {one["reason"]: one for one in read(lake, "orders__dead_letter")}
    letter = found["wrong_type"]
    assert json.loads(letter["position"]) == {"topic": pipeline.topic, "partition": 1, "offset": 0}
    assert (letter["key"], letter["value"]) == (b"k", b'{"id": "abc"}')
    assert letter["headers"] == [{"key": "trace", "value": b"\x01"}]
    assert letter["event_time"].timestamp() * 1000 == now
    assert found["null_value"]["value"] is None
    assert sorted(row["id"] for row in read(lake, "orders")) == list(range(2001))


@pytest.mark.parametrize("order", [{}, {"order_by": "n"}])
def test_changes_and_keys_of_debezium_that_are_bad_are_dead_letters(kafka, lake, pipeline, order):
    def change(op, **row):
        return json.dumps({"op": op, "before": None, "after": row, "source": {"ts_ms": 1}})

    values = [
        change("c", id=1, n=1),
        change("what", id=2),
        change("c", id=None, n=3),
        change("c", id=4, n="x"),
        "{",
    ]
    kafka.produce(pipeline.topic, values, partition=0)
    source = {"format": "debezium", "schema": "id BIGINT, n INT", "debezium": {"key_fields": ["id"]}}
    run(lake, pipeline(source, commit_mode="upsert", key_fields=["id"], **order))
    assert [row["id"] for row in read(lake, "orders")] == [1]
    reasons = sorted(one["reason"] for one in read(lake, "orders__dead_letter"))
    assert reasons == ["bad_operation", "malformed", "null_key", "wrong_type"]


def test_a_letter_has_the_id_of_the_schema_that_its_record_was_written_with(kafka, lake, pipeline):
    with Subjects() as subjects:
        written = record(("id", "long"))
        number = subjects.register(f"{pipeline.topic}-value", written)
        good = headed(number, datum(written, {"id": 1}))
        values = [good, headed(number, b""), headed(9, b"\0"), b"no id"]
        kafka.produce(pipeline.topic, values, partition=0)
        status = run(lake, pipeline({"format": "avro", "schema": {"registry": {"url": subjects.url}}}))
    assert (status.rows, status.dead_letters) == (1, 3)
    found = {one["value"]: (one["schema_id"], one["reason"]) for one in read(lake, "orders__dead_letter")}
    assert found == {
        values[1]: (number, "malformed"),
        values[2]: (9, "unknown_schema"),
        values[3]: (None, "malformed"),
    }


@pytest.mark.parametrize("carried", [2_000, 0])
def test_a_record_without_the_key_that_rows_are_told_apart_by_is_a_dead_letter(
    kafka, lake, pipeline, monkeypatch, carried
):
    monkeypatch.setattr(dead_letter, "CARRIED_RECORDS", carried)
    kafka.produce(pipeline.topic, ['{"id": 1}', '{"id": 2}'], keys=["a", None], partition=0)
    source = {"schema": "id BIGINT", "metadata": ["key"]}
    status = run(lake, pipeline(source, commit_mode="upsert", key_fields=["_key"]))
    assert (status.rows, status.dead_letters) == (1, 1)
    [letter] = read(lake, "orders__dead_letter")
    assert (letter["value"], letter["reason"]) == (b'{"id": 2}', "null_key")


def test_letters_of_kafka_are_replayed_with_their_keys_and_places(kafka, lake, pipeline):
    kafka.produce(pipeline.topic, ["1,5", "2,NULL"], keys=["a", "b"], partition=1)
    source = {"format": "csv", "schema": "id BIGINT, n INT", "metadata": ["key", "offset", "topic"]}
    run(lake, pipeline(source))
    told = letters.replay(lake.spark, pipeline({**source, "csv": {"null_value": "NULL"}}), Wanted(), 10)
    assert told.taken == 1
    rows = sorted(read(lake, "orders"), key=lambda row: row["id"])
    assert rows[1] == {"id": 2, "n": None, "_key": b"b", "_offset": 1, "_topic": pipeline.topic}
    [letter] = read(lake, "orders__dead_letter")
    assert letter["replayed_at"] is not None
