"""Object stores: where files are kept, as declared, and the FileIO properties that open them."""

from __future__ import annotations

from pydantic import Field

from calve.model import Model, Secret


class S3(Model):
    """Amazon S3, or a store that speaks its protocol."""

    region: str | None = Field(default=None, min_length=1)
    """The region of the bucket; left out, the one that the environment names."""

    endpoint: str | None = Field(default=None, min_length=1)
    """The address of a store other than Amazon's, such as `http://localhost:9000`."""

    access_key_id: Secret | None = None
    """The id of the access key; left out, the default credentials of the machine are used."""

    secret_access_key: Secret | None = None
    """The secret of the access key."""

    session_token: Secret | None = None
    """The token of temporary credentials."""

    path_style_access: bool = False
    """Whether the bucket is part of the path, not of the host; most stores other than Amazon's want it."""

    def file_io(self) -> dict[str, str]:
        """The properties of Iceberg's FileIO, secrets among them."""
        return _given(
            {
                "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
                "client.region": self.region,
                "s3.endpoint": self.endpoint,
                "s3.access-key-id": self.access_key_id,
                "s3.secret-access-key": self.secret_access_key,
                "s3.session-token": self.session_token,
                "s3.path-style-access": "true" if self.path_style_access else None,
            }
        )


class Gcs(Model):
    """Google Cloud Storage."""

    project_id: str | None = Field(default=None, min_length=1)
    """The Google Cloud project."""

    service_account_key: Secret | None = None
    """The JSON key of a service account; left out, the default credentials of the machine are used."""

    def file_io(self) -> dict[str, str]:
        """The properties of Iceberg's FileIO."""
        return _given({"io-impl": "org.apache.iceberg.gcp.gcs.GCSFileIO", "gcs.project-id": self.project_id})


class Azure(Model):
    """Azure Data Lake Storage."""

    storage_account: str = Field(min_length=1)
    """The name of the storage account."""

    access_key: Secret | None = None
    """The key of the storage account; left out, the default credentials of the machine are used."""

    def file_io(self) -> dict[str, str]:
        """The properties of Iceberg's FileIO, secrets among them."""
        return _given(
            {
                "io-impl": "org.apache.iceberg.azure.adlsv2.ADLSFileIO",
                "adls.auth.shared-key.account.name": self.storage_account if self.access_key else None,
                "adls.auth.shared-key.account.key": self.access_key,
            }
        )


def _given(keys: dict[str, str | Secret | None]) -> dict[str, str]:
    return {
        name: value.reveal() if isinstance(value, Secret) else value
        for name, value in keys.items()
        if value is not None
    }
