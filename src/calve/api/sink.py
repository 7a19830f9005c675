"""An Iceberg table as a sink for programs, with the writer that pipelines have."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal

from pydantic import TypeAdapter, ValidationError

from calve import changes, gateway, position
from calve.api import declared, session, writes
from calve.api.frames import frame_of
from calve.api.source import Batch, IcebergSource
from calve.api.writes import Step, WriteId, Written
from calve.changes import Operations
from calve.errors import ConfigurationError, StartRefused, UsageError
from calve.iceberg.catalog import Catalog
from calve.iceberg.stage import NOTHING, Staged
from calve.model import Duration, Flaw
from calve.patience import Patience
from calve.position import Position
from calve.schema import Schema
from calve.sink import batch as batches
from calve.sink import numbered, prepare
from calve.sink.commit import Committer
from calve.sink.declaration import IcebergSink as Declaration
from calve.sink.streamed import Batch as Numbered
from calve.sink.streamed import Streamed, columns_of
from calve.sink.writer import Writer
from calve.sources.operation import Operation
from calve.transforms.texts import with_valid_texts

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


class Unsaid(Enum):
    """What stands for an argument that was not given."""

    UNSAID = 0


UNSAID = Unsaid.UNSAID

_OF_PIPELINES = ("batch_size", "flush_interval_secs", "minimum_size", "max_batch_size", "dead_letter")


@dataclass(frozen=True)
class SinkStatus:
    """What a sink has done, and what it holds."""

    state: Literal["new", "open", "failed", "stopped"]
    table: str
    epoch: int = 0
    rows: int = 0
    """Rows that this sink has committed."""
    commits: int = 0
    skipped: int = 0
    """Writes that the table had already."""
    pending_writes: int = 0
    """Writes whose files are written and in no snapshot yet."""
    pending_rows: int = 0
    last_commit: float | None = None
    """When, as `time.time()` counts it."""


class IcebergSink:
    """An Iceberg table that a program writes to, exactly once.

    The keys are those of a sink of `connector: iceberg`, such as `catalog`, `namespace`, `table`,
    `commit_mode` and `key_fields`; `sink_id` is needed, because no pipeline gives it its name.
    `checkpoint_interval` is how long rows may be held back before `write` commits them, in seconds or as in
    `5m`; 0 commits each write.

    `operation` names the column of an upsert's rows that says what each of them does, or is a mapping with
    the keys of a source's `operation`; the column does not become one of the table. Without it every row is
    an upsert.

    A write with an `id` is in the table once, however often the program is run: what was committed is known
    by the table itself, in the mark that pipelines have as well, and is not written again. A second program
    with the same `sink_id` takes the sink over; this one is then refused with `Fenced`.

    >>> sink = calve.IcebergSink(
    ...     sink_id="loader", catalog=memory, namespace="shop", table="loaded", checkpoint_interval=0
    ... )
    >>> sink.write(spark.range(3), id="monday")
    True
    >>> sink.write(spark.range(3), id="monday")
    False
    >>> sink.stop().rows
    3
    """

    def __init__(
        self,
        *,
        checkpoint_interval: float | str = 60,
        operation: str | Mapping[str, Any] | Unsaid | None = UNSAID,
        clock: Callable[[], float] = time.monotonic,
        **keys: Any,
    ) -> None:
        declared.refuse_pending("sink", keys, "IcebergSink")
        self.declaration = declared.built(Declaration, keys, "IcebergSink")
        self._interval = _seconds(checkpoint_interval)
        self._guards_operation = operation is UNSAID
        self._operations = _operations(None if isinstance(operation, Unsaid) else operation, self.declaration)
        if flaws := _flaws(self.declaration):
            raise declared.refused(flaws, "IcebergSink")
        self._sink_id = str(self.declaration.sink_id)
        self._source = f"program:{self._sink_id}"
        self._patience = Patience(self.declaration.retry_for)
        self._clock = clock
        self._lock = threading.RLock()
        self._writer: Writer | None = None
        self._pending = Pending()
        self._flushed = clock()
        self._status = SinkStatus("new", str(prepare.table_name(self.declaration)))

    def write(self, rows: DataFrame | Batch | pa.Table, id: WriteId = None) -> bool:
        """Write rows to files, and commit if `checkpoint_interval` has passed; False if the table has them.

        `id` names the write. Text is remembered for the last 1,000 writes. A number must grow from write to
        write, and then none is ever forgotten. Without one, each call is a write of its own: what is tried
        again inside is written once, a program that is run again writes again. A batch of
        `IcebergSource.stream` is known by its source and its place there.

        Rows that are not committed yet when the program ends are not in the table, nor is their id.
        """
        with self._at_work():
            given, name = self._taken(rows, id)
            self._session(given.frame.sparkSession)
            writer = self._writer or self._made(given.frame.sparkSession)
            if self._has(writer, name):
                self._status = replace(self._status, skipped=self._status.skipped + 1)
                return False
            if not self._may_wait():
                self._flush()
            self._stage(writer, self._as_changes(given, writer), name)
            if self._is_due():
                self._flush()
            return True

    def batch(self, frame: DataFrame, number: int) -> None:
        """Commit a batch of a stream: what `foreachBatch` of Structured Streaming is given.

        The mark has the id of the stream's checkpoint and the number of the batch; a batch that comes again
        is not written again, and another checkpoint, or an older one, is refused.

        >>> query = (
        ...     spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
        ...     .writeStream.option("checkpointLocation", checkpoint).foreachBatch(sink.batch).start()
        ... )  # doctest: +SKIP
        """
        with self._at_work():
            self._flush()
            checkpoint = gateway.checkpoint_id(frame)
            if checkpoint is None:
                why = "it is not called by Spark; use it as in writeStream.foreachBatch(sink.batch)"
                raise UsageError(f"Cannot tell the checkpoint of a stream: {why}")
            self._session(frame.sparkSession)
            self._guard(frame, self._writer or self._made(frame.sparkSession))
            streamed = Streamed(self._made, self._source, self._patience, self._operations)
            streamed.writer = self._writer
            staged = streamed.take(Numbered(frame, checkpoint, number))
            self._writer = streamed.writer
            self._count(staged)

    def flush(self) -> SinkStatus:
        """Commit what was written and is not committed yet, in one snapshot."""
        with self._at_work():
            self._flush()
        return self._status

    def status(self) -> SinkStatus:
        """What the sink has done, and what it holds; reaches nothing."""
        with self._lock:
            return self._status

    def stop(self) -> SinkStatus:
        """Commit what is left and end; writing afterwards is refused."""
        with self._lock:
            if self._status.state not in ("failed", "stopped"):
                self.flush()
                self._status = replace(self._status, state="stopped")
            return self._status

    def position(self, source: IcebergSource, spark: SparkSession | None = None) -> Position | None:
        """How far the table has the rows of `source`; None where it has none of them."""
        with self._at_work():
            writer = self._writer or self._made(spark)
            held = writer.committer.held if self._writer else writer.find(self._source)
            found: Position = {} if held is None else held.position
            return writes.of(found).sources.get(source.identity)

    def forget(self, spark: SparkSession | None = None) -> None:
        """Forget which writes the table has: the next one is taken, whatever its id or its checkpoint.

        This is the decision that a refusal asks for, as where a checkpoint was lost: rows that are written
        again are in the table again.
        """
        with self._at_work():
            if self._writer is not None:
                raise UsageError("Cannot forget the writes of a sink at work; do it before the first one")
            self._forget(self._session(spark))

    def __enter__(self) -> IcebergSink:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        """Stop; where the program failed, what is not committed is left for its next run."""
        if kind is None:
            self.stop()
        else:
            self._release()
            self._status = replace(self._status, state="failed")

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        with self._lock:
            if self._status.state in ("failed", "stopped"):
                ended = f"Cannot use the sink '{self._sink_id}' of table '{self._status.table}'"
                raise UsageError(f"{ended}: it has {self._status.state}; make another one")
            try:
                yield
            except StartRefused as error:
                error.call = "IcebergSink.forget()"
                raise
            except Exception as error:
                if not isinstance(error, UsageError):
                    self._release()
                    self._status = replace(self._status, state="failed")
                raise

    def _taken(self, rows: DataFrame | Batch | pa.Table, id: WriteId) -> tuple[Rows, WriteId | Step]:
        if isinstance(rows, Batch):
            if id is not None:
                raise UsageError("Cannot name a batch of a source: it is known by its place")
            if rows.changes is None:
                return Rows(rows.frame, columns_of(rows.frame)), rows.step
            names = changes.NAMES
            return Rows(rows.changes, columns_of(rows.changes.drop(*names)), are_changes=True), rows.step
        name = writes.checked(id)
        given: Any = rows
        is_frame = hasattr(rows, "sparkSession")
        frame = with_valid_texts(given) if is_frame else frame_of(self._session(None), given)
        return Rows(frame, columns_of(frame, self._operations)), name

    def _as_changes(self, given: Rows, writer: Writer) -> Rows:
        """The same rows as the sink's table wants them."""
        if given.are_changes or self.declaration.commit_mode != "upsert":
            return given
        self._guard(given.frame, writer)
        return replace(given, frame=batches.with_changes(given.frame, self._operations), are_changes=True)

    def _guard(self, frame: DataFrame, writer: Writer) -> None:
        """Refuse rows of an upsert that look as if they said what they do, where nobody says so.

        In 0.1.0 a column of this name did so by itself.
        """
        named = changes.KEPT.names[0]
        if not self._guards_operation or self.declaration.commit_mode != "upsert":
            return
        if named in frame.columns and not (writer.columns and writer.columns.column(named)):
            raise ConfigurationError(
                f"Cannot write to table '{self._status.table}': the rows have a column '{named}'; give the "
                f"sink operation='{named}' if it says what each row does, or operation=None if it is data"
            )

    def _has(self, writer: Writer, name: WriteId | Step) -> bool:
        """Whether the table has this write already; then nothing is written at all."""
        if self._writer is not None:
            return self._known(writer).has(name)
        mark = self._patience.keep_trying(lambda: writer.find(self._source))
        return mark is not None and writes.of(mark.position).has(name)

    def _open(self, writer: Writer, columns: Schema) -> None:
        """Take the epoch, and create the table if it is not there."""
        held = writer.open(self._source, {}, columns)
        self._writer = writer
        self._status = replace(self._status, state="open", epoch=held.epoch)

    def _made(self, spark: SparkSession | None) -> Writer:
        return Writer(self._session(spark), self.declaration, self._sink_id, self._patience, (self._sink_id,))

    def _session(self, spark: SparkSession | None) -> SparkSession:
        return session.of(spark, [self.declaration.catalog])

    def _known(self, writer: Writer) -> Written:
        return self._pending.written or writes.of(_held(writer))

    def _may_wait(self) -> bool:
        """Whether more can be staged before a commit; what replaces rows has to see those of before."""
        return not self._pending.staged or self.declaration.commit_mode == "append"

    def _stage(self, writer: Writer, given: Rows, name: WriteId | Step) -> None:
        frame = batches.readable(given.frame).persist()
        try:
            staged = self._staged(writer, frame, given.columns)
        except BaseException:
            frame.unpersist()
            raise
        self._pending = self._pending.with_(staged, frame, self._known(writer).with_(name))
        self._tell_pending()

    def _staged(self, writer: Writer, frame: DataFrame, columns: Schema) -> Staged:
        with gateway.translated("compute the rows of a write"):
            rows = frame.count()
        # Rows that cannot be computed leave no table behind.
        if self._writer is None:
            self._open(writer, columns)
        writer.fit(columns)
        if rows == 0:
            return NOTHING
        size = gateway.cached_bytes(frame)
        return self._patience.keep_trying(lambda: writer.stage(frame, rows, size))

    def _is_due(self) -> bool:
        return self._clock() - self._flushed >= self._interval

    def _flush(self) -> None:
        pending, self._pending = self._pending, Pending()
        self._flushed = self._clock()
        if self._writer is None or pending.written is None:
            return
        staged = pending.together()
        try:
            self._writer.commit(staged, pending.written.onto(_held(self._writer)))
        finally:
            pending.release()
        self._count(staged)

    def _count(self, staged: Staged | None) -> None:
        if staged is not None:
            rows, commits = self._status.rows + staged.rows, self._status.commits + 1
            self._status = replace(self._status, rows=rows, commits=commits, last_commit=time.time())
        if self._writer is not None and self._writer.committer.held is not None:
            self._status = replace(self._status, state="open", epoch=self._writer.committer.held.epoch)
        self._tell_pending()

    def _tell_pending(self) -> None:
        held = self._pending.staged
        rows = sum(one.rows for one in held)
        self._status = replace(self._status, pending_writes=len(held), pending_rows=rows)

    def _release(self) -> None:
        self._pending.release()
        self._pending = Pending()
        self._tell_pending()

    def _forget(self, spark: SparkSession) -> None:
        sink = self.declaration
        table = Catalog(spark, sink.catalog.spark_name()).load(prepare.table_name(sink))
        name = position.property_name(self._sink_id, sink.branch)
        committer = Committer(table, self._sink_id, sink.branch, self._patience, sink.snapshot_properties)
        try:
            shown = table.metadata().mark(name)
        except ValueError:
            shown = None
        committer.decide_start(self._source, numbered.UNKNOWN, "forgot which writes it has", shown)


