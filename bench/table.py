"""A table that a peer has written: where its metadata is, and what that tells without reading a row."""

from __future__ import annotations

import json
import re
import sqlite3
from abc import ABC, abstractmethod
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse


def local(location: str) -> Path:
    """The file that a location stands for."""
    return Path(unquote(urlparse(location).path) if location.startswith("file:") else location)


class Place(ABC):
    """Where a table is."""

    @abstractmethod
    def metadata(self) -> Path | None:
        """Its current metadata file, if there is one."""

    def read(self) -> dict[str, Any] | None:
        """Its metadata; None where there is none, or a writer is just replacing it."""
        try:
            file = self.metadata()
            return json.loads(file.read_text()) if file else None
        except (OSError, ValueError, sqlite3.Error):
            return None

    def rows(self) -> int:
        """The rows that a reader would find now, as the newest snapshot tells; 0 where there is none."""
        return Facts.of(self.read() or {}).rows


@dataclass(frozen=True)
class InFolder(Place):
    """A table in a folder of which the newest metadata file counts."""

    folder: Path

    def metadata(self) -> Path | None:
        found = [(_version(file), file) for file in (self.folder / "metadata").glob("*.metadata.json")]
        return max(found, default=(0, None))[1]


@dataclass(frozen=True)
class InCatalog(Place):
    """A table of a SQL catalog in a SQLite file."""

    database: Path
    table: str
    namespace: str = "bench"

    def metadata(self) -> Path | None:
        if not self.database.is_file():
            return None
        query = "SELECT metadata_location FROM iceberg_tables WHERE table_namespace = ? AND table_name = ?"
        with closing(sqlite3.connect(f"file:{self.database}?mode=ro", uri=True)) as catalog:
            found = catalog.execute(query, (self.namespace, self.table)).fetchone()
        return local(found[0]) if found and found[0] else None


def _version(file: Path) -> int:
    """The number of a metadata file: `v7.metadata.json` or `00007-….metadata.json`."""
    number = re.match(r"v?(\d+)", file.name)
    return int(number[1]) if number else -1


@dataclass(frozen=True)
class Facts:
    """What the metadata of a table tells."""

    rows: int = 0
    files: int = 0
    delete_files: int = 0
    equality_deletes: int = 0
    position_deletes: int = 0
    snapshots: int = 0
    commits: tuple[float, ...] = ()
    """When each snapshot was made, in seconds, the oldest first."""

    @classmethod
    def of(cls, metadata: dict[str, Any]) -> Facts:
        """Read metadata. Rows are those of the data files less those that position deletes take out."""
        snapshots = metadata.get("snapshots") or []
        current = [one for one in snapshots if one["snapshot-id"] == metadata.get("current-snapshot-id")]
        summary = current[0].get("summary", {}) if current else {}
        number = {name: int(summary.get(f"total-{name}", 0)) for name in _TOTALS}
        return cls(
            number["records"] - number["position-deletes"],
            number["data-files"],
            number["delete-files"],
            number["equality-deletes"],
            number["position-deletes"],
            len(snapshots),
            tuple(sorted(one["timestamp-ms"] / 1000 for one in snapshots)),
        )

    def per_batch(self, batches: int) -> list[float]:
        """The seconds between the last `batches` commits and the ones before them."""
        ends = self.commits[-batches - 1 :]
        return [after - before for before, after in pairwise(ends)]


_TOTALS = ("records", "data-files", "delete-files", "equality-deletes", "position-deletes")
