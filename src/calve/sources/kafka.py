"""Kafka topics as a source."""

from __future__ import annotations

import re
import threading
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import PrivateAttr

from calve import changes
from calve.errors import StartRefused
from calve.gateway import translated
from calve.position import Position
from calve.schema import Schema, avro
from calve.sources import kafka_client, kafka_position
from calve.sources.kafka_cluster import KafkaCluster, require
from calve.sources.kafka_keys import KafkaKeys, KafkaStart
from calve.sources.kafka_position import Range, Topics
from calve.sources.kafka_records import METADATA, RAW, BySpark, ByWorkers, with_headers
from calve.sources.operation import loose
from calve.sources.source import Limits, Waiting, refuse_clashes, with_changes

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame, SparkSession

    from calve.decode.bad import Catch, Sieve
    from calve.decode.debezium import DebeziumDecoder
    from calve.decode.decoder import Decoder
    from calve.decode.rows import Topics as Places
    from calve.decode.schemas import Registered
    from calve.decode.undecoded import Undecoded
    from calve.decode.valueless import Valueless


class KafkaSource(KafkaKeys):
    """Records of Kafka topics."""

    connector: ClassVar[str] = "kafka"
    jars: ClassVar[tuple[str, ...]] = ("kafka",)
    has_streams: ClassVar[bool] = True
    workers_import: ClassVar[tuple[str, ...]] = (
        "confluent_kafka", "calve.sources.kafka_consumer", "calve.decode.json", "calve.iceberg.parquet",
    )  # fmt: skip

    _cluster: KafkaCluster | None = PrivateAttr(default=None)
    _lock: Any = PrivateAttr(default_factory=threading.Lock)
    _group: str = PrivateAttr(default_factory=lambda: f"calve-{uuid.uuid4()}")
    _tells_stream: bool = PrivateAttr(default=False)

    def identity(self) -> str:
        self._record_columns()
        return f"kafka:{self._reach().cluster_id()}"

    def start(self) -> Position:
        there = self._topics({})
        if self.topics is not None:
            require(self.topics, there.ids, self._where())
        first = there.ends if self.start_ == "latest" else dict(there.earliest)
        if isinstance(self.start_, KafkaStart):
            first = {**first, **_chosen(self.start_.position, there)}
        return kafka_position.dump(there.ids, first, {})

    @property
    def start_moves(self) -> bool:
        return self.start_ == "latest"

    def before(self, start: Position, rows: int) -> Position | None:
        return kafka_position.before(start, self._topics(start), rows)

    def overlaps(self, position: Position) -> bool:
        return any(self._is_declared(topic) for topic in position.get("topics", {}))

    def without_lost(self, after: Position) -> Position:
        there = self._committed_or_not(after, self._topics(after))
        return kafka_position.without_lost(after, there, self._is_declared)

    def latest(self, after: Position, limits: Limits) -> Waiting:
        there = self._topics(after)
        kafka_position.refuse_loss(after, self._committed_or_not(after, there), self._is_declared)
        if self.topics is not None:
            require(self.topics, there.ids, self._where())
        waiting = kafka_position.backlog(after, there)
        taken = kafka_position.shares(waiting, limits.rows)
        rows = sum(part.rows for part in taken)
        to = kafka_position.moved(after, there, taken)
        return Waiting(to, rows, self._bytes(taken, there) if rows else 0, more=taken != waiting)

    def _committed_or_not(self, after: Position, there: Topics) -> Topics:
        """`there` up to what is written: a position may stand in a transaction that was read uncommitted."""
        known = kafka_position.offsets(after)
        ahead = [place for place, end in there.ends.items() if known.get(place, 0) > end]
        if not ahead or self.isolation == "read_uncommitted":
            return there
        return replace(
            there, ends={**there.ends, **self._reach().offsets(ahead, "latest", "read_uncommitted")}
        )

    def _bytes(self, taken: list[Range], there: Topics) -> int:
        waiting = {(part.topic, part.partition): part.rows for part in taken if part.rows}
        held = {place: there.ends[place] - there.earliest[place] for place in there.ends}
        sizes = self._reach().bytes_per_offset(held)
        return int(sum(rows * sizes.get(place, 0.0) for place, rows in waiting.items()))

    def streamed(self) -> KafkaSource:
        """The same topics, whose names the rows tell."""
        copy = self.model_copy()
        copy._tells_stream = True
        return copy

    def read(self, spark: SparkSession, after: Position, to: Position) -> DataFrame:
        if self.infers:
            return self._of_batch(spark, after, to).read(spark, after, to)
        if self.carries_changes:
            return self.read_changes(spark, after, to).drop(*changes.NAMES)
        return self._read(spark, after, to, False)

    def read_changes(self, spark: SparkSession, after: Position, to: Position) -> DataFrame:
        if self.infers:
            return self._of_batch(spark, after, to).read_changes(spark, after, to)
        return self._read(spark, after, to, True)

    @property
    def catches(self) -> bool:
        return True

    def read_good(
        self, spark: SparkSession, after: Position, to: Position, bad: Catch, *, as_changes: bool
    ) -> DataFrame:
        if self.infers:
            made = self._of_good(spark, after, to, bad)
            return made.read_good(spark, after, to, bad, as_changes=as_changes)
        return self._read(spark, after, to, as_changes, bad)

    def is_inside(self, after: Position, to: Position, place: Expression) -> Expression:
        from pyspark.sql import functions as f

        topic = f.get_json_object(place, "$.topic")
        partition = f.get_json_object(place, "$.partition").cast("bigint")
        offset = f.get_json_object(place, "$.offset").cast("bigint")
        found = f.lit(False)
        for part in kafka_position.ranges(after, to):
            is_part = (topic == part.topic) & (partition == part.partition)
            found |= is_part & (offset >= part.begin) & (offset < part.end)
        return found

    @property
    def decodes(self) -> bool:
        return True

    def undecoded(
        self, spark: SparkSession, after: Position, to: Position, bad: Catch | None, *, as_changes: bool
    ) -> Undecoded | None:
        from calve.decode.undecoded import Undecoded

        if after == to or not kafka_position.ranges(after, to):
            return None
        if self.infers:
            made = self._of_good(spark, after, to, bad) if bad else self._of_batch(spark, after, to)
            return made.undecoded(spark, after, to, bad, as_changes=as_changes)
        with translated(f"read Kafka at '{self._where()}'"):
            columns = self._made_columns(as_changes)
            records, work = self._given(spark, after, to, as_changes, bad)
            return Undecoded(records, work, columns, lambda made: self._arranged(made, as_changes))

    def read_bad(
        self, spark: SparkSession, after: Position, to: Position, bad: Catch, *, as_changes: bool
    ) -> DataFrame:
        from calve.decode.bad import RECORD, Catch

        if self.infers:
            made = self._of_bad(spark, after, to, bad)
            return made.read_bad(spark, after, to, bad, as_changes=as_changes)
        only = Catch(bad.sieve.only_letters())
        records, work = self._given(spark, after, to, as_changes, only)
        return records.mapInArrow(work, _types(RECORD))

    def read_again(
        self, spark: SparkSession, letters: DataFrame, bad: Catch, *, as_changes: bool
    ) -> DataFrame:
        if self.infers:
            return self._of_letters(letters, bad).read_again(spark, letters, bad, as_changes=as_changes)
        from calve.decode.rows import Topics as Places

        place = "from_json(position, 'topic STRING, partition INT, offset BIGINT') AS place"
        raw = ("value", "event_time AS timestamp", "key", "headers")
        records = with_headers(letters.selectExpr(place, *raw)).select("place.*", "value", *RAW)
        topics = [row[0] for row in records.select("topic").distinct().sort("topic").collect()]
        work = self._work(Places(tuple(topics), self._is_headed), as_changes, bad.sieve)
        made = records.mapInArrow(work, _types(self._made_columns(as_changes)))
        return self._arranged(made, as_changes)

    @property
    def infers(self) -> bool:
        return self.schema_ is None and self.format == "json"

    def expect(self, table: Schema, *, whole: bool = False, redirects: bool = False) -> None:
        own = {METADATA[name].name for name in self.metadata}
        held = tuple(column for column in table.columns if column.name not in own)
        super().expect(Schema(held), whole=whole, redirects=redirects)

    def _told(self) -> str:
        return f"topics at '{self._where()}'"

    def _columns_in(self, spark: SparkSession, after: Position, to: Position) -> Schema:
        from calve.decode.infer import TYPES, of_parts, record_types

        ranges = kafka_position.ranges(after, to)
        if not ranges:
            return Schema(())
        with translated(f"read Kafka at '{self._where()}'"):
            records, work = self._reader().given(spark, ranges, record_types, (), None)
            return of_parts(records.mapInArrow(work, TYPES).collect())

    def _columns_of(self, letters: DataFrame) -> Schema:
        from calve.decode.infer import TYPES, letter_types, of_parts
        from calve.decode.json import JsonDecoder

        told = letters.select("key", "value").mapInArrow(letter_types(JsonDecoder(Schema(()))), TYPES)
        with translated("read dead letters"):
            return of_parts(told.collect())

    def _read(
        self, spark: SparkSession, after: Position, to: Position, as_changes: bool, bad: Catch | None = None
    ) -> DataFrame:
        there = self.undecoded(spark, after, to, bad, as_changes=as_changes)
        if there is not None:
            return there.rows()
        nothing = spark.createDataFrame([], _types(self._made_columns(as_changes)))
        return self._arranged(nothing, as_changes)

    def _given(
        self, spark: SparkSession, after: Position, to: Position, as_changes: bool, bad: Catch | None
    ) -> tuple[DataFrame, Any]:
        """The records between two positions, and the work that makes rows of them."""
        from calve.decode.rows import Topics as Places

        parts, reader = kafka_position.ranges(after, to), self._reader()
        topics = sorted({part.topic for part in parts})
        timed = [topic for topic in self._unordered(to) if topic in topics] if as_changes else []
        there = Places(tuple(topics), self._is_headed, isinstance(reader, ByWorkers), tuple(timed))
        wanted = (*self._kept(), *self._also_needed(topics), *(("timestamp",) if timed else ()))
        return reader.given(
            spark, parts, self._work(there, as_changes, bad.sieve if bad else None), wanted, bad
        )

    def _unordered(self, to: Position) -> list[str]:
        """The topics whose records come from several partitions, or with others into one table."""
        there = Counter(topic for topic, _ in kafka_position.offsets(to) if self._is_declared(topic))
        several = len(there) > 1 and not self._tells_stream
        return [topic for topic, partitions in there.items() if several or partitions > 1]

    def _work(self, there: Places, as_changes: bool, sieve: Sieve | None) -> Any:
        """What is decoded of the records, the columns of `metadata` behind it."""
        kept = {name: METADATA[name].name for name in self._kept()}
        return (self._changes if as_changes else self._rows)(kept, there, sieve)

    def _arranged(self, made: DataFrame, as_changes: bool) -> DataFrame:
        """The columns in their order, and the stream behind them if it is asked for."""
        topic = METADATA["topic"].name
        if self._tells_stream and "topic" in self.metadata:
            made = made.withColumn(changes.STREAM, made[topic])
        elif self._tells_stream:
            made = made.withColumnRenamed(topic, changes.STREAM)
        if not as_changes:
            return made
        stream = (changes.STREAM,) if self._tells_stream else ()
        names = (*self._all_columns().names, *changes.NAMES, *stream)
        return made.select(*(f"`{name.replace('`', '``')}`" for name in names))

    def _kept(self) -> tuple[str, ...]:
        """What Kafka knows of a record that becomes a column."""
        return tuple(dict.fromkeys((*self.metadata, *(("topic",) if self._tells_stream else ()))))

    def _made_columns(self, as_changes: bool) -> Schema:
        columns = self._value_columns()
        if as_changes:
            refuse_clashes(self._all_columns())
            columns = with_changes(columns, carried=self.carries_changes)
        return Schema((*columns.columns, *(METADATA[name] for name in self._kept())))

    def _also_needed(self, topics: list[str]) -> Iterator[str]:
        if len(topics) > 1:
            yield "topic"
        if self.format == "debezium" or self._deletes_by_key:
            yield "key"

    def _rows(self, kept: dict[str, str], there: Places, sieve: Sieve | None) -> Any:
        from calve.decode.rows import record_rows

        return record_rows(self._decoder(), kept, there, None, sieve, self._valueless())

    def _changes(self, kept: dict[str, str], there: Places, sieve: Sieve | None) -> Any:
        from calve.decode.changes import RowChanges
        from calve.decode.rows import record_changes, record_rows

        if self.format == "debezium":
            return record_changes(self._debezium_decoder(), kept, there, sieve)
        operation = self.operation
        columns = self._value_columns().columns if self._is_loose else ()
        required = [column.name for column in columns if not column.nullable]
        codes = operation.codes() if operation else {}
        made = RowChanges(operation.field if operation else None, codes, required)
        return record_rows(self._decoder(), kept, there, made, sieve, self._valueless())

    def _valueless(self) -> Valueless | None:
        """What records without a value are; None: bad ones."""
        from calve.decode.valueless import KeyDecoder, Valueless

        if self.tombstones != "delete":
            return Valueless() if self.tombstones == "ignore" else None
        known = {column.name: column for column in self._value_columns().columns}
        columns = tuple(replace(known[name], nullable=False) for name in self.key_fields or ())
        return Valueless(KeyDecoder(Schema(columns), self.key_format))

    @property
    def _is_loose(self) -> bool:
        """Whether some rows are gone, and then have NULL in any column."""
        return self.operation is not None or self._deletes_by_key

    def _debezium_decoder(self) -> DebeziumDecoder:
        from calve.decode.connect import Hints
        from calve.decode.debezium import DebeziumDecoder

        fields = self.debezium.key_fields
        hints = Hints(self.debezium.timestamps, self.debezium.decimals)
        known = (self._value_columns(), hints, tuple(fields) if fields else None)
        if self._written is None or self._written.registry is None:
            return DebeziumDecoder(*known)
        from calve.decode.transcoding import RegisteredDebeziumDecoder

        return RegisteredDebeziumDecoder(*known, self._written.registry.client())

    def _decoder(self) -> Decoder:
        from calve.decode.csv import CsvDecoder
        from calve.decode.headed import HeadedDecoder
        from calve.decode.json import JsonDecoder
        from calve.decode.text import RawDecoder, TextDecoder

        known = self._record_columns()
        if known is None:
            return TextDecoder() if self.format == "text" else RawDecoder()
        schema = loose(known) if self._is_loose else known
        if self.format == "avro":
            return self._avro_decoder(schema)
        if self._written is not None and self._written.registry is not None:
            return HeadedDecoder(JsonDecoder(schema))
        if self.format == "csv":
            return CsvDecoder(schema, self.csv.dialect())
        return JsonDecoder(schema, self._watch)

    def _avro_decoder(self, schema: Schema) -> Decoder:
        from calve.decode.avro import AvroDecoder

        written = self._written
        assert written is not None
        if written.registry is None:
            return AvroDecoder(schema, own=written.text())
        client = written.registry.client()
        if written.columns is not None:
            return AvroDecoder(schema, registry=client)
        found: Registered = self._registered[0]
        reader = avro.load(found.text, [text for _, text in found.references])
        return AvroDecoder(schema, registry=client, reader=reader)

    def _reader(self) -> ByWorkers | BySpark:
        """Who reads the records; all in one group, so that consumers are used again."""
        own = {"isolation.level": self.isolation, "group.id": self._group}
        if self.why_java() is not None:
            return BySpark({**own, **self._settings()})
        from calve.sources.kafka_consumer import Client

        where = {"bootstrap.servers": re.sub(r"\w+://", "", self._where())}
        told = {**where, **kafka_client.settings(self.options), **own, **self.librdkafka_settings()}
        return ByWorkers(Client(tuple(sorted(told.items())), kafka_client.records_at_once(self.options)))

    def warnings(self) -> list[str]:
        why = self.why_java()
        return [f"records are read by Spark's own Kafka source, which takes longer: {why}"] if why else []

    def order_warnings(self, position: Position) -> list[str]:
        topics = self._unordered(position)
        names = ", ".join(f"'{topic}'" for topic in topics[:3]) + (", …" if len(topics) > 3 else "")
        why = "a key that is in several of them has no order over batches; declare order_by if there is one"
        where = "partitions" if len(topics) == 1 or self._tells_stream else "partitions and topics"
        return [f"the records of {names} are in several {where}: {why}"] if topics else []

    def why_java(self) -> str | None:
        """Why Spark's own source reads, and not the workers that decode; None where they do."""
        return kafka_client.why_java(self.options, self.security_protocol, self.ssl_ca is not None)

    def _settings(self) -> dict[str, str]:
        return {"bootstrap.servers": self._where(), **self.options, **self.security_settings()}

    def _where(self) -> str:
        return ",".join(self.bootstrap_servers)

    def _reach(self) -> KafkaCluster:
        with self._lock:
            if self._cluster is None:
                self._cluster = KafkaCluster(self._settings(), self._where())
            return self._cluster

    def _topics(self, after: Position) -> Topics:
        known = [topic for topic in after.get("topics", {}) if self._is_declared(topic)]
        if self.topic_pattern is not None:
            found = self._reach().names(re.compile(self.topic_pattern))
        else:
            found = self.topics or []
        return self._reach().topics(dict.fromkeys([*found, *known]), self.isolation)

    def _is_declared(self, topic: str) -> bool:
        if self.topic_pattern is not None:
            return re.fullmatch(self.topic_pattern, topic) is not None
        return topic in (self.topics or ())

    def check(self) -> list[str]:
        seen = [f"cluster '{self._reach().cluster_id()}' at '{self._where()}'"]
        there = self._topics({})
        if self.topics is not None:
            require(self.topics, there.ids, self._where())
        for topic in there.ids:
            places = [place for place in there.ends if place[0] == topic]
            held = sum(there.ends[place] - there.earliest[place] for place in places)
            seen.append(f"topic '{topic}': {len(places)} partitions, {held} offsets")
        return [*seen, *self._registry_seen()]

    def _registry_seen(self) -> Iterator[str]:
        written = self._written
        if written is None or written.registry is None or written.columns is not None:
            return
        count, found = len(self._value_columns().columns), self._registered[0]
        where = f"subject '{self._subject(written)}' version {found.version} at '{written.registry.url}'"
        yield f"{where}: {count} columns"


def _types(columns: Schema) -> Any:
    from pyspark.sql.types import StructType

    return StructType.fromJson(columns.to_spark_json())


def _chosen(position: Mapping[str, Mapping[int, int]], there: Topics) -> dict[tuple[str, int], int]:
    chosen = {
        (topic, number): offset for topic, parts in position.items() for number, offset in parts.items()
    }
    for (topic, number), offset in chosen.items():
        place = (topic, number)
        if place not in there.ends:
            what = f"Cannot start at topic '{topic}' partition {number}: it does not exist"
            raise StartRefused(what)
        if not there.earliest[place] <= offset <= there.ends[place]:
            raise StartRefused(
                f"Cannot start at offset {offset} of topic '{topic}' partition {number}: it has "
                f"{there.earliest[place]} to {there.ends[place]}",
            )
    return chosen
