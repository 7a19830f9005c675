"""Kafka records as Python workers read them: settings and blocks, and ranges on a real broker."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from hypothesis import given
from hypothesis import strategies as st

from calve.decode.bad import Report, Sieve
from calve.decode.json import JsonDecoder
from calve.decode.rows import Topics, record_rows
from calve.errors import CalveError, DataRefused, NotPermitted, Unavailable
from calve.gateway import ROWS_OF_A_TASK, WorkerError, classify
from calve.schema import parse
from calve.sources import kafka_client, kafka_consumer
from calve.sources.kafka import KafkaSource
from calve.sources.kafka_client import SETTINGS, settings, why_java
from calve.sources.kafka_consumer import Client, consumed, cut, within
from calve.sources.kafka_position import Range, shared
from calve.sources.kafka_records import BySpark, ByWorkers

if TYPE_CHECKING:
    from tests.servers.kafka import KafkaBroker

PLAIN = ("PLAINTEXT", False)
PEM = "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n"

OPTIONS = {
    "check.crcs": ("false", {"check.crcs": "false"}),
    "client.dns.lookup": ("use_all_dns_ips", {"client.dns.lookup": "use_all_dns_ips"}),
    "client.id": ("me", {"client.id": "me"}),
    "client.rack": ("r1", {"client.rack": "r1"}),
    "connections.max.idle.ms": ("-1", {"connections.max.idle.ms": 0}),
    "fetch.max.bytes": ("5000", {"fetch.max.bytes": 5000, "message.max.bytes": 5000}),
    "fetch.max.wait.ms": ("70", {"fetch.wait.max.ms": 70}),
    "fetch.min.bytes": ("9", {"fetch.min.bytes": 9}),
    "max.partition.fetch.bytes": ("1234", {"max.partition.fetch.bytes": 1234}),
    "max.poll.records": ("77", {}),
    "metadata.max.age.ms": ("6000", {"topic.metadata.refresh.interval.ms": 6000}),
    "receive.buffer.bytes": ("-1", {"socket.receive.buffer.bytes": 0}),
    "reconnect.backoff.max.ms": ("900", {"reconnect.backoff.max.ms": 900}),
    "reconnect.backoff.ms": ("90", {"reconnect.backoff.ms": 90}),
    "request.timeout.ms": ("4000", {"socket.timeout.ms": 4000}),
    "retry.backoff.ms": (
        "2000",
        {"retry.backoff.ms": 2000, "retry.backoff.max.ms": 2000, "fetch.error.backoff.ms": 2000},
    ),
    "send.buffer.bytes": ("5000", {"socket.send.buffer.bytes": 5000}),
    "socket.connection.setup.timeout.ms": ("2000", {"socket.connection.setup.timeout.ms": 2000}),
    "ssl.endpoint.identification.algorithm": ("", {"ssl.endpoint.identification.algorithm": "none"}),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_becomes_a_setting_that_librdkafka_takes(name: str) -> None:
    value, expected = OPTIONS[name]
    made = settings({name: value})
    assert why_java({name: value}, *PLAIN) is None
    assert dict(made.items() - settings({}).items()) == expected
    Consumer({**made, "group.id": "g", "bootstrap.servers": "127.0.0.1:1"}).close()


def test_every_option_has_a_counterpart_or_is_left_to_java() -> None:
    assert sorted({*OPTIONS, "socket.connection.setup.timeout.max.ms"}) == sorted(SETTINGS)
    assert kafka_client.records_at_once({"max.poll.records": "77"}) == 77


@pytest.mark.parametrize(
    ("options", "protocol", "has_ca", "why"),
    [
        ({"socket.connection.setup.timeout.max.ms": "9"}, *PLAIN, "no such socket.connection"),
        ({"fetch.max.bytes": "many"}, *PLAIN, "no such fetch.max.bytes"),
        ({"fetch.min.bytes": "0"}, *PLAIN, "no such fetch.min.bytes"),
        ({"metadata.max.age.ms": "99999999999"}, *PLAIN, "no such metadata.max.age.ms"),
        ({"client.dns.lookup": "default"}, *PLAIN, "no such client.dns.lookup"),
        ({"fetch.max.wait.ms": "30000"}, *PLAIN, "a second above fetch.max.wait.ms"),
        ({}, "SSL", False, "ssl_ca is left out"),
        ({}, "SASL_SSL", False, "ssl_ca is left out"),
        ({}, "SASL_SSL", True, None),
        ({}, "SASL_PLAINTEXT", False, None),
    ],
)
def test_what_librdkafka_cannot_be_told_is_left_to_spark(
    options: dict[str, str], protocol: str, has_ca: bool, why: str | None
) -> None:
    found = why_java(options, protocol, has_ca)
    assert found == why or (why is not None and why in str(found))


def source(**keys: Any) -> KafkaSource:
    given = {"bootstrap_servers": "127.0.0.1:1", "topics": ["t"], "format": "text"}
    return KafkaSource.model_validate({**given, **keys})


def test_secrets_go_to_librdkafka_and_are_shown_to_nobody() -> None:
    sasl = {"sasl_mechanism": "SCRAM-SHA-512", "username": "me", "password": 'a";\\b-secret'}
    keys = {"ssl_ca": PEM, "ssl_cert": PEM, "ssl_key": PEM.replace("x", "key-secret")}
    reader = source(security_protocol="SASL_SSL", **sasl, **keys)._reader()
    assert isinstance(reader, ByWorkers)
    told = dict(reader.client.settings)
    assert (told["sasl.username"], told["sasl.password"]) == ("me", 'a";\\b-secret')
    assert (told["security.protocol"], told["sasl.mechanism"]) == ("SASL_SSL", "SCRAM-SHA-512")
    assert (told["ssl.ca.pem"], told["ssl.certificate.pem"]) == (PEM, PEM)
    assert "key-secret" in told["ssl.key.pem"]
    assert "secret" not in repr(reader)
    with pytest.raises(WorkerError) as caught:
        blocks(reader.client, Range("t", 0, 0, 1))
    assert "PEM format" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_without_certificates_that_are_trusted_javas_are_and_spark_reads() -> None:
    reader = source(security_protocol="SSL")._reader()
    assert isinstance(reader, BySpark)
    assert reader.settings["security.protocol"] == "SSL"


def test_declared_keys_reach_the_consumer() -> None:
    servers = ["PLAINTEXT://a:1", "b:2"]
    declared = source(
        bootstrap_servers=servers, isolation="read_uncommitted", options={"max.poll.records": 5}
    )
    client = declared._reader().client
    told = dict(client.settings)
    assert (told["bootstrap.servers"], told["isolation.level"]) == ("a:1,b:2", "read_uncommitted")
    assert client.records == 5
    assert hash(client) == hash(declared._reader().client)


@given(
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 400_000)), min_size=1, max_size=12),
    st.integers(1, 16),
)
def test_tasks_share_all_offsets_and_none_twice(sizes: list[tuple[int, int]], most: int) -> None:
    ranges = [Range("t", number, begin, begin + rows) for number, (begin, rows) in enumerate(sizes)]
    tasks = shared(ranges, most)
    assert len(tasks) <= most
    assert len(tasks) == 1 or all(sum(one.rows for one in task) >= ROWS_OF_A_TASK for task in tasks[:-1])
    assert all(len({one.partition for one in task}) == len(task) for task in tasks)
    for whole in ranges:
        pieces = [one for task in tasks for one in task if one.partition == whole.partition]
        assert [one.begin for one in pieces] == [whole.begin, *(one.end for one in pieces[:-1])]
        assert pieces[-1].end == whole.end
        assert all(one.begin < one.end for one in pieces)


def test_a_large_range_is_read_by_all_cores_and_few_rows_by_one() -> None:
    assert shared([Range("t", 0, 0, 200_000)], 2) == [
        [Range("t", 0, 0, 100_000)],
        [Range("t", 0, 100_000, 200_000)],
    ]
    few = [Range("t", number, 0, 10) for number in range(9)]
    assert shared(few, 8) == [few]


@dataclass(frozen=True)
class Record:
    """As much of a record as it takes to put it into a block."""

    at: int
    size: int = 1

    def offset(self) -> int:
        return self.at

    def __len__(self) -> int:
        return self.size


def test_records_from_the_end_of_a_range_on_are_left_out() -> None:
    records: list[Any] = [Record(at) for at in (3, 5, 8, 9)]
    assert [len(within(records, end)) for end in (3, 4, 8, 9, 10)] == [0, 1, 2, 3, 4]
    assert within([], 3) == []


def test_a_block_ends_by_its_number_of_records_or_its_bytes() -> None:
    records: list[Any] = [Record(at, 10) for at in range(5)]
    assert cut(records, 6, 1000) == 0
    assert cut(records, 5, 1000) == 5
    assert cut(records, 5, 30) == 3
    assert cut(records, 2, 30) == 2
    assert cut(records, 5, 1) == 1
    assert cut([], 5, 1) == 0


def test_what_checks_a_declaration_does_not_import_the_client() -> None:
    code = (
        "import sys; from calve.cli import app; from calve.sources.kafka import KafkaSource; "
        "sys.exit(any(name in sys.modules for name in ('confluent_kafka', 'pyarrow')))"
    )
    assert subprocess.run([sys.executable, "-c", code], env={**os.environ}).returncode == 0


@pytest.fixture
def topic(kafka: KafkaBroker) -> str:
    """A topic of two partitions."""
    name = f"read.{uuid.uuid4().hex[:8]}"
    kafka.create_topic(name, 2)
    return name


def client(kafka: KafkaBroker, **more: Any) -> Client:
    declared = {name: more.pop(name) for name in ("isolation", "options") if name in more}
    made = source(bootstrap_servers=kafka.bootstrap, **declared)._reader()
    assert isinstance(made, ByWorkers)
    return replace(made.client, **more)


def blocks(reading: Client, *parts: Range, sieve: Any = None) -> list[list[tuple[int, bytes | None]]]:
    """The offsets and values of each block."""
    return [
        list(zip(block.column("offset").to_pylist(), block.column("value").to_pylist(), strict=True))
        for block in kafka_consumer._blocks(parts, reading, sieve)
    ]


def read(reading: Client, *parts: Range) -> list[tuple[int, bytes | None]]:
    return [record for block in blocks(reading, *parts) for record in block]


def refused(error: WorkerError) -> CalveError:
    """What the driver makes of an error of a worker."""
    return classify(f"PythonException: {error}", "read Kafka")


def seen(kafka: KafkaBroker, topic: str, isolation: str = "read_committed") -> list[tuple[int, bytes | None]]:
    """What a consumer sees that reads all of a topic."""
    return sorted((one.offset(), one.value()) for one in kafka.read(topic, isolation))


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_a_range_has_its_records_wherever_it_is_cut(kafka: KafkaBroker, topic: str, isolation: str) -> None:
    for number, commit in enumerate([True, False, True, True, False, False]):
        values = [f"{number}-{index}" for index in range(5)]
        kafka.produce_in_transaction(topic, values, commit=commit, partition=0)
    expected = seen(kafka, topic, isolation)
    reading, draw = client(kafka, isolation=isolation, patience=10), random.Random(5)
    end = 36
    cuts = [
        (0, end),
        *((at, at + 1) for at in range(end)),
        *(sorted(draw.sample(range(end + 1), 2)) for _ in range(40)),
    ]
    for begin, stop in cuts:
        found = read(reading, Range(topic, 0, begin, stop))
        assert found == [one for one in expected if begin <= one[0] < stop]


def test_a_compacted_topic_has_gaps_that_are_passed_over(kafka: KafkaBroker) -> None:
    name = f"compacted.{uuid.uuid4().hex[:8]}"
    quick = {"segment_ms": "100", "min_cleanable_dirty_ratio": "0.01", "max_compaction_lag_ms": "100"}
    kafka.create_topic(name, cleanup_policy="compact", **quick)
    for number in range(4):
        kafka.produce(name, [f"{number}-{key}" for key in range(10)], keys=[str(key) for key in range(10)])
        time.sleep(0.15)
    # Only what is no longer written to is compacted.
    deadline = time.monotonic() + 60
    while len(kafka.read(name)) >= 40:
        assert time.monotonic() < deadline, "the broker does not compact"
        kafka.produce(name, ["last"], keys=["other"])
    time.sleep(0.5)
    expected = seen(kafka, name)
    end = expected[-1][0] + 1
    reading = client(kafka, patience=10)
    for begin, stop in ((0, end), (0, 5), (3, 30), (1, 2), (29, end), (end - 1, end)):
        found = read(reading, Range(name, 0, begin, stop))
        assert [offset for offset, _ in found] == [at for at, _ in expected if begin <= at < stop]


def test_parts_of_one_partition_are_together_all_of_it(kafka: KafkaBroker, topic: str) -> None:
    kafka.produce(topic, [str(number) for number in range(1000)], partition=1)
    cuts = [0, 1, 2, 500, 501, 999, 1000]
    parts = [Range(topic, 1, begin, end) for begin, end in pairwise(cuts)]
    found = read(client(kafka), *parts)
    assert found == [(at, str(at).encode()) for at in range(1000)]


def test_blocks_are_the_same_every_time(kafka: KafkaBroker, topic: str) -> None:
    draw = random.Random(3)
    kafka.produce(topic, ["x" * draw.randrange(4000) for _ in range(500)], partition=0)
    kafka.produce(topic, ["y"], partition=1)
    small = client(kafka, records=40, bytes=50_000, options={"max.partition.fetch.bytes": 10_000})
    parts = [Range(topic, 0, 7, 490), Range(topic, 1, 0, 1)]
    once = blocks(small, *parts)
    assert all(len(block) <= 40 for block in once)
    assert min(len(block) for block in once[:-2]) < 40
    assert blocks(client(kafka, records=40, bytes=50_000), *parts) == blocks(small, *parts) == once


def test_records_that_are_larger_than_a_fetch_are_read(kafka: KafkaBroker) -> None:
    name = f"large.{uuid.uuid4().hex[:8]}"
    kafka.create_topic(name, max_message_bytes=str(8 * 2**20))
    kafka.produce(name, [b"a" * 3_000_000, b"b" * 5_000_000, b"c"])
    for reading in (client(kafka), client(kafka, options={"fetch.max.bytes": "1000"})):
        found = read(reading, Range(name, 0, 0, 3))
        assert [(at, len(value or b"")) for at, value in found] == [(0, 3_000_000), (1, 5_000_000), (2, 1)]


def test_a_consumer_is_used_again_until_it_meets_an_error(kafka: KafkaBroker, topic: str) -> None:
    kafka.produce(topic, ["a", "b"], partition=0)
    reading, idle = client(kafka, patience=0.5), kafka_consumer._Reader.idle
    read(reading, Range(topic, 0, 0, 1))
    first = idle[reading]
    assert read(reading, Range(topic, 0, 1, 2)) == [(1, b"b")]
    assert idle[reading] is first
    with pytest.raises(WorkerError):
        read(reading, Range(topic, 0, 0, 9))
    assert reading not in idle


def test_the_consumer_of_a_reading_that_is_given_up_is_let_go(kafka: KafkaBroker, topic: str) -> None:
    kafka.produce(topic, [str(number) for number in range(100)], partition=0)
    reading = client(kafka, records=10)
    begun = kafka_consumer._blocks([Range(topic, 0, 0, 100)], reading, None)
    next(begun)
    begun.close()
    assert reading not in kafka_consumer._Reader.idle
    assert len(read(reading, Range(topic, 0, 0, 100))) == 100


def test_only_so_many_idle_consumers_are_kept(kafka: KafkaBroker, topic: str) -> None:
    kafka.produce(topic, ["a"], partition=0)
    for number in range(7):
        read(client(kafka, patience=10 + number), Range(topic, 0, 0, 1))
    assert len(kafka_consumer._Reader.idle) <= kafka_consumer._KEPT


def test_offsets_that_are_gone_are_refused(kafka: KafkaBroker, topic: str) -> None:
    kafka.produce(topic, [str(number) for number in range(10)], partition=0)
    place = TopicPartition(topic, 0, 5)
    kafka.admin.delete_records([place])[place].result()
    with pytest.raises(WorkerError) as caught:
        read(client(kafka), Range(topic, 0, 3, 10))
    found = refused(caught.value)
    assert type(found) is DataRefused
    assert str(found) == (
        f"Cannot read topic '{topic}' partition 0 from offset 3: Kafka no longer has the records that were "
        "planned, up to 10; the next start tells what is left, and how to go on"
    )
    with pytest.raises(WorkerError, match="no longer has the records"):
        read(client(kafka), Range(topic, 0, 11, 12))


def test_a_partition_that_ends_too_early_is_waited_for_and_then_unavailable(
    kafka: KafkaBroker, topic: str
) -> None:
    kafka.produce(topic, ["a", "b"], partition=0)
    with pytest.raises(WorkerError) as caught:
        read(client(kafka, patience=0.5), Range(topic, 0, 0, 3))
    found = refused(caught.value)
    assert type(found) is Unavailable
    assert str(found).endswith("from offset 0: nothing came for 0.5 s")


def test_a_topic_that_is_gone_is_not_taken_for_an_empty_one(kafka: KafkaBroker) -> None:
    with pytest.raises(WorkerError) as caught:
        read(client(kafka, patience=1), Range(f"nowhere.{uuid.uuid4().hex[:8]}", 0, 0, 3))
    assert isinstance(refused(caught.value), Unavailable)


def test_a_broker_that_is_away_is_unavailable_and_read_on_when_it_is_back(
    kafka: KafkaBroker, topic: str
) -> None:
    kafka.produce(topic, [str(number) for number in range(100)], partition=0)
    reading = client(kafka, records=10, patience=2)
    begun = kafka_consumer._blocks([Range(topic, 0, 0, 100)], reading, None)
    next(begun)
    kafka.stop()
    try:
        begin = time.monotonic()
        with pytest.raises(WorkerError) as caught:
            read(reading, Range(topic, 0, 0, 100))
        assert time.monotonic() - begin < 15
        assert type(refused(caught.value)) is Unavailable
        assert "\n" not in str(refused(caught.value))
    finally:
        kafka.start()
    assert len(read(reading, Range(topic, 0, 0, 100))) == 100


@dataclass(frozen=True)
class Failure:
    """An error as librdkafka tells it."""

    code: str
    text: str = "why"

    def name(self) -> str:
        return self.code

    def str(self) -> str:
        return self.text


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (Failure("_AUTHENTICATION"), NotPermitted),
        (Failure("TOPIC_AUTHORIZATION_FAILED"), NotPermitted),
        (Failure("_SSL", "SSL handshake failed: certificate verify failed: x"), NotPermitted),
        (Failure("_SSL", "SSL handshake failed: Disconnected"), Unavailable),
        (Failure("_AUTO_OFFSET_RESET"), DataRefused),
        (Failure("_BAD_MSG"), DataRefused),
        (Failure("UNKNOWN_TOPIC_OR_PART"), Unavailable),
        (Failure("_ALL_BROKERS_DOWN"), Unavailable),
    ],
)
def test_errors_of_librdkafka_are_ours(failure: Failure, kind: type[CalveError]) -> None:
    found = kafka_consumer._error(failure, Range("t", 3, 10, 20))
    assert type(found) is kind
    assert str(found).startswith("Cannot read topic 't' partition 3 from offset 10: ")


def test_each_range_that_was_read_is_told_once_however_often_it_was_read(
    kafka: KafkaBroker, topic: str
) -> None:
    kafka.produce(topic, [json.dumps({"id": number}) for number in range(20)], partition=0)
    kafka.produce(topic, ["{"], partition=1)
    reports: list[Report] = []
    sieve = Sieve("b", "s", reports.extend)
    decode = record_rows(JsonDecoder(parse("id BIGINT")), {}, Topics((topic,), in_parts=True), sieve=sieve)
    tasks = [[Range(topic, 0, 0, 12)], [Range(topic, 0, 12, 20), Range(topic, 1, 0, 1)]]
    work = consumed(tasks, client(kafka, records=5), decode, sieve)
    for task in (0, 1, 1):
        rows = list(work([_numbers(task)]))
        assert sum(map(len, rows)) == (12, 8)[task]
    told = {one.place: one for one in reports}.values()
    assert sum(one.witness for one in told) == 3
    assert (sum(one.records for one in told), sum(one.bad for one in told)) == (21, 1)


def _numbers(number: int) -> Any:
    import pyarrow as pa

    return pa.RecordBatch.from_arrays([pa.array([number], pa.int64())], names=["id"])