@dataclass(frozen=True)
class Rows:
    """The rows of a write."""

    frame: DataFrame
    columns: Schema
    """The columns of their values."""
    are_changes: bool = False
    """Whether `frame` has the columns of changes besides."""


@dataclass(frozen=True)
class Pending:
    """Files that are written and in no snapshot yet, and what the table has when they are."""

    staged: tuple[Staged, ...] = ()
    frames: tuple[DataFrame, ...] = ()
    """The rows themselves, which may be looked at again when the table has moved on."""
    written: Written | None = None

    def with_(self, staged: Staged, frame: DataFrame, written: Written) -> Pending:
        return Pending((*self.staged, staged), (*self.frames, frame), written)

    def release(self) -> None:
        """Nothing of this will be asked for again."""
        for staged in self.staged:
            staged.release()
        for frame in self.frames:
            frame.unpersist()

    def together(self) -> Staged:
        """All of it as one commit."""
        if len(self.staged) == 1:
            return self.staged[0]
        return _together(self.staged)


def _together(staged: tuple[Staged, ...]) -> Staged:
    return Staged(
        tuple(file for one in staged for file in one.files),
        sum(one.rows for one in staged),
        sum(one.bytes for one in staged),
        sum(one.dropped for one in staged),
        # Of writes that found different tables, the first is no longer good for the last one's.
        made_for=next((one.made_for for one in staged if one.made_for), None),
        anew=lambda: _together(tuple(one.anew() if one.anew else one for one in staged)),
    )


