"""Settings that a catalog sends."""

from __future__ import annotations

import socket
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


@pytest.fixture(autouse=True)
def names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of hosts that stand for an address, without a server that knows them."""
    found = [(2, 1, 6, "", ("192.0.2.7", 0))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)


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
        {"s3.access-key-id": "a", "s3.secret-access-key": "b", "s3.session-token": "c"},
        {"s3.session-token-expires-at-ms": "1", "s3.path-style-access": "true", "s3.region": "eu"},
        {
            "client.region": "eu",
            "s3.cross-region-access-enabled": "true",
            "s3.remote-signing-enabled": "true",
        },
        {"gcs.oauth2.token": "a", "gcs.oauth2.token-expires-at": "1", "gcs.project-id": "p"},
        {"adls.sas-token.account.dfs.core.windows.net": "a", "adls.sas-token-expires-at-ms.account": "1"},
        {"http-client.apache.socket-timeout-ms": "1", "s3.retry.num-retries": "3"},
        {"rest.client.socket-timeout-ms": "1", "rest.namespace-separator": "%1F"},
        {"header.X-Iceberg-Access-Delegation": "vended-credentials"},
        {"s3.delete-enabled": "false"},
        {"polaris.config.x": "y", "default-base-location": "s3://lake/wh", "cache-enabled": "false"},
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
        ("http-client.proxy-endpoint", "http://evil.example:3128", "every request would go there"),
        ("write.location-provider.impl", "com.evil.X", "we load no code at its word"),
        ("table-default.write.location-provider.impl", "com.evil.X", "we load no code at its word"),
        *(
            (name, value, "add it to 'allowed_properties'")
            for name, value in {
                "s3.access-points.bucket": "arn:aws:s3:us-east-1:1:accesspoint/evil",
                "s3.acl": "public-read",
                "s3.sse.type": "custom",
                "s3.sse.key": "theirs",
                "s3.staging-dir": "/etc/cron.d",
                "s3.write.storage-class": "GLACIER",
                "s3.delete-enabled": "true",
                "s3.unknown-of-the-next-release": "x",
                "gcs.impersonate.service-account": "evil@evil.iam",
                "gcs.encryption-key": "theirs",
                "gcs.user-project": "ours",
                "header.Cookie": "",
                "header.Authorization": "Bearer theirs",
                "rest.auth.sigv4.delegate-auth-type": "com.evil.Manager",
                "hadoop.fs.file.impl.disable.cache": "true",
            }.items()
        ),
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


def test_a_declaration_may_allow_further_settings_but_no_code() -> None:
    allowing = Policy(**{**POLICY.__dict__, "properties": ("s3.sse.*", "s3.client-factory-impl")})
    sent = {"s3.sse.type": "kms", "s3.sse.key": "arn:aws:kms:us-east-1:1:key/x"}
    assert list(overrides.refusals(allowing, sent, DECLARED, is_final=False)) == []
    (why,) = overrides.refusals(allowing, {"s3.client-factory-impl": "com.evil.X"}, DECLARED, is_final=False)
    assert "we load no code" in why


def test_a_name_that_leads_to_a_metadata_address_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [(2, 1, 6, "", ("169.254.169.254", 0))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    (why,) = refusals(s3__endpoint="https://harmless.example")
    assert "tells its machines their credentials" in why
