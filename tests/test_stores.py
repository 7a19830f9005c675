"""Stores: declared keys become properties of FileIO, or variables of the process."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from calve.errors import ConfigurationError
from calve.model import Secret
from calve.stores import S3, Azure, Gcs, Stores, profiles
from calve.stores.store import Store

S3_IO = {"io-impl": "org.apache.iceberg.aws.s3.S3FileIO"}
GCS_IO = {"io-impl": "org.apache.iceberg.gcp.gcs.GCSFileIO"}
ADLS_IO = {"io-impl": "org.apache.iceberg.azure.adlsv2.ADLSFileIO"}
KEYS = {"access_key_id": "AKIA-id", "secret_access_key": "geheim"}
ARN = "arn:aws:iam::1:role/lake"
OWN_KEY = base64.b64encode(bytes(32)).decode()
ACCOUNT = {"client_email": "me@p", "private_key": "geheim", "project_id": "theirs"}
HOST = "lake.dfs.core.windows.net"
BLOB = "lake.blob.core.windows.net"


def s3(**keys: Any) -> S3:
    return S3.model_validate(keys)


def gcs(**keys: Any) -> Gcs:
    return Gcs.model_validate(keys, context={"directory": "/project"})


def azure(**keys: Any) -> Azure:
    return Azure.model_validate({"storage_account": "lake", **keys})


@pytest.mark.parametrize(
    ("store", "properties"),
    [
        (s3(), {}),
        (s3(region="eu-west-1"), {"client.region": "eu-west-1"}),
        (s3(endpoint="http://s3:9000"), {"s3.endpoint": "http://s3:9000"}),
        (s3(path_style_access=True), {"s3.path-style-access": "true"}),
        (s3(**KEYS), {"s3.access-key-id": "AKIA-id", "s3.secret-access-key": "geheim"}),
        (
            s3(**KEYS, session_token="t"),
            {"s3.access-key-id": "AKIA-id", "s3.secret-access-key": "geheim", "s3.session-token": "t"},
        ),
        (
            s3(region="eu", role_arn=ARN, external_id="x"),
            {
                "client.region": "eu",
                "client.factory": "org.apache.iceberg.aws.AssumeRoleAwsClientFactory",
                "client.assume-role.arn": ARN,
                "client.assume-role.external-id": "x",
                "client.assume-role.region": "eu",
            },
        ),
        (s3(sse="s3"), {"s3.sse.type": "s3"}),
        (s3(sse="kms", sse_key="alias/k"), {"s3.sse.type": "kms", "s3.sse.key": "alias/k"}),
        (s3(sse="dsse-kms"), {"s3.sse.type": "dsse-kms"}),
        (
            s3(sse="custom", sse_key=OWN_KEY),
            {
                "s3.sse.type": "custom",
                "s3.sse.key": OWN_KEY,
                "s3.sse.md5": base64.b64encode(hashlib.md5(bytes(32)).digest()).decode(),
            },
        ),
    ],
)
def test_s3(store: S3, properties: dict[str, str]) -> None:
    assert store.flaws() == []
    assert store.file_io() == S3_IO | properties
    assert store.component == "aws"


@pytest.mark.parametrize(
    ("store", "properties", "environment"),
    [
        (gcs(), {}, {}),
        (gcs(project_id="p"), {"gcs.project-id": "p"}, {}),
        (
            gcs(endpoint="http://127.0.0.1:4443", no_auth=True),
            {"gcs.service.host": "http://127.0.0.1:4443", "gcs.no-auth": "true"},
            {},
        ),
        (
            gcs(service_account_key=json.dumps(ACCOUNT)),
            {"gcs.project-id": "theirs"},
            {"GOOGLE_APPLICATION_CREDENTIALS": json.dumps(ACCOUNT)},
        ),
        (
            gcs(service_account_key="keys/lake.json"),
            {},
            {"GOOGLE_APPLICATION_CREDENTIALS": "/project/keys/lake.json"},
        ),
    ],
)
def test_gcs(store: Gcs, properties: dict[str, str], environment: dict[str, str]) -> None:
    assert store.flaws() == []
    assert store.file_io() == GCS_IO | properties
    assert {name: value.reveal() for name, value in store.environment().items()} == environment


@pytest.mark.parametrize(
    ("store", "properties"),
    [
        (azure(), {}),
        (
            azure(access_key="geheim"),
            {
                "adls.auth.shared-key.account.name": "lake",
                "adls.auth.shared-key.account.key": "geheim",
            },
        ),
        (
            azure(sas_token="?sv=1&sig=x"),
            {f"adls.sas-token.{HOST}": "sv=1&sig=x", f"adls.sas-token.{BLOB}": "sv=1&sig=x"},
        ),
        (
            azure(
                connection_string="AccountName=lake;AccountKey=a2V5==;BlobEndpoint=http://127.0.0.1:1/lake"
            ),
            {
                "adls.auth.shared-key.account.name": "lake",
                "adls.auth.shared-key.account.key": "a2V5==",
                f"adls.connection-string.{HOST}": "http://127.0.0.1:1/lake",
                f"adls.connection-string.{BLOB}": "http://127.0.0.1:1/lake",
            },
        ),
        (
            azure(endpoint="http://127.0.0.1:1/lake"),
            {
                f"adls.connection-string.{HOST}": "http://127.0.0.1:1/lake",
                f"adls.connection-string.{BLOB}": "http://127.0.0.1:1/lake",
            },
        ),
        (azure(tenant_id="t", client_id="c", client_secret="geheim"), {}),
    ],
)
def test_azure(store: Azure, properties: dict[str, str]) -> None:
    assert store.flaws() == []
    assert store.file_io() == ADLS_IO | properties


def test_an_application_of_azure_is_told_to_the_process() -> None:
    found = azure(tenant_id="t", client_id="c", client_secret="geheim").environment()
    assert {name: value.reveal() for name, value in found.items()} == {
        "AZURE_TENANT_ID": "t",
        "AZURE_CLIENT_ID": "c",
        "AZURE_CLIENT_SECRET": "geheim",
    }


@pytest.mark.parametrize(
    ("store", "path", "message"),
    [
        (s3(access_key_id="a"), "secret_access_key", "'access_key_id' needs it"),
        (s3(session_token="a"), "session_token", "has no effect without 'access_key_id'"),
        (s3(**KEYS, profile="p"), "profile", "stands beside 'access_key_id'; keep one of the two"),
        (
            s3(profile="p", region="r", role_arn=ARN),
            "role_arn",
            "stands beside 'profile'; keep one of the two",
        ),
        (s3(role_arn=ARN), "region", "required key is missing: 'role_arn' needs it"),
        (s3(external_id="x"), "external_id", "has no effect without 'role_arn'"),
        (s3(sse="custom"), "sse_key", "required key is missing: 'sse: custom' needs it"),
        (s3(sse="custom", sse_key="short"), "sse_key", "not a key of 32 bytes in base64"),
        (
            s3(sse_key="k"),
            "sse_key",
            "has no effect without 'sse: kms', 'sse: dsse-kms' or 'sse: custom'",
        ),
        (gcs(service_account_key="{}"), "service_account_key", "not the key of a service account"),
        (gcs(service_account_key="{oops"), "service_account_key", "not the key of a service account"),
        (
            gcs(service_account_key="k.json", no_auth=True),
            "no_auth",
            "stands beside 'service_account_key'; keep one of the two",
        ),
        (
            azure(access_key="a", sas_token="b"),
            "sas_token",
            "stands beside 'access_key'; keep one of the two",
        ),
        (
            azure(connection_string="AccountName=lake"),
            "connection_string",
            "has neither 'AccountKey' nor 'SharedAccessSignature'",
        ),
        (
            azure(connection_string="AccountName=other;AccountKey=a"),
            "connection_string",
            "is of another account than 'storage_account'",
        ),
        (
            azure(connection_string="AccountKey=a;BlobEndpoint=http://x", endpoint="http://y"),
            "endpoint",
            "'connection_string' has an address already; keep one of the two",
        ),
    ],
)
def test_what_contradicts_is_a_flaw(store: Store, path: str, message: str) -> None:
    assert [(flaw.path, flaw.message) for flaw in store.flaws()] == [((path,), message)]


def test_an_application_of_azure_needs_all_three() -> None:
    assert [flaw.path for flaw in azure(client_id="c").flaws()] == [("tenant_id",), ("client_secret",)]


@pytest.mark.parametrize(
    ("store", "addresses"),
    [
        (s3(**KEYS, endpoint="http://minio:9000"), ()),
        (s3(**KEYS, session_token="t", endpoint="http://minio:9000"), ("http://minio:9000",)),
        (s3(sse="custom", sse_key=OWN_KEY, endpoint="http://minio:9000"), ("http://minio:9000",)),
        (gcs(endpoint="http://e", no_auth=True), ()),
        (gcs(endpoint="http://e"), ("http://e",)),
        (azure(endpoint="http://e", access_key="k"), ()),
        (azure(endpoint="http://e", sas_token="k"), ("http://e",)),
        (azure(connection_string="AccountKey=a;BlobEndpoint=http://e"), ()),
    ],
)
def test_a_signature_shows_no_credential_and_a_token_is_one(store: Store, addresses: tuple[str, ...]) -> None:
    assert store.in_the_clear() == addresses


def test_several_stores_are_told_apart_by_the_scheme_of_a_file() -> None:
    one = Stores(s3=s3(region="eu"))
    both = Stores(s3=s3(region="eu"), gcs=gcs(project_id="p"))
    assert one.file_io()["io-impl"] == S3_IO["io-impl"]
    assert both.file_io() == {
        "io-impl": "org.apache.iceberg.io.ResolvingFileIO",
        "client.region": "eu",
        "gcs.project-id": "p",
    }
    assert Stores().file_io() == {}
    assert [store.component for store in both] == ["aws", "gcp"]


CREDENTIALS = """
[default]
aws_access_key_id = default-id
aws_secret_access_key = default-secret

