"""Catalogs of AWS: Glue, and the table buckets of S3."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from calve.addresses import HttpAddress
from calve.catalogs.section import Section
from calve.model import Flaw, Secret
from calve.stores import S3, Stores
from calve.stores.s3 import assumed_role
from calve.stores.store import given, needs

SIGNING_REGION = "us-east-1"
"""The region that requests are signed for where nothing names one."""


def _arn(value: str) -> str:
    if not re.fullmatch(r"arn:[\w-]+:s3tables:[\w-]*:\w*:bucket/[\w.-]+", value):
        raise ValueError("not the ARN of a table bucket; such as arn:aws:s3tables:us-east-1:1234:bucket/lake")
    return value


class S3Tables(Section):
    """A table bucket of Amazon S3 Tables. Requests are signed with the keys of `s3`, or the default ones."""

    arn: Annotated[str, AfterValidator(_arn)]
    """The ARN of the table bucket."""

    region: str | None = Field(default=None, min_length=1)
    """The AWS region; left out, the one that the ARN names, or us-east-1."""

    profile: str | None = Field(default=None, min_length=1)
    """The AWS profile to take the access key from, also for the files."""

    endpoint: HttpAddress | None = None
    """The address of another server than Amazon's, path included: `http://localhost:5566/iceberg`."""

    instance_credentials: bool = False
    """Whether the address at which a cloud tells its machines their credentials may be asked."""

    def spark(self, stores: Stores) -> dict[str, str]:
        region = self.signing_region()
        store = self._store(stores)
        return {
            **store.file_io(),
            "client.region": region,
            "type": "rest",
            "uri": self.addresses()[0],
            "warehouse": self.arn,
            "rest.auth.type": "sigv4",
            "rest.auth.sigv4.delegate-auth-type": "none",
            "rest.signing-name": "s3tables",
            "rest.signing-region": region,
            **store.signing_keys(),
        }

    def signing_region(self) -> str:
        """The region that requests are signed for."""
        return self.region or self.arn.split(":")[3] or SIGNING_REGION

    def identity(self) -> list[str]:
        return [self.arn, self.endpoint or ""]

    def jars(self) -> tuple[str, ...]:
        return ("aws",)

    def addresses(self) -> tuple[str, ...]:
        return (self.endpoint or f"https://s3tables.{self.signing_region()}.amazonaws.com/iceberg",)

    def _store(self, stores: Stores) -> S3:
        if stores.s3 is not None and not self.profile:
            return stores.s3
        return (stores.s3 or S3()).model_copy(update={"profile": self.profile})


class Glue(Section):
    """The AWS Glue Data Catalog. It is opened with the default credentials of the machine."""

    region: str | None = Field(default=None, min_length=1)
    """The AWS region; left out, the one that the environment names."""

    catalog_id: str | None = Field(default=None, min_length=1)
    """The id of the Glue catalog; left out, the one of the account."""

    profile: str | None = Field(default=None, min_length=1)
    """The AWS profile to take credentials from. A process can have one."""

    role_arn: str | None = Field(default=None, min_length=1)
    """The role to assume, for the catalog and its files."""

    external_id: str | None = Field(default=None, min_length=1)
    """What the owner of `role_arn` wants to be told."""

    endpoint: HttpAddress | None = None
    """The address of another server than Amazon's, such as `http://localhost:5566`."""

    instance_credentials: bool = False
    """Whether the address at which a cloud tells its machines their credentials may be asked."""

    def spark(self, stores: Stores) -> dict[str, str]:
        found: dict[str, str | Secret | None] = {
            "type": "glue",
            "glue.id": self.catalog_id,
            "glue.endpoint": self.endpoint,
            "client.region": self.region,
        }
        return {**given(found), **assumed_role(self.role_arn, self.external_id, self.region)}

    def identity(self) -> list[str]:
        return [self.region or "", self.catalog_id or "", self.endpoint or ""]

    def jars(self) -> tuple[str, ...]:
        return ("aws",)

    def addresses(self) -> tuple[str, ...]:
        if self.endpoint:
            return (self.endpoint,)
        return (f"https://glue.{self.region}.amazonaws.com",) if self.region else ()

    def environment(self) -> dict[str, Secret]:
        return {"AWS_PROFILE": Secret(self.profile)} if self.profile else {}

    def flaws(self) -> list[Flaw]:
        found = needs(self, "external_id", "role_arn")
        if self.role_arn and self.region is None:
            found.append(Flaw(("region",), "required key is missing: 'role_arn' needs it"))
        if self.role_arn and self.endpoint:
            found.append(Flaw(("endpoint",), "has no effect beside 'role_arn': Iceberg leaves it out"))
        return found
