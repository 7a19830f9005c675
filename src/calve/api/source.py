"""An Iceberg table as a source for programs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from calve import changes
from calve.api import arguments, declared, session
from calve.api.writes import Step
from calve.errors import ConfigurationError, StartRefused, UsageError
from calve.iceberg.catalog import Catalog as Connection
from calve.iceberg.name import TableName
from calve.position import Position
from calve.sink.batch import as_rows
from calve.sources.iceberg import IcebergSource as Declaration
from calve.sources.source import Limits, Waiting

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

POLL = 0.5
_ALL = Limits(2**62)


@dataclass(frozen=True)
class Batch:
    """The rows of a source between two positions; they can be read until the next batch is asked for."""

    frame: DataFrame
    """The rows; where they are changes, with the columns of `change_columns: true`: `_op`, `_seq`, `_ts`."""
    step: Step
    changes: DataFrame | None = field(default=None, repr=False)
    """The same rows as a sink takes them, where they are changes."""

    @property
    def position(self) -> Position:
        """Where the batch ends: what a program keeps to go on behind it."""
        return self.step.to


class IcebergSource:
    """An Iceberg table, read by a program.

    The keys are those of `connector: iceberg`, such as `catalog`, `namespace`, `table` and `read_mode`.

    >>> source = calve.IcebergSource(catalog=memory, namespace="shop", table="orders")
    >>> source.read(spark).count()
    3
    """

    def __init__(self, **keys: Any) -> None:
        declared.refuse_pending("source", keys, "IcebergSource")
        self.declaration = declared.built(Declaration, keys, "IcebergSource")

    def read(self, spark: SparkSession | None = None) -> DataFrame:
        """All rows that are there now: those of the state that is asked for, or the changes up to now."""
        reading = Reading(self.declaration, spark)
        start = reading.start()
        return reading.batch(start, _end(reading.latest, start)).frame

    def stream(
        self,
        spark: SparkSession | None = None,
        *,
        after: Position | None = None,
        available_now: bool = False,
        limits: Limits | None = None,
    ) -> Iterator[Batch]:
        """The rows as they come, a batch at a time, from the start or behind the position `after`.

        Ends where the source does, or with `available_now` when everything is read that there is; else it
        waits for more. A batch has bounds and is read before the next one is asked for; a sink that has it
        knows it:

        >>> with calve.IcebergSink(sink_id="copy", catalog=memory, namespace="shop", table="copied") as sink:
        ...     for batch in source.stream(spark, after=sink.position(source), available_now=True):
        ...         sink.write(batch)
        True
        """
        begin = None if after is None else arguments.iceberg_position(after)
        return self._stream(spark, begin, available_now, limits or _ALL)

    def _stream(
        self, spark: SparkSession | None, after: Position | None, available_now: bool, limits: Limits
    ) -> Iterator[Batch]:
        reading = Reading(self.declaration, spark)
        yield from _batches(
            lambda position: reading.latest(position, limits),
            reading.batch,
            reading.start() if after is None else after,
            available_now,
        )

    def rows(
        self,
        batch_size: int = 10_000,
        *,
        spark: SparkSession | None = None,
        after: Position | None = None,
        available_now: bool = False,
    ) -> Iterator[dict[str, Any]]:
        """The rows one by one, as dictionaries, for programs that have nothing to do with Spark.

        Files are taken up to about `batch_size` rows at a time. Ends as `stream` does.

        >>> sorted(row["id"] for row in source.rows(batch_size=100, spark=spark))
        [1, 2, 3]
        """
        advice = "'batch_size' is at least 1"
        limits = Limits(arguments.whole(batch_size, "read rows", advice, least=1))
        batches = self.stream(spark, after=after, available_now=available_now, limits=limits)
        return (
            row.asDict(recursive=True)
            for batch in batches
            for row in batch.frame.toLocalIterator(prefetchPartitions=True)
        )

    @property
    def identity(self) -> str:
        """Which table it is, whatever its name: positions are valid in this one alone."""
        return Reading(self.declaration, None).identity()


class Reading:
    """One reading of a source, which keeps what it knows of the table to itself."""

    def __init__(self, declaration: Declaration, spark: SparkSession | None) -> None:
        self._source = declaration.model_copy()
        self._spark = session.of(spark, declaration.catalogs)
        self._identity: str | None = None
        self._refuse_missing()

    def _refuse_missing(self) -> None:
        declared = self._source.catalog
        name = TableName(declared.spark_name(), tuple(self._source.namespace.split(".")), self._source.table)
        catalog = Connection(self._spark, name.catalog, declared.description())
        if not catalog.has_table(name):
            why = f"{declared.description()} has none of this name"
            raise UsageError(f"Cannot find table '{name}': {why}")

    def identity(self) -> str:
        """Which table it is."""
        return self._source.identity()

    def start(self) -> Position:
        """The position before the first row."""
        return self._source.start()

    def latest(self, after: Position, limits: Limits) -> Waiting:
        """What is there behind `after`; between two questions the program may have used other sessions."""
        session.of(self._spark, self._source.catalogs)
        try:
            return self._source.latest(after, limits)
        except StartRefused as error:
            error.call = "IcebergSource.stream() without 'after'"
            raise

    def batch(self, after: Position, to: Position) -> Batch:
        """The rows in (after, to]; those of an earlier batch are not read any more."""
        self._identity = self._identity or self.identity()
        step = Step(self._identity, after, to)
        if not self._source.carries_changes:
            return Batch(self._source.read(self._spark, after, to), step)
        found = self._source.read_changes(self._spark, after, to)
        for name in found.columns:
            if name.lower() in changes.KEPT.names:
                why = f"it has a column '{name}', and so has every change; read it in another 'read_mode'"
                raise ConfigurationError(f"Cannot read changes of table '{self._source.table}': {why}")
        return Batch(as_rows(found, keeps_changes=True), step, found)


def _end(latest: Callable[[Position, Limits], Waiting], start: Position) -> Position:
    """Where everything ends that is there now, in however many batches it would come."""
    waiting = latest(start, _ALL)
    while waiting.more:
        waiting = latest(waiting.to, _ALL)
    return waiting.to


def _batches(
    latest: Callable[[Position], Waiting],
    made: Callable[[Position, Position], Batch],
    position: Position,
    available_now: bool,
    sleep: Callable[[float], object] = time.sleep,
) -> Iterator[Batch]:
    """The batches behind `position`, as long as there are any, or for ever."""
    while True:
        waiting = latest(position)
        if waiting.rows:
            yield made(position, waiting.to)
        position = waiting.to
        if waiting.ended or (available_now and not waiting.rows and not waiting.more):
            return
        if not waiting.rows and not waiting.more:
            sleep(POLL)
