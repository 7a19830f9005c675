"""The Kafka source on a real broker."""

import json
import random
import time
import uuid
from collections.abc import Iterable
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from pyspark.sql import SparkSession

from calve import changes
from calve.errors import BadRecord, ConfigurationError, DataRefused, StartRefused, Unavailable
from calve.gateway import translated
from calve.position import Position
from calve.project import ResolvedPipeline
from calve.runtime.report import Report
from calve.runtime.runner import Runner
from calve.runtime.stop import Stop
from calve.schema import parse
from calve.sink.declaration import IcebergSink
from calve.sources.kafka import KafkaSource
from calve.sources.source import Limits
from tests.lake import Lake
from tests.servers.kafka import KafkaBroker

LIMITS = Limits(1_000_000)
ONLY_JAVA = {"socket.connection.setup.timeout.max.ms": "30000"}
"""An option that librdkafka does not have, so that Spark's own source reads."""


@pytest.fixture
def topic(kafka: KafkaBroker) -> str:
    """A topic of two partitions."""
    name = f"orders.{uuid.uuid4().hex[:8]}"
    kafka.create_topic(name, 2)
    return name


def source(kafka: KafkaBroker, topic: str, **keys: Any) -> KafkaSource:
    names = {} if "topic_pattern" in keys else {"topics": [topic]}
    declared = {"schema": "id BIGINT NOT NULL"} if keys.get("format", "json") in ("json", "csv") else {}
    return KafkaSource.model_validate({"bootstrap_servers": kafka.bootstrap, **names, **declared, **keys})


def values(ids: Iterable[int]) -> list[str]:
    return [json.dumps({"id": number}) for number in ids]


def ids(spark: SparkSession, reader: KafkaSource, after: Position, to: Position) -> list[int]:
    with translated("read Kafka"):
        return sorted(row.id for row in reader.read(spark, after, to).collect())


def drain(spark: SparkSession, reader: KafkaSource, after: Position, rows: int) -> tuple[list[int], Position]:
    """Everything behind `after`, in batches of at most `rows`, each of which is read twice."""
    found: list[int] = []
    while True:
        waiting = reader.latest(after, Limits(rows))
        if not waiting.rows:
            return sorted(found), after
        once = ids(spark, reader, after, waiting.to)
        assert ids(spark, reader, after, waiting.to) == once
        found, after = found + once, waiting.to


def test_rows_come_in_batches_and_each_batch_again_the_same(
    spark: SparkSession, kafka: KafkaBroker, topic: str
) -> None:
    kafka.produce(topic, values(range(30)), partition=0)
    kafka.produce(topic, values(range(30, 50)), partition=1)
    reader = source(kafka, topic)
    start = reader.start()
    first = reader.latest(start, Limits(10))
    assert (first.rows, first.more) == (10, True)
    assert first.bytes > 0
    assert ids(spark, reader, start, first.to) == [0, 1, 2, 3, 4, 30, 31, 32, 33, 34]
    found, end = drain(spark, reader, start, 30)
    assert found == list(range(50))
    assert reader.latest(end, LIMITS).to == end
    assert reader.read(spark, end, end).count() == 0


def test_columns_that_records_tell_themselves(spark: SparkSession, kafka: KafkaBroker, topic: str) -> None:
    kafka.produce(topic, ['{"id": 1, "o": {"a": 1}}', '{"id": 2, "o": {"b": "x"}}'], partition=0)
    kafka.produce(topic, ['{"id": 3, "note": "n"}'], partition=1)
    reader = source(kafka, topic, schema="infer", metadata=["partition"])
    start = reader.start()
    assert reader.columns() is None
    end = reader.latest(start, LIMITS).to
    frame = reader.read(spark, start, end)
    assert frame.schema.simpleString() == (
        "struct<id:bigint,o:struct<a:bigint,b:string>,note:string,_partition:int>"
    )
    assert sorted((row.id, row.note, row._partition) for row in frame.collect()) == [
        (1, None, 0),
        (2, None, 0),
        (3, "n", 1),
    ]
    reader.expect(parse("id INT NOT NULL, o MAP<STRING, STRING>, _partition INT NOT NULL"))
    assert reader.read(spark, start, end).schema["id"].simpleString() == "id:int"
    assert reader.read(spark, end, end).count() == 0


