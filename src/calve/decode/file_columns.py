"""Files that say which columns they have: what several of them have together, and their rows as changes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from calve.decode.changes import Records, RowChanges
from calve.decode.reading import Split
from calve.errors import BadRecord
from calve.schema import Array, Column, Map, Primitive, Schema, Struct, Type, is_promotable

_VOID = Primitive("void")


class _Apart(Exception):
    """Two types that no column has both of: the path, and each of them."""


def united(files: Iterable[tuple[str, Schema]]) -> Schema:
    """The columns that any of the files has, in the widest type of them; raises BadRecord.

    Types are widened as a table's are by `schema_evolution: add_columns`.
    """
    whole: Struct = Struct(())
    for path, columns in files:
        try:
            whole = _united_structs(whole, Struct(columns.columns), "")
        except _Apart as error:
            name, before, now = error.args
            why = f"column '{name}' is {now.ddl()}, and {before.ddl()} in another file of the batch"
            raise BadRecord(f"file '{path}'", f"{why}; declare 'schema'") from None
    return Schema(whole.columns)


def _united_structs(one: Struct, other: Struct, path: str) -> Struct:
    columns = {column.name: column for column in one.columns}
    for column in other.columns:
        known = columns.get(column.name)
        columns[column.name] = _united_columns(known, column, path) if known else column
    return Struct(tuple(columns.values()))


def _united_columns(one: Column, other: Column, path: str) -> Column:
    kind = _united(one.type, other.type, path + one.name)
    return replace(one, type=kind, nullable=one.nullable or other.nullable)


def _united(one: Type, other: Type, path: str) -> Type:
    if one == other or other == _VOID:
        return one
    if one == _VOID:
        return other
    if isinstance(one, Struct) and isinstance(other, Struct):
        return _united_structs(one, other, f"{path}.")
    if isinstance(one, Array) and isinstance(other, Array):
        element = _united(one.element, other.element, f"{path}.element")
        return Array(element, one.element_nullable or other.element_nullable)
    if isinstance(one, Map) and isinstance(other, Map) and one.key == other.key:
        value = _united(one.value, other.value, f"{path}.value")
        return Map(one.key, value, one.value_nullable or other.value_nullable)
    if is_promotable(one, other):
        return other
    if is_promotable(other, one):
        return one
    raise _Apart(path, one, other)


def refuse_other_letters(place: str, name: str, names: Sequence[str]) -> None:
    """Raise BadRecord where a file lacks a column, and has one whose name differs by case only."""
    for other in names:
        if other.lower() == name.lower() and other != name:
            raise BadRecord(place, f"it has no column '{name}', but one called '{other}'")


def numbered(rows: pa.RecordBatch, split: Split, at: int, changes: RowChanges) -> pa.RecordBatch:
    """Rows as changes, in the order of their file, from the row of the number `at` on; raises BadRecord."""
    lanes = pa.array(np.full(len(rows), split.number))
    ats = pa.array(np.arange(at, at + len(rows)))
    return changes.of(rows, Records(lanes, ats, lambda index: f"file '{split.path}'"))
