"""Rows with the columns that a table has: what is missing inside is NULL, what cannot be lands elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from calve.iceberg.name import quoted
from calve.schema import (
    Array,
    MakeOptional,
    Map,
    Policy,
    Schema,
    Struct,
    Type,
    changes,
    landing,
    parts,
    storable,
    with_parts,
)
from calve.schema import Column as Named

if TYPE_CHECKING:
    from pyspark.sql import Column


def placed(rows: Schema, table: Schema, policy: Policy) -> dict[str, Column]:
    """The columns that rows with `rows` become in `table`, by name; those that it has not got as they are."""
    from pyspark.sql import functions as f

    found = {}
    # What holds nothing but NULL is no column of the table.
    known = {column.name: column for column in storable(rows).columns}
    for column in rows.columns:
        if column.name not in known:
            continue
        target = landing(table.columns, known[column.name], policy)
        there = {one.name: one for one in table.columns}.get(target.name)
        value = f.col(quoted(column.name))
        found[target.name] = (
            value if there is None else _shaped(value, column, there, policy).alias(target.name)
        )
    return found


def called(kind: Type, path: tuple[str, ...], name_of: Callable[[tuple[str, ...]], str]) -> Type:
    """The type `kind` of the column at `path`, with the names that `name_of` has for what is inside."""
    inside = []
    for one in parts(kind):
        below = (*path, one.name)
        name = name_of(below) if isinstance(kind, Struct) else one.name
        inside.append(replace(one, name=name, type=called(one.type, below, name_of)))
    return with_parts(kind, tuple(inside))


def is_placed(rows: Schema, table: Schema) -> bool:
    """Whether rows fit as they are: none of their columns has to be looked into."""
    there = {column.name: column for column in table.columns}
    return all(one.name in there and _is_same(one.type, there[one.name].type) for one in rows.columns)


def _is_same(rows: Type, table: Type) -> bool:
    """Whether both have the same parts in the same order; what may be NULL counts for nothing."""
    found = changes(Schema((Named("c", table),)), Schema((Named("c", rows),)))
    return all(isinstance(change, MakeOptional) for change in found)


def _shaped(value: Column, rows: Named, table: Named, policy: Policy) -> Column:
    from pyspark.sql import functions as f

    if _is_same(rows.type, table.type):
        return value
    if table.type.ddl() == "VARIANT":
        nested = isinstance(rows.type, (Struct, Array, Map))
        return f.to_variant_object(value) if nested else value.cast("variant")
    if isinstance(rows.type, Struct) and isinstance(table.type, Struct):
        made = f.struct(*_fields(value, rows.type, table.type, policy))
        return f.when(value.isNotNull(), made) if rows.nullable else made
    if isinstance(rows.type, Array) and isinstance(table.type, Array):
        inner, outer = _element(rows.type), _element(table.type)
        return f.transform(value, lambda one: _shaped(one, inner, outer, policy))
    if isinstance(rows.type, Map) and isinstance(table.type, Map):
        inner, outer = _value(rows.type), _value(table.type)
        return f.transform_values(value, lambda _, one: _shaped(one, inner, outer, policy))
    return value.cast(table.type.ddl())


def _fields(value: Column, rows: Struct, table: Struct, policy: Policy) -> list[Column]:
    from pyspark.sql import functions as f

    found = []
    for there in table.columns:
        landed = [one for one in rows.columns if _target(table, one, policy) == there.name]
        if landed:
            inner = _shaped(value.getField(landed[0].name), landed[0], there, policy)
        else:
            inner = f.lit(None).cast(there.type.ddl())
        found.append(inner.alias(there.name))
    return found


def _target(table: Struct, column: Named, policy: Policy) -> str:
    return landing(table.columns, column, policy, ("",)).name


def _element(kind: Array) -> Named:
    return Named("element", kind.element, kind.element_nullable)


def _value(kind: Map) -> Named:
    return Named("value", kind.value, kind.value_nullable)
