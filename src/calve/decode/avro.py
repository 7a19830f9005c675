"""Avro records → rows.

A block of records is read by fastavro, and its columns are made by Arrow. Logical types are not left to
fastavro: what Avro has written is converted here, exactly or not at all.
"""

from __future__ import annotations

import decimal
import io
import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, TypeAlias

import pyarrow as pa
from fastavro import parse_schema, schemaless_reader
from fastavro.schema import SchemaParseException, UnknownType

from calve.decode.arrow import Values, arrow_field, arrow_schema, arrow_type, compute, is_primitive
from calve.decode.bad import Bad
from calve.decode.connect import clock
from calve.decode.decoder import Decoder, refuse_nulls
from calve.decode.division import Doubts, Mismatch, each
from calve.decode.scalars import INTEGERS, in_calendar, parse, reason_of
from calve.decode.schemas import AVRO, HEADER, Registered, SchemaRegistry, has_id, schema_id
from calve.schema import Array, Column, Decimal, Map, Schema, SchemaError, Struct, Type
from calve.schema.avro import AvroSchema, Node, load, logical, without_null

Make: TypeAlias = Callable[[list[Any]], Values]
"""Makes an Arrow array of values as fastavro reads them."""

_EXACT = decimal.Context(prec=2000)


@dataclass(frozen=True)
class Member:
    """The field of a record that a column is made of, and how; no field where the writer has none."""

    name: str | None
    make: Make

    def of(self, rows: Iterable[Any]) -> Values:
        return self.make([None if row is None or self.name is None else row[self.name] for row in rows])


@dataclass(frozen=True)
class Writer:
    """A schema that records are written with."""

    name: str
    schema: AvroSchema
    parsed: Any

    def read(self, value: bytes, start: int) -> Any:
        """What a record holds behind `start`; raises Mismatch."""
        data = io.BytesIO(value)
        data.seek(start)
        try:
            found = schemaless_reader(data, self.parsed, None)
        except UnicodeDecodeError as error:
            raise Mismatch(f"a text is not valid UTF-8: {error.reason}", "not_utf8") from None
        except Exception as error:
            # fastavro raises whatever the bytes lead it to: EOFError, IndexError …
            raise Mismatch(f"not a record of {self.name}: {str(error) or type(error).__name__}") from None
        if data.tell() != len(value):
            raise Mismatch(f"not a record of {self.name}: {len(value) - data.tell()} bytes are left over")
        return found


def writer(registered: Registered, name: str) -> Writer:
    """The writer of a registered schema; raises Mismatch or SchemaError."""
    if registered.kind != AVRO:
        raise Mismatch(f"{name} is one of {registered.kind}, not of AVRO", "unknown_schema")
    return _writer(registered.text, tuple(text for _, text in registered.references), name)


def writer_of(text: str) -> Writer:
    """The writer of a schema that is known by its text; raises SchemaError."""
    return _writer(text, (), "the schema")


@lru_cache(maxsize=1024)
def _writer(text: str, references: tuple[str, ...], name: str) -> Writer:
    schema = load(text, references)
    named: dict[str, Any] = {}
    try:
        for one in references:
            parse_schema(_plain(json.loads(one)), named)
        root = json.loads(text) if text.lstrip()[:1] in ('"', "{", "[") else text.strip()
        return Writer(name, schema, parse_schema(_plain(root), named))
    except (SchemaParseException, UnknownType, ValueError) as error:
        raise SchemaError(f"Cannot read the Avro schema: {error}") from None


def _plain(type_: Any) -> Any:
    """The same types without their logical ones."""
    if isinstance(type_, list):
        return [_plain(one) for one in type_]
    if not isinstance(type_, dict):
        return type_
    return {
        key: one if key == "default" else _plain(one) for key, one in type_.items() if key != "logicalType"
    }


