"""The workloads: what is loaded, what is right, and what is measured besides."""

from __future__ import annotations

import re
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from statistics import median
from typing import Any, ClassVar

import pyarrow as pa

from bench import check, data
from bench.data import Expected, Shape, Upserts
from bench.measure import Watched, watch
from bench.peers.peer import Inputs, Load, Peer
from bench.stand import Stand
from bench.table import Facts

ORDERS = Shape()


@dataclass
class Result:
    """One run of one workload by one peer."""

    workload: str
    peer: str
    round: int = 0
    version: str = ""
    rows: int = 0
    wall: float | None = None
    cpu: float | None = None
    peak: int | None = None
    files: int | None = None
    delete_files: int | None = None
    snapshots: int | None = None
    right: bool | None = None
    wrong: list[str] = field(default_factory=list)
    """What is not as it should be, or why there is no result."""
    note: str = ""
    more: dict[str, float | None] = field(default_factory=dict)
    """What only some workloads have, by name."""

    @property
    def rows_per_second(self) -> float | None:
        return self.rows / self.wall if self.wall else None


class Workload(ABC):
    """One kind of work, the same for every peer."""

    name: ClassVar[str]
    title: ClassVar[str]
    only: ClassVar[tuple[str, ...]] = ()
    """The peers that are asked, where not all are."""
    rounds: ClassVar[int | None] = None
    """How often it is run at the most."""

    @abstractmethod
    def load(self, stand: Stand, peer: Peer, run: str) -> Load:
        """What the peer is asked to do; data that is missing is made."""

    def run(self, stand: Stand, peer: Peer, number: int) -> Result:
        """Have the peer do it, and measure."""
        load = self.load(stand, peer, f"{self.name}-{peer.name}-{number}".lower())
        refusal = peer.refusal(load)
        if refusal is not None:
            return Result(self.name, peer.name, number, peer.version(), wrong=[refusal])
        folder = stand.run_folder(load.run)
        peer.prepare(load, folder)
        for topic in peer.topics(load):
            stand.broker.create_topic(topic)
        result = self.measured(stand, peer, load, folder)
        result.round, result.note = number, peer.note
        return result

    def measured(self, stand: Stand, peer: Peer, load: Load, folder: Path) -> Result:
        """Run the commands of a peer and look at what they left."""
        watched = self.watched(stand, peer, load, folder)
        return self.judged(stand, peer, load, folder, watched)

    def watched(self, stand: Stand, peer: Peer, load: Load, folder: Path) -> list[Watched]:
        """What each command that counts has taken; nothing after one that failed."""
        found = []
        place, limit = peer.place(load, folder), load.expected.rows
        for step in peer.steps(load, folder):
            one = watch(
                step.command, folder=folder, log=folder / "log", environment=step.environment,
                rows=place.rows if step.counted else lambda: 0, until=None if step.ends else limit,
                limit=stand.limit, given_up=step.given_up,
            )  # fmt: skip
            found += [one] if step.counted else []
            if one.code or one.gave_up or not one.in_time:
                return [one]
        return found

    def judged(
        self, stand: Stand, peer: Peer, load: Load, folder: Path, watched: Sequence[Watched]
    ) -> Result:
        """The numbers, and whether the table is right."""
        result = Result(self.name, peer.name, version=peer.version(), rows=load.rows)
        result.wall, result.cpu = sum(one.wall for one in watched), sum(one.cpu for one in watched)
        result.peak = max(one.peak for one in watched)
        result.wrong += failures(watched, folder / "log", stand.limit)
        metadata, place = peer.place(load, folder).metadata(), peer.place(load, folder)
        facts = Facts.of(place.read() or {})
        result.files, result.delete_files, result.snapshots = facts.files, facts.delete_files, facts.snapshots
        if metadata is None:
            result.wrong.append("there is no table")
        else:
            stand.left[self.name, peer.name] = metadata
            wrong = check.differences(load.expected, check.found(metadata, peer.columns(load)))
            # After a failure the number of rows tells enough.
            result.wrong += wrong[:1] if result.wrong else wrong
        result.right = not result.wrong
        result.more = dict(self.more(load, watched, facts))
        return result

    def more(self, load: Load, watched: Sequence[Watched], facts: Facts) -> Mapping[str, float | None]:
        """What this workload tells besides."""
        return {}


