"""Catalogs and stores: declared keys become Spark properties."""

from __future__ import annotations

from typing import Any

import pytest

from calve.catalogs import Catalog, embedded
from calve.model import Secret
from calve.stores import S3, Azure, Gcs


def catalog(**keys: Any) -> Catalog:
    return Catalog.model_validate(keys, context={"directory": "/project"})


def rest(**keys: Any) -> Catalog:
    return catalog(type="rest", rest={"uri": "http://localhost:8181", **keys})


def test_the_embedded_catalog_is_sqlite_beside_the_declaration() -> None:
    found = embedded("/project")
    assert found == catalog()
    assert found.spark_name() == "calve"
    assert found.jars == ("sqlite",)
    assert found.spark_properties() == {
        "type": "jdbc",
        "uri": "jdbc:sqlite:/project/warehouse/catalog.db?busy_timeout=30000",
        "jdbc.schema-version": "V1",
        "warehouse": "/project/warehouse",
        "cache-enabled": "false",
    }
    assert found.description() == "the embedded catalog in /project/warehouse"


def test_the_embedded_catalog_can_lie_elsewhere() -> None:
    assert catalog(warehouse="lake").spark_properties()["warehouse"] == "/project/lake"


def test_rest_properties_are_passed_on() -> None:
    found = rest(warehouse="prod", properties={"scope": "all", "rest.sigv4-enabled": True})
    assert found.flaws() == []
    assert found.jars == ()
    assert found.spark_properties() == {
        "type": "rest",
        "uri": "http://localhost:8181",
        "warehouse": "prod",
        "scope": "all",
        "rest.sigv4-enabled": "true",
        "cache-enabled": "false",
    }


def test_the_warehouse_of_a_rest_catalog_is_a_name_wherever_it_is_given() -> None:
    found = catalog(type="rest", rest={"uri": "http://localhost:8181"}, warehouse="prod")
    assert found.spark_properties()["warehouse"] == "prod"


@pytest.mark.parametrize(("credential", "key"), [("id:secret", "credential"), ("bearer", "token")])
def test_a_credential_with_a_colon_is_for_oauth_and_one_without_is_a_token(credential: str, key: str) -> None:
    properties = rest(credential=credential).spark_properties()
    assert properties[key] == credential
    assert {"credential", "token"} & set(properties) == {key}


def test_hadoop_needs_a_warehouse() -> None:
    assert catalog(type="hadoop", warehouse="lake").spark_properties() == {
        "type": "hadoop",
        "warehouse": "/project/lake",
        "cache-enabled": "false",
    }
    assert [flaw.path for flaw in catalog(type="hadoop").flaws()] == [("warehouse",)]


def test_memory_is_a_database_in_the_process() -> None:
    found = catalog(type="memory", warehouse="/tmp/lake")
    properties = found.spark_properties()
    assert properties["uri"].startswith("jdbc:sqlite:file:calve_")
    assert properties["uri"].endswith("?mode=memory&cache=shared")
    assert (properties["clients"], properties["warehouse"]) == ("1", "/tmp/lake")
    assert found.jars == ("sqlite",)
    assert properties["uri"] != catalog(type="memory", warehouse="/tmp/other").spark_properties()["uri"]


def test_the_name_in_spark_is_the_same_for_the_same_catalog_whatever_its_secrets() -> None:
    one, other = (
        rest(credential="a:b", properties={"token-x": "1"}),
        rest(credential="c", properties={"token-x": "2"}),
    )
    assert one.spark_name() == other.spark_name()
    assert one.spark_name().startswith("calve_")
    assert len(one.spark_name()) == len("calve_") + 8
    assert one.spark_name() != rest(warehouse="other").spark_name()


@pytest.mark.parametrize(
    ("declared", "description"),
    [
        (rest(credential="geheim"), "the rest catalog at http://localhost:8181"),
        (rest(uri="https://me:geheim@host/api?token=geheim"), "the rest catalog at https://host/api"),
        (
            catalog(
                type="jdbc",
                jdbc={"uri": "jdbc:postgresql://me:geheim@db/lake?password=geheim"},
                warehouse="/w",
            ),
            "the jdbc catalog at jdbc:postgresql://db/lake",
        ),
        (catalog(type="hadoop", warehouse="/w"), "the hadoop catalog at /w"),
        (catalog(type="glue", warehouse="s3://w"), "the glue catalog at s3://w"),
    ],
)
def test_the_description_has_no_secrets(declared: Catalog, description: str) -> None:
    assert declared.description() == description


def test_secrets_do_not_show() -> None:
    shown = repr(rest(credential="geheim", properties={"header.X": "geheim"}))
    assert "geheim" not in shown


