"""Tables that PyIceberg alone writes, marked as Calve marks them."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from calve.position import Mark, property_name

COLUMNS = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])
NAMESPACE = "shop"


def catalog(warehouse: Path) -> SqlCatalog:
    """The embedded catalog of a declaration."""
    warehouse.mkdir(exist_ok=True)
    made = SqlCatalog("calve", uri=f"sqlite:///{warehouse}/catalog.db", warehouse=str(warehouse))
    made.create_namespace(NAMESPACE)
    return made


class Writer:
    """One sink that writes to one table; each commit holds its rows and its mark."""

    def __init__(self, catalog: SqlCatalog, table: str = "orders", sink_id: str = "orders") -> None:
        self.catalog = catalog
        self.table: Table = catalog.create_table((NAMESPACE, table), COLUMNS)
        self.sink_id = sink_id
        self.epoch = 1
        self.position: dict[str, Any] = {"row": 0}

    def mark(self, commit: str) -> Mark:
        above = self.table.metadata.last_sequence_number
        return Mark(self.epoch, f"writer-{self.epoch}", "datagen:1", self.position, commit, above)

    def commit(self, ids: Sequence[int], branch: str = "main") -> None:
        """Append rows and move the mark."""
        self.position = {"row": self.position["row"] + len(ids)}
        mark, name = self.mark(str(uuid.uuid4())), property_name(self.sink_id, branch)
        rows = pa.table({"id": ids, "name": [f"n{one}" for one in ids]}, COLUMNS)
        with self.table.transaction() as change:
            change.append(rows, mark.summary(name), branch)
            change.set_properties({name: mark.dump()})

    def foreign(self, ids: Sequence[int]) -> None:
        """Somebody else's append."""
        self.table.append(pa.table({"id": ids, "name": [None for _ in ids]}, COLUMNS))

    def write_mark(self, mark: Mark) -> None:
        """Edit the mark by hand."""
        with self.table.transaction() as change:
            change.set_properties({property_name(self.sink_id): mark.dump()})

    def data_files(self) -> list[Path]:
        paths = self.table.inspect.data_files()["file_path"].to_pylist()
        return [Path(path.removeprefix("file://")) for path in paths]
