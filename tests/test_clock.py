import threading

import pytest

from calve import clock
from calve.clock import Clock, Taken


class Hands:
    """A time that only moves when it is told to."""

    def __init__(self):
        self.at = 0.0

    def __call__(self):
        return self.at

    def pass_by(self, seconds):
        self.at += seconds


@pytest.fixture
def hands():
    return Hands()


@pytest.fixture
def watch(hands):
    return Clock(hands)


def test_a_step_counts_without_the_steps_inside_it(hands, watch):
    with watch.step("commit"):
        hands.pass_by(1)
        with watch.step("stage"):
            hands.pass_by(5)
        hands.pass_by(1)
    assert watch.take().steps == {"commit": 2, "stage": 5}


def test_what_no_step_was_at_work_in_is_told(hands, watch):
    hands.pass_by(3)
    with watch.step("plan"):
        hands.pass_by(1)
    taken = watch.take()
    assert (taken.wall, taken.other) == (4, 3)


def test_a_batch_begins_where_the_last_was_taken(hands, watch):
    with watch.step("plan"):
        hands.pass_by(1)
    watch.take()
    hands.pass_by(2)
    assert watch.take() == Taken(2, {})


def test_a_step_that_fails_counts(hands, watch):
    def work():
        with watch.step("stage"):
            hands.pass_by(2)
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        work()
    assert watch.take().steps == {"stage": 2}


def test_a_function_is_a_step_only_where_somebody_measures(hands, watch):
    @clock.timed("plan")
    def work(value):
        hands.pass_by(1)
        return value

    assert work(7) == 7
    with clock.using(watch):
        assert work(8) == 8
    assert work(9) == 9
    assert watch.take().steps == {"plan": 1}


def test_a_step_has_a_meaning():
    with pytest.raises(AssertionError):
        clock.timed("something")


def test_steps_of_another_thread_are_kept_apart(hands, watch):
    @clock.timed("look-up")
    def find():
        hands.pass_by(4)

    with clock.using(watch), watch.step("stage"):
        thread = threading.Thread(target=clock.carried(find))
        thread.start()
        thread.join()
    taken = watch.take()
    assert taken.beside == {"look-up": 4}
    assert taken.steps == {"stage": 4}


def test_work_is_carried_as_it_is_where_nobody_measures():
    def work():
        return 1

    assert clock.carried(work) is work
