"""Which tombstones are forgotten, without Spark."""

import datetime as dt

from calve.sink.tombstones import first_remembered

WEEK = 7 * 86400
LAST = dt.datetime(2026, 11, 18, 8, tzinfo=dt.timezone.utc)


def remembered(now):
    return first_remembered(now, round(LAST.timestamp() * 1000), WEEK)


def test_tombstones_go_by_the_day_when_they_are_old_enough():
    assert remembered(LAST) == "2026-11-11T00:00:00+00:00"


def test_a_clock_that_is_ahead_forgets_no_more_than_the_last_write_to_the_table_allows():
    assert remembered(LAST + dt.timedelta(days=4000)) == "2026-11-11T00:00:00+00:00"


def test_a_clock_that_is_behind_forgets_less():
    assert remembered(LAST - dt.timedelta(days=1)) == "2026-11-10T00:00:00+00:00"
