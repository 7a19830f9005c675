"""Dead letters: records that cannot be taken, as rows of a table of their own.

They are committed before the rows of their batch, under a mark that names the batch. A batch that is read
again after a crash in between finds its letters there by their ids: it writes none of them twice, and takes
out those that the declaration, if it was changed, no longer refuses.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from calve import changes, schema
from calve.errors import DataRefused, TableMismatch, Unavailable
from calve.iceberg.catalog import Catalog
from calve.iceberg.name import TableName
from calve.iceberg.stage import NOTHING, Staged, stage
from calve.patience import Patience
from calve.position import Position
from calve.schema import Column, Primitive, Schema
from calve.sink import prepare
from calve.sink.commit import Committer
from calve.sink.declaration import DeadLetter, IcebergSink

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame, SparkSession

    from calve.decode.bad import Catch, Letter, Report
    from calve.decode.route import Route

LETTER_ID, RECORDED, REPLAYED = "letter_id", "recorded_at", "replayed_at"
UNCOUNTED = (0, 2**62)
"""Rows and bytes of an upsert of letters: nobody knows how large they are, so Spark holds them."""
ALL_BAD = 1_000
"""From how many records on a batch in which all are bad stops the pipeline, if no `max_ratio` is declared."""
WHOLE = "a whole batch"
CARRIED = 32 * 2**20
"""How many bytes of bad records are held in memory; where there are more, Spark reads them once more."""
CARRIED_RECORDS = 10_000
"""How many bad records one task hands over."""


def columns() -> Schema:
    """The columns of a table of dead letters."""
    from calve.decode.bad import RECORD

    text, number, time = Primitive("string"), Primitive("bigint"), Primitive("timestamp")
    return Schema(
        (
            *RECORD.columns,
            Column("pipeline", text, nullable=False),
            Column("source", text, nullable=False),
            Column("epoch", number, nullable=False),
            Column("batch", text, nullable=False),
            Column(RECORDED, time, nullable=False),
            Column(REPLAYED, time),
        )
    )


def table_name(sink: IcebergSink) -> TableName | None:
    """The table for the dead letters of `sink`; None if there is none."""
    own, letters = prepare.table_name(sink), sink.dead_letter_table()
    return None if letters is None else TableName(own.catalog, own.namespace, letters)


def as_sink(sink: IcebergSink) -> IcebergSink:
    """The sink as it would be declared for upserts of its own dead letters."""
    kept = ("catalog", "namespace", "format", "compression", "target_file_size_mb", "retry_for")
    given = {name: getattr(sink, name) for name in kept}
    return IcebergSink.model_construct(
        **given, table=str(sink.dead_letter_table()), commit_mode="upsert", key_fields=[LETTER_ID]
    )


def as_changes(letters: DataFrame, operation: str) -> DataFrame:
    """Letters as changes of letters: new ones or in the place of those with the same id, or deletes."""
    from pyspark.sql import functions as f

    order = "named_struct('seq', NULL :: BIGINT, 'lane', 0L, 'at', 0L, 'part', 0, 'time', NULL :: BIGINT)"
    told = {
        changes.OPERATION: f.lit(operation),
        changes.ORDER: f.expr(order),
        changes.TIME: f.lit(None).cast("timestamp"),
        changes.UNKNOWN: f.lit(None).cast("array<string>"),
    }
    return letters.select(*columns().names, *(value.alias(name) for name, value in told.items()))


def salt(sink_id: str, source: str) -> str:
    """What tells the letters of one source of one sink apart from others with the same position."""
    return f"{sink_id}\0{source}"


def digest(*positions: Position) -> str:
    """A short fingerprint of positions, which may be too long for a mark themselves."""
    text = json.dumps(positions, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


class Reports(list["Report"]):
    """What workers report, and how many bytes of bad records are among it."""

    bytes = 0


class Channel:
    """How Spark adds up reports: never lost, and perhaps twice where a task runs again."""

    def zero(self, value: Any) -> Reports:
        return Reports()

    def addInPlace(self, value: Reports, other: Iterable[Report]) -> Reports:
        for report in other:
            size = sum(letter.size for letter in report.letters)
            if value.bytes + size > CARRIED:
                report = report._replace(letters=[], more=report.bad)
            else:
                value.bytes += size
            value.append(report)
        return value


@dataclass(frozen=True)
class Told:
    """What became of the records of a batch."""

    records: int
    bad: int
    letters: list[Letter]

    @classmethod
    def of(cls, reports: Iterable[Report]) -> Told:
        """Each block once, however often its task was run."""
        blocks = {report.place: report for report in reports}
        letters = [letter for report in blocks.values() for letter in report.letters]
        found = blocks.values()
        return cls(sum(one.records for one in found), sum(one.bad for one in found), letters)

    @property
    def is_whole(self) -> bool:
        """Whether all bad records are here, and not only counted."""
        return len(self.letters) == self.bad


def tripped(told: Told, limits: DeadLetter) -> str | None:
    """Which limit a batch is over, in words; one that is bad altogether is a mistake of the declaration's."""
    if limits.max_count is not None and told.bad > limits.max_count:
        return f"max_count {limits.max_count}"
    if limits.max_ratio is not None and told.bad > limits.max_ratio * told.records:
        return f"max_ratio {limits.max_ratio:g}"
    if limits.max_ratio is None and told.bad == told.records >= ALL_BAD:
        return WHOLE
    return None


