"""The columns that a source declares: DDL text that becomes a schema. Pure, and without Arrow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import PlainSerializer, PlainValidator

from calve.schema import Array, Map, Primitive, Schema, Struct, Type, parse

DECODABLE = frozenset(
    [
        "boolean",
        "tinyint",
        "smallint",
        "int",
        "bigint",
        "float",
        "double",
        "string",
        "binary",
        "date",
        "timestamp",
        "timestamp_ntz",
    ]
)
"""The types without parts that decoders make."""


def _declared(value: Any) -> Schema:
    if isinstance(value, Schema):
        return value
    if not isinstance(value, str):
        raise ValueError('not a schema; write columns and types, such as "id BIGINT NOT NULL, name STRING"')
    schema = parse(value)
    for line in undecodable(schema):
        raise ValueError(line)
    return schema


def undecodable(schema: Schema) -> Iterator[str]:
    """A line for each column that no decoder makes."""
    for column in schema.columns:
        for kind in _undecodable(column.type):
            yield f"column '{column.name}': a {kind.ddl()} cannot be read from records"


def _undecodable(kind: Type) -> Iterator[Type]:
    if isinstance(kind, Primitive) and kind.name not in DECODABLE:
        yield kind
    elif isinstance(kind, Array):
        yield from _undecodable(kind.element)
    elif isinstance(kind, Struct):
        for column in kind.columns:
            yield from _undecodable(column.type)
    elif isinstance(kind, Map):
        if isinstance(kind.key, (Array, Map, Struct)):
            yield kind
        yield from _undecodable(kind.key)
        yield from _undecodable(kind.value)


Declared = Annotated[
    Schema,
    PlainValidator(_declared, json_schema_input_type=str),
    PlainSerializer(lambda schema: schema.ddl(), return_type=str),
]
"""Columns and their types as DDL."""
