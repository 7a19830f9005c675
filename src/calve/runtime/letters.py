"""Dead letters of a pipeline, looked at, run through the present declaration again, and taken away.

A replay commits the rows of letters together with the ids of those letters, as the position of a mark of its
own in the table of the rows; then it marks the letters. What was cut off between the two is found there.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any

from calve import changes, gateway
from calve.errors import ConfigurationError, Unavailable, UsageError
from calve.iceberg.name import TableName
from calve.iceberg.table import Table
from calve.patience import Patience
from calve.position import Position
from calve.project import ResolvedPipeline
from calve.runtime import tables
from calve.runtime.report import Report
from calve.runtime.runner import Runner
from calve.runtime.stop import Stop
from calve.schema import Schema
from calve.sink import dead_letter
from calve.sink.commit import Committer
from calve.sink.dead_letter import LETTER_ID, RECORDED, REPLAYED, Letters
from calve.sink.declaration import DeadLetter, IcebergSink
from calve.sink.upsert import Upsert
from calve.sink.writer import Writer

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

CHUNK = 1_000
"""How many letters are replayed with one commit; a mark holds the ids of them all."""

NOBODY: Position = {"letters": []}


@dataclass(frozen=True)
class Wanted:
    """Which letters are meant."""

    replayed: bool | None = False
    """True: those that were replayed, False: the others, None: all."""
    reason: str | None = None
    before: dt.datetime | None = None
    id: str | None = None


@dataclass
class Replayed:
    """How a replay went: how many letters were taken, and why the others were refused once more."""

    taken: int = 0
    refused: Counter[str] = field(default_factory=Counter)


def replay_id(sink_id: str) -> str:
    """Who replays the letters of `sink_id`; no declaration can have that name."""
    return f"{sink_id}+replay"


def table_of(pipeline: ResolvedPipeline) -> TableName:
    """The table for the dead letters of a pipeline; raises where it has none."""
    name = dead_letter.table_name(pipeline.sink)
    if name is None or not pipeline.source.catches:
        why = "'dead_letter' is off" if name is None else "its source has no records that could be bad"
        raise ConfigurationError(f"Cannot find dead letters of pipeline '{pipeline.name}': {why}")
    return name


def selected(spark: SparkSession, pipeline: ResolvedPipeline, wanted: Wanted) -> DataFrame:
    """The letters of a pipeline that are meant, the oldest first."""
    from pyspark.sql import functions as f

    name = table_of(pipeline)
    if not tables.exists(spark, name):
        raise UsageError(f"Cannot find table '{name}': no record of '{pipeline.name}' was bad so far")
    found = spark.table(name.sql()).where(f.col("pipeline") == pipeline.name)
    return found.where(reduce(lambda one, other: one & other, _conditions(wanted), f.lit(True)))


def _conditions(wanted: Wanted) -> Iterator[Column]:
    from pyspark.sql import functions as f

    if wanted.replayed is not None:
        yield f.col(REPLAYED).isNotNull() if wanted.replayed else f.col(REPLAYED).isNull()
    if wanted.reason is not None:
        yield f.col("reason") == wanted.reason
    if wanted.before is not None:
        yield f.col(RECORDED) < f.lit(wanted.before)
    if wanted.id is not None:
        yield f.col(LETTER_ID).startswith(wanted.id)


def first(found: DataFrame, limit: int, columns: Sequence[str] = ()) -> list[Mapping[str, Any]]:
    """At most `limit` of the letters, the oldest first."""
    with gateway.translated("read dead letters"):
        ordered = found.orderBy(RECORDED, "position", LETTER_ID).limit(limit)
        return [row.asDict(recursive=True) for row in ordered.select(*columns or ["*"]).collect()]


def purge(spark: SparkSession, pipeline: ResolvedPipeline, wanted: Wanted) -> int:
    """Delete letters; how many."""
    found = selected(spark, pipeline, wanted)
    with gateway.translated("read dead letters"):
        count = found.count()
    if count:
        _Marking(spark, pipeline).change(found, changes.DELETE)
    return count


def replay(spark: SparkSession, pipeline: ResolvedPipeline, wanted: Wanted, limit: int) -> Replayed:
    """Run letters that were not replayed through the declaration as it is now, and mark those it takes."""
    found = selected(spark, pipeline, wanted)
    return _Replay(spark, pipeline).run(found, limit)


class _Marking:
    """Changes letters that are there."""

    def __init__(self, spark: SparkSession, pipeline: ResolvedPipeline) -> None:
        self._spark = spark
        self._sink = dead_letter.as_sink(pipeline.sink)
        self.table: Table = tables.load(spark, table_of(pipeline))
        patience = Patience(pipeline.sink.retry_for)
        self._committer = Committer(self.table, replay_id(pipeline.sink_id), "main", patience)
        self._committer.fence(f"replays:{pipeline.sink_id}", {})

    def change(self, letters: DataFrame, operation: str) -> None:
        """Write `letters` in the place of those with the same ids, or delete those."""
        frame = dead_letter.as_changes(letters, operation)
        staged = Upsert(self._spark, self.table, self._sink).stage(frame, *dead_letter.UNCOUNTED)
        try:
            self._committer.commit(staged, {})
        finally:
            staged.release()

    def mark(self, ids: Collection[str]) -> None:
        """Mark the letters with `ids` as replayed, as far as they are not."""
        from pyspark.sql import functions as f

        letters = self._spark.table(self.table.name.sql())
        found = letters.where(f.col(LETTER_ID).isin(*ids) & f.col(REPLAYED).isNull())
        if ids and not found.isEmpty():
            self.change(found.withColumn(REPLAYED, f.current_timestamp()), changes.UPDATE)


class _Replay:
    """One replay of letters of a pipeline."""

    def __init__(self, spark: SparkSession, pipeline: ResolvedPipeline) -> None:
        if pipeline.sink.template is not None:
            raise ConfigurationError(
                f"Cannot replay dead letters of pipeline '{pipeline.name}': its rows go to several tables, "
                "for which that is not available yet"
            )
        self._spark = spark
        self._pipeline = pipeline
        patience = Patience(pipeline.sink.retry_for)
        self._runner = Runner(pipeline, spark, Stop(), Report(pipeline.name))
        self._letters = Letters(spark, pipeline.name, _boundless(pipeline.sink), pipeline.sink_id, patience)
        self._writer = Writer(spark, pipeline.sink, replay_id(pipeline.sink_id), patience)

    def run(self, found: DataFrame, limit: int) -> Replayed:
        ids = [row[LETTER_ID] for row in first(found, limit, [LETTER_ID])]
        if not ids:
            return Replayed()
        marking = _Marking(self._spark, self._pipeline)
        source = f"letters:{marking.table.metadata().uuid}"
        self._writer.find(source)
        self._runner.expect(self._writer)
        columns = self._runner.columns({}) if self._runner.is_said else self._columns(ids[:CHUNK])
        held = self._writer.open(source, NOBODY, columns, self._runner.is_said)
        done = set(held.position["letters"])
        marking.mark(done)
        told = Replayed()
        for begin in range(0, len(ids), CHUNK):
            chunk = [one for one in ids[begin : begin + CHUNK] if one not in done]
            taken = self._chunk(chunk, told) if chunk else []
            marking.mark(taken)
        return told

    def _columns(self, ids: list[str]) -> Schema:
        """The columns of some letters, where only they tell them."""
        bad = self._runner.catch(self._letters)
        return self._runner.columns_of(self._runner.again(self._with_ids(ids), bad))

    def _with_ids(self, ids: list[str]) -> DataFrame:
        from pyspark.sql import functions as f

        return self._spark.table(self._letters.name.sql()).where(f.col(LETTER_ID).isin(*ids))

    def _chunk(self, ids: list[str], told: Replayed) -> list[str]:
        """Commit the rows of some letters, and with them the ids of those that were taken."""
        letters = self._with_ids(ids)
        frame = self._runner.again(letters, self._runner.catch(self._letters))
        self._runner.fit(self._writer, frame)
        staged = self._writer.stage(frame, len(ids))
        seen = self._letters.told()
        if seen.records != len(ids):
            raise Unavailable(f"Cannot replay: of {len(ids)} letters {seen.records} are accounted for")
        refused = {letter.position: letter.reason for letter in seen.letters}
        told.refused.update(refused.values())
        rows = letters.select(LETTER_ID, "position").collect()
        taken = sorted(row[LETTER_ID] for row in rows if row["position"] not in refused)
        told.taken += len(taken)
        if taken:
            self._writer.commit(staged, {"letters": taken})
        return taken


def _boundless(sink: IcebergSink) -> IcebergSink:
    """The sink without limits for bad records: a letter that is refused once more stays where it is."""
    return sink.model_copy(update={"dead_letter": DeadLetter(table=sink.dead_letter_table())})
