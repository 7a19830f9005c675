"""Change sets as plain Python, and the rows that are there after them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from calve.iceberg.changeset import ORDINAL, SNAPSHOT, TYPE

GONE, COME = ("delete", "update_before"), ("insert", "update_after")

Rows = Counter[tuple[Any, ...]]


def folded(rows: Rows, changes: Iterable[tuple[tuple[Any, ...], str]]) -> Rows:
    """`rows` after `changes`; a row that is taken out must be there."""
    found, told = Counter(rows), list(changes)
    for kinds, sign in ((GONE, -1), (COME, 1)):
        for values, kind in told:
            if kind in kinds:
                found[values] += sign
                assert found[values] >= 0, f"{values} was not there"
    return +found


def collected(frame: Any) -> list[tuple[tuple[Any, ...], str, int, int]]:
    """The changes of a frame: values, type, ordinal and snapshot."""
    own = (TYPE, ORDINAL, SNAPSHOT)
    assert tuple(frame.columns[-3:]) == own
    return [(tuple(row)[:-3], row[TYPE], row[ORDINAL], row[SNAPSHOT]) for row in frame.collect()]
