"""Which writes of a program a table has."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calve.api import writes
from calve.api.writes import REMEMBERED, Step, Written
from calve.errors import UsageError
from calve.position import MARK_LIMIT

SOURCE = "iceberg:a"


def test_text_is_known_again_and_other_text_is_not():
    known = Written().with_("monday")
    assert known.has("monday")
    assert not known.has("tuesday")


def test_a_number_stands_for_all_before_it():
    known = Written().with_(4)
    assert [known.has(number) for number in (0, 4, 5)] == [True, True, False]
    assert not Written().has(0)


def test_without_a_name_every_write_is_a_new_one():
    assert not Written().with_(None).has(None)
    assert Written().with_(None) == Written()


def test_only_the_last_names_are_remembered():
    known = Written()
    for number in range(REMEMBERED + 1):
        known = known.with_(f"write {number}")
    assert not known.has("write 0")
    assert known.has("write 1")
    assert len(json.dumps(known.onto({}))) < MARK_LIMIT // 8


def test_a_batch_of_a_source_follows_the_one_before():
    known = Written().with_(Step(SOURCE, {"snapshot": 0}, {"snapshot": 1}))
    assert known.has(Step(SOURCE, {"snapshot": 0}, {"snapshot": 1}))
    assert not known.has(Step(SOURCE, {"snapshot": 1}, {"snapshot": 2}))
    assert not known.has(Step("iceberg:b", {"snapshot": 7}, {"snapshot": 8}))


def test_a_batch_that_leaves_a_gap_or_overlaps_is_refused():
    known = Written().with_(Step(SOURCE, {"snapshot": 0}, {"snapshot": 1}))
    with pytest.raises(UsageError, match=r"the table has them up to .* begin the stream there"):
        known.has(Step(SOURCE, {"snapshot": 2}, {"snapshot": 3}))
    with pytest.raises(UsageError):
        known.has(Step(SOURCE, {"snapshot": 0}, {"snapshot": 3}))


NAMES = st.one_of(st.text(min_size=1), st.integers(0, 2**62))


@pytest.mark.thorough
@given(st.lists(NAMES, max_size=20))
def test_a_mark_gives_back_what_was_put_into_it(names):
    known = Written()
    for name in names:
        known = known if isinstance(name, int) and known.has(name) else known.with_(name)
    position = known.onto({"checkpoint": "c", "batch": 3, "number": 0})
    assert (position["checkpoint"], position["batch"]) == ("c", 3)
    assert writes.of(json.loads(json.dumps(position))) == known
    assert all(known.has(name) for name in names)


@pytest.mark.parametrize("name", ["", True, -1, 1.5, b"x"])
def test_what_cannot_name_a_write_is_refused(name):
    with pytest.raises(UsageError, match="Cannot name a write"):
        writes.checked(name)