@pytest.mark.parametrize(
    ("keys", "properties"),
    [
        (
            {"type": "glue", "glue": {"region": "eu", "catalog_id": "1"}, "warehouse": "s3://w"},
            {"type": "glue", "glue.id": "1", "client.region": "eu", "warehouse": "s3://w"},
        ),
        (
            {"type": "hive", "hive": {"uri": "thrift://h:9083", "warehouse": "hdfs:///w"}},
            {"type": "hive", "uri": "thrift://h:9083", "warehouse": "hdfs:///w"},
        ),
        (
            {"type": "jdbc", "jdbc": {"uri": "jdbc:x", "user": "u", "password": "p"}, "warehouse": "s3://w"},
            {
                "type": "jdbc",
                "uri": "jdbc:x",
                "jdbc.schema-version": "V1",
                "jdbc.user": "u",
                "jdbc.password": "p",
            }
            | {"warehouse": "s3://w"},
        ),
        (
            {"type": "nessie", "nessie": {"uri": "http://n", "token": "t"}, "warehouse": "s3://w"},
            {"type": "nessie", "uri": "http://n", "ref": "main", "warehouse": "s3://w"}
            | {"authentication.type": "BEARER", "authentication.token": "t"},
        ),
        (
            {"type": "s3tables", "s3tables": {"arn": "arn:aws:s3tables:eu-west-1:1:bucket/b"}},
            {
                "type": "rest",
                "uri": "https://s3tables.eu-west-1.amazonaws.com/iceberg",
                "warehouse": "arn:aws:s3tables:eu-west-1:1:bucket/b",
                "rest.auth.type": "sigv4",
                "rest.signing-name": "s3tables",
                "rest.signing-region": "eu-west-1",
            },
        ),
    ],
)
def test_every_type_has_its_properties(keys: dict[str, Any], properties: dict[str, str]) -> None:
    found = catalog(**keys)
    assert found.flaws() == []
    assert found.spark_properties() == {**properties, "cache-enabled": "false"}


@pytest.mark.parametrize(
    ("keys", "path", "message"),
    [
        ({"type": "rest"}, ("rest",), "required key is missing: 'type: rest' needs it"),
        ({"type": "memory"}, ("warehouse",), "required key is missing: 'type: memory' needs it"),
        ({"rest": {"uri": "http://x"}}, ("rest",), "has no effect: it belongs to 'type: rest'"),
        (
            {"type": "rest", "rest": {"uri": "http://x", "warehouse": "a"}, "warehouse": "b"},
            ("warehouse",),
            "is given twice; leave it here or in 'rest'",
        ),
        (
            {"type": "rest", "rest": {"uri": "http://x", "properties": {"warehouse": "a"}}},
            ("rest", "properties", "warehouse"),
            "has its own key in the declaration; use that",
        ),
        (
            {"type": "s3tables", "s3tables": {"arn": "a"}, "warehouse": "b"},
            ("warehouse",),
            "has no effect: the table bucket is the warehouse",
        ),
        (
            {"warehouse": "s3://bucket"},
            ("warehouse",),
            "is not a directory of this machine; the embedded catalog needs one",
        ),
    ],
)
def test_what_contradicts_is_a_flaw(keys: dict[str, Any], path: tuple[str, ...], message: str) -> None:
    assert [(flaw.path, flaw.message) for flaw in catalog(**keys).flaws()] == [(path, message)]


@pytest.mark.parametrize(
    ("type_", "uri"),
    [("rest", "localhost:8181"), ("hive", "http://h"), ("jdbc", "postgres://x"), ("nessie", "x")],
)
def test_an_address_names_its_scheme(type_: str, uri: str) -> None:
    with pytest.raises(ValueError, match="not an address; it begins with"):
        catalog(**{"type": type_, type_: {"uri": uri}, "warehouse": "/w"})


def test_stores_become_properties_of_file_io() -> None:
    secret = Secret("geheim")
    s3 = S3(
        region="eu",
        endpoint="http://s3",
        access_key_id=secret,
        secret_access_key=secret,
        path_style_access=True,
    )
    assert s3.file_io() == {
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "client.region": "eu",
        "s3.endpoint": "http://s3",
        "s3.access-key-id": "geheim",
        "s3.secret-access-key": "geheim",
        "s3.path-style-access": "true",
    }
    assert S3().file_io() == {"io-impl": "org.apache.iceberg.aws.s3.S3FileIO"}
    assert Gcs(project_id="p").file_io()["gcs.project-id"] == "p"
    assert Azure(storage_account="a").file_io() == {"io-impl": "org.apache.iceberg.azure.adlsv2.ADLSFileIO"}
    assert (
        Azure(storage_account="a", access_key=secret).file_io()["adls.auth.shared-key.account.key"]
        == "geheim"
    )
