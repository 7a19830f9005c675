"""What it costs to leave columns to the records: the same lines of JSON, declared and inferred."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from bench.measure import in_turn
from calve.catalogs import Catalog
from calve.patience import Patience
from calve.schema import parse
from calve.sink.declaration import IcebergSink
from calve.sink.writer import Writer
from calve.sources.files import FilesSource
from calve.sources.source import Limits

SCHEMA = "id BIGINT, customer STRING, status STRING, amount DOUBLE, region STRING"
LINE = '{"id": %d, "customer": "customer-%d", "status": "shipped", "amount": %d.25, "region": "europe"}\n'
DECLARED, KNOWN, FIRST = "declared", "infer, a later batch", "infer, the first batch"


class Lines:
    """A folder of lines, and a table for each way to read them."""

    def __init__(self, spark: SparkSession, catalog: Catalog, folder: Path, rows: int) -> None:
        self.spark, self.catalog, self.folder, self.rows = spark, catalog, folder / "lines", rows
        self.folder.mkdir()
        for part in range(2):
            with (self.folder / f"{part}.json").open("w") as file:
                for number in range(part * rows // 2, (part + 1) * rows // 2):
                    file.write(LINE % (number, number % 5000, number % 900))

    def variant(self, name: str) -> Callable[[int], None]:
        """A writer with an open table; each call reads, writes and commits all lines once."""
        table = f"inferred_{(DECLARED, KNOWN, FIRST).index(name)}"
        sink = IcebergSink.model_validate({"catalog": self.catalog, "namespace": "bench", "table": table})
        writer = Writer(self.spark, sink, table, Patience(0))
        writer.open("bench", {}, parse(SCHEMA))

        def run(number: int) -> None:
            source = self._source(name)
            start = source.start()
            to = source.latest(start, Limits(2**40)).to
            writer.commit(writer.stage(source.read(self.spark, start, to), self.rows), {"round": number})

        return run

    def _source(self, name: str) -> FilesSource:
        declared = {"schema": SCHEMA} if name == DECLARED else {}
        source = FilesSource.model_validate({"path": str(self.folder), **declared})
        source.expect(parse(SCHEMA), whole=name == KNOWN)
        return source


def report(spark: SparkSession, catalog: Catalog, folder: Path, rows: int, rounds: int) -> list[str]:
    bench = Lines(spark, catalog, folder, rows)
    timings = in_turn({name: bench.variant(name) for name in (DECLARED, KNOWN, FIRST)}, rounds)
    plain = timings[DECLARED]
    lines = [f"Inference: {rows:,} lines of JSON, {rounds} rounds in turn, medians"]
    for name, timing in timings.items():
        wall, cpu = timing.median_wall, timing.median_cpu
        lines.append(
            f"  {name:<24} {wall:7.3f} s  {cpu:7.2f} CPU-s  {rows / wall:12,.0f} rows/s"
            f"   {wall / plain.median_wall:4.2f} x the time of declared (bar: 1.3 x)"
        )
    return lines
