"""Upserts beside `MERGE INTO`: the same rows, the same batches, half of them updates."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from threading import Timer
from typing import Any

import duckdb
from pyspark.sql import DataFrame, SparkSession

from bench.measure import PeakMemory, Timing, in_turn
from calve.catalogs import Catalog
from calve.patience import Patience
from calve.sink.declaration import IcebergSink
from calve.sink.prepare import columns_of
from calve.sink.writer import Writer
from tests import duck

BATCHES = 6
PATIENCE = 60
"""How many seconds DuckDB may scan a table; it compares every equality delete with every row."""
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
                "*", "'u' AS _calve_op",
                "named_struct('seq', CAST(NULL AS BIGINT), 'lane', 0L, 'at', id, 'part', 0) AS _calve_order",
                "CAST(NULL AS TIMESTAMP) AS _calve_ts", "CAST(NULL AS ARRAY<STRING>) AS _calve_unknown",
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
        """What a reader finds: rows, files, delete files, and how long full scans take."""
        table = self.tables[name]
        self.spark.sql(f"SELECT count(*), sum(amount) FROM {table}").collect()
        begun = time.perf_counter()
        count, total = self.spark.sql(f"SELECT count(*), sum(amount) FROM {table}").collect()[0]
        seconds = time.perf_counter() - begun
        files = dict(self.spark.sql(f"SELECT content, count(*) FROM {table}.files GROUP BY 1").collect())
        deletes = sum(number for content, number in files.items() if content != 0)
        scan = f"scan by Spark {seconds:.2f} s, by DuckDB {self._duckdb(table, count)}"
        return {
            "rows": count,
            "sum": total,
            "left": f"{scan}; {files.get(0, 0)} files, {deletes} delete files",
        }

    def _duckdb(self, table: str, rows: int) -> str:
        """How long DuckDB takes to scan the table, which must give the same `rows`."""
        newest = f"SELECT file FROM {table}.metadata_log_entries ORDER BY timestamp DESC LIMIT 1"
        metadata = self.spark.sql(newest).collect()[0][0]
        connection = duck.connect()
        timer = Timer(PATIENCE, connection.interrupt)
        timer.start()
        begun = time.perf_counter()
        try:
            found = connection.execute(
                f"SELECT count(*), sum(amount) FROM iceberg_scan('{metadata}')"
            ).fetchone()
        except duckdb.InterruptException:
            return f"more than {PATIENCE} s"
        finally:
            timer.cancel()
        assert found is not None
        assert found[0] == rows, (found, rows)
        return f"{time.perf_counter() - begun:.2f} s"


def report(
    spark: SparkSession, catalog: Catalog, rows: int, size: int, names: list[str]
) -> tuple[list[str], dict[str, Timing]]:
    """Run and compare; the lines to print, and what each took."""
    bench = Upserts(spark, catalog, rows, size)
    with PeakMemory() as peak:
        timings = bench.run(names)
    found = {name: bench.after(name) for name in names}
    assert len({(one["rows"], one["sum"]) for one in found.values()}) == 1, found
    lines = [f"Upserts: {BATCHES} batches of {size:,} rows, half updates, into {rows:,} rows"]
    for name, timing in timings.items():
        lines.append(
            f"  {name:22} {timing.median_wall:6.2f} s {timing.median_cpu:6.2f} CPU-s a batch"
            f"{_against(timing, timings)};  {found[name]['left']}"
        )
    lines.append(f"  peak memory of driver and workers {peak.bytes / 2**30:.1f} GiB")
    return lines, timings


def _against(timing: Timing, timings: dict[str, Timing]) -> str:
    ratios = [
        f"{timings[name].median_wall / timing.median_wall:.2f} x {name}" for name in MERGES if name in timings
    ]
    return f"  {', '.join(ratios)}" if ratios else ""


def growth(small: dict[str, Timing], large: dict[str, Timing]) -> list[str]:
    """How much longer a batch takes in the larger table."""
    ratios = {name: large[name].median_wall / small[name].median_wall for name in large}
    return ["Ten times the table: " + ", ".join(f"{name} {ratio:.2f} x" for name, ratio in ratios.items())]
