"""What runs in Python workers: Arrow batches of records in, Arrow batches of rows out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import pyarrow as pa

from calve.decode.decoder import Decoder
from calve.errors import BadRecord
from calve.gateway import WorkerError

Batches = Iterable[pa.RecordBatch]


def record_rows(decoder: Decoder, kept: Mapping[str, str], topic: str | None) -> Callable[[Batches], Batches]:
    """A function for `mapInArrow` over Kafka records.

    `kept` maps their columns to the names they keep; `topic` is theirs, where the records do not say it.
    """

    def rows(batches: Batches) -> Batches:
        for batch in batches:
            try:
                decoded = decoder.decode(batch.column("value"), _place(batch, topic))
            except BadRecord as error:
                raise WorkerError(error) from None
            yield _with(decoded, batch, kept)

    return rows


def _place(batch: pa.RecordBatch, topic: str | None) -> Callable[[int], str]:
    def place(index: int) -> str:
        named = topic or batch.column("topic")[index].as_py()
        partition, offset = (batch.column(name)[index].as_py() for name in ("partition", "offset"))
        return f"topic '{named}' partition {partition} offset {offset}"

    return place


def _with(rows: pa.RecordBatch, batch: pa.RecordBatch, kept: Mapping[str, str]) -> pa.RecordBatch:
    if not kept:
        return rows
    arrays = [*rows.columns, *(batch.column(name) for name in kept)]
    return pa.RecordBatch.from_arrays(arrays, names=[*rows.schema.names, *kept.values()])
