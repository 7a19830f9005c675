"""Changes of a schema as values: what they do, what they are called, and their SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from calve.schema.types import Array, Column, Map, Schema, SchemaError, Struct, Type, quoted_name

Path: TypeAlias = tuple[str, ...]
"""The names on the way to a column; inside lists `element`, inside maps `key` and `value`."""

Columns: TypeAlias = tuple[Column, ...]


@dataclass(frozen=True)
class AddColumn:
    """A column that is new, behind those that are there."""

    parent: Path
    column: Column

    @property
    def path(self) -> Path:
        return (*self.parent, self.column.name)

    def sides(self) -> tuple[str | None, str | None]:
        return None, shown(self.column)

    def applied(self, siblings: Columns) -> Columns:
        if any(one.name == self.column.name for one in siblings):
            raise SchemaError(f"Cannot add column '{named(self.path)}': it is there already")
        return (*siblings, self.column)

    def sql(self) -> str:
        words = f"ADD COLUMN {_sql(self.path)} {self.column.type.ddl()}"
        comment = replace(self.column, name="c", nullable=True).ddl().partition(" COMMENT ")
        return words + comment[1] + comment[2]

    def __str__(self) -> str:
        return f"column '{named(self.path)}' is added as {shown(self.column)}"


@dataclass(frozen=True)
class DropColumn:
    """A column that is gone."""

    path: Path
    column: Column

    def sides(self) -> tuple[str | None, str | None]:
        return shown(self.column), None

    def applied(self, siblings: Columns) -> Columns:
        return tuple(one for one in siblings if one.name != self.path[-1])

    def sql(self) -> str:
        return f"DROP COLUMN {_sql(self.path)}"

    def __str__(self) -> str:
        return f"column '{named(self.path)}', which is {shown(self.column)}, is dropped"


@dataclass(frozen=True)
class RenameColumn:
    """A column with another name; `path` has the old one."""

    path: Path
    name: str

    def sides(self) -> tuple[str | None, str | None]:
        return self.path[-1], self.name

    def applied(self, siblings: Columns) -> Columns:
        if any(one.name == self.name for one in siblings):
            raise SchemaError(f"Cannot rename column '{named(self.path)}': '{self.name}' is there already")
        return _replaced(siblings, self.path, lambda column: replace(column, name=self.name))

    def sql(self) -> str:
        return f"RENAME COLUMN {_sql(self.path)} TO {quoted_name(self.name)}"

    def __str__(self) -> str:
        return f"column '{named(self.path)}' is renamed to '{self.name}'"


@dataclass(frozen=True)
class UpdateType:
    """A column of another type."""

    path: Path
    before: Type
    after: Type

    def sides(self) -> tuple[str | None, str | None]:
        return self.before.ddl(), self.after.ddl()

    def applied(self, siblings: Columns) -> Columns:
        return _replaced(siblings, self.path, lambda column: replace(column, type=self.after))

    def sql(self) -> str:
        return f"ALTER COLUMN {_sql(self.path)} TYPE {self.after.ddl()}"

    def __str__(self) -> str:
        return f"column '{named(self.path)}' becomes {self.after.ddl()}, which was {self.before.ddl()}"


@dataclass(frozen=True)
class MakeOptional:
    """A column that may be NULL from now on."""

    path: Path

    def sides(self) -> tuple[str | None, str | None]:
        return "NOT NULL", "nullable"

    def applied(self, siblings: Columns) -> Columns:
        return _replaced(siblings, self.path, lambda column: replace(column, nullable=True))

    def sql(self) -> str:
        return f"ALTER COLUMN {_sql(self.path)} DROP NOT NULL"

    def __str__(self) -> str:
        return f"column '{named(self.path)}' may be NULL"


@dataclass(frozen=True)
class MoveColumn:
    """A column at another place: behind the one called `after`, or first; `before` is what it followed."""

    path: Path
    after: str | None
    before: str | None = None

    def sides(self) -> tuple[str | None, str | None]:
        return _place(self.before), _place(self.after)

    def applied(self, siblings: Columns) -> Columns:
        moved = [one for one in siblings if one.name == self.path[-1]]
        rest = [one for one in siblings if one.name != self.path[-1]]
        names = [one.name for one in rest]
        if not moved or (self.after is not None and self.after not in names):
            raise SchemaError(f"Cannot move column '{named(self.path)}': it or its neighbour is not there")
        at = 0 if self.after is None else names.index(self.after) + 1
        return (*rest[:at], *moved, *rest[at:])

    def sql(self) -> str:
        where = "FIRST" if self.after is None else f"AFTER {quoted_name(self.after)}"
        return f"ALTER COLUMN {_sql(self.path)} {where}"

    def __str__(self) -> str:
        return f"column '{named(self.path)}' is moved {_place(self.after)}"


Change: TypeAlias = AddColumn | DropColumn | RenameColumn | UpdateType | MakeOptional | MoveColumn

_EVENTS = {
    AddColumn: "add_column",
    DropColumn: "drop_column",
    RenameColumn: "rename_column",
    UpdateType: "update_type",
    MakeOptional: "make_optional",
    MoveColumn: "move_column",
}


def event(change: Change) -> dict[str, Any]:
    """What happened, as logs and summaries keep it."""
    before, after = change.sides()
    return {"change": _EVENTS[type(change)], "column": named(change.path), "before": before, "after": after}


def apply(schema: Schema, changes: Iterable[Change]) -> Schema:
    """`schema` with `changes` made one behind the other; raises SchemaError where one cannot be."""
    whole: Type = Struct(schema.columns)
    for change in changes:
        whole = _edited(whole, change.path[:-1], change.applied, change.path)
    assert isinstance(whole, Struct)
    return Schema(whole.columns)


def to_sql(changes: Sequence[Change], table: str) -> list[str]:
    """The statements of Spark's SQL that make `changes` in `table`, a name as SQL writes it."""
    return [f"ALTER TABLE {table} {change.sql()}" for change in changes]