class Letters:
    """The dead letters of one life of a pipeline."""

    def __init__(
        self,
        spark: SparkSession,
        pipeline: str,
        sink: IcebergSink,
        sink_id: str,
        patience: Patience,
        bare: bool = False,
    ) -> None:
        """Where they are `bare`, nothing is kept of them but which they are: they are not to be written."""
        name = table_name(sink)
        self._bare = bare
        assert name is not None, "there are no dead letters"
        self.name = name
        self._limits = sink.dead_letter if isinstance(sink.dead_letter, DeadLetter) else DeadLetter()
        self._spark = spark
        self._pipeline = pipeline
        self._sink = sink
        self._sink_id = sink_id
        self._patience = patience
        self._source = ""
        self._epoch = 0
        self._check_main: Callable[[], None] = lambda: None
        self._committer: Committer | None = None
        self._in_doubt = False
        self._cut_off: str | None = None
        """The batch that was cut off: which of its letters hold is known when it has been read again."""
        self._beyond: str | None = None
        """The same batch, if it has letters that lie beyond what has been read and staged."""
        self._channel: Any = None
        self._catch: Catch | None = None

    def open(
        self, source: str, position: Position, epoch: int, check_main: Callable[[], None] = lambda: None
    ) -> None:
        """Begin a life at `position`; a table that is there is closed to older writers.

        `epoch` is that of the table of the rows, and `check_main` refuses to go on where another process has
        taken the next one.
        """
        self._source, self._epoch, self._check_main = source, epoch, check_main
        if self._catalog().has_table(self.name):
            self._take(position)

    def _take_late(self, position: Position) -> None:
        """Take the table in the middle of a life, when the first record is bad.

        A process that has lost the table of the rows leaves the table of letters alone. It is asked before,
        so that it creates none, and again behind the fence: whoever takes the rows' table after that finds
        this one, and closes it.
        """
        self._check_main()
        self._take(position)
        self._check_main()

    def _catalog(self) -> Catalog:
        catalog = self._patience.keep_trying(lambda: Catalog(self._spark, self.name.catalog))
        self._patience.opened(catalog.renew)
        return catalog

    def _take(self, position: Position) -> None:
        """Create the table if it is not there and take its next epoch.

        Its mark names the last batch that had letters. Where that is not what came before `position`, the
        batch was cut off, or the source is read again: then ids tell which letters are there. A batch was cut
        off where it begins at `position`; letters of it that lie `beyond` the batches read since are still in
        doubt.
        """
        properties = prepare.creation_properties(self._sink)
        create = partial(self._catalog().create, self.name, columns(), (), (), properties, [LETTER_ID])
        table = self._patience.keep_trying(create)
        found = schema.differences(columns(), table.metadata().schema())
        if found:
            raise TableMismatch(
                f"Cannot write dead letters to table '{self.name}': {'; '.join(found)}; name another one in "
                "'dead_letter'",
                table=str(self.name),
            )
        committer = Committer(table, self._sink_id, "main", self._patience, main=self._epoch)
        mark = committer.fence(f"letters:{self._sink_id}", {"to": digest(position)})
        self._committer = committer
        self._in_doubt = mark.position.get("to") != digest(position)
        self._cut_off = mark.position.get("beyond")
        if self._in_doubt and mark.position.get("after") == digest(position):
            self._cut_off = mark.position.get("batch")
        self._in_doubt |= self._cut_off is not None

    def catch(self, keys: Iterable[str] = (), route: Route | None = None) -> Catch:
        """What a reading of one batch is given; `keys` are columns that no row may lack, `route` names the
        table of a row."""
        from calve.decode.bad import Catch, Sieve

        if self._channel is None:
            self._channel = self._spark.sparkContext.accumulator(Reports(), Channel())  # type: ignore[arg-type]
        self._channel.value = Reports()
        sieve = Sieve(
            str(uuid.uuid4()),
            salt(self._sink_id, self._source),
            self._channel.add,
            tuple(keys),
            self._limits.max_count,
            CARRIED_RECORDS,
            CARRIED // 8,
            route=route,
            bare=self._bare,
        )
        self._catch = Catch(sieve)
        return self._catch

    def told(self) -> Told:
        """What the reading that was last given `catch` has found, once it has been run."""
        batch, expected = self._read.sieve.batch, self._read.expected()
        reports = [one for one in self._channel.value if one.batch == batch]
        seen = sum(one.witness for one in {one.place: one for one in reports}.values())
        if expected is not None and seen != expected:
            raise Unavailable(
                f"Cannot commit to table '{prepare.table_name(self._sink)}': {expected} parts of the batch "
                f"were read and {seen} are accounted for"
            )
        return Told.of(reports)

    def stage(
        self,
        after: Position,
        to: Position,
        again: Callable[[Catch], DataFrame],
        is_inside: Callable[[Expression], Expression] | None = None,
    ) -> Staged:
        """Write the bad records of a batch that has been read; `again` reads nothing but those.

        `is_inside` tells of the position of a letter whether it is in the batch.
        """
        told = self.told()
        if not told.bad and self._cut_off is None:
            return NOTHING
        self._refuse_many(told)
        if self._committer is None:
            self._take_late(after)
        self._open.table.refresh()
        batch = digest(after, to)
        if told.is_whole and not self._in_doubt and self._sink.format == "parquet":
            return self._again_as_needed(lambda: self._here(told, batch))
        found = self._frame(told) if told.is_whole else again(self._read)
        if self._cut_off is not None:
            return self._finished(found, batch, self._cut_off, is_inside)
        return self._again_as_needed(lambda: self._there(told, found, batch))

    def _again_as_needed(self, write: Callable[[], Staged]) -> Staged:
        """What `write` stages; it is done again where somebody changes the columns of the table meanwhile."""
        return replace(write(), anew=lambda: self._again_as_needed(write))

    def _there(self, told: Told, found: DataFrame, batch: str) -> Staged:
        """Letters written by Spark."""
        options = {**prepare.write_options(self._sink), "check-nullability": "false"}
        staged = stage(self._open.table, self._rows(found, batch), options)
        if not self._in_doubt:
            prepare.check_count(told.bad, staged, self._open.table)
        return staged

    def _here(self, told: Told, batch: str) -> Staged:
        """Letters written in this process: they are few, and a pass of Spark's costs more than they do."""
        import pyarrow as pa

        from calve.iceberg import arrow

        rows = self._table(told)
        moment = pa.scalar(dt.datetime.now(dt.timezone.utc), pa.timestamp("us", "UTC"))
        told_of_all: dict[str, Any] = {
            "pipeline": pa.scalar(self._pipeline),
            "source": pa.scalar(self._source),
            "epoch": pa.scalar(self._epoch, pa.int64()),
            "batch": pa.scalar(batch),
            RECORDED: moment,
            REPLAYED: pa.scalar(None, moment.type),
        }
        for name, value in told_of_all.items():
            rows = rows.append_column(name, pa.repeat(value, rows.num_rows))
        form = prepare.parquet_format(self._open.table, self._sink)
        staged = arrow.write(self._open.table, rows, form)
        prepare.check_count(told.bad, staged, self._open.table)
        return staged

    def _finished(
        self,
        found: DataFrame,
        batch: str,
        cut_off: str,
        is_inside: Callable[[Expression], Expression] | None,
    ) -> Staged:
        """The letters of a batch that was cut off, made what they are now, as far as it was read again."""
        from pyspark.sql import functions as f

        from calve.sink.upsert import Upsert

        inside = is_inside(f.col("position")) if is_inside else f.lit(True)
        there = self._spark.table(self.name.sql()).where(f.col("batch").eqNullSafe(cut_off))
        self._beyond = None if there.where(~inside).isEmpty() else cut_off
        gone = as_changes(there.where(inside).join(found, LETTER_ID, "left_anti"), changes.DELETE)
        new = as_changes(self._rows(found, batch), changes.UPDATE)
        return Upsert(self._spark, self._open.table, as_sink(self._sink)).stage(new.union(gone), *UNCOUNTED)

    @property
    def _open(self) -> Committer:
        assert self._committer is not None, "the table for dead letters is not open"
        return self._committer

    @property
    def _read(self) -> Catch:
        assert self._catch is not None, "nothing was read"
        return self._catch

    def _refuse_many(self, told: Told) -> None:
        limit = tripped(told, self._limits)
        if limit is not None:
            first = min(told.letters, key=lambda one: one.position, default=None)
            shown = f"; one of them: {first.position}: {first.message}" if first else ""
            why = f"more than {limit} allows; nothing of it was committed"
            if limit == WHOLE:
                why = (
                    "which is all of them; nothing of it was committed; correct 'schema' or 'format', or set "
                    "'max_ratio: 1' for dead letters"
                )
            raise DataRefused(
                f"Cannot take the batch: {told.bad} of {told.records} records are bad, {why}{shown}"
            )

    def _frame(self, told: Told) -> DataFrame:
        return self._spark.createDataFrame(self._table(told)).coalesce(1)

    def _table(self, told: Told) -> pa.Table:
        import pyarrow as pa

        from calve.decode.bad import as_batch

        letters = list({letter.letter_id: letter for letter in told.letters}.values())
        return pa.Table.from_batches([as_batch(letters)])

    def _rows(self, found: DataFrame, batch: str) -> DataFrame:
        from pyspark.sql import functions as f

        if self._in_doubt:
            there = self._spark.table(self.name.sql()).where(f.col("source") == self._source)
            there = there.select(LETTER_ID)
            found = found.join(there, LETTER_ID, "left_anti")
        return found.withColumns(
            {
                "pipeline": f.lit(self._pipeline),
                "source": f.lit(self._source),
                "epoch": f.lit(self._epoch).cast("bigint"),
                "batch": f.lit(batch),
                RECORDED: f.current_timestamp(),
                REPLAYED: f.lit(None).cast("timestamp"),
            }
        )

    def commit(self, staged: Staged, after: Position, to: Position) -> None:
        """Commit the letters of the batch (after, to]; they are there before its rows are.

        Until then a batch that was cut off stays so: it may be staged once more.
        """
        if self._committer is None or (staged.is_empty and self._cut_off is None):
            return
        beyond = {} if self._beyond is None else {"beyond": self._beyond}
        try:
            named = {"after": digest(after), "to": digest(to), "batch": digest(after, to)}
            self._committer.commit(staged, {**named, **beyond})
            self._cut_off, self._beyond = self._beyond, None
        finally:
            staged.release()
