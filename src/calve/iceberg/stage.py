"""Write rows as data files of a table without committing them."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from calve import clock
from calve.errors import Outdated
from calve.iceberg import durable, java
from calve.iceberg.bulk import BYTES, LOCATION, ROWS, Listed
from calve.iceberg.failures import translated
from calve.iceberg.name import quoted
from calve.iceberg.table import Metadata, Shape, Table
from calve.partitioning import PartitionField

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


@dataclass(frozen=True)
class Staged:
    """Data files that are written and belong to no snapshot yet; a commit adds them to the table."""

    files: tuple[Any, ...]
    rows: int
    bytes: int
    dropped: int = 0
    """Changes that were passed over, because the table is not to have them."""
    made_for: Shape | None = field(default=None, kw_only=True)
    """What the table was like that the files are made for; None where they fit every table."""
    anew: Callable[[], Staged] | None = field(default=None, kw_only=True, compare=False)
    """Stages the same rows for the table as it is now, where they can be read again."""

    @property
    def is_empty(self) -> bool:
        """Whether a commit would leave the table as it is."""
        return self.rows == 0

    def update(self, table: Any) -> Any:
        """A new update of Iceberg's that does to `table` what was staged.

        An append that merges manifests once there are many keeps planning and commits as cheap as they were;
        a commit without files has nothing to merge.
        """
        update = table.newAppend() if self.files else table.newFastAppend()
        for file in self.files:
            update = update.appendFile(file)
        return update

    def renewed(self) -> Staged:
        """The same for a table that has moved on so far that the update was refused."""
        return self

    def check(self, base: Metadata, table: str) -> None:
        """Raise Outdated where `base` has other columns, another spec or format than files were made for."""
        if self.made_for is not None and base.shape != self.made_for:
            raise Outdated(
                f"Cannot commit to table '{table}': its columns, its partition spec or its format version "
                "changed while the batch was written"
            )

    @property
    def counts(self) -> dict[str, float]:
        """What else is to be told of the batch, by name."""
        return {}

    def release(self) -> None:
        """Nothing of this will be asked for again."""


NOTHING = Staged((), 0, 0)


_FUNCTIONS = {
    "year": "years",
    "month": "months",
    "day": "days",
    "hour": "hours",
    "bucket": "bucket",
    "truncate": "truncate",
}
"""Iceberg's transforms as functions that every catalog of Spark has."""
_FLOATS = ("float", "double")


def cluster(table: Table, frame: DataFrame, order: Sequence[Column]) -> tuple[DataFrame, bool]:
    """`frame` with the rows of a partition behind each other in every task, then by `order`.

    False where that cannot be told: Spark takes -0.0 and 0.0 for the same, Iceberg's partitions do not.
    """
    from pyspark.errors import AnalysisException

    metadata = table.metadata()
    kinds, _ = metadata.types()
    there = [one for one in metadata.partition() if _top(one.column, metadata) in frame.columns]
    fields = [one for one in there if one.transform != "void"]
    is_exact = not any(one.transform == "identity" and kinds.get(one.column) in _FLOATS for one in fields)
    values = [_value(one, table.name.catalog, metadata) for one in fields] if is_exact else []
    if not values and not order:
        return frame, is_exact
    try:
        return frame.sortWithinPartitions(*values, *order), is_exact
    except AnalysisException:
        # A type that a function of Iceberg's does not take.
        return (frame.sortWithinPartitions(*order) if order else frame), False


def _top(column: str, metadata: Metadata) -> str:
    """The column of the table that has the source of a partition field in it."""
    return column if column in metadata.schema().names else column.partition(".")[0]


def _value(field: PartitionField, catalog: str, metadata: Metadata) -> Column:
    """What tells the partition of a row."""
    from pyspark.sql import functions as f

    path = [field.column] if field.column in metadata.schema().names else field.column.split(".")
    source = f.col(".".join(map(quoted, path)))
    if field.transform == "identity":
        return source
    arguments = [source] if field.parameter is None else [f.lit(field.parameter), source]
    return f.call_function(f"{quoted(catalog)}.system.{_FUNCTIONS[field.transform]}", *arguments)


@clock.timed("stage")
def stage(
    table: Table, frame: DataFrame, options: Mapping[str, str], order: Sequence[Column] | None = None
) -> Staged:
    """Run `frame` and write its rows as files of `table`; the rows are matched by column name.

    With an `order`, which may be empty, each task writes its rows partition by partition and has one file
    open, however many partitions there are. Without, it has a file open for each of them.

    Spark's writer hands its files over instead of committing them when it writes to a table that
    Iceberg's rewrite actions keep in a cache under an id of their own.
    """
    coordinator = java.Statics("org.apache.iceberg.spark.FileRewriteCoordinator").get()
    # The class has a static get() and an instance get(String); Py4J's look-up by name finds the wrong one.
    cache = java.static_member("org.apache.iceberg.spark.SparkTableCache", "get")()
    group, made_for = str(uuid.uuid4()), table.metadata().shape
    cache.add(group, table.java)
    try:
        with translated(f"write data files of table '{table.name}'"):
            placed, is_clustered = (frame, False) if order is None else cluster(table, frame, order)
            writer = placed.write.format("iceberg").mode("append").options(**options)
            writer = writer.option("use-table-distribution-and-ordering", "false")
            writer.option("fanout-enabled", "false" if is_clustered else "true").save(group)
            written = Listed(coordinator.fetchNewFiles(table.java, group))
            durable.flush(written.texts(LOCATION))
    finally:
        coordinator.clearRewrite(table.java, group)
        cache.remove(group)
    files = tuple(written[index] for index in range(len(written)))
    rows, size = sum(written.numbers(ROWS)), sum(written.numbers(BYTES))
    return Staged(files, rows, size, made_for=made_for)
