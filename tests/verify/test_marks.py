"""Marks and commits, on facts that are written down."""

import json

import pytest

from calve.position import Mark
from calve.verify import Facts, Invariant, Snapshot, Version, mark_findings, marks

NAME = "calve.sink.orders"


def mark(commit="c1", epoch=1, row=0, above=0, writer=None, source="datagen:1", position=None):
    return Mark(epoch, writer or f"w{epoch}", source, position or {"row": row}, commit, above)


def snapshot(number, left=None, parent=None, name=NAME):
    return Snapshot(number, parent or (number - 1 or None), number, left.summary(name) if left else {})


def chain(*left, held=None):
    """A table whose main has a snapshot for each mark; None is somebody else's."""
    found = tuple(snapshot(number, one) for number, one in enumerate(left, 1))
    held = held or next((one for one in reversed(left) if one), None)
    return Facts(found, {"main": len(left)} if left else {}, {NAME: held.dump()} if held else {})


def kinds(facts, branch=None):
    return [finding.invariant for finding in mark_findings(facts, branch)]


def versions(*steps, decisions=()):
    return tuple(
        Version(f"v{number}", {NAME: one.dump()} if one else {}, frozenset(decisions))
        for number, one in enumerate(steps)
    )


def steps_back(*steps, decisions=()):
    return [finding.what for finding in marks.history_grows(versions(*steps, decisions=decisions), NAME)]


def test_the_digest_is_the_one_of_the_writer():
    one = mark(position={"topics": {"ü": {"id": "x", "offsets": {"0": 1}}}})
    assert marks.digest(json.loads(one.dump())) == one.digest()


def test_commits_in_order_with_somebody_elses_between_are_fine():
    assert kinds(chain(mark(), None, mark("c2", row=5, above=2), mark("c3", 2, 5, 3))) == []


def test_an_epoch_that_goes_back_is_found():
    facts = chain(mark("c1", 2), mark("c2", 1, above=1))
    [finding] = mark_findings(facts)
    assert finding.invariant is Invariant.EPOCH_GROWS
    assert (
        str(finding) == "epoch-grows: snapshot 2 of branch 'main': epoch 1 of sink 'orders' follows epoch 2"
    )


def test_two_sinks_have_epochs_of_their_own():
    other = mark("o1", 1, above=1)
    facts = chain(mark("c1", 2))
    facts = Facts(
        (*facts.snapshots, snapshot(2, other, name="calve.sink.other")),
        {"main": 2},
        {**facts.marks, "calve.sink.other": other.dump()},
    )
    assert kinds(facts) == []


def test_a_commit_that_landed_twice_is_found():
    assert kinds(chain(mark(), mark())) == [Invariant.COMMIT_ONCE]


def test_a_mark_that_is_behind_the_newest_commit_is_found():
    first = mark()
    facts = chain(first, mark("c2", row=5, above=1), held=first)
    [finding] = mark_findings(facts)
    assert finding.invariant is Invariant.MARK_AGREES
    assert "calve.commit is c2 there and c1 here" in finding.what


def test_a_mark_with_another_epoch_than_its_commit_is_found():
    assert kinds(chain(mark(), held=mark(epoch=2))) == [Invariant.MARK_AGREES]


def test_a_table_rolled_back_to_an_older_commit_is_found():
    assert kinds(chain(mark(), held=mark("c2", row=5, above=1))) == [Invariant.MARK_REACHABLE]


def test_a_table_rolled_back_to_somebody_elses_snapshot_is_found():
    assert kinds(chain(None, held=mark("c2", above=1))) == [Invariant.MARK_REACHABLE]


def test_a_table_without_any_snapshot_was_rolled_back():
    assert kinds(chain(held=mark())) == [Invariant.MARK_REACHABLE]


def test_a_rollback_behind_a_broken_chain_is_still_found():
    facts = Facts((snapshot(5, parent=4),), {"main": 5}, {NAME: mark(above=6).dump()})
    assert kinds(facts) == [Invariant.MARK_REACHABLE]


def test_expiry_explains_a_commit_that_is_not_there():
    facts = Facts((snapshot(5, parent=4),), {"main": 5}, {NAME: mark(above=2).dump()})
    assert kinds(facts) == []


def test_a_branch_that_was_dropped_after_main_took_its_commits_is_fine():
    left = mark()
    name = f"{NAME}.audit"
    assert kinds(Facts((snapshot(1, left, name=name),), {"main": 1}, {name: left.dump()})) == []


@pytest.mark.parametrize("text", ["", "[]", "{}", "no mark", '{"epoch": 1}'])
def test_what_is_no_mark_is_not_parsed(text):
    assert marks.parsed(text) is None


def test_a_history_that_grows_is_fine():
    assert steps_back(None, mark(), mark("c2", row=5), mark("c3", 2, 5), mark("c3", 2, 5)) == []


def test_an_epoch_of_two_writers_is_found():
    assert steps_back(mark(), mark("c2", writer="x")) == ["two writers have epoch 1: w1 and x"]


def test_a_history_whose_epoch_goes_back_is_found():
    assert steps_back(mark(epoch=2), mark()) == ["epoch 1 follows epoch 2"]


def test_a_source_that_changes_is_found_unless_an_operator_decided():
    assert len(steps_back(mark(), mark("c2", 2, source="datagen:2"))) == 1
    assert steps_back(mark(), mark("c2", 2, source="datagen:2"), decisions=["c2"]) == []


def test_an_operator_may_go_back_to_any_position_but_not_to_an_epoch():
    assert steps_back(mark(row=5), mark("c2", 2, row=1)) == ["row went from 5 back to 1"]
    assert steps_back(mark(row=5), mark("c2", 2, row=1), decisions=["c2"]) == []
    assert steps_back(mark(epoch=3), mark("c2", 2), decisions=["c2"]) == ["epoch 2 follows epoch 3"]


def kafka(identity="x", **offsets):
    return {"topics": {"t": {"id": identity, "offsets": {name[1:]: to for name, to in offsets.items()}}}}


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (kafka(p0=1, p1=2), kafka(p0=1, p1=3, p2=0), []),
        (kafka(p0=2), kafka(p0=1), ["topic 't' (x) partition 0 went from 2 back to 1"]),
        (kafka(p0=2, p1=0), kafka(p0=2), ["topic 't' (x) partition 1 stood at 0 and is gone"]),
        (kafka(p0=2), kafka("y", p0=2), ["topic 't' (x) partition 0 stood at 2 and is gone"]),
        ({"cutoff": 9, "forgotten": 1}, {"cutoff": 8, "forgotten": 1}, ["cutoff went from 9 back to 8"]),
        ({"anything": 2}, {"anything": 1}, []),
        ({"to": {"row": 2}, "life": 1, "rows": 9}, {"to": {"row": 3}, "life": 1, "rows": 1}, []),
        ({"to": {"row": 2}, "life": 1}, {"to": {"row": 1}, "life": 2}, ["row went from 2 back to 1"]),
        ({"to": {"row": 2}, "life": 2}, {"to": {"row": 2}, "life": 1}, ["life went from 2 back to 1"]),
    ],
)
def test_positions_are_compared_as_their_source_means_them(before, after, expected):
    assert list(marks.went_back(before, after)) == expected
