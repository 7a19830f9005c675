"""Keys in Parquet files that this process can open itself: found with Arrow, without Spark."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
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


def path_of(location: str) -> str | None:
    """The path of a file on this machine; None for one in a store."""
    if location.startswith("file:"):
        return "/" + location.removeprefix("file:").lstrip("/")
    return location if location.startswith("/") else None


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


def find(paths: Iterable[str], ids: Sequence[int], keys: pa.Table) -> dict[str, Any]:
    """Where rows with one of `keys` are in each file that has such; `ids` are the columns' field ids."""
    wanted = [column.combine_chunks() for column in keys.columns]
    with ThreadPoolExecutor(_THREADS) as pool:
        found = pool.map(lambda path: (path, _positions(path, ids, wanted)), paths)
        return {path: positions for path, positions in found if len(positions)}


def _positions(path: str, ids: Sequence[int], wanted: Sequence[Any]) -> Any:
    with pq.ParquetFile(path) as file:
        names = _names(file.schema_arrow, ids)
        if names is None:
            return pa.array([], pa.int64())
        parts, first = [], 0
        for group in range(file.num_row_groups):
            possible = _within(file.metadata.row_group(group), names, wanted)
            if len(possible[0]):
                columns = _held.get((path, group, *names), partial(_keys, file, group, names))
                parts.append(compute.add(_matches(columns, names, possible), pa.scalar(first, pa.int64())))
            first += file.metadata.row_group(group).num_rows
    return pa.concat_arrays(parts) if parts else pa.array([], pa.int64())


def _keys(file: pq.ParquetFile, group: int, names: Sequence[str]) -> pa.Table:
    return file.read_row_group(group, columns=list(names)).combine_chunks()


def _names(schema: pa.Schema, ids: Sequence[int]) -> list[str] | None:
    """What the file calls the columns; None where it has not got one, so that its keys are all NULL."""
    called = {int((field.metadata or {}).get(b"PARQUET:field_id", -1)): field.name for field in schema}
    names = [called.get(number) for number in ids]
    return None if None in names else [str(name) for name in names]


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
