"""A place at work: pipelines that run into new tables of it, in the Spark of all tests."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from calve.iceberg.name import TableName
from calve.iceberg.stage import Staged, stage
from calve.iceberg.table import Table
from calve.patience import Patience
from calve.project import ResolvedPipeline
from calve.runtime.report import Report
from calve.runtime.runner import Runner
from calve.runtime.session import branch_off
from calve.runtime.stop import Stop
from calve.sink import prepare
from calve.sink.commit import Committer
from calve.sink.declaration import IcebergSink
from calve.sources.source import Source
from tests.catalogs.places import Keys, Place
from tests.lake import COLUMNS, Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATIENCE = 60


def opened(spark: SparkSession, keys: Keys) -> Lake:
    """A session that has the catalog which `keys` of a sink declare."""
    sink = IcebergSink.model_validate({"namespace": "none", "table": "none", **keys})
    return Lake.open(spark, sink.catalog)


@dataclass
class Lab:
    """A place, the keys that declare it, and a session that has its catalog."""

    place: Place
    keys: Keys
    spark: SparkSession
    lake: Lake

    def sink(self, **keys: Any) -> IcebergSink:
        """A sink with a table of its own."""
        name = {"namespace": f"n{uuid.uuid4().hex[:10]}", "table": "t", "retry_for": f"{PATIENCE}s"}
        return IcebergSink.model_validate({**self.keys, **name, **keys})

    def run(
        self,
        sink: IcebergSink,
        source: Source,
        transforms: Iterable[Any] = (),
        stop: Stop | None = None,
        once: bool = False,
    ) -> Any:
        """Run a pipeline until its source ends; it has no state but the table. Returns its status."""
        report = Report("t")
        pipeline = ResolvedPipeline("t", source, sink, tuple(transforms), "t", True)
        session = branch_off(self.spark, [sink.catalog])
        Runner(pipeline, session, stop or Stop(), report, once).run()
        return report.status

    def name(self, sink: IcebergSink) -> TableName:
        """The table of a sink, also of one that reaches the catalog by another way."""
        return replace(prepare.table_name(sink), catalog=self.lake.catalog.name)

    def table(self, sink: IcebergSink) -> Table:
        return self.lake.catalog.load(self.name(sink))

    def created(self, columns: str = COLUMNS) -> Table:
        """A table without a pipeline."""
        return self.lake.table(self.name(self.sink()), columns)

    def rows(self, table: Table, *columns: str, version: int | None = None) -> list[Any]:
        """The rows of a table, sorted; of one column, its values."""
        then = f" VERSION AS OF {version}" if version is not None else ""
        names = ", ".join(f"`{column}`" for column in columns)
        found = self.lake.spark.sql(f"SELECT {names} FROM {table.name.sql()}{then}").collect()
        return sorted(map(itemgetter(*columns), (row.asDict() for row in found)))

    def committer(self, table: Table, sink_id: str = "orders") -> Committer:
        """A writer of the table with a view of its own."""
        return Committer(self.lake.catalog.load(table.name), sink_id, "main", Patience(PATIENCE))

    def staged(self, table: Table, first: int, count: int = 1) -> list[Staged]:
        """The rows from number `first` on, each in a file of its own; all of them are written at once."""
        numbers = self.lake.spark.range(first, first + count, 1, numPartitions=count)
        whole = stage(table, numbers.selectExpr("id", "concat('n', id) AS name"), {})
        assert len(whole.files) == count
        return [replace(whole, files=(file,), rows=1) for file in whole.files]
