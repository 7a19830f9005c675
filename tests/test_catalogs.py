"""Catalogs: declared keys become Spark properties."""

from __future__ import annotations

from typing import Any

import pytest

from calve.catalogs import Catalog, embedded
from calve.catalogs.rest import bounded
from calve.sink.declaration import IcebergSink
from calve.stores import S3, Gcs, Stores

HEADERS = {"header.Cookie": "calve=1", "header.X-Iceberg-Access-Delegation": "vended-credentials"}
TIMEOUTS = {"rest.client.connection-timeout-ms": "30000", "rest.client.socket-timeout-ms": "60000"}
S3_IO = {"io-impl": "org.apache.iceberg.aws.s3.S3FileIO"}
BUCKET = "arn:aws:s3tables:eu-west-1:1:bucket/b"
ROLE = "arn:aws:iam::1:role/lake"


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


def test_no_answer_is_waited_for_longer_than_asked() -> None:
    given = rest(connect_timeout="2s").spark_properties()
    shorter = bounded(given, 5.0)
    assert shorter["rest.client.connection-timeout-ms"] == "2000"
    assert shorter["rest.client.socket-timeout-ms"] == "5000"
    assert bounded(given, 600.0) == given


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
        **HEADERS,
        **TIMEOUTS,
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
            {"credential": "id:geheim"},
            {"credential": "id:geheim"}
            | {"rest.auth.type": "oauth2"}
            | {"oauth2-server-uri": "http://localhost:8181/v1/oauth/tokens"},
        ),
        ({"credential": "geheim"}, {"token": "geheim", "rest.auth.type": "oauth2"}),
        (
            {"credential": "id:geheim", "oauth2_server_uri": "https://auth/t", "scope": "PRINCIPAL_ROLE:ALL"}
            | {"audience": "a", "resource": "r", "token_refresh": False, "token_exchange": False},
            {
                "credential": "id:geheim",
                "rest.auth.type": "oauth2",
                "oauth2-server-uri": "https://auth/t",
                "scope": "PRINCIPAL_ROLE:ALL",
                "audience": "a",
                "resource": "r",
                "token-refresh-enabled": "false",
                "token-exchange-enabled": "false",
            },
        ),
        (
            {"username": "me", "password": "geheim"},
            {
                "rest.auth.type": "basic",
                "rest.auth.basic.username": "me",
                "rest.auth.basic.password": "geheim",
            },
        ),
        ({"headers": {"X-Team": "shop"}}, {"header.X-Team": "shop"}),
        ({"headers": {"Cookie": "own=1"}}, {"header.Cookie": "own=1"}),
        (
            {"max_connections": 7, "connect_timeout": "2s", "read_timeout": "1m", "max_retries": 0},
            {
                "rest.client.max-connections": "7",
                "rest.client.connections-per-route": "7",
                "rest.client.connection-timeout-ms": "2000",
                "rest.client.socket-timeout-ms": "60000",
                "rest.client.max-retries": "0",
            },
        ),
        ({"uri": ["https://a", "https://b"]}, {"uri": "https://a"}),
        ({"properties": {"io-impl": S3_IO["io-impl"]}}, S3_IO),
    ],
)
def test_rest_has_its_properties(keys: dict[str, Any], properties: dict[str, str]) -> None:
    found = rest(**keys)
    assert found.flaws() == []
    base = {"type": "rest", "uri": "http://localhost:8181", "cache-enabled": "false", **HEADERS, **TIMEOUTS}
    assert found.spark_properties() == base | properties


def test_a_catalog_is_asked_for_credentials_of_the_store_unless_we_have_our_own() -> None:
    delegation = "header.X-Iceberg-Access-Delegation"
    own = Stores(s3=S3.model_validate({"access_key_id": "a", "secret_access_key": "b"}))
    assert (
        rest().with_stores(Stores(s3=S3(region="eu"))).spark_properties()[delegation] == "vended-credentials"
    )
    assert delegation not in rest().with_stores(own).spark_properties()
    assert delegation not in rest(vended_credentials=False).spark_properties()
    assert "s3.access-key-id" not in rest().with_stores(Stores(s3=S3(region="eu"))).spark_properties()