class AvroDecoder(Decoder):
    """Each record is one of Avro's, written with `own`, or with the schema of the id that it begins with.

    `reader` is the schema that the columns come from, if they do: its defaults stand for missing fields.
    """

    def __init__(
        self,
        schema: Schema,
        own: str | None = None,
        registry: SchemaRegistry | None = None,
        reader: AvroSchema | None = None,
    ) -> None:
        super().__init__(schema)
        self.own, self.registry, self.reader = own, registry, reader
        self._members: dict[int | None, tuple[Writer, list[Member]]] = {}

    def _fast(self, values: Values) -> pa.RecordBatch:
        records = values.to_pylist()
        numbers = each(lambda record: None if self.registry is None else schema_id(record), records)
        kinds = list(dict.fromkeys(numbers))
        if len(kinds) == 1:
            return self._batch(records, kinds[0])
        places = [[at for at, number in enumerate(numbers) if number == kind] for kind in kinds]
        batches = [self._some(records, own, kind) for own, kind in zip(places, kinds, strict=True)]
        order = pa.array([at for own in places for at in own], pa.int64())
        whole = pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
        return whole.take(compute.sort_indices(order))

    def _some(self, records: list[bytes], places: list[int], kind: int | None) -> pa.RecordBatch:
        try:
            return self._batch([records[at] for at in places], kind)
        except Doubts as error:
            raise Doubts([places[at] for at in error.places], str(error), error.reason) from None
        except Mismatch as error:
            raise Doubts(places, str(error), error.reason) from None

    def _batch(self, records: list[bytes], number: int | None) -> pa.RecordBatch:
        written, members = self._made(number)
        start = 0 if number is None else HEADER
        found = each(lambda record: self._read(written, record, start), records)
        columns = self.schema.columns
        arrays = [
            column_values(column, member, found) for column, member in zip(columns, members, strict=True)
        ]
        refuse_nulls(arrays, columns)
        return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(self.schema))

    def _read(self, written: Writer, record: bytes, start: int) -> Any:
        try:
            return written.read(record, start)
        except Mismatch as error:
            if self.registry is None and has_id(record):
                raise Mismatch(
                    f"{error}; if it begins with the id of a schema, declare schema.registry"
                ) from None
            raise

    def _made(self, number: int | None) -> tuple[Writer, list[Member]]:
        if number not in self._members:
            try:
                self._members[number] = self._make(number)
            except SchemaError as error:
                why = f"schema {number}: {error}" if number is not None else str(error)
                raise Mismatch(why, "unknown_schema") from None
        return self._members[number]

    def _make(self, number: int | None) -> tuple[Writer, list[Member]]:
        if self.registry is None:
            found = writer_of(self.own or "")
        else:
            found = writer(self.registry.by_id(number or 0), f"schema {number}")
        return found, members_of(found, self.reader, self.schema)

    def record(self, value: bytes) -> list[Any]:
        return [column[0].as_py() for column in self._fast(pa.array([value], pa.binary())).columns]

    def _slow(self, values: Values, places: Sequence[int], bad: list[Bad]) -> pa.RecordBatch:
        """Record by record, in the same way: there is no other one."""
        rows = []
        for at, place in enumerate(places):
            try:
                rows.append(self._one(values.slice(at, 1)))
            except Mismatch as error:
                bad.append(Bad(place, error.reason, str(error)))
        if not rows:
            return pa.RecordBatch.from_pylist([], schema=arrow_schema(self.schema))
        return pa.Table.from_batches(rows).combine_chunks().to_batches()[0]

    def _one(self, value: Values) -> pa.RecordBatch:
        if value.null_count:
            raise Mismatch("the value is null", "null_value")
        try:
            return self._fast(value)
        except pa.ArrowInvalid as error:
            raise Mismatch(str(error), "wrong_type") from None


def column_values(column: Column, member: Member, rows: list[Any]) -> Values:
    """The values of a column; raises Mismatch."""
    try:
        return member.of(rows)
    except (pa.ArrowInvalid, OverflowError) as error:
        # What is of another kind is known by the schema of the writer; this is too much for the column.
        raise Mismatch(f"column '{column.name}': {error}", "out_of_range") from None
    except ValueError as error:
        raise Mismatch(f"column '{column.name}': {error}", reason_of(error)) from None


