"""Parquet files written where rows are made: Arrow batches in, what was written out. Runs in Python workers.

Nothing here knows Java or Spark. A file that is told of is whole; one that an attempt did not tell of belongs
to nobody, and is taken away again where the attempt itself can.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

from calve import changes
from calve.errors import DataRefused, NotPermitted, Unavailable
from calve.gateway import WorkerError
from calve.iceberg import partitions
from calve.iceberg.partitions import Field
from calve.iceberg.places import Bucket, opened, remove

compute: Any = pyarrow.compute

Batches = Iterable[pa.RecordBatch]
Work = Callable[[Batches], Batches]

ID = b"PARQUET:field_id"
TOLD = "told STRING"
"""The columns of what workers tell: a line of JSON for each file, and one for each task."""

HELD = 64 * 2**20
"""How many bytes of rows a worker holds, at most, before it writes some of them."""
MOST_OPEN = 64
"""How many files of different partitions a worker has open at once, at most."""

_WITH_LEVELS = ("gzip", "zstd")
_SAMPLE = 20_000
_DISTINCT = 0.6
_DENIED = re.compile(r"ACCESS_DENIED|AccessDenied|INVALID_ACCESS_KEY|SIGNATURE_DOES_NOT|HTTP status 403")


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


@dataclass
class Written:
    """A file, with all that is not in its footer or not worth reading it for."""

    location: str
    partition: list[str | None] = field(default_factory=list)
    rows: int = 0
    bytes: int = 0
    nans: dict[int, int] = field(default_factory=dict)
    """How many values of each floating-point column are not a number, by field id."""
    splits: list[int] = field(default_factory=list)
    """Where the row groups begin."""


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
        for one in files:
            one.nans = {int(number): count for number, count in one.nans.items()}
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
    what = f"Cannot write data files to '{target.folder}'"
    try:
        yield
    except PermissionError as error:
        raise WorkerError(NotPermitted(f"{what}: {error}")) from None
    except OSError as error:
        kind = NotPermitted if _DENIED.search(str(error)) else Unavailable
        raise WorkerError(kind(f"{what}: {error}")) from None


class Files:
    """The files that one task writes; it holds a bounded part of its rows."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._parts: dict[tuple[Any, ...], _Part] = {}
        self._done: list[Written] = []
        self._nans = list(_float_columns(target.schema))
        self._made = 0
        self._dropped = 0

    def add(self, rows: pa.RecordBatch) -> None:
        """Take rows, and write what has become too much to be held."""
        there = as_rows(rows, self._target.keeps_changes)
        self._made += len(there)
        self._dropped += len(rows) - len(there)
        if len(there):
            fitted = _fitted(there, self._target.schema)
            for values, part in partitions.divided(fitted, self._target.fields):
                self._part(values).hold(part)
            self._relieve()

    def close(self) -> list[str]:
        """Write what is left; a line for each file, and one of counts."""
        for part in self._parts.values():
            self._write(part)
            self._end(part)
        counts = {"made": self._made, "dropped": self._dropped}
        return [*(json.dumps(asdict(file)) for file in self._done), json.dumps(counts)]

    def abandon(self) -> None:
        """Take away all that was written: nobody will be told of it."""
        for part in self._parts.values():
            if part.file is not None:
                with suppress(Exception):
                    part.file.close()
                self._done.append(part.file.told)
        for told in self._done:
            with suppress(Exception):
                remove(told.location)

    def _part(self, values: tuple[Any, ...]) -> _Part:
        return self._parts.setdefault(values, _Part(values))

    def _relieve(self) -> None:
        """Write the largest parts until little enough is held."""
        most = self._target.form.held_bytes
        while sum(part.bytes for part in self._parts.values()) >= most:
            self._write(max(self._parts.values(), key=lambda part: part.bytes))

    def _write(self, part: _Part) -> None:
        """Write what a part holds, as row groups of files that are closed when they are large enough."""
        rows = part.taken()
        step = _step(rows, self._target.form.held_bytes)
        for begin in range(0, rows.num_rows, step):
            group = rows.slice(begin, step)
            file = part.file or self._open(part, group)
            file.write(group, self._nans)
            if file.out.tell() >= self._target.form.target_bytes:
                self._end(part)

    def _open(self, part: _Part, rows: pa.Table) -> _File:
        opened = [one for one in self._parts.values() if one.file is not None]
        if len(opened) >= MOST_OPEN:
            self._end(min(opened, key=lambda one: one.written))
        folders = partitions.path(self._target.fields, part.values)
        location = f"{self._target.folder}/{folders}{uuid.uuid4()}.parquet"
        told = Written(location, [partitions.text(value) for value in part.values])
        part.file = _File(told, self._target, rows)
        return part.file

    def _end(self, part: _Part) -> None:
        if part.file is not None:
            self._done.append(part.file.close())
            part.file = None


