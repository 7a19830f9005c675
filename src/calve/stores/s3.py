"""Amazon S3, and stores that speak its protocol."""

from __future__ import annotations

import base64
import binascii
import hashlib
from typing import ClassVar, Literal

from pydantic import Field

from calve.addresses import HttpAddress
from calve.model import Flaw, Secret
from calve.stores import profiles
from calve.stores.store import Store, beside, given, needs, together

ASSUMING = "org.apache.iceberg.aws.AssumeRoleAwsClientFactory"
"""Iceberg's factory of clients that assume a role first."""


def assumed_role(arn: str | None, external_id: str | None, region: str | None) -> dict[str, str]:
    """The properties by which clients assume a role, with the default credentials of the process."""
    if arn is None:
        return {}
    return given(
        {
            "client.factory": ASSUMING,
            "client.assume-role.arn": arn,
            "client.assume-role.external-id": external_id,
            "client.assume-role.region": region,
        }
    )


class S3(Store):
    """Amazon S3, or a store that speaks its protocol."""

    component: ClassVar[str] = "aws"

    region: str | None = Field(default=None, min_length=1)
    """The region of the bucket; left out, the one that the environment names."""

    endpoint: HttpAddress | None = None
    """The address of a store other than Amazon's, such as `http://localhost:9000`."""

    access_key_id: Secret | None = None
    """The id of the access key; left out, the default credentials of the machine are used."""

    secret_access_key: Secret | None = None
    """The secret of the access key."""

    session_token: Secret | None = None
    """The token of temporary credentials."""

    profile: str | None = Field(default=None, min_length=1)
    """The AWS profile to take the access key from."""

    role_arn: str | None = Field(default=None, min_length=1)
    """The role to assume, with the default credentials of the machine."""

    external_id: str | None = Field(default=None, min_length=1)
    """What the owner of `role_arn` wants to be told."""

    path_style_access: bool = False
    """Whether the bucket is part of the path, not of the host; most stores other than Amazon's want it."""

    sse: Literal["none", "s3", "kms", "dsse-kms", "custom"] = "none"
    """How the store encrypts what is written: with its own key, one of AWS KMS, or one that we send."""

    sse_key: Secret | None = None
    """The id or ARN of the key of KMS, or our own key of 32 bytes in base64 (`sse: custom`)."""

    requester_pays: bool = False
    """Whether we pay for requests, and not the owner of the bucket."""

    def file_io(self) -> dict[str, str]:
        keys = profiles.read(self.profile) if self.profile else self
        return given(
            {
                "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
                "client.region": self.region or keys.region,
                "s3.endpoint": self.endpoint,
                "s3.access-key-id": keys.access_key_id,
                "s3.secret-access-key": keys.secret_access_key,
                "s3.session-token": keys.session_token,
                "s3.path-style-access": "true" if self.path_style_access else None,
                **self._encryption(),
                **assumed_role(self.role_arn, self.external_id, self.region),
            }
        )

    def signing_keys(self) -> dict[str, str]:
        """The same keys, as they sign the requests to a catalog."""
        names = {
            "s3.access-key-id": "rest.access-key-id",
            "s3.secret-access-key": "rest.secret-access-key",
            "s3.session-token": "rest.session-token",
        }
        found = self.file_io()
        return {new: found[old] for old, new in names.items() if old in found}

    @property
    def has_credentials(self) -> bool:
        return any((self.access_key_id, self.profile, self.role_arn))

    def addresses(self) -> tuple[str, ...]:
        if self.endpoint:
            return (self.endpoint,)
        domain = "amazonaws.com.cn" if (self.region or "").startswith("cn-") else "amazonaws.com"
        return (f"https://s3.{self.region}.{domain}",) if self.region else ()

    def in_the_clear(self) -> tuple[str, ...]:
        told = self.session_token or self.sse == "custom"
        return (self.endpoint,) if self.endpoint and told else ()

    def flaws(self) -> list[Flaw]:
        return [
            *together(self, "access_key_id", "secret_access_key"),
            *needs(self, "session_token", "access_key_id"),
            *needs(self, "external_id", "role_arn"),
            *beside(self, "access_key_id", "profile", "role_arn"),
            *beside(self, "profile", "role_arn"),
            *self._role_flaws(),
            *self._encryption_flaws(),
        ]

    def _role_flaws(self) -> list[Flaw]:
        missing = self.role_arn is not None and self.region is None
        return [Flaw(("region",), "required key is missing: 'role_arn' needs it")] if missing else []

    def _encryption_flaws(self) -> list[Flaw]:
        if self.sse in ("none", "s3"):
            message = "has no effect without 'sse: kms', 'sse: dsse-kms' or 'sse: custom'"
            return [Flaw(("sse_key",), message)] if self.sse_key else []
        if self.sse_key is None:
            wanted = self.sse == "custom"
            return [Flaw(("sse_key",), "required key is missing: 'sse: custom' needs it")] if wanted else []
        if self.sse == "custom" and _key_bytes(self.sse_key) is None:
            return [Flaw(("sse_key",), "not a key of 32 bytes in base64")]
        return []

    def _encryption(self) -> dict[str, str | Secret | None]:
        if self.sse == "none":
            return {}
        found: dict[str, str | Secret | None] = {"s3.sse.type": self.sse, "s3.sse.key": self.sse_key}
        if self.sse == "custom" and self.sse_key is not None:
            digest = hashlib.md5(_key_bytes(self.sse_key) or b"", usedforsecurity=False).digest()
            found["s3.sse.md5"] = base64.b64encode(digest).decode()
        return found


def _key_bytes(key: Secret) -> bytes | None:
    try:
        found = base64.b64decode(key.reveal(), validate=True)
    except binascii.Error:
        return None
    return found if len(found) == 32 else None
