"""What runs in Python workers: Arrow batches of records in, Arrow batches of rows out."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from calve import changes as columns
from calve.decode.arrow import Values, arrow_type, compute
from calve.decode.bad import HEADERS as HEADERS_OF_RECORD
from calve.decode.bad import Bad, Raw, Sieve, at_origins, others, raise_first
from calve.decode.changes import Records, RowChanges
from calve.decode.debezium import DebeziumDecoder
from calve.decode.decoder import Decoder
from calve.decode.schemas import stated_id
from calve.decode.valueless import Valueless
from calve.decode.worker import settle
from calve.errors import CalveError
from calve.gateway import WorkerError

Batches = Iterable[pa.RecordBatch]

_TOPIC_BITS = 32

HEADERS = "headers_as_json"
"""The column that has the headers of a record.

As JSON, because Spark looks at a whole batch again for each row of it that has a list.
"""
_HEADERS_TYPE = arrow_type(HEADERS_OF_RECORD)


@dataclass(frozen=True)
class Topics:
    """The topics of a batch, by name; where there is one only, the records do not say it.

    `headed` tells that values begin with the id of their schema, and `in_parts` that whoever reads counts
    the parts that were read, not the records. `timed` are the topics whose records are in several partitions,
    or are mixed with those of other topics: only their timestamps tell which of two is the later.
    """

    names: tuple[str, ...]
    headed: bool = False
    in_parts: bool = False
    timed: tuple[str, ...] = ()

    def place(self, batch: pa.RecordBatch) -> Callable[[int], str]:
        def place(index: int) -> str:
            topic, partition, offset = self._at(batch, index)
            return f"topic '{topic}' partition {partition} offset {offset}"

        return place

    def _at(self, batch: pa.RecordBatch, index: int) -> tuple[Any, ...]:
        topic = self.names[0] if len(self.names) == 1 else batch.column("topic")[index].as_py()
        return (topic, *(batch.column(name)[index].as_py() for name in ("partition", "offset")))

    def records(self, batch: pa.RecordBatch) -> Records:
        """Where the records are: a lane is a partition, and of several topics each has lanes of its own."""
        lanes: Values = batch.column("partition").cast(pa.int64())
        if len(self.names) > 1:
            numbers = compute.index_in(batch.column("topic"), pa.array(self.names)).cast(pa.int64())
            lanes = compute.bit_wise_or(compute.shift_left(numbers, _TOPIC_BITS), lanes)
        return Records(lanes, batch.column("offset"), self.place(batch), self._times(batch))

    def _times(self, batch: pa.RecordBatch) -> Values | None:
        """The timestamps of the records that have no other order, in microseconds."""
        if not self.timed:
            return None
        times: Values = batch.column("timestamp").cast(pa.int64())
        if len(self.names) == 1:
            return times
        is_timed = compute.is_in(batch.column("topic"), value_set=pa.array(self.timed))
        return compute.if_else(is_timed, times, pa.scalar(None, pa.int64()))

    def raw(self, batch: pa.RecordBatch, bad: Sequence[Bad]) -> Raw:
        """The records as Kafka has them, or as much of that as it takes to tell of bad ones."""
        if not bad:
            return Raw(lambda index: {}, batch.column("value"))

        def position(index: int) -> Mapping[str, Any]:
            return dict(zip(("topic", "partition", "offset"), self._at(batch, index), strict=True))

        def time(index: int) -> int | None:
            found: int | None = getattr(batch.column("timestamp")[index], "value", None)
            return found

        def number(index: int) -> int | None:
            return stated_id(batch.column("value")[index].as_py()) if self.headed else None

        def headers(index: int) -> list[dict[str, Any]] | None:
            return _headers(batch.column(HEADERS)[index].as_py())

        return Raw(position, batch.column("value"), batch.column("key"), headers, time, number)

    def streams(self, batch: pa.RecordBatch) -> Values:
        """The stream of each record: its topic."""
        if len(self.names) > 1:
            return batch.column("topic")
        return pa.repeat(pa.scalar(self.names[0] if self.names else ""), len(batch))

    def block(self, batch: pa.RecordBatch) -> tuple[Any, ...]:
        """What tells a block of records apart from others of the batch."""
        return self._at(batch, 0) if len(batch) else ()


def _headers(text: str | None) -> list[dict[str, Any]] | None:
    return None if text is None else [_header(one) for one in json.loads(text)]


def _header(told: Mapping[str, str]) -> dict[str, Any]:
    """A header of a record as Spark tells it, which leaves out what is NULL."""
    value = told.get("value")
    return {"key": told.get("key"), "value": None if value is None else base64.b64decode(value)}


@dataclass(frozen=True)
class Sifted:
    """Rows, the record that each comes from (None: one each, in order), and the records that were bad."""

    rows: pa.RecordBatch
    origins: Values | None
    bad: list[Bad]


def sifted(
    decoder: Decoder, values: Values, records: Callable[[], Records], changes: RowChanges | None
) -> Sifted:
    """The rows, or changes, of records; `records` is only asked where changes are wanted."""
    rows, bad = decoder.sift(values)
    origins = others(len(values), bad) if bad else None
    if changes is None:
        return Sifted(rows, origins, bad)
    there = records()
    made, wrong = changes.sift(rows, there if origins is None else there.take(origins))
    if not wrong:
        return Sifted(made, origins, bad)
    origins = others(len(values), []) if origins is None else origins
    return Sifted(made, origins.take(others(len(origins), wrong)), [*bad, *at_origins(wrong, origins)])


def checked(
    found: Sifted, count: int, sieve: Sieve, whole: Callable[[Sifted], pa.RecordBatch] | None = None
) -> Sifted:
    """`found` without rows, of `count` records, that lack a column of the key or that no table is for.

    `whole` gives the rows with what is known of them besides.
    """
    wrong = sieve.wrong(whole(found) if whole else found.rows) if sieve.columns else []
    if not wrong:
        return found
    origins = others(count, []) if found.origins is None else found.origins
    bad = {one.at: one for one in at_origins(wrong, origins)}
    # A record of two changes goes as a whole.
    kept = others(len(origins), [Bad(i, "", "") for i, at in enumerate(origins.to_pylist()) if at in bad])
    return Sifted(found.rows.take(kept), origins.take(kept), [*found.bad, *bad.values()])


def record_rows(
    decoder: Decoder,
    kept: Mapping[str, str],
    topics: Topics,
    changes: RowChanges | None = None,
    sieve: Sieve | None = None,
    valueless: Valueless | None = None,
) -> Callable[[Batches], Batches]:
    """A function for `mapInArrow` over Kafka records: one row, or one change, of each.

    `kept` maps their columns to the names they keep. Without a `sieve` a bad record is an error, and so is
    one without a value, unless `valueless` tells what it is.
    """

    def found(batch: pa.RecordBatch) -> Sifted:
        values = batch.column("value")
        if valueless is not None and values.null_count:
            return _with_valueless(batch, valueless)
        return sifted(decoder, values, lambda: topics.records(batch), changes)

    def _with_valueless(batch: pa.RecordBatch, valueless: Valueless) -> Sifted:
        values = batch.column("value")
        there, gone = (_indices(flags) for flags in (values.is_valid(), values.is_null()))
        made = sifted(decoder, values.take(there), lambda: topics.records(batch).take(there), changes)
        origins = there if made.origins is None else there.take(made.origins)
        bad = at_origins(made.bad, there)
        if valueless.keys is None:
            return Sifted(made.rows, origins, bad)
        keys = batch.column("key").take(gone)
        deletes, kept, wrong = valueless.keys.deletes(
            keys, lambda: topics.records(batch).take(gone), made.rows.schema
        )
        rows = pa.Table.from_batches([made.rows, deletes]).combine_chunks().to_batches()
        both = pa.concat_arrays([origins, gone.take(kept)])
        return Sifted(rows[0] if rows else made.rows, both, [*bad, *at_origins(wrong, gone)])

    return _mapped(found, kept, topics, sieve)


def _indices(flags: Values) -> Values:
    return compute.indices_nonzero(flags).cast(pa.int64())


def record_changes(
    decoder: DebeziumDecoder, kept: Mapping[str, str], topics: Topics, sieve: Sieve | None = None
) -> Callable[[Batches], Batches]:
    """A function for `mapInArrow` over Kafka records with keys: none, one or two changes of each."""

    def found(batch: pa.RecordBatch) -> Sifted:
        return Sifted(*decoder.sift(batch.column("key"), batch.column("value"), topics.records(batch)))

    return _mapped(found, kept, topics, sieve)


def _mapped(
    found: Callable[[pa.RecordBatch], Sifted], kept: Mapping[str, str], topics: Topics, sieve: Sieve | None
) -> Callable[[Batches], Batches]:
    def rows(batch: pa.RecordBatch) -> pa.RecordBatch:
        made = found(batch)
        if sieve is None:
            raise_first(made.bad, topics.place(batch))
            return _with(made, batch, kept)
        made = checked(made, len(batch), sieve, lambda made: _routable(made, batch, kept, topics))
        if sieve.letters:
            return sieve.batch_of(made.bad, topics.raw(batch, made.bad))
        block, place = topics.block(batch), topics.place(batch)
        witness = 0 if topics.in_parts else len(batch)
        sieve.take(made.bad, topics.raw(batch, made.bad), block, place, witness)
        return _with(made, batch, kept)

    def mapped(batches: Batches) -> Batches:
        settle()
        for batch in batches:
            try:
                yield rows(batch)
            except CalveError as error:
                raise WorkerError(error) from None

    return mapped


def _routable(made: Sifted, batch: pa.RecordBatch, kept: Mapping[str, str], topics: Topics) -> pa.RecordBatch:
    """Rows with all that may name their table, or be part of their key."""
    rows, streams = _with(made, batch, kept), topics.streams(batch)
    streams = streams if made.origins is None else streams.take(made.origins)
    arrays, names = [*rows.columns, streams], [*rows.schema.names, columns.STREAM]
    return pa.RecordBatch.from_arrays(arrays, names=names)


def _known(batch: pa.RecordBatch, name: str) -> Values:
    """What Kafka knows of each record by `name`."""
    if name != "headers":
        return batch.column(name)
    return pa.array([_headers(text) for text in batch.column(HEADERS).to_pylist()], _HEADERS_TYPE)


def _with(made: Sifted, batch: pa.RecordBatch, kept: Mapping[str, str]) -> pa.RecordBatch:
    if not kept:
        return made.rows
    there = [_known(batch, name) for name in kept]
    there = there if made.origins is None else [column.take(made.origins) for column in there]
    arrays = [*made.rows.columns, *there]
    return pa.RecordBatch.from_arrays(arrays, names=[*made.rows.schema.names, *kept.values()])
