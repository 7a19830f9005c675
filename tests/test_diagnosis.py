"""What went wrong, from what servers and clients say."""

from __future__ import annotations

import pytest

from calve import diagnosis
from calve.errors import (
    CalveError,
    ConfigurationError,
    Conflict,
    NotPermitted,
    Unavailable,
)

SAID = [
    ("connection refused", 69, "Cannot connect to 'localhost:8181': connection refused"),
    (
        "connection refused",
        69,
        "org.apache.hc.client5.http.HttpHostConnectException: Connect to http://h:1 failed",
    ),
    ("connection refused", 69, "java.net.ConnectException: Connection refused"),
    ("connection refused", 69, "Could not connect to meta store using any of the URIs provided"),
    ("DNS", 69, "java.net.UnknownHostException: no-such-host.example.org"),
    ("DNS", 69, "Cannot resolve 'catalog.lan': the name is not known"),
    ("TLS", 69, "javax.net.ssl.SSLHandshakeException: PKIX path building failed"),
    ("TLS", 69, "Cannot trust 'catalog.lan': its certificate is refused: self-signed certificate"),
    ("TLS", 69, "javax.net.ssl.SSLException: Unsupported or unrecognized SSL message"),
    ("no answer", 69, "java.net.SocketTimeoutException: Read timed out"),
    (
        "unauthorized",
        77,
        "org.apache.iceberg.exceptions.NotAuthorizedException: Not authorized: Unauthorized",
    ),
    ("unauthorized", 77, "'catalog.lan' answers 401: who are you?"),
    (
        "unauthorized",
        77,
        "InvalidAccessKeyId: unknown (Service: S3, Status Code: 403)",
    ),
    ("unauthorized", 77, "SignatureDoesNotMatch (Service: S3, Status Code: 403, Request ID: x)"),
    ("unauthorized", 77, 'FATAL: password authentication failed for user "lake"'),
    ("forbidden", 77, "Access Denied (Service: S3, Status Code: 403, Request ID: x)"),
    ("forbidden", 77, "org.apache.iceberg.exceptions.ForbiddenException: Forbidden: not yours"),
    ("bucket missing", 78, "The specified bucket does not exist (Service: S3, Status Code: 404)"),
    ("bucket missing", 78, "software.amazon.awssdk.services.s3.model.NoSuchBucketException: null"),
    ("bucket missing", 78, "Status code 404, ContainerNotFound: The specified container does not exist."),
    ("path style", 78, "java.net.UnknownHostException: lake.localhost"),
    ("path style", 78, "UnknownHostException: lake.127.0.0.1"),
    ("path style", 78, "UnknownHostException: warehouse.minio"),
    (
        "clock skew",
        77,
        "The difference between the request time and the current time is too large. (Status Code: 403)",
    ),
    ("clock skew", 77, "RequestTimeTooSkewed"),
    ("clock skew", 77, "Signature expired: 20260101T000000Z is now earlier than 20260101T010000Z"),
    (
        "wrong region",
        78,
        "The authorization header is malformed; the region 'us-east-1' is wrong; expecting 'eu-west-1'",
    ),
    (
        "wrong region",
        78,
        "The bucket must be addressed using the specified endpoint",
    ),
    ("no region", 78, "Unable to load region from any of the providers in the chain"),
    ("no instance credentials", 77, "Unable to load credentials from any of the providers in the chain"),
    ("warehouse unknown", 78, "Cannot use the rest catalog: 'h' answers 400: Warehouse 'x' not found"),
    ("warehouse unknown", 78, "Unable to find warehouse nope"),
    (
        "namespace missing",
        78,
        "org.apache.iceberg.exceptions.NoSuchNamespaceException: Namespace does not exist: shop",
    ),
    ("schema mismatch", 78, "the rows have other columns, and 'schema_evolution: strict' refuses them"),
    ("schema mismatch", 78, "Schema evolution not allowed in strict mode"),
    ("commit conflict", 75, "Commit conflict - table was modified concurrently"),
    (
        "commit conflict",
        75,
        "org.apache.iceberg.exceptions.CommitFailedException: Commit failed: Requirement failed",
    ),
    ("throttled", 75, "Please reduce your request rate. (Service: S3, Status Code: 503) SlowDown"),
    ("not a catalog", 78, "'h' does not answer as a catalog of Iceberg's REST protocol does"),
    ("plain http", 78, "credentials would go to 'h' by plain http, where others can read them"),
    ("led astray", 78, "it wants 'uri' to be at 'evil', which the declaration does not name"),
    ("led astray", 78, "the catalog sends us elsewhere (302), which is not followed"),
    ("outside of the warehouse", 78, "it lies in 's3://evil', outside of the warehouse"),
    ("jar missing", 78, "it is in an object store; tell the sink which one, with 's3', 'gcs' or 'azure'"),
]


@pytest.mark.parametrize(
    ("name", "code", "text"), SAID, ids=[f"{name}: {text[:40]}" for name, _, text in SAID]
)
def test_what_is_said_is_understood(name: str, code: int, text: str) -> None:
    found = diagnosis.diagnose(text)
    assert found is not None
    assert (found.name, found.exit_code) == (name, code)


def test_everything_that_is_known_has_a_cause_and_advice_in_one_line_and_a_code() -> None:
    for one in diagnosis.TABLE:
        assert one.cause
        assert one.advice
        assert "\n" not in one.cause + one.advice
        assert one.exit_code in (69, 75, 77, 78)
    assert len({one.name for one in diagnosis.TABLE}) == len(diagnosis.TABLE)
    assert {one.exit_code for one in diagnosis.TABLE} == {69, 75, 77, 78}


def test_every_sign_is_tried_by_an_example() -> None:
    tried = {name for name, _, _ in SAID}
    assert {one.name for one in diagnosis.TABLE} - tried == {"account missing"}


@pytest.mark.parametrize(
    ("status", "name"),
    [(401, "unauthorized"), (403, "forbidden"), (409, "commit conflict"), (429, "throttled")],
)
def test_a_status_tells_where_words_do_not(status: int, name: str) -> None:
    found = diagnosis.diagnose("something", status)
    assert found is not None
    assert found.name == name
    assert diagnosis.diagnose("something", 418) is None
    assert diagnosis.diagnose("something") is None


@pytest.mark.parametrize(
    ("error", "name", "code"),
    [
        (NotPermitted("x"), "refused", 77),
        (Conflict("x"), "commit conflict", 75),
        (Unavailable("x"), "unavailable", 69),
        (ConfigurationError("x"), "other", 78),
        (CalveError("x"), "other", 70),
        (ValueError("x"), "other", 70),
    ],
)
def test_an_error_that_says_nothing_is_known_by_its_kind(error: Exception, name: str, code: int) -> None:
    found = diagnosis.of_error(error)
    assert (found.name, found.exit_code) == (name, code)


def caused_by(text: str) -> Unavailable:
    error = Unavailable("Cannot reach the catalog")
    error.__cause__ = RuntimeError(text)
    return error


def test_the_causes_of_an_error_are_heard_too() -> None:
    text = "An error occurred\n: x\nCaused by: java.net.UnknownHostException: nowhere.example.org"
    assert diagnosis.of_error(caused_by(text)).name == "DNS"


def test_numbers_in_a_stack_trace_are_no_status() -> None:
    trace = "x\n\tat org.apache.iceberg.rest.Forbidden.get(HTTPClient.java:401)\n\t... 403 more\n"
    assert diagnosis.of_error(caused_by(trace)).name == "unavailable"
