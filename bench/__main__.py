"""`make bench`: our append beside `writeTo().append()` and plain Parquet, our upsert beside `MERGE`, bad
records beside good ones, inferred columns beside declared ones, reading beside plain Parquet."""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from bench import inference, letters, reading
from bench.measure import PeakMemory, Timing, in_turn
from bench.upserts import MERGES, OURS, growth, report
from calve.catalogs import Catalog
from calve.patience import Patience
from calve.project import SparkSettings
from calve.runtime import session
from calve.sink.declaration import IcebergSink
from calve.sink.prepare import columns_of
from calve.sink.writer import Writer
from calve.sources.datagen import DatagenSource

CORES = 2


class Lakehouse:
    """The three ways to write the same rows."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        settings = SparkSettings(master=f"local[{CORES}]", driver_memory="3g")
        started = session.start(settings, ["sqlite"], folder / "spark.log")
        catalog = Catalog.model_validate({}, context={"directory": folder})
        self.spark: SparkSession = session.branch_off(started, [catalog])
        self.catalog = catalog
        self.commits: list[float] = []

    def rows(self, count: int) -> DataFrame:
        """Decoded rows, in memory, the same for every variant."""
        source = DatagenSource(rows=count, seed=1)
        frame = (
            source.read(self.spark, {"row": 0}, {"row": count})
            .repartition(CORES if count > 50_000 else 1)
            .cache()
        )
        assert frame.count() == count
        return frame

    def ours(self, name: str, frame: DataFrame, count: int) -> object:
        """A writer with an open table; each call stages and commits `frame` once."""
        sink = IcebergSink.model_validate({"catalog": self.catalog, "namespace": "bench", "table": name})
        writer = Writer(self.spark, sink, name, Patience(0))
        writer.open("bench", {"row": 0}, columns_of(frame))

        def run(number: int) -> None:
            staged = writer.stage(frame, count)
            begun = time.perf_counter()
            writer.commit(staged, {"row": number})
            self.commits.append(time.perf_counter() - begun)

        return run

    def spark_append(self, name: str, frame: DataFrame) -> object:
        full = f"`{self.catalog.spark_name()}`.bench.{name}"
        frame.limit(0).writeTo(full).tableProperty("write.parquet.compression-codec", "snappy").create()
        return lambda number: frame.writeTo(full).append()

    def plain_parquet(self, name: str, frame: DataFrame) -> object:
        return lambda number: frame.write.parquet(str(self.folder / "plain" / f"{name}-{number}"))


def compare(lake: Lakehouse, title: str, count: int, rounds: int, parquet: bool = True) -> dict[str, Timing]:
    frame = lake.rows(count)
    name = f"rows_{count}"
    variants = {
        "Calve": lake.ours(name, frame, count),
        "writeTo().append()": lake.spark_append(f"{name}_spark", frame),
    }
    if parquet:
        variants["plain Parquet"] = lake.plain_parquet(name, frame)
    timings = in_turn(variants, rounds, warm=2)  # type: ignore[arg-type]
    frame.unpersist()
    print(f"\n{title}: {count:,} rows, {rounds} rounds in turn, medians")
    ours = timings["Calve"]
    for variant, timing in timings.items():
        wall, cpu = timing.median_wall, timing.median_cpu
        print(
            f"  {variant:<20} {wall:7.3f} s  {cpu:7.2f} CPU-s  {count / wall:12,.0f} rows/s"
            f"   Calve is {wall / ours.median_wall:4.2f} x as fast, {cpu / ours.median_cpu:4.2f} x in CPU"
        )
    return timings


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    parts = ["appends", "upserts", "letters", "inference", "reading"]
    parser.add_argument("--only", choices=parts, help="one part")
    parser.add_argument("--full", action="store_true", help="upserts into 2M and 20M rows, not a tenth")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="calve-bench-"))
    try:
        lake = Lakehouse(folder)
        if options.only in (None, "appends"):
            appends(lake, options.rows, options.rounds)
        if options.only in (None, "upserts"):
            upserts(lake, 2_000_000 if options.full else 200_000, with_more=options.full)
        if options.only in (None, "letters"):
            found = letters.report(lake.spark, lake.catalog, folder, options.rows, options.rounds)
            print("\n" + "\n".join(found))
        if options.only in (None, "inference"):
            found = inference.report(lake.spark, lake.catalog, folder, options.rows, options.rounds)
            print("\n" + "\n".join(found))
        if options.only in (None, "reading"):
            rows = 20_000_000 if options.full else options.rows
            print()
            for line in reading.report(lake.spark, lake.catalog, folder, rows, options.rounds):
                print(line, flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def appends(lake: Lakehouse, rows: int, rounds: int) -> None:
    with PeakMemory() as peak:
        large = compare(lake, "Append of decoded rows", rows, rounds)
        lake.commits.clear()
        small = compare(lake, "Overhead of a small batch", 1_000, 3 * rounds, parquet=False)
    own = statistics.median(lake.commits) * 1000
    print(f"\nThe commit itself: median {own:.0f} ms of {len(lake.commits)}")
    print(f"A batch of 1,000 rows: median {small['Calve'].median_wall * 1000:.0f} ms in all")
    print(f"Peak memory of the process tree: {peak.bytes / 2**20:,.0f} MiB")
    ratio = large["plain Parquet"].median_wall / large["Calve"].median_wall
    print(f"Against plain Parquet: {ratio:.2f} x (bar: 0.9 x)")


def upserts(lake: Lakehouse, rows: int, with_more: bool) -> None:
    lines, small = report(lake.spark, lake.catalog, rows, rows // 20, [*OURS, *MERGES])
    print("\n" + "\n".join(lines), flush=True)
    if with_more:
        lines, large = report(lake.spark, lake.catalog, 10 * rows, rows // 20, list(OURS))
        print("\n" + "\n".join([*lines, *growth(small, large)]))


if __name__ == "__main__":
    main()