def _held(writer: Writer) -> Position:
    held = writer.committer.held
    assert held is not None, "the table is not open"
    return held.position


def _operations(given: Any, sink: Declaration) -> Operations | None:
    """The column that says what rows do, as `operation` names it."""
    if given is None:
        return None
    keys = {"field": given} if isinstance(given, str) else given
    if not isinstance(keys, Mapping):
        why = "name a column, or give a mapping with 'field' and the words"
        raise declared.refused([Flaw(("operation",), why)], "IcebergSink")
    made = declared.built(Operation, keys, "IcebergSink: operation")
    if sink.commit_mode != "upsert":
        raise declared.refused(
            [Flaw(("operation",), "has no effect without commit_mode: upsert")], "IcebergSink"
        )
    return Operations(made.field, made.codes())


def _seconds(value: float | str) -> float:
    try:
        seconds: float = TypeAdapter(Duration).validate_python(value)
    except ValidationError:
        why = "not a duration; write a number of seconds, or one with a unit such as 5m"
        raise declared.refused([Flaw(("checkpoint_interval",), why)], "IcebergSink") from None
    return seconds


def _flaws(sink: Declaration) -> list[Flaw]:
    """What a sink of a pipeline may be, and one of a program may not."""
    given = [key for key in _OF_PIPELINES if key in sink.model_fields_set]
    found = [Flaw((key,), "has no effect: it belongs to pipelines") for key in given]
    if sink.sink_id is None:
        found.append(Flaw(("sink_id",), "required key is missing: it is who writes, in the table's mark"))
    if sink.template is not None:
        found.append(Flaw(("table",), "a program's rows go to one table; name it without columns"))
    if sink.change_columns:
        found.append(Flaw(("change_columns",), "has no effect: it belongs to pipelines"))
    return found
