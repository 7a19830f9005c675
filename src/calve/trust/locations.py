"""Where tables and their files may lie. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from calve.addresses import is_inside, store_of
from calve.errors import ConfigurationError
from calve.trust.policy import Policy

PATHS = (
    "write.data.path",
    "write.metadata.path",
    "write.folder-storage.path",
    "write.object-storage.path",
)
"""The properties of a table by which its files lie elsewhere."""

PROVIDER = "write.location-provider.impl"
"""The property by which a class of the class path says where files lie."""

_ADVICE = "add it to 'allowed_locations' if it is right"


def refuse(policy: Policy, table: str, location: str, paths: Mapping[str, str]) -> None:
    """Raise ConfigurationError for a table whose files are, or would be, outside of what is declared."""
    for why in refusals(policy, location, paths):
        raise ConfigurationError(f"Cannot use table '{table}': {why}")


def refusals(policy: Policy, location: str, paths: Mapping[str, str]) -> Iterator[str]:
    """Why a table's location, and the paths among its properties, are not taken."""
    if policy.roots:
        if not is_inside(location, policy.roots):
            yield f"it lies in '{_clip(location)}', outside of the warehouse; {_ADVICE}"
    elif store_of(location) is None or not is_inside(location, [location]):
        yield f"'{_clip(location)}' is not a location"
    elif store_of(location) == "local" and not policy.local:
        yield f"it lies in '{_clip(location)}', which is on this machine; {_ADVICE}"
    if PROVIDER in paths and not policy.allows(PROVIDER):
        yield f"its property '{PROVIDER}' names a class, and we load no code at its word"
    for name in PATHS:
        path = paths.get(name)
        if path and not is_inside(path, (*policy.roots, location)):
            yield f"its property '{name}' is '{_clip(path)}', outside of the warehouse; {_ADVICE}"


def refuse_files(policy: Policy, table: str, location: str, files: Iterable[str]) -> None:
    """Raise ConfigurationError for a file of this machine that a server names as one of the table's.

    Files of a store are opened with the credentials of the table; files of this machine need none.
    """
    for file in files:
        if store_of(file) == "local" and not is_inside(file, (*policy.roots, location)):
            why = f"it has a file '{_clip(file)}' on this machine, outside of the warehouse; {_ADVICE}"
            raise ConfigurationError(f"Cannot use table '{table}': {why}")


def _clip(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:199]}…"
