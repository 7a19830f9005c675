"""Changes of a table's columns that a program asks for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from calve import schema as schemas
from calve.errors import CalveError, UsageError
from calve.iceberg import evolve
from calve.iceberg.evolve import Steps
from calve.iceberg.table import Metadata, Table
from calve.patience import Patience
from calve.schema import (
    AddColumn,
    Change,
    DropColumn,
    MakeOptional,
    RenameColumn,
    Schema,
    SchemaError,
    UpdateType,
)
from calve.schema.evolution import is_promotable
from calve.sink import refusals

Decide = Callable[[Schema], Sequence[Change]]
"""What is to be done to a table that has these columns; asked anew for each base that is tried."""


def towards(wanted: Schema) -> Decide:
    """Make the columns those of `wanted`."""
    return lambda now: schemas.changes(now, wanted)


def making(changes: Sequence[Change]) -> Decide:
    """Make `changes`; those that an attempt has left behind are not made again."""
    tried: list[Schema] = []

    def decide(now: Schema) -> Sequence[Change]:
        tried.append(now)
        return [one for one in changes if len(tried) == 1 or not is_made(now, one)]

    return decide


def is_made(now: Schema, change: Change) -> bool:
    """Whether columns `now` look as they do behind `change`."""
    if isinstance(change, AddColumn):
        return _has(now, change.path)
    if isinstance(change, RenameColumn):
        return _has(now, (*change.path[:-1], change.name)) and not _has(now, change.path)
    try:
        return schemas.apply(now, [change]) == now
    except SchemaError:
        return False


def _has(columns: Schema, path: tuple[str, ...]) -> bool:
    inside = columns.columns
    for name in path:
        found = [one for one in inside if one.name == name]
        if not found:
            return False
        inside = schemas.parts(found[0].type)
    return True


def checked(
    table: str, now: Schema, changes: Sequence[Change], keys: Collection[str] = ()
) -> Sequence[Change]:
    """`changes`, if a table with the columns `now` and the identifier fields `keys` can have them.

    Raises UsageError.
    """
    what = f"Cannot change table '{table}'"
    try:
        after = schemas.apply(now, changes)
    except SchemaError as error:
        raise UsageError(f"{what}: {error}") from None
    for change in changes:
        if isinstance(change, UpdateType) and not is_promotable(change.before, change.after):
            raise UsageError(f"{what}: {change}; Iceberg does not read values of the one as the other")
        if isinstance(change, AddColumn) and not change.column.nullable:
            raise UsageError(f"{what}: {change}; the rows that are there have no value for it")
        if isinstance(change, (DropColumn, MakeOptional)) and change.path[0] in keys:
            raise UsageError(f"{what}: {change}; it is one of the table's identifier fields")
    if not after.columns:
        raise UsageError(f"{what}: no column would be left")
    return changes


def evolved(table: Table, decide: Decide, patience: Patience) -> Schema:
    """Change `table` until it shows that nothing is left to be done; its columns then."""

    def steps(base: Metadata) -> Steps:
        now = base.schema()
        return Steps(tuple(checked(str(table.name), now, decide(now), base.identifier_fields())))

    while True:
        try:
            evolve.attempt(table, steps)
            failure: CalveError = refusals.not_shown(table.name)
        except CalveError as error:
            failure = error
        base = patience.keep_trying(table.refresh)
        if not steps(base):
            return base.schema()
        patience.wait(failure)
