"""A Kafka cluster as its admin client in the JVM sees it."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from calve import gateway
from calve.errors import ConfigurationError
from calve.sources.kafka_position import Partition, Topics

_REQUEST_MS = 5_000
_CALL_MS = 15_000
_SIZES_STAY = 300.0

# A result is taken over as the text that Java makes of the whole map: one round trip instead of several for
# each partition. Names of topics hold nothing but letters, digits, dots, lines and dashes.
_OFFSET = re.compile(r"([\w.-]+)-(\d+)=ListOffsetsResultInfo\(offset=(-?\d+)")
_REPLICA = re.compile(r"([\w.-]+)-(\d+)=ReplicaInfo\(size=(\d+)")
_NODE = re.compile(r"\(id: (\d+) ")
_PARTITION = re.compile(r"\(partition=(\d+),")


@dataclass(frozen=True)
class Sizes:
    """The bytes of partitions on the brokers' disks, and how many offsets they had when that was asked."""

    asked: float = float("-inf")
    bytes: Mapping[Partition, int] = field(default_factory=dict)
    offsets: Mapping[Partition, int] = field(default_factory=dict)

    def are_old(self, held: Mapping[Partition, int], now: float) -> bool:
        """Whether to ask again: after a while, or where a partition has become more than twice as long."""
        if now - self.asked > _SIZES_STAY:
            return True
        return any(count > 2 * self.offsets.get(place, 0) for place, count in held.items())

    def per_offset(self) -> dict[Partition, float]:
        return {
            place: self.bytes[place] / count
            for place, count in self.offsets.items()
            if count > 0 and place in self.bytes
        }


class KafkaCluster:
    """One admin client; safe to use from several threads."""

    def __init__(self, settings: Mapping[str, str], servers: str) -> None:
        self._jvm = gateway.jvm()
        self._servers = servers
        self._sizes = Sizes()
        self._asked: dict[str, tuple[list[Partition], Any]] = {}
        """Per end of partitions those that were asked for last, as Java has them: to make them anew takes two
        calls for each."""
        with self._asking("reach Kafka"):
            self._admin = self._jvm.org.apache.kafka.clients.admin.Admin.create(self._properties(settings))

    def _properties(self, settings: Mapping[str, str]) -> Any:
        properties = self._jvm.java.util.HashMap()
        bounds = {"request.timeout.ms": str(_REQUEST_MS), "default.api.timeout.ms": str(_CALL_MS)}
        for name, value in {**settings, **bounds}.items():
            properties.put(name, value)
        return properties

    def _asking(self, what: str) -> Any:
        return gateway.translated(f"{what} at '{self._servers}'")

    def close(self) -> None:
        """Let go of the connections."""
        self._admin.close(self._jvm.java.time.Duration.ofMillis(0))

    def cluster_id(self) -> str:
        """The id that the cluster was formatted with."""
        with self._asking("ask Kafka for its cluster id"):
            return str(self._admin.describeCluster().clusterId().get())

    def names(self, pattern: re.Pattern[str]) -> list[str]:
        """The topics whose whole name matches `pattern`."""
        with self._asking("list the topics of Kafka"):
            listed = self._admin.listTopics().names().get().toString()
        return sorted(name for name in listed.strip("[]").split(", ") if pattern.fullmatch(name))

    def partitions(self, topics: Iterable[str]) -> dict[str, tuple[str, list[int]]]:
        """The id and the partitions of each topic; those that do not exist are left out."""
        described = {}
        asked = self._admin.describeTopics(self._list(topics)).topicNameValues()
        for topic in topics:
            found = self._described(topic, asked.get(topic))
            if found is not None:
                numbers = [int(number) for number in _PARTITION.findall(found.toString())]
                described[topic] = (str(found.topicId().toString()), sorted(numbers))
        return described

    def _described(self, topic: str, asked: Any) -> Any:
        try:
            with self._asking(f"describe topic '{topic}' of Kafka"):
                return asked.get()
        except Exception as error:
            if "UnknownTopicOrPartitionException" in gateway.trace(error.__cause__ or error):
                return None
            raise

    def topics(self, topics: Iterable[str], isolation: str) -> Topics:
        """Ids of the topics and both ends of their partitions; those that do not exist are left out."""
        described = self.partitions(topics)
        places = [(topic, number) for topic, (_, numbers) in described.items() for number in numbers]
        ids = {topic: found for topic, (found, _) in described.items()}
        return Topics(
            ids, self.offsets(places, "earliest", isolation), self.offsets(places, "latest", isolation)
        )

    def offsets(self, places: Iterable[Partition], end: str, isolation: str) -> dict[Partition, int]:
        """The earliest or latest offset of each partition, for a reader of `isolation`."""
        admin = self._jvm.org.apache.kafka.clients.admin
        asked = self._specs(list(places), end)
        level = self._jvm.org.apache.kafka.common.IsolationLevel.valueOf(isolation.upper())
        with self._asking("ask Kafka for offsets"):
            found = self._admin.listOffsets(asked, admin.ListOffsetsOptions(level)).all().get().toString()
        return {(topic, int(number)): int(offset) for topic, number, offset in _OFFSET.findall(found)}

    def _specs(self, places: list[Partition], end: str) -> Any:
        """The map of partitions that Java wants; it is kept as long as they are the same."""
        known, specs = self._asked.get(end, (None, None))
        if known == places:
            return specs
        spec = getattr(self._jvm.org.apache.kafka.clients.admin.OffsetSpec, end)()
        specs = self._jvm.java.util.HashMap()
        for topic, number in places:
            specs.put(self._jvm.org.apache.kafka.common.TopicPartition(topic, number), spec)
        self._asked[end] = (places, specs)
        return specs

    def bytes_per_offset(self, held: Mapping[Partition, int]) -> dict[Partition, float]:
        """How large records are on the brokers' disks, by partitions that have so many offsets.

        Those of a partition that may not be asked for, or has none, are left out.
        """
        if self._sizes.are_old(held, time.monotonic()):
            self._sizes = Sizes(time.monotonic(), self._ask_sizes(), dict(held))
        return self._sizes.per_offset()

    def _ask_sizes(self) -> dict[Partition, int]:
        try:
            nodes = _NODE.findall(self._admin.describeCluster().nodes().get().toString())
            brokers = self._list(int(node) for node in nodes)
            text = self._admin.describeLogDirs(brokers).allDescriptions().get().toString()
        except Exception:
            return {}
        sizes: dict[Partition, int] = {}
        for topic, number, size in _REPLICA.findall(text):
            place = (topic, int(number))
            sizes[place] = max(int(size), sizes.get(place, 0))
        return sizes

    def _list(self, values: Iterable[Any]) -> Any:
        listed = self._jvm.java.util.ArrayList()
        for value in values:
            listed.add(value)
        return listed


def require(topics: Iterable[str], there: Iterable[str], servers: str) -> None:
    """Raise ConfigurationError where a declared topic does not exist."""
    missing = sorted(set(topics) - set(there))
    if missing:
        names = ", ".join(f"'{name}'" for name in missing)
        raise ConfigurationError(f"Cannot read topic {names} of Kafka at '{servers}': it does not exist")