def failures(watched: Sequence[Watched], log: Path, limit: float) -> list[str]:
    """How commands ended that did not end well."""
    found = []
    for one in watched:
        if one.code or one.gave_up:
            said = cause(log.read_text(errors="replace") if log.exists() else "")
            how = "gave up" if one.gave_up else f"ended with {one.code}"
            found.append(f"{how}: {said[:200] or 'it says nothing'}")
        if not one.in_time:
            found.append(f"not done after {limit:.0f} s")
    return found


def cause(log: str) -> str:
    """The line of a log that tells best why a command failed: that of the last error, or its last one."""
    lines = log.strip().splitlines()
    named = [line for line in lines if re.match(r"(Caused by: )?[\w.$]+(Error|Exception)\b", line)]
    return (named or lines or [""])[-1].strip()


class Append(Workload):
    """Rows of a topic."""

    shape = ORDERS
    count = 2_000_000
    partition_by: ClassVar[str | None] = None
    bad_every = 0
    topic = "orders"
    settings: ClassVar[Mapping[str, Any]] = {}

    def load(self, stand: Stand, peer: Peer, run: str) -> Load:
        count = stand.count(self.count)
        tables = partial(self.shape.blocks, 0, count)
        topic = stand.topic(f"{self.topic}-{count}", tables, bad_every=self.bad_every)
        return Load(
            self.name, run, self.shape, Inputs(topic), expected(self.shape, count, self.bad_every),
            rows=count, partition_by=self.partition_by, settings=self.settings,
        )  # fmt: skip


@cache
def expected(shape: Shape, count: int, bad_every: int = 0) -> Expected:
    """What a table with the first `count` rows holds."""

    def good() -> Iterator[pa.Table]:
        first = 0
        for table in shape.blocks(0, count):
            yield data.good_of(table, bad_every, first)
            first += table.num_rows

    return Expected.of(good())


class Cold(Append):
    name, title = (
        "W1",
        "Append of JSON from Kafka, cold: from the start of the process until all rows are visible",
    )

    def more(self, load: Load, watched: Sequence[Watched], facts: Facts) -> Mapping[str, float | None]:
        seen = watched[-1].visible(load.expected.rows)
        return {
            "visible_seconds": seen.wall if seen else None,
            "cpu_per_million": per_million(watched[-1].cpu, load.rows),
        }


