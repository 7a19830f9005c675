"""Tombstones: the greatest orders of deleted keys, so that an older change does not bring them back.

A row without an order leaves one as well, if its key had an order before: the row does not tell it.

They are rows of a table of their own, committed before the deletes themselves. What a lost attempt leaves
twice does no harm.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from calve.errors import TableMismatch
from calve.iceberg import java
from calve.iceberg.catalog import Catalog
from calve.iceberg.evolve import Steps
from calve.iceberg.lookup import Keys
from calve.iceberg.name import TableName, quoted
from calve.iceberg.stage import Staged, stage
from calve.iceberg.table import Metadata
from calve.partitioning import PartitionField
from calve.patience import Patience
from calve.position import Position
from calve.schema import Column, Evolution, Policy, Primitive, Schema, evolution, with_aliases
from calve.sink import batch, prepare
from calve.sink.commit import Committer
from calve.sink.declaration import IcebergSink
from calve.sink.evolve import Evolver

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_WHEN = "deleted_at"


@dataclass(frozen=True)
class Expired(Staged):
    """Takes out the tombstones of days before one."""

    before: str = ""

    def update(self, table: Any) -> Any:
        return table.newDelete().deleteFromRowFilter(java.EXPRESSIONS.lessThan(_WHEN, self.before))


def followed(table: Schema, wanted: Schema, renames: Mapping[str, str]) -> Evolution:
    """What is to be done to a table of tombstones that is to hold `wanted`: nothing of it is dropped."""
    told = with_aliases(table, wanted, renames)
    left = {one.name: one for one in wanted.columns}
    columns = [
        left.pop(name, replace(one, nullable=True))
        for one in table.columns
        for name in [one.name if one.name in left else told.get(one.name, one.name)]
    ]
    return evolution(table, Schema((*columns, *left.values())), Policy("full", "refuse", told))


def first_remembered(now: dt.datetime, last: int, retention: float) -> str:
    """Midnight of the first day whose tombstones are kept: they go by the day.

    Time counts up to `last`, when the table was last written to (in ms): a clock that is ahead at one start
    must not have all of them forgotten.
    """
    seen = min(now, dt.datetime.fromtimestamp(last / 1000, dt.timezone.utc))
    first = seen - dt.timedelta(seconds=retention)
    return f"{first.date().isoformat()}T00:00:00+00:00"


class Tombstones:
    """The deleted keys of one sink."""

    def __init__(
        self,
        spark: SparkSession,
        sink: IcebergSink,
        sink_id: str,
        patience: Patience,
        overlaps: Callable[[Position], bool] = lambda position: True,
    ) -> None:
        self._spark = spark
        self._sink = sink
        own = prepare.table_name(sink)
        self.name = TableName(own.catalog, own.namespace, f"{own.table}__tombstones")
        self._columns = [*sink.key_fields, str(sink.order_by)]
        self._sink_id = sink_id
        self._patience = patience
        self._overlaps = overlaps
        self._committer: Committer | None = None

    def open(self, source: str, start: Position, columns: Schema, main: int) -> None:
        """Create the table if it is not there, take its next epoch, and forget what is old enough.

        `columns` are those of the table whose keys are deleted, and `main` is its epoch, which the tombstones
        belong to: a process that has lost that table takes nothing of this one.
        """
        catalog = self._patience.keep_trying(lambda: Catalog(self._spark, self.name.catalog))
        self._patience.opened(catalog.renew)
        create = partial(
            catalog.create,
            self.name,
            self._wanted(columns),
            [PartitionField("day", _WHEN)],
            (),
            prepare.creation_properties(self._sink),
        )
        table = self._patience.keep_trying(create)
        last = table.metadata().head("main")
        committer = Committer(
            table, self._sink_id, "main", self._patience, main=main, overlaps=self._overlaps
        )
        mark = committer.fence(source, start)
        self._committer = committer
        self.follow(columns)
        if last is not None and self._has_old(table.metadata()):
            now = dt.datetime.now(dt.timezone.utc)
            before = first_remembered(now, last.timestampMillis(), self._sink.tombstone_retention)
            committer.commit(Expired((), 0, 0, before=before), mark.position)

    @property
    def is_open(self) -> bool:
        return self._committer is not None

    def follow(self, columns: Schema) -> None:
        """Have keys and orders the types that they have in the table, whose columns are `columns`."""
        assert self._committer is not None, "the tombstones are not open"
        wanted, renames = self._wanted(columns), self._sink.renames
        Evolver(self._committer, self._patience).evolve(lambda base: self._steps(base, wanted, renames))

    def _steps(self, base: Metadata, wanted: Schema, renames: Mapping[str, str]) -> Steps:
        found = followed(base.schema(), wanted, renames)
        if found.refusals:
            why = f"Cannot write to table '{self.name}': {'; '.join(found.refusals)}"
            raise TableMismatch(why, table=str(self.name))
        return Steps(found.changes)

    def _wanted(self, columns: Schema) -> Schema:
        held = tuple(one for name in self._columns if (one := columns.column(name)) is not None)
        return Schema((*held, Column(_WHEN, Primitive("timestamp"), nullable=False)))

    def _has_old(self, metadata: Any) -> bool:
        summary = metadata.head("main").summary()
        return str(summary.get("total-data-files")) != "0"

    def known(self, keys: Keys) -> DataFrame:
        """The keys that may be among `keys`, and the order of their deletes."""
        assert self._committer is not None, "the tombstones are not open"
        self._committer.table.refresh()
        rows = self._spark.table(self.name.sql()).where(keys.filter())
        return rows.select(*map(quoted, self._columns))

    def stage(self, changes: DataFrame) -> Staged:
        """Write a tombstone for each key in `changes` whose greatest order no row tells.

        That is so after a delete, and after a change without an order.
        """
        from pyspark.sql import functions as f

        assert self._committer is not None, "the tombstones are not open"
        *keys, order_by = self._columns
        gone = changes.where(batch.needs_tombstone(order_by))
        newest = f.col(batch.NEWEST).alias(order_by)
        rows = gone.select(*map(quoted, keys), newest, f.current_timestamp().alias(_WHEN))
        options = {**prepare.write_options(self._sink), "check-nullability": "false"}
        self._committer.table.refresh()
        return stage(self._committer.table, rows, options)

    def commit(self, staged: Staged, to: Position) -> None:
        """Commit tombstones; they are there before the deletes are."""
        assert self._committer is not None, "the tombstones are not open"
        if staged.rows:
            self._committer.commit(staged, to)
