"""Proof that the model can fail: with a protection switched off, an invariant breaks, and it is named."""

from __future__ import annotations

import pytest

from tests.faults.model.machine import SEED, Profile, search
from tests.faults.model.truth import InvariantBroken
from tests.faults.model.world import World
from tests.faults.protections import IN_THE_MODEL, PROTECTIONS

SLOW = ("notice a renamed sink",)
TOLD = ("compare the writer, not only the epoch",)
"""What a search finds too rarely: its history is told step by step."""
EXAMPLES, STEPS = 400, 25
SEARCHES, PERSISTENT = 10, 4_000
"""A search ends with the first broken invariant; the order of histories differs from Python to Python."""


def narrow(protection):
    return Profile(**{"amidst": protection.draws["deeds"], **protection.draws})


def assert_killed(protection, monkeypatch):
    """Every search must break an invariant, and one of them an invariant that the protection is there for."""
    protection.off(monkeypatch)
    broken = []
    for seed in range(SEARCHES):
        monkeypatch.setenv(SEED, str(seed))
        with pytest.raises(InvariantBroken) as caught:
            search(narrow(protection), PERSISTENT, STEPS, shrink=False)
        broken.append(caught.value.name)
        if broken[-1] in protection.breaks:
            return
    pytest.fail(f"{protection.name}: only {set(broken)} broke, not one of {protection.breaks}")


@pytest.mark.parametrize("protection", [p for p in IN_THE_MODEL if p.name not in SLOW + TOLD], ids=str)
def test_without_this_protection_an_invariant_breaks(protection, monkeypatch):
    assert_killed(protection, monkeypatch)


@pytest.mark.full
@pytest.mark.parametrize("protection", [p for p in IN_THE_MODEL if p.name in SLOW], ids=str)
def test_without_this_protection_a_longer_search_breaks_an_invariant(protection, monkeypatch):
    assert_killed(protection, monkeypatch)


def one_epoch_twice(world):
    """A backup takes an epoch back, another writer takes the same one, and expiry covers both up."""
    world.batch(0)
    world.start(1)
    world.prepare(1, 2)
    world.do("restore", 2)
    world.start(2)
    world.do("append")
    world.do("expire")
    world.commit(1)
    world.check()


@pytest.fixture
def world():
    world = World()
    yield world
    world.close()


def test_of_two_writers_with_one_epoch_the_earlier_is_fenced(world):
    one_epoch_twice(world)
    assert world.fired["Fenced"] == 1


@pytest.mark.parametrize("protection", [p for p in IN_THE_MODEL if p.name in TOLD], ids=str)
def test_without_this_protection_a_history_breaks_an_invariant(world, protection, monkeypatch):
    protection.off(monkeypatch)
    with pytest.raises(InvariantBroken) as caught:
        one_epoch_twice(world)
    assert caught.value.name in protection.breaks


@pytest.mark.full
@pytest.mark.parametrize("protection", IN_THE_MODEL, ids=str)
def test_with_the_protection_the_same_search_finds_nothing(protection):
    print(search(narrow(protection), EXAMPLES, STEPS))


def test_every_protection_has_a_tier_and_a_name_of_its_own():
    assert len({protection.name for protection in PROTECTIONS}) == len(PROTECTIONS)
    assert all(protection.tiers and protection.breaks for protection in PROTECTIONS)
    assert all("model" in protection.tiers and protection.off for protection in IN_THE_MODEL)
