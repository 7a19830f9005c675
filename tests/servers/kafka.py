"""Apache Kafka in KRaft mode: one broker on the loopback interface."""

import base64
import socket
import subprocess
import uuid
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from tests.servers.process import Server, class_path, free_port, wait_until

_SETTINGS = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
log.dirs={folder}/data
auto.create.topics.enable=false
broker.heartbeat.interval.ms=500
broker.session.timeout.ms=2000
delete.topic.enable=true
log.retention.ms=-1
log.cleaner.backoff.ms=200
num.network.threads=1
num.io.threads=2
group.initial.rebalance.delay.ms=0
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
"""
_JVM = [
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
]

Value = bytes | str | None


class KafkaBroker(Server):
    """A Kafka broker."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.port, self.controller = free_port(), free_port()

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @cached_property
    def class_path(self) -> str:
        return class_path("kafka")

    @property
    def settings(self) -> Path:
        return self.folder / "server.properties"

    def start(self) -> None:
        if not (self.folder / "data").exists():
            self._format()
        super().start()

    def command(self) -> list[str]:
        return [*_JVM, "-cp", self.class_path, "kafka.Kafka", str(self.settings)]

    def is_ready(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            return bool(self.admin.list_topics(timeout=5).brokers)
        except (OSError, KafkaException):
            return False

    def lines(self) -> dict[str, Any]:
        """Settings besides the common ones, or instead of them."""
        return {}

    def _format(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        own = "".join(f"{name}={value}\n" for name, value in self.lines().items())
        common = _SETTINGS.format(port=self.port, controller=self.controller, folder=self.folder)
        self.settings.write_text(common + own)
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "_")
        tool = ["kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(self.settings)]
        with self.log.open("ab") as log:
            subprocess.run(
                [self.java, *_JVM, "-cp", self.class_path, *tool], check=True, stdout=log, stderr=log
            )

    @cached_property
    def admin(self) -> AdminClient:
        return AdminClient(self._client())

    def _client(self, **more: Any) -> dict[str, Any]:
        return {"bootstrap.servers": self.bootstrap, "log_level": 2, "error_cb": lambda error: None, **more}

    def create_topic(self, name: str, partitions: int = 1, **config: str) -> None:
        """Create a topic and wait until its partitions have a leader."""
        settings = {key.replace("_", "."): value for key, value in config.items()}
        self.admin.create_topics([NewTopic(name, partitions, 1, config=settings)])[name].result()
        wait_until(lambda: len(self._led(name)) == partitions, f"topic '{name}'")

    def add_partitions(self, name: str, total: int) -> None:
        """Grow a topic to `total` partitions."""
        self.admin.create_partitions([NewPartitions(name, total)])[name].result()
        wait_until(lambda: len(self._led(name)) == total, f"partitions of '{name}'")

    def delete_topic(self, name: str) -> None:
        """Delete a topic and wait until it is gone."""
        self.admin.delete_topics([name])[name].result()
        wait_until(lambda: name not in self.admin.list_topics(timeout=10).topics, f"end of '{name}'")

    def _led(self, name: str) -> list[int]:
        topic = self.admin.list_topics(timeout=10).topics.get(name)
        return [number for number, part in topic.partitions.items() if part.leader >= 0] if topic else []

    def produce(
        self, topic: str, values: Iterable[Value], *, keys: Iterable[Value] | None = None, **more: Any
    ) -> None:
        """Produce `values` in order; `more` goes to the producer: partition, timestamp, headers."""
        producer = self._producer()
        _send(producer, topic, values, keys, more)
        assert producer.flush(30) == 0, f"'{topic}' did not take every record"

    def produce_in_transaction(
        self,
        topic: str,
        values: Iterable[Value],
        *,
        commit: bool = True,
        keys: Iterable[Value] | None = None,
        **more: Any,
    ) -> None:
        """Produce `values` in one transaction, which is committed or aborted."""
        producer = self._producer(**{"transactional.id": str(uuid.uuid4())})
        producer.init_transactions(30)
        producer.begin_transaction()
        _send(producer, topic, values, keys, more)
        # An abort drops what is still in the client, and then no aborted record would be in the topic.
        assert producer.flush(30) == 0, f"'{topic}' did not take every record"
        (producer.commit_transaction if commit else producer.abort_transaction)(30)

    def _producer(self, **more: Any) -> Producer:
        own = {"linger.ms": 5, "enable.idempotence": True, "message.max.bytes": 16 * 2**20}
        return Producer(self._client(**{**own, **more}))

    def read(self, topic: str, isolation: str = "read_committed") -> list[Message]:
        """Everything that a consumer of `isolation` sees in `topic` now."""
        group = {"group.id": str(uuid.uuid4()), "isolation.level": isolation, "enable.partition.eof": True}
        consumer = Consumer(self._client(**group))
        try:
            partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
            consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
            return _drain(consumer, len(partitions))
        finally:
            consumer.close()

    def last(self, topic: str) -> Message | None:
        """The last record of a topic with one partition, in which none was ever aborted."""
        consumer = Consumer(self._client(**{"group.id": str(uuid.uuid4()), "enable.partition.eof": True}))
        try:
            first, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10)
            consumer.assign([TopicPartition(topic, 0, max(first, end - 1))])
            found = _drain(consumer, 1)
            return found[-1] if found else None
        finally:
            consumer.close()


def _send(
    producer: Producer,
    topic: str,
    values: Iterable[Value],
    keys: Iterable[Value] | None,
    more: dict[str, Any],
) -> None:
    values = list(values)
    chosen: Sequence[Value] = [None] * len(values) if keys is None else list(keys)
    for key, value in zip(chosen, values, strict=True):
        try:
            producer.produce(topic, value=value, key=key, **more)
        except BufferError:
            producer.flush(30)
            producer.produce(topic, value=value, key=key, **more)


def _drain(consumer: Consumer, partitions: int) -> list[Message]:
    messages: list[Message] = []
    while partitions:
        message = consumer.poll(30)
        if message is None:
            raise TimeoutError("the broker delivers neither a record nor the end of the partition")
        if message.error() is None:
            messages.append(message)
        elif message.error().code() == KafkaError._PARTITION_EOF:
            partitions -= 1
        else:
            raise KafkaException(message.error())
    return messages
