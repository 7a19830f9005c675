"""Catalogs: where tables are registered, as declared, and the Spark properties that open them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, PrivateAttr, ValidationInfo, field_validator, model_validator

from calve.addresses import store_of
from calve.catalogs.aws import Glue, S3Tables
from calve.catalogs.databases import Hive, Jdbc, Nessie
from calve.catalogs.rest import Rest
from calve.catalogs.section import Section
from calve.model import Flaw, Model, Secret, is_uri, location
from calve.stores import S3, Azure, Gcs, Stores

__all__ = [
    "SPARK_NAME",
    "Catalog",
    "CatalogType",
    "Glue",
    "Hive",
    "Jdbc",
    "Nessie",
    "Rest",
    "S3Tables",
    "Section",
    "embedded",
]

SPARK_NAME = "calve"
"""The name of the embedded catalog; other readers of its database must use the same."""

CatalogType = Literal["rest", "s3tables", "glue", "hive", "jdbc", "hadoop", "nessie", "memory"]

_SECTIONS = ("rest", "s3tables", "glue", "hive", "jdbc", "nessie")
_OPTIONAL = ("glue",)
_WAREHOUSE_NEEDED = ("glue", "jdbc", "hadoop", "nessie", "memory")
_WAREHOUSE_REFUSED = ("s3tables",)
_LOCAL = (None, "jdbc", "hadoop", "memory")
_OBJECT_STORES = ("s3", "gcs", "azure")


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

    allowed_locations: list[str] = Field(default_factory=list)
    """Places beside the warehouse, paths or URIs, where tables and their files may lie."""

    allow_insecure: bool = False
    """Whether credentials may go to a plain `http` address of another machine, where others can read them."""

    _stores: Stores = PrivateAttr(default_factory=Stores)

    @model_validator(mode="before")
    @classmethod
    def _embedded_unless_typed(cls, value: Any) -> Any:
        return (
            {"warehouse": "warehouse", **value} if isinstance(value, dict) and "type" not in value else value
        )

    @field_validator("warehouse")
    @classmethod
    def _local_warehouse(cls, value: str | None, info: ValidationInfo) -> str | None:
        return location(value, info) if value and info.data.get("type") in _LOCAL else value

    @field_validator("allowed_locations")
    @classmethod
    def _locations(cls, value: list[str], info: ValidationInfo) -> list[str]:
        found = [location(one, info) for one in value]
        for one in found:
            if store_of(one) is None:
                raise ValueError("not a location; a path, or a URI such as s3://bucket/path")
        return found

    @property
    def section(self) -> Section | None:
        """The keys of the type, if it has any."""
        section: Section | None = getattr(self, self.type) if self.type in _SECTIONS else None
        return section

    @property
    def stores(self) -> Stores:
        """The stores that the sink declares beside the catalog."""
        return self._stores

    def with_stores(self, stores: Stores) -> Catalog:
        """The same catalog, whose files are in `stores`."""
        copy = self.model_copy()
        copy._stores = stores
        return copy

    @property
    def jars(self) -> tuple[str, ...]:
        """The components of `jars.lock` that the catalog and its stores need."""
        own = ("sqlite",) if self.type in (None, "memory") else ()
        found = (*own, *(self.section.jars() if self.section else ()))
        return tuple(dict.fromkeys((*found, *(store.component for store in self._used_stores()))))

    @property
    def place(self) -> str | None:
        """The warehouse, wherever it is declared: a location or, for some catalogs, a name."""
        inner: str | None = getattr(self.section, "warehouse", None) or getattr(self.section, "arn", None)
        return self.warehouse or inner

    def identity(self) -> str:
        """The same for declarations of the same catalog, whatever their credentials and stores."""
        return json.dumps([self.type, self.warehouse, *(self.section.identity() if self.section else ())])

    def spark_name(self) -> str:
        """The name of the catalog in Spark: the same for the same catalog, whatever its secrets."""
        if self.type is None:
            return SPARK_NAME
        # Iceberg keeps the tables of a database under the name that Spark has for the catalog.
        return self.jdbc.name if self.jdbc is not None else f"{SPARK_NAME}_{self._digest()}"

    def spark_properties(self) -> dict[str, str]:
        """The properties of the catalog in Spark, without their prefix. Holds secrets."""
        found = {**self._used_stores().file_io(), **self._properties(), "cache-enabled": "false"}
        return found if self.warehouse is None else {**found, "warehouse": self.warehouse}

    def environment(self) -> dict[str, Secret]:
        """Environment variables that the process needs to open the catalog and its stores."""
        parts = [self.section] if self.section else []
        return {name: value for part in (*parts, *self._stores) for name, value in part.environment().items()}

    @property
    def asks_instance(self) -> bool:
        """Whether the addresses at which clouds tell credentials may be asked."""
        parts = (self.section, *self._stores)
        return any(getattr(part, "instance_credentials", False) for part in parts)

    def in_the_clear(self) -> tuple[str, ...]:
        """The addresses to which a credential is sent, and that nobody has allowed to be plain http."""
        own = () if self.allow_insecure or self.section is None else self.section.in_the_clear()
        others = [store.in_the_clear() for store in self._stores if not store.allow_insecure]
        return (*own, *(address for addresses in others for address in addresses))

    def description(self) -> str:
        """The catalog in a few words, without secrets."""
        if self.type is None:
            return f"the embedded catalog in {self.warehouse}"
        uri = getattr(self.section, "uri", None) or getattr(self.section, "arn", None)
        uris = [uri] if isinstance(uri, str) else uri or []
        place = ", ".join(map(_without_user, uris)) or self.warehouse
        return f"the {self.type} catalog" + (f" at {place}" if place else "")

    def flaws(self) -> list[Flaw]:
        return [*self._section_flaws(), *self._warehouse_flaws(), *self._inner_flaws()]

    def store_flaws(self) -> list[Flaw]:
        """What contradicts between the catalog and its stores, as seen from the sink."""
        return [*self._unused_stores(), *self._vending_flaws(), *self._aws_flaws()]

    def _unused_stores(self) -> list[Flaw]:
        places = [one for one in (self.place, *self.allowed_locations) if one]
        kinds = {store_of(one) for one in places}
        if self.type == "s3tables":
            kinds = {"s3"}
        elif self.place is None or store_of(self.place) is None:
            return []
        return [
            Flaw((name,), "has no effect: neither 'warehouse' nor 'allowed_locations' lies in it")
            for name in self._stores.declared()
            if name not in kinds
        ]

    def _vending_flaws(self) -> list[Flaw]:
        own = [name for name, store in self._stores.declared().items() if store.has_credentials]
        if not own or self.rest is None or not self.rest.vended_credentials:
            return []
        why = f"stands beside credentials in '{own[0]}'; keep one of the two"
        return [Flaw(("catalog", "rest", "vended_credentials"), why)]

    def _aws_flaws(self) -> list[Flaw]:
        """Iceberg has one region and one role for a catalog and its files."""
        section, s3 = self.glue or self.s3tables, self._stores.s3
        if section is None or s3 is None:
            return []
        pairs = {key: (getattr(section, key, None), getattr(s3, key)) for key in ("region", "role_arn")}
        found = [
            Flaw(("s3", key), f"differs from '{key}' of the catalog; Iceberg has one for both")
            for key, (one, other) in pairs.items()
            if one is not None and other is not None and one != other
        ]
        if getattr(section, "role_arn", None) and (s3.access_key_id or s3.profile):
            found.append(Flaw(("s3",), "has no effect: Iceberg uses the role of the catalog for its files"))
        if self.s3tables and self.s3tables.profile and s3.has_credentials:
            found.append(Flaw(("catalog", "s3tables", "profile"), "stands beside credentials in 's3'"))
        return found

    def _properties(self) -> dict[str, str]:
        if self.type is None:
            return _sqlite(f"{self.warehouse}/catalog.db?busy_timeout=30000")
        if self.type == "memory":
            # One client: SQLite does not wait for a lock of a database that is shared in memory.
            return _sqlite(f"file:calve_{self._digest()}?mode=memory&cache=shared") | {"clients": "1"}
        return self.section.spark(self._stores) if self.section else {"type": self.type}

    def _used_stores(self) -> Stores:
        """The stores declared, and the one that the warehouse is in, with its default credentials."""
        kind = store_of(self.place) if self.place else None
        if kind not in _OBJECT_STORES or kind in self._stores.declared():
            return self._stores
        if kind == "azure":
            account = urlsplit(str(self.place)).netloc.rpartition("@")[2].partition(".")[0]
            return replace(self._stores, azure=Azure.model_construct(storage_account=account))
        return replace(self._stores, s3=S3()) if kind == "s3" else replace(self._stores, gcs=Gcs())

    def _digest(self) -> str:
        parts = (self.section, *self._stores)
        public = [part.model_dump(mode="json", exclude_defaults=True) for part in parts if part is not None]
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
        why = self._warehouse_refusal(self.warehouse, inner)
        return [Flaw(("warehouse",), why)] if why else []

    def _warehouse_refusal(self, warehouse: str, inner: str | None) -> str | None:
        if self.type in _WAREHOUSE_REFUSED:
            return "has no effect: the table bucket is the warehouse"
        if inner is not None:
            return f"is given twice; leave it here or in '{self.type}'"
        if self.type is None and is_uri(warehouse):
            return "is not a directory of this machine; the embedded catalog needs one"
        if self.type == "hadoop" and store_of(warehouse) in _OBJECT_STORES:
            return (
                "is in an object store, where two writers of a 'type: hadoop' overwrite each other's commits"
            )
        return None

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