def members_of(written: Writer, reader: AvroSchema | None, columns: Schema) -> list[Member]:
    """How columns are made of what a writer writes; raises SchemaError where they cannot be."""
    node, _ = without_null(written.schema, written.schema.root, "")
    if node["type"] != "record":
        raise SchemaError(f"a {node['type']}, not a record")
    own = None if reader is None else without_null(reader, reader.root, "")[0]
    return list(Sides(written.schema, reader).members(columns.columns, node, own, ""))


@dataclass(frozen=True)
class Sides:
    """The schema of the writer, and that of the reader if there is one."""

    writer: AvroSchema
    reader: AvroSchema | None

    def members(
        self, columns: Iterable[Column], node: Node, reader: Node | None, path: str
    ) -> Iterator[Member]:
        """How the columns of a record are made; raises SchemaError where a field does not fit."""
        there = {one["name"]: one for one in node["fields"]}
        wanted = {one["name"]: one for one in (reader or {}).get("fields", ())}
        for column in columns:
            own = wanted.get(column.name)
            names = (column.name, *((own or {}).get("aliases") or ()))
            found = next((there[name] for name in names if name in there), None)
            if found is None:
                yield Member(None, _constant(column, own, path))
            else:
                make = self.make(found["type"], column.type, own and own["type"], path + column.name)
                yield Member(found["name"], make)

    def make(self, type_: Any, kind: Type, reader: Any, path: str) -> Make:
        """How values of a column are made of those of a type."""
        node, _ = without_null(self.writer, type_, path)
        own = None if reader is None or self.reader is None else without_null(self.reader, reader, path)[0]
        if isinstance(kind, Struct) and node["type"] == "record":
            return partial(_structs, kind, list(self.members(kind.columns, node, own, f"{path}.")))
        if isinstance(kind, Array) and node["type"] == "array":
            inner = self.make(node["items"], kind.element, (own or {}).get("items"), f"{path}[]")
            return partial(_lists, kind, inner)
        if isinstance(kind, Map) and node["type"] == "map" and is_primitive(kind.key, "string"):
            inner = self.make(node["values"], kind.value, (own or {}).get("values"), f"{path}[]")
            return partial(_maps, kind, inner)
        return _simple(node, kind, path)


def _constant(column: Column, field: Node | None, path: str) -> Make:
    """A column of which the writer knows nothing: NULL, or what the reader's schema has for this case."""
    default = None if field is None else field.get("default")
    if default is None and not column.nullable:
        raise SchemaError(
            f"column '{path}{column.name}': not in the schema of the writer, and it is NOT NULL"
        )
    if isinstance(default, (dict, list)) and default:
        raise SchemaError(f"column '{path}{column.name}': a default that is no single value")
    if default is None or is_primitive(column.type, "boolean", "string", *INTEGERS, "float", "double"):
        return lambda values: pa.array([default] * len(values), arrow_type(column.type))
    raise SchemaError(f"column '{path}{column.name}': a default of {column.type.ddl()} is not taken")


def _mask(values: Sequence[Any]) -> Values | None:
    found = [value is None for value in values]
    return pa.array(found) if any(found) else None


def _structs(kind: Struct, members: list[Member], values: list[Any]) -> Values:
    arrays = [member.of(values) for member in members]
    fields = [arrow_field(column) for column in kind.columns]
    return pa.StructArray.from_arrays(arrays, fields=fields, mask=_mask(values))


def _offsets(values: Sequence[Any]) -> Values:
    ends, total = [0], 0
    for value in values:
        total += len(value) if value is not None else 0
        ends.append(total)
    return pa.array(ends, pa.int32())


def _lists(kind: Array, inner: Make, values: list[Any]) -> Values:
    flat = inner([one for value in values if value is not None for one in value])
    return pa.ListArray.from_arrays(_offsets(values), flat, type=arrow_type(kind), mask=_mask(values))


