"""Histories in their shortest form: those that once broke an invariant, and those nobody must make."""

from __future__ import annotations

import pytest

from calve.errors import StartRefused
from tests.faults.model.truth import NO_LOSS, POSITION_GROWS, InvariantBroken
from tests.faults.model.world import World

OVERTAKEN = [("fence.applied", "go dark", 0), ("sleep", "commit other", 1)]
"""The answer is lost, and before the table can be read again another writer starts and commits."""


@pytest.fixture
def world():
    world = World()
    yield world
    world.close()


def test_a_starter_whose_fence_landed_unseen_and_was_overtaken_gives_up(world):
    world.start(0, answers=["lost"], events=OVERTAKEN)
    world.check()


def test_a_starter_that_was_overtaken_on_a_recreated_table_gives_up(world):
    world.do("append")
    world.start(0, events=[("start.before_fence", "recreate", 0), ("fence.swapped", "start other", 0)])
    world.check()


def test_a_starter_that_was_overtaken_on_a_restored_table_gives_up(world):
    world.do("append")
    restored = [("start.before_fence", "commit other", 6), ("fence.applied", "restore", 6)]
    world.start(0, events=[*restored, ("fence.swapped", "start other", 5)])
    world.check()


def test_a_roll_back_to_the_first_of_two_fences_of_a_starter_is_noticed(world):
    world.start(0, answers=["lost"], events=OVERTAKEN)
    first_fence = world.catalog.current.chain("main")[-1]
    world.set_branch({"main": first_fence.id}, is_hiding=True)
    world.start(1)
    world.check()


def test_a_repair_that_landed_unseen_and_was_overtaken_does_not_set_the_position_back(world):
    world.batch(0)
    world.do("roll back")
    world.repair(answers=["lost"], events=OVERTAKEN)
    world.check()


def test_a_repair_of_a_mark_that_was_repaired_meanwhile_does_not_set_the_position_back(world):
    world.batch(0)
    world.do("roll back")
    shown, operator = world.mark(), world.committer()
    world.repair()
    world.batch(1)
    with pytest.raises(StartRefused, match="changed since the decision"):
        operator.decide_start(shown.source, shown.position, "accepted a rollback", shown)
    world.check()


def test_a_repair_without_a_mark_takes_an_epoch_above_those_of_the_branch(world):
    world.start(0)
    world.start(1)
    world.do("remove mark")
    world.repair()
    world.check()


def test_a_mark_whose_position_was_edited_by_hand_is_refused(world):
    world.batch(0)
    world.do("move mark")
    world.start(1)
    world.check()


def test_a_mark_edited_before_its_writer_looks_at_it_is_refused(world):
    world.start(0, events=[("fence.swapped", "move mark", 0)])
    world.batch(0)
    world.check()


def test_a_mark_edited_behind_a_table_that_is_served_old_is_refused(world):
    world.batch(0)
    for deed in ("append", "append", "move mark", "go stale", "start other"):
        world.do(deed)
    world.check()


def test_a_repair_that_a_late_commit_comes_before_does_not_set_the_position_back(world):
    world.start(0)
    world.prepare(0, 2)
    world.commit(0, answers=["late"], events=[("commit.applied", "remove mark", 0)])
    late, world.catalog.late = world.catalog.late, []
    world.catalog._soon = [(2, swap) for swap in late]
    world.repair()
    world.check()


def test_a_roll_back_that_foreign_commits_and_expiry_cover_up_is_not_noticed(world):
    world.batch(0)
    world.do("roll back")
    world.do("append")
    world._expire(0, is_hiding=True)
    world.start(1)
    with pytest.raises(InvariantBroken, match=NO_LOSS):
        world.check()


def test_a_mark_taken_away_after_all_commits_of_the_sink_expired_is_not_missed(world):
    world.batch(0)
    world.do("append")
    world.do("expire")
    world._remove_mark(0, is_hiding=True)
    world.start(1)
    with pytest.raises(InvariantBroken, match=POSITION_GROWS):
        world.check()
