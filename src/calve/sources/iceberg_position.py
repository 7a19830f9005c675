"""Positions in an Iceberg table: what follows one, and how much of that a batch takes. Pure.

`{"snapshot": 7}` stands behind all that snapshot 7 is or did, and null before the first one. A batch may end
inside a snapshot, behind one of its files in the order of their locations: with
`{"snapshot": 7, "behind": "…"}` these are the files that 7 has added, with `{"snapshot": 7, "state": true,
"behind": "…"}` all files that the table has at 7, which is what a first read begins with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from calve.errors import StartRefused
from calve.iceberg import travel
from calve.iceberg.files import Task
from calve.iceberg.steps import Step, changed_rows, expired_before, is_change
from calve.iceberg.travel import Break, History, Snapshot
from calve.position import Position

MOST_CHANGED = 20
"""How many snapshots that take rows away a batch has at the most: each is a scan of its own."""


@dataclass(frozen=True)
class Taken:
    """How far a batch goes, and about what it holds."""

    to: Position
    rows: int = 0
    bytes: int = 0
    more: bool = False


def at(snapshot: int | None) -> Position:
    """Behind all of a snapshot."""
    return {"snapshot": snapshot}


def check(position: object) -> None:
    """Raise ValueError for what is no position in a table."""
    if isinstance(position, dict) and "snapshot" in position:
        number, behind = position["snapshot"], position.get("behind", "")
        is_snapshot = number is None or (isinstance(number, int) and not isinstance(number, bool))
        if is_snapshot and isinstance(behind, str) and position.get("state", True) is True:
            return
    raise ValueError("not a position in a table")


def before_state(snapshot: int | None) -> Position:
    """Before the first row of the table at a snapshot; a table without one has no rows."""
    return at(None) if snapshot is None else {"snapshot": snapshot, "state": True, "behind": ""}


def steps(after: Position, to: Position, history: History) -> list[Step]:
    """What lies behind `after` up to `to`; raises StartRefused where the table no longer has it."""
    found: list[Step] = []
    if "behind" in after:
        inner = history.by_id.get(after["snapshot"])
        if inner is None:
            raise expired(history, after["snapshot"])
        found.append(Step(inner, bool(after.get("state")), after["behind"]))
    between = travel.chain(history, after["snapshot"], to["snapshot"])
    if isinstance(between, Break):
        refused = expired if between is Break.EXPIRED else rolled_back
        raise refused(history, after["snapshot"])
    found += [Step(one) for one in between if is_change(one)]
    return _ending(found, to)


def _ending(found: list[Step], to: Position) -> list[Step]:
    """`found`, the last of them only up to where `to` stands in it."""
    if "behind" not in to or not found:
        return found
    last = found[-1]
    return [*found[:-1], Step(last.snapshot, last.is_state, last.behind, to["behind"])]


def refuse_lost(found: Sequence[Step], history: History) -> None:
    """Raise StartRefused where a snapshot takes rows away and nobody knows any more which there were."""
    for step in found:
        parent = step.snapshot.parent
        if step.needs_parent and parent is not None and parent not in history.by_id:
            raise StartRefused(
                f"{expired_before(history.table, step.snapshot)}; {_choices(history)}",
                decision="--restart-from full",
            )


def refuse_changes(found: Sequence[Step], history: History) -> None:
    """Raise StartRefused where rows were taken away and only new rows are asked for."""
    for step in found:
        if not step.is_files:
            what = step.snapshot.operation or "change"
            raise StartRefused(
                f"Cannot read only what was appended to table '{history.table}': snapshot "
                f"{step.snapshot.told()} is of kind '{what}' and takes rows away; set 'read_mode: changes', "
                "or begin behind it",
                decision=f"--restart-from {step.snapshot.id}",
            )


def take(
    after: Position,
    found: Sequence[Step],
    end: Position,
    files: Callable[[Step], Sequence[Task]],
    rows: int,
    most_files: int,
) -> Taken:
    """How far a batch behind `after` goes that takes as many of `found` as fit, and at least one file.

    `end` is where all of them end.
    """
    taken, count, changed = Taken(after), 0, 0
    for index, step in enumerate(found):
        if step.is_files:
            tasks = step.mine(files(step))
            for task in tasks:
                if count and (taken.rows + task.rows > rows or count >= most_files):
                    return Taken(taken.to, taken.rows, taken.bytes, more=True)
                taken = Taken(_behind(step, task), taken.rows + task.rows, taken.bytes + task.bytes)
                count += 1
        else:
            more = changed_rows(step.snapshot)
            if (count and taken.rows + more > rows) or changed >= MOST_CHANGED:
                return Taken(taken.to, taken.rows, taken.bytes, more=True)
            taken = Taken(taken.to, taken.rows + more, taken.bytes + _bytes(step.snapshot))
            count, changed = count + 1, changed + 1
        last = index == len(found) - 1
        taken = Taken(end if last else at(step.snapshot.id), taken.rows, taken.bytes)
    return Taken(end, taken.rows, taken.bytes) if not found else taken


def _behind(step: Step, task: Task) -> Position:
    place: dict[str, object] = {"snapshot": step.snapshot.id, "behind": task.location}
    return {**place, "state": True} if step.is_state else place


def _bytes(snapshot: Snapshot) -> int:
    names = ("added-files-size", "removed-files-size")
    return sum(int(snapshot.summary.get(name) or 0) for name in names)


def expired(history: History, snapshot: int | None) -> StartRefused:
    """What follows a position is not there any more."""
    behind = "its first snapshot" if snapshot is None else f"snapshot {snapshot}"
    return StartRefused(
        f"Cannot continue behind {behind} of table '{history.table}': it was expired, or snapshots that "
        f"followed it were; {_choices(history)}",
        decision="--restart-from full",
    )


def rolled_back(history: History, snapshot: int | None) -> StartRefused:
    """The table went another way than the one that was read."""
    return StartRefused(
        f"Cannot continue behind snapshot {snapshot} of table '{history.table}': the table was rolled back "
        f"behind it, so rows that were read are gone; {_choices(history)}",
        decision="--restart-from full",
    )


def _choices(history: History) -> str:
    oldest = f" ({history.snapshots[0].told()})" if history.snapshots else ""
    return (
        "begin with the table as it is now (full), at the oldest snapshot that is left "
        f"(earliest{oldest}), or behind a snapshot by its id"
    )