class Steady(Append):
    name, title = (
        "W1-steady",
        "Append of JSON from Kafka, steady: what comes after the first sixth of the rows",
    )
    count = 12_000_000

    def judged(
        self, stand: Stand, peer: Peer, load: Load, folder: Path, watched: Sequence[Watched]
    ) -> Result:
        result = super().judged(stand, peer, load, folder, watched)
        steady = watched[-1].steady(load.rows // 6, peer.by_the_clock)
        result.more["steady_rows_per_second"] = steady and steady.rows / steady.wall
        result.more["steady_cpu_per_million"] = steady and per_million(steady.cpu, steady.rows)
        return result


def per_million(cpu: float, rows: int) -> float:
    """CPU-seconds for a million rows."""
    return cpu / rows * 1e6


class Upsert(Workload):
    """Batches of changes, half of them to rows that are there."""

    base, size, batches = 1_000_000, 50_000, 10

    def upserts(self, stand: Stand, batches: int) -> Upserts:
        return Upserts(ORDERS, stand.count(self.base), stand.count(self.size, 100), batches)

    def load(self, stand: Stand, peer: Peer, run: str) -> Load:
        count = min(self.batches, peer.most_batches or self.batches)
        made = self.upserts(stand, count)
        name = f"{self.name.lower()}-{made.base}-{made.size}"
        batches: list[Callable[[], Any]] = [lambda n=n: [made.batch(n)] for n in range(self.batches)]
        tables = lambda: (table for batch in batches for table in batch())  # noqa: E731
        inputs = Inputs(
            stand.topic(name, tables, partitions=1),
            stand.files(name, "parquet", batches)[:count],
            stand.files(name, "csv", batches)[:count],
        )
        base = stand.whole(f"{name}-base", ORDERS, made.base, ("parquet", "csv"), files=1)
        return Load(
            self.name, run, ORDERS, inputs, made.expected(), is_upsert=True, base=base,
            rows=count * made.size, batch_rows=made.size, batches=count,
        )  # fmt: skip

    def more(self, load: Load, watched: Sequence[Watched], facts: Facts) -> Mapping[str, float | None]:
        return {
            "batch_seconds": batch_seconds(watched, facts, load.batches),
            "batch_cpu": sum(one.cpu for one in watched) / load.batches,
        }


def batch_seconds(watched: Sequence[Watched], facts: Facts, batches: int) -> float:
    """The median time of a batch: of the commands, or between the commits, whichever there is one of each."""
    if len(watched) == batches > 1:
        return median(one.wall for one in watched)
    between = facts.per_batch(batches)
    made = [at for at in facts.commits if at >= watched[-1].began]
    # The first commit of a process comes after its start, and a fence may stand before it.
    if len(between) == batches and batches <= len(made) <= batches + 1 and batches > 1:
        return median(between[1:])
    return sum(one.wall for one in watched) / batches


class SmallUpserts(Upsert):
    name, title = "W2", "Upserts: 10 batches of 50,000, half of them updates, into 1,000,000 rows"


class LargeUpserts(Upsert):
    name, title = "W2-large", "Upserts: 6 batches of 100,000, half of them updates, into 2,000,000 rows"
    base, size, batches = 2_000_000, 100_000, 6


class Bulk(Workload):
    """Rows of files."""

    form, count, files = "parquet", 10_000_000, 10
    shape = ORDERS
    settings: ClassVar[Mapping[str, Any]] = {}

    def load(self, stand: Stand, peer: Peer, run: str) -> Load:
        count = stand.count(self.count)
        inputs = stand.whole(f"{self.shape.name}-{count}", self.shape, count, [self.form], self.files)
        return Load(
            self.name,
            run,
            self.shape,
            inputs,
            expected(self.shape, count),
            rows=count,
            settings=self.settings,
        )


class BulkParquet(Bulk):
    name, title = "W3", "Bulk load of 10,000,000 rows of Parquet"


class BulkLarge(Bulk):
    name, title = "W3-large", "Bulk load of 40,000,000 rows of Parquet"
    only, rounds = ("calve", "pyiceberg"), 1
    count, files = 40_000_000, 40


class BulkCsv(Bulk):
    name, title = "W3-csv", "Bulk load of 10,000,000 rows of CSV"
    form = "csv"


class Bad(Append):
    name, title = "W4", "Append of JSON from Kafka, one record in 10,000 bad"
    bad_every, topic = 10_000, "bad"

    def judged(
        self, stand: Stand, peer: Peer, load: Load, folder: Path, watched: Sequence[Watched]
    ) -> Result:
        result = super().judged(stand, peer, load, folder, watched)
        letters = peer.letters(load, folder)
        result.more["bad_records"] = float(load.rows - load.expected.rows)
        result.more["bad_records_kept"] = float(letters.rows()) if letters else None
        return result


class Trickle(Workload):
    """Rows come evenly; how long until each is visible."""

    every = 1.0
    rows_per_second, seconds = 1000, 60.0

    def load(self, stand: Stand, peer: Peer, run: str) -> Load:
        warm = 1000
        seconds = max(self.seconds * min(stand.scale, 1.0), 5.0)
        count = warm + int(seconds * 10) * (self.rows_per_second // 10)
        topic = stand.topic(run, partial(ORDERS.blocks, 0, warm), partitions=1)
        return Load(
            self.name, run, ORDERS, Inputs(topic), expected(ORDERS, count), rows=count - warm,
            batch_rows=0, endless=self.every,
        )  # fmt: skip

    def measured(self, stand: Stand, peer: Peer, load: Load, folder: Path) -> Result:
        """Wait until the first rows are visible, then let rows come while the peer runs."""
        place = peer.place(load, folder)
        seen: list[tuple[float, int]] = []
        ended = threading.Event()
        watched: list[Watched] = []

        def work() -> None:
            watched.extend(self.watched(stand, peer, load, folder))
            ended.set()

        thread = threading.Thread(target=work)
        thread.start()
        while not place.rows() and not ended.wait(0.05):
            pass
        looking = threading.Thread(target=look, args=(place.rows, seen, ended))
        looking.start()
        produced = self._produced(stand, load) if not ended.is_set() else []
        thread.join()
        looking.join()
        result = self.judged(stand, peer, load, folder, watched)
        late = latencies(produced, seen, load.expected.rows - load.rows)
        return Result(**{**vars(result), "more": {
            "latency_median": quantile(late, 0.5), "latency_p99": quantile(late, 0.99),
        }})  # fmt: skip

    def _produced(self, stand: Stand, load: Load) -> list[float]:
        from confluent_kafka import Producer

        assert load.inputs.topic is not None, "no topic"
        producer = Producer({"bootstrap.servers": load.inputs.topic.bootstrap, "linger.ms": 0})
        first = load.expected.rows - load.rows
        seconds = load.rows / self.rows_per_second
        return data.trickle(producer, load.inputs.topic.name, ORDERS, self.rows_per_second, seconds, first)


def look(rows: Callable[[], int], seen: list[tuple[float, int]], ended: threading.Event) -> None:
    """Note when more rows are visible, until the end."""
    done = False
    while not done:
        done = ended.wait(0.02)
        found = rows()
        if not seen or found > seen[-1][1]:
            seen.append((time.time(), found))


def latencies(produced: Sequence[float], seen: Sequence[tuple[float, int]], before: int) -> list[float]:
    """How long after it was produced each row was visible; `before` rows were there already. Rows that were
    never visible are left out."""
    found, place = [], 0
    for number, at in enumerate(produced, start=before + 1):
        while place < len(seen) and seen[place][1] < number:
            place += 1
        if place < len(seen):
            found.append(max(seen[place][0] - at, 0.0))
    return found


def quantile(values: Sequence[float], share: float) -> float | None:
    """The value that `share` of them do not exceed."""
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)] if ordered else None