class _Part:
    """The rows of one partition that are held, and the file that is open for it."""

    def __init__(self, values: tuple[Any, ...]) -> None:
        self.values = values
        self.file: _File | None = None
        self.bytes = 0
        self.written = 0
        self._held: list[pa.RecordBatch] = []

    def hold(self, rows: pa.RecordBatch) -> None:
        self._held.append(rows)
        self.bytes += rows.nbytes

    def taken(self) -> pa.Table:
        """What is held, which is not held any more."""
        rows = pa.Table.from_batches(self._held) if self._held else pa.table({})
        self.written += rows.num_rows
        self._held, self.bytes = [], 0
        return rows


class _File:
    """A file that is being written; its first rows tell how its columns are encoded."""

    def __init__(self, told: Written, target: Target, rows: pa.Table) -> None:
        self.told = told
        self.out = opened(told.location, target.bucket)
        self._footers: list[Any] = []
        self._writer = writer(self.out, rows, target.form, self._footers)

    def write(self, rows: pa.Table, nans: Iterable[tuple[int, tuple[str, ...]]]) -> None:
        """Write `rows` as one row group."""
        self._writer.write_table(rows, row_group_size=rows.num_rows)
        self.told.rows += rows.num_rows
        for number, path in nans:
            self.told.nans[number] = self.told.nans.get(number, 0) + _nan_count(rows, path)

    def close(self) -> Written:
        self._writer.close()
        self.told.bytes = self.out.tell()
        self.out.close()
        self.told.splits = list(_begins(self._footers[0]))
        return self.told


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
    if not keeps_changes:
        gone = pa.array([changes.DELETE, changes.TRUNCATE])
        kept = compute.invert(compute.is_in(rows.column(changes.OPERATION), value_set=gone))
        values = [name for name in rows.schema.names if name not in changes.NAMES]
        return rows.select(values).filter(kept)
    order = rows.column(changes.ORDER)
    place = compute.coalesce(compute.struct_field(order, "seq"), compute.struct_field(order, "at"))
    names = [name for name in rows.schema.names if name not in (changes.ORDER, changes.UNKNOWN)]
    arrays = [rows.column(name) for name in names]
    return pa.RecordBatch.from_arrays([*arrays, place], names=[*names, changes.SEQUENCE])


def _fitted(rows: pa.RecordBatch, wanted: pa.Schema) -> pa.RecordBatch:
    """`rows` with the columns of the table, in its order; those that they do not have are NULL."""
    there = set(rows.schema.names)
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


def _float_columns(schema: pa.Schema) -> Iterator[tuple[int, tuple[str, ...]]]:
    """The field id and the path of each floating-point column that is not inside a list or a map."""
    for one in schema:
        yield from _floats(one, (one.name,))


def _floats(one: Any, path: tuple[str, ...]) -> Iterator[tuple[int, tuple[str, ...]]]:
    if pa.types.is_floating(one.type):
        yield int(one.metadata[ID]), path
    elif pa.types.is_struct(one.type):
        for index in range(one.type.num_fields):
            inner = one.type.field(index)
            yield from _floats(inner, (*path, inner.name))


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
