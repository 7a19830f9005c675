"""How two schemas differ, and what a table cannot hold."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from calve.schema.types import Array, Column, Decimal, Map, Primitive, Schema, Struct, Type


def differences(declared: Schema, existing: Schema) -> list[str]:
    """A line for each column of `declared` that the table with `existing` does not have so, and the reverse.

    Columns that only the table has are no difference as long as they may be null.
    """
    return list(_column_differences("", declared.columns, existing.columns))


def _column_differences(path: str, declared: Iterable[Column], existing: Iterable[Column]) -> Iterator[str]:
    there = {column.name: column for column in existing}
    for column in declared:
        name = f"{path}{column.name}"
        other = there.pop(column.name, None)
        if other is None:
            yield f"column '{name}' is {_shown(column)} in the declaration and missing in the table"
        else:
            yield from _nullability(name, column.nullable, other.nullable)
            yield from _type_differences(name, column.type, other.type)
    for other in there.values():
        if not other.nullable:
            name = f"{path}{other.name}"
            yield f"column '{name}' is missing in the declaration and {_shown(other)} in the table"


def _shown(column: Column) -> str:
    return column.type.ddl() + ("" if column.nullable else " NOT NULL")


def _nullability(name: str, declared: bool, existing: bool) -> Iterator[str]:
    words = {True: "nullable", False: "NOT NULL"}
    if declared != existing:
        yield f"column '{name}' is {words[declared]} in the declaration and {words[existing]} in the table"


def _type_differences(name: str, declared: Type, existing: Type) -> Iterator[str]:
    if isinstance(declared, Struct) and isinstance(existing, Struct):
        yield from _column_differences(f"{name}.", declared.columns, existing.columns)
    elif isinstance(declared, Array) and isinstance(existing, Array):
        yield from _nullability(f"{name}.element", declared.element_nullable, existing.element_nullable)
        yield from _type_differences(f"{name}.element", declared.element, existing.element)
    elif isinstance(declared, Map) and isinstance(existing, Map):
        yield from _type_differences(f"{name}.key", declared.key, existing.key)
        yield from _nullability(f"{name}.value", declared.value_nullable, existing.value_nullable)
        yield from _type_differences(f"{name}.value", declared.value, existing.value)
    elif stored(declared) != stored(existing):
        yield f"column '{name}' is {declared.ddl()} in the declaration and {existing.ddl()} in the table"


def stored(type_: Type) -> Type:
    """The type that Iceberg keeps values of `type_` as."""
    if isinstance(type_, Primitive) and type_.name in ("tinyint", "smallint"):
        return Primitive("int")
    if isinstance(type_, Primitive) and type_.name.startswith(("char(", "varchar(")):
        return Primitive("string")
    return type_


def unsupported(schema: Schema, format_version: int = 2) -> list[str]:
    """A line for each column that an Iceberg table of `format_version` cannot hold, with the reason."""
    found = []
    for path, type_ in _parts("", schema.columns):
        reason = _reason(path, type_, format_version)
        if reason:
            found.append(f"column '{path}' is {type_.ddl()}: {reason}")
    return found


def _parts(path: str, columns: Iterable[Column]) -> Iterator[tuple[str, Type]]:
    for column in columns:
        yield from _inner(f"{path}{column.name}", column.type)


def _inner(path: str, type_: Type) -> Iterator[tuple[str, Type]]:
    yield path, type_
    if isinstance(type_, Struct):
        yield from _parts(f"{path}.", type_.columns)
    elif isinstance(type_, Array):
        yield from _inner(f"{path}.element", type_.element)
    elif isinstance(type_, Map):
        yield from _inner(f"{path}.key", type_.key)
        yield from _inner(f"{path}.value", type_.value)


def _reason(path: str, type_: Type, format_version: int) -> str | None:
    if not path or path.endswith("."):
        return "a column needs a name"
    if isinstance(type_, Struct) and not type_.columns:
        return "a struct without columns cannot be stored"
    if isinstance(type_, Decimal) and type_.precision == 0:
        return "the precision must be at least 1"
    if not isinstance(type_, Primitive):
        return None
    if type_.name == "variant" and format_version < 3:
        return "Iceberg holds it from format_version 3 on"
    reasons = {"interval": "Iceberg has no intervals", "time": "Spark cannot write it to Iceberg"}
    reasons["void"] = "a column of nulls only cannot be stored"
    return reasons.get(re.split(r"[ (]", type_.name)[0])
