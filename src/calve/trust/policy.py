"""What a declaration says of whom to trust. Pure."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from typing import Any

from calve.addresses import host, is_loopback, is_metadata, is_open, store_of
from calve.catalogs import Catalog
from calve.errors import ConfigurationError

_OWN_HOSTS = (".amazonaws.com", ".amazonaws.com.cn", ".api.aws", ".googleapis.com", ".core.windows.net")
"""The hosts of the clouds themselves, which their credentials are made for."""


@dataclass(frozen=True)
class Policy:
    """Whom a catalog's credentials may go to, and where its tables may lie."""

    catalog: str
    """The catalog in a few words."""

    uris: tuple[str, ...] = ()
    """The addresses of a catalog of the REST protocol; empty for others."""

    hosts: tuple[str, ...] = ()
    """The hosts that credentials of the catalog belong to."""

    store_hosts: tuple[str, ...] = ()
    """The hosts that credentials of the stores belong to."""

    own_credentials: bool = False
    """Whether the stores are opened with credentials of the declaration."""

    vended: bool = False
    """Whether the catalog is asked for credentials of the store."""

    has_secrets: bool = False
    """Whether the catalog is told a secret."""

    insecure: bool = False
    """Whether plain http is allowed."""

    roots: tuple[str, ...] = ()
    """Where tables may lie; empty where only the catalog knows."""

    properties: tuple[str, ...] = ()
    """Settings that the catalog may send beside those that all may; one that ends in `*` stands for many."""

    local: bool = True
    """Whether tables may lie in files of this machine where `roots` does not say."""

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Policy:
        found: dict[str, Any] = json.loads(text)
        lists = {name: tuple(one) for name, one in found.items() if isinstance(one, list)}
        return cls(**(found | lists))

    def owns(self, name: str) -> bool:
        """Whether credentials of the catalog belong to a host."""
        return name in self.hosts

    def allows(self, name: str) -> bool:
        """Whether the declaration lets the catalog set a property."""
        return any(fnmatchcase(name, pattern) for pattern in self.properties)

    def keeps_files(self, name: str) -> bool:
        """Whether credentials of the stores belong to a host."""
        return name in self.store_hosts or name.endswith(_OWN_HOSTS)


def of(catalog: Catalog) -> Policy:
    """The policy of a declared catalog."""
    section = catalog.section
    rest = catalog.rest
    is_rest = catalog.type in ("rest", "s3tables")
    addresses = section.addresses() if section else ()
    token = rest.token_address() if rest else None
    allowed = [one.lower() for one in rest.allowed_hosts] if rest else []
    hosts = [host(address) for address in (*addresses, *([token] if token else []))]
    stores = [host(address) for store in catalog.stores for address in store.addresses()]
    places = [catalog.place] if catalog.place else []
    return Policy(
        catalog=catalog.description(),
        uris=addresses if is_rest else (),
        hosts=tuple(sorted({*hosts, *allowed} - {""})),
        store_hosts=tuple(sorted({*stores, *allowed} - {""})),
        own_credentials=catalog.stores.have_credentials,
        vended=bool(rest and rest.is_vended(catalog.stores)),
        has_secrets=bool(rest and (rest.credential or rest.password or rest.headers or rest.properties)),
        insecure=catalog.allow_insecure,
        roots=tuple(one for one in (*places, *catalog.allowed_locations) if store_of(one)),
        properties=tuple(rest.allowed_properties) if rest else (),
        local=all(is_loopback(one) for one in hosts),
    )


def refuse_open(catalog: Catalog) -> None:
    """Refuse a declaration by which credentials would go where others can read or take them."""
    for address in catalog.in_the_clear():
        if is_open(address):
            raise ConfigurationError(
                f"Cannot use {catalog.description()}: credentials would go to '{host(address)}' by plain "
                "http, where others can read them; use https, or write 'allow_insecure: true'"
            )
    declared = [*(catalog.section.addresses() if catalog.section else ())]
    declared += [address for store in catalog.stores for address in store.addresses()]
    for address in declared:
        if is_metadata(host(address)):
            raise ConfigurationError(
                f"Cannot use {catalog.description()}: '{host(address)}' is where a cloud tells its machines "
                "their credentials; write 'instance_credentials: true' to use those"
            )