class TrickleOften(Trickle):
    name, title = "W5", "Trickle of 1,000 rows a second, to be visible every second"


class TrickleSeldom(Trickle):
    name, title = "W5-10s", "Trickle of 1,000 rows a second, to be visible every 10 seconds"
    every = 10.0


class Wide(Append):
    name, title = "W6", "Append of wide and nested rows from Kafka"
    shape, count, topic = Shape("wide", wide=20), 500_000, "wide"


class Days(Append):
    name, title = "W7", "Append from Kafka into 1,000 days"
    shape, topic, partition_by = Shape("days", days=1000), "days", "day(ordered_at)"

    def more(self, load: Load, watched: Sequence[Watched], facts: Facts) -> Mapping[str, float | None]:
        commits = max(facts.snapshots, 1)
        return {
            "files_per_commit": facts.files / commits,
            "files_per_commit_and_day": facts.files / commits / 1000,
        }


class Growth(Upsert):
    """Upserts into tables of 1, 10 and 100 times the rows."""

    only = ("calve", "calve-equality", "spark", "spark-merge-on-read")
    rounds = 1
    base, size, batches = 200_000, 50_000, 5


class GrowthOnce(Growth):
    name, title = "W8-upsert-1", "Growth: upserts of 50,000 into 200,000 rows"


class GrowthTen(Growth):
    name, title = "W8-upsert-10", "Growth: upserts of 50,000 into 2,000,000 rows"
    base = 2_000_000


class GrowthHundred(Growth):
    name, title = "W8-upsert-100", "Growth: upserts of 50,000 into 20,000,000 rows"
    base = 20_000_000


