"""Reading: a scan beside plain Parquet, the changes of an upsert beside two whole states, and planning."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from bench.measure import Timing, in_turn
from bench.upserts import Upserts
from calve.catalogs import Catalog
from calve.iceberg import multiset
from calve.iceberg.catalog import Catalog as Opener
from calve.iceberg.changeset import TYPE, changes_between
from calve.iceberg.name import TableName
from calve.iceberg.states import state
from calve.iceberg.table import Table
from calve.iceberg.view import View
from calve.sink.prepare import columns_of
from calve.sources.iceberg import IcebergSource

PARTITIONS = (1_000, 10_000)


class Reading:
    """A table with upserts, the same rows as plain Parquet, and a table of many partitions."""

    def __init__(self, spark: SparkSession, catalog: Catalog, folder: Path, rows: int, rounds: int) -> None:
        self.spark, self.catalog, self.folder, self.rows, self.rounds = spark, catalog, folder, rows, rounds
        self.opener = Opener(spark, catalog.spark_name())

    def table(self, name: str) -> Table:
        return self.opener.load(TableName(self.catalog.spark_name(), ("bench",), name))

    def scan(self) -> dict[str, Timing]:
        """All rows of a table without deletes, and of the same rows in Parquet, read and thrown away."""
        place = f"`{self.catalog.spark_name()}`.bench.scanned"
        frame = Upserts(self.spark, self.catalog, self.rows, 4).base()
        self.opener.create_namespace(("bench",))
        frame.writeTo(place).tableProperty("write.parquet.compression-codec", "snappy").create()
        plain = str(self.folder / "plain-scan")
        frame.write.option("compression", "snappy").parquet(plain)
        keys = {"catalog": self.catalog, "namespace": "bench", "table": "scanned"}

        def ours(number: int) -> None:
            source = IcebergSource.model_validate({**keys, "files_per_batch": 100_000})
            source.identity()
            begin = source.start()
            _thrown_away(source.read(self.spark, begin, {"snapshot": begin["snapshot"]}))

        ways = {"Calve": ours, "plain Parquet": lambda number: _thrown_away(self.spark.read.parquet(plain))}
        return in_turn(ways, self.rounds, warm=2)

    def changes(self, size: int) -> dict[str, Timing]:
        """The changes of one batch of upserts, and the same from the two whole states."""
        upserts = Upserts(self.spark, self.catalog, self.rows, size)
        upserts.tables = {}
        run = upserts.ours("ours, position", "position")
        table = self.table(f"ours_position_{self.rows}")
        before = table.metadata().java.currentSnapshot().snapshotId()
        run(0)
        after = table.refresh().java.currentSnapshot().snapshotId()

        def by_states(number: int) -> None:
            old, new = (state(self.spark, table, one) for one in (before, after))
            # Each row counted once is faster than EXCEPT ALL both ways.
            _thrown_away(multiset.difference(old, new, columns_of(new), TYPE))

        ways: dict[str, Callable[[int], object]] = {
            "Calve": lambda number: _thrown_away(changes_between(self.spark, table, before, after)),
            "two states": by_states,
        }
        return in_turn(ways, self.rounds)

    def planning(self, partitions: int) -> list[float]:
        """How long a filter of one partition takes to plan, in seconds, the first time included."""
        name = f"partitions_{partitions}"
        place = f"`{self.catalog.spark_name()}`.bench.{name}"
        rows = self.spark.range(partitions).selectExpr("id", "id AS part")
        self.opener.create_namespace(("bench",))
        # One file after the other: an open one for each partition needs more memory than there is.
        ordered = rows.repartition(2).sortWithinPartitions("part").writeTo(place).partitionedBy("part")
        ordered.option("fanout-enabled", "false").create()
        table, found = self.table(name), []
        for number in range(self.rounds + 3):
            view = View(table, None, where=f"part = {number}")
            expression = view.expression()
            assert expression is not None
            begun = time.perf_counter()
            files = view.plan(table.metadata().java.currentSnapshot().snapshotId())
            found.append(time.perf_counter() - begun)
            assert len(files) == 1
        return found

    def loading(self) -> list[float]:
        """How long the catalog takes to load a table, in seconds."""
        found = []
        for _ in range(self.rounds + 3):
            begun = time.perf_counter()
            self.table("scanned")
            found.append(time.perf_counter() - begun)
        return found


def report(spark: SparkSession, catalog: Catalog, folder: Path, rows: int, rounds: int) -> Iterator[str]:
    """Run all of it; the lines to print, each as soon as it is known."""
    bench = Reading(spark, catalog, folder, rows, rounds)
    yield f"Reading: {rows:,} rows, {rounds} rounds in turn, medians"
    found = bench.scan()
    ours, plain = found["Calve"], found["plain Parquet"]
    yield (
        f"  scan: {rows / ours.median_wall:,.0f} rows/s, {plain.median_wall / ours.median_wall:.2f} x plain "
        f"Parquet, {plain.median_cpu / ours.median_cpu:.2f} x in CPU (bar: 0.9 x, 100,000 rows/s)"
    )
    yield f"  loading a table: {_median(bench.loading()) * 1000:.0f} ms (bar: 100 ms)"
    size = max(100, rows // 200)
    found = bench.changes(size)
    ours, states = found["Calve"], found["two states"]
    yield (
        f"  changes of {size:,} upserts: {ours.median_wall:.2f} s, "
        f"{ours.median_wall / states.median_wall:.2f} x the time of comparing two states, "
        f"{ours.median_cpu / states.median_cpu:.2f} x in CPU (bar: 0.2 x)"
    )
    for partitions in PARTITIONS:
        took = bench.planning(partitions)
        bar = " (bar: 50 ms)" if partitions == PARTITIONS[0] else ""
        yield f"  planning a filter over {partitions:,} partitions: {_median(took[3:]) * 1000:.0f} ms{bar}"


def _thrown_away(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]
