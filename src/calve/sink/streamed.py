"""A sink that Structured Streaming hands its batches to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from calve import crash, gateway
from calve.changes import Operations
from calve.iceberg.stage import NOTHING, Staged
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

    def __init__(
        self,
        make: Callable[[SparkSession], Writer],
        source: str,
        patience: Patience,
        operations: Operations | None = None,
    ) -> None:
        """`make` gives the writer for the session that batches belong to; `source` is what the mark names.

        `operations` names the column that says what a row of an upsert does.
        """
        self._make = make
        self._operations = operations
        self._source = source
        self._patience = patience
        self.writer: Writer | None = None

    def take(self, batch_: Batch) -> Staged | None:
        """Have the rows of a batch in the table; None where it has them, or where there are none."""
        writer = self.writer or self._make(batch_.frame.sparkSession)
        is_keyed = writer.sink.commit_mode == "upsert"
        # A batch is computed anew by each action, its state included.
        given = batch.readable(batch_.frame)
        frame = (batch.with_changes(given, self._operations) if is_keyed else given).persist()
        try:
            # Also one that the table has is computed: Spark wants the state that it leaves behind.
            with gateway.translated("run the batch of a stream"):
                rows = frame.count()
            crash.point("read.after")
            if not self._is_new(writer, rows, batch_):
                return None
            return self._committed(writer, frame, rows, batch_)
        finally:
            frame.unpersist()

    def _is_new(self, writer: Writer, rows: int, batch_: Batch) -> bool:
        """Whether there are rows that the table does not have; then the epoch is taken, if it is not yet."""
        if self.writer is None and not self._open(writer, rows, batch_):
            return False
        return self._place(writer, batch_, self._position(writer)) is Place.NEXT and rows > 0

    def _committed(self, writer: Writer, frame: DataFrame, rows: int, batch_: Batch) -> Staged | None:
        size = gateway.cached_bytes(frame)
        staged = self._patience.keep_trying(lambda: writer.stage(frame, rows, size))
        if staged.is_empty:
            staged.release()
            return None
        writer.commit(staged, numbered.moved(self._position(writer), batch_.checkpoint, batch_.number))
        return staged

    def _open(self, writer: Writer, rows: int, batch_: Batch) -> bool:
        """Take the epoch, where the table's mark lets this batch follow.

        A batch without rows takes none, unless the table knows no batch yet: it has to know of the first one.
        """
        mark = self._patience.keep_trying(lambda: writer.find(self._source))
        self._check(writer, batch_, mark)
        if rows == 0 and mark is not None and numbered.CHECKPOINT in mark.position:
            return False
        start = mark.position if mark else numbered.moved({}, batch_.checkpoint, batch_.number - 1)
        held = writer.open(self._source, start, columns_of(batch_.frame, self._operations))
        if numbered.CHECKPOINT not in held.position:
            # A program has written here before its stream began.
            writer.commit(NOTHING, numbered.moved(held.position, batch_.checkpoint, batch_.number - 1))
        self.writer = writer
        return True

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


def columns_of(frame: DataFrame, operations: Operations | None = None) -> Schema:
    """The columns of the table's values in plain rows."""
    found = prepare.columns_of(frame).columns
    said = operations.column if operations else None
    return Schema(tuple(column for column in found if column.name != said))
