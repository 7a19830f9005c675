"""Schemas as Arrow knows them."""

from __future__ import annotations

from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute

from calve.schema import Array, Column, Decimal, Map, Primitive, Schema, Struct, Type

Values: TypeAlias = Any
"""An Arrow array; the stubs of pyarrow do not know what the kinds of it can do."""

compute: Any = pyarrow.compute
"""Arrow's functions over arrays, of which the stubs know too little as well."""

_TYPES: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}


def arrow_schema(schema: Schema) -> pa.Schema:
    """The Arrow schema of the same columns, nullability included."""
    return pa.schema([arrow_field(column) for column in schema.columns])


def arrow_field(column: Column) -> Any:
    """The Arrow field of a column."""
    return pa.field(column.name, arrow_type(column.type), column.nullable)


def arrow_type(kind: Type) -> pa.DataType:
    """The Arrow type of a column's type; raises ValueError where there is none."""
    if isinstance(kind, Decimal):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, Struct):
        return pa.struct([arrow_field(column) for column in kind.columns])
    if isinstance(kind, Array):
        return pa.list_(pa.field("element", arrow_type(kind.element), kind.element_nullable))
    if isinstance(kind, Map):
        return _arrow_map(kind)
    if kind.name not in _TYPES:
        raise ValueError(f"a {kind.ddl()} cannot be decoded")
    return _TYPES[kind.name]


def _arrow_map(kind: Map) -> pa.DataType:
    value = pa.field("value", arrow_type(kind.value), kind.value_nullable)
    make: Any = pa.map_
    made: pa.DataType = make(arrow_type(kind.key), value)
    return made


def has_map(kind: Type) -> bool:
    """Whether a map is somewhere in `kind`."""
    if isinstance(kind, Struct):
        return any(has_map(column.type) for column in kind.columns)
    return isinstance(kind, Map) or (isinstance(kind, Array) and has_map(kind.element))


def is_primitive(kind: Type, *names: str) -> bool:
    """Whether `kind` is one of the named types without parts."""
    return isinstance(kind, Primitive) and kind.name in names
