"""What a table really holds, seen by PyIceberg and never by our own code."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.manifest import ManifestEntryStatus
from pyiceberg.table import Table
from sqlalchemy.exc import OperationalError


def embedded(folder: Path) -> Catalog:
    """The catalog that a declaration without one keeps beside itself."""
    warehouse = folder / "warehouse"
    uri = f"sqlite:///{warehouse / 'catalog.db'}"
    return SqlCatalog("calve", uri=uri, warehouse=str(warehouse), init_catalog_tables="false")


def rest(uri: str) -> Catalog:
    return RestCatalog("rest", uri=uri)


def load(catalog: Catalog, name: str) -> Table | None:
    try:
        return catalog.load_table(name)
    except (NoSuchTableError, OperationalError):
        return None


def values(table: Table, column: str) -> list[Any]:
    """A column of all rows, sorted."""
    return sorted(table.scan(selected_fields=(column,)).to_arrow()[column].to_pylist())


def files_added_twice(table: Table) -> list[str]:
    """Data files that more than one snapshot added."""
    added: Counter[str] = Counter()
    for snapshot in table.snapshots():
        for manifest in snapshot.manifests(table.io):
            if manifest.added_snapshot_id == snapshot.snapshot_id:
                entries = manifest.fetch_manifest_entry(table.io, discard_deleted=True)
                fresh = (entry for entry in entries if entry.status == ManifestEntryStatus.ADDED)
                added.update(entry.data_file.file_path for entry in fresh)
    return [path for path, count in added.items() if count > 1]


def marks(table: Table, sink_id: str) -> list[dict[str, Any]]:
    """The marks of a sink, oldest first, one for each version of the metadata that is still kept."""
    files = [entry.metadata_file for entry in table.metadata.metadata_log] + [table.metadata_location]
    texts = (json.loads(_read(table, file))["properties"].get(f"calve.sink.{sink_id}") for file in files)
    return [json.loads(text) for text in texts if text]


def _read(table: Table, file: str) -> bytes:
    with table.io.new_input(file).open() as stream:
        return bytes(stream.read())


def offsets(mark: dict[str, Any]) -> dict[tuple[str, str], int]:
    """The Kafka offsets of a mark, by topic and partition."""
    topics = mark["position"]["topics"]
    return {
        (name, part): offset for name, topic in topics.items() for part, offset in topic["offsets"].items()
    }


def assert_only_grows(found: list[dict[str, Any]]) -> None:
    """Epochs and offsets never go back from one mark to the next."""
    for older, newer in pairwise(found):
        assert newer["epoch"] >= older["epoch"]
        before, after = offsets(older), offsets(newer)
        assert all(after[part] >= offset for part, offset in before.items()), (older, newer)
