"""Parquet files written where rows are made: Arrow batches in, what was written out. Runs in Python workers.

Nothing here knows Java or Spark. A file that is told of is whole; one that an attempt did not tell of belongs
to nobody, and is taken away again where the attempt itself can.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

from calve import changes
from calve.errors import ConfigurationError, DataRefused
from calve.gateway import WorkerError
from calve.iceberg import durable, metrics, partitions
from calve.iceberg.failures import of_store
from calve.iceberg.metrics import Leaf, leaves
from calve.iceberg.partitions import Field
from calve.iceberg.places import Bucket, opened, remove

compute: Any = pyarrow.compute
make: Any = pa
"""Arrow without the types of its stubs, which do not know all of it."""

Batches = Iterable[pa.RecordBatch]
Work = Callable[[Batches], Batches]

TOLD = "told STRING"
"""The columns of what workers tell: a line of JSON for each file, and one for each task."""

HELD = 64 * 2**20
"""How many bytes of rows a worker holds, at most, before it writes some of them."""
MOST_OPEN = 64
"""How many files of different partitions a worker has open at once, at most."""

_WITH_LEVELS = ("gzip", "zstd")
_SAMPLE = 20_000
_DISTINCT = 0.6


@dataclass(frozen=True)
class Format:
    """How files are written."""

    compression: str
    target_bytes: int
    group_bytes: int = 128 * 2**20
    """The size of a row group, at most; it is held in memory until it is written."""
    level: int | None = None

    @property
    def held_bytes(self) -> int:
        """How many bytes of rows make a row group; they get smaller when they are encoded."""
        return min(HELD, self.group_bytes, self.target_bytes)


@dataclass(frozen=True)
class Target:
    """What the files of a table are like, and where they go. Travels to Python workers: it holds values."""

    schema: pa.Schema
    """The columns of the table, with their field ids."""
    folder: str
    form: Format
    fields: tuple[Field, ...] = ()
    keeps_changes: bool = False
    """Whether rows that are changes are kept as such, deletes included."""
    bucket: Bucket | None = None
    """The store that the folder is in; None for one on this machine."""
    lengths: Mapping[int, int] = field(default_factory=dict)
    """How long the bounds of the columns are that the table wants to know, by field id."""
    spec_id: int = 0
    """By which of the table's specs `fields` divide the rows."""


@dataclass
class Written:
    """A file that belongs to no snapshot yet, with all that a manifest says of it."""

    location: str
    partition: list[Any] = field(default_factory=list)
    """The values of its partition, as Iceberg's JSON has them."""
    rows: int = 0
    bytes: int = 0
    splits: list[int] = field(default_factory=list)
    """Where the row groups begin."""
    metrics: dict[str, Any] = field(default_factory=dict)
    """Sizes, counts and bounds of its columns, as Iceberg's JSON has them."""


@dataclass(frozen=True)
class Told:
    """What the workers tell of a batch: their files, how many rows were made and how many passed over."""

    files: tuple[Written, ...]
    rows: int
    dropped: int

    @classmethod
    def of(cls, lines: Iterable[str]) -> Told:
        found = [json.loads(line) for line in lines]
        files = [Written(**one) for one in found if "location" in one]
        counts = [one for one in found if "location" not in one]
        return cls(tuple(files), sum(one["made"] for one in counts), sum(one["dropped"] for one in counts))


def written(work: Work, target: Target) -> Work:
    """A function for `mapInArrow` that does `work` and writes the rows that it makes."""

    def mapped(batches: Batches) -> Batches:
        files = Files(target)
        try:
            for rows in work(batches):
                with _worded(target):
                    files.add(rows)
            with _worded(target):
                told = files.close()
        except BaseException:
            files.abandon()
            raise
        yield pa.RecordBatch.from_arrays([pa.array(told, pa.string())], names=["told"])

    return mapped


@contextmanager
def _worded(target: Target) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise WorkerError(of_store(error, f"write data files to '{target.folder}'")) from None


