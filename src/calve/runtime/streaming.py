"""The life of a pipeline that Structured Streaming drives: Spark plans, and the sink takes its batches."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from calve import crash, gateway
from calve.errors import CalveError
from calve.iceberg.stage import Staged
from calve.patience import Abandoned
from calve.position import Position
from calve.project import ResolvedPipeline
from calve.runtime.due import POLL
from calve.runtime.profile import OFF, Profile
from calve.runtime.report import Report
from calve.runtime.runner import Runner
from calve.runtime.stop import Stop
from calve.schema import Schema
from calve.sink.declaration import IcebergSink
from calve.sink.prepare import table_name
from calve.sink.routed import Routed
from calve.sink.streamed import Batch, Streamed, columns_of
from calve.sink.writer import Writer
from calve.sources.spark import SparkSource
from calve.transforms.carry import Carried

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_DEFAULT_CATALOG = "spark.sql.defaultCatalog"


class Halted(Exception):
    """A batch came after the end was asked for; Spark runs it again at the next start."""


def output_mode(sink: IcebergSink) -> str:
    """What of a stream's result a batch brings: new rows, groups that changed, or all of them anew."""
    if sink.commit_mode == "upsert":
        return "update"
    return "complete" if sink.commit_mode == "overwrite" and sink.overwrite == "table" else "append"


class StreamingRunner(Runner):
    """One life of one pipeline whose source only Structured Streaming reads."""

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
        super().__init__(pipeline, spark, stop, report, once, declared, profile, standby)
        # Plain rows become changes behind the transforms, which so have nothing to carry.
        self._carried = Carried()
        assert isinstance(pipeline.source, SparkSource)
        self._checkpoint = pipeline.source.checkpoint
        self._failure: BaseException | None = None
        self._idle = threading.Event()
        self._idle.set()

    def run(self) -> None:
        """Run until the end is asked for or, with `once`, until all that was there at the start is read."""
        with suppress(Abandoned):
            self._check_start()
            self._patience.keep_trying(self._live)

    def columns(self, start: Position, to: Position | None = None, *, closely: bool = False) -> Schema:
        return columns_of(self._streaming())

    def expect(self, writer: Writer | Routed) -> None:
        """Nothing is inferred."""

    def _check_start(self) -> None:
        """Refuse a table that this pipeline may not go on with before Spark reads anything."""
        writer = self._writer(self._spark)
        self._report.update(table=writer.told)
        self._stand_by(writer.name)
        if self._patience.keep_trying(lambda: writer.find(self._source.identity())) is None:
            self.check_same_table(writer)

    def _writer(self, spark: SparkSession) -> Writer:
        return Writer(spark, self._sink, self._sink_id, self._patience, self._declared)

    def _streaming(self) -> DataFrame:
        """The rows of the source behind the transforms, as a DataFrame that streams."""
        # Transforms call tables of the sink's catalog by namespace and name.
        name = self._sink.catalog.spark_name()
        if self._spark.conf.get(f"spark.sql.catalog.{name}", None) is not None:
            self._spark.conf.set(_DEFAULT_CATALOG, name)
        return self._transformed(self._source.stream(self._spark)).frame

    def _live(self) -> None:
        """Run the stream once; the checkpoint knows where another one goes on."""
        self._failure = None
        streamed = Streamed(self._writer, self._source.identity(), self._patience)
        query = self._started(streamed)
        self._report.update(state="running")
        name = table_name(self._sink)
        try:
            with self._beating(name, lambda: streamed.writer.held if streamed.writer else None):
                self._follow(query)
        except Exception as error:
            raise self._cause(error) from error

    def _started(self, streamed: Streamed) -> StreamingQuery:
        seconds = self._sink.flush_interval_secs
        trigger: dict[str, Any] = {"availableNow": True}
        if not self._once:
            trigger = {"processingTime": f"{seconds} seconds"}
        with gateway.translated("start the stream"):
            writer = self._streaming().writeStream.outputMode(output_mode(self._sink)).trigger(**trigger)
            writer = writer.option("checkpointLocation", self._checkpoint)
            return writer.foreachBatch(lambda frame, number: self._take(streamed, frame, number)).start()

    def _follow(self, query: StreamingQuery) -> None:
        while not query.awaitTermination(1):
            if self._stop.is_requested():
                # In the middle of a batch, Spark does not end a query soundly.
                while not self._idle.wait(POLL):
                    pass
                query.stop()
                return

    def _cause(self, error: Exception) -> BaseException:
        """What ended the query: an error of ours on its way through Spark, or one of Spark's."""
        if isinstance(self._failure, Halted):
            return Abandoned(str(self._failure))
        if self._failure is not None:
            return self._failure
        return gateway.translate(error, "run the stream") if gateway.is_foreign(error) else error

    def _take(self, streamed: Streamed, frame: DataFrame, number: int) -> None:
        """One call of `foreachBatch`; of what is raised here, Spark passes on nothing but text."""
        self._idle.clear()
        try:
            self._batch_of(streamed, frame, number)
        except BaseException as error:
            self._failure = error
            raise RuntimeError(str(error)) from None
        finally:
            self.in_flight = self.is_committing = False
            self._idle.set()

    def _batch_of(self, streamed: Streamed, frame: DataFrame, number: int) -> None:
        if self._stop.is_requested():
            raise Halted("the end was asked for")
        checkpoint = gateway.checkpoint_id(frame)
        if checkpoint is None:
            raise CalveError("Cannot tell the checkpoint of a stream: Spark does not say whose batch it is")
        begun = time.monotonic()
        # Spark has read the batch by then, and counts on its end.
        self.in_flight = self.is_committing = True
        is_new = streamed.writer is None
        staged = streamed.take(Batch(frame, checkpoint, number))
        self._patience.recovered()
        if is_new and streamed.writer is not None:
            self._tell_open(streamed.writer)
        if staged is not None and streamed.writer is not None:
            self._tell_batch(streamed.writer, staged, time.monotonic() - begun)
        crash.point("batch.end")

    def _tell_open(self, writer: Writer) -> None:
        held = writer.committer.held
        assert held is not None
        self._report.update(epoch=held.epoch, position=held.position)
        self._report.remember(self._place(writer), str(writer.uuid))

    def _tell_batch(self, writer: Writer, staged: Staged, seconds: float) -> None:
        counted = {"rows": staged.rows, "bytes": staged.bytes, "files": len(staged.files)}
        self._report.add(**counted, batches=1, stage_seconds=seconds, **staged.counts)
        held = writer.committer.held
        assert held is not None
        moved = {"position": held.position, "last_commit": time.time()}
        self._report.update(**moved, retries=self._patience.retries)


def runner_of(
    pipeline: ResolvedPipeline,
    spark: SparkSession,
    stop: Stop,
    report: Report,
    once: bool = False,
    declared: Collection[str] = (),
    profile: Profile = OFF,
    standby: float | None = None,
) -> Runner:
    """What runs `pipeline`: its own loop, or Structured Streaming where only that reads its source."""
    kind = StreamingRunner if pipeline.source.is_streaming else Runner
    return kind(pipeline, spark, stop, report, once, declared, profile, standby)
