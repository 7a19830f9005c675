"""Keys in Parquet files that this process can open itself: found with Arrow, without Spark."""

from __future__ import annotations

import datetime as dt
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq
from pyroaring import BitMap64

from calve.errors import Unavailable
from calve.iceberg.held import Held

compute: Any = pyarrow.compute

_held = Held()

_THREADS = 4
_MAGIC = bytes.fromhex("d1d33964")


@dataclass(frozen=True)
class DeleteFile:
    """A position delete file, or the part of a Puffin file that holds a deletion vector."""

    path: str
    about: str | None = None
    """The data file that it is about, where it is one alone."""
    offset: int | None = None
    size: int | None = None


def deleted(location: str, deletes: Sequence[DeleteFile]) -> Any:
    """The positions in the file at `location` that `deletes` have."""
    parts: list[Any] = [pa.array([], pa.int64())]
    for file in deletes:
        parts.append(_listed(location, file) if file.offset is None else _vector(file))
    return compute.unique(pa.concat_arrays(parts))


def _listed(location: str, file: DeleteFile) -> Any:
    if file.about == location:
        return pq.read_table(file.path, columns=["pos"], partitioning=None).column("pos").combine_chunks()
    rows = pq.read_table(file.path, columns=["file_path", "pos"], partitioning=None)
    return rows.filter(compute.equal(rows.column("file_path"), location)).column("pos").combine_chunks()


def _vector(file: DeleteFile) -> Any:
    """The positions of a deletion vector: a length, four known bytes, a bitmap, and a checksum."""
    assert file.offset is not None
    assert file.size is not None
    with open(file.path, "rb") as puffin:
        puffin.seek(file.offset)
        content = puffin.read(file.size)
    length, told, checksum = content[:4], content[4:-4], content[-4:]
    if told[:4] != _MAGIC or int.from_bytes(length, "big") != len(told) or _crc(told) != checksum:
        raise Unavailable(f"Cannot read the deletion vector in '{file.path}': it is damaged")
    return pa.array(BitMap64.deserialize(told[4:]).to_array(), pa.int64())


def _crc(content: bytes) -> bytes:
    return zlib.crc32(content).to_bytes(4, "big")


def without(positions: Any, gone: Any) -> Any:
    """`positions` that are not in `gone`."""
    return positions.filter(compute.invert(compute.is_in(positions, value_set=gone)))


class NeedsSpark(Exception):
    """A file whose columns only Iceberg's readers can tell apart, or whose values Arrow cannot convert."""


@dataclass(frozen=True)
class KeyColumn:
    """A key column of the table: how a data file is searched for it, and its value where a file lacks it."""

    id: int
    names: tuple[str, ...] | None = None
    """Its names in files without field ids, by the table's name mapping; None where there is no mapping."""
    default: Any = None
    """The initial default, as Iceberg's JSON has it."""
    is_partition: bool = False
    """Whether files may have its value in their partition alone, by an identity transform."""


def find(
    paths: Iterable[str],
    columns: Sequence[KeyColumn],
    keys: pa.Table,
    partition_of: Callable[[str], Mapping[int, Any]] = lambda path: {},
) -> dict[str, Any]:
    """Where rows with one of `keys` are in each file that has such.

    `partition_of` gives the identity values of the partition of a file, by field id, as Iceberg's JSON has
    them. Raises NeedsSpark where it takes Iceberg's own reader to know what a file holds.
    """
    wanted = [column.combine_chunks() for column in keys.columns]

    def positions(path: str) -> tuple[str, Any]:
        try:
            return path, _positions(path, columns, wanted, partition_of)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise NeedsSpark(f"{path}: {error}") from error

    with ThreadPoolExecutor(_THREADS) as pool:
        return {path: found for path, found in pool.map(positions, paths) if len(found)}


def _positions(
    path: str,
    columns: Sequence[KeyColumn],
    wanted: Sequence[Any],
    partition_of: Callable[[str], Mapping[int, Any]],
) -> Any:
    with pq.ParquetFile(path) as file:
        called = _names(file.schema_arrow, columns)
        if None in called:
            wanted = _admitted(columns, called, wanted, lambda: partition_of(path))
        wanted = [
            keys for keys, name in zip(wanted, called, strict=True) if name is not None or not len(keys)
        ]
        names = [name for name in called if name is not None]
        if not wanted:
            return pa.array(range(file.metadata.num_rows), pa.int64())
        parts, first = [pa.array([], pa.int64())], 0
        for group in range(file.num_row_groups if len(wanted[0]) else 0):
            possible = _within(file.metadata.row_group(group), names, wanted)
            if len(possible[0]):
                held = _held.get((path, group, *names), partial(_keys, file, group, names))
                parts.append(compute.add(_matches(held, names, possible), pa.scalar(first, pa.int64())))
            first += file.metadata.row_group(group).num_rows
    return pa.concat_arrays(parts)


