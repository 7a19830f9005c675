"""Catalogs that are a database or a metastore: JDBC, Hive and Nessie."""

from __future__ import annotations

import re
from typing import Annotated, Literal
from urllib.parse import parse_qsl, urlsplit

from pydantic import AfterValidator, Field, ValidationInfo

from calve.addresses import HttpAddress
from calve.catalogs.section import Section, WithProperties, listed
from calve.model import Flaw, Secret, is_uri, location, suggestion
from calve.stores import Stores
from calve.stores.store import beside, given, together

DRIVERS = {"sqlite": "sqlite", "postgresql": "postgresql", "mysql": "mariadb", "mariadb": "mariadb"}
"""The kinds of databases, and the component of `jars.lock` that has the driver."""

OPTIONS: dict[str, tuple[str, ...]] = {
    "sqlite": ("busy_timeout", "cache", "journal_mode", "mode", "synchronous"),
    "postgresql": (
        *("ApplicationName", "connectTimeout", "currentSchema", "loginTimeout", "socketTimeout", "ssl"),
        *("sslcert", "sslkey", "sslmode", "sslrootcert", "targetServerType", "tcpKeepAlive"),
    ),
    "mariadb": (
        *("connectTimeout", "connectionCollation", "keyStore", "serverSslCert", "socketTimeout", "sslMode"),
        *("tcpKeepAlive", "transactionIsolation", "trustStore", "trustStoreType"),
    ),
}
"""The options that drivers are given: none that loads a class, reads or writes a file of its own accord."""

_PATIENT = "busy_timeout=30000"


def _thrift(value: str) -> str:
    for one in value.split(","):
        if not re.match(r"thrift://[^/]", one.strip()):
            raise ValueError("not an address; it begins with thrift://")
    return value


def _jdbc(value: str, info: ValidationInfo) -> str:
    if not value.startswith("jdbc:"):
        raise ValueError("not an address; it begins with jdbc:")
    kind = value.split(":")[1]
    if kind not in DRIVERS:
        raise ValueError(
            f"Calve has no driver for it; such as jdbc:postgresql://host/name{suggestion(kind, DRIVERS)}"
        )
    path = value.removeprefix("jdbc:sqlite:")
    if kind == "sqlite" and path and not is_uri(path) and not path.startswith(":"):
        name, mark, options = path.partition("?")
        return f"jdbc:sqlite:{location(name, info)}{mark}{options}"
    return value


def _name(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value):
        raise ValueError("not the name of a catalog; use letters, digits and '_'")
    return value


class Jdbc(WithProperties):
    """Tables registered in a relational database: SQLite, PostgreSQL, MySQL or MariaDB."""

    uri: Annotated[str, AfterValidator(_jdbc)]
    """The address of the database, such as `jdbc:postgresql://localhost/lake`."""

    name: Annotated[str, AfterValidator(_name)] = "calve"
    """The name of the catalog in the database; all that use it must give the same."""

    user: str | None = Field(default=None, min_length=1)
    """The user of the database."""

    password: Secret | None = None
    """The password of the user."""

    clients: int | None = Field(default=None, ge=1)
    """How many connections to the database are kept; 2 where left out."""

    def spark(self, stores: Stores) -> dict[str, str]:
        found: dict[str, str | Secret | None] = {
            "type": "jdbc",
            "uri": self._uri(),
            "jdbc.schema-version": "V1",
            "jdbc.user": self.user,
            "jdbc.password": self.password,
            "clients": None if self.clients is None else str(self.clients),
            # A server may otherwise ask for any file of this machine.
            "jdbc.allowLocalInfile": "false" if DRIVERS[self.kind] == "mariadb" else None,
        }
        return {**given(found), **{f"jdbc.{name}": value for name, value in self.revealed().items()}}

    @property
    def kind(self) -> str:
        """The kind of database."""
        return self.uri.split(":")[1]

    def identity(self) -> list[str]:
        return [self.uri.partition("?")[0], self.name]

    def jars(self) -> tuple[str, ...]:
        return (DRIVERS[self.kind],)

    def addresses(self) -> tuple[str, ...]:
        """The hosts of the database; the port tells nothing where a file is the database."""
        ports = {"postgresql": 5432, "mariadb": 3306, "mysql": 3306}
        if self.kind not in ports:
            return ()
        hosts = urlsplit(self.uri.removeprefix("jdbc:")).netloc.rpartition("@")[2] or "localhost"
        return tuple(
            f"tcp://{one}" if re.search(r":\d+$", one) else f"tcp://{one}:{ports[self.kind]}"
            for one in hosts.split(",")
        )

    def flaws(self) -> list[Flaw]:
        return [*super().flaws(), *self._uri_flaws()]

    def refusal(self, name: str, value: str) -> str | None:
        return self._option_refusal(name) or super().refusal(name, value)

    def _option_refusal(self, name: str) -> str | None:
        known = OPTIONS[DRIVERS[self.kind]]
        if name in known:
            return None
        meant = suggestion(name, known) or f"; one of {', '.join(known)}"
        return f"'{name}' is not an option that can be given to the driver{meant}"

    def _uri_flaws(self) -> list[Flaw]:
        parts = urlsplit(self.uri.removeprefix("jdbc:"))
        options = [name for name, _ in parse_qsl(self.uri.partition("?")[2], keep_blank_values=True)]
        found = [why for name in options if (why := self._in_uri(name))]
        if "@" in parts.netloc:
            found.append("has a user in it; use 'user' and 'password'")
        return [Flaw(("uri",), why) for why in found]

    def _in_uri(self, name: str) -> str | None:
        if name in ("user", "password"):
            return f"has a {name} in it; use '{name}'"
        return self._option_refusal(name)

    def _uri(self) -> str:
        """SQLite gives up at once where another process writes, unless it is told to wait."""
        if self.kind == "mysql":
            # The driver speaks to both, and wants to be called by its own name.
            return self.uri.replace("jdbc:mysql:", "jdbc:mariadb:", 1)
        if self.kind != "sqlite" or "busy_timeout" in self.uri or "busy_timeout" in self.properties:
            return self.uri
        return f"{self.uri}{'&' if '?' in self.uri else '?'}{_PATIENT}"


