"""The partitions of rows, found with Arrow: what Iceberg's own transforms give for the same values. Pure."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from urllib.parse import quote_plus

import numpy as np
import pyarrow as pa
import pyarrow.compute

compute: Any = pyarrow.compute

_EPOCH = dt.datetime(1970, 1, 1)
_MICROS = {"day": 86_400_000_000, "hour": 3_600_000_000}


@dataclass(frozen=True)
class Field:
    """A field of a partition spec: the column it is made of, inside structs by its path."""

    name: str
    path: tuple[str, ...]
    transform: str
    parameter: int = 0


def divided(rows: pa.RecordBatch, fields: tuple[Field, ...]) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """The rows of each partition, behind the values of that partition."""
    if not fields:
        yield (), rows
        return
    names = [str(index) for index in range(len(fields))]
    values = [_transformed(_column(rows, field), field) for field in fields]
    keyed = pa.table([*values, pa.array(np.arange(len(rows)))], names=[*names, "row"])
    groups = keyed.group_by(names, use_threads=False).aggregate([("row", "list")])
    places: Any = groups.column("row_list").combine_chunks()
    # One by one, the rows of a thousand partitions take ten times as long.
    ordered = rows if groups.num_rows == 1 else rows.take(places.flatten())
    begin = 0
    told_of_each = (groups.column(name).to_pylist() for name in names)
    for *told, count in zip(*told_of_each, places.value_lengths().to_pylist(), strict=True):
        yield tuple(told), ordered.slice(begin, count)
        begin += count


def path(fields: tuple[Field, ...], values: tuple[Any, ...]) -> str:
    """The folders of a partition, as Iceberg calls them."""
    told = zip(fields, values, strict=True)
    return "".join(f"{_escaped(field.name)}={_escaped(_shown(field, value))}/" for field, value in told)


def as_json(value: Any) -> Any:
    """A value of a partition as Iceberg's JSON has it."""
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def _escaped(name: str) -> str:
    return quote_plus(name, safe="*")


def _shown(field: Field, value: Any) -> str:
    if value is None:
        return "null"
    if field.transform == "year":
        return str(1970 + value)
    if field.transform == "month":
        return f"{1970 + value // 12}-{value % 12 + 1:02}"
    if field.transform == "hour":
        return (_EPOCH + dt.timedelta(hours=value)).strftime("%Y-%m-%d-%H")
    return str(value).lower() if isinstance(value, bool) else str(value)


def _column(rows: pa.RecordBatch, field: Field) -> Any:
    column = rows.column(field.path[0])
    return compute.struct_field(column, list(field.path[1:])) if field.path[1:] else column


def _transformed(values: Any, field: Field) -> Any:
    if field.transform == "identity":
        return values
    if field.transform == "bucket":
        return _bucket(values, field.parameter)
    if field.transform == "truncate":
        return _truncated(values, field.parameter)
    return _time(values, field.transform)


def _time(values: Any, unit: str) -> Any:
    """Whole years, months or hours since 1970, or the day."""
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.timestamp("us"))
    if unit == "year":
        return compute.subtract(compute.year(values), 1970).cast(pa.int32())
    if unit == "month":
        years = compute.multiply(compute.subtract(compute.year(values), 1970), 12)
        return compute.add(years, compute.subtract(compute.month(values), 1)).cast(pa.int32())
    if pa.types.is_date(values.type):
        return values
    whole = _floored(values.cast(pa.int64()), _MICROS[unit]).cast(pa.int32())
    return whole.cast(pa.date32()) if unit == "day" else whole