def _keys(file: pq.ParquetFile, group: int, names: Sequence[str]) -> pa.Table:
    return file.read_row_group(group, columns=list(names)).combine_chunks()


def _names(schema: pa.Schema, columns: Sequence[KeyColumn]) -> list[str | None]:
    """What the file calls the columns; None for one that it has not got.

    A file without field ids was not written by Iceberg: its columns are known by the table's name mapping.
    """
    by_id = {number: field.name for field in schema if (number := _id(field)) is not None}
    if by_id or any(_has_ids(field.type) for field in schema):
        return [by_id.get(column.id) for column in columns]
    if any(column.names is None for column in columns):
        raise NeedsSpark("a file has no field ids, and the table no name mapping")
    there = set(schema.names)
    return [next((name for name in column.names or () if name in there), None) for column in columns]


def _id(field: Any) -> int | None:
    number = int((field.metadata or {}).get(b"PARQUET:field_id", -1))
    return None if number < 0 else number


def _has_ids(kind: Any) -> bool:
    """Whether a field inside of a type has a field id."""
    inside = [kind.field(index) for index in range(kind.num_fields)]
    return any(_id(field) is not None or _has_ids(field.type) for field in inside)


def _admitted(
    columns: Sequence[KeyColumn],
    names: Sequence[str | None],
    wanted: Sequence[Any],
    partition: Callable[[], Mapping[int, Any]],
) -> Sequence[Any]:
    """The keys that a file can hold which lacks some columns: each of those has one value in all its rows."""
    lacking = [place for place, name in enumerate(names) if name is None]
    values = partition() if any(columns[place].is_partition for place in lacking) else {}
    for place in lacking:
        column, keys = columns[place], wanted[place]
        value = values.get(column.id, column.default)
        equal = compute.equal(keys, _scalar(value, keys.type)).fill_null(False)
        wanted = [kept.filter(equal) for kept in wanted]
    return wanted


def _scalar(value: Any, kind: pa.DataType) -> Any:
    """A value of Iceberg's JSON as one of a column of keys."""
    try:
        if isinstance(value, str) and not pa.types.is_string(kind):
            value = _parsed(value, kind)
        return pa.scalar(value, kind)
    except (ValueError, TypeError, ArithmeticError) as error:
        raise NeedsSpark(f"{value!r} is not read as {kind}") from error


def _parsed(text: str, kind: pa.DataType) -> Any:
    if pa.types.is_date(kind):
        return dt.date.fromisoformat(text)
    if pa.types.is_timestamp(kind):
        return dt.datetime.fromisoformat(text)
    if pa.types.is_decimal(kind):
        return Decimal(text)
    return bytes.fromhex(text) if pa.types.is_binary(kind) else text


def _within(group: Any, names: Sequence[str], wanted: Sequence[Any]) -> Sequence[Any]:
    """The keys that the bounds of a row group admit, as far as they are known."""
    columns = {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}
    for place, name in enumerate(names):
        bounds, keys = columns[name].statistics, wanted[place]
        if bounds is None or not bounds.has_min_max or not pa.types.is_integer(keys.type):
            continue
        inside = compute.and_(compute.greater_equal(keys, bounds.min), compute.less_equal(keys, bounds.max))
        wanted = [column.filter(inside) for column in wanted]
    return wanted


def _matches(columns: pa.Table, names: Sequence[str], wanted: Sequence[Any]) -> Any:
    """Where the rows with one of the keys are; with several columns, each is looked for before all are."""
    hit = None
    held = []
    for name, keys in zip(names, wanted, strict=True):
        values = columns.column(name).combine_chunks().cast(keys.type)
        held.append(values)
        one = compute.is_in(values, value_set=keys)
        hit = one if hit is None else compute.and_(hit, one)
    found = compute.indices_nonzero(hit).cast(pa.int64())
    if len(wanted) == 1 or not len(found):
        return found
    keys = set(zip(*(column.to_pylist() for column in wanted), strict=True))
    rows = zip(*(values.take(found).to_pylist() for values in held), strict=True)
    return found.filter(pa.array([row in keys for row in rows], pa.bool_()))
