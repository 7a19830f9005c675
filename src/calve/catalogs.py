"""Catalogs: where tables are registered, as declared, and the Spark properties that open them."""

from __future__ import annotations

import hashlib
import json
import re
from abc import ABC, abstractmethod
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator

from calve.model import Flaw, Model, Secret, SecretText, is_uri, location

SPARK_NAME = "calve"
"""The name of the embedded catalog; other readers of its database must use the same."""

CatalogType = Literal["rest", "s3tables", "glue", "hive", "jdbc", "hadoop", "nessie", "memory"]

_OWNED = ("type", "catalog-impl", "uri", "warehouse", "cache-enabled", "credential", "token")
_SECRET = re.compile(r"credential|token|secret|password|key|authorization|header\.", re.IGNORECASE)


def _http(value: str) -> str:
    if not re.match(r"https?://[^/]", value):
        raise ValueError("not an address; it begins with http:// or https://")
    return value


def _thrift(value: str) -> str:
    if not re.match(r"thrift://[^/]", value):
        raise ValueError("not an address; it begins with thrift://")
    return value


def _jdbc(value: str) -> str:
    if not value.startswith("jdbc:"):
        raise ValueError("not an address; it begins with jdbc:")
    return value


HttpAddress = Annotated[str, AfterValidator(_http)]


class Section(Model, ABC):
    """The keys of one type of catalog."""

    @abstractmethod
    def spark(self) -> dict[str, str]:
        """The Spark properties that the keys stand for, secrets among them."""


class WithProperties(Section):
    """A type of catalog that takes properties of its own."""

    properties: dict[str, SecretText] = Field(default_factory=dict)
    """Further properties of the catalog, passed on as they are; their values are treated as secrets."""

    def revealed(self) -> dict[str, str]:
        """The properties with their values."""
        return {name: value.reveal() for name, value in self.properties.items()}

    def flaws(self) -> list[Flaw]:
        owned = sorted(set(self.properties) & set(_OWNED))
        return [Flaw(("properties", name), "has its own key in the declaration; use that") for name in owned]


class Rest(WithProperties):
    """A catalog behind Iceberg's REST protocol."""

    uri: HttpAddress
    """The address of the catalog, such as `http://localhost:8181`."""

    warehouse: str | None = Field(default=None, min_length=1)
    """The warehouse to ask the catalog for: a name or a location, as the catalog wants it."""

    credential: Secret | None = None
    """`<client id>:<client secret>` for OAuth, or, without a colon, a bearer token."""

    def spark(self) -> dict[str, str]:
        found = {"type": "rest", "uri": self.uri, **_given(warehouse=self.warehouse), **self.revealed()}
        if self.credential is not None:
            secret = self.credential.reveal()
            found["credential" if ":" in secret else "token"] = secret
        return found


class S3Tables(Section):
    """A table bucket of Amazon S3 Tables."""

    arn: str = Field(min_length=1)
    """The ARN of the table bucket."""

    region: str | None = Field(default=None, min_length=1)
    """The AWS region; left out, the one that the ARN names."""

    def spark(self) -> dict[str, str]:
        region = self.region or (self.arn.split(":") + [""] * 4)[3]
        return {
            "type": "rest",
            "uri": f"https://s3tables.{region}.amazonaws.com/iceberg",
            "warehouse": self.arn,
            "rest.auth.type": "sigv4",
            "rest.signing-name": "s3tables",
            "rest.signing-region": region,
        }


class Glue(Section):
    """The AWS Glue Data Catalog."""

    region: str | None = Field(default=None, min_length=1)
    """The AWS region; left out, the one that the environment names."""

    catalog_id: str | None = Field(default=None, min_length=1)
    """The id of the Glue catalog; left out, the one of the account."""

    profile: str | None = Field(default=None, min_length=1)
    """The AWS profile to take credentials from."""

    def spark(self) -> dict[str, str]:
        return {"type": "glue", **_given(**{"glue.id": self.catalog_id, "client.region": self.region})}


class Hive(Section):
    """A Hive metastore."""

    uri: Annotated[str, AfterValidator(_thrift)]
    """The address of the metastore, such as `thrift://localhost:9083`."""

    warehouse: str | None = Field(default=None, min_length=1)
    """Where tables are put."""

    def spark(self) -> dict[str, str]:
        return {"type": "hive", "uri": self.uri, **_given(warehouse=self.warehouse)}


class Jdbc(WithProperties):
    """Tables registered in a relational database."""

    uri: Annotated[str, AfterValidator(_jdbc)]
    """The address of the database, such as `jdbc:postgresql://localhost/lake`."""

    user: str | None = Field(default=None, min_length=1)
    """The user of the database."""

    password: Secret | None = None
    """The password of the user."""

    def spark(self) -> dict[str, str]:
        password = self.password.reveal() if self.password else None
        keys = {"jdbc.user": self.user, "jdbc.password": password}
        found = {"type": "jdbc", "uri": self.uri, "jdbc.schema-version": "V1"}
        return {**found, **_given(**keys), **self.revealed()}


class Nessie(WithProperties):
    """A Nessie server."""

    uri: HttpAddress
    """The address of the server, such as `http://localhost:19120/api/v2`."""

    ref: str = Field(default="main", min_length=1)
    """The branch or tag of Nessie to work on."""

    token: Secret | None = None
    """The bearer token."""

    def spark(self) -> dict[str, str]:
        found = {"type": "nessie", "uri": self.uri, "ref": self.ref, **self.revealed()}
        if self.token is not None:
            found |= {"authentication.type": "BEARER", "authentication.token": self.token.reveal()}
        return found


