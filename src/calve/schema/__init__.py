"""Schemas: their DDL, Spark's JSON of them, how two of them differ, and what may be done about it. Pure."""

from calve.schema.changes import (
    AddColumn,
    Change,
    DropColumn,
    MakeOptional,
    MoveColumn,
    RenameColumn,
    UpdateType,
    apply,
    event,
    named,
    parts,
    to_sql,
)
from calve.schema.comparison import differences, unsupported
from calve.schema.ddl import parse
from calve.schema.difference import changes, with_aliases
from calve.schema.evolution import Evolution, Policy, evolution, is_compatible, landing, storable
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
    "AddColumn",
    "Array",
    "Change",
    "Column",
    "Decimal",
    "DropColumn",
    "Evolution",
    "MakeOptional",
    "Map",
    "MoveColumn",
    "Policy",
    "Primitive",
    "RenameColumn",
    "Schema",
    "SchemaError",
    "Struct",
    "Type",
    "UpdateType",
    "apply",
    "changes",
    "differences",
    "event",
    "evolution",
    "from_spark_json",
    "is_compatible",
    "landing",
    "named",
    "parse",
    "parts",
    "storable",
    "to_sql",
    "unsupported",
    "with_aliases",
]
