"""What a table is told of the columns of a Parquet file, from the footer that was just written. Pure.

The same as Iceberg's own reading of the footer gives, which would open every file once more.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from calve.iceberg.partitions import fewest_bytes

ID = b"PARQUET:field_id"
WHOLE = 2**31 - 1
"""The length of a bound that is not shortened."""
COUNTS = 0
"""The length of the bounds of a column of which only counts are told."""

_LAST_BEFORE_SURROGATES, _FIRST_BEHIND = "\ud7ff", "\ue000"
_LAST = "\U0010ffff"


@dataclass(frozen=True)
class Leaf:
    """A column as Parquet has it, without parts; those of a file come in one order."""

    number: int
    """The field id."""
    path: tuple[str, ...]
    kind: Any
    is_repeated: bool = False
    """Whether it is inside a list or a map: only its size is told then."""


def leaves(schema: Iterable[Any]) -> Iterator[Leaf]:
    """The columns of files with `schema`, named as Iceberg does."""
    for one in schema:
        yield from _leaves(one, (one.name,), False)


def _leaves(one: Any, path: tuple[str, ...], is_repeated: bool) -> Iterator[Leaf]:
    kind = one.type
    if pa.types.is_struct(kind):
        for index in range(kind.num_fields):
            inner = kind.field(index)
            yield from _leaves(inner, (*path, inner.name), is_repeated)
    elif pa.types.is_map(kind):
        yield from _leaves(kind.key_field, (*path, "key"), True)
        yield from _leaves(kind.item_field, (*path, "value"), True)
    elif pa.types.is_list(kind):
        yield from _leaves(kind.value_field, (*path, "element"), True)
    else:
        yield Leaf(int(one.metadata[ID]), path, kind, is_repeated)


def told(
    footer: Any, columns: Iterable[Leaf], lengths: Mapping[int, int], nans: Mapping[int, int]
) -> dict[str, Any]:
    """Sizes, counts and bounds of the columns, as Iceberg's JSON has them.

    `lengths` says how long the bounds of a column are at most; of one that it does not have, nothing is told.
    """
    groups = [footer.row_group(index) for index in range(footer.num_row_groups)]
    found: dict[str, dict[int, Any]] = {name: {} for name in _NAMES}
    for index, leaf in enumerate(columns):
        if leaf.number in lengths:
            chunks = [group.column(index) for group in groups]
            for name, value in _of_column(leaf, chunks, lengths[leaf.number]):
                found[name][leaf.number] = value
    found["nan-value-counts"] = {one: count for one, count in nans.items() if one in found["value-counts"]}
    return {name: {"keys": list(values), "values": list(values.values())} for name, values in found.items()}


_NAMES = (
    "column-sizes",
    "value-counts",
    "null-value-counts",
    "nan-value-counts",
    "lower-bounds",
    "upper-bounds",
)


def _of_column(leaf: Leaf, chunks: list[Any], length: int) -> Iterator[tuple[str, Any]]:
    yield "column-sizes", sum(chunk.total_compressed_size for chunk in chunks)
    if leaf.is_repeated:
        return
    yield "value-counts", sum(chunk.num_values for chunk in chunks)
    yield "null-value-counts", sum(chunk.statistics.null_count for chunk in chunks)
    if length == COUNTS or not all(_is_known(chunk.statistics, leaf.kind) for chunk in chunks):
        return
    known = [chunk.statistics for chunk in chunks if chunk.statistics.has_min_max]
    if known:
        lower = _lower(min(_value(one.min_raw, leaf.kind) for one in known), leaf.kind, length)
        yield "lower-bounds", encoded(lower, leaf.kind)
        upper = _upper(max(_value(one.max_raw, leaf.kind) for one in known), leaf.kind, length)
        if upper is not None:
            yield "upper-bounds", encoded(upper, leaf.kind)


def _is_known(statistics: Any, kind: Any) -> bool:
    """Whether there are bounds, or nothing to have bounds: NULLs, and what is not a number.

    Arrow leaves out those of long texts. The bounds of the other row groups would hide these from readers.
    """
    return statistics.has_min_max or statistics.num_values == 0 or pa.types.is_floating(kind)


def _value(raw: Any, kind: Any) -> Any:
    """A value of a footer as Python compares it in the table's order."""
    is_long_decimal = pa.types.is_decimal(kind) and isinstance(raw, bytes)
    return int.from_bytes(raw, "big", signed=True) if is_long_decimal else raw


def _lower(value: Any, kind: Any, length: int) -> Any:
    if pa.types.is_string(kind):
        return value.decode()[:length].encode()
    return value[:length] if pa.types.is_binary(kind) else value


def _upper(value: Any, kind: Any, length: int) -> Any:
    """`value`, or something behind it that is short enough; None if there is nothing such."""
    if pa.types.is_string(kind):
        text = value.decode()
        made = text if len(text) <= length else _behind(text[:length])
        return None if made is None else made.encode()
    if pa.types.is_binary(kind) and len(value) > length:
        kept = value[:length].rstrip(b"\xff")
        return kept[:-1] + bytes([kept[-1] + 1]) if kept else None
    return value


def _behind(text: str) -> str | None:
    """The next text that is not longer; None if there is none."""
    kept = text.rstrip(_LAST)
    if not kept:
        return None
    last = kept[-1]
    return kept[:-1] + (_FIRST_BEHIND if last == _LAST_BEFORE_SURROGATES else chr(ord(last) + 1))


def encoded(value: Any, kind: Any) -> str:
    """A bound as the hexadecimal digits of Iceberg's binary form."""
    return _bytes(value, kind).hex().upper()


def _bytes(value: Any, kind: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if pa.types.is_boolean(kind):
        return b"\x01" if value else b"\x00"
    if pa.types.is_decimal(kind):
        return fewest_bytes(value)
    if pa.types.is_floating(kind):
        return struct.pack("<f" if pa.types.is_float32(kind) else "<d", value)
    return struct.pack("<i" if kind.bit_width == 32 else "<q", value)
