"""What runs in Python workers: Arrow batches of records in, Arrow batches of rows out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from calve.decode.arrow import Values, compute
from calve.decode.changes import Records, RowChanges
from calve.decode.debezium import DebeziumDecoder
from calve.decode.decoder import Decoder
from calve.errors import CalveError
from calve.gateway import WorkerError

Batches = Iterable[pa.RecordBatch]

_TOPIC_BITS = 32


@dataclass(frozen=True)
class Topics:
    """The topics of a batch, by name; where there is one only, the records do not say it."""

    names: tuple[str, ...]

    def place(self, batch: pa.RecordBatch) -> Callable[[int], str]:
        def place(index: int) -> str:
            topic = self.names[0] if len(self.names) == 1 else batch.column("topic")[index].as_py()
            partition, offset = (batch.column(name)[index].as_py() for name in ("partition", "offset"))
            return f"topic '{topic}' partition {partition} offset {offset}"

        return place

    def records(self, batch: pa.RecordBatch) -> Records:
        """Where the records are: a lane is a partition, and of several topics each has lanes of its own."""
        lanes: Values = batch.column("partition").cast(pa.int64())
        if len(self.names) > 1:
            numbers = compute.index_in(batch.column("topic"), pa.array(self.names)).cast(pa.int64())
            lanes = compute.bit_wise_or(compute.shift_left(numbers, _TOPIC_BITS), lanes)
        return Records(lanes, batch.column("offset"), self.place(batch))


def record_rows(
    decoder: Decoder, kept: Mapping[str, str], topics: Topics, changes: RowChanges | None = None
) -> Callable[[Batches], Batches]:
    """A function for `mapInArrow` over Kafka records: one row, or one change, of each.

    `kept` maps their columns to the names they keep.
    """

    def rows(batch: pa.RecordBatch) -> pa.RecordBatch:
        decoded = decoder.decode(batch.column("value"), topics.place(batch))
        if changes is None:
            return _with(decoded, batch, kept)
        made = changes.of(decoded, topics.records(batch))
        return _with(made, batch, kept)

    return _mapped(rows)


def record_changes(
    decoder: DebeziumDecoder, kept: Mapping[str, str], topics: Topics
) -> Callable[[Batches], Batches]:
    """A function for `mapInArrow` over Kafka records with keys: none, one or two changes of each."""

    def rows(batch: pa.RecordBatch) -> pa.RecordBatch:
        made, origins = decoder.changes(batch.column("key"), batch.column("value"), topics.records(batch))
        return _with(made, batch.take(origins) if kept else batch, kept)

    return _mapped(rows)


def _mapped(rows: Callable[[pa.RecordBatch], pa.RecordBatch]) -> Callable[[Batches], Batches]:
    def mapped(batches: Batches) -> Batches:
        for batch in batches:
            try:
                yield rows(batch)
            except CalveError as error:
                raise WorkerError(error) from None

    return mapped


def _with(rows: pa.RecordBatch, batch: pa.RecordBatch, kept: Mapping[str, str]) -> pa.RecordBatch:
    if not kept:
        return rows
    arrays = [*rows.columns, *(batch.column(name) for name in kept)]
    return pa.RecordBatch.from_arrays(arrays, names=[*rows.schema.names, *kept.values()])
