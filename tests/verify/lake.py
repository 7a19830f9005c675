"""Tables that PyIceberg alone writes, marked as Calve marks them."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from calve.position import Mark, property_name

COLUMNS = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])
NAME = ("shop", "orders")


def catalog(warehouse: Path) -> SqlCatalog:
    """The embedded catalog of a declaration."""
    warehouse.mkdir(exist_ok=True)
    return SqlCatalog("calve", uri=f"sqlite:///{warehouse}/catalog.db", warehouse=str(warehouse))


class Writer:
    """One sink that writes to one table; each commit holds its rows and its mark."""

    def __init__(self, warehouse: Path, sink_id: str = "orders", **position: Any) -> None:
        self.catalog = catalog(warehouse)
        self.catalog.create_namespace_if_not_exists(NAME[:-1])
        self.table: Table = self.catalog.create_table_if_not_exists(NAME, COLUMNS)
        self.sink_id = sink_id
        self.epoch = 1
        self.position: dict[str, Any] = position or {"row": 0}

    def mark(self, commit: str | None = None) -> Mark:
        commit = commit or str(uuid.uuid4())
        above = self.table.metadata.last_sequence_number
        return Mark(self.epoch, f"writer-{self.epoch}", "datagen:1", self.position, commit, above)

    def commit(
        self, ids: Iterable[int] = (), commit: str | None = None, said: Mark | None = None,
        branch: str = "main", **position: Any,
    ) -> str:  # fmt: skip
        """Append rows and move the mark; `said` is what the summary tells, if that is something else."""
        self.position = position or {"row": self.position.get("row", 0) + len(list(ids))}
        mark, name = self.mark(commit), property_name(self.sink_id, branch)
        rows = pa.table({"id": list(ids), "name": [f"n{one}" for one in ids]}, COLUMNS)
        with self.table.transaction() as change:
            change.append(rows, (said or mark).summary(name), branch)
            change.set_properties({name: mark.dump()})
        return mark.commit

    def foreign(self, ids: Iterable[int]) -> None:
        """Somebody else's append."""
        self.table.append(pa.table({"id": list(ids), "name": [None for _ in ids]}, COLUMNS))

    def write_mark(self, mark: Mark) -> None:
        """Edit the mark by hand."""
        with self.table.transaction() as change:
            change.set_properties({property_name(self.sink_id): mark.dump()})

    def data_files(self) -> list[Path]:
        paths = self.table.inspect.data_files()["file_path"].to_pylist()
        return [Path(path.removeprefix("file://")) for path in paths]
