"""Snapshots that nobody needs any more: which they are, and their end."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import islice

from calve import position
from calve.iceberg.failures import translated
from calve.iceberg.table import Table
from calve.iceberg.travel import History


def expirable(history: History, before_ms: int, retain_last: int, kept: Collection[int] = ()) -> list[int]:
    """The snapshots older than `before_ms` that may go, oldest first.

    Left are those that branches and tags name, the last `retain_last` of each branch, and `kept`.
    """
    heads = [history.current, *(ref.snapshot for ref in history.refs.values() if not ref.is_tag)]
    last = {one.id for head in heads for one in islice(history.ancestors(head), retain_last)}
    needed = {*last, *kept, *(ref.snapshot for ref in history.refs.values())}
    return [one.id for one in history.snapshots if one.committed_ms < before_ms and one.id not in needed]


def marked(history: History, properties: Mapping[str, str]) -> set[int]:
    """The snapshots whose commits the marks of the table name: they tell a rollback from an expiry."""
    commits = set(_commits(properties.items()))
    return {one.id for one in history.snapshots if one.summary.get(position.SUMMARY_COMMIT) in commits}


def _commits(properties: Iterable[tuple[str, str]]) -> Iterable[str]:
    for name, text in properties:
        if name.startswith(position.PREFIX):
            try:
                yield position.parse(text).commit
            except ValueError:
                continue


def expire(table: Table, snapshots: Collection[int]) -> None:
    """Forget `snapshots`, and delete the files that only they had."""
    with translated(f"expire snapshots of table '{table.name}'"):
        # Left to itself, Iceberg would go by the age that the table's properties say as well.
        update = table.java.expireSnapshots().expireOlderThan(0)
        for number in snapshots:
            update = update.expireSnapshotId(number)
        update.commit()