[lake]
aws_access_key_id = lake-id
aws_secret_access_key = lake%secret
aws_session_token = lake-token
"""
CONFIG = """
[profile lake]
region = eu-west-1
[profile sso]
sso_session = work
[profile empty]
region = eu
[default]
region = eu-north-1
"""


@pytest.fixture
def aws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text(CREDENTIALS)
    (tmp_path / ".aws" / "config").write_text(CONFIG)
    return tmp_path


def test_a_profile_is_read_from_both_files_of_aws(aws: Path) -> None:
    assert profiles.read("lake") == profiles.Profile(
        Secret("lake-id"), Secret("lake%secret"), Secret("lake-token"), "eu-west-1"
    )
    assert profiles.read("default").region == "eu-north-1"


def test_two_stores_with_profiles_keep_their_keys_apart(aws: Path) -> None:
    one, other = s3(profile="lake").file_io(), s3(profile="default", region="us-east-1").file_io()
    assert (one["s3.access-key-id"], one["client.region"]) == ("lake-id", "eu-west-1")
    assert (other["s3.access-key-id"], other["client.region"]) == ("default-id", "us-east-1")
    assert "s3.session-token" not in other


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("nobody", "neither of .* has it"),
        (
            "sso",
            r"takes its keys from elsewhere \('sso_session'\); leave 'profile' out and set AWS_PROFILE=sso",
        ),
        ("empty", "it has no access key"),
    ],
)
def test_a_profile_without_keys_of_its_own_is_refused(aws: Path, name: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        s3(profile=name).file_io()


def test_files_that_are_not_as_aws_writes_them(aws: Path) -> None:
    (aws / ".aws" / "credentials").write_text("nonsense")
    with pytest.raises(ConfigurationError, match="is not as AWS writes it"):
        profiles.read("lake")


def test_the_files_may_lie_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "c").write_text(CREDENTIALS)
    named = {"AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "c"), "HOME": str(tmp_path)}
    assert profiles.read("lake", named).access_key_id == Secret("lake-id")
