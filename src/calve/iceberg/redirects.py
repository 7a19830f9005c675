"""Redirects of a REST catalog, which Iceberg's client follows to any host and cannot be told not to."""

from __future__ import annotations

from typing import Any

from calve.iceberg import java

_CONFIG = "org.apache.iceberg.shaded.org.apache.hc.client5.http.config.RequestConfig"
_WAY = ("sessionCatalog", "client", "httpClient")
"""The fields that lead from a catalog to what sends its requests."""


def refuse(catalog: Any) -> None:
    """Have a catalog of Java's take a redirect for an answer, which it then does not understand."""
    client = catalog
    for name in _WAY:
        client = _field(client, name).get(client)
    config = java.Statics(_CONFIG).custom().setRedirectsEnabled(False).build()
    _field(client, "defaultConfig").set(client, config)


def _field(owner: Any, name: str) -> Any:
    """A field that nobody but its class is to see; the jars are pinned, so it is there."""
    kind = owner.getClass()
    while name not in (names := [one.getName() for one in kind.getDeclaredFields()]):
        kind = kind.getSuperclass()
    found = kind.getDeclaredFields()[names.index(name)]
    found.setAccessible(True)
    return found
