"""Records between planned offsets, and who reads them: Python workers, or Spark's own source."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from calve import gateway
from calve.schema import Array, Column, Primitive, Struct
from calve.sources import kafka_position
from calve.sources.kafka_position import Range

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from calve.decode.bad import Catch
    from calve.decode.undecoded import Work
    from calve.sources.kafka_consumer import Client

_HEADERS = Array(Struct((Column("key", Primitive("string")), Column("value", Primitive("binary")))))
METADATA = {
    "topic": Column("_topic", Primitive("string"), False),
    "partition": Column("_partition", Primitive("int"), False),
    "offset": Column("_offset", Primitive("bigint"), False),
    "timestamp": Column("_timestamp", Primitive("timestamp"), False),
    "key": Column("_key", Primitive("binary")),
    "headers": Column("_headers", _HEADERS),
}
"""What Kafka knows of a record, and the columns that it becomes."""

_NEEDED = ("value", "partition", "offset")
_HEADERS_COLUMN = "headers_as_json"
RAW = ("key", "timestamp", _HEADERS_COLUMN)
"""What a dead letter needs besides."""

_LARGE_FETCHES = {
    "fetch.max.bytes": str(64 * 2**20),
    "max.partition.fetch.bytes": str(8 * 2**20),
    "max.poll.records": "10000",
}
"""What Java's consumer takes at once unless `options` say otherwise; a task reads one partition."""


@dataclass(frozen=True)
class ByWorkers:
    """Records that the workers read which decode them."""

    client: Client

    def given(
        self, spark: SparkSession, parts: list[Range], work: Work, wanted: Sequence[str], bad: Catch | None
    ) -> tuple[DataFrame, Work]:
        """A row for each task, and the work of reading and `work` on what is read."""
        from calve.sources.kafka_consumer import consumed

        tasks = kafka_position.shared(parts, spark.sparkContext.defaultParallelism)
        if bad is not None:
            bad.expected = lambda: sum(map(len, tasks))
        numbers = spark.range(0, len(tasks), 1, len(tasks))
        return numbers, consumed(tasks, self.client, work, bad.sieve if bad else None)


@dataclass(frozen=True)
class BySpark:
    """Records that Spark's own source reads, with the settings of Java's consumer."""

    settings: Mapping[str, str]

    def given(
        self, spark: SparkSession, parts: list[Range], work: Work, wanted: Sequence[str], bad: Catch | None
    ) -> tuple[DataFrame, Work]:
        """The records with what is `wanted` of them, and `work`."""
        has_headers = bad is not None or "headers" in wanted
        names = (_HEADERS_COLUMN if name == "headers" else name for name in wanted)
        records = spark.read.format("kafka").options(**self._options(parts, has_headers)).load()
        records = with_headers(records) if has_headers else records
        records = records.select(*dict.fromkeys((*_NEEDED, *names, *(RAW if bad else ()))))
        return (records if bad is None else _witnessed(records, bad)), work

    def _options(self, parts: list[Range], headers: bool) -> dict[str, str]:
        last = _nested((part.topic, part.partition, part.end) for part in parts)
        return {
            "assign": json.dumps({topic: [int(number) for number in ends] for topic, ends in last.items()}),
            "startingOffsets": json.dumps(_nested((p.topic, p.partition, p.begin) for p in parts)),
            "endingOffsets": json.dumps(last),
            "failOnDataLoss": "true",
            "includeHeaders": str(headers).lower(),
            **{f"kafka.{name}": value for name, value in {**_LARGE_FETCHES, **self.settings}.items()},
        }


def with_headers(records: DataFrame) -> DataFrame:
    """`records` with their headers as those take them who decode."""
    from pyspark.sql import functions as f

    return records.withColumn(_HEADERS_COLUMN, f.to_json("headers"))


def _witnessed(records: DataFrame, bad: Catch) -> DataFrame:
    """`records`, which Spark counts as it reads them."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as f

    seen = Observation()
    bad.expected = lambda: gateway.observed(seen, "records")
    return records.observe(seen, f.count(f.lit(1)).alias("records"))


def _nested(parts: Iterable[tuple[str, int, int]]) -> dict[str, dict[str, int]]:
    """Per topic its partitions and their offsets."""
    found: dict[str, dict[str, int]] = {}
    for topic, partition, offset in parts:
        found.setdefault(topic, {})[str(partition)] = offset
    return found