ThriftAddress = Annotated[str, AfterValidator(_thrift)]


class Hive(Section):
    """A Hive metastore."""

    uri: ThriftAddress | Annotated[list[ThriftAddress], Field(min_length=1)]
    """The address of the metastore, such as `thrift://localhost:9083`, or several of them."""

    warehouse: str | None = Field(default=None, min_length=1)
    """Where tables are put."""

    lock: bool = True
    """Whether a commit takes a lock of the metastore. Without, the metastore itself must compare what it
    replaces (Hive 4, or 2.3 and 3.1 with HIVE-26882), and all writers must do the same."""

    clients: int | None = Field(default=None, ge=1)
    """How many connections to the metastore are kept; 2 where left out."""

    def spark(self, stores: Stores) -> dict[str, str]:
        return {
            "type": "hive",
            "uri": ",".join(self.addresses()),
            **given(
                {
                    "warehouse": self.warehouse,
                    "clients": None if self.clients is None else str(self.clients),
                    "hadoop.iceberg.engine.hive.lock-enabled": None if self.lock else "false",
                }
            ),
        }

    def identity(self) -> list[str]:
        return sorted(self.addresses())

    def addresses(self) -> tuple[str, ...]:
        return tuple(part.strip() for one in listed(self.uri) for part in one.split(","))


class Nessie(WithProperties):
    """A Nessie server, by its own protocol; by Iceberg's protocol it is a catalog of type `rest`."""

    uri: HttpAddress
    """The address of the server, such as `http://localhost:19120/api/v2`."""

    ref: str = Field(default="main", min_length=1)
    """The branch or tag of Nessie to work on."""

    token: Secret | None = None
    """The bearer token."""

    username: str | None = Field(default=None, min_length=1)
    """The user name, in place of a token."""

    password: Secret | None = None
    """The password of `username`."""

    def spark(self, stores: Stores) -> dict[str, str]:
        return {
            "type": "nessie",
            "uri": self.uri,
            "ref": self.ref,
            **given(
                {
                    "authentication.type": self._authentication(),
                    "authentication.token": self.token,
                    "authentication.username": self.username,
                    "authentication.password": self.password,
                }
            ),
            # The client follows redirects by default, credentials and all.
            "http-redirects": "NEVER",
            **self.revealed(),
        }

    def identity(self) -> list[str]:
        return [self.uri, self.ref]

    def addresses(self) -> tuple[str, ...]:
        return (self.uri,)

    def in_the_clear(self) -> tuple[str, ...]:
        return (self.uri,) if self.token or self.password else ()

    def flaws(self) -> list[Flaw]:
        found = [
            *super().flaws(),
            *beside(self, "token", "username"),
            *together(self, "username", "password"),
        ]
        if not re.search(r"/v[12]$", self.uri) and "client-api-version" not in self.properties:
            found.append(Flaw(("uri",), "does not end with the version, such as /api/v2"))
        return found

    def _authentication(self) -> Literal["BEARER", "BASIC"] | None:
        if self.token:
            return "BEARER"
        return "BASIC" if self.username else None
