"""Schemas as Arrow knows them."""

from __future__ import annotations

from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute

from calve.schema import Array, Column, Decimal, Map, Primitive, Schema, SchemaError, Struct, Type

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


_TAKEN: dict[str, str] = {
    **{str(arrow): ours for ours, arrow in _TYPES.items() if ours not in ("tinyint", "smallint")},
    **dict.fromkeys(("int8", "int16", "uint8", "uint16"), "int"),
    "uint32": "bigint",
    "halffloat": "float",
    **dict.fromkeys(("large_string", "string_view"), "string"),
    **dict.fromkeys(("large_binary", "binary_view"), "binary"),
    "date64[ms]": "date",
    "null": "void",
}
"""The types that Iceberg has for those of Arrow which are no parts, by Arrow's names."""


def schema_of_arrow(schema: pa.Schema) -> Schema:
    """The columns of an Arrow schema as Iceberg can have them; raises SchemaError where it cannot.

    A whole number takes the narrowest type that holds all its values; no value is ever cut. Nanoseconds
    become microseconds: a value that is none is refused when it is written.
    """
    return Schema(tuple(_column(field, "") for field in schema))


def _column(field: Any, path: str) -> Column:
    comment = (field.metadata or {}).get(b"doc")
    kind = _our_type(field.type, f"{path}{field.name}")
    return Column(field.name, kind, field.nullable, comment.decode() if comment else None)


def _our_type(kind: Any, path: str) -> Type:
    types: Any = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return _our_type(kind.storage_type, path)
    if types.is_dictionary(kind):
        return _our_type(kind.value_type, path)
    if types.is_decimal(kind):
        return _decimal(kind, path)
    if types.is_struct(kind):
        return Struct(tuple(_column(kind.field(index), f"{path}.") for index in range(kind.num_fields)))
    if types.is_map(kind):
        key, item = _our_type(kind.key_type, f"{path}.key"), _our_type(kind.item_type, f"{path}.value")
        return Map(key, item, kind.item_field.nullable)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return Array(_our_type(kind.value_type, f"{path}.element"), kind.value_field.nullable)
    return _primitive(kind, path)


def _decimal(kind: Any, path: str) -> Decimal:
    if kind.precision > 38 or kind.scale < 0:
        raise SchemaError(f"column '{path}' is {kind}: Iceberg's decimals have at most 38 digits")
    return Decimal(kind.precision, kind.scale)


def _primitive(kind: Any, path: str) -> Type:
    types: Any = pa.types
    if types.is_fixed_size_binary(kind):
        return Primitive("binary")
    if kind == pa.uint64():
        return Decimal(20, 0)
    if types.is_timestamp(kind):
        return Primitive("timestamp" if kind.tz else "timestamp_ntz")
    if str(kind) not in _TAKEN:
        raise SchemaError(f"column '{path}' is {kind}: Iceberg has no such type that Spark writes")
    return Primitive(_TAKEN[str(kind)])


def has_map(kind: Type) -> bool:
    """Whether a map is somewhere in `kind`."""
    if isinstance(kind, Struct):
        return any(has_map(column.type) for column in kind.columns)
    return isinstance(kind, Map) or (isinstance(kind, Array) and has_map(kind.element))


def is_primitive(kind: Type, *names: str) -> bool:
    """Whether `kind` is one of the named types without parts."""
    return isinstance(kind, Primitive) and kind.name in names