def test_aborted_transactions_never_appear_wherever_batches_are_cut(
    spark: SparkSession, kafka: KafkaBroker, topic: str
) -> None:
    for begin, commit in ((0, True), (100, False), (200, True), (300, False)):
        kafka.produce_in_transaction(topic, values(range(begin, begin + 7)), commit=commit, partition=0)
    expected = [*range(7), *range(200, 207)]
    committed = source(kafka, topic)
    assert drain(spark, committed, committed.start(), 5)[0] == expected
    assert drain(spark, committed, committed.start(), 1000)[0] == expected
    both = source(kafka, topic, isolation="read_uncommitted")
    assert len(drain(spark, both, both.start(), 1000)[0]) == 28


def test_an_open_transaction_is_waited_for(spark: SparkSession, kafka: KafkaBroker, topic: str) -> None:
    producer = kafka._producer(**{"transactional.id": topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, value=values([1])[0], partition=0)
    producer.flush(30)
    kafka.produce(topic, values([2]), partition=0)
    committed, both = source(kafka, topic), source(kafka, topic, isolation="read_uncommitted")
    start = committed.start()
    assert committed.latest(start, LIMITS).rows == 0
    ahead = both.latest(start, LIMITS).to
    assert committed.latest(ahead, LIMITS).rows == 0
    producer.commit_transaction(30)
    assert drain(spark, committed, start, 1000)[0] == [1, 2]


def test_a_partition_that_is_added_is_read_from_its_beginning(
    spark: SparkSession, kafka: KafkaBroker, topic: str
) -> None:
    kafka.produce(topic, values([1]), partition=0)
    reader = source(kafka, topic)
    _, position = drain(spark, reader, reader.start(), 1000)
    kafka.add_partitions(topic, 3)
    kafka.produce(topic, values(range(10, 14)), partition=2)
    _delete_before(kafka, topic, 2, 2)
    waiting = reader.latest(position, LIMITS)
    assert waiting.to["topics"][topic]["begin"] == {"2": 2}
    assert drain(spark, reader, position, 1000)[0] == [12, 13]


def _delete_before(kafka: KafkaBroker, topic: str, partition: int, offset: int) -> None:
    place = TopicPartition(topic, partition, offset)
    kafka.admin.delete_records([place])[place].result()


def test_topics_of_a_pattern_are_found_when_they_are_created(
    spark: SparkSession, kafka: KafkaBroker, topic: str
) -> None:
    kafka.produce(topic, values([1]), partition=0)
    pattern = topic.replace(".", r"\.") + ".*"
    reader = source(kafka, topic, topic_pattern=pattern)
    found, position = drain(spark, reader, reader.start(), 1000)
    kafka.create_topic(f"{topic}.more")
    kafka.produce(f"{topic}.more", values([2]))
    assert (found, drain(spark, reader, position, 1000)[0]) == ([1], [2])
    position = reader.latest(position, LIMITS).to
    kafka.delete_topic(f"{topic}.more")
    with pytest.raises(StartRefused, match=r"more' is gone"):
        reader.latest(position, LIMITS)


def test_a_topic_that_was_created_anew_is_refused(
    spark: SparkSession, kafka: KafkaBroker, topic: str
) -> None:
    kafka.produce(topic, values([1]), partition=0)
    reader = source(kafka, topic)
    _, position = drain(spark, reader, reader.start(), 1000)
    kafka.delete_topic(topic)
    with pytest.raises(StartRefused, match=f"topic '{topic}' is gone"):
        reader.latest(position, LIMITS)
    kafka.create_topic(topic, 2)
    kafka.produce(topic, values([2]), partition=0)
    with pytest.raises(StartRefused, match=f"topic '{topic}' was created anew"):
        reader.latest(position, LIMITS)


def test_records_that_were_deleted_unread_are_refused(
    spark: SparkSession, kafka: KafkaBroker, topic: str
) -> None:
    kafka.produce(topic, values(range(10)), partition=0)
    reader = source(kafka, topic)
    start = reader.start()
    planned = reader.latest(start, LIMITS).to
    _delete_before(kafka, topic, 0, 5)
    with pytest.raises(StartRefused, match="begins at offset 5, and the table stands at 0"):
        reader.latest(start, LIMITS)
    with pytest.raises(DataRefused, match="no longer has the records"), translated("read Kafka"):
        reader.read(spark, start, planned).collect()
    assert source(kafka, topic).start()["topics"][topic]["offsets"] == {"0": 5, "1": 0}


def test_start_says_where_a_new_table_begins(spark: SparkSession, kafka: KafkaBroker, topic: str) -> None:
    kafka.produce(topic, values(range(5)), partition=0)
    latest = source(kafka, topic, start="latest")
    position = latest.start()
    kafka.produce(topic, values([9]), partition=0)
    assert drain(spark, latest, position, 1000)[0] == [9]
    chosen = source(kafka, topic, start={"position": {topic: {"0": 3}}})
    assert drain(spark, chosen, chosen.start(), 1000)[0] == [3, 4, 9]
    for partition, offset, why in (("0", 7, "it has 0 to 6"), ("9", 0, "it does not exist")):
        with pytest.raises(StartRefused, match=why):
            source(kafka, topic, start={"position": {topic: {partition: offset}}}).start()


def test_workers_and_spark_read_the_same(spark: SparkSession, kafka: KafkaBroker, topic: str) -> None:
    wanted = ["topic", "partition", "offset", "timestamp", "key", "headers"]
    other = f"{topic}.other"
    kafka.create_topic(other)
    headers = [("é", b"\x00\xff"), ("empty", b""), ("none", None), ("é", b"again")]
    for name, more in ((topic, {"timestamp": 1_700_000_000_123, "headers": headers}), (other, {})):
        kafka.produce(name, [b"a", b"", b"\xff"], keys=["k", "", None], partition=0, **more)
    kafka.produce_in_transaction(topic, ["kept"], partition=1)
    kafka.produce_in_transaction(topic, ["aborted"], commit=False, partition=1)
    found = []
    for options in ({}, ONLY_JAVA):
        declared = {"topics": [topic, other], "format": "raw", "metadata": wanted, "options": options}
        reader = source(kafka, topic, **declared)
        start = reader.start()
        frame = reader.read(spark, start, reader.latest(start, LIMITS).to)
        assert (reader.why_java() is None) == (not options)
        found.append((frame.schema, sorted(map(str, frame.collect()))))
    assert found[0] == found[1]
    assert len(found[0][1]) == 7


def test_metadata_becomes_columns(spark: SparkSession, kafka: KafkaBroker, topic: str) -> None:
    kafka.produce(
        topic, values([1]), keys=["k"], partition=1, timestamp=1_700_000_000_123, headers=[("h", b"v")]
    )
    wanted = ["topic", "partition", "offset", "timestamp", "key", "headers"]
    reader = source(kafka, topic, metadata=wanted)
    start = reader.start()
    [row] = reader.read(spark, start, reader.latest(start, LIMITS).to).collect()
    assert (row.id, row._topic, row._partition, row._offset, row._key) == (1, topic, 1, 0, b"k")
    assert [(header.key, bytes(header.value)) for header in row._headers] == [("h", b"v")]
    assert row._timestamp.microsecond == 123_000


@pytest.mark.parametrize(
    ("format", "value", "found"),
    [("text", "é", "é"), ("raw", b"\xff", b"\xff"), ("csv", "7", 7), ("json", '{"id": 7}', 7)],
)
def test_values_are_decoded_by_their_format(
    spark: SparkSession, kafka: KafkaBroker, topic: str, format: str, value: Any, found: Any
) -> None:
    kafka.produce(topic, [value], partition=0)
    reader = source(kafka, topic, format=format)
    start = reader.start()
    [row] = reader.read(spark, start, reader.latest(start, LIMITS).to).collect()
    assert row[0] == found
    kafka.produce(topic, [None], partition=0)
    with pytest.raises(BadRecord) as caught, translated("read Kafka"):
        reader.read(spark, start, reader.latest(start, LIMITS).to).collect()
    assert caught.value.place == f"topic '{topic}' partition 0 offset 1"
    assert caught.value.reason == "the value is null"


def test_a_topic_that_does_not_exist_is_a_mistake_in_the_declaration(
    spark: SparkSession, kafka: KafkaBroker
) -> None:
    for verb in (KafkaSource.start, KafkaSource.check):
        with pytest.raises(ConfigurationError, match=r"topic 'nowhere' of Kafka at .* does not exist"):
            verb(source(kafka, "nowhere"))


def test_check_tells_what_was_seen(spark: SparkSession, kafka: KafkaBroker, topic: str) -> None:
    kafka.produce(topic, values([1]), partition=0)
    reader = source(kafka, topic)
    cluster = reader.identity().removeprefix("kafka:")
    assert reader.check() == [
        f"cluster '{cluster}' at '{kafka.bootstrap}'",
        f"topic '{topic}': 2 partitions, 1 offsets",
    ]


def test_a_broker_that_is_down_is_told_in_one_line_within_bounded_time(spark: SparkSession) -> None:
    down = KafkaSource.model_validate({"bootstrap_servers": "127.0.0.1:1", "topics": ["t"], "format": "text"})
    begin = time.monotonic()
    with pytest.raises(Unavailable) as caught:
        down.identity()
    assert time.monotonic() - begin < 25
    assert "\n" not in str(caught.value)
    assert "127.0.0.1:1" in str(caught.value)


def test_a_host_that_has_no_address_is_waited_for(spark: SparkSession) -> None:
    with pytest.raises(Unavailable, match="No resolvable bootstrap urls"):
        KafkaSource.model_validate(
            {"bootstrap_servers": "nowhere.invalid:1", "topics": ["t"], "format": "text"}
        ).identity()


def test_consumers_of_spark_are_used_again_from_batch_to_batch(
    spark: SparkSession, kafka: KafkaBroker, topic: str
) -> None:
    reader = source(kafka, topic, options=ONLY_JAVA)
    position = reader.start()
    idle: list[int] = []
    for number in range(5):
        kafka.produce(topic, values([number]), partition=0)
        to = reader.latest(position, LIMITS).to
        assert ids(spark, reader, position, to) == [number]
        position = to
        idle.append(_consumers(spark))
    assert idle[-1] == idle[0] > 0


def _consumers(spark: SparkSession) -> int:
    """How many Kafka consumers Spark keeps in this JVM."""
    name = "org.apache.spark.sql.kafka010.consumer.KafkaDataConsumer$"
    pool = getattr(getattr(spark.sparkContext._jvm, name), "MODULE$")
    return int(pool.consumerPool().size())


def test_of_several_topics_the_one_with_the_bad_record_is_named(
    spark: SparkSession, kafka: KafkaBroker, topic: str
) -> None:
    other = f"{topic}.other"
    kafka.create_topic(other)
    kafka.produce(topic, values([1]), partition=0)
    kafka.produce(other, [*values([2]), "{}"])
    reader = source(kafka, topic, topics=[topic, other])
    start = reader.start()
    with pytest.raises(BadRecord) as caught:
        ids(spark, reader, start, reader.latest(start, LIMITS).to)
    assert caught.value.place == f"topic '{other}' partition 0 offset 1"


def changed(spark: SparkSession, reader: KafkaSource) -> list[Any]:
    """The changes of a topic, in their order."""
    start = reader.start()
    with translated("read Kafka"):
        rows = reader.read_changes(spark, start, reader.latest(start, LIMITS).to).collect()
    return sorted(rows, key=lambda row: tuple(row._calve_order)[1:])


def test_rows_are_upserts_in_the_order_of_their_partitions_and_offsets(
    spark: SparkSession, kafka: KafkaBroker, topic: str
) -> None:
    kafka.produce(topic, values([5, 4]), partition=1)
    kafka.produce(topic, values([7, 6]), partition=0)
    rows = changed(spark, source(kafka, topic, metadata=["offset"]))
    assert rows[0].asDict().keys() == {"id", "_offset", *changes.NAMES}
    found = [(row.id, row._offset, row._calve_op, tuple(row._calve_order)[:4]) for row in rows]
    assert found == [
        (7, 0, "u", (None, 0, 0, 0)),
        (6, 1, "u", (None, 0, 1, 0)),
        (5, 0, "u", (None, 1, 0, 0)),
        (4, 1, "u", (None, 1, 1, 0)),
    ]


def test_a_field_says_the_operation_of_a_record(spark: SparkSession, kafka: KafkaBroker, topic: str) -> None:
    keys = {"schema": "id BIGINT NOT NULL, n STRING NOT NULL, op STRING", "operation": {"field": "op"}}
    reader = source(kafka, topic, **keys)
    kafka.produce(topic, ['{"id": 1, "n": "a", "op": "c"}', '{"id": 1, "op": "d"}'], partition=0)
    assert [(row.id, row.n, row._calve_op) for row in changed(spark, reader)] == [
        (1, "a", "i"),
        (1, None, "d"),
    ]
    assert reader.read(spark, reader.start(), reader.latest(reader.start(), LIMITS).to).columns == ["id", "n"]
    kafka.produce(topic, ['{"id": 2, "n": "b", "op": "x"}'], partition=0)
    with pytest.raises(BadRecord) as caught:
        changed(spark, reader)
    assert caught.value.place == f"topic '{topic}' partition 0 offset 2"
    assert caught.value.reason == "column 'op': 'x' is none of the operations"


def test_envelopes_of_debezium_are_changes(spark: SparkSession, kafka: KafkaBroker, topic: str) -> None:
    told = [
        {"op": "c", "after": {"id": 1, "n": "a"}, "source": {"lsn": 8, "ts_ms": 1_700_000_000_000}},
        {"op": "u", "before": {"id": 1}, "after": {"id": 2, "n": "__debezium_unavailable_value"}},
        {"op": "d"},
    ]
    keys = ['{"id": 1}', '{"id": 2}', '{"schema": null, "payload": {"id": 2}}', '{"id": 2}']
    kafka.produce(topic, [*map(json.dumps, told), None], keys=keys, partition=1)
    reader = source(
        kafka,
        topic,
        format="debezium",
        schema="id BIGINT NOT NULL, n STRING NOT NULL",
        metadata=["key", "offset"],
    )
    rows = changed(spark, reader)
    found = [
        (row.id, row.n, row._calve_op, row._calve_order.seq, row._calve_order.at, row._calve_order.part)
        for row in rows
    ]
    assert found == [
        (1, "a", "i", 8, 0, 0),
        (1, None, "d", None, 1, 0),
        (2, None, "u", None, 1, 1),
        (2, None, "d", None, 2, 0),
    ]
    assert [row._calve_unknown for row in rows] == [None, None, ["n"], None]
    assert [row._offset for row in rows] == [0, 1, 1, 2]
    assert rows[0]._calve_ts.year == 2023
    kafka.produce(topic, ['{"op": "c", "after": {"id": 3}}'], partition=1)
    with pytest.raises(BadRecord) as caught:
        changed(spark, reader)
    assert caught.value.place == f"topic '{topic}' partition 1 offset 4"


UNSENT = "__debezium_unavailable_value"


class Database:
    """A table whose changes are told as Debezium tells them."""

    def __init__(self, seed: int) -> None:
        self.rows: dict[int, dict[str, Any]] = {}
        self.records: list[tuple[str, str | None]] = []
        self._draw = random.Random(seed)

    def change(self) -> None:
        number = self._draw.randrange(20)
        row = self.rows.get(number)
        if row is None:
            self._insert(
                {"id": number, "name": f"n{len(self.records)}", "note": "x" * self._draw.randrange(9)}
            )
        elif self._draw.random() < 0.3:
            self._delete(row)
        elif self._draw.random() < 0.3 and number + 20 not in self.rows:
            self._move(row, {**row, "id": number + 20})
        else:
            self._update({**row, "name": f"n{len(self.records)}"})

    def _tell(self, key: int, op: str, **images: Any) -> None:
        source = {"connector": "postgresql", "lsn": 1000 + len(self.records), "ts_ms": 1_700_000_000_000}
        self.records.append((json.dumps({"id": key}), json.dumps({"op": op, "source": source, **images})))

    def _insert(self, row: dict[str, Any]) -> None:
        self.rows[row["id"]] = row
        self._tell(row["id"], "c", before=None, after=row)

    def _update(self, row: dict[str, Any]) -> None:
        self.rows[row["id"]] = row
        self._tell(row["id"], "u", before=None, after={**row, "note": UNSENT})

    def _delete(self, row: dict[str, Any]) -> None:
        del self.rows[row["id"]]
        self._tell(row["id"], "d", before={"id": row["id"], "name": "", "note": None}, after=None)
        self.records.append((json.dumps({"id": row["id"]}), None))

    def _move(self, old: dict[str, Any], new: dict[str, Any]) -> None:
        """A new key: told as an update, or as a delete and an insert."""
        if self._draw.random() < 0.5:
            self._delete(old)
            self._insert(new)
            return
        del self.rows[old["id"]]
        self.rows[new["id"]] = new
        self._tell(new["id"], "u", before={"id": old["id"]}, after=new)


def test_the_table_becomes_what_the_database_has(lake: Lake, kafka: KafkaBroker, topic: str) -> None:
    database = Database(7)
    declared = {
        "format": "debezium",
        "schema": "id BIGINT NOT NULL, name STRING NOT NULL, note STRING NOT NULL",
    }
    upsert = {"commit_mode": "upsert", "key_fields": ["id"], "batch_size": 90, "max_batch_size": 90}
    sink = IcebergSink.model_validate(
        {"catalog": lake.declaration, "namespace": "shop", "table": "orders", **upsert}
    )
    reader = source(kafka, topic, **declared)
    for _ in range(2):
        told = len(database.records)
        while len(database.records) < told + 200:
            database.change()
        keys, changed = zip(*database.records[told:], strict=True)
        kafka.produce(topic, changed, keys=keys, partition=0)
        pipeline = ResolvedPipeline("orders", reader.model_copy(), sink, (), "orders", True)
        Runner(pipeline, lake.spark, Stop(), Report("orders"), once=True).run()
        rows = lake.spark.sql(f"SELECT * FROM {lake.name('orders').sql()}").collect()
        assert sorted(row.asDict()["id"] for row in rows) == sorted(database.rows)
        assert {row.id: row.asDict() for row in rows} == database.rows
    assert {record for _, record in database.records if record is None} == {None}


def test_bytes_that_wait_are_told_as_soon_as_they_are_there(
    spark: SparkSession, kafka: KafkaBroker, topic: str
) -> None:
    reader = source(kafka, topic)
    start = reader.start()
    kafka.produce(topic, values([1]), partition=0)
    assert 0 < reader.latest(start, LIMITS).bytes < 10_000
    kafka.produce(topic, [f'{{"id": 1, "more": "{uuid.uuid4()}{"x" * 150}"}}'] * 5_000, partition=0)
    assert reader.latest(start, LIMITS).bytes > 200_000


def test_a_look_at_partitions_that_are_known_takes_few_calls(
    kafka: KafkaBroker, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = f"many.{uuid.uuid4().hex[:8]}"
    kafka.create_topic(topic, 40)
    reader = source(kafka, topic)
    start = reader.start()
    client = type(spark.sparkContext._gateway._gateway_client)
    calls: list[str] = []
    real = client.send_command

    def counted(self: Any, command: str, *arguments: Any, **named: Any) -> Any:
        if not command.startswith("m\n"):
            calls.append(command)
        return real(self, command, *arguments, **named)

    monkeypatch.setattr(client, "send_command", counted)
    assert reader.latest(start, LIMITS).rows == 0
    assert len(calls) < 60, len(calls)
    kafka.produce(topic, values([1]), partition=39)
    assert reader.latest(start, LIMITS).rows == 1
