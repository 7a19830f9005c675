"""Where a batch of a stream stands beside those that a table has."""

import pytest

from calve.sink.numbered import UNKNOWN, Place, moved, place

KNOWN = {"checkpoint": "a", "batch": 4}


@pytest.mark.parametrize(
    ("known", "checkpoint", "number", "expected"),
    [
        ({}, "a", 0, Place.NEXT),
        (UNKNOWN, "a", 7, Place.NEXT),
        (KNOWN, "a", 5, Place.NEXT),
        (KNOWN, "a", 9, Place.NEXT),
        (KNOWN, "a", 4, Place.REPEATED),
        (KNOWN, "a", 3, Place.OLDER),
        (KNOWN, "b", 5, Place.ELSEWHERE),
        (KNOWN, "b", 4, Place.ELSEWHERE),
        ({"checkpoint": "a", "batch": -1}, "a", 0, Place.NEXT),
    ],
)
def test_a_batch_has_one_place(known, checkpoint, number, expected):
    assert place(known, checkpoint, number) is expected


def test_a_position_keeps_what_else_it_says():
    assert moved({"ids": ["x"], **KNOWN}, "a", 5) == {"ids": ["x"], "checkpoint": "a", "batch": 5}
