"""What Iceberg raises becomes one of our errors."""

from __future__ import annotations

import errno

import pytest

from calve.errors import (
    ConfigurationError,
    Conflict,
    Moved,
    NotPermitted,
    StartRefused,
    TableGone,
    Unavailable,
)
from calve.iceberg.failures import _translate, reading_files, translated
from calve.model import Secret

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


@pytest.mark.parametrize(
    "said",
    [
        f"{PACKAGE}.ValidationException: Cannot determine history between starting snapshot 1 and 2",
        f"{PACKAGE}.ValidationException: Cannot find snapshot with ID 7",
        "java.lang.IllegalArgumentException: Snapshot 7 is not an ancestor of 9",
    ],
)
def test_a_snapshot_that_expired_under_a_commit_is_looked_up_again(said):
    assert type(_translate(said, "commit")) is Moved


def test_a_file_that_expired_is_a_reason_to_look_again_where_it_is_one_of_the_table():
    error = RuntimeError(f"{PACKAGE}.NotFoundException: Failed to open input stream for file: /lake/t/m.avro")
    for within, kind in (("", Moved), ("/lake/t", Moved), ("/lake/s", ConfigurationError)):
        with pytest.raises(kind), reading_files("look", within):
            raise foreign(error)
    with pytest.raises(Moved), reading_files("look"):
        raise FileNotFoundError("t/data.parquet")


def foreign(error):
    from py4j.protocol import Py4JError

    return Py4JError(str(error))


def test_a_table_that_was_made_anew_and_one_that_is_gone_are_told_apart():
    other = _translate("java.lang.IllegalStateException: Table UUID does not match: current=1 != 2", "go on")
    assert (type(other), other.exit_code) == (StartRefused, 65)
    none = _translate(f"{PACKAGE}.NoSuchTableException: Table does not exist: s.t", "go on with table 's.t'")
    assert (type(none), none.exit_code) == (TableGone, 78)
    assert str(none).startswith("Cannot go on with table 's.t': it is no longer there")


def test_a_format_that_was_upgraded_under_a_commit_costs_an_attempt():
    said = f"{PACKAGE}.BadRequestException: Malformed request: Cannot add a snapshot: first-row-id is null"
    assert type(_translate(said, "commit")) is Conflict


@pytest.mark.parametrize("code", [301, 302, 307, 308])
def test_a_redirect_that_is_not_followed_is_not_waited_for(code):
    error = _translate(f"{PACKAGE}.RESTException: Unable to process (code: {code}, type: null): ", "load it")
    assert type(error) is ConfigurationError
    assert str(error).startswith(f"Cannot load it: the catalog sends us elsewhere ({code})")
    assert (
        type(_translate(f"{PACKAGE}.RESTException: Unable to process (code: 418, type: x): y", "z"))
        is Unavailable
    )


@pytest.mark.parametrize(
    "said",
    [
        "Cannot initialize FileIO implementation com.evil.FileIO: Cannot find constructor",
        "Cannot initialize FileIO, com.evil.FileIO does not implement FileIO.",
    ],
)
def test_code_that_a_catalog_wants_is_named(said):
    error = _translate(f"java.lang.IllegalArgumentException: {said}", "load it")
    assert type(error) is ConfigurationError
    assert "wants 'io-impl' to be 'com.evil.FileIO'" in str(error)


def test_a_store_whose_jars_are_missing_is_to_be_declared():
    said = (
        "Cannot initialize FileIO implementation org.apache.iceberg.aws.s3.S3FileIO: Cannot find constructor"
    )
    error = _translate(f"java.lang.IllegalArgumentException: {said}", "load it")
    assert "with 's3', 'gcs' or 'azure'" in str(error)


def test_a_secret_that_a_server_sends_back_is_not_told():
    secret = Secret("a-token-that-nobody-may-see").reveal()
    error = _translate(f"{PACKAGE}.NotAuthorizedException: Not authorized: {secret} is unknown", "reach it")
    assert str(error) == "Cannot reach it: Not authorized: *** is unknown"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "a.parquet"), Unavailable),
        (PermissionError(errno.EACCES, "Permission denied", "a.parquet"), NotPermitted),
        (OSError(errno.EROFS, "Read-only file system", "a.parquet"), Unavailable),
        (OSError("When writing: AWS Error ACCESS_DENIED during PutObject"), NotPermitted),
    ],
)
def test_an_error_of_a_disk_is_one_of_ours(error, kind):
    said = r"Cannot write files: .*(device|denied|Read-only|DENIED)"
    with pytest.raises(kind, match=said), translated("write files"):
        raise error


def test_a_broken_connection_to_java_is_no_error_of_a_disk():
    with pytest.raises(ConnectionResetError), translated("write files"):
        raise ConnectionResetError
