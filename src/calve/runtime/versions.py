"""The state of a table that a person or a program names. Pure."""

from __future__ import annotations

from calve.errors import UsageError
from calve.iceberg import travel
from calve.iceberg.travel import History, Snapshot, Version
from calve.model import suggestion

_SHOWN = 10


def of_ref(history: History, name: str) -> Version:
    """The state that a tag or a branch called `name` is at."""
    ref = history.refs.get(name)
    return Version(tag=name) if ref is not None and ref.is_tag else Version(branch=name)


def asked(history: History, text: str | None, branch: str = "main") -> Version:
    """The state that `text` names: a tag, a branch, a snapshot by its id, or a time, at which it is the state
    of `branch`; None is the newest one of `branch`. Raises UsageError where it is none of them."""
    if text is None or text == branch or text in history.refs:
        return of_ref(history, text or branch)
    if text.isdecimal():
        return Version(snapshot_id=int(text))
    try:
        return Version(timestamp=travel.parse_timestamp(text), branch=branch)
    except ValueError:
        known = sorted({"main", *history.refs})
        some = ", ".join(known[:_SHOWN]) + (" …" if len(known) > _SHOWN else "")
        raise UsageError(
            f"Cannot read table '{history.table}' at '{text}': it is no snapshot's id, no time such as "
            f"'2026-11-15 10:00:00', and no tag or branch; there is {some}{suggestion(text, known)}"
        ) from None


def snapshot(history: History, text: str | None, branch: str = "main") -> Snapshot | None:
    """The snapshot that `text` names; None only for a table that has none."""
    return travel.resolve(history, asked(history, text, branch))


def bounds(
    history: History, begin: str | None, end: str | None, branch: str = "main"
) -> tuple[int | None, int | None]:
    """The snapshots behind which and up to which changes are asked for; left out, those of the newest one.

    None begins before the first snapshot; both are None for a table that has none.
    """
    last = snapshot(history, end, branch)
    if begin is not None:
        first = snapshot(history, begin, branch)
        return (None if first is None else first.id), (None if last is None else last.id)
    return (None if last is None else last.parent), (None if last is None else last.id)
