"""Whom a declaration trusts."""

from __future__ import annotations

from typing import Any

import pytest

from calve import trust
from calve.catalogs import Catalog
from calve.errors import ConfigurationError
from calve.sink.declaration import IcebergSink
from calve.trust import Policy


def catalog(keys: dict[str, Any], **stores: Any) -> Catalog:
    sink = {"namespace": "n", "table": "t", "catalog": keys, **stores}
    return IcebergSink.model_validate(sink, context={"directory": "/project"}).catalog


def rest(uri: str = "https://catalog.example.org/api", **keys: Any) -> dict[str, Any]:
    return {"type": "rest", "rest": {"uri": uri, **keys}}


def test_the_policy_of_a_catalog_behind_rest() -> None:
    declared = catalog(
        rest(credential="id:geheim", oauth2_server_uri="https://auth.example.org/t", allowed_hosts=["S3.lan"])
        | {"allowed_locations": ["s3://more"]},
        s3={"endpoint": "https://store.lan", "access_key_id": "a", "secret_access_key": "b"},
    )
    found = trust.of(declared)
    assert found == Policy(
        catalog="the rest catalog at https://catalog.example.org/api",
        uris=("https://catalog.example.org/api",),
        hosts=("auth.example.org", "catalog.example.org", "s3.lan"),
        store_hosts=("s3.lan", "store.lan"),
        own_credentials=True,
        vended=False,
        has_secrets=True,
        insecure=False,
        roots=("s3://more",),
        local=False,
    )
    assert Policy.from_json(found.to_json()) == found
    assert "geheim" not in found.to_json()


def test_the_policy_of_other_catalogs() -> None:
    embedded = trust.of(catalog({}))
    assert (embedded.uris, embedded.roots, embedded.local) == ((), ("/project/warehouse",), True)
    named = trust.of(catalog(rest("http://localhost:1", warehouse="tabular://org/lake")))
    assert (named.roots, named.local, named.vended, named.has_secrets) == ((), True, True, False)
    placed = trust.of(catalog(rest(warehouse="s3://lake/wh")))
    assert placed.roots == ("s3://lake/wh",)


@pytest.mark.parametrize(
    "declared",
    [
        catalog(rest("http://polaris:8181", credential="token")),
        catalog(rest("http://catalog.example.org", credential="id:geheim")),
        catalog(rest("http://catalog.example.org", username="me", password="geheim")),
        catalog(rest("http://catalog.example.org", headers={"X-Api-Key": "geheim"})),
        catalog(rest(credential="id:geheim", oauth2_server_uri="http://auth.example.org")),
        catalog(rest(["https://a", "http://b"], credential="token")),
        catalog({"type": "nessie", "nessie": {"uri": "http://n/api/v2", "token": "t"}, "warehouse": "/w"}),
        catalog(
            rest(),
            s3={"endpoint": "http://s3", "access_key_id": "a", "secret_access_key": "b"}
            | {"session_token": "c"},
        ),
        catalog(rest(), azure={"storage_account": "lake", "sas_token": "x", "endpoint": "http://azure"}),
        catalog(rest(), gcs={"endpoint": "http://gcs"}),
    ],
)
def test_credentials_do_not_go_by_plain_http_to_another_machine(declared: Catalog) -> None:
    with pytest.raises(ConfigurationError, match=r"by plain http, .*allow_insecure: true") as caught:
        trust.refuse_open(declared)
    assert "geheim" not in str(caught.value)


@pytest.mark.parametrize(
    "declared",
    [
        catalog(rest("http://localhost:8181", credential="token")),
        catalog(rest("http://127.0.0.1:8181", credential="id:geheim")),
        catalog(rest("http://catalog.example.org")),
        catalog(rest(credential="token")),
        catalog(rest("http://catalog.example.org", credential="token") | {"allow_insecure": True}),
        catalog(rest(), s3={"endpoint": "http://minio:9000", "access_key_id": "a", "secret_access_key": "b"}),
        catalog(rest(), gcs={"endpoint": "http://gcs", "allow_insecure": True}),
        catalog({}),
    ],
)
def test_what_nobody_can_read_on_the_way_is_sent(declared: Catalog) -> None:
    trust.refuse_open(declared)


@pytest.mark.parametrize("uri", ["http://169.254.169.254/latest", "https://metadata.google.internal"])
def test_where_a_cloud_tells_credentials_is_no_catalog(uri: str) -> None:
    with pytest.raises(ConfigurationError, match=r"instance_credentials"):
        trust.refuse_open(catalog(rest(uri)))
