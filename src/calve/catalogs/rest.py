"""Catalogs behind Iceberg's REST protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from calve.addresses import HttpAddress
from calve.catalogs.section import HeaderName, Several, WithProperties, listed
from calve.model import Duration, Flaw, Secret, SecretText
from calve.stores import Stores
from calve.stores.store import beside, given, together

DELEGATION = "header.X-Iceberg-Access-Delegation"
VENDED = "vended-credentials"

STAY = {"header.Cookie": "calve=1"}
"""Iceberg's client follows redirects to other hosts, credentials in the body and in headers of their own
included, unless a request has a cookie or an `Authorization`; no server minds a cookie."""

_OAUTH = ("oauth2_server_uri", "scope", "audience", "resource")
_KEYS = {
    "oauth2-server-uri": "oauth2_server_uri",
    "scope": "scope",
    "audience": "audience",
    "resource": "resource",
    "rest.auth.basic.username": "username",
    "rest.auth.basic.password": "password",
    "rest.client.max-connections": "max_connections",
    "rest.client.connection-timeout-ms": "connect_timeout",
    "rest.client.socket-timeout-ms": "read_timeout",
    "rest.client.max-retries": "max_retries",
}


CONNECT_TIMEOUT, READ_TIMEOUT = 30.0, 60.0
"""Seconds; Iceberg's client by itself waits three minutes for each."""

_TIMEOUTS = ("rest.client.connection-timeout-ms", "rest.client.socket-timeout-ms")


def bounded(properties: Mapping[str, str], seconds: float) -> dict[str, str]:
    """The properties of a catalog for whose answers nobody waits longer than `seconds`."""
    longest = max(1, round(seconds * 1000))
    shorter = {
        name: str(longest)
        for name in _TIMEOUTS
        if properties.get(name, "").isdecimal() and int(properties[name]) > longest
    }
    return {**properties, **shorter}


def token_address(uri: str) -> str:
    """Where a catalog gives out tokens that does so itself."""
    return f"{uri.rstrip('/')}/v1/oauth/tokens"