class GrowingAppend(Workload):
    """Appends to tables of 1, 10 and 100 times the rows."""

    only = ("calve", "spark")
    rounds = 1
    base, size, batches = 200_000, 50_000, 10

    def load(self, stand: Stand, peer: Peer, run: str) -> Load:
        base, size = stand.count(self.base), stand.count(self.size, 100)
        count = self.batches * size
        # Ids go on behind those of the largest table, so that one topic serves them all.
        first = stand.count(20_000_000)
        topic = stand.topic(f"growing-{size}", partial(ORDERS.blocks, first, count), partitions=1)
        before = stand.whole(f"growing-{base}", ORDERS, base, ("parquet", "csv"))
        return Load(
            self.name, run, ORDERS, Inputs(topic), both(base, first, count), base=before, rows=count,
            batch_rows=size, batches=self.batches,
        )  # fmt: skip

    def more(self, load: Load, watched: Sequence[Watched], facts: Facts) -> Mapping[str, float | None]:
        return {"batch_seconds": batch_seconds(watched, facts, load.batches)}


@cache
def both(base: int, first: int, count: int) -> Expected:
    """What the first `base` rows and `count` more from `first` on add up to."""
    return Expected.of(table for part in ((0, base), (first, count)) for table in ORDERS.blocks(*part))


class GrowingOnce(GrowingAppend):
    name, title = "W8-append-1", "Growth: appends of 50,000 to 200,000 rows"


class GrowingTen(GrowingAppend):
    name, title = "W8-append-10", "Growth: appends of 50,000 to 2,000,000 rows"
    base = 2_000_000


class GrowingHundred(GrowingAppend):
    name, title = "W8-append-100", "Growth: appends of 50,000 to 20,000,000 rows"
    base = 20_000_000


class LowLatency(Append):
    name, title = "W10-low-latency", "Tuned for low latency: batch_size 1,000, 10 s, files of 32 MB"
    only, count = ("calve",), 1_000_000
    settings = {"batch_size": 1000, "flush_interval_secs": 10, "target_file_size_mb": 32}


class Balanced(Append):
    name, title = "W10-balanced", "Tuned for balance: batch_size 10,000, 60 s, files of 128 MB"
    only, count = ("calve",), 1_000_000
    settings = {"batch_size": 10_000, "flush_interval_secs": 60, "target_file_size_mb": 128}


class HighThroughput(Append):
    name, title = "W10-high-throughput", "Tuned for throughput: batch_size 100,000, 300 s, files of 512 MB"
    only, count = ("calve",), 1_000_000
    settings = {"batch_size": 100_000, "flush_interval_secs": 300, "target_file_size_mb": 512}


class Heavy(Bulk):
    """A file of more than 1 GB."""

    only = ("calve", "spark", "pyiceberg")
    rounds = 1
    shape, count, files = Shape("heavy", payload=800), 1_600_000, 1

    def judged(
        self, stand: Stand, peer: Peer, load: Load, folder: Path, watched: Sequence[Watched]
    ) -> Result:
        result = super().judged(stand, peer, load, folder, watched)
        metadata = stand.left.get((self.name, peer.name))
        result.more["input_bytes"] = float(load.inputs.parquet[0].stat().st_size)
        result.more["largest_file_bytes"] = float(largest(metadata)) if metadata else None
        return result


def largest(metadata: Path) -> int:
    """The bytes of the largest data file of a table."""
    from pyiceberg.table import StaticTable

    sizes = StaticTable.from_metadata(str(metadata)).inspect.data_files()["file_size_in_bytes"].to_pylist()
    return max(sizes, default=0)


class HeavyCapped(Heavy):
    name, title = "W11", "A Parquet file of more than 1 GB into files of at most 512 MB"
    settings = {"target_file_size_mb": 512}


class HeavyWhole(Heavy):
    name, title = "W11-whole", "Two Parquet files of more than 1 GB into data files as large"
    only, count, files = ("calve",), 3_200_000, 2
    settings = {"target_file_size_mb": 4096, "max_batch_size": 4_000_000}


WORKLOADS: dict[str, type[Workload]] = {
    kind.name: kind
    for kind in (
        Cold, Steady, SmallUpserts, LargeUpserts, BulkParquet, BulkLarge, BulkCsv, Bad, TrickleOften,
        TrickleSeldom, Wide, Days, GrowingOnce, GrowingTen, GrowingHundred, GrowthOnce, GrowthTen,
        GrowthHundred, LowLatency, Balanced, HighThroughput, HeavyCapped, HeavyWhole,
    )
}  # fmt: skip
"""Those that peers do; `bench.readers` reads what they leave (W9) and asks a catalog (W10)."""