class Files:
    """The files that one task writes; it holds a bounded part of its rows."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._columns = tuple(leaves(target.schema))
        self._held: list[pa.RecordBatch] = []
        self._bytes = 0
        self._open: dict[tuple[Any, ...], _File] = {}
        self._done: list[Written] = []
        self._made = 0
        self._dropped = 0

    def add(self, rows: pa.RecordBatch) -> None:
        """Take rows, and write what has become too much to be held."""
        there = as_rows(rows, self._target.keeps_changes)
        self._made += len(there)
        self._dropped += len(rows) - len(there)
        if len(there):
            self._hold(_fitted(there, self._target.schema))
            if self._bytes >= self._target.form.held_bytes:
                self._relieve()

    def close(self) -> list[str]:
        """Write what is left; a line for each file, and one of counts."""
        for values, rows in self._taken():
            self._write(values, rows)
            self._end(values)
        for values in list(self._open):
            self._end(values)
        durable.flush(file.location for file in self._done)
        counts = {"made": self._made, "dropped": self._dropped}
        return [*(json.dumps(vars(file)) for file in self._done), json.dumps(counts)]

    def abandon(self) -> None:
        """Take away all that was written: nobody will be told of it."""
        for file in self._open.values():
            with suppress(Exception):
                file.close()
            self._done.append(file.told)
        for told in self._done:
            with suppress(Exception):
                remove(told.location)

    def _hold(self, rows: pa.RecordBatch) -> None:
        self._held.append(rows)
        self._bytes += rows.nbytes

    def _taken(self) -> Iterator[tuple[tuple[Any, ...], pa.Table]]:
        """What is held, by partition; it is not held any more."""
        held, self._held, self._bytes = self._held, [], 0
        if not held:
            return
        if not self._target.fields:
            yield (), pa.Table.from_batches(held)
            return
        whole = make.concat_batches(held)
        held.clear()
        for values, part in partitions.divided(whole, self._target.fields):
            yield values, pa.Table.from_batches([part])

    def _relieve(self) -> None:
        """Write the largest parts, so that at most half of what may be held is left."""
        left, kept = self._bytes, []
        parts = sorted(self._taken(), key=lambda part: part[1].nbytes, reverse=True)
        for values, rows in parts:
            if left * 2 > self._target.form.held_bytes:
                left -= rows.nbytes
                self._write(values, rows)
            else:
                kept += rows.to_batches()
        if kept:
            # A copy: a part keeps all the rows in memory of which it was made.
            self._hold(make.concat_batches(kept))

    def _write(self, values: tuple[Any, ...], rows: pa.Table) -> None:
        """Write rows of a partition, as row groups of files that are closed when they are large enough."""
        step = _step(rows, self._target.form.held_bytes)
        for begin in range(0, rows.num_rows, step):
            group = rows.slice(begin, step)
            file = self._open.get(values) or self._opened(values, group)
            before = file.out.tell()
            file.write(group)
            # One more like it would make the file larger than it is to be.
            if 2 * file.out.tell() - before > self._target.form.target_bytes:
                self._end(values)

    def _opened(self, values: tuple[Any, ...], rows: pa.Table) -> _File:
        if len(self._open) >= MOST_OPEN:
            self._end(min(self._open, key=lambda one: self._open[one].told.rows))
        folders = partitions.path(self._target.fields, values)
        location = f"{self._target.folder}/{folders}{uuid.uuid4()}.parquet"
        told = Written(location, [partitions.as_json(value) for value in values])
        self._open[values] = _File(told, self._target, self._columns, rows)
        return self._open[values]

    def _end(self, values: tuple[Any, ...]) -> None:
        file = self._open.pop(values, None)
        if file is not None:
            self._done.append(file.close())


class _File:
    """A file that is being written; its first rows tell how its columns are encoded."""

    def __init__(self, told: Written, target: Target, columns: tuple[Leaf, ...], rows: pa.Table) -> None:
        self.told = told
        self.out = opened(told.location, target.bucket)
        self._footers: list[Any] = []
        self._columns = columns
        self._lengths = target.lengths
        self._nans: dict[int, int] = {}
        self._writer = writer(self.out, rows, target.form, self._footers)

    def write(self, rows: pa.Table) -> None:
        """Write `rows` as one row group."""
        self._writer.write_table(rows, row_group_size=rows.num_rows)
        self.told.rows += rows.num_rows
        for number, count in nan_counts(rows, self._columns):
            self._nans[number] = self._nans.get(number, 0) + count

    def close(self) -> Written:
        self._writer.close()
        self.told.bytes = self.out.tell()
        self.out.close()
        describe(self.told, self._footers[0], self._columns, self._lengths, self._nans)
        return self.told


def describe(
    told: Written, footer: Any, columns: Iterable[Leaf], lengths: Mapping[int, int], nans: Mapping[int, int]
) -> None:
    """Complete what is told of a file by what its footer says."""
    told.splits = list(_begins(footer))
    told.metrics = metrics.told(footer, columns, lengths, nans)


def writer(out: Any, rows: pa.Table, form: Format, footers: list[Any] | None = None) -> Any:
    """A writer of Parquet as Iceberg wants it, for rows like `rows`."""
    codec: Any = form.compression
    coded: Any = list(repeating(rows))
    return pq.ParquetWriter(
        out,
        rows.schema,
        compression=codec,
        compression_level=form.level,
        use_dictionary=coded,
        store_decimal_as_integer=True,
        store_schema=False,
        metadata_collector=footers,
    )


def repeating(rows: pa.Table) -> Iterator[str]:
    """The columns that a dictionary of their values makes smaller, by their paths in the file.

    Arrow would try it with each of them: where values hardly repeat, that takes longer than all the rest.
    """
    some = rows.slice(0, _SAMPLE)
    for one in rows.schema:
        is_nested = pa.types.is_nested(one.type)
        if is_nested or len(some.column(one.name).unique()) <= _DISTINCT * some.num_rows:
            yield from _leaves(one.name, one.type)


def _leaves(path: str, kind: Any) -> Iterator[str]:
    if pa.types.is_struct(kind):
        for index in range(kind.num_fields):
            yield from _leaves(f"{path}.{kind.field(index).name}", kind.field(index).type)
    elif pa.types.is_map(kind):
        yield from _leaves(f"{path}.key_value.key", kind.key_type)
        yield from _leaves(f"{path}.key_value.value", kind.item_type)
    elif pa.types.is_list(kind):
        yield from _leaves(f"{path}.list.element", kind.value_type)
    else:
        yield path


def as_rows(rows: pa.RecordBatch, keeps_changes: bool) -> pa.RecordBatch:
    """Changes as rows of a table to which rows are only added; the columns of changes go, or are kept."""
    if changes.OPERATION not in rows.schema.names:
        return rows
    values = [name for name in rows.schema.names if name not in changes.NAMES]
    if not keeps_changes:
        gone = pa.array([changes.DELETE, changes.TRUNCATE])
        kept = compute.invert(compute.is_in(rows.column(changes.OPERATION), value_set=gone))
        return rows.select(values).filter(kept)
    order = rows.column(changes.ORDER)
    place = compute.coalesce(compute.struct_field(order, "seq"), compute.struct_field(order, "at"))
    told = [rows.column(changes.OPERATION), place, rows.column(changes.TIME)]
    arrays = [*(rows.column(name) for name in values), *told]
    return pa.RecordBatch.from_arrays(arrays, names=[*values, *changes.KEPT.names])


def _fitted(rows: pa.RecordBatch, wanted: pa.Schema) -> pa.RecordBatch:
    """`rows` with the columns of the table, in its order; those that they do not have are NULL."""
    there = set(rows.schema.names)
    extra = sorted(there.difference(wanted.names))
    if extra:
        raise WorkerError(ConfigurationError(f"Cannot write the rows: the table has no column {extra}"))
    held = [
        rows.column(one.name).cast(one.type) if one.name in there else pa.nulls(len(rows), one.type)
        for one in wanted
    ]
    for array, one in zip(held, wanted, strict=True):
        if array.null_count and not one.nullable:
            raise WorkerError(
                DataRefused(f"Cannot write the rows: column '{one.name}' is NOT NULL, and one has NULL in it")
            )
    return pa.RecordBatch.from_arrays(held, schema=wanted)


def _step(rows: pa.Table, most: int) -> int:
    """How many rows make a row group of at most that many bytes."""
    return max(1, rows.num_rows * most // max(rows.nbytes, most, 1))


def nan_counts(rows: pa.Table, columns: Iterable[Leaf]) -> Iterator[tuple[int, int]]:
    """How many values of each floating-point column are not a number, by field id; no footer tells it."""
    for one in columns:
        if pa.types.is_floating(one.kind) and not one.is_repeated:
            yield one.number, _nan_count(rows, one.path)


def _nan_count(rows: pa.Table, path: tuple[str, ...]) -> int:
    column = rows.column(path[0])
    values = compute.struct_field(column, list(path[1:])) if path[1:] else column
    return int(compute.sum(compute.is_nan(values)).as_py() or 0)


def _begins(footer: Any) -> Iterator[int]:
    for index in range(footer.num_row_groups):
        first = footer.row_group(index).column(0)
        yield first.dictionary_page_offset if first.has_dictionary_page else first.data_page_offset


def format_of(compression: str, target_bytes: int, properties: Mapping[str, str]) -> Format:
    """How the files of a table with `properties` are written."""
    level = properties.get("write.parquet.compression-level") if compression in _WITH_LEVELS else None
    group = int(properties.get("write.parquet.row-group-size-bytes", Format.group_bytes))
    return Format(compression, target_bytes, group, int(level) if level else None)
