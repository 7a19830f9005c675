"""The broker of the tests does what the tests rely on."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.servers.kafka import KafkaBroker


@pytest.fixture
def topic(kafka: KafkaBroker) -> str:
    name = f"t-{uuid.uuid4()}"
    kafka.create_topic(name, partitions=2)
    return name


def test_an_aborted_transaction_is_in_the_topic_but_not_read(kafka: KafkaBroker, topic: str) -> None:
    kafka.produce_in_transaction(topic, [f"kept {n}" for n in range(10)])
    kafka.produce_in_transaction(topic, [f"aborted {n}" for n in range(5)], commit=False)
    committed = {message.value() for message in kafka.read(topic)}
    assert committed == {f"kept {n}".encode() for n in range(10)}
    assert len(kafka.read(topic, isolation="read_uncommitted")) == 15


def test_a_plain_record_keeps_key_partition_and_headers(kafka: KafkaBroker, topic: str) -> None:
    kafka.produce(topic, ["v", None], keys=["k", "gone"], partition=1, headers={"h": b"x"})
    first, second = kafka.read(topic)
    assert (first.key(), first.value(), first.partition(), first.headers()) == (b"k", b"v", 1, [("h", b"x")])
    assert (second.key(), second.value()) == (b"gone", None)


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_the_rows_are_there_after_the_broker_ended(kafka: KafkaBroker, topic: str, end: str) -> None:
    kafka.produce(topic, [str(n) for n in range(100)])
    getattr(kafka, end)()
    assert not kafka.is_ready()
    kafka.start()
    assert len(kafka.read(topic)) == 100


def test_a_topic_grows_and_goes(kafka: KafkaBroker, topic: str) -> None:
    kafka.add_partitions(topic, 3)
    assert len(kafka.admin.list_topics(timeout=10).topics[topic].partitions) == 3
    kafka.delete_topic(topic)
    assert topic not in kafka.admin.list_topics(timeout=10).topics