@pytest.mark.parametrize(
    "keys",
    [
        {
            "uri": "http://polaris.example.com:8181",
            "warehouse": "s3://bucket/warehouse",
            "credential": "token",
        }
        | {"properties": {"oauth2-server-uri": "https://auth.example.com/oauth/token"}},
        {"uri": "http://polaris:8181/api/catalog", "warehouse": "s3://w/data", "credential": "token"},
        {
            "uri": "https://api.tabular.io",
            "warehouse": "tabular://my-org/my-warehouse",
            "credential": "token",
        },
        {"uri": "http://lakekeeper:8181/catalog", "warehouse": "demo", "credential": "id:secret"}
        | {"oauth2_server_uri": "http://keycloak/realms/iceberg/protocol/openid-connect/token"},
    ],
    ids=["Polaris with a token server", "Polaris", "Tabular", "Lakekeeper"],
)
def test_set_ups_of_known_servers_are_taken_as_they_are_written(keys: dict[str, Any]) -> None:
    found = rest(**keys)
    assert found.flaws() == []
    properties = found.spark_properties()
    assert properties["uri"] == keys["uri"]
    assert properties["warehouse"] == keys["warehouse"]
    assert properties["credential" if ":" in keys["credential"] else "token"] == keys["credential"]


@pytest.mark.parametrize(
    ("keys", "properties"),
    [
        (
            {"type": "glue", "glue": {"region": "eu", "catalog_id": "1"}, "warehouse": "s3://w"},
            {"type": "glue", "glue.id": "1", "client.region": "eu", "warehouse": "s3://w", **S3_IO},
        ),
        (
            {"type": "glue", "glue": {"endpoint": "http://localhost:5566"}, "warehouse": "s3://w"},
            {"type": "glue", "glue.endpoint": "http://localhost:5566", "warehouse": "s3://w", **S3_IO},
        ),
        (
            {
                "type": "glue",
                "glue": {"region": "eu", "role_arn": ROLE, "external_id": "x"},
                "warehouse": "/w",
            },
            {
                "type": "glue",
                "client.region": "eu",
                "client.factory": "org.apache.iceberg.aws.AssumeRoleAwsClientFactory",
                "client.assume-role.arn": ROLE,
                "client.assume-role.external-id": "x",
                "client.assume-role.region": "eu",
                "warehouse": "/w",
            },
        ),
        (
            {"type": "hive", "hive": {"uri": "thrift://h:9083", "warehouse": "hdfs:///w"}},
            {"type": "hive", "uri": "thrift://h:9083", "warehouse": "hdfs:///w"},
        ),
        (
            {
                "type": "hive",
                "hive": {"uri": ["thrift://a:9083", "thrift://b:9083"], "lock": False, "clients": 5},
            },
            {
                "type": "hive",
                "uri": "thrift://a:9083,thrift://b:9083",
                "hadoop.iceberg.engine.hive.lock-enabled": "false",
                "clients": "5",
            },
        ),
        (
            {"type": "jdbc", "jdbc": {"uri": "jdbc:postgresql://h/db", "user": "u", "password": "p"}}
            | {"warehouse": "/w"},
            {
                "type": "jdbc",
                "uri": "jdbc:postgresql://h/db",
                "jdbc.schema-version": "V1",
                "jdbc.user": "u",
                "jdbc.password": "p",
                "warehouse": "/w",
            },
        ),
        (
            {"type": "jdbc", "jdbc": {"uri": "jdbc:mysql://h/db", "clients": 3}, "warehouse": "gs://w"}
            | {"jdbc": {"uri": "jdbc:mysql://h/db", "clients": 3, "properties": {"sslMode": "verify-full"}}},
            {
                "type": "jdbc",
                "uri": "jdbc:mariadb://h/db",
                "jdbc.schema-version": "V1",
                "jdbc.allowLocalInfile": "false",
                "jdbc.sslMode": "verify-full",
                "clients": "3",
                "warehouse": "gs://w",
                "io-impl": "org.apache.iceberg.gcp.gcs.GCSFileIO",
            },
        ),
        (
            {"type": "jdbc", "jdbc": {"uri": "jdbc:sqlite:lake.db"}, "warehouse": "wh"},
            {
                "type": "jdbc",
                "uri": "jdbc:sqlite:/project/lake.db?busy_timeout=30000",
                "jdbc.schema-version": "V1",
                "warehouse": "/project/wh",
            },
        ),
        (
            {"type": "nessie", "nessie": {"uri": "http://n/api/v2"}, "warehouse": "/w"},
            {"type": "nessie", "uri": "http://n/api/v2", "ref": "main", "warehouse": "/w"}
            | {"http-redirects": "NEVER"},
        ),
        (
            {
                "type": "nessie",
                "nessie": {"uri": "http://n/api/v2", "token": "t", "ref": "dev"},
                "warehouse": "/w",
            },
            {"type": "nessie", "uri": "http://n/api/v2", "ref": "dev", "warehouse": "/w"}
            | {"authentication.type": "BEARER", "authentication.token": "t", "http-redirects": "NEVER"},
        ),
        (
            {"type": "nessie", "nessie": {"uri": "http://n/api/v1", "username": "u", "password": "p"}}
            | {"warehouse": "/w"},
            {"type": "nessie", "uri": "http://n/api/v1", "ref": "main", "warehouse": "/w"}
            | {"authentication.type": "BASIC", "authentication.username": "u"}
            | {"authentication.password": "p", "http-redirects": "NEVER"},
        ),
        (
            {"type": "s3tables", "s3tables": {"arn": BUCKET}},
            {
                "type": "rest",
                "uri": "https://s3tables.eu-west-1.amazonaws.com/iceberg",
                "warehouse": BUCKET,
                "rest.auth.type": "sigv4",
                "rest.auth.sigv4.delegate-auth-type": "none",
                "rest.signing-name": "s3tables",
                "rest.signing-region": "eu-west-1",
                "client.region": "eu-west-1",
                **S3_IO,
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
            {"type": "s3tables", "s3tables": {"arn": BUCKET}, "warehouse": "b"},
            ("warehouse",),
            "has no effect: the table bucket is the warehouse",
        ),
        (
            {"warehouse": "s3://bucket"},
            ("warehouse",),
            "is not a directory of this machine; the embedded catalog needs one",
        ),
        (
            {"type": "hadoop", "warehouse": "s3://bucket/wh"},
            ("warehouse",),
            "is in an object store, where two writers of a 'type: hadoop' overwrite each other's commits",
        ),
        (
            {
                "type": "rest",
                "rest": {"uri": "http://x", "credential": "a", "username": "u", "password": "p"},
            },
            ("rest", "username"),
            "stands beside 'credential'; keep one of the two",
        ),
        (
            {"type": "rest", "rest": {"uri": "http://x", "username": "u"}},
            ("rest", "password"),
            "'username' needs it",
        ),
        (
            {"type": "rest", "rest": {"uri": "http://x", "scope": "all"}},
            ("rest", "scope"),
            "has no effect without 'credential'",
        ),
        (
            {
                "type": "rest",
                "rest": {"uri": "http://x", "properties": {"metrics-reporter-impl": "com.evil.X"}},
            },
            ("rest", "properties", "metrics-reporter-impl"),
            "cannot be set here: it loads code",
        ),
        (
            {"type": "rest", "rest": {"uri": "http://x", "properties": {"io-impl": "com.evil.X"}}},
            ("rest", "properties", "io-impl"),
            "cannot be set here: it loads code",
        ),
        (
            {"type": "rest", "rest": {"uri": "http://x", "properties": {"rest.auth.type": "com.evil.X"}}},
            ("rest", "properties", "rest.auth.type"),
            "cannot be set here: it loads code",
        ),
        (
            {"type": "rest", "rest": {"uri": "http://x", "properties": {"scope": "env:HOME"}}},
            ("rest", "properties", "scope"),
            "Iceberg would read the environment; write ${NAME}",
        ),
        (
            {
                "type": "rest",
                "rest": {"uri": "http://x", "credential": "a", "scope": "b"} | {"properties": {"scope": "c"}},
            },
            ("rest", "properties", "scope"),
            "stands beside 'scope'; keep one of the two",
        ),
        (
            {"type": "rest", "rest": {"uri": "http://x", "headers": {"X-Iceberg-Access-Delegation": "none"}}},
            ("rest", "headers", "X-Iceberg-Access-Delegation"),
            "use 'vended_credentials'",
        ),
        (
            {"type": "rest", "rest": {"uri": "http://x", "headers": {"X-Team": "a\r\nX-Evil: b"}}},
            ("rest", "headers", "X-Team"),
            "a header has one line",
        ),
        (
            {"type": "jdbc", "jdbc": {"uri": "jdbc:postgresql://h/d?password=p"}, "warehouse": "/w"},
            ("jdbc", "uri"),
            "has a password in it; use 'password'",
        ),
        (
            {"type": "jdbc", "jdbc": {"uri": "jdbc:postgresql://me:p@h/d"}, "warehouse": "/w"},
            ("jdbc", "uri"),
            "has a user in it; use 'user' and 'password'",
        ),
        (
            {"type": "nessie", "nessie": {"uri": "http://n:19120"}, "warehouse": "/w"},
            ("nessie", "uri"),
            "does not end with the version, such as /api/v2",
        ),
        (
            {"type": "glue", "glue": {"role_arn": ROLE}, "warehouse": "/w"},
            ("glue", "region"),
            "required key is missing: 'role_arn' needs it",
        ),
        (
            {
                "type": "glue",
                "glue": {"region": "eu", "role_arn": ROLE, "endpoint": "http://x"},
                "warehouse": "/w",
            },
            ("glue", "endpoint"),
            "has no effect beside 'role_arn': Iceberg leaves it out",
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


@pytest.mark.parametrize(
    "option",
    [
        *("socketFactory", "sslfactory", "loggerFile", "autoDeserialize", "allowLoadLocalInfile"),
        *("socketFactoryArg", "sslpasswordcallback", "queryInterceptors", "enable_load_extension"),
    ],
)
@pytest.mark.parametrize("database", ["postgresql://h/d", "mysql://h/d", "mariadb://h/d", "sqlite:/d.db"])
def test_a_driver_gets_no_option_that_loads_code_or_reads_files(option: str, database: str) -> None:
    for keys in (
        {"uri": f"jdbc:{database}", "properties": {option: "x"}},
        {"uri": f"jdbc:{database}?{option}=x"},
    ):
        found = catalog(type="jdbc", jdbc=keys, warehouse="/w").flaws()
        assert [flaw.message.split(" that")[0] for flaw in found] == [f"'{option}' is not an option"]


@pytest.mark.parametrize("uri", ["jdbc:h2:mem:x", "jdbc:derby:x", "jdbc:oracle:thin:@x", "jdbc:x"])
def test_a_database_without_a_driver_is_refused(uri: str) -> None:
    with pytest.raises(ValueError, match="Calve has no driver for it"):
        catalog(type="jdbc", jdbc={"uri": uri}, warehouse="/w")


@pytest.mark.parametrize(
    ("keys", "jars"),
    [
        ({"type": "rest", "rest": {"uri": "http://x"}}, ()),
        ({"type": "rest", "rest": {"uri": "http://x", "warehouse": "s3://w"}}, ("aws",)),
        ({"type": "rest", "rest": {"uri": "http://x", "warehouse": "lake"}}, ()),
        ({"type": "hive", "hive": {"uri": "thrift://h", "warehouse": "hdfs:///w"}}, ()),
        ({"type": "hive", "hive": {"uri": "thrift://h", "warehouse": "gs://w"}}, ("gcp",)),
        ({"type": "glue", "warehouse": "s3://w"}, ("aws",)),
        ({"type": "s3tables", "s3tables": {"arn": BUCKET}}, ("aws",)),
        ({"type": "jdbc", "jdbc": {"uri": "jdbc:sqlite:x.db"}, "warehouse": "/w"}, ("sqlite",)),
        ({"type": "jdbc", "jdbc": {"uri": "jdbc:postgresql://h/d"}, "warehouse": "/w"}, ("postgresql",)),
        ({"type": "jdbc", "jdbc": {"uri": "jdbc:mysql://h/d"}, "warehouse": "/w"}, ("mariadb",)),
        (
            {
                "type": "jdbc",
                "jdbc": {"uri": "jdbc:mariadb://h/d"},
                "warehouse": "abfss://c@a.dfs.core.windows.net",
            },
            ("mariadb", "azure"),
        ),
        ({"type": "memory", "warehouse": "s3://w"}, ("sqlite", "aws")),
        ({"type": "hadoop", "warehouse": "/w"}, ()),
        ({"type": "nessie", "nessie": {"uri": "http://n/api/v2"}, "warehouse": "s3a://w"}, ("aws",)),
        ({}, ("sqlite",)),
    ],
)
def test_only_the_jars_that_are_needed(keys: dict[str, Any], jars: tuple[str, ...]) -> None:
    from calve.runtime import jars as lock

    assert catalog(**keys).jars == jars
    assert len(lock.needed(set(jars))) >= len(jars)


def test_the_signing_region_is_us_east_1_where_nothing_names_one() -> None:
    nowhere = catalog(type="s3tables", s3tables={"arn": "arn:aws:s3tables:::bucket/b"})
    assert nowhere.spark_properties()["rest.signing-region"] == "us-east-1"
    named = catalog(type="s3tables", s3tables={"arn": BUCKET, "region": "eu-north-1"})
    assert named.spark_properties()["rest.signing-region"] == "eu-north-1"


def test_requests_to_a_table_bucket_are_signed_with_the_keys_of_its_files() -> None:
    keys = {"access_key_id": "id", "secret_access_key": "geheim", "session_token": "token"}
    declared = catalog(type="s3tables", s3tables={"arn": BUCKET, "endpoint": "http://localhost:1/iceberg"})
    found = declared.with_stores(Stores(s3=S3.model_validate(keys))).spark_properties()
    assert found["uri"] == "http://localhost:1/iceberg"
    assert (found["rest.access-key-id"], found["s3.access-key-id"]) == ("id", "id")
    assert (found["rest.secret-access-key"], found["rest.session-token"]) == ("geheim", "token")


def test_the_tables_of_a_database_are_kept_under_a_name_that_does_not_change() -> None:
    one = catalog(type="jdbc", jdbc={"uri": "jdbc:postgresql://h/d"}, warehouse="/w")
    other = one.model_copy(update={"warehouse": "/elsewhere"}).with_stores(Stores(gcs=Gcs()))
    assert (one.spark_name(), other.spark_name()) == ("calve", "calve")
    named = catalog(type="jdbc", jdbc={"uri": "jdbc:postgresql://h/d", "name": "lake"}, warehouse="/w")
    assert named.spark_name() == "lake"


def sink(**keys: Any) -> IcebergSink:
    declared = {"namespace": "shop", "table": "orders", **keys}
    return IcebergSink.model_validate(declared, context={"directory": "/project"})


REST = {"type": "rest", "rest": {"uri": "https://c", "warehouse": "lake"}}


def test_each_sink_has_the_credentials_of_its_own_stores() -> None:
    one = sink(catalog=REST, s3={"access_key_id": "one", "secret_access_key": "geheim-1", "region": "eu"})
    other = sink(catalog=REST, s3={"access_key_id": "two", "secret_access_key": "geheim-2", "region": "us"})
    assert one.catalog.spark_properties()["s3.access-key-id"] == "one"
    assert other.catalog.spark_properties()["s3.access-key-id"] == "two"
    assert one.catalog.spark_name() != other.catalog.spark_name()
    assert one.catalog.identity() == other.catalog.identity()
    assert "s3.access-key-id" not in sink(catalog=REST).catalog.spark_properties()
    assert one.model_copy(update={"table": "t"}).catalog.spark_properties()["s3.access-key-id"] == "one"


@pytest.mark.parametrize(
    ("keys", "path", "message"),
    [
        (
            {"s3": {"region": "eu"}},
            ("s3",),
            "has no effect: neither 'warehouse' nor 'allowed_locations' lies in it",
        ),
        (
            {"catalog": {**REST, "rest": {**REST["rest"], "vended_credentials": True}}}
            | {"s3": {"access_key_id": "a", "secret_access_key": "b"}},
            ("catalog", "rest", "vended_credentials"),
            "stands beside credentials in 's3'; keep one of the two",
        ),
        (
            {
                "catalog": {"type": "glue", "glue": {"region": "eu"}, "warehouse": "s3://w"},
                "s3": {"region": "us"},
            },
            ("s3", "region"),
            "differs from 'region' of the catalog; Iceberg has one for both",
        ),
        (
            {"table_properties": {"write.data.path": "/elsewhere"}},
            ("table_properties", "write.data.path"),
            "lies outside of the warehouse; add it to 'allowed_locations'",
        ),
        (
            {"catalog": REST, "s3": {"external_id": "x"}},
            ("s3", "external_id"),
            "has no effect without 'role_arn'",
        ),
    ],
)
def test_what_contradicts_between_a_catalog_and_its_stores(
    keys: dict[str, Any], path: tuple[str, ...], message: str
) -> None:
    assert [(flaw.path, flaw.message) for flaw in sink(**keys).flaws()] == [(path, message)]


def test_files_may_lie_where_it_is_allowed() -> None:
    allowed = {"warehouse": "warehouse", "allowed_locations": ["s3://more", "other"]}
    paths = {"write.data.path": "s3://more/data", "write.metadata.path": "/project/other/m"}
    assert sink(catalog=allowed, s3={"region": "eu"}, table_properties=paths).flaws() == []
    with pytest.raises(ValueError, match="not a location"):
        catalog(allowed_locations=["http://x"])
