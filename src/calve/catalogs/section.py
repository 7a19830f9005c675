"""What the sections of a catalog have in common."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import Annotated

from pydantic import AfterValidator, Field

from calve.addresses import HttpAddress
from calve.model import Flaw, Model, Secret, SecretText
from calve.stores import Stores

OWNED = ("type", "catalog-impl", "uri", "warehouse", "cache-enabled", "credential", "token")

_CODE = re.compile(
    r".*-impl|client\.factory|client\.credentials-provider|adls\.token-credential-provider"
    r"|rest\.client\.tls\..*"
)
"""The names of properties that load a class."""

FILE_IOS = frozenset(
    {
        "org.apache.iceberg.aws.s3.S3FileIO",
        "org.apache.iceberg.azure.adlsv2.ADLSFileIO",
        "org.apache.iceberg.gcp.gcs.GCSFileIO",
        "org.apache.iceberg.hadoop.HadoopFileIO",
        "org.apache.iceberg.io.ResolvingFileIO",
    }
)
"""What files may be read and written with."""

Several = Annotated[list[HttpAddress], Field(min_length=1)]
"""Several addresses of one server."""


def listed(value: str | list[str]) -> tuple[str, ...]:
    """One value or several, as several."""
    return (value,) if isinstance(value, str) else tuple(value)


def header_name(value: str) -> str:
    """`value`, if it may name a header; raises ValueError."""
    if not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", value):
        raise ValueError("not the name of a header")
    return value


HeaderName = Annotated[str, AfterValidator(header_name)]


class Section(Model, ABC):
    """The keys of one type of catalog."""

    @abstractmethod
    def spark(self, stores: Stores) -> dict[str, str]:
        """The Spark properties that the keys stand for, secrets among them."""

    def identity(self) -> list[str]:
        """What tells this catalog from others of its type, whoever opens it."""
        return []

    def jars(self) -> tuple[str, ...]:
        """The components of `jars.lock` that it needs."""
        return ()

    def addresses(self) -> tuple[str, ...]:
        """The addresses of its servers."""
        return ()

    def in_the_clear(self) -> tuple[str, ...]:
        """The addresses to which a credential itself is sent, not only a signature made with it."""
        return ()

    def environment(self) -> dict[str, Secret]:
        """Environment variables of the process, for what no property can say."""
        return {}


class WithProperties(Section):
    """A type of catalog that takes properties of its own."""

    properties: dict[str, SecretText] = Field(default_factory=dict)
    """Further properties of the catalog, passed on as they are; their values are treated as secrets."""

    def revealed(self) -> dict[str, str]:
        """The properties with their values."""
        return {name: value.reveal() for name, value in self.properties.items()}

    def flaws(self) -> list[Flaw]:
        return [
            Flaw(("properties", name), why)
            for name, value in sorted(self.properties.items())
            if (why := self.refusal(name, value.reveal()))
        ]

    def refusal(self, name: str, value: str) -> str | None:
        """Why a property cannot be passed on."""
        if name in OWNED:
            return "has its own key in the declaration; use that"
        if name == "io-impl" and value in FILE_IOS:
            return None
        if _CODE.fullmatch(name) or (name == "rest.auth.type" and "." in value):
            return "cannot be set here: it loads code"
        if value.startswith("env:"):
            return "Iceberg would read the environment; write ${NAME}"
        return None
