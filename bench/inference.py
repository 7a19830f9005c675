"""What it costs to leave columns to the records: the same lines into new tables, declared and inferred."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from bench.measure import in_turn
from calve.catalogs import Catalog
from calve.project import ResolvedPipeline
from calve.runtime.report import Report
from calve.runtime.runner import Runner
from calve.runtime.stop import Stop
from calve.sink.declaration import IcebergSink
from calve.sources.files import FilesSource

SCHEMA = "id BIGINT, customer STRING, status STRING, amount DOUBLE, region STRING"
LINE = '{"id": %d, "customer": "customer-%d", "status": "shipped", "amount": %d.25, "region": "europe"}\n'
VARIANTS = {"declared": {"schema": SCHEMA}, "infer": {}}
FILES = 10


class Lines:
    """A folder of lines, and a pipeline into a new table each time."""

    def __init__(self, spark: SparkSession, catalog: Catalog, folder: Path, rows: int) -> None:
        self.spark, self.catalog, self.folder = spark, catalog, folder / "lines"
        self.folder.mkdir()
        for part in range(FILES):
            with (self.folder / f"{part}.json").open("w") as file:
                for number in range(part * rows // FILES, (part + 1) * rows // FILES):
                    file.write(LINE % (number, number % 5000, number % 900))

    def variant(self, name: str) -> Callable[[int], None]:
        """Reads, writes and commits all lines once with each call."""

        def run(number: int) -> None:
            source = FilesSource.model_validate({"path": str(self.folder), **VARIANTS[name]})
            place = {"catalog": self.catalog, "namespace": "bench", "table": f"{name}_{number}"}
            sink = IcebergSink.model_validate(place)
            pipeline = ResolvedPipeline(name, source, sink, (), name, True)
            Runner(pipeline, self.spark, Stop(), Report(name), once=True).run()

        return run


def report(spark: SparkSession, catalog: Catalog, folder: Path, rows: int, rounds: int) -> list[str]:
    """Run and compare; the lines to print."""
    bench = Lines(spark, catalog, folder, rows)
    timings = in_turn({name: bench.variant(name) for name in VARIANTS}, rounds)
    lines = [f"Columns of {rows:,} lines of JSON in {FILES} files, {rounds} rounds in turn, medians"]
    for name, timing in timings.items():
        ratio = timing.median_wall / timings["declared"].median_wall
        lines.append(
            f"  {name:<10} {timing.median_wall:6.2f} s {timing.median_cpu:6.2f} CPU-s  {ratio:.2f} x declared"
        )
    return [*lines, "  (bar: 1.3 x)"]
