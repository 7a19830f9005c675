"""What is decided about bad records, without Spark."""

import pytest

from calve.decode.bad import REASONS, Letter, Report
from calve.runtime import letters
from calve.sink import dead_letter
from calve.sink.dead_letter import Channel, Reports, Told, tripped
from calve.sink.declaration import DeadLetter


def letter(name="1", size=10):
    return Letter(name, f'{{"line":{name}}}', None, "cast", "wrong_type", "", None, b"x" * size, None, None)


def report(place, records=10, letters=(), more=0):
    return Report("batch", (place,), records, list(letters), more)


def test_a_block_that_was_reported_twice_counts_once():
    told = Told.of([report("a", letters=[letter()]), report("a", letters=[letter()]), report("b")])
    assert (told.records, told.bad, len(told.letters)) == (20, 1, 1)
    assert told.is_whole


def test_letters_that_are_only_counted_are_known_to_be_missing():
    told = Told.of([report("a", letters=[letter()], more=3)])
    assert (told.bad, told.is_whole) == (4, False)


def test_only_so_many_bytes_are_held_and_the_rest_is_counted(monkeypatch):
    monkeypatch.setattr(dead_letter, "CARRIED", 250)
    found = Reports()
    for number in range(5):
        Channel().addInPlace(found, [report(number, letters=[letter(str(number), 100)])])
    assert [len(one.letters) for one in found] == [1, 1, 0, 0, 0]
    assert Told.of(found).bad == 5


@pytest.mark.parametrize(
    ("limits", "bad", "limit"),
    [
        ({}, 10, None),
        ({"max_count": 3}, 3, None),
        ({"max_count": 3}, 4, "max_count 3"),
        ({"max_count": 0}, 1, "max_count 0"),
        ({"max_ratio": 0.5}, 5, None),
        ({"max_ratio": 0.5}, 6, "max_ratio 0.5"),
        ({"max_ratio": 1}, 10, None),
        ({"max_ratio": 0.1, "max_count": 9}, 10, "max_count 9"),
    ],
)
def test_a_limit_is_tripped_by_what_is_above_it(limits, bad, limit):
    assert tripped(Told(10, bad, []), DeadLetter(**limits)) == limit


@pytest.mark.parametrize(
    ("records", "bad", "limits", "is_tripped"),
    [
        (1_000, 1_000, {}, True),
        (1_000, 1_000, {"max_count": 5_000}, True),
        (999, 999, {}, False),
        (5_000, 4_999, {}, False),
        (5_000, 5_000, {"max_ratio": 1}, False),
    ],
)
def test_a_large_batch_in_which_every_record_is_bad_stops_by_default(records, bad, limits, is_tripped):
    assert (tripped(Told(records, bad, []), DeadLetter(**limits)) == dead_letter.WHOLE) == is_tripped


def test_letters_are_replayed_by_their_sources_and_so_many_at_once(monkeypatch):
    monkeypatch.setattr(letters, "CHUNK", 2)
    found = [{"letter_id": str(number), "source": "ab"[number % 2]} for number in range(6)]
    assert letters.chunks(found) == [["0", "2"], ["4"], ["1", "3"], ["5"]]
    assert letters.chunks([]) == []


def test_every_reason_has_a_stage():
    assert {stage for stage, _ in REASONS.values()} == {"decode", "cast", "key", "route"}
