"""`calve run --profile`: where the time of the batches went, and how much memory they took.

Spark is lazy: an append reads, decodes, transforms and writes in one pass, and that pass is one step. What
Spark tells of the tasks in it stands beside it: how long they ran, how much of that the JVM computed, and how
much it waited, for Python workers above all, which decode.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from statistics import median
from typing import TYPE_CHECKING, Any

from calve import clock, gateway
from calve.clock import STEPS, Clock, Taken
from calve.runtime.memory import Peak

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OTHER = "other"


@dataclass(frozen=True)
class Tasks:
    """What Spark tells of the tasks of some batches."""

    tasks: int = 0
    run: float = 0.0
    """Seconds that they ran, over all cores."""
    computed: float = 0.0
    """Seconds that the JVM computed in them; Python workers are not in it."""
    collected: float = 0.0
    """Seconds of garbage collection."""
    spilled: int = 0
    """Bytes that did not fit into memory and went to disk."""

    def __add__(self, other: Tasks) -> Tasks:
        return Tasks(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(self)))

    @property
    def waited(self) -> float:
        """Seconds in which the JVM did not compute: it waited for Python workers, files and the network."""
        return max(self.run - self.computed - self.collected, 0.0)


@dataclass(frozen=True)
class Batch:
    """One batch, as it was measured."""

    rows: int
    taken: Taken


class Profile:
    """What the batches of one run took."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.tasks = Tasks()
        self.peak = 0
        self.writer: str | None = None
        """Which writer made the data files of the last batch, and why."""
        self._clock = Clock()
        self._memory: Peak | None = None
        self._stages: _Stages | None = None

    @contextmanager
    def watching(self, spark: SparkSession) -> Iterator[None]:
        """Measure the steps of this thread."""
        self._stages = _Stages(spark)
        with clock.using(self._clock), Peak() as self._memory:
            yield
        self.peak = self._memory.bytes

    def begin(self) -> None:
        """A batch begins here: what came before was waiting."""
        self._clock.reset()

    def told(self, rows: int) -> dict[str, Any]:
        """End a batch of `rows` rows; what the status is told of all so far."""
        assert self._memory is not None, "not watching"
        assert self._stages is not None, "not watching"
        self.batches.append(Batch(rows, self._clock.take()))
        self.tasks += self._stages.new()
        self.peak = self._memory.bytes
        self._clock.reset()
        return {"profile": totals(self.batches), "peak_memory": self.peak}

    def lines(self) -> list[str]:
        """What is printed at the end of a run."""
        made = [f"  Data files were written by {self.writer}"] if self.writer else []
        return [*report(self.batches, self.tasks, self.peak), *made] if self.batches else []


class _Off(Profile):
    """No profile: nothing is measured."""

    @contextmanager
    def watching(self, spark: SparkSession) -> Iterator[None]:
        yield

    def begin(self) -> None:
        pass

    def told(self, rows: int) -> dict[str, Any]:
        return {}


OFF = _Off()


def totals(batches: Sequence[Batch]) -> dict[str, float]:
    """The seconds of each step over all batches; those of other threads as `… beside`."""
    found: dict[str, float] = {}
    for name in STEPS:
        for suffix, steps in (("", "steps"), (" beside", "beside")):
            seconds = sum(getattr(one.taken, steps).get(name, 0.0) for one in batches)
            if seconds:
                found[name + suffix] = round(seconds, 3)
    found[OTHER] = round(sum(one.taken.other for one in batches), 3)
    return found


def report(batches: Sequence[Batch], tasks: Tasks, peak: int) -> list[str]:
    """What each step took over all batches, what Spark tells of its tasks, and the memory."""
    wall = sum(one.taken.wall for one in batches)
    rows = sum(one.rows for one in batches)
    middle = median(one.taken.wall for one in batches)
    lines = [
        f"  {len(batches):,} batches, {rows:,} rows, {wall:.2f} s; the first {batches[0].taken.wall:.2f} s, "
        f"median {middle:.2f} s"
    ]
    for name, seconds in totals(batches).items():
        plain, _, beside = name.partition(" ")
        share = "   –  " if beside else f"{seconds / wall:6.1%}"
        meaning = STEPS.get(plain, "what no step was at work in")
        told = f"in another thread: {meaning}" if beside else meaning
        each = seconds / len(batches)
        lines.append(f"  {plain:<10}{seconds:9.2f} s  {share}  {each:8.3f} s a batch  {told}")
    return [*lines, *_of_tasks(tasks), *_of_memory(peak)]


def _of_tasks(tasks: Tasks) -> Iterator[str]:
    if tasks.tasks:
        spilled = f", {tasks.spilled / 2**20:,.0f} MiB spilled" if tasks.spilled else ""
        yield (
            f"  {tasks.tasks:,} tasks of Spark ran {tasks.run:.2f} s: for {tasks.computed:.2f} s the JVM "
            f"computed, for {tasks.collected:.2f} s it collected garbage, for {tasks.waited:.2f} s it "
            f"waited, above all for the Python workers that decode{spilled}"
        )


def _of_memory(peak: int) -> Iterator[str]:
    if peak:
        yield f"  At most {peak / 2**20:,.0f} MiB were held, by this process, the JVM and the Python workers"


class _Stages:
    """What Spark's own listener has kept of the stages that this thread's batches ran."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._seen: set[int] = set()
        self._group = f"calve-{id(self)}"
        spark.sparkContext.setJobGroup(self._group, "batches of a pipeline")

    def new(self) -> Tasks:
        """The tasks that ended since the last time; none where Spark does not tell."""
        found = Tasks()
        for job, stages in gateway.ended_stages(self._spark, self._group, self._seen):
            self._seen.add(job)
            for one in stages:
                found += Tasks(one.tasks, one.run_ms / 1e3, one.cpu_ns / 1e9, one.gc_ms / 1e3, one.spilled)
        return found
