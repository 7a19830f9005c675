"""Kafka records read by the Python workers that decode them: planned offsets in, blocks of records out."""

from __future__ import annotations

import base64
import json
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from calve.decode.arrow import Values
from calve.decode.rows import HEADERS
from calve.decode.worker import settle
from calve.errors import CalveError, ConfigurationError, DataRefused, NotPermitted, Unavailable
from calve.gateway import WorkerError
from calve.sources.kafka_position import Range

if TYPE_CHECKING:
    from calve.decode.bad import Sieve
    from calve.decode.undecoded import Work

_WAIT = 0.05
_KEPT = 4
"""How many idle consumers of different settings a worker keeps."""

_LOST = ("_AUTO_OFFSET_RESET", "_LOG_TRUNCATION", "OFFSET_OUT_OF_RANGE")
_DAMAGED = ("_BAD_MSG", "_BAD_COMPRESSION", "INVALID_MSG")
_REFUSED = ("_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED", "TOPIC_AUTHORIZATION_FAILED",
            "CLUSTER_AUTHORIZATION_FAILED")  # fmt: skip
_UNTRUSTED = "certificate verify failed"


@dataclass(frozen=True)
class Client:
    """How a worker reads: settings of librdkafka, and how much is decoded at once. Holds secrets."""

    settings: tuple[tuple[str, Any], ...] = field(repr=False)
    records: int = 10_000
    bytes: int = 16 * 2**20
    patience: float = 60.0
    """For how many seconds a broker that tells nothing is waited for."""


def consumed(
    tasks: list[list[Range]], client: Client, work: Work, sieve: Sieve | None = None
) -> Callable[[Any], Any]:
    """A function for `mapInArrow` over the numbers of tasks: `work` on the records of their ranges.

    Of a range that was read to its end, `sieve` is told.
    """

    def mapped(batches: Iterable[pa.RecordBatch]) -> Any:
        settle()
        numbers = (int(str(number)) for batch in batches for number in batch.column(0).to_pylist())
        return work(_blocks((part for number in numbers for part in tasks[number]), client, sieve))

    return mapped


def _blocks(parts: Iterable[Range], client: Client, sieve: Sieve | None) -> Iterator[Any]:
    from confluent_kafka import KafkaException

    for part in parts:
        try:
            for messages in _messages(part, client):
                yield Block(messages, part)
        except CalveError as error:
            raise WorkerError(error) from None
        except KafkaException as error:
            raise WorkerError(_error(error.args[0], part)) from None
        if sieve is not None and not sieve.letters:
            sieve.done((part.topic, part.partition, part.begin, part.end))


class Block:
    """Records as they came; like a batch of Arrow's, with columns that are made when they are asked for."""

    def __init__(self, messages: Sequence[Any], part: Range) -> None:
        self._messages = messages
        self._part = part
        self._made: dict[str, Values] = {}

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def num_rows(self) -> int:
        return len(self)

    def column(self, name: str) -> Values:
        """What Spark's own source calls `name`, with the same type."""
        if name not in self._made:
            self._made[name] = self._column(name)
        return self._made[name]

    def _column(self, name: str) -> Values:
        from confluent_kafka import Message

        if name == "topic":
            return pa.repeat(pa.scalar(self._part.topic), len(self))
        if name == "partition":
            return pa.repeat(pa.scalar(self._part.partition, pa.int32()), len(self))
        if name == HEADERS:
            return pa.array([_headers(one.headers()) for one in self._messages], pa.string())
        if name == "timestamp":
            told = map(Message.timestamp, self._messages)
            # Where a record has no time, Java says -1.
            times = [1000 * time if kind else -1000 for kind, time in told]
            return pa.array(times, pa.timestamp("us", "UTC"))
        kind: Any = pa.int64() if name == "offset" else pa.binary()
        return pa.array(list(map(getattr(Message, name), self._messages)), kind)


def _headers(told: Sequence[tuple[str, bytes | None]] | None) -> str | None:
    return json.dumps([_header(*one) for one in told], separators=(",", ":")) if told else None


def _header(key: str, value: bytes | None) -> dict[str, str]:
    return {"key": key} if value is None else {"key": key, "value": base64.b64encode(value).decode()}