def parts(type_: Type) -> Columns:
    """What is inside a type, as columns."""
    if isinstance(type_, Struct):
        return type_.columns
    if isinstance(type_, Array):
        return (Column("element", type_.element, type_.element_nullable),)
    if isinstance(type_, Map):
        return Column("key", type_.key, False), Column("value", type_.value, type_.value_nullable)
    return ()


def with_parts(type_: Type, inside: Columns) -> Type:
    """The same kind of type with other things inside."""
    if isinstance(type_, Struct):
        return Struct(inside)
    if isinstance(type_, Array):
        return Array(inside[0].type, inside[0].nullable)
    if isinstance(type_, Map):
        return Map(inside[0].type, inside[1].type, inside[1].nullable)
    return type_


def named(path: Path) -> str:
    """A path in words."""
    return ".".join(path)


def shown(column: Column) -> str:
    """The type of a column in words."""
    return column.type.ddl() + ("" if column.nullable else " NOT NULL")


def _place(after: str | None) -> str:
    return "to the front" if after is None else f"behind '{after}'"


def _sql(path: Path) -> str:
    return ".".join(map(quoted_name, path))


def _edited(type_: Type, parent: Path, edit: Callable[[Columns], Columns], whole: Path) -> Type:
    if not parent:
        return with_parts(type_, edit(parts(type_)))
    return with_parts(
        type_,
        _replaced(
            parts(type_),
            parent[:1],
            lambda column: replace(column, type=_edited(column.type, parent[1:], edit, whole)),
            whole,
        ),
    )


def _replaced(
    siblings: Columns, path: Path, edit: Callable[[Column], Column], whole: Path | None = None
) -> Columns:
    if all(one.name != path[-1] for one in siblings):
        raise SchemaError(f"Cannot change column '{named(whole or path)}': it is not there")
    return tuple(edit(one) if one.name == path[-1] else one for one in siblings)
