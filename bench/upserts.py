"""Upserts beside `MERGE INTO`: the same rows, the same batches, half of them updates."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from bench.measure import PeakMemory, Timing, in_turn
from calve.catalogs import Catalog
from calve.patience import Patience
from calve.sink.declaration import IcebergSink
from calve.sink.writer import Writer, columns_of

BATCHES = 6
CUSTOMER = "concat('customer-', id % 500) AS customer"
OURS = {"ours, position": "position", "ours, equality": "equality"}
MERGES = {"MERGE, merge-on-read": "merge-on-read", "MERGE, copy-on-write": "copy-on-write"}


class Upserts:
    """Four tables with the same rows, each with its own way to take a batch."""

    def __init__(self, spark: SparkSession, catalog: Catalog, rows: int, size: int) -> None:
        self.spark, self.catalog, self.rows, self.size = spark, catalog, rows, size
        self.batches = [self._batch(number) for number in range(BATCHES + 1)]

    def _batch(self, number: int) -> DataFrame:
        """Half of the keys are in the table, spread over all of it, half are new."""
        half, step = self.size // 2, max(1, self.rows // (self.size // 2))
        old = self.spark.range(half).selectExpr(f"id * {step} + {number % step} AS id")
        first = self.rows + number * half
        new = self.spark.range(first, first + half)
        frame = self._rows(old.union(new), number + 1).coalesce(2).cache()
        assert frame.count() == 2 * half
        return frame

    def base(self) -> DataFrame:
        return self._rows(self.spark.range(0, self.rows, 1, 4), 0)

    def _rows(self, ids: DataFrame, version: int) -> DataFrame:
        amount = f"cast(id % 5000 + {version} AS DECIMAL(12,2)) AS amount"
        return ids.selectExpr("id", CUSTOMER, "id % 7 AS status", amount)

    def ours(self, name: str, deletes: str) -> Callable[[int], None]:
        table = f"ours_{deletes}_{self.rows}"
        writer = self._writer(table, deletes)
        self._fill(writer.name.sql())
        writer.table.refresh()

        def run(number: int) -> None:
            frame = self.batches[number].selectExpr(
                "*", "'u' AS _op",
                "named_struct('seq', CAST(NULL AS BIGINT), 'lane', 0L, 'at', id, 'part', 0) AS _order",
                "CAST(NULL AS TIMESTAMP) AS _ts", "CAST(NULL AS ARRAY<STRING>) AS _unknown",
            )  # fmt: skip
            writer.commit(writer.stage(frame, self.size), {"batch": number})

        self.tables[name] = writer.name.sql()
        return run

    def _writer(self, table: str, deletes: str) -> Writer:
        keys = {"commit_mode": "upsert", "key_fields": ["id"], "deletes": deletes}
        place = {"catalog": self.catalog, "namespace": "bench", "table": table}
        writer = Writer(self.spark, IcebergSink.model_validate({**place, **keys}), table, Patience(0))
        writer.open("bench", {"batch": -1}, columns_of(self.base()))
        return writer

    def merge(self, name: str, mode: str) -> Callable[[int], None]:
        table = f"`{self.catalog.spark_name()}`.bench.merge_{mode.replace('-', '_')}_{self.rows}"
        properties = f"'format-version' = '2', 'write.merge.mode' = '{mode}'"
        self.spark.sql(
            f"CREATE TABLE {table} (id BIGINT NOT NULL, customer STRING, status BIGINT, "
            f"amount DECIMAL(12,2)) USING iceberg TBLPROPERTIES ({properties})"
        )
        self._fill(table)

        def run(number: int) -> None:
            self.batches[number].createOrReplaceTempView("batch")
            self.spark.sql(
                f"MERGE INTO {table} t USING batch s ON t.id = s.id "
                "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
            )

        self.tables[name] = table
        return run

    def _fill(self, table: str) -> None:
        self.base().writeTo(table).append()

    def run(self, names: list[str]) -> dict[str, Timing]:
        """Take the batches in turn by each of `names`; the first is not counted."""
        self.tables: dict[str, str] = {}
        ways = {**{n: partial(self.ours, n, d) for n, d in OURS.items()},
                **{n: partial(self.merge, n, m) for n, m in MERGES.items()}}  # fmt: skip
        return in_turn({name: ways[name]() for name in names}, BATCHES)

    def after(self, name: str) -> dict[str, Any]:
        """What a reader finds: rows, files, delete files, and how long a full scan takes."""
        table = self.tables[name]
        begun = time.perf_counter()
        count, total = self.spark.sql(f"SELECT count(*), sum(amount) FROM {table}").collect()[0]
        seconds = time.perf_counter() - begun
        files = dict(self.spark.sql(f"SELECT content, count(*) FROM {table}.files GROUP BY 1").collect())
        deletes = sum(number for content, number in files.items() if content != 0)
        return {"rows": count, "sum": total, "scan": seconds, "files": files.get(0, 0), "deletes": deletes}


def report(spark: SparkSession, catalog: Catalog, rows: int, size: int, names: list[str]) -> list[str]:
    """Run and compare; the lines to print."""
    bench = Upserts(spark, catalog, rows, size)
    with PeakMemory() as peak:
        timings = bench.run(names)
    lines = [f"Upserts: {BATCHES} batches of {size:,} rows, half updates, into {rows:,} rows"]
    merge = timings.get("MERGE, merge-on-read")
    found = {name: bench.after(name) for name in names}
    assert len({(one["rows"], one["sum"]) for one in found.values()}) == 1, found
    for name, timing in timings.items():
        after = found[name]
        ratio = f"{merge.median_wall / timing.median_wall:5.2f} x MERGE merge-on-read" if merge else ""
        lines.append(
            f"  {name:22} {timing.median_wall:6.2f} s {timing.median_cpu:6.2f} CPU-s a batch  {ratio}  "
            f"scan {after['scan']:.2f} s, {after['files']} files, {after['deletes']} delete files"
        )
    lines.append(f"  peak memory of driver and workers {peak.bytes / 2**30:.1f} GiB")
    return lines