def _messages(part: Range, client: Client) -> Iterator[list[Any]]:
    """The records of a range, cut at the same places every time it is read."""
    reader = _Reader.of(client)
    try:
        yield from reader.read(part)
    except BaseException:
        reader.close()
        raise
    reader.put_back()


class _Reader:
    """A consumer of librdkafka, which reads one range after the other."""

    idle: dict[Client, _Reader] = {}

    def __init__(self, client: Client) -> None:
        from confluent_kafka import Consumer, KafkaException

        self._client = client
        self._failure: Any = None
        try:
            self._consumer = Consumer({**dict(client.settings), "error_cb": self._told})
        except KafkaException as error:
            raise ConfigurationError(f"Cannot make a consumer of Kafka: {error.args[0].str()}") from None

    @classmethod
    def of(cls, client: Client) -> _Reader:
        """The one that is idle, or a new one."""
        return cls.idle.pop(client, None) or cls(client)

    def put_back(self) -> None:
        """Keep it for the next range: to connect takes longer than to read a small one."""
        self.idle[self._client] = self
        if len(self.idle) > _KEPT:
            self.idle.pop(next(iter(self.idle))).close()

    def close(self) -> None:
        self._consumer.close()

    def _told(self, failure: Any) -> None:
        self._failure = failure

    def read(self, part: Range) -> Iterator[list[Any]]:
        from confluent_kafka import TopicPartition

        self._consumer.assign([TopicPartition(part.topic, part.partition, part.begin)])
        held: list[Any] = []
        at = part.begin
        while at < part.end:
            found = self._some(min(self._client.records - len(held), part.end - at), part)
            good = [one for one in found if one.error() is None]
            at = max(at, *(_reached(one, part) for one in (found if len(good) < len(found) else found[-1:])))
            held += within(good, part.end)
            if at >= part.end:
                # What is fetched from here on is thrown away.
                self._consumer.unassign()
            while count := cut(held, self._client.records, self._client.bytes):
                yield held[:count]
                held = held[count:]
        if held:
            yield held

    def _some(self, most: int, part: Range) -> list[Any]:
        """At least one record or event, at most so many."""
        deadline = time.monotonic() + self._client.patience
        while not (found := self._consumer.consume(most, _WAIT)):
            failure = self._failure
            if failure is not None and _is_refused(failure):
                raise _error(failure, part)
            if time.monotonic() > deadline:
                why = f": {failure.str()}" if failure is not None else ""
                told = f"nothing came for {self._client.patience:g} s{why}"
                raise Unavailable(f"{_what(part)}: {told}")
        self._failure = None
        return found


def within(messages: list[Any], end: int) -> list[Any]:
    """The records below offset `end`, of records in their order."""
    if not messages or messages[-1].offset() < end:
        return messages
    return messages[: bisect_left(messages, end, key=lambda one: one.offset())]


def cut(messages: list[Any], records: int, size: int) -> int:
    """How many of the first records are decoded at once, by their number or bytes; 0: more are waited for."""
    if messages and sum(map(len, messages)) >= size:
        return min(records, bisect_left(list(accumulate(map(len, messages))), size) + 1)
    return records if len(messages) >= records else 0


def _reached(message: Any, part: Range) -> int:
    """The offset up to which all was read by the time of a record, or of the end of the partition."""
    error = message.error()
    if error is None:
        return int(message.offset()) + 1
    if error.name() == "_PARTITION_EOF":
        return int(message.offset())
    # No group is joined, so that nobody needs to be allowed to.
    if error.name() == "GROUP_AUTHORIZATION_FAILED":
        return part.begin
    raise _error(error, part)


def _what(part: Range) -> str:
    return f"Cannot read topic '{part.topic}' partition {part.partition} from offset {part.begin}"


def _is_refused(error: Any) -> bool:
    return error.name() in _REFUSED or _UNTRUSTED in error.str()


def _error(error: Any, part: Range) -> CalveError:
    """Our own error for one of librdkafka."""
    name, what = error.name(), _what(part)
    if name in _LOST:
        why = f"Kafka no longer has the records that were planned, up to {part.end}"
        return DataRefused(f"{what}: {why}; the next start tells what is left, and how to go on")
    if name in _DAMAGED:
        return DataRefused(f"{what}: {error.str()}")
    return (NotPermitted if _is_refused(error) else Unavailable)(f"{what}: {error.str()}")