def _maps(kind: Map, inner: Make, values: list[Any]) -> Values:
    keys = pa.array([key for value in values if value is not None for key in value], pa.string())
    items = inner([one for value in values if value is not None for one in value.values()])
    made: Any = pa.MapArray.from_arrays
    return made(_offsets(values), keys, items, type=arrow_type(kind), mask=_mask(values))


def _simple(node: Node, kind: Type, path: str) -> Make:
    """How values without parts are made; raises SchemaError where they do not fit the column."""
    type_, told = node["type"], logical(node)
    made: Make | None = None
    if told == "decimal":
        made = partial(_decimals, kind, node.get("scale", 0)) if isinstance(kind, Decimal) else None
    elif told is not None:
        made = _of_logical(type_, told, kind)
    elif type_ in _FITTING and is_primitive(kind, *_FITTING[type_]):
        made = partial(_values, kind)
    if made is None:
        says = type_ if told is None else f"{type_} ({told})"
        raise SchemaError(f"column '{path}': the record's schema says {says}, which is not a {kind.ddl()}")
    return made


_FITTING: dict[str, tuple[str, ...]] = {
    "boolean": ("boolean",),
    "int": INTEGERS,
    "long": INTEGERS,
    "float": ("float", "double"),
    "double": ("double",),
    "string": ("string",),
    "enum": ("string",),
    "bytes": ("binary",),
    "fixed": ("binary",),
}
_PER_MICRO = {"millis": (1000, 1), "micros": (1, 1), "nanos": (1, 1000)}


def _of_logical(type_: str, told: str, kind: Type) -> Make | None:
    what, _, unit = told.rpartition("-")
    if told == "date":
        return partial(_dates, kind) if is_primitive(kind, "date") else None
    if what in ("timestamp", "local-timestamp") and unit in _PER_MICRO:
        fits = is_primitive(kind, "timestamp" if what == "timestamp" else "timestamp_ntz")
        return partial(_instants, kind, unit) if fits else None
    if what == "time" and is_primitive(kind, "string"):
        return partial(_clocks, unit)
    if what == "time":
        return partial(_values, kind) if is_primitive(kind, *INTEGERS) else None
    if told == "uuid" and type_ == "fixed":
        return _uuids if is_primitive(kind, "string") else None
    if told == "zoned-timestamp" and is_primitive(kind, "timestamp"):
        return partial(_parsed, kind)
    return partial(_values, kind) if is_primitive(kind, "string") else None


def _values(kind: Type, values: list[Any]) -> Values:
    return pa.array(values, arrow_type(kind))


def _dates(kind: Type, values: list[Any]) -> Values:
    return in_calendar(pa.array(values, pa.int32()).cast(arrow_type(kind)))


def _instants(kind: Type, unit: str, values: list[Any]) -> Values:
    times, per = _PER_MICRO[unit]
    numbers: Values = pa.array(values, pa.int64())
    micros = compute.divide(numbers, per) if per > 1 else compute.multiply_checked(numbers, times)
    if (
        per > 1
        and not compute.all(compute.equal(compute.multiply(micros, per), numbers), min_count=0).as_py()
    ):
        raise pa.ArrowInvalid("finer than a microsecond")
    return in_calendar(micros.cast(arrow_type(kind)))


def _clocks(unit: str, values: list[Any]) -> Values:
    times, _ = _PER_MICRO[unit]
    return pa.array([None if one is None else clock(one * times) for one in values], pa.string())


def _uuids(values: list[Any]) -> Values:
    return pa.array([None if one is None else str(uuid.UUID(bytes=one)) for one in values], pa.string())


def _parsed(kind: Type, values: list[Any]) -> Values:
    return pa.array([None if one is None else parse(one, kind) for one in values], arrow_type(kind))


def _decimals(kind: Decimal, scale: int, values: list[Any]) -> Values:
    return pa.array([None if one is None else _decimal(one, scale) for one in values], arrow_type(kind))


def _decimal(value: bytes, scale: int) -> decimal.Decimal:
    return decimal.Decimal(int.from_bytes(value, "big", signed=True)).scaleb(-scale, _EXACT)
