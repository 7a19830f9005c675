"""Debezium's envelopes → changes, a block of records at once.

Only the common case: inserts, updates that keep their key, and deletes with what was before. What is not
accepted here, `DebeziumDecoder.record` looks at; what is, has the values that it gives.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import pyarrow as pa

from calve import changes
from calve.decode.arrow import Values, arrow_field, arrow_schema, arrow_type, compute, has_map
from calve.decode.changes import Details
from calve.decode.connect import Hints, Part, Written, members, written
from calve.decode.decoder import refuse_nulls, texts
from calve.decode.division import Doubts, Mismatch, doubtful
from calve.decode.json import objects, parsed, raw, shaped
from calve.decode.placeholder import AS_HSTORE, AS_UUID, ENCODED, LENGTH, TEXT
from calve.decode.scalars import in_calendar
from calve.schema import Array, Column, Schema, Struct

OPERATIONS = {"c": changes.INSERT, "r": changes.INSERT, "u": changes.UPDATE, "d": changes.DELETE}
FILE_BITS, POS_BITS = 23, 40
BINLOG = re.compile(r".*\.(\d+)", re.ASCII)
TIMES = (("ts_us", 1, 1), ("ts_ns", 1, 1000), ("ts_ms", 1000, 1))
"""Where an envelope tells its time: by what the number is multiplied and divided for microseconds."""

_STANDS_FOR_NOTHING = pa.array([TEXT, ENCODED, AS_HSTORE, AS_UUID])
_OPENING = re.compile(r'\s*\{\s*"schema"\s*:\s*')
_PAYLOAD = re.compile(r'\s*,\s*"payload"\s*:\s*')
_SOURCE = {"lsn": pa.int64(), "file": pa.string(), "pos": pa.int64()}
_CLOCKS: dict[str, pa.DataType] = {name: pa.int64() for name, _, _ in TIMES}
_SAMPLES = 20
_BY_VALUE = ("base64", "either")


@dataclass(frozen=True)
class Block:
    """The changes of a block of records, one of each."""

    rows: pa.RecordBatch
    operations: Values
    details: Details


@dataclass(frozen=True)
class Images:
    """The rows of a block before or after their changes: which are there, and their columns."""

    there: Values
    columns: dict[str, Values]


@dataclass(frozen=True)
class Moves:
    """What a block does to its rows."""

    operations: Values
    old: Images
    new: Images

    @cached_property
    def is_gone(self) -> Values:
        return compute.equal(self.operations, "d")

    @cached_property
    def is_update(self) -> Values:
        return compute.equal(self.operations, "u")


def is_fast(schema: Schema) -> bool:
    """Whether any records of these columns can be read at once."""
    return not any(has_map(column.type) for column in schema.columns)


def block(
    schema: Schema, hints: Hints, fields: tuple[str, ...] | None, keys: Values, values: Values
) -> Block:
    """The changes of records that have values; raises Mismatch or what Arrow raises where one needs care."""
    payloads, parts = _unwrapped(values)
    before, after = (_settled(schema, parts.get(name), hints, payloads) for name in ("before", "after"))
    read = objects(payloads, _envelope(before, after))
    moves = Moves(_one(read, "op"), _images(read, "before", before), _images(read, "after", after))
    codes = _codes(moves.operations)
    _refuse_missing(schema, moves)
    _refuse_other_keys(schema, moves, fields, keys)
    return Block(_rows(schema, moves), codes, _details(read, payloads))


def _one(read: pa.Table, name: str) -> Values:
    return read.column(name).combine_chunks()


def _codes(operations: Values) -> Values:
    found = compute.index_in(operations, pa.array(list(OPERATIONS)))
    if found.null_count:
        raise doubtful(found.is_null(), "an operation that needs care")
    return pa.array(list(OPERATIONS.values())).take(found)


def _unwrapped(values: Values) -> tuple[Values, Mapping[str, Part]]:
    """The payloads of records that all begin with the same schema part, or with none."""
    opening = _opening(values[0].as_py())
    if opening is None:
        return values, {}
    whole = texts(values)
    if not (_all(compute.starts_with(whole, opening)) and _all(compute.ends_with(whole, "}"))):
        raise Mismatch("not all records have the same schema part")
    payloads = compute.binary_slice(values, len(opening.encode()), -1)
    return payloads, _parts(opening)


def _all(flags: Values) -> bool:
    return bool(compute.all(flags, min_count=0).as_py())


def _opening(value: bytes) -> str | None:
    """What a record begins with, up to its payload, if that is a schema part."""
    try:
        text = value.decode()
        begin = _OPENING.match(text)
        if begin is None:
            return None
        _, end = json.JSONDecoder().raw_decode(text, begin.end())
    except (ValueError, RecursionError):
        raise Mismatch("not JSON") from None
    found = _PAYLOAD.match(text, end)
    return text[: found.end()] if found else None


@lru_cache(maxsize=64)
def _parts(opening: str) -> Mapping[str, Part]:
    begin = _OPENING.match(opening)
    assert begin
    found, _ = json.JSONDecoder().raw_decode(opening, begin.end())
    if found is not None and not isinstance(found, dict):
        raise Mismatch("the schema part is no object")
    return {} if found is None else members(found)


def _settled(schema: Schema, part: Part | None, hints: Hints, payloads: Values) -> Schema:
    """How columns are written, where it takes a look at the values to know."""
    told = written(schema, part, hints)
    open_ = [column for column in told.columns if _is_open(column.type)]
    samples = _samples(payloads) if open_ else []
    columns = (_look(column, samples) if column in open_ else column for column in told.columns)
    return Schema(tuple(columns))


def _is_open(kind: Any) -> bool:
    return isinstance(kind, Written) and kind.how.endswith(" or text")


def _samples(payloads: Values) -> list[dict[str, Any]]:
    first = [parsed(value) for value in payloads.slice(0, _SAMPLES).to_pylist()]
    rows = [one.get(name) for one in first for name in ("after", "before")]
    return [row for row in rows if isinstance(row, dict)]


def _look(column: Column, samples: list[dict[str, Any]]) -> Column:
    kind: Any = column.type
    found = next((row[column.name] for row in samples if row.get(column.name) is not None), None)
    how: Any = kind.kind if type(found) is str else Written(kind.kind, kind.how.removesuffix(" or text"))
    return Column(column.name, how, column.nullable)


def _envelope(before: Schema, after: Schema) -> pa.Schema:
    rows = {
        name: pa.struct([pa.field(column.name, _raw(column.type)) for column in schema.columns])
        for name, schema in (("before", before), ("after", after))
    }
    source = pa.struct([pa.field(name, kind) for name, kind in {**_SOURCE, **_CLOCKS}.items()])
    fields: dict[str, pa.DataType] = {"op": pa.string(), **rows, "source": source, **_CLOCKS}
    return pa.schema([pa.field(name, kind) for name, kind in fields.items()])


def _raw(kind: Any) -> pa.DataType:
    """What Arrow is told to read."""
    if isinstance(kind, Written):
        if kind.how == "number":
            return raw(kind.kind)
        return pa.string() if kind.how in _BY_VALUE else pa.int64()
    if _has_written(kind):
        raise Mismatch("values inside others that are written in a way of their own")
    return raw(kind)


def _has_written(kind: Any) -> bool:
    if isinstance(kind, Struct):
        return any(_has_written(column.type) for column in kind.columns)
    return isinstance(kind, Written) or (isinstance(kind, Array) and _has_written(kind.element))


def _images(read: pa.Table, name: str, schema: Schema) -> Images:
    found = _one(read, name)
    columns = {
        column.name: _converted(array, column.type)
        for column, array in zip(schema.columns, found.flatten(), strict=True)
    }
    return Images(found.is_valid(), columns)


def _converted(array: Values, kind: Any) -> Values:
    """What Arrow read, in the declared type; raises Mismatch where a value was not sent."""
    _refuse_placeholders(array)
    if not isinstance(kind, Written):
        return shaped(array, kind)
    if kind.how in _BY_VALUE:
        return _by_value(array, kind)
    if kind.how == "number":
        return shaped(array, kind.kind)
    if kind.how == "days":
        return in_calendar(array.cast(pa.int32()).cast(pa.date32()))
    if kind.how not in _TIMES:
        raise Mismatch("values that need care")
    return in_calendar(_micros(array, *_TIMES[kind.how]).cast(arrow_type(kind.kind)))


_TIMES = {"ms": (1000, 1), "us": (1, 1), "ns": (1, 1000)}


def _micros(numbers: Values, times: int, per: int) -> Values:
    if per == 1:
        return compute.multiply_checked(numbers, times)
    whole = compute.divide(numbers, per)
    if not _all(compute.equal(compute.multiply(whole, per), numbers)):
        raise Mismatch("finer than a microsecond")
    return whole


def _refuse_placeholders(array: Values) -> None:
    if pa.types.is_list(array.type):
        lengths = compute.list_value_length(array)
        if compute.any(compute.equal(lengths, LENGTH)).as_py():
            raise Mismatch("an array that may stand for one that was not sent")
        _refuse_placeholders(array.flatten())
    elif pa.types.is_string(array.type) and compute.any(compute.is_in(array, _STANDS_FOR_NOTHING)).as_py():
        raise Mismatch("a value that was not sent")


def _by_value(array: Values, kind: Written) -> Values:
    """Each text once, by the way that is right for it."""
    coded = array.dictionary_encode()
    try:
        values = [kind.read(text) for text in coded.dictionary.to_pylist()]
    except ValueError as error:
        raise Mismatch(str(error)) from None
    return pa.array(values, arrow_type(kind.kind)).take(coded.indices)


def _refuse_missing(schema: Schema, moves: Moves) -> None:
    """Refuse rows that are there without `after`, rows that are gone without `before`, and wrong NULLs."""
    if not _all(compute.if_else(moves.is_gone, moves.old.there, moves.new.there)):
        raise Mismatch("no row")
    stays = compute.invert(moves.is_gone)
    refuse_nulls([moves.new.columns[name].filter(stays) for name in schema.names], schema.columns)
    loose = tuple(Column(column.name, column.type) for column in schema.columns)
    refuse_nulls([moves.old.columns[name] for name in schema.names], loose)


def _refuse_other_keys(schema: Schema, moves: Moves, fields: tuple[str, ...] | None, keys: Values) -> None:
    """Refuse updates of the key, and deletes without one."""
    matters = compute.or_(moves.is_gone, compute.and_(moves.is_update, moves.old.there))
    if not compute.any(matters).as_py():
        return
    for name in fields if fields is not None else _key_fields(keys.filter(matters), schema):
        before, after = moves.old.columns[name], moves.new.columns[name]
        lost = compute.and_(moves.is_gone, before.is_null())
        same = compute.fill_null(compute.equal(before, after), False)
        other = compute.and_(moves.is_update, compute.and_(before.is_valid(), compute.invert(same)))
        if compute.any(compute.or_(lost, other)).as_py():
            raise Mismatch("a delete without its key, or an update of it")


def _key_fields(keys: Values, schema: Schema) -> tuple[str, ...]:
    """The fields that all keys have."""
    if keys.null_count:
        raise Mismatch("a record without a key")
    payloads, _ = _unwrapped(keys)
    try:
        read = objects(payloads)
    except Doubts as error:
        # They are told by their places among the keys, which are not those of the records.
        raise Mismatch(str(error)) from None
    if any(column.null_count for column in read.columns) or not set(read.column_names) <= set(schema.names):
        raise Mismatch("keys that need care")
    return tuple(read.column_names)


def _rows(schema: Schema, moves: Moves) -> pa.RecordBatch:
    fields = pa.schema([arrow_field(Column(column.name, column.type)) for column in schema.columns])
    arrays = [moves.new.columns[name] for name in schema.names]
    if compute.any(moves.is_gone).as_py():
        here = pa.array(range(len(moves.operations)), pa.int64())
        chosen = compute.if_else(moves.is_gone, compute.add(here, len(here)), here)
        pairs = ((moves.new.columns[name], moves.old.columns[name]) for name in schema.names)
        arrays = [pa.concat_arrays(pair).take(chosen) for pair in pairs]
    return pa.RecordBatch.from_arrays(arrays, schema=fields)


def _details(read: pa.Table, payloads: Values) -> Details:
    count = read.num_rows
    source = dict(zip((*_SOURCE, *_CLOCKS), _one(read, "source").flatten(), strict=True))
    envelope = {name: _one(read, name) for name in _CLOCKS}
    types: Any = arrow_schema(changes.COLUMNS)
    parts = pa.array([0], pa.int32()).take(pa.array([0] * count, pa.int32()))
    unknown = pa.nulls(count, types.field(changes.UNKNOWN).type)
    return Details(_sequences(source, payloads), parts, _times(source, envelope), unknown)


def _sequences(source: dict[str, Values], payloads: Values) -> Values:
    """Where the changes are in the log: only if all of them say it in the same way."""
    lsn, file, pos = (source[name] for name in _SOURCE)
    if not lsn.null_count:
        return lsn
    if _has_name(payloads, "lsn"):
        raise Mismatch("some have an lsn")
    if not file.null_count and not pos.null_count:
        return _binlogs(file, pos)
    if _has_name(payloads, "file") and _has_name(payloads, "pos"):
        raise Mismatch("some have a place in a binlog")
    return source["ts_ms"]


def _has_name(payloads: Values, name: str) -> bool:
    """Whether an object may have a member of this name, which may be null."""
    return bool(compute.any(compute.match_substring_regex(payloads, rf'"{name}"|\\u')).as_py())


def _binlogs(file: Values, pos: Values) -> Values:
    coded = file.dictionary_encode()
    found = [BINLOG.fullmatch(name) for name in coded.dictionary.to_pylist()]
    numbers = [int(one[1]) if one else 1 << FILE_BITS for one in found]
    if max(numbers, default=0) >= 1 << FILE_BITS or not _all(compute.less(pos, 1 << POS_BITS)):
        raise Mismatch("a place in a binlog that needs care")
    if not _all(compute.greater_equal(pos, 0)):
        raise Mismatch("a place before the binlog")
    high = pa.array([number << POS_BITS for number in numbers], pa.int64()).take(coded.indices)
    return compute.bit_wise_or(high, pos)


def _times(source: dict[str, Values], envelope: dict[str, Values]) -> Values:
    types: Any = arrow_schema(changes.COLUMNS)
    told = [(values[name], times, per) for values in (source, envelope) for name, times, per in TIMES]
    micros = compute.coalesce(*(_floored(*one) for one in told))
    return in_calendar(micros.cast(types.field(changes.TIME).type))


def _floored(numbers: Values, times: int, per: int) -> Values:
    if compute.any(compute.less(numbers, 0)).as_py():
        raise Mismatch("a time before 1970")
    return compute.divide(compute.multiply_checked(numbers, times), per)
