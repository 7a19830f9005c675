"""What bad records cost: the same lines of JSON with none to one in 100 of them bad."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from bench.measure import PeakMemory, in_turn
from calve.catalogs import Catalog
from calve.decode.bad import Catch
from calve.iceberg.stage import Staged
from calve.patience import Patience
from calve.position import Position
from calve.schema import parse
from calve.sink.dead_letter import Letters
from calve.sink.declaration import IcebergSink
from calve.sink.writer import Writer
from calve.sources.files import FilesSource
from calve.sources.source import Limits

SCHEMA = "id BIGINT NOT NULL, customer STRING, status STRING, amount DECIMAL(12,2), order_date TIMESTAMP"
GOOD = (
    '{"id": %d, "customer": "customer-%d", "status": "shipped", "amount": %d.25, '
    '"order_date": "2026-01-02T03:04:05Z"}\n'
)
BAD = '{"id": "abc%d", "customer": "customer-%d", "status": "lost", "amount": %d.25}\n'
VARIANTS: dict[str, int | None] = {
    "dead_letter: off": None,
    "none is bad": 0,
    "1 in 10,000": 10_000,
    "1 in 1,000": 1_000,
    "1 in 100": 100,
}
STOPPED, NONE, FEW = list(VARIANTS)[:3]


class Bad:
    """A folder of lines, and a table, for each share of bad ones."""

    def __init__(self, spark: SparkSession, catalog: Catalog, folder: Path, rows: int) -> None:
        self.spark, self.catalog, self.folder, self.rows = spark, catalog, folder, rows

    def variant(self, name: str, every: int | None) -> Callable[[int], None]:
        """A writer with an open table; each call reads, writes and commits all lines once."""
        table = f"bad_{list(VARIANTS).index(name)}"
        source = self._source(table, every)
        off = {"dead_letter": "off"} if every is None else {}
        sink = IcebergSink.model_validate(
            {"catalog": self.catalog, "namespace": "bench", "table": table, **off}
        )
        writer, start = Writer(self.spark, sink, table, Patience(0)), source.start()
        writer.open("bench", start, parse(SCHEMA))
        to = source.latest(start, Limits(2**40)).to
        if every is None:
            return lambda number: self._plain(writer, source, to, number)
        letters = Letters(self.spark, table, sink, table, Patience(0))
        letters.open("bench", start, 1)
        return lambda number: self._sifted(writer, letters, source, to, number, every)

    def _source(self, table: str, every: int | None) -> FilesSource:
        folder = self.folder / table
        folder.mkdir()
        for part in range(2):
            with (folder / f"{part}.json").open("w") as file:
                for number in range(part * self.rows // 2, (part + 1) * self.rows // 2):
                    line = BAD if every and number % every == every // 2 else GOOD
                    file.write(line % (number, number % 5000, number % 900))
        return FilesSource.model_validate({"path": str(folder), "schema": SCHEMA})

    def _plain(self, writer: Writer, source: FilesSource, to: Position, number: int) -> None:
        writer.commit(self._staged(writer, source, to, None), {"round": number})

    def _sifted(
        self, writer: Writer, letters: Letters, source: FilesSource, to: Position, number: int, every: int
    ) -> None:
        read = partial(source.read_bad, self.spark, source.start(), to, as_changes=False)
        staged = self._staged(writer, source, to, letters.catch())
        bad = letters.stage({"round": number - 1}, {"round": number}, read)
        assert staged.rows + bad.rows == self.rows
        assert bad.rows == (self.rows // every if every else 0)
        letters.commit(bad, {"round": number - 1}, {"round": number})
        writer.commit(staged, {"round": number})

    def _staged(self, writer: Writer, source: FilesSource, to: Position, bad: Catch | None) -> Staged:
        """Read and written as a pipeline does it."""
        undecoded = source.undecoded(self.spark, source.start(), to, bad, as_changes=False)
        assert undecoded is not None
        return writer.stage(undecoded.rows(), self.rows, self.rows * len(GOOD), undecoded)


def report(spark: SparkSession, catalog: Catalog, folder: Path, rows: int, rounds: int) -> list[str]:
    bench = Bad(spark, catalog, folder, rows)
    with PeakMemory() as peak:
        timings = in_turn({name: bench.variant(name, every) for name, every in VARIANTS.items()}, rounds)
    none = timings[NONE]
    lines = [f"Bad records: {rows:,} lines of JSON, {rounds} rounds in turn, medians"]
    for name, timing in timings.items():
        wall, cpu = timing.median_wall, timing.median_cpu
        lines.append(
            f"  {name:<20} {wall:7.3f} s  {cpu:7.2f} CPU-s  {rows / wall:12,.0f} rows/s"
            f"   {none.median_wall / wall:4.2f} x as fast as none, {none.median_cpu / cpu:4.2f} x in CPU"
        )
    cost = none.median_cpu / timings[STOPPED].median_cpu - 1
    lines.append(f"The good path: {cost:+.1%} CPU against 'off' (bar: 3 %)")
    share = none.median_cpu / timings[FEW].median_cpu
    lines.append(f"One bad record in 10,000: {share:.2f} x the throughput of none (bar: 0.8 x)")
    lines.append(f"Peak memory of the process tree: {peak.bytes / 2**20:,.0f} MiB")
    return lines