def _given(**keys: str | None) -> dict[str, str]:
    return {name: value for name, value in keys.items() if value is not None}


_SECTIONS = ("rest", "s3tables", "glue", "hive", "jdbc", "nessie")
_OPTIONAL = ("glue",)
_WAREHOUSE_NEEDED = ("glue", "jdbc", "hadoop", "nessie", "memory")
_WAREHOUSE_REFUSED = ("s3tables",)


class Catalog(Model):
    """Where the table is registered. Left out: a SQLite database in `warehouse` beside the declaration."""

    type: CatalogType | None = None
    """What the catalog is. `memory` lives in the process and is for tests. Left out: the embedded catalog."""

    rest: Rest | None = None
    """The keys of a catalog of type `rest`."""

    s3tables: S3Tables | None = None
    """The keys of a catalog of type `s3tables`."""

    glue: Glue | None = None
    """The keys of a catalog of type `glue`."""

    hive: Hive | None = None
    """The keys of a catalog of type `hive`."""

    jdbc: Jdbc | None = None
    """The keys of a catalog of type `jdbc`."""

    nessie: Nessie | None = None
    """The keys of a catalog of type `nessie`."""

    warehouse: str | None = Field(default=None, min_length=1)
    """Where tables are put: a path or a URI. Default of the embedded catalog: `warehouse`."""

    @model_validator(mode="before")
    @classmethod
    def _embedded_unless_typed(cls, value: Any) -> Any:
        return (
            {"warehouse": "warehouse", **value} if isinstance(value, dict) and "type" not in value else value
        )

    @field_validator("warehouse")
    @classmethod
    def _local_warehouse(cls, value: str | None, info: ValidationInfo) -> str | None:
        local = info.data.get("type") in (None, "jdbc", "hadoop", "memory")
        return location(value, info) if value and local else value

    @property
    def section(self) -> Section | None:
        """The keys of the type, if it has any."""
        section: Section | None = getattr(self, self.type) if self.type in _SECTIONS else None
        return section

    @property
    def jars(self) -> tuple[str, ...]:
        """The components of `jars.lock` that the catalog needs."""
        return ("sqlite",) if self.type in (None, "memory") else ()

    def spark_name(self) -> str:
        """The name of the catalog in Spark: the same for the same catalog, whatever its secrets."""
        if self.type is None:
            return SPARK_NAME
        return f"{SPARK_NAME}_{self._digest()}"

    def spark_properties(self) -> dict[str, str]:
        """The properties of the catalog in Spark, without their prefix. Holds secrets."""
        found = {**self._properties(), "cache-enabled": "false"}
        return found if self.warehouse is None else {**found, "warehouse": self.warehouse}

    def description(self) -> str:
        """The catalog in a few words, without secrets."""
        if self.type is None:
            return f"the embedded catalog in {self.warehouse}"
        uri = getattr(self.section, "uri", None) or getattr(self.section, "arn", None)
        place = _without_user(uri) if uri else self.warehouse
        return f"the {self.type} catalog" + (f" at {place}" if place else "")

    def flaws(self) -> list[Flaw]:
        return [*self._section_flaws(), *self._warehouse_flaws(), *self._inner_flaws()]

    def _properties(self) -> dict[str, str]:
        if self.type is None:
            return _sqlite(f"{self.warehouse}/catalog.db?busy_timeout=30000")
        if self.type == "memory":
            # One client: SQLite does not wait for a lock of a database that is shared in memory.
            return _sqlite(f"file:calve_{self._digest()}?mode=memory&cache=shared") | {"clients": "1"}
        return self.section.spark() if self.section else {"type": self.type}

    def _digest(self) -> str:
        section = self.section.spark() if self.section else {}
        public = {name: value for name, value in section.items() if not _SECRET.search(name)}
        text = json.dumps([self.type, self.warehouse, public], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:8]

    def _section_flaws(self) -> list[Flaw]:
        found = []
        for name in _SECTIONS:
            given = getattr(self, name) is not None
            if given and name != self.type:
                found.append(Flaw((name,), f"has no effect: it belongs to 'type: {name}'"))
            elif not given and name == self.type and name not in _OPTIONAL:
                found.append(Flaw((name,), f"required key is missing: 'type: {name}' needs it"))
        return found

    def _warehouse_flaws(self) -> list[Flaw]:
        inner = getattr(self.section, "warehouse", None)
        if self.warehouse is None:
            message = f"required key is missing: 'type: {self.type}' needs it"
            return [Flaw(("warehouse",), message)] if self.type in _WAREHOUSE_NEEDED else []
        if self.type in _WAREHOUSE_REFUSED:
            return [Flaw(("warehouse",), "has no effect: the table bucket is the warehouse")]
        if inner is not None:
            return [Flaw(("warehouse",), f"is given twice; leave it here or in '{self.type}'")]
        if self.type is None and is_uri(self.warehouse):
            return [
                Flaw(("warehouse",), "is not a directory of this machine; the embedded catalog needs one")
            ]
        return []

    def _inner_flaws(self) -> list[Flaw]:
        return [flaw.under(str(self.type)) for flaw in self.section.flaws()] if self.section else []


def embedded(directory: str) -> Catalog:
    """The catalog of a declaration in `directory` that names none."""
    return Catalog.model_validate({}, context={"directory": directory})


def _sqlite(database: str) -> dict[str, str]:
    return {"type": "jdbc", "uri": f"jdbc:sqlite:{database}", "jdbc.schema-version": "V1"}


def _without_user(uri: str) -> str:
    bare = uri.partition("?")[0]
    parts = urlsplit(bare.removeprefix("jdbc:"))
    return bare.replace(f"{parts.netloc}", parts.netloc.rpartition("@")[2], 1)
