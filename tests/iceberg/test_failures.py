"""What Iceberg raises becomes one of our errors."""

from __future__ import annotations

import pytest

from calve.errors import Conflict, Moved, Unavailable
from calve.iceberg.failures import _translate

PACKAGE = "org.apache.iceberg.exceptions"


def test_a_server_that_is_away_is_told_by_the_cause_and_not_by_the_request():
    text = (
        f"{PACKAGE}.RESTException: Error occurred while processing GET request\n\tat x.Y.z(Y.java:1)\n"
        "Caused by: java.net.ConnectException: Connection refused"
    )
    error = _translate(text, "reach it")
    assert type(error) is Unavailable
    assert str(error) == "Cannot reach it: Connection refused"


@pytest.mark.parametrize(
    "said",
    [
        "Cannot commit, missing data files: [a.parquet]",
        "Found conflicting files that can contain records matching true: [a.parquet]",
        "Found concurrently added DV for a.parquet",
    ],
)
def test_a_look_up_that_is_no_longer_right_is_told_apart_from_a_lost_race(said):
    assert type(_translate(f"{PACKAGE}.ValidationException: {said}", "commit")) is Moved
    assert type(_translate(f"{PACKAGE}.CommitFailedException: {said}", "commit")) is Conflict
