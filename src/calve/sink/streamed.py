"""A sink that Structured Streaming hands its batches to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from calve import crash, gateway
from calve.iceberg.stage import Staged
from calve.patience import Patience
from calve.position import Mark, Position
from calve.schema import Schema
from calve.sink import batch, numbered, prepare, refusals
from calve.sink.numbered import Place
from calve.sink.writer import Writer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Batch:
    """One batch of a stream: its rows, the checkpoint that numbers it, and its number."""

    frame: DataFrame
    checkpoint: str
    number: int


class Streamed:
    """One life of a sink whose batches come with a number.

    The function of `foreachBatch` may be called again with a batch that is in the table, and then nothing is
    written. What Spark calls committed is in the table already, because a batch is committed to the table
    before Spark notes in its checkpoint that it is done.
    """

    def __init__(self, make: Callable[[SparkSession], Writer], source: str, patience: Patience) -> None:
        """`make` gives the writer for the session that batches belong to; `source` is what the mark names."""
        self._make = make
        self._source = source
        self._patience = patience
        self.writer: Writer | None = None

    def take(self, batch_: Batch) -> Staged | None:
        """Have the rows of a batch in the table; None where it has them, or where there are none."""
        writer = self.writer or self._open(batch_)
        if self._place(writer, batch_, self._position(writer)) is Place.REPEATED:
            _run(batch_.frame)
            return None
        frame = batch.with_changes(batch_.frame) if self._is_keyed(writer) else batch_.frame
        # A batch is computed anew by each action, its state included.
        frame = frame.persist()
        try:
            return self._committed(writer, frame, batch_)
        finally:
            frame.unpersist()

    def _committed(self, writer: Writer, frame: DataFrame, batch_: Batch) -> Staged | None:
        with gateway.translated("run the batch of a stream"):
            rows = frame.count()
        crash.point("read.after")
        if rows == 0:
            return None
        size = gateway.cached_bytes(frame)
        staged = self._patience.keep_trying(lambda: writer.stage(frame, rows, size))
        if staged.is_empty:
            staged.release()
            return None
        writer.commit(staged, numbered.moved(self._position(writer), batch_.checkpoint, batch_.number))
        return staged

    def _open(self, batch_: Batch) -> Writer:
        """Take the epoch, where the table's mark lets this batch follow."""
        writer = self._make(batch_.frame.sparkSession)
        mark = self._patience.keep_trying(lambda: writer.find(self._source))
        self._check(writer, batch_, mark)
        start = mark.position if mark else numbered.moved({}, batch_.checkpoint, batch_.number - 1)
        writer.open(self._source, start, columns_of(batch_.frame))
        self.writer = writer
        return writer

    def _check(self, writer: Writer, batch_: Batch, mark: Mark | None) -> None:
        known = mark.position if mark else {}
        if numbered.CHECKPOINT in known:
            self._place(writer, batch_, known)
        elif batch_.number > 0:
            raise refusals.checkpoint_ahead(writer.name, writer.sink_id, batch_.number)

    def _place(self, writer: Writer, batch_: Batch, known: Position) -> Place:
        found = numbered.place(known, batch_.checkpoint, batch_.number)
        if found is Place.ELSEWHERE:
            raise refusals.other_checkpoint(writer.name, writer.sink_id, known, batch_.checkpoint)
        if found is Place.OLDER:
            raise refusals.older_checkpoint(writer.name, writer.sink_id, known, batch_.number)
        return found

    def _position(self, writer: Writer) -> Position:
        held = writer.committer.held
        assert held is not None, "the table is not open"
        return held.position

    def _is_keyed(self, writer: Writer) -> bool:
        return writer.sink.commit_mode == "upsert"


def _run(frame: DataFrame) -> None:
    """Compute a batch for nothing: Spark wants the state that it leaves behind before the next one begins."""
    with gateway.translated("run the batch of a stream"):
        frame.write.format("noop").mode("overwrite").save()


def columns_of(frame: DataFrame) -> Schema:
    """The columns of the values of `frame`."""
    from calve.changes import NAMES

    found = prepare.columns_of(frame).columns
    return Schema(tuple(column for column in found if column.name not in NAMES))
