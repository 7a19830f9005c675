"""The commit protocol under every fault that the model has."""

from __future__ import annotations

import pytest

from tests.faults.model.machine import FAULTS, Profile, search
from tests.faults.model.world import DEEDS, PLACES

EVERYTHING = Profile()


def test_no_invariant_breaks_in_500_histories():
    figures = search(EVERYTHING, examples=500, steps=30)
    print(figures)
    assert_fired(figures)


@pytest.mark.full
def test_no_invariant_breaks_in_3000_longer_histories():
    figures = search(EVERYTHING, examples=3000, steps=50)
    print(figures)
    assert_fired(figures, "accepted a rollback", "restarted")


def assert_fired(figures, *decisions):
    """Every fault that can be planned has really happened, and every error it leads to was seen.

    An operator is asked for `decisions` too rarely for a short search.
    """
    errors = ("Fenced", "StartRefused", "TryAgain", "NotPermitted", "ConfigurationError", "arrived")
    missing = {*DEEDS, *PLACES, *FAULTS, *errors, *decisions, "unreadable", "stale"} - set(figures.fired)
    assert not missing, sorted(missing)