class Rest(WithProperties):
    """A catalog behind Iceberg's REST protocol."""

    uri: HttpAddress | Several
    """The address of the catalog, such as `http://localhost:8181`; of several, the first is taken that
    answers when the catalog is opened."""

    warehouse: str | None = Field(default=None, min_length=1)
    """The warehouse to ask the catalog for: a name or a location, as the catalog wants it."""

    credential: Secret | None = None
    """`<client id>:<client secret>` for OAuth, or, without a colon, a bearer token."""

    oauth2_server_uri: HttpAddress | None = None
    """Where tokens are given out for `credential`; left out, the catalog does it itself."""

    scope: str | None = Field(default=None, min_length=1)
    """What a token is asked for, such as `PRINCIPAL_ROLE:ALL`; left out, `catalog`."""

    audience: str | None = Field(default=None, min_length=1)
    """For whom a token is asked, where the token server wants to know."""

    resource: str | None = Field(default=None, min_length=1)
    """For what a token is asked, where the token server wants to know."""

    token_refresh: bool = True
    """Whether a token is replaced before it expires."""

    token_exchange: bool = True
    """Whether a token is replaced by exchange, as most servers have it, and not by asking for a new one."""

    username: str | None = Field(default=None, min_length=1)
    """The user name, for a catalog that takes name and password."""

    password: Secret | None = None
    """The password of `username`."""

    headers: dict[HeaderName, SecretText] = Field(default_factory=dict)
    """Headers of every request; their values are treated as secrets."""

    vended_credentials: bool | None = None
    """Whether the catalog is asked for credentials of the store. Left out: unless the sink has its own."""

    allowed_hosts: list[Annotated[str, Field(min_length=1)]] = Field(default_factory=list)
    """Hosts, beside those declared here, that the catalog may send us to: for tokens, signatures, files."""

    allowed_properties: list[Annotated[str, Field(min_length=1)]] = Field(default_factory=list)
    """Settings of Iceberg's client that the catalog may send beside credentials, regions, addresses and
    time-outs, such as `s3.sse.*`. None by which code is loaded."""

    max_connections: int | None = Field(default=None, ge=1)
    """How many connections to the catalog are kept; 100 where left out."""

    connect_timeout: Duration | None = None
    """How long a connection may take to come about, such as `10s`; 30 s where left out, and never longer
    than `retry_for`."""

    read_timeout: Duration | None = None
    """How long an answer may take, such as `2m`; 60 s where left out, and never longer than `retry_for`."""

    max_retries: int | None = Field(default=None, ge=0)
    """How often Iceberg's client repeats a request that may be repeated; 5 where left out."""

    def spark(self, stores: Stores) -> dict[str, str]:
        return {
            "type": "rest",
            "uri": self.addresses()[0],
            **given({"warehouse": self.warehouse}),
            **self._authentication(),
            **self._connections(),
            **STAY,
            **({DELEGATION: VENDED} if self.is_vended(stores) else {}),
            **{f"header.{name}": value.reveal() for name, value in self.headers.items()},
            **self.revealed(),
        }

    def is_vended(self, stores: Stores) -> bool:
        """Whether the catalog is asked for credentials of the store."""
        if self.vended_credentials is None:
            return not stores.have_credentials
        return self.vended_credentials

    @property
    def is_oauth(self) -> bool:
        """Whether a token is asked for with a client id and secret."""
        return self.credential is not None and ":" in self.credential.reveal()

    def token_address(self) -> str | None:
        """Where tokens come from, if any are asked for."""
        named = self.properties.get("oauth2-server-uri")
        said = self.oauth2_server_uri or (named.reveal() if named else None)
        return said or (token_address(self.addresses()[0]) if self.is_oauth else None)

    def identity(self) -> list[str]:
        return [*sorted(self.addresses()), self.warehouse or ""]

    def addresses(self) -> tuple[str, ...]:
        return listed(self.uri)

    def in_the_clear(self) -> tuple[str, ...]:
        told = self.credential or self.password or self.headers
        token = self.token_address()
        return (*self.addresses(), *([token] if token else [])) if told else ()

    def flaws(self) -> list[Flaw]:
        return [
            *super().flaws(),
            *beside(self, "credential", "username"),
            *together(self, "username", "password"),
            *self._oauth_flaws(),
            *self._header_flaws(),
        ]

    def refusal(self, name: str, value: str) -> str | None:
        key = _KEYS.get(name)
        if key is not None and getattr(self, key) is not None:
            return f"stands beside '{key}'; keep one of the two"
        if name.startswith("header.") and name[len("header.") :] in self.headers:
            return "stands beside 'headers'; keep one of the two"
        return super().refusal(name, value)

    def _oauth_flaws(self) -> list[Flaw]:
        if self.credential is not None:
            return []
        keys = (*_OAUTH, "token_refresh", "token_exchange")
        return [
            Flaw((key,), "has no effect without 'credential'") for key in keys if key in self.model_fields_set
        ]

    def _header_flaws(self) -> list[Flaw]:
        found = []
        for name, value in self.headers.items():
            if name.lower() == "x-iceberg-access-delegation":
                found.append(Flaw(("headers", name), "use 'vended_credentials'"))
            elif name.lower() == "authorization" and (self.credential or self.username):
                found.append(Flaw(("headers", name), "stands beside 'credential' or 'username'"))
            elif any(character in value.reveal() for character in "\r\n\0"):
                found.append(Flaw(("headers", name), "a header has one line"))
        return found

    def _authentication(self) -> dict[str, str]:
        if self.username is not None:
            return given(
                {
                    "rest.auth.type": "basic",
                    "rest.auth.basic.username": self.username,
                    "rest.auth.basic.password": self.password,
                }
            )
        if self.credential is None:
            return {}
        return given(
            {
                "rest.auth.type": "oauth2",
                "credential" if self.is_oauth else "token": self.credential,
                "oauth2-server-uri": self.token_address(),
                "scope": self.scope,
                "audience": self.audience,
                "resource": self.resource,
                "token-refresh-enabled": None if self.token_refresh else "false",
                "token-exchange-enabled": None if self.token_exchange else "false",
            }
        )

    def _connections(self) -> dict[str, str]:
        most = None if self.max_connections is None else str(self.max_connections)
        return given(
            {
                "rest.client.max-connections": most,
                "rest.client.connections-per-route": most,
                "rest.client.connection-timeout-ms": _milliseconds(self.connect_timeout or CONNECT_TIMEOUT),
                "rest.client.socket-timeout-ms": _milliseconds(self.read_timeout or READ_TIMEOUT),
                "rest.client.max-retries": None if self.max_retries is None else str(self.max_retries),
            }
        )


def _milliseconds(seconds: float | None) -> str | None:
    return None if seconds is None else str(max(1, round(seconds * 1000)))
