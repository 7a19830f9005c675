"""Write rows as data files of a table without committing them."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from calve import clock
from calve.iceberg import java
from calve.iceberg.failures import translated
from calve.iceberg.table import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Staged:
    """Data files that are written and belong to no snapshot yet; a commit adds them to the table."""

    files: tuple[Any, ...]
    rows: int
    bytes: int
    dropped: int = 0
    """Changes that were passed over, because the table is not to have them."""

    @property
    def is_empty(self) -> bool:
        """Whether a commit would leave the table as it is."""
        return self.rows == 0

    def update(self, table: Any) -> Any:
        """A new update of Iceberg's that does to `table` what was staged."""
        update = table.newFastAppend()
        for file in self.files:
            update = update.appendFile(file)
        return update

    def renewed(self) -> Staged:
        """The same for a table that has moved on so far that the update was refused."""
        return self

    @property
    def counts(self) -> dict[str, float]:
        """What else is to be told of the batch, by name."""
        return {}

    def release(self) -> None:
        """Nothing of this will be asked for again."""


NOTHING = Staged((), 0, 0)


@clock.timed("stage")
def stage(table: Table, frame: DataFrame, options: Mapping[str, str]) -> Staged:
    """Run `frame` and write its rows as files of `table`; the rows are matched by column name.

    Spark's writer hands its files over instead of committing them when it writes to a table that
    Iceberg's rewrite actions keep in a cache under an id of their own.
    """
    coordinator = java.Statics("org.apache.iceberg.spark.FileRewriteCoordinator").get()
    # The class has a static get() and an instance get(String); Py4J's look-up by name finds the wrong one.
    cache = java.static_member("org.apache.iceberg.spark.SparkTableCache", "get")()
    group = str(uuid.uuid4())
    cache.add(group, table.java)
    try:
        with translated(f"write data files of table '{table.name}'"):
            writer = frame.write.format("iceberg").mode("append").options(**options)
            writer.option("use-table-distribution-and-ordering", "false").option(
                "fanout-enabled", "true"
            ).save(group)
            files = tuple(java.each(coordinator.fetchNewFiles(table.java, group)))
    finally:
        coordinator.clearRewrite(table.java, group)
        cache.remove(group)
    rows = sum(file.recordCount() for file in files)
    return Staged(files, rows, sum(file.fileSizeInBytes() for file in files))
