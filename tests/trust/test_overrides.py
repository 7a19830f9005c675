"""Settings that a catalog sends."""

from __future__ import annotations

from typing import Any

import pytest

from calve import redaction
from calve.errors import ConfigurationError
from calve.trust import Policy, overrides

DECLARED = {
    "uri": "https://catalog.lan/api",
    "warehouse": "lake",
    "token": "t",
    "s3.endpoint": "https://s3.lan",
}
POLICY = Policy(
    catalog="the rest catalog",
    uris=("https://catalog.lan/api",),
    hosts=("auth.lan", "catalog.lan"),
    store_hosts=("s3.lan",),
    has_secrets=True,
    vended=True,
)
OWN = Policy(**{**POLICY.__dict__, "own_credentials": True, "vended": False})


def refusals(policy: Policy = POLICY, *, final: bool = False, **sent: str) -> list[str]:
    named = {name.replace("__", "."): value for name, value in sent.items()}
    told = {name.replace("_", "-"): value for name, value in named.items()}
    return list(overrides.refusals(policy, {**DECLARED, **told}, DECLARED, is_final=final))


@pytest.mark.parametrize(
    "sent",
    [
        {},
        {"uri": "https://catalog.lan/api/v2/catalog"},
        {"oauth2-server-uri": "https://auth.lan/token"},
        {"oauth2-server-uri": "v1/oauth/tokens"},
        {"client.refresh-credentials-endpoint": "/v1/credentials"},
        {"rest.remote-signing.endpoint": "v1/lake/sign"},
        {"s3.signer.uri": "https://catalog.lan"},
        {"s3.endpoint": "https://s3.eu-west-1.amazonaws.com"},
        {"s3.endpoint": "https://catalog.lan:9000"},
        {"io-impl": "org.apache.iceberg.aws.s3.S3FileIO"},
        {"rest.auth.type": "oauth2"},
        {"prefix": "lake", "warehouse": "s3://bucket/lake", "token": "theirs", "rest-page-size": "10"},
        {"nessie.iceberg-base-uri": "https://elsewhere.lan/iceberg"},
    ],
)
def test_what_a_catalog_may_say(sent: dict[str, str]) -> None:
    assert list(overrides.refusals(OWN, {**DECLARED, **sent}, DECLARED, is_final=True)) == []


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("uri", "https://evil.example", "which the declaration does not name"),
        ("uri", "//evil.example/api", "which the declaration does not name"),
        ("uri", "https://catalog.lan@evil.example", "which the declaration does not name"),
        ("uri", "https://catalog.lan.evil.example", "which the declaration does not name"),
        ("uri", "http://catalog.lan/api", "by plain http"),
        ("uri", "file:///etc/passwd", "which the declaration does not name"),
        ("oauth2-server-uri", "https://evil.example/t", "which the declaration does not name"),
        ("oauth2-server-uri", "HTTPS://EVIL.example/t", "which the declaration does not name"),
        ("s3.signer.uri", "https://evil.example", "which the declaration does not name"),
        ("signer.uri", "https://evil.example", "which the declaration does not name"),
        ("s3.signer.endpoint", "https://evil.example/sign", "which the declaration does not name"),
        ("rest.remote-signing.endpoint", "https://evil.example/sign", "which the declaration does not name"),
        ("credentials.uri", "https://evil.example", "which the declaration does not name"),
        (
            "client.refresh-credentials-endpoint",
            "https://evil.example",
            "which the declaration does not name",
        ),
        ("gcs.oauth2.refresh-credentials-endpoint", "https://evil.example", "does not name"),
        ("adls.refresh-credentials-endpoint", "https://evil.example", "does not name"),
        ("uri", "http://169.254.169.254/latest", "tells its machines their credentials"),
        ("s3.endpoint", "http://[fd00:ec2::254]/", "tells its machines their credentials"),
        ("x.unknown", "http://metadata.google.internal", "tells its machines their credentials"),
        ("io-impl", "com.evil.FileIO", "we load no code at its word"),
        ("metrics-reporter-impl", "com.evil.X", "we load no code at its word"),
        ("client.factory", "com.evil.X", "we load no code at its word"),
        ("client.credentials-provider", "com.evil.X", "we load no code at its word"),
        ("s3.client-factory-impl", "com.evil.X", "we load no code at its word"),
        ("rest.auth.type", "com.evil.Manager", "we load no code at its word"),
        ("rest.client.tls.configurer-impl", "com.evil.X", "we load no code at its word"),
        ("rest.client.proxy.hostname", "evil.example", "every request would go there"),
    ],
)
def test_what_a_catalog_may_not_say(name: str, value: str, why: str) -> None:
    (found,) = overrides.refusals(POLICY, {**DECLARED, name: value}, DECLARED, is_final=False)
    assert why in found
    assert f"'{name}'" in found
    with pytest.raises(ConfigurationError, match=r"Cannot use the rest catalog: it wants"):
        overrides.refuse(POLICY, {name: value}, DECLARED)
    with pytest.raises(ConfigurationError, match=r"Cannot load table 'shop.orders': it wants"):
        overrides.refuse(POLICY, {name: value}, DECLARED, table="shop.orders")


def test_our_credentials_of_the_store_are_for_its_declared_host() -> None:
    (why,) = refusals(OWN, s3__endpoint="https://other.lan")
    assert "credentials of the store are not for it" in why


def test_a_store_of_the_catalogs_own_needs_credentials_of_its_own() -> None:
    endpoint = {"s3__endpoint": "https://other.lan"}
    assert refusals(**endpoint) == []
    (why,) = refusals(final=True, **endpoint)
    assert "gives no credentials for it" in why
    assert refusals(final=True, **endpoint, s3__access_key_id="theirs") == []
    assert refusals(final=True, gcs__service__host="https://other.lan", gcs__oauth2__token="theirs") == []


def test_plain_http_may_be_allowed() -> None:
    allowed = Policy(**{**POLICY.__dict__, "insecure": True})
    assert refusals(allowed, uri="http://catalog.lan/api") == []


def test_vended_secrets_are_taken_out_of_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    remembered: list[Any] = []
    monkeypatch.setattr(overrides, "remember", lambda value, passing: remembered.append(value))
    overrides.remember_secrets(
        {"s3.secret-access-key": "a", "s3.session-token": "b", "adls.sas-token.x": "c", "s3.endpoint": "d"}
    )
    assert remembered == ["a", "b", "c"]
    assert redaction.redacted("theirs") == "theirs"
