"""What a table really holds, seen by PyIceberg and never by what writes it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table
from sqlalchemy.exc import OperationalError

from calve.position import property_name
from calve.verify import Version, files, opening, reader
from calve.verify.marks import history_grows


def embedded(folder: Path) -> Catalog:
    """The catalog that a declaration without one keeps beside itself."""
    return opening.embedded(str(folder / "warehouse"))


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


def total(table: Table) -> int:
    """How many rows the newest snapshot says there are; to wait for them, not to prove them."""
    newest = table.current_snapshot()
    summary = newest.summary if newest else None
    return int(summary.additional_properties.get("total-records", 0)) if summary else 0


def files_added_twice(table: Table) -> list[str]:
    """Data files that more than one snapshot added."""
    return [finding.where for finding in files.added_once(reader.facts(table))]


def marks(table: Table, sink_id: str) -> list[dict[str, Any]]:
    """The marks of a sink, oldest first, one for each version of the metadata that is still kept."""
    texts = (version.marks.get(property_name(sink_id)) for version in reader.versions(table))
    return [json.loads(text) for text in texts if text]


def assert_only_grows(found: list[dict[str, Any]], sink_id: str = "events") -> None:
    """Epochs and positions never go back from one mark to the next."""
    name = property_name(sink_id)
    steps = tuple(Version(f"version {number}", {name: json.dumps(one)}) for number, one in enumerate(found))
    back = history_grows(steps, name)
    assert not back, back
