"""Which changes of a table a policy allows, and where the columns of rows land in it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from calve.schema.changes import (
    AddColumn,
    Change,
    Columns,
    DropColumn,
    MakeOptional,
    Path,
    RenameColumn,
    UpdateType,
    apply,
    named,
    parts,
    shown,
    with_parts,
)
from calve.schema.comparison import differences, stored, unsupported
from calve.schema.difference import changes, with_aliases
from calve.schema.types import Array, Column, Decimal, Map, Primitive, Schema, Struct, Type

_PROMOTIONS = {("int", "bigint"), ("float", "double")}
VARIANT = Primitive("variant")
VOID = Primitive("void")


@dataclass(frozen=True)
class Policy:
    """What may happen to a table when rows come with other columns."""

    mode: Literal["strict", "add_columns", "full"] = "add_columns"
    type_change: Literal["new_column", "variant", "refuse"] = "new_column"
    renames: Mapping[str, str] = field(default_factory=dict)
    keys: Collection[str] = ()
    """Columns that tell rows apart: none of them may be NULL, go, or be called differently."""
    used: Collection[str] = ()
    """Columns that partitions or orders are made of: none of them may go."""
    is_said: bool = True
    """Whether the source itself says what the columns are; a batch alone may lack some by chance."""
    format_version: int = 2

    def redirects(self) -> bool:
        """Whether values of a type that a column cannot have go to another column."""
        return self.mode == "full" and self.type_change != "refuse"


@dataclass(frozen=True)
class Evolution:
    """What is to be done to a table before rows are written, and why they cannot be."""

    changes: tuple[Change, ...] = ()
    refusals: tuple[str, ...] = ()


def evolution(table: Schema, rows: Schema, policy: Policy) -> Evolution:
    """What `policy` does to a table with the columns `table` when rows come with the columns `rows`."""
    rows = storable(rows)
    if policy.mode == "strict":
        return Evolution(refusals=(*differences(rows, table), *_only_in(table, rows)))
    renames = with_aliases(table, rows, policy.renames) if policy.mode == "full" else {}
    renamed = [one for one in changes(table, rows, renames) if isinstance(one, RenameColumn)]
    between = apply(table, renamed)
    landed, redirected = _landed((), Struct(between.columns), Struct(rows.columns), policy)
    assert isinstance(landed, Struct)
    judge = _Judge(between, policy, redirected)
    made: list[Change] = []
    refused = [*_twins((), landed), *_renamed(table, rows, policy)]
    for change in [*renamed, *changes(between, Schema(landed.columns))]:
        verdict = judge(change)
        refused += [verdict] if isinstance(verdict, str) else []
        made += [] if verdict is None or isinstance(verdict, str) else [verdict]
    return Evolution(() if refused else tuple(made), tuple(refused))


def _renamed(table: Schema, rows: Schema, policy: Policy) -> Iterator[str]:
    """A line for each column that the source calls differently now, where the policy renames none.

    To add a column of the new name would leave it NULL in all rows that are there.
    """
    if policy.mode != "add_columns" or not policy.is_said:
        return
    for old, new in with_aliases(table, rows, {}).items():
        yield (
            f"column '{old}' is called '{new}' in the source now; 'schema_evolution: full' renames it, and "
            "a column of that name which you add to the table takes what comes from now on"
        )


def _only_in(table: Schema, rows: Schema) -> Iterator[str]:
    """A line for each column that may be NULL and that the rows have not got."""
    for change in changes(table, rows):
        if isinstance(change, DropColumn) and change.column.nullable:
            yield _missing(change)


def _missing(change: DropColumn) -> str:
    return f"column '{named(change.path)}' is missing in the rows and {shown(change.column)} in the table"


def is_compatible(table: Schema, rows: Schema, policy: Policy | None = None) -> bool:
    """Whether `policy` lets rows with the columns `rows` into a table with the columns `table`."""
    return not evolution(table, rows, policy or Policy()).refusals


def is_promotable(before: Type, after: Type) -> bool:
    """Whether Iceberg reads values of `before` as values of `after`."""
    before, after = stored(before), stored(after)
    if isinstance(before, Decimal) and isinstance(after, Decimal):
        return before.scale == after.scale and before.precision <= after.precision
    if isinstance(before, Primitive) and isinstance(after, Primitive):
        return before == after or (before.name, after.name) in _PROMOTIONS
    return False


def landing(table: Columns, column: Column, policy: Policy, path: Path = ()) -> Column:
    """`column` of rows as the table has it: where its type cannot be, under another name."""
    there = {one.name: one for one in table}.get(column.name)
    if there is None or not policy.redirects() or _is_readable(there.type, column.type):
        return column
    if not path and column.name in (*policy.keys, *policy.used):
        return column
    type_ = VARIANT if policy.type_change == "variant" else column.type
    return replace(column, name=f"{column.name}_{_word(type_)}", type=type_, nullable=True)


def storable(rows: Schema) -> Schema:
    """`rows` without what only ever is NULL, which no table can hold."""
    whole = _storable(Struct(rows.columns))
    return Schema(whole.columns if isinstance(whole, Struct) else ())


def _storable(type_: Type) -> Type | None:
    if type_ == VOID:
        return None
    inside = parts(type_)
    if not inside and not isinstance(type_, Struct):
        return type_
    kept = tuple(replace(one, type=kind) for one in inside if (kind := _storable(one.type)) is not None)
    if not kept or (len(kept) < len(inside) and not isinstance(type_, Struct)):
        return None
    return with_parts(type_, kept)


def _is_readable(there: Type, now: Type) -> bool:
    """Whether a column of the type `there` can take values of the type `now`, perhaps promoted."""
    if isinstance(there, Struct) and isinstance(now, Struct):
        return True
    if isinstance(there, Array) and isinstance(now, Array):
        return _is_readable(there.element, now.element)
    if isinstance(there, Map) and isinstance(now, Map):
        return _is_same(there.key, now.key) and _is_readable(there.value, now.value)
    return now == VOID or is_promotable(there, now) or is_promotable(now, there)


def _is_same(one: Type, other: Type) -> bool:
    return not differences(Schema((Column("key", one),)), Schema((Column("key", other),)))


def _word(type_: Type) -> str:
    words = {Struct: "struct", Array: "array", Map: "map"}
    return words.get(type(type_)) or re.sub(r"\W+", "_", stored(type_).ddl().lower()).strip("_")


def _landed(path: Path, table: Type, rows: Type, policy: Policy) -> tuple[Type, set[Path]]:
    """`rows` as the table has them, and the paths of the columns whose values go elsewhere."""
    there = {one.name: one for one in parts(table)}
    inside, redirected = [], set()
    for column in parts(rows):
        one = landing(parts(table), column, policy, path) if isinstance(rows, Struct) else column
        if one.name != column.name:
            redirected.add((*path, column.name))
        if one.name in there and type(there[one.name].type) is type(one.type):
            kind, deeper = _landed((*path, one.name), there[one.name].type, one.type, policy)
            one, redirected = replace(one, type=kind), redirected | deeper
        inside.append(one)
    return with_parts(rows, tuple(inside)), redirected


def _twins(path: Path, kind: Type) -> Iterator[str]:
    """Columns that would come twice: so called by the rows, or landed where the rows have one already."""
    seen = set()
    for column in parts(kind):
        if column.name.lower() in seen:
            name = named((*path, column.name))
            yield f"column '{name}' would come twice, or with names that differ by case only"
        seen.add(column.name.lower())
        yield from _twins((*path, column.name), column.type)


@dataclass(frozen=True)
class _Judge:
    """What becomes of one change: it is made, perhaps as another one, passed over (None) or refused."""

    table: Schema
    policy: Policy
    redirected: Collection[Path]

    def __call__(self, change: Change) -> Change | str | None:
        if isinstance(change, AddColumn):
            return self.added(change)
        if isinstance(change, DropColumn):
            return self.dropped(change)
        if isinstance(change, UpdateType):
            return self.updated(change)
        if isinstance(change, MakeOptional):
            return self.relaxed(change)
        if isinstance(change, RenameColumn):
            return self.renamed(change)
        return change if self.policy.mode == "full" and self.policy.is_said else None

    def added(self, change: AddColumn) -> Change | str:
        for line in unsupported(Schema((change.column,)), self.policy.format_version):
            return line
        twins = [one for one in self.siblings(change.path) if one.lower() == change.column.name.lower()]
        if twins:
            return f"column '{named(change.path)}' differs from the table's '{twins[0]}' by case only"
        if self.is_in_key(change.path):
            return f"column '{named(change.path)}' is new inside a key of a map, which cannot change"
        return replace(change, column=replace(change.column, nullable=True))

    def dropped(self, change: DropColumn) -> Change | str | None:
        name, column = named(change.path), change.column
        if change.path in self.redirected:
            return None if column.nullable else MakeOptional(change.path)
        if self.policy.mode == "full" and self.policy.is_said:
            if self.is_needed(change.path):
                return f"column '{name}' is missing in the rows, and the declaration of the sink needs it"
            return change
        if column.nullable:
            return None
        return _missing(change)

    def updated(self, change: UpdateType) -> Change | str | None:
        if is_promotable(change.after, change.before):
            return None
        if is_promotable(change.before, change.after) and not self.is_in_key(change.path):
            return change
        sides = f"is {change.after.ddl()} in the rows and {change.before.ddl()} in the table"
        return f"column '{named(change.path)}' {sides}, which Iceberg cannot turn into it"

    def relaxed(self, change: MakeOptional) -> Change | str:
        name = named(change.path)
        if change.path[0] in self.policy.keys:
            return f"column '{name}' may be NULL in the rows and tells the rows of the table apart"
        if self.policy.is_said:
            return change
        return f"column '{name}' may be NULL in the rows, as far as is known, and is NOT NULL in the table"

    def renamed(self, change: RenameColumn) -> Change | str:
        if {change.path[0], change.name if len(change.path) == 1 else ""} & set(self.policy.keys):
            return f"column '{named(change.path)}' tells the rows of the table apart and cannot be renamed"
        return change

    def is_needed(self, path: Path) -> bool:
        return path[0] in (*self.policy.keys, *self.policy.used)

    def siblings(self, path: Path) -> list[str]:
        """The names beside the last one of `path` that the table has."""
        way = list(_way(self.table, path))
        return [one.name for one in parts(way[-1][0])] if len(way) == len(path) else []

    def is_in_key(self, path: Path) -> bool:
        return any(isinstance(kind, Map) and part == "key" for kind, part in _way(self.table, path))


def _way(schema: Schema, path: Path) -> Iterator[tuple[Type, str]]:
    """The types on the way along `path`, and which of their parts is next."""
    kind: Type = Struct(schema.columns)
    for part in path:
        yield kind, part
        inside = {one.name: one.type for one in parts(kind)}
        if part not in inside:
            return
        kind = inside[part]
