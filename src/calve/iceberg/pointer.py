"""The pointer to a table's metadata in a SQLite catalog, swapped after what it points to is on disk.

Iceberg's own commit writes the metadata file and changes the row in one call, with no place between them at
which the file could be flushed. So the file is written and flushed here, and the row changed as Iceberg's
`JdbcTableOperations` of 1.12 does it: where it still has the location that the commit was made for.
"""

from __future__ import annotations

import gzip
import json
import re
import sqlite3
import uuid
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calve.addresses import local_path
from calve.errors import CalveError, Conflict, DataRefused, NotPermitted, StartRefused, Unavailable
from calve.iceberg import durable, java
from calve.iceberg.name import TableName

_SQLITE = "jdbc:sqlite:"
_BUSY_SECONDS = 30
_PARSER = java.Statics("org.apache.iceberg.TableMetadataParser")
_CODEC = "write.metadata.compression-codec"

_ROW = (
    "catalog_name = ? AND table_namespace = ? AND table_name = ? "
    "AND (iceberg_type = 'TABLE' OR iceberg_type IS NULL)"
)


@dataclass(frozen=True)
class Pointer:
    """The rows of one catalog in a SQLite database on this machine."""

    database: str
    catalog: str

    @classmethod
    def of(cls, catalog: str, properties: Mapping[str, str]) -> Pointer | None:
        """The pointer of a catalog with `properties`; None for one that keeps none in a SQLite file."""
        uri = properties.get("uri", "")
        path = uri.removeprefix(_SQLITE).partition("?")[0]
        is_file = uri.startswith(_SQLITE) and path.startswith("/")
        return cls(path, catalog) if is_file else None

    def swap(self, name: TableName, operations: Any, base: Any, new: Any, written: Sequence[str]) -> None:
        """Replace the metadata `base` by `new` when it and the files `written` are on disk."""
        location = _write(operations, base, new)
        durable.flush([*written, location])
        old = str(base.metadataFileLocation())
        if not self.replace(name, old, location, old):
            raise Conflict(f"Cannot commit to table '{name}': another commit came first")
        java.Statics("org.apache.iceberg.CatalogUtil").deleteRemovedMetadataFiles(operations.io(), base, new)

    def replace(self, name: TableName, old: str, new: str, previous: str | None) -> bool:
        """Point to `new` where the table still points to `old`; `previous` is what came before `new`."""
        values = (new, previous, *self._row(name), old)
        change = "UPDATE iceberg_tables SET metadata_location = ?, previous_metadata_location = ? WHERE "
        with self._opened(name) as database:
            return database.execute(f"{change}{_ROW} AND metadata_location = ?", values).rowcount == 1

    def locations(self, name: TableName) -> tuple[str, str | None] | None:
        """The table's current metadata file and the one before it; None where there is no such table."""
        query = "SELECT metadata_location, previous_metadata_location FROM iceberg_tables WHERE "
        if not Path(self.database).exists():
            return None
        with self._opened(name) as database:
            found = database.execute(query + _ROW, self._row(name)).fetchone()
        return None if found is None or found[0] is None else (str(found[0]), found[1])

    def tables(self, namespace: Sequence[str]) -> list[TableName]:
        """The tables of `namespace`."""
        query = f"SELECT table_name FROM iceberg_tables WHERE {_ROW.replace('table_name = ?', 'TRUE')}"
        name = TableName(self.catalog, tuple(namespace), "")
        if not Path(self.database).exists():
            return []
        with self._opened(name) as database:
            found = database.execute(f"{query} ORDER BY table_name", self._row(name)[:2]).fetchall()
        return [TableName(self.catalog, tuple(namespace), str(row[0])) for row in found]

    def refusal(self, name: TableName) -> CalveError | None:
        """Why the table cannot be loaded, where its metadata file is the cause, and what to do about it."""
        found = self.locations(name)
        if found is None or _content(found[0]) is not None:
            return None
        current, previous = found
        why = f"Cannot load table '{name}': its metadata file '{current}' is missing, empty or cut off"
        if previous is None or _content(previous) is None:
            return DataRefused(f"{why}, and no earlier one can be read; restore it from a backup")
        return StartRefused(
            f"{why}; '{previous}', the one before it, can be read, with the rows and the position of then",
            decision="--previous-metadata",
        )

    def go_back(self, name: TableName, change: bool) -> tuple[str, str] | None:
        """Point to the metadata before the current one, which cannot be read; both locations.

        None where the current one can be read, or the one before it cannot. Nothing is written without
        `change`.
        """
        if not isinstance(self.refusal(name), StartRefused):
            return None
        current, previous = self.locations(name) or ("", None)
        content = _content(previous or "") or {}
        earlier = [one.get("metadata-file") for one in content.get("metadata-log", ())]
        if change and not self.replace(name, current, str(previous), earlier[-1] if earlier else None):
            raise Conflict(f"Cannot repair table '{name}': another process changed it meanwhile")
        return current, str(previous)

    def _row(self, name: TableName) -> tuple[str, str, str]:
        return self.catalog, ".".join(name.namespace), name.table

    @contextmanager
    def _opened(self, name: TableName) -> Iterator[sqlite3.Connection]:
        try:
            with closing(sqlite3.connect(self.database, _BUSY_SECONDS, isolation_level=None)) as database:
                # Whatever the library was built with: the row may not be lost once it was told.
                database.execute("PRAGMA synchronous = FULL")
                yield database
        except sqlite3.Error as error:
            raise _translated(error, name, self.database) from error


def _content(location: str) -> dict[str, Any] | None:
    """What a metadata file on this machine says; None where it cannot be read."""
    path = local_path(location)
    try:
        whole = Path(path or "").read_bytes()
        said: Any = json.loads(gzip.decompress(whole) if whole.startswith(b"\x1f\x8b") else whole)
    except (OSError, EOFError, ValueError, zlib.error):
        return None
    return said if isinstance(said, dict) else None


def _translated(error: sqlite3.Error, name: TableName, database: str) -> CalveError:
    is_denied = re.search("readonly|unable to open|not authorized", str(error))
    kind = NotPermitted if is_denied else Unavailable
    return kind(f"Cannot reach table '{name}' in the catalog '{database}': {error}")


def _write(operations: Any, base: Any, new: Any) -> str:
    """Write `new` to a metadata file of its own, named as Iceberg names them."""
    codec = new.properties().get(_CODEC) or "none"
    number = re.match(r"(\d+)-", str(base.metadataFileLocation()).rpartition("/")[2])
    version = int(number[1]) + 1 if number else 0
    name = f"{version:05d}-{uuid.uuid4()}{_PARSER.getFileExtension(codec)}"
    location = str(operations.metadataFileLocation(name))
    _PARSER.overwrite(new, operations.io().newOutputFile(location))
    return location
