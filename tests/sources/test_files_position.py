"""Which files a position knows, which are new, and which came too late."""

import json

import pytest

from calve.errors import DataRefused
from calve.position import MARK_LIMIT
from calve.sources import files_position
from calve.sources.files_position import START, File, batch, known, sort

SECOND = 1_000_000_000
NOW = 10_000_000


def files(*seconds: int) -> list[File]:
    return [File(second * SECOND, f"f{second}", 10) for second in seconds]


def paths(found: list[File]) -> list[str]:
    return [file.path for file in found]


def test_at_the_start_every_file_is_new_and_the_oldest_comes_first() -> None:
    assert paths(sort(files(30, 10, 20), known(START), 5).new) == ["f10", "f20", "f30"]


def test_files_of_one_time_are_read_in_the_order_of_their_paths() -> None:
    both = [File(1, "b", 1), File(1, "a", 1)]
    assert paths(sort(both, known(START), 5).new) == ["a", "b"]


def test_a_position_holds_the_files_of_its_batch() -> None:
    to = files_position.moved(known(START), files(10, 20), 100, NOW)
    assert batch(to) == files(10, 20)
    assert to["cutoff"] == 20_000


def test_a_file_that_was_read_is_not_new_however_many_batches_ago() -> None:
    position = START
    for second in (10, 20, 30):
        position = files_position.moved(known(position), files(second), 100, NOW)
    assert paths(sort(files(10, 20, 30, 25), known(position), 100).new) == ["f25"]


def test_a_file_that_was_read_and_then_changed_is_reported() -> None:
    to = files_position.moved(known(START), files(10), 100, NOW)
    changed = File(11 * SECOND, "f10", 12)
    found = sort([changed], known(to), 100)
    assert (found.new, found.changed) == ([], [changed])


def test_old_files_are_only_counted_and_what_turns_up_then_is_late() -> None:
    one = files_position.moved(known(START), files(10, 20), 15, NOW)
    two = files_position.moved(known(one), files(30), 15, NOW)
    three = files_position.moved(known(two), files(40), 15, NOW)
    assert three["forgotten"] == 2
    found = sort(files(10, 20, 30, 40, 26, 5), known(three), 15)
    assert (paths(found.new), paths(found.late)) == (["f26"], ["f5", "f10", "f20"])


def test_files_as_old_as_the_cutoff_are_not_lost_where_nothing_may_be_late() -> None:
    same = [File(10 * SECOND, "a", 1), File(10 * SECOND, "b", 1)]
    to = files_position.moved(known(START), same[:1], 0, NOW)
    assert paths(sort(same, known(to), 0).new) == ["b"]


def test_a_file_from_the_future_does_not_make_others_late() -> None:
    to = files_position.moved(known(START), files(10**9), 15, now=20_000)
    assert to["cutoff"] == 20_000
    assert paths(sort(files(19), known(to), 15).new) == ["f19"]


@pytest.mark.parametrize("mtime", [-(10**18), 10**19])
def test_impossible_times_are_remembered_too(mtime: int) -> None:
    file = File(mtime, "odd", 1)
    one = files_position.moved(known(START), [file], 1e12, NOW)
    two = files_position.moved(known(one), [], 1e12, NOW)
    assert sort([file], known(two), 1e12).new == []


@pytest.mark.thorough
def test_a_position_stays_small_with_ten_thousand_files_and_is_refused_before_a_mark_would_be() -> None:
    position = START
    for start in range(0, 10_000, 500):
        position = files_position.moved(known(position), files(*range(start, start + 500)), 1e6, NOW)
    assert len(json.dumps(position)) < 200_000
    for start in range(10_000, 12_000, 500):
        position = files_position.moved(known(position), files(*range(start, start + 500)), 1e6, NOW)
    with pytest.raises(DataRefused, match="set a shorter max_file_age"):
        files_position.moved(known(position), files(*range(12_000, 14_000)), 1e6, NOW)
    assert len(json.dumps(position)) < MARK_LIMIT
