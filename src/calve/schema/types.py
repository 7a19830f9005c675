"""The types of columns, as DDL and as Spark's JSON."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias


class SchemaError(ValueError):
    """A schema that cannot be read."""


@dataclass(frozen=True)
class Primitive:
    """A type without parts, by Spark's lower-case name; a length or precision is part of the name."""

    name: str

    def ddl(self) -> str:
        return self.name.upper()


@dataclass(frozen=True)
class Decimal:
    """A decimal number of `precision` digits, `scale` of them behind the point."""

    precision: int = 10
    scale: int = 0

    def ddl(self) -> str:
        return f"DECIMAL({self.precision},{self.scale})"


@dataclass(frozen=True)
class Array:
    """A list of elements. DDL cannot say that elements are not null."""

    element: Type
    element_nullable: bool = True

    def ddl(self) -> str:
        return f"ARRAY<{self.element.ddl()}>"


@dataclass(frozen=True)
class Map:
    """Keys with values. DDL cannot say that values are not null."""

    key: Type
    value: Type
    value_nullable: bool = True

    def ddl(self) -> str:
        return f"MAP<{self.key.ddl()}, {self.value.ddl()}>"


@dataclass(frozen=True)
class Struct:
    """Columns inside a column."""

    columns: tuple[Column, ...]

    def ddl(self) -> str:
        return f"STRUCT<{', '.join(column.ddl(colon=':') for column in self.columns)}>"


Type: TypeAlias = Primitive | Decimal | Array | Map | Struct


@dataclass(frozen=True)
class Column:
    """A named value of a row or struct."""

    name: str
    type: Type
    nullable: bool = True
    comment: str | None = None
    aliases: tuple[str, ...] = field(default=(), compare=False)
    """What it was called before, where the source tells; it is the same column without them."""

    def ddl(self, colon: str = "") -> str:
        words = [f"{quoted_name(self.name)}{colon}", self.type.ddl()]
        words += [] if self.nullable else ["NOT NULL"]
        words += [] if self.comment is None else ["COMMENT", _quoted_text(self.comment)]
        return " ".join(words)


@dataclass(frozen=True)
class Schema:
    """The columns of a table or of the rows of a source."""

    columns: tuple[Column, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def column(self, name: str) -> Column | None:
        """The column called `name`, or, where `name` has dots, the one inside structs that it leads to."""
        return _find(self.columns, name)

    def ddl(self) -> str:
        """The text that reads back as this schema, here and in Spark."""
        return ", ".join(column.ddl() for column in self.columns)

    def to_spark_json(self) -> dict[str, Any]:
        """What Spark's `StructType.jsonValue()` gives for this schema."""
        return _struct_json(self.columns)


def _find(columns: tuple[Column, ...], name: str) -> Column | None:
    exact = next((column for column in columns if column.name == name), None)
    if exact is not None:
        return exact
    for column in columns:
        if isinstance(column.type, Struct) and name.startswith(f"{column.name}."):
            return _find(column.type.columns, name[len(column.name) + 1 :])
    return None


_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ESCAPES = {
    "\\": "\\\\",
    "'": "\\'",
    "\0": "\\0",
    "\b": "\\b",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\x1a": "\\Z",
}


def quoted_name(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else f"`{name.replace('`', '``')}`"


def _quoted_text(text: str) -> str:
    return f"'{''.join(_ESCAPES.get(character, character) for character in text)}'"


_SPARK_NAMES = {"tinyint": "byte", "smallint": "short", "int": "integer", "bigint": "long"}
_OUR_NAMES = {spark: ours for ours, spark in _SPARK_NAMES.items()}


def _struct_json(columns: Iterable[Column]) -> dict[str, Any]:
    return {"type": "struct", "fields": [_column_json(column) for column in columns]}


def _column_json(column: Column) -> dict[str, Any]:
    metadata = {} if column.comment is None else {"comment": column.comment}
    type_ = _type_json(column.type)
    return {"name": column.name, "type": type_, "nullable": column.nullable, "metadata": metadata}


def _type_json(type_: Type) -> str | dict[str, Any]:
    if isinstance(type_, Primitive):
        return _SPARK_NAMES.get(type_.name, type_.name)
    if isinstance(type_, Decimal):
        return f"decimal({type_.precision},{type_.scale})"
    if isinstance(type_, Array):
        element = _type_json(type_.element)
        return {"type": "array", "elementType": element, "containsNull": type_.element_nullable}
    if isinstance(type_, Struct):
        return _struct_json(type_.columns)
    key, value = _type_json(type_.key), _type_json(type_.value)
    return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": type_.value_nullable}


def from_spark_json(value: Mapping[str, Any]) -> Schema:
    """The schema that Spark's `StructType.jsonValue()` describes."""
    return Schema(_columns_from_json(value))


def _columns_from_json(value: Mapping[str, Any]) -> tuple[Column, ...]:
    return tuple(
        Column(
            field["name"], _type_from_json(field["type"]), field["nullable"], field["metadata"].get("comment")
        )
        for field in value["fields"]
    )


def _type_from_json(value: str | Mapping[str, Any]) -> Type:
    if isinstance(value, str):
        decimal = re.fullmatch(r"decimal\((\d+),\s*(\d+)\)", value)
        return (
            Decimal(int(decimal[1]), int(decimal[2])) if decimal else Primitive(_OUR_NAMES.get(value, value))
        )
    if value["type"] == "array":
        return Array(_type_from_json(value["elementType"]), value["containsNull"])
    if value["type"] == "map":
        key, item = _type_from_json(value["keyType"]), _type_from_json(value["valueType"])
        return Map(key, item, value["valueContainsNull"])
    if value["type"] == "struct":
        return Struct(_columns_from_json(value))
    raise SchemaError(f"Cannot read a schema of Spark: unknown type '{value['type']}'")
