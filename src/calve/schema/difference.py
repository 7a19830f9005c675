"""What turns one schema into another, as changes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence

from calve.schema.changes import (
    AddColumn,
    Change,
    Columns,
    DropColumn,
    MakeOptional,
    MoveColumn,
    Path,
    RenameColumn,
    UpdateType,
    apply,
    named,
    parts,
)
from calve.schema.comparison import stored
from calve.schema.types import Array, Map, Schema, Struct, Type


def changes(old: Schema, new: Schema, renames: Mapping[str, str] | None = None) -> list[Change]:
    """What turns `old` into `new`, in an order in which it can be done.

    `renames` has paths of `old` with dots and the names that the columns have now. A column is found by its
    name; where `new` is NOT NULL and `old` is not, the column stays as it is.
    """
    renamed = _renames((), Struct(old.columns), Struct(new.columns), renames or {})
    between = apply(old, renamed)
    found = list(_inside((), Struct(between.columns), Struct(new.columns)))
    return [*renamed, *found]


def with_aliases(old: Schema, new: Schema, renames: Mapping[str, str]) -> dict[str, str]:
    """`renames`, and the others that the aliases of `new` tell; each column of `old` becomes one at most."""
    found = dict(renames)
    _take_aliases((), Struct(old.columns), Struct(new.columns), found)
    return found


def _take_aliases(path: Path, old: Type, new: Type, found: dict[str, str]) -> None:
    before, after = ({one.name: one for one in parts(kind)} for kind in (old, new))
    whole = {name: named((*path, name)) for name in before}
    taken = {*before, *(found[one] for one in whole.values() if one in found)}
    for column in after.values():
        free = (name for name in column.aliases if name in before and name not in after)
        name = next((one for one in free if whole[one] not in found), None)
        if name is not None and column.name not in taken:
            found[whole[name]] = column.name
    for name, column in before.items():
        now = after.get(name) or after.get(found.get(whole[name], name))
        if now is not None and _is_alike(column.type, now.type):
            _take_aliases((*path, name), column.type, now.type, found)


def _renames(path: Path, old: Type, new: Type, renames: Mapping[str, str]) -> list[Change]:
    """Those that `new` shows to have taken place, the inmost first: so all paths are those of before."""
    found: list[Change] = []
    before, after = ({one.name: one for one in parts(kind)} for kind in (old, new))
    for name, column in before.items():
        target = renames.get(named((*path, name)), name)
        is_renamed = isinstance(old, Struct) and name not in after and target not in before
        now = after.get(target if is_renamed else name)
        if now is None:
            continue
        if _is_alike(column.type, now.type):
            found += _renames((*path, name), column.type, now.type, renames)
        if is_renamed:
            found.append(RenameColumn((*path, name), target))
    return found


def _inside(path: Path, old: Type, new: Type) -> Iterator[Change]:
    before, after = ({one.name: one for one in parts(kind)} for kind in (old, new))
    for name, column in before.items():
        now = after.get(name)
        if now is None:
            yield DropColumn((*path, name), column)
            continue
        if now.nullable and not column.nullable:
            yield MakeOptional((*path, name))
        if _is_alike(column.type, now.type):
            yield from _inside((*path, name), column.type, now.type)
        elif stored(column.type) != stored(now.type):
            yield UpdateType((*path, name), column.type, now.type)
    yield from (AddColumn(path, column) for name, column in after.items() if name not in before)
    yield from _moves(path, parts(old), parts(new))


def _is_alike(old: Type, new: Type) -> bool:
    return any(isinstance(old, kind) and isinstance(new, kind) for kind in (Struct, Array, Map))


def _moves(path: Path, old: Columns, new: Columns) -> Iterator[Change]:
    """The fewest moves that give the order of `new`; what only `old` has keeps its place."""
    wanted = [one.name for one in new]
    kept = [one.name for one in old if one.name in wanted]
    now = kept + [name for name in wanted if name not in kept]
    staying = _longest_run([wanted.index(name) for name in now])
    for at, name in enumerate(wanted):
        if at not in staying:
            place = now.index(name)
            before = now[place - 1] if place else None
            yield MoveColumn((*path, name), wanted[at - 1] if at else None, before)


def _longest_run(numbers: Sequence[int]) -> Collection[int]:
    """The most of `numbers` that stand in rising order."""
    ends: list[int] = []
    runs: list[list[int]] = []
    for number in numbers:
        at = bisect_left(ends, number)
        run = [*(runs[at - 1] if at else []), number]
        ends[at : at + 1], runs[at : at + 1] = [number], [run]
    return set(runs[-1]) if runs else set()
