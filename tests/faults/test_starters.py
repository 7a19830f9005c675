"""Two real processes of one pipeline, started at the same moment."""

from __future__ import annotations

import signal

import pytest

from tests.faults import figures
from tests.faults.chain import MOST_OF_A_LIFE
from tests.faults.process import ended

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.full]


def race(stream):
    """Start two at once, and feed them until one gives up; the other one has the next epoch and goes on."""
    before = stream.epoch()
    both = [stream.calve.start("run"), stream.calve.start("run")]
    loser = stream.produce_until(
        lambda: next((one for one in both if one.poll() is not None), None), "an end"
    )
    winner = both[1 - both.index(loser)]
    code, said = ended(loser)
    assert code == 80, said
    assert "another process runs it" in said
    stream.produce(20)
    stream.wait_until_read(winner)
    winner.send_signal(signal.SIGTERM)
    code, said = ended(winner)
    assert code == 0, said
    assert stream.epoch() > before
    figures.current.add("cold: races of two starters")


def test_of_two_runs_that_start_at_once_one_goes_on_and_the_other_exits_with_80(stream):
    one = stream()
    for _ in range(3):
        race(one)
    one.check(orphans=3 * MOST_OF_A_LIFE)


@pytest.mark.rest
def test_of_two_runs_that_start_at_once_on_a_rest_catalog_one_goes_on(stream, rest_catalog):
    one = stream(rest=rest_catalog)
    for _ in range(2):
        race(one)
    one.check(orphans=2 * MOST_OF_A_LIFE)
