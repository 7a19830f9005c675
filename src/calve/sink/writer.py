"""A sink at work: opens its table, stages batches and commits them."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from calve import crash
from calve.errors import Unavailable
from calve.iceberg.catalog import Catalog
from calve.iceberg.stage import Staged, stage
from calve.iceberg.table import Table
from calve.patience import Patience
from calve.position import Mark, Position
from calve.schema import Schema
from calve.sink import prepare
from calve.sink.commit import Committer
from calve.sink.declaration import IcebergSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ROWS_OF_ONE_TASK = 50_000


class Writer:
    """One life of a sink."""

    def __init__(
        self,
        spark: SparkSession,
        sink: IcebergSink,
        sink_id: str,
        patience: Patience,
        declared: Collection[str] = (),
    ) -> None:
        self.sink = sink
        self.name = prepare.table_name(sink)
        self._spark = spark
        self._sink_id = sink_id
        self._declared = declared
        self._patience = patience
        self._catalog = patience.keep_trying(lambda: Catalog(spark, sink.catalog.spark_name()))
        self._table: Table | None = None
        self._committer: Committer | None = None

    def find(self, source: str) -> Mark | None:
        """The mark of the table, if the table is there; nothing is written."""
        if self._catalog.has_table(self.name):
            return self._use(self._catalog.load(self.name)).seen(source)
        return None

    def open(self, source: str, start: Position, columns: Schema) -> Mark:
        """Create the table if it is not there, refuse it if it does not fit, and take the next epoch."""
        if self._table is None:
            self._use(prepare.create(self._catalog, self.sink, columns))
        self.check(columns)
        return self.committer.fence(source, start)

    def check(self, columns: Schema) -> None:
        """Refuse a table that does not fit the declaration."""
        prepare.check(self.table, self.sink, columns)

    def stage(self, frame: DataFrame, rows: int) -> Staged:
        """Write the rows of `frame`, about `rows` of them, as files that no snapshot has yet."""
        from pyspark.sql import Observation
        from pyspark.sql import functions as F

        crash.point("stage.before")
        counted = Observation()
        frame = prepare.fitted(frame, self.table, self.sink).observe(counted, F.count(F.lit(1)).alias("rows"))
        if rows <= _ROWS_OF_ONE_TASK:
            frame = frame.coalesce(1)
        staged = stage(self.table, frame, prepare.write_options(self.sink))
        _check_count(counted.get["rows"], staged, self.table)
        crash.point("stage.after")
        return staged

    def commit(self, staged: Staged, to: Position) -> Mark:
        """Commit what was staged together with the position behind it."""
        return self.committer.commit(staged, to)

    @property
    def uuid(self) -> str | None:
        """The UUID of the table, if there is one."""
        return None if self._table is None else self._table.metadata().uuid

    @property
    def table(self) -> Table:
        assert self._table is not None, "the table is not open"
        return self._table

    @property
    def committer(self) -> Committer:
        assert self._committer is not None, "the table is not open"
        return self._committer

    def _use(self, table: Table) -> Committer:
        self._table = table
        properties = self.sink.snapshot_properties
        self._committer = Committer(
            table, self._sink_id, self.sink.branch, self._patience, properties, self._declared
        )
        return self._committer


def _check_count(counted: int, staged: Staged, table: Table) -> None:
    if counted != staged.rows:
        raise Unavailable(
            f"Cannot commit to table '{table.name}': {counted} rows were decoded, "
            f"{staged.rows} are in the files"
        )


def columns_of(rows: DataFrame) -> Schema:
    """The schema of a DataFrame."""
    from calve.schema import from_spark_json

    return from_spark_json(rows.schema.jsonValue())
