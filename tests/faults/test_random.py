"""Real processes, struck at times that nobody chose; the seed is printed with the figures."""

from __future__ import annotations

from random import Random

import pytest

from calve import crash
from tests.faults import figures
from tests.faults.chain import Chain

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.rest, pytest.mark.full]

SUSPENDED_AT = (
    "start.before_fence",
    "fence.swapped",
    "plan.after",
    "stage.after",
    "commit.applied",
    "batch.end",
)


@pytest.fixture(params=["kafka", "kafka on rest", "files"])
def chain(request):
    if request.param == "files":
        return Chain(request.getfixturevalue("inbox"))
    rest = request.getfixturevalue("rest_catalog") if "rest" in request.param else None
    return Chain(request.getfixturevalue("stream")(rest=rest))


@pytest.fixture
def draw(request):
    """What is drawn differs from test to test and is the same for the same seed."""
    print(f"{figures.SEED}={figures.seed()}")
    return Random(f"{figures.seed()} {request.node.name}")


def test_lives_that_are_killed_at_random_write_every_row_once(chain, draw):
    for number in figures.lives():
        if number % 2:
            chain.kill_at(draw.choice(crash.POINTS), nth=1)
        else:
            chain.kill_at_random(draw)
    chain.end()


def test_lives_that_are_asked_to_end_or_suspended_at_random_write_every_row_once(chain, draw):
    for number in figures.lives(share=2):
        (chain.suspend_at_random if number % 2 else chain.terminate_at_random)(draw)
    chain.end()


@pytest.mark.parametrize("chain", ["kafka on rest"], indirect=True)
def test_a_life_that_another_one_overtakes_while_it_is_suspended_writes_nothing_more(chain):
    for point in SUSPENDED_AT:
        chain.overtake_at(point)
    chain.end()
