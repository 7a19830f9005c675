"""What can be declared but is not available yet: the one table of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from calve.model import Flaw, Path

ANY = (object,)
"""Every value: the key itself is not available yet."""

CONNECTORS = {
    "source": ("jdbc", "mysql-cdc", "postgres-cdc", "webhook"),
    "sink": (),
}

# The place: sources or sinks, the connector or *, and the keys. The values, or types of values.
KEYS: dict[str, tuple[Any, ...]] = {
    "sources.*.streams": ANY,
    "sources.iceberg.config.s3.requester_pays": ANY,
    "sinks.iceberg.config.s3.requester_pays": ANY,
    "sinks.iceberg.config.maintenance": ANY,
}


def flaws(declared: Any) -> list[Flaw]:
    """A flaw for each use in `declared`, the plain values of a project."""
    return [flaw for kind in ("source", "sink") for flaw in _of_kind(declared, kind)]


def _of_kind(declared: Any, kind: str) -> Iterator[Flaw]:
    for name, entry in _mapping(_mapping(declared).get(f"{kind}s")).items():
        connector = _mapping(entry).get("connector")
        if connector in CONNECTORS[kind]:
            yield Flaw((f"{kind}s", name, "connector"), f"connector '{connector}' is not available yet")
        for place, values in KEYS.items():
            group, wanted, *keys = place.split(".")
            if group == f"{kind}s" and wanted in ("*", connector):
                yield from _use(entry, (group, name), keys, values)


def _use(entry: Any, path: Path, keys: list[str], values: tuple[Any, ...]) -> Iterator[Flaw]:
    for key in keys:
        if key not in _mapping(entry):
            return
        entry = entry[key]
    if any(isinstance(entry, value) if isinstance(value, type) else entry == value for value in values):
        what = f"'{entry}' is " if entry in values else ""
        yield Flaw((*path, *keys), f"{what}not available yet")


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
