"""Schemas: their DDL, Spark's JSON of them, and how two of them differ. Pure."""

from calve.schema.comparison import differences, unsupported
from calve.schema.ddl import parse
from calve.schema.types import (
    Array,
    Column,
    Decimal,
    Map,
    Primitive,
    Schema,
    SchemaError,
    Struct,
    Type,
    from_spark_json,
)

__all__ = [
    "Array",
    "Column",
    "Decimal",
    "Map",
    "Primitive",
    "Schema",
    "SchemaError",
    "Struct",
    "Type",
    "differences",
    "from_spark_json",
    "parse",
    "unsupported",
]