def _floored(values: Any, width: int) -> Any:
    """`values` divided by `width`, rounded down; Arrow's division rounds towards nought."""
    return _over(values, lambda whole: whole // width)


def _over(values: Any, work: Any) -> Any:
    """`work` done to whole numbers; what is NULL stays NULL."""
    filled = values.fill_null(0) if values.null_count else values
    made = pa.array(work(filled.to_numpy(zero_copy_only=False)))
    return compute.if_else(values.is_valid(), made, None) if values.null_count else made


def _truncated(values: Any, width: int) -> Any:
    if pa.types.is_string(values.type):
        return compute.utf8_slice_codeunits(values, 0, width)
    if pa.types.is_decimal(values.type):
        return _each(values, lambda one: _shortened(one, width), values.type)
    made = _over(values, lambda whole: whole - whole % whole.dtype.type(width))
    return made.cast(values.type)


def _shortened(value: Decimal | None, width: int) -> Decimal | None:
    if value is None:
        return None
    number = _unscaled(value)
    number -= number % width
    digits = tuple(map(int, str(abs(number))))
    return Decimal((int(number < 0), digits, int(value.as_tuple().exponent)))


def _unscaled(value: Decimal) -> int:
    """The digits of a decimal as a whole number."""
    sign, digits, _ = value.as_tuple()
    number = int("".join(map(str, digits)))
    return -number if sign else number


def _each(values: Any, work: Any, kind: Any) -> Any:
    """`work` done to each value that differs from the others."""
    coded = values.dictionary_encode()
    made = pa.array([work(one) for one in coded.dictionary.to_pylist()], kind)
    return made.take(coded.indices)


def _bucket(values: Any, count: int) -> Any:
    return _over_hash(values, lambda hashed: ((hashed & 0x7FFFFFFF) % count).astype(np.int32))


def _over_hash(values: Any, work: Any) -> Any:
    kind = values.type
    if pa.types.is_decimal(kind):
        return _over_hash(_each(values, _bytes, pa.binary()), work)
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        made = pa.array(work(_hashed_bytes(values.cast(pa.binary()))))
        return compute.if_else(values.is_valid(), made, None) if values.null_count else made
    wide = values.cast(pa.int32()) if pa.types.is_date(kind) else values
    return _over(wide.cast(pa.int64()), lambda whole: work(_hashed_longs(whole)))


def _bytes(value: Decimal | None) -> bytes | None:
    """A decimal as the fewest bytes that hold it."""
    if value is None:
        return None
    return fewest_bytes(_unscaled(value))


def fewest_bytes(number: int) -> bytes:
    """A whole number as the fewest bytes that hold it, the highest first."""
    length = (number if number >= 0 else ~number).bit_length() // 8 + 1
    return number.to_bytes(length, "big", signed=True)


_C1, _C2 = np.uint32(0xCC9E2D51), np.uint32(0x1B873593)


def _rotated(values: Any, by: int) -> Any:
    return (values << np.uint32(by)) | (values >> np.uint32(32 - by))


def _mixed(hashed: Any, block: Any) -> Any:
    hashed = _rotated(hashed ^ (_rotated(block * _C1, 15) * _C2), 13)
    return hashed * np.uint32(5) + np.uint32(0xE6546B64)


def _finished(hashed: Any, lengths: Any) -> Any:
    hashed = hashed ^ lengths
    hashed = (hashed ^ (hashed >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    hashed = (hashed ^ (hashed >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return hashed ^ (hashed >> np.uint32(16))


def _hashed_longs(values: Any) -> Any:
    """Murmur3 of whole numbers, each as eight bytes."""
    plain = values.astype(np.int64).view(np.uint64)
    hashed = np.zeros(len(plain), np.uint32)
    for shift in (0, 32):
        hashed = _mixed(hashed, (plain >> np.uint64(shift)).astype(np.uint32))
    return _finished(hashed, np.uint32(8))


def _hashed_bytes(values: Any) -> Any:
    """Murmur3 of byte strings; all that are long enough have their next four bytes mixed at once."""
    _, offsets, data = values.buffers()
    ends = np.frombuffer(offsets, np.int32, len(values) + 1, values.offset * 4)
    held = np.frombuffer(data or b"", np.uint8)
    begins, lengths = ends[:-1].astype(np.int64), np.diff(ends)
    hashed = np.zeros(len(values), np.uint32)
    for block in range(int(lengths.max(initial=0)) // 4):
        long = np.nonzero(lengths // 4 > block)[0]
        hashed[long] = _mixed(hashed[long], _word(held, begins[long] + 4 * block, 4))
    for rest in (1, 2, 3):
        some = np.nonzero(lengths % 4 == rest)[0]
        tail = _word(held, begins[some] + lengths[some] - rest, rest)
        hashed[some] ^= _rotated(tail * _C1, 15) * _C2
    return _finished(hashed, lengths.astype(np.uint32))


def _word(held: Any, begins: Any, count: int) -> Any:
    """The number that `count` bytes from each of `begins` make, the lowest first."""
    found = np.zeros(len(begins), np.uint32)
    for byte in range(count):
        found |= held[begins + byte].astype(np.uint32) << np.uint32(8 * byte)
    return found
