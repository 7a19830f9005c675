"""Dead letters of a pipeline, looked at, run through the present declaration again, and taken away.

A replay commits the rows of letters together with the ids of those letters, as the position of a mark of its
own in the table of the rows; then it marks the letters. What was cut off between the two is found there.
Where rows go to several tables, replays have a list of them for themselves, and go by the same protocol.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any

from calve import changes, gateway
from calve.errors import ConfigurationError, DataRefused, StartRefused, Unavailable, UsageError
from calve.iceberg.name import TableName
from calve.iceberg.table import Table
from calve.patience import Patience
from calve.position import Mark, Position
from calve.project import ResolvedPipeline
from calve.runtime import tables
from calve.runtime.report import Report
from calve.runtime.runner import Runner
from calve.runtime.stop import Stop
from calve.schema import Schema
from calve.sink import dead_letter, routes
from calve.sink.commit import Committer
from calve.sink.dead_letter import LETTER_ID, RECORDED, REPLAYED, Letters
from calve.sink.declaration import DeadLetter, IcebergSink
from calve.sink.routed import Routed, writer_of
from calve.sink.upsert import Upsert

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
    """Who replays the letters of `sink_id`."""
    return sink_id + routes.REPLAY


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
    if wanted.replayed is not True:
        _Replay(spark, pipeline).refuse_owed()
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

    def __init__(self, spark: SparkSession, pipeline: ResolvedPipeline, main: int | None = None) -> None:
        """`main` is the epoch of replays in the table of the rows, which the letters' own belongs to."""
        self._spark = spark
        self._sink = dead_letter.as_sink(pipeline.sink)
        self.table: Table = tables.load(spark, table_of(pipeline))
        patience = Patience(pipeline.sink.retry_for)
        self._committer = Committer(self.table, replay_id(pipeline.sink_id), "main", patience, main=main)
        self._committer.fence(f"replays:{pipeline.sink_id}", {})

    def change(self, letters: DataFrame, operation: str) -> None:
        """Write `letters` in the place of those with the same ids, or delete those."""
        frame = dead_letter.as_changes(letters, operation)
        staged = Upsert(self._spark, self.table, self._sink).stage(frame, *dead_letter.UNCOUNTED)
        try:
            self._committer.commit(staged, {})
        finally:
            staged.release()

    def replayed(self, ids: Collection[str]) -> set[str]:
        """Those of the letters with `ids` that were replayed."""
        from pyspark.sql import functions as f

        letters = self._spark.table(self.table.name.sql())
        found = letters.where(f.col(LETTER_ID).isin(*ids) & f.col(REPLAYED).isNotNull())
        with gateway.translated("read dead letters"):
            return {row[0] for row in found.select(LETTER_ID).collect()}

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
        self._spark = spark
        self._pipeline = pipeline
        patience = Patience(pipeline.sink.retry_for)
        self._runner = Runner(pipeline, spark, Stop(), Report(pipeline.name))
        names = (pipeline.name, _boundless(pipeline.sink), pipeline.sink_id)
        self._letters = Letters(spark, *names, patience, bare=True)
        who = replay_id(pipeline.sink_id)
        self._writer = writer_of(spark, pipeline.sink, who, patience, (), pipeline.fingerprint())

    def refuse_owed(self) -> None:
        """Refuse to go on where a replay was cut off between two tables: its letters are needed."""
        if isinstance(self._writer, Routed):
            with _undecided():
                self._writer.find(_source(tables.load(self._spark, self._letters.name)))
        if self._writer.owed is not None:
            raise DataRefused(
                f"Cannot purge dead letters of pipeline '{self._pipeline.name}': a replay was cut off "
                "between two of its tables; finish it with: calve dead-letter replay --yes"
            )

    def run(self, found: DataFrame, limit: int) -> Replayed:
        wanted = chunks(first(found, limit, [LETTER_ID, "source"]))
        if not wanted:
            return Replayed()
        held = self._open(_source(tables.load(self._spark, self._letters.name)), wanted[0])
        marking = _Marking(self._spark, self._pipeline, held.epoch)
        done = set(held.position["letters"])
        marking.mark(done)
        # Another replay may have taken some between the choice of letters and the epoch.
        done |= marking.replayed([one for ids in wanted for one in ids])
        told = Replayed()
        if self._writer.owed is not None:
            finished = self._finish(self._writer.owed["letters"], told)
            marking.mark(finished)
            done |= set(finished)
        for ids in wanted:
            chunk = [one for one in ids if one not in done]
            taken = self._chunk(chunk, told) if chunk else []
            marking.mark(taken)
        return told

    def _open(self, source: str, some: list[str]) -> Mark:
        """Take the epoch of replays; the mark names the letters that the last one of them has taken."""
        with _undecided():
            self._writer.find(source)
            self._runner.expect(self._writer)
            columns = self._runner.columns({}) if self._runner.is_said else self._columns(some)
            return self._writer.open(source, NOBODY, columns, self._runner.is_said)

    def _finish(self, ids: list[str], told: Replayed) -> list[str]:
        """Commit letters that a replay before had taken, to the tables that it did not get to."""
        again = Replayed()
        taken = self._chunk(ids, again)
        if sorted(taken) != sorted(ids):
            raise DataRefused(
                f"Cannot finish the replay that was cut off: of its {len(ids)} letters {len(taken)} are "
                "taken now; replay once with the declaration as it was"
            )
        told.taken += again.taken
        return taken

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
        rows = self._runner.again(letters, self._runner.catch(self._letters))
        self._runner.fit(self._writer, rows)
        staged = self._writer.stage(rows.frame, len(ids))
        try:
            taken = self._taken(letters, ids, told)
        except BaseException:
            staged.release()
            raise
        if taken:
            self._writer.commit(staged, {"letters": taken})
        else:
            staged.release()
        return taken

    def _taken(self, letters: DataFrame, ids: list[str], told: Replayed) -> list[str]:
        """Which of the letters that were read again are not refused once more."""
        seen = self._letters.told()
        if seen.records != len(ids):
            raise Unavailable(f"Cannot replay: of {len(ids)} letters {seen.records} are accounted for")
        if not seen.is_whole:
            raise Unavailable(
                f"Cannot replay: of {seen.bad} letters that are refused {len(seen.letters)} are told"
            )
        refused = {letter.position: letter.reason for letter in seen.letters}
        told.refused.update(refused.values())
        rows = letters.select(LETTER_ID, "position").collect()
        taken = sorted(row[LETTER_ID] for row in rows if row["position"] not in refused)
        told.taken += len(taken)
        return taken


@contextmanager
def _undecided() -> Iterator[None]:
    """Where a start is refused, name no command: what decides for a pipeline does not for its replays."""
    try:
        yield
    except StartRefused as error:
        raise DataRefused(str(error.args[0])) from error


def chunks(letters: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """The ids of letters in the order of `letters`, as many together as one commit takes.

    Those of one chunk are of one source, in which a position names one record.
    """
    by_source: dict[str, list[str]] = {}
    for one in letters:
        by_source.setdefault(one["source"], []).append(one[LETTER_ID])
    return [ids[at : at + CHUNK] for ids in by_source.values() for at in range(0, len(ids), CHUNK)]


def _source(letters: Table) -> str:
    """What the mark of a replay names as its source."""
    return f"letters:{letters.metadata().uuid}"


def _boundless(sink: IcebergSink) -> IcebergSink:
    """The sink without limits for bad records: a letter that is refused once more stays where it is."""
    return sink.model_copy(update={"dead_letter": DeadLetter(table=sink.dead_letter_table())})
