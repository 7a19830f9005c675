"""Tables as PyIceberg opens them, from the catalog that a declaration names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from calve import trust
from calve.catalogs import SPARK_NAME, Catalog
from calve.errors import ConfigurationError
from calve.trust import preflight
from calve.verify.failures import translated

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog as Opened
    from pyiceberg.table import Table

Load = Callable[[], "Table | None"]

_SPARK_ONLY = (
    "type",
    "cache-enabled",
    "io-impl",
    "rest.auth.type",
    "rest.client.connection-timeout-ms",
    "rest.client.socket-timeout-ms",
    "client.factory",
)
_NAMES = {
    "client.region": "s3.region",
    "adls.auth.shared-key.account.name": "adls.account-name",
    "adls.auth.shared-key.account.key": "adls.account-key",
}
_VERSION = re.compile(r"v(\d+)(?:\.gz)?\.metadata\.json(?:\.gz)?")


@contextmanager
def opened(declared: Catalog, identifier: Sequence[str]) -> Iterator[Load]:
    """A function that loads the table anew each time, or None where there is none."""
    name = ".".join(identifier)
    what = f"open table '{name}' with PyIceberg"
    if declared.type == "hadoop":
        yield lambda: _translated(what, lambda: _newest(declared, identifier))
        return
    with translated(what):
        catalog = open_catalog(declared)
    try:
        yield lambda: _translated(what, lambda: _load(catalog, identifier))
    finally:
        catalog.close()


def open_catalog(declared: Catalog) -> Opened:
    """The catalog; raises ConfigurationError for one that no other process can open."""
    if declared.type is None:
        return embedded(str(declared.warehouse))
    if declared.type == "rest":
        return rest(declared)
    if declared.type == "memory":
        raise ConfigurationError(
            "Cannot open a catalog of type 'memory': it lives and ends with the process that writes to it"
        )
    raise ConfigurationError(
        f"Cannot open a catalog of type '{declared.type}' with PyIceberg: the embedded one, rest and "
        "hadoop can be opened"
    )


def embedded(warehouse: str) -> Opened:
    """The catalog that a declaration without one keeps in `warehouse`."""
    from pyiceberg.catalog.sql import SqlCatalog

    uri = f"sqlite:///{warehouse}/catalog.db?timeout=30"
    return SqlCatalog(SPARK_NAME, uri=uri, warehouse=warehouse, init_catalog_tables="false")


def rest(declared: Catalog) -> Opened:
    """A catalog behind Iceberg's REST protocol, with the credentials and properties that are declared."""
    from pyiceberg.catalog.rest import RestCatalog

    trust.refuse_open(declared)
    given, policy = declared.spark_properties(), trust.of(declared)
    if preflight.is_needed(policy, given):
        given = preflight.checked(policy, given)
    return RestCatalog(SPARK_NAME, **for_pyiceberg(given))


def for_pyiceberg(given: Mapping[str, str]) -> dict[str, Any]:
    """The properties of a Spark catalog as PyIceberg wants them."""
    found: dict[str, Any] = {
        _NAMES.get(key, key): value for key, value in given.items() if key not in _SPARK_ONLY
    }
    if given.get("rest.auth.type") == "basic":
        user, password = found.pop("rest.auth.basic.username"), found.pop("rest.auth.basic.password")
        found["auth"] = {"type": "basic", "basic": {"username": user, "password": password}}
    if given.get("s3.path-style-access") == "true":
        found["s3.force-virtual-addressing"] = "false"
    return found


def _translated(what: str, load: Load) -> Table | None:
    with translated(what):
        return load()


def _load(catalog: Opened, identifier: Sequence[str]) -> Table | None:
    from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

    try:
        return catalog.load_table(tuple(identifier))
    except (NoSuchTableError, NoSuchNamespaceError):
        return None
    except Exception as error:
        if "no such table: iceberg_tables" in str(error):
            return None
        raise


def _newest(declared: Catalog, identifier: Sequence[str]) -> Table | None:
    """The table of the highest version in its directory, which is the current one of a Hadoop catalog."""
    from pyiceberg.table import StaticTable

    from calve.verify.reader import names

    folder = "/".join([str(declared.warehouse).rstrip("/"), *identifier, "metadata"])
    versions = {int(match[1]): name for name in names(folder) if (match := _VERSION.fullmatch(name))}
    return StaticTable.from_metadata(f"{folder}/{versions[max(versions)]}") if versions else None
