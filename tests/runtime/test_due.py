import pytest

from calve.runtime.due import POLL, Thresholds, is_due, pause
from calve.sources.source import Waiting

LIMITS = Thresholds(rows=100, seconds=60, bytes=1000)


def waiting(rows, size=0, **flags):
    return Waiting({}, rows, size, **flags)


@pytest.mark.parametrize(
    ("case", "elapsed", "due"),
    [
        (waiting(0), 3600, False),
        (waiting(99), 59, False),
        (waiting(100), 0, True),
        (waiting(1), 60, True),
        (waiting(1, 999), 0, False),
        (waiting(1, 1000), 0, True),
        (waiting(1, more=True), 0, True),
        (waiting(1, ended=True), 0, True),
        (waiting(0, ended=True), 3600, False),
    ],
)
def test_a_commit_is_due_by_rows_bytes_or_time_and_never_without_rows(case, elapsed, due):
    assert is_due(case, LIMITS, elapsed) is due


def test_without_a_minimum_size_bytes_do_not_count():
    assert not is_due(waiting(1, 10**9), Thresholds(100, 60), 0)


def test_a_run_that_is_to_end_takes_what_is_there():
    assert is_due(waiting(1), LIMITS, 0, at_once=True)
    assert not is_due(waiting(0), LIMITS, 0, at_once=True)


@pytest.mark.parametrize(
    ("rows", "left", "seconds"), [(0, 0.2, POLL), (1, 0.2, 0.2), (1, 30, POLL), (1, -1, 0.05)]
)
def test_what_waits_is_looked_at_again_when_it_is_due(rows, left, seconds):
    assert pause(waiting(rows), left) == seconds
