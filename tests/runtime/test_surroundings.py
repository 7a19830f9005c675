"""What only a whole process can be told."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from calve.catalogs import Catalog
from calve.errors import ConfigurationError
from calve.project import SparkSettings
from calve.redaction import redacted
from calve.runtime import session, surroundings
from calve.sink.declaration import IcebergSink

ACCOUNT = json.dumps({"client_email": "me", "private_key": "geheim"})
APPLICATION = {"storage_account": "lake", "tenant_id": "t", "client_id": "c", "client_secret": "geheim"}


def catalog(declared: dict[str, Any] | None = None, **stores: Any) -> Catalog:
    rest = {"type": "rest", "rest": {"uri": "https://c"}}
    return IcebergSink.model_validate(
        {"namespace": "n", "table": "t", "catalog": declared or rest, **stores}
    ).catalog


def glue(**keys: Any) -> Catalog:
    return catalog({"type": "glue", "glue": {"region": "eu", **keys}, "warehouse": "s3://w"})


def applied(*catalogs: Catalog, is_local: bool = True) -> tuple[dict[str, str], dict[str, str]]:
    environ: dict[str, str] = {}
    told = surroundings.of(catalogs).apply(is_local, environ)
    return environ, told


def test_where_clouds_tell_credentials_is_closed() -> None:
    environ, told = applied(catalog())
    assert environ == surroundings.CLOSED
    assert told == {}
    assert environ["AWS_EC2_METADATA_DISABLED"] == "true"


@pytest.mark.parametrize(
    "declared",
    [
        catalog(s3={"instance_credentials": True}),
        catalog(gcs={"instance_credentials": True}),
        catalog(azure={"storage_account": "lake", "instance_credentials": True}),
        glue(instance_credentials=True),
    ],
)
def test_unless_it_is_asked_for(declared: Catalog) -> None:
    assert applied(declared, catalog())[0] == {}


def test_a_profile_for_glue_and_an_application_of_azure() -> None:
    assert applied(glue(profile="lake"))[0]["AWS_PROFILE"] == "lake"
    environ, told = applied(catalog(azure=APPLICATION), is_local=False)
    assert (environ["AZURE_CLIENT_SECRET"], environ["AZURE_TOKEN_CREDENTIALS"]) == ("geheim", "prod")
    assert told["spark.executorEnv.AZURE_CLIENT_ID"] == "c"
    assert told["spark.executorEnv.AWS_EC2_METADATA_DISABLED"] == "true"


def test_a_service_account_becomes_a_file_that_nobody_else_can_read() -> None:
    environ, _ = applied(catalog(gcs={"service_account_key": ACCOUNT}))
    file = Path(environ["GOOGLE_APPLICATION_CREDENTIALS"])
    assert file.read_text() == ACCOUNT
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.unlink()
    with pytest.raises(ConfigurationError, match="name a file that every machine has"):
        applied(catalog(gcs={"service_account_key": ACCOUNT}), is_local=False)
    named, told = applied(catalog(gcs={"service_account_key": "/keys/lake.json"}), is_local=False)
    assert named["GOOGLE_APPLICATION_CREDENTIALS"] == "/keys/lake.json"
    assert told["spark.executorEnv.GOOGLE_APPLICATION_CREDENTIALS"] == "/keys/lake.json"


def test_two_that_want_different_things_are_refused() -> None:
    assert applied(glue(profile="a"), glue(profile="a"))[0]["AWS_PROFILE"] == "a"
    with pytest.raises(ConfigurationError, match="each wants its own AWS_PROFILE"):
        applied(glue(profile="a"), glue(profile="b"))


def test_a_session_knows_the_catalog_and_whom_it_trusts() -> None:
    declared = catalog(s3={"region": "eu"})
    found = session.catalog_settings(declared)
    name = declared.spark_name()
    assert found[f"spark.sql.catalog.{name}"] == "org.apache.iceberg.spark.SparkCatalog"
    assert found[f"spark.sql.catalog.{name}.client.region"] == "eu"
    assert json.loads(found[f"spark.calve.trust.{name}"])["hosts"] == ["c"]


def test_spark_is_started_with_what_keeps_secrets_in() -> None:
    os.environ.setdefault("JAVA_HOME", "/nowhere")
    given = {"spark.ui.enabled": "true"}
    found = session.settings_map(SparkSettings(master="spark://h:7077", config=given), [])
    assert found["spark.sql.variable.substitute"] == "false"
    assert found["spark.ui.enabled"] == "true"
    assert session.settings_map(SparkSettings(master="yarn"), [])["spark.ui.enabled"] == "false"


@pytest.mark.parametrize("config", [{}, {"spark.authenticate": "false"}])
def test_who_reaches_the_ports_of_a_local_spark_has_to_know_its_secret(config: dict[str, str]) -> None:
    os.environ.setdefault("JAVA_HOME", "/nowhere")
    found = session.settings_map(SparkSettings(master="local[2]", config=config), [])
    assert found["spark.authenticate"] == "true"
    assert found["spark.driver.bindAddress"] == "127.0.0.1"
    assert "spark.authenticate" not in session.settings_map(SparkSettings(master="yarn"), [])


def test_secrets_are_not_among_the_settings_that_a_jvm_is_started_with() -> None:
    given = {
        "spark.hadoop.fs.s3a.secret.key": "geheim-1234",
        "spark.executorEnv.AZURE_CLIENT_SECRET": "geheim-5678",
        "spark.executor.memory": "1g",
    }
    assert session._public(given) == {"spark.executor.memory": "1g"}
    assert redacted("geheim-1234 and geheim-5678") == "*** and ***"


def java_options(plans_only: bool, **config: str) -> str:
    os.environ.setdefault("JAVA_HOME", "/nowhere")
    found = session.settings_map(SparkSettings(config=config), [], plans_only)
    return found.get("spark.driver.extraJavaOptions", "")


def test_a_jvm_that_only_plans_compiles_its_code_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_has_jvm_of_its_own", lambda master: True)
    assert "-XX:TieredStopAtLevel=1" in java_options(True).split()
    assert "Tiered" not in java_options(False)
    given = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=4"}
    assert java_options(True, **given).count("Tiered") == 1


@pytest.mark.parametrize(
    "name",
    [
        *("credential", "token", "rest.auth.basic.password", "header.X-Api-Key", "header.Authorization"),
        *("s3.access-key-id", "s3.secret-access-key", "s3.session-token", "s3.sse.key", "jdbc.password"),
        *(
            "rest.secret-access-key",
            "adls.auth.shared-key.account.key",
            "adls.sas-token.a.dfs.core.windows.net",
        ),
        *("authentication.token", "authentication.password", "gcs.oauth2.token"),
        *("adls.connection-string.a.dfs.core.windows.net",),
    ],
)
def test_spark_shows_no_value_of_a_property_that_is_secret(name: str) -> None:
    import re

    pattern = session.settings_map(SparkSettings(master="yarn"), [])["spark.redaction.regex"]
    assert re.search(pattern, f"spark.sql.catalog.calve_1.{name}")


def test_two_catalogs_of_one_name_are_not_opened_together() -> None:
    one = catalog({"type": "jdbc", "jdbc": {"uri": "jdbc:postgresql://a/d"}, "warehouse": "/w"})
    other = catalog({"type": "jdbc", "jdbc": {"uri": "jdbc:postgresql://b/d"}, "warehouse": "/w"})
    session._refuse_namesake(one, one)
    with pytest.raises(ConfigurationError, match=r"both are called 'calve'; declare .* another 'name'"):
        session._refuse_namesake(one, other)
