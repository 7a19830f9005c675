"""The files in which two states differ are all that has to be read to know which rows differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as some

from calve.iceberg import files
from calve.iceberg.files import Delete, Kind, Pair, Task, compare, split_size

ROWS = {f"f{number}": [f"r{(number * 3 + row) % 8}" for row in range(3)] for number in range(5)}
"""What files hold; some rows are in several of them, as after a rewrite."""

States = dict[str, frozenset[int]]
"""The files of a state, and which of their rows are deleted."""


def plan(state: States, kind: Kind = Kind.POSITION) -> Mapping[str, Task]:
    return files.by_location(
        Task(name, 3, 100, frozenset(Delete(f"{name}-{row}", kind) for row in gone))
        for name, gone in state.items()
    )


def rows(state: States) -> Counter[str]:
    return Counter(row for name, gone in state.items() for at, row in enumerate(ROWS[name]) if at not in gone)


def gone(task: Task) -> set[int]:
    return {int(one.place[-1]) for one in task.deletes}


def live(tasks) -> Counter[str]:
    return Counter(
        row for task in tasks for at, row in enumerate(ROWS[task.location]) if at not in gone(task)
    )


def only(task: Task, other: Task) -> Counter[str]:
    """Rows that are deleted in one and not in the other."""
    return Counter(ROWS[task.location][at] for at in gone(task) - gone(other))


def told(before: States, after: States) -> tuple[Counter[str], Counter[str]]:
    """What is read of the touched files: rows that were live before, and rows that are now."""
    found = compare(plan(before), plan(after))
    old, new = live(found.removed), live(found.added)
    for pair in found.changed:
        old += only(pair.after, pair.before)
        if pair.may_bring_back:
            new += only(pair.before, pair.after)
    return old, new


states = some.dictionaries(some.sampled_from(sorted(ROWS)), some.frozensets(some.integers(0, 2)))


@given(states, states)
def test_the_touched_files_tell_the_difference_of_two_states(before, after):
    old, new = told(before, after)
    assert new - old == rows(after) - rows(before)
    assert old - new == rows(before) - rows(after)


@given(states)
def test_a_state_does_not_differ_from_itself(state):
    found = compare(plan(state), plan(state))
    assert (found.added, found.removed, found.changed) == ((), (), ())
    assert found.only_adds


def test_files_are_in_the_order_of_their_locations():
    found = compare({}, plan({"f3": frozenset(), "f1": frozenset(), "f2": frozenset()}))
    assert [task.location for task in found.added] == ["f1", "f2", "f3"]


def test_files_with_other_deletes_take_rows_away():
    found = compare(plan({"f1": frozenset()}), plan({"f1": frozenset({1})}))
    assert [pair.after.location for pair in found.changed] == ["f1"]
    assert not found.only_adds


def pair(before: set[Delete], after: set[Delete]) -> Pair:
    return Pair(Task("f", 3, 1, frozenset(before)), Task("f", 3, 1, frozenset(after)))


A, B = Delete("a", Kind.POSITION), Delete("b", Kind.POSITION)
V, W = Delete("v#4", Kind.VECTOR), Delete("v#90", Kind.VECTOR)
E = Delete("e", Kind.EQUALITY)


@pytest.mark.parametrize(
    ("before", "after", "may"),
    [
        ({A}, {A, B}, False),
        ({A}, {B}, True),
        ({A}, set(), True),
        ({V}, {W}, False),
        ({A}, {W}, False),
        ({V}, set(), True),
        ({E, V}, {W}, True),
        ({E, V}, {E, W}, False),
    ],
)
def test_rows_come_back_only_where_deletes_are_gone_that_no_vector_took_in(before, after, may):
    assert pair(before, after).may_bring_back is may


def test_a_scan_keeps_all_tasks_busy_without_making_crumbs():
    mib = 2**20
    assert split_size(100 * mib, 4) == 25 * mib
    assert split_size(10 * 2**30, 4) == 128 * mib
    assert split_size(1, 4) == 4 * mib
    assert split_size(0, 0) == 4 * mib
