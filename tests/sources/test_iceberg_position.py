"""Batches of a table cut its snapshots into parts, none of which is read twice or left out."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as some

from calve.errors import StartRefused
from calve.iceberg.files import Task
from calve.iceberg.steps import Step, changed_rows, is_change, only_adds, runs
from calve.iceberg.travel import History, Snapshot
from calve.sources.iceberg_position import (
    MOST_CHANGED,
    at,
    before_state,
    refuse_changes,
    refuse_lost,
    steps,
    take,
)

FAR = 10**9


def snapshot(number: int, parent: int | None, operation: str = "append", **told: str) -> Snapshot:
    summary = {"added-data-files": "1", "total-data-files": str(number)}
    return Snapshot(number, parent, number, 1000 * number, operation, summary | told)


def history(*operations: str, first: int = 1, current: int | None = None) -> History:
    """Snapshots 1, 2, 3 … that came one of the other, of which the ones before `first` were expired."""
    made = [snapshot(number, number - 1 or None, operation) for number, operation in enumerate(operations, 1)]
    return History("db.t", "u", 2, tuple(made[first - 1 :]), current or len(operations), 0)


def files(count: int, rows: int = 10):
    """Each snapshot has `count` files."""
    return lambda step: [Task(f"{step.snapshot.id}/{number}", rows, 100) for number in range(count)]


def shown(found: list[Step]) -> list[tuple[int, bool, str, str | None]]:
    return [(one.snapshot.id, one.is_state, one.behind, one.up_to) for one in found]


def test_what_follows_a_snapshot_is_what_came_later_without_compaction():
    there = history("append", "append", "replace", "overwrite", "append")
    assert shown(steps(at(1), at(5), there)) == [(n, False, "", None) for n in (2, 4, 5)]
    assert shown(steps(at(None), at(1), there)) == [(1, False, "", None)]
    assert shown(steps(at(5), at(5), there)) == []


def test_a_state_is_read_before_what_follows_it():
    there = history("append", "append", "append")
    assert shown(steps(before_state(2), at(3), there)) == [(2, True, "", None), (3, False, "", None)]
    assert before_state(None) == at(None)


def test_a_position_inside_a_snapshot_goes_on_there():
    there = history("append", "append", "append")
    inside = {"snapshot": 2, "behind": "2/4"}
    assert shown(steps(inside, at(3), there)) == [(2, False, "2/4", None), (3, False, "", None)]
    assert shown(steps(at(1), inside, there)) == [(2, False, "", "2/4")]
    assert shown(steps(inside, {"snapshot": 2, "behind": "2/7"}, there)) == [(2, False, "2/4", "2/7")]


def test_a_step_has_the_files_behind_one_and_up_to_another():
    step = Step(snapshot(2, 1), behind="2/1", up_to="2/3")
    assert [task.location for task in step.mine(files(6)(step)[::-1])] == ["2/2", "2/3"]


def walk(there: History, begin, end, planned, rows, most):
    """All batches from `begin` to `end`, as lists of files and of snapshots that are more than files."""
    place, found = begin, []
    while True:
        ahead = steps(place, end, there)
        taken = take(place, ahead, end, planned, rows, most)
        batch = steps(place, taken.to, there)
        json.dumps(taken.to)
        found.append(
            [
                name
                for step in batch
                for name in (
                    [task.location for task in step.mine(planned(step))]
                    if step.is_files
                    else [step.snapshot.id]
                )
            ]
        )
        if not taken.more:
            assert taken.to == end
            return found
        assert taken.to != place, "no way forward"
        place = taken.to


operations = some.lists(
    some.sampled_from(["append", "overwrite", "replace", "delete"]), min_size=1, max_size=8
)


@given(operations, some.integers(0, 4), some.integers(1, 60), some.integers(1, 7), some.booleans())
def test_batches_of_any_size_have_everything_once(kinds, count, rows, most, with_state):
    there = history(*kinds)
    begin = before_state(1) if with_state else at(None)
    end, planned = at(len(kinds)), files(count)
    whole = walk(there, begin, end, planned, FAR, FAR)
    parts = walk(there, begin, end, planned, rows, most)
    assert [one for part in parts for one in part] == [one for part in whole for one in part]
    for part in parts:
        names = [one for one in part if isinstance(one, str)]
        assert len(names) <= most
        assert len(names) <= max(1, rows // 10)


def test_a_file_that_is_larger_than_a_batch_is_taken_alone():
    there = history("append")
    taken = take(at(None), steps(at(None), at(1), there), at(1), files(3, rows=50), 10, 99)
    assert taken.to == {"snapshot": 1, "behind": "1/0"}
    assert (taken.rows, taken.bytes, taken.more) == (50, 100, True)


def test_a_place_inside_a_state_says_so():
    there = history("append", "append")
    taken = take(before_state(2), steps(before_state(2), at(2), there), at(2), files(3), 20, 99)
    assert taken.to == {"snapshot": 2, "behind": "2/1", "state": True}


def test_a_batch_has_only_so_many_snapshots_that_take_rows_away():
    there = history("append", *["delete"] * 50)
    taken = take(at(1), steps(at(1), at(51), there), at(51), files(1), FAR, FAR)
    assert taken.to == at(1 + MOST_CHANGED)
    assert taken.more


def test_a_position_moves_over_compaction():
    there = history("append", "replace", "replace")
    taken = take(at(1), steps(at(1), at(3), there), at(3), files(1), FAR, FAR)
    assert (taken.to, taken.rows, taken.more) == (at(3), 0, False)


CHOICES = (
    "begin with the table as it is now (full), at the oldest snapshot that is left (earliest (3 of "
    "1970-01-01 00:00:03.000 UTC)), or behind a snapshot by its id; decide with: calve repair "
    "--restart-from full"
)


def test_a_position_that_was_expired_with_what_followed_it_is_refused():
    there = history(*["append"] * 5, first=3)
    with pytest.raises(StartRefused) as caught:
        steps(at(1), at(5), there)
    assert str(caught.value) == (
        "Cannot continue behind snapshot 1 of table 'db.t': it was expired, or snapshots that followed it "
        "were; " + CHOICES
    )


def test_a_position_that_was_expired_alone_goes_on_with_what_was_appended():
    there = history(*["append"] * 5, first=3)
    found = steps(at(2), at(5), there)
    refuse_lost(found, there)
    assert [one.snapshot.id for one in found] == [3, 4, 5]


def test_what_was_taken_away_from_a_snapshot_that_was_expired_is_refused():
    there = history("append", "append", "delete", first=3)
    with pytest.raises(StartRefused) as caught:
        refuse_lost(steps(at(2), at(3), there), there)
    assert str(caught.value) == (
        "Cannot tell what snapshot 3 of table 'db.t' changed: snapshot 2, which it came from, was expired; "
        + CHOICES
    )


def test_a_position_inside_a_snapshot_that_was_expired_is_refused():
    there = history(*["append"] * 5, first=3)
    with pytest.raises(StartRefused, match="Cannot continue behind snapshot 2 of table 'db"):
        steps({"snapshot": 2, "behind": "2/1"}, at(5), there)


def test_a_position_that_was_rolled_back_is_refused():
    there = history(*["append"] * 3, current=2)
    with pytest.raises(StartRefused) as caught:
        steps(at(3), at(2), there)
    message = (
        "Cannot continue behind snapshot 3 of table 'db.t': the table was rolled back behind it, so rows "
        "that were read are gone; begin with the table as it is now (full)"
    )
    assert str(caught.value).startswith(message)


def test_rows_that_are_taken_away_are_refused_where_only_new_ones_are_read():
    there = history("append", "append", "delete")
    with pytest.raises(StartRefused) as caught:
        refuse_changes(steps(at(1), at(3), there), there)
    caught.value.pipeline = "mirror"
    assert str(caught.value) == (
        "Cannot read only what was appended to table 'db.t': snapshot 3 of 1970-01-01 00:00:03.000 UTC is of "
        "kind 'delete' and takes rows away; set 'read_mode: changes', or begin behind it; decide with: calve "
        "repair --pipeline mirror --restart-from 3"
    )
    refuse_changes(steps(at(1), at(2), there), there)


@pytest.mark.parametrize(
    ("operation", "told", "adds"),
    [
        ("append", {}, True),
        ("append", {"added-delete-files": "1"}, False),
        ("overwrite", {}, True),
        ("overwrite", {"deleted-data-files": "1"}, False),
        ("overwrite", {"added-delete-files": "1"}, False),
        ("overwrite", {"removed-delete-files": "2"}, False),
        ("overwrite", {"deleted-data-files": "0"}, True),
        ("delete", {}, False),
        ("", {}, False),
    ],
)
def test_an_overwrite_that_took_nothing_away_only_adds(operation, told, adds):
    assert only_adds(snapshot(2, 1, operation, **told)) is adds


def test_an_overwrite_that_does_not_tell_what_it_did_may_take_rows_away():
    assert not only_adds(Snapshot(2, 1, 2, 2000, "overwrite", {}))


def test_compaction_is_no_change():
    assert not is_change(snapshot(2, 1, "replace"))
    assert all(is_change(snapshot(2, 1, one)) for one in ("append", "overwrite", "delete", ""))


def test_a_snapshot_tells_about_how_many_rows_it_changed():
    told = {"added-records": "5", "added-position-deletes": "3", "deleted-records": "2"}
    assert changed_rows(snapshot(2, 1, "overwrite", **told)) == 10
    assert changed_rows(Snapshot(1, None, 1, 1, "", {})) == 0


def test_steps_that_are_files_are_read_together():
    found = steps(before_state(1), at(6), history("append", "append", "delete", "append", "append", "delete"))
    assert runs(found) == [[0, 1], [2], [3, 4], [5]]
    assert runs([]) == []


def test_the_choices_name_no_snapshot_where_there_is_none():
    with pytest.raises(StartRefused, match=re.escape("that is left (earliest), or behind")):
        steps(at(1), at(None), History("db.t", "u", 2, (), None, 0))
