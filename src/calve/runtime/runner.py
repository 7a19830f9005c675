"""The loop of a pipeline: what is there, is it due, run the batch, commit, tell the source."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from calve import changes, clock, crash, plans
from calve.errors import CalveError, DataRefused, StartRefused, Unfit
from calve.gateway import translated
from calve.iceberg.name import TableName
from calve.iceberg.stage import NOTHING, Staged
from calve.iceberg.table import Table
from calve.patience import Abandoned, Patience
from calve.position import Mark, Position
from calve.project import ResolvedPipeline
from calve.runtime.ahead import Ahead
from calve.runtime.due import POLL, Thresholds, is_due, pause
from calve.runtime.profile import OFF, Profile
from calve.runtime.report import Report
from calve.runtime.standby import Standby
from calve.runtime.stop import Stop
from calve.schema import Column, Primitive, Schema
from calve.sink import batch, refusals
from calve.sink.begun import Begun
from calve.sink.dead_letter import Letters
from calve.sink.prepare import columns_of
from calve.sink.routed import Routed, route_of, writer_of
from calve.sink.writer import Writer
from calve.sources.source import Limits, Waiting, with_changes
from calve.transforms.carry import Carried, Transformed, View, transformed
from calve.transforms.texts import with_valid_texts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from calve.decode.bad import Catch
    from calve.decode.undecoded import Undecoded

REFRESH = 3600.0
FIRST_LOOK = 100_000
"""How many rows decide which columns a new table has, where only rows tell: they are read twice."""


@dataclass(frozen=True)
class Reading:
    """The rows of a batch."""

    rows: Transformed
    source: DataFrame
    """As the source gives them."""
    undecoded: Undecoded | None = None
    """What they are made of, where nothing stands between it and the sink."""


class Runner:
    """One life of one pipeline."""

    def __init__(
        self,
        pipeline: ResolvedPipeline,
        spark: SparkSession,
        stop: Stop,
        report: Report,
        once: bool = False,
        declared: Collection[str] = (),
        profile: Profile = OFF,
        standby: float | None = None,
    ) -> None:
        """`standby` tells after how many seconds without a sign of life another process is taken for dead."""
        template = pipeline.sink.template
        streams = template is not None and template.is_by_stream
        self._source = pipeline.source.streamed() if streams else pipeline.source
        self._sink = pipeline.sink
        self._transforms = pipeline.transforms
        self._sink_id = pipeline.sink_id
        self._declaration = pipeline.fingerprint()
        self._spark = spark
        self._stop = stop
        self._report = report
        self._once = once
        self._declared = declared
        self._profile = profile
        takes_changes = self._sink.commit_mode == "upsert" or self._source.carries_changes
        self._takes_changes = takes_changes
        stream = (changes.STREAM,) if streams else ()
        names = (*changes.NAMES, *stream) if takes_changes else stream
        self._carried = Carried(names, self._view())
        self._limits = Limits(self._sink.max_batch_size)
        self._thresholds = Thresholds(
            self._sink.batch_size, self._sink.flush_interval_secs, self._sink.minimum_size
        )
        self._patience = Patience(self._sink.retry_for, report.notice, self._is_abandoned)
        self._standby = None if standby is None else Standby(spark, self._sink, self._sink_id, stop, standby)
        self._letters = self._opened_letters(pipeline.name)
        self.in_flight = False
        """Whether a batch is being read, staged or committed."""
        self.is_committing = False
        """Whether the batch in flight is staged and on its way into the table."""
        self._committed = self._taken = time.monotonic()
        """When the last commit was made, and when it was found to be due, by which the next is timed."""
        self._unwritten: Position | None = None
        """Up to where batches without rows have led, if the table does not know it yet."""
        self._fitted: Schema | None = None
        self._begun: Begun | None = None
        self._ahead: Ahead[tuple[Waiting, Begun]] = Ahead(spark)

    def _view(self) -> View | None:
        """What the table knows rows by, where it follows changes."""
        sink = self._sink
        if sink.commit_mode != "upsert":
            return None
        routing = tuple(name.split(".")[0] for name in sink.template.columns) if sink.template else ()
        known = {*sink.key_fields, *routing, changes.STREAM}
        before = (old for old, new in sink.renames.items() if new in known)
        also = (sink.order_by,) if sink.order_by else ()
        return View((*known, *before), also, self._source.carries_changes)

    def _opened_letters(self, name: str) -> Letters | None:
        if self._sink.dead_letter == "off" or not self._source.catches:
            return None
        return Letters(self._spark, name, self._sink, self._sink_id, self._patience)

    def run(self) -> None:
        """Run until the source has ended, the end is asked for or, with `once`, nothing is waiting."""
        with suppress(Abandoned), self._profile.watching(self._spark):
            names = (self._sink_id, self._patience, self._declared, self._declaration)
            writer = writer_of(self._spark, self._sink, *names, self._source.overlaps)
            self._report.update(table=writer.told)
            after = self._open(writer)
            if after is not None:
                self._profile.begin()
                try:
                    with self._beating(writer.name, lambda: writer.held):
                        self._run_batches(writer, after)
                finally:
                    self._ahead.close()

    def _beating(self, name: TableName, holds: Callable[[], Mark | None]) -> AbstractContextManager[None]:
        return nullcontext() if self._standby is None else self._standby.beating(name, holds)

    def _stand_by(self, name: TableName) -> None:
        """Wait while another process runs the pipeline, where this one is a standby."""
        if self._standby is not None:
            self._report.update(state="standby")
            self._standby.wait(name, self._patience)
            self._report.update(state="starting")

    def _run_batches(self, writer: Writer | Routed, after: Position) -> None:
        """Run batches, and in the end have the table remember what was read without a row to commit."""
        try:
            self._loop(writer, after)
        except DataRefused as error:
            if not isinstance(error, StartRefused):
                with suppress(CalveError):
                    self._write_position(writer)
            raise
        self._write_position(writer)

    def _write_position(self, writer: Writer | Routed) -> None:
        """Write the position behind batches that had nothing to commit, if it is not in the table yet."""
        if self._unwritten is not None:
            self.in_flight = self.is_committing = True
            position = writer.move(self._unwritten).position
            self._acknowledge(position)
            self._report.update(position=position)
            self._unwritten, self.in_flight, self.is_committing = None, False, False

    def _loop(self, writer: Writer | Routed, after: Position) -> None:
        if writer.owed is not None and not self._stop.is_requested():
            # What an earlier life began has its bounds from there; it may be any number of bytes.
            after = self._batch(writer, after, Waiting(writer.owed, 0, sys.maxsize, more=True))
        # A batch that is staged is committed; one that is only begun is given up.
        while self._ahead.is_done or not self._stop.is_requested():
            looked = time.monotonic()
            waiting = self._next(after)
            if self._begun or is_due(waiting, self._thresholds, looked - self._taken, at_once=self._once):
                self._taken = looked
                after = self._batch(writer, after, waiting)
                if self._is_last(waiting):
                    break
            elif waiting.rows == 0 and (self._once or waiting.ended):
                break
            else:
                left = self._taken + self._thresholds.seconds - time.monotonic()
                self._stop.wait(pause(waiting, left))
                self._profile.begin()

    def _next(self, after: Position) -> Waiting:
        """What is behind `after`; the batch may have been begun already."""
        found = self._ahead.take()
        if found is not None:
            waiting, self._begun = found
            return waiting
        crash.point("plan.before")
        waiting = self._waiting(after)
        crash.point("plan.after")
        return waiting

    def _begin_next(self, writer: Writer, view: Table, after: Position) -> tuple[Waiting, Begun] | None:
        """Plan what is behind `after`, and begin it for `view` where it is due and the table fits it."""
        crash.point("plan.before")
        waiting = self._look(after)
        crash.point("plan.after")
        if not is_due(waiting, self._thresholds, 0.0, at_once=self._once):
            return None
        reading = self._reading(after, waiting.to)
        crash.point("read.after")
        if not self._is_fitted(reading.rows):
            return None
        self._look_through(reading)
        frame = reading.rows.frame
        return waiting, writer.begin(frame, waiting.rows, waiting.bytes, reading.undecoded, view)

    def _start_next(self, writer: Writer | Routed, waiting: Waiting) -> None:
        """Begin the next batch, where there is one for sure and nothing speaks against it."""
        goes_on = waiting.more and not self._stop.is_requested()
        if isinstance(writer, Writer) and goes_on and self._is_fitted():
            self._ahead.start(partial(self._begin_next, writer, writer.view(), waiting.to))

    def _is_fitted(self, rows: Transformed | None = None) -> bool:
        """Whether the table has been made to fit the columns that the source says, or else the rows have."""
        said = self._source.columns()
        if said is None and rows is not None:
            said = self.columns_of(rows)
        return said is None or said == self._fitted

    def _open(self, writer: Writer | Routed) -> Position | None:
        """Find out where to begin and take the epoch; None if there is nothing to do."""
        self._stand_by(writer.name)
        identity = self._patience.keep_trying(self._source.identity)
        mark = self._patience.keep_trying(lambda: writer.find(identity))
        if mark is None:
            self.check_same_table(writer)
        start = mark.position if mark else self._patience.keep_trying(self._source.start)
        is_to_be_kept = mark is None and self._source.start_moves
        if writer.owed is None and not is_to_be_kept and not self._is_worth_opening(start):
            return None
        self.expect(writer)
        columns = self._patience.keep_trying(lambda: self._first_columns(writer, start))
        held = writer.open(identity, start, columns, self.is_said)
        self._fitted = self._source.columns() or columns
        self.expect(writer)
        if self._letters:
            self._letters.open(identity, held.position, held.epoch, writer.check_still_held)
        self._report.update(state="running", epoch=held.epoch, position=held.position)
        self._report.remember(self._place(writer), str(writer.uuid))
        return held.position

    def _first_columns(self, writer: Writer | Routed, start: Position) -> Schema:
        """The columns of what comes behind `start`; where nothing is there yet, of what came before it.

        A place such as the end of a topic has to be remembered by a table, and a table needs columns.
        """
        found = self.columns(start, self._looked_at(writer, start))
        if found.columns or isinstance(writer, Routed) or writer.uuid is not None:
            return found
        before = self._source.before(start, FIRST_LOOK)
        if before is not None:
            found = self.columns(before, start)
        if not found.columns:
            raise refusals.nothing_to_remember(writer.name, self._source.start_key)
        return found

    def _looked_at(self, writer: Writer | Routed, start: Position) -> Position | None:
        """Up to where rows decide which columns a new table has, if only they tell; None: a whole batch."""
        if writer.owed is not None or writer.uuid is not None or self._source.columns() is not None:
            return writer.owed
        return self._source.latest(start, Limits(min(FIRST_LOOK, self._sink.max_batch_size))).to

    def check_same_table(self, writer: Writer | Routed) -> None:
        """Refuse a table without a mark where an earlier run has written to another one of that name."""
        known = self._report.status.uuids.get(self._place(writer), writer.uuid)
        if writer.uuid is not None and known != writer.uuid:
            raise refusals.other_table(writer.name, self._sink_id)

    def _place(self, writer: Writer | Routed) -> str:
        return f"{writer.name} in {self._sink.catalog.description()}"

    def _is_worth_opening(self, start: Position) -> bool:
        """Whether there are rows; a source whose columns only its rows tell is waited for."""
        if self._once:
            return self._waiting(start).rows > 0
        while self._source.columns() is None and self._waiting(start).rows == 0:
            if self._stop.wait(POLL):
                return False
        return True

    @property
    def is_said(self) -> bool:
        """Whether the source says what its columns are, and not only the rows that are there."""
        return self._source.says_columns

    def columns(self, start: Position, to: Position | None = None, *, closely: bool = False) -> Schema:
        """The columns of the values that reach the sink; where only rows tell them, those up to `to`.

        `closely`: what these rows have, even if the table is known.
        """
        said = self._source.columns()
        if said is not None:
            return self._said(said)
        to = to or self._source.latest(start, self._limits).to
        if to == start and not self.is_said:
            return Schema(())
        if closely:
            self._source.look_closely(start, to)
        return self.columns_of(self._reading(start, to).rows)

    def _said(self, columns: Schema) -> Schema:
        if not self._transforms:
            return columns
        return self.columns_of(self._transformed(self._no_rows(columns)))

    def columns_of(self, rows: Transformed) -> Schema:
        """The columns of the values of `rows`."""
        found = columns_of(rows.plain).columns
        return Schema(tuple(column for column in found if column.name not in self._carried.names))

    def _no_rows(self, declared: Schema) -> DataFrame:
        """A batch without rows, NOT NULL where the table is: with changes, rows that are gone hold NULLs."""
        from pyspark.sql.types import StructType

        columns = with_changes(declared, carried=False) if self._takes_changes else declared
        if changes.STREAM in self._carried.names:
            columns = Schema((*columns.columns, Column(changes.STREAM, Primitive("string"), nullable=False)))
        return self._spark.createDataFrame([], StructType.fromJson(columns.to_spark_json()))

    def _waiting(self, after: Position) -> Waiting:
        return self._patience.keep_trying(lambda: self._look(after))

    @clock.timed("plan")
    def _look(self, after: Position) -> Waiting:
        waiting = self._source.latest(after, self._limits)
        self._report.wait_for(waiting.rows)
        return waiting

    def _is_abandoned(self) -> bool:
        """Whether a wait is given up: what only waits to be read is read again by the next run."""
        return self._stop.is_requested() and not self.is_committing

    def _is_last(self, waiting: Waiting) -> bool:
        return waiting.ended or (self._once and not waiting.more)

    def _batch(self, writer: Writer | Routed, after: Position, waiting: Waiting) -> Position:
        """Run one batch; returns the position behind it."""
        begun = time.monotonic()
        self.in_flight = True
        staged, letters = self._patience.keep_trying(lambda: self._stage(writer, after, waiting))
        fresh = begun - self._committed < REFRESH and not waiting.keep
        if staged.is_empty and letters.is_empty and fresh:
            staged.release()
            self.in_flight = False
            self._unwritten = waiting.to
            self._profile.begin()
            return waiting.to
        written = time.monotonic()
        self.is_committing = True
        self._commit(writer, staged, letters, after, waiting.to)
        self._committed, self._unwritten = time.monotonic(), None
        self._acknowledge(waiting.to)
        self._report.add(
            rows=staged.rows,
            dropped=staged.dropped,
            dead_letters=letters.rows,
            bytes=staged.bytes,
            batches=1,
            files=len(staged.files),
            stage_seconds=written - begun,
            commit_seconds=self._committed - written,
            **staged.counts,
        )
        self._profile.writer = writer.made_by
        moved = {"position": waiting.to, "last_commit": time.time(), "waiting": 0}
        self._report.update(**moved, retries=self._patience.retries, **self._profile.told(staged.rows))
        self.in_flight = self.is_committing = False
        crash.point("batch.end")
        return waiting.to

    @clock.timed("commit")
    def _commit(
        self, writer: Writer | Routed, staged: Staged, letters: Staged, after: Position, to: Position
    ) -> None:
        if self._letters:
            self._letters.commit(letters, after, to)
        writer.commit(staged, to)

    def _stage(self, writer: Writer | Routed, after: Position, waiting: Waiting) -> tuple[Staged, Staged]:
        """The rows of a batch and its dead letters, as files that no snapshot has yet."""
        try:
            return self._stage_once(writer, after, waiting)
        except Unfit:
            self._source.look_closely(after, waiting.to)
            return self._stage_once(writer, after, waiting)

    @translated("run the batch")
    def _stage_once(
        self, writer: Writer | Routed, after: Position, waiting: Waiting
    ) -> tuple[Staged, Staged]:
        begun, self._begun = self._begun, None
        if begun is None:
            # After a failure: what was begun of the next batch would meet the bad records of this one.
            self._ahead.take()
            begun = self._begin(writer, after, waiting)
        if not begun.is_read:
            return begun.finish(), self._stage_letters(after, waiting.to)
        letters = self._stage_letters(after, waiting.to)
        self._start_next(writer, waiting)
        return begun.finish(), letters

    def _begin(self, writer: Writer | Routed, after: Position, waiting: Waiting) -> Begun:
        reading = self._reading(after, waiting.to)
        crash.point("read.after")
        self.fit(writer, reading.rows)
        self._look_through(reading)
        frame, undecoded = reading.rows.frame, reading.undecoded
        if isinstance(writer, Routed):
            return Begun(lambda: writer.stage(frame, waiting.rows, waiting.bytes), is_read=False)
        return writer.begin(frame, waiting.rows, waiting.bytes, undecoded)

    @clock.timed("letters")
    def _stage_letters(self, after: Position, to: Position) -> Staged:
        if self._letters is None:
            return NOTHING
        read = partial(self._source.read_bad, self._spark, after, to, as_changes=self._takes_changes)
        staged = self._letters.stage(after, to, read, partial(self._source.is_inside, after, to))
        if staged.rows:
            self._report.notice(f"{staged.rows:,} bad records go to table '{self._letters.name}'")
        return staged

    @clock.timed("evolve")
    def fit(self, writer: Writer | Routed, rows: Transformed) -> None:
        """Have the table fit the batch; where the source says its columns, what it says counts."""
        said = self._source.columns()
        columns = self.columns_of(rows) if said is None else said
        if columns != self._fitted:
            writer.fit(columns if said is None else self._said(said), self.is_said)
            self._fitted = columns
            self.expect(writer)

    def expect(self, writer: Writer | Routed) -> None:
        """Tell a source that infers what the table has, where its rows reach the table as they are."""
        there = None if self.is_said or self._transforms else writer.columns
        if there is not None:
            own = changes.KEPT.names if self._sink.change_columns else ()
            values = (column for column in there.columns if column.name not in own)
            # Of several tables each has the columns of its rows; a strict one refuses rows that lack some.
            whole = isinstance(writer, Writer) and self._sink.schema_evolution != "strict"
            redirects = self._sink.schema_evolution == "full" and self._sink.type_change != "refuse"
            self._source.expect(Schema(tuple(values)), whole=whole, redirects=redirects)

    def _reading(self, after: Position, to: Position) -> Reading:
        """The rows that reach the sink, and what they are made of."""
        bad = self.catch(self._letters) if self._letters else None
        place = (self._spark, after, to)
        undecoded = self._source.undecoded(*place, bad, as_changes=self._takes_changes)
        if undecoded is not None:
            frame = undecoded.rows()
        elif bad is not None:
            frame = self._source.read_good(*place, bad, as_changes=self._takes_changes)
        else:
            frame = (self._source.read_changes if self._takes_changes else self._source.read)(*place)
        return Reading(self._transformed(frame), frame, None if self._transforms else undecoded)

    def _look_through(self, reading: Reading) -> None:
        """Have the records of a batch looked at for bad ones, where the transforms leave none of them."""
        if self._letters and self._transforms and plans.is_empty(reading.rows.frame):
            with translated("read the batch"):
                reading.source.write.format("noop").mode("overwrite").save()

    def catch(self, letters: Letters) -> Catch:
        """What a reading is given; what transforms make of rows is not looked at where they are decoded."""
        if self._transforms:
            return letters.catch()
        return letters.catch(self._sink.key_fields, route_of(self._sink))

    def again(self, letters: DataFrame, bad: Catch) -> Transformed:
        """The rows of dead letters, on the way that those of every batch take."""
        read = self._source.read_again(self._spark, letters, bad, as_changes=self._takes_changes)
        return self._transformed(read)

    @clock.timed("transform")
    def _transformed(self, frame: DataFrame) -> Transformed:
        made = transformed(self._transforms, frame, self._carried)
        if not self._transforms:
            return made
        return replace(made, frame=batch.readable(with_valid_texts(made.frame)))

    @clock.timed("after")
    def _acknowledge(self, position: Position) -> None:
        crash.point("acknowledge.before")
        self._patience.keep_trying(lambda: self._source.acknowledge(position))
        crash.point("acknowledge.after")
