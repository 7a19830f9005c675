"""Upserts: the last change of each key replaces what the table has under that key."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from calve import changes, clock, gateway
from calve.errors import DataRefused
from calve.iceberg import arrow, deletes
from calve.iceberg.failures import translated
from calve.iceberg.lookup import FEW, Keys, known_at, look_up
from calve.iceberg.name import quoted
from calve.iceberg.stage import NOTHING, Staged, stage
from calve.iceberg.table import Table
from calve.sink import batch, choice, collected, prepare
from calve.sink.begun import Begun
from calve.sink.declaration import IcebergSink
from calve.sink.delta import Cost, Delta, Emptied, Found
from calve.sink.tombstones import Tombstones

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

    from calve.decode.undecoded import Undecoded


@dataclass(frozen=True)
class Told:
    """What is known of a batch after one look at it."""

    keys: Keys
    rows: int
    unknown: int
    truncated: int


class Upsert:
    """Stages the batches of one sink in `commit_mode: upsert`."""

    def __init__(
        self, spark: SparkSession, table: Table, sink: IcebergSink, tombstones: Tombstones | None = None
    ) -> None:
        self._spark = spark
        self._tombstones = tombstones
        self._table = table
        self._sink = sink
        self._names = tuple(sink.key_fields)
        self._cost = Cost()
        self.met_large_rows = False
        """Whether a batch became larger than it looked like."""
        # Frames of changes may have NULLs in any column; those that must have none are counted.
        self._options = {**prepare.write_options(sink), "check-nullability": "false"}

    def stage(self, frame: DataFrame, rows: int, size: int) -> Staged:
        """Write the last change of each key of `frame`, and deletes for the rows that they replace."""
        return self.begin(frame, rows, size).finish()

    def begin(self, frame: DataFrame, rows: int, size: int, undecoded: Undecoded | None = None) -> Begun:
        """Find the last change of each key, where they can be held here; `undecoded` gives the same rows."""
        most = choice.MOST_BYTES_OF_SPARK if undecoded is None else choice.MOST_BYTES
        if not (collected.fits(rows, size, most) and self._may_be_quick()):
            return Begun(lambda: self._thorough(frame), is_read=False)
        with translated(f"write data files of table '{self._table.name}'"):
            changed = self._collected(frame, undecoded)
        self.met_large_rows = changed is None
        if changed is None or not collected.is_plain(changed):
            return Begun(lambda: self._thorough(frame))
        last = collected.last(changed, self._names)
        return Begun(lambda: self._quick(last) or self._thorough(frame))

    def _may_be_quick(self) -> bool:
        """Whether batches may be held here, and nothing but the keys of the table's rows matters."""
        return choice.is_held(self._sink) and arrow.writes(self._table)

    @clock.timed("read")
    def _collected(self, frame: DataFrame, undecoded: Undecoded | None) -> pa.Table | None:
        if undecoded is None:
            return frame.toArrow()
        # Those of one task may be more than those of the others.
        return undecoded.collected(2 * choice.MOST_BYTES // self._spark.sparkContext.defaultParallelism)

    def _quick(self, last: pa.Table) -> Delta | None:
        """What is staged of changes that each know all columns of one row; None where there are too many
        partitions to be written here."""
        try:
            return self._delta(last)
        except arrow.Unsupported:
            return None

    def _delta(self, last: pa.Table) -> Delta:
        required = [name for name in self._required_names() if name in last.column_names]
        self._refuse_nulls(collected.nulls(last, self._names, required))
        keys = Keys.of(last.select(list(self._names)))
        rows = last.filter(collected.is_kept(last))
        form = prepare.parquet_format(self._table, self._sink)
        found, staged = self._side_by_side(
            lambda: self._find(keys), lambda: arrow.write(self._table, rows, form)
        )
        prepare.check_count(rows.num_rows, staged, self._table)
        return Delta(
            staged.files,
            staged.rows,
            staged.bytes,
            found=found,
            cost=self._cost,
            again=lambda delta: replace(delta, found=self._find(keys)),
        )

    def _thorough(self, frame: DataFrame) -> Staged:
        last = batch.last(frame, self._names, self._sink.order_by).persist()
        try:
            return self._staged(frame, last)
        except BaseException:
            last.unpersist()
            raise

    def _staged(self, frame: DataFrame, last: DataFrame) -> Staged:
        told = self._look(last)
        if told.truncated:
            return self._truncated(frame, last, told)
        if told.unknown or self._sink.order_by:
            return self._compared(frame, last, told)
        found, staged = self._side_by_side(lambda: self._find(told.keys), lambda: self._data(last, told.rows))
        return Delta(
            staged.files,
            staged.rows,
            staged.bytes,
            found=found,
            cost=self._cost,
            again=lambda delta: replace(delta, found=self._find(told.keys)),
            done=lambda: _forget(last),
        )

    def _compared(self, frame: DataFrame, last: DataFrame, told: Told) -> Delta:
        """Stage changes for which it matters what the table has: older ones, or such with unknown columns."""

        def staged() -> Delta:
            whole = self._whole(frame, last, told).persist()
            try:
                after = self._look(whole)
                self._refuse_unknown(after)
                written = self._data(whole, after.rows)
                gone = self._tombstones.stage(whole) if self._tombstones else NOTHING
                found = self._find(after.keys)
            finally:
                whole.unpersist()
            dropped = told.keys.count - after.keys.count
            return Delta(written.files, written.rows, written.bytes, dropped, found, gone, cost=self._cost)

        return replace(
            staged(),
            again=lambda old: replace(staged(), again=old.again, done=old.done),
            done=lambda: _forget(last),
        )

    def _whole(self, frame: DataFrame, last: DataFrame, told: Told) -> DataFrame:
        values = [name for name in last.columns if name not in (*self._names, *changes.NAMES)]
        head = self._table.metadata().head(self._sink.branch)
        old = known_at(self._spark, self._table, head.snapshotId()).where(told.keys.filter())
        if told.unknown:
            whole = batch.folded(frame.where(~batch.is_truncate()), self._names, values, self._sink.order_by)
            last = batch.filled(whole, old, self._names, values)
        if self._sink.order_by is None or self._tombstones is None:
            return last
        known = old.select(*map(quoted, (*self._names, self._sink.order_by)))
        return batch.fresh(
            last, known.union(self._tombstones.known(told.keys)), self._names, self._sink.order_by
        )

    def _truncated(self, frame: DataFrame, last: DataFrame, told: Told) -> Staged:
        """What a change that empties the table leaves, as declared."""
        if self._sink.truncate == "refuse":
            raise DataRefused(
                f"Cannot write to table '{self._table.name}': the source was truncated; declare "
                "'truncate: delete' to empty the table as well, or 'truncate: ignore'"
            )
        from pyspark.sql import functions as f

        if self._sink.truncate == "ignore":
            return self._thorough(frame.where(~batch.is_truncate()))
        order = f.col(changes.ORDER)
        later = frame.where(~batch.is_truncate()).where(order > self._order_of_truncate(frame))
        kept = batch.last(later, self._names, self._sink.order_by).persist()
        try:
            staged = self._data(kept, self._look(kept).rows)
        finally:
            kept.unpersist()
            last.unpersist()
        return Emptied(staged.files, staged.rows, staged.bytes)

    def _order_of_truncate(self, frame: DataFrame) -> Column:
        from pyspark.sql import functions as f

        place = frame.where(batch.is_truncate()).agg(f.max(changes.ORDER)).collect()[0][0]
        names = ("seq", "lane", "at", "part")
        kinds = ("bigint", "bigint", "bigint", "int")
        return f.struct(*(f.lit(place[n]).cast(kind).alias(n) for n, kind in zip(names, kinds, strict=True)))

    @clock.timed("dedupe")
    def _look(self, last: DataFrame) -> Told:
        """Count, bound and check the changes of a batch in one pass."""
        from pyspark.sql import functions as f

        required = self._required(last)
        nulls = [f.count_if(missing) for missing in required.values()]
        bounds = [bound(quoted(name)) for name in self._names for bound in (f.min, f.max)]
        row = last.agg(*batch.counts(), *nulls, *bounds).collect()[0]
        rows, gone, unknown, truncated, *rest = row
        count = rows + gone + truncated
        self._refuse_nulls(dict(zip(required, rest, strict=False)))
        ends = iter(rest[len(required) :])
        ranges = {name: (next(ends), next(ends)) for name in self._names} if count else {}
        frame = last.select(*map(quoted, self._names))
        keys = Keys(self._names, count, ranges, self._few(frame, count), frame)
        return Told(keys, rows, unknown, truncated)

    def _required(self, last: DataFrame) -> dict[str, Column]:
        """The columns that must not be NULL, and when one is: of a delete, only the key has to be there."""
        from pyspark.sql import functions as f

        found = {name: f.col(quoted(name)).isNull() & ~batch.is_truncate() for name in self._names}
        for name in self._required_names():
            if name in last.columns:
                found[name] = f.col(quoted(name)).isNull() & batch.is_kept() & batch.is_whole()
        return found

    def _required_names(self) -> list[str]:
        """The columns beside the key that must not be NULL."""
        columns = self._table.metadata().schema().columns
        return [one.name for one in columns if not one.nullable and one.name not in self._names]

    def _refuse_nulls(self, nulls: dict[str, int]) -> None:
        for name, count in nulls.items():
            if count:
                kind = "key column" if name in self._names else "column"
                raise DataRefused(
                    f"Cannot write to table '{self._table.name}': {count} of the batch's changes have NULL "
                    f"in {kind} '{name}', which must not be NULL; nothing of the batch was committed"
                )

    def _refuse_unknown(self, told: Told) -> None:
        if told.unknown:
            raise DataRefused(
                f"Cannot write to table '{self._table.name}': {told.unknown} changes leave columns out whose "
                "values the table does not have, because it has no row with their keys; take a new snapshot "
                "of the source"
            )

    def _few(self, frame: DataFrame, count: int) -> dict[str, list[Any]]:
        """The values themselves where they are few enough for planning to use them."""
        if len(self._names) > 1 or not 0 < count <= FEW:
            return {}
        return {self._names[0]: [row[0] for row in frame.collect() if row[0] is not None]}

    def _data(self, last: DataFrame, rows: int) -> Staged:
        if rows == 0:
            return NOTHING
        staged = self._write(last)
        prepare.check_count(rows, staged, self._table)
        return staged

    def _write(self, last: DataFrame) -> Staged:
        kept = last.where(batch.is_kept()).drop(*changes.NAMES)
        return stage(self._table, prepare.fitted(kept, self._table, self._sink), self._options)

    @clock.timed("look-up")
    def _find(self, keys: Keys) -> Found:
        metadata = self._table.metadata()
        head = metadata.head(self._sink.branch)
        if keys.count == 0 or head.summary().get("total-data-files") == "0":
            return Found(snapshot=head.snapshotId(), expression=keys.expression())
        if self._sink.deletes == "equality":
            return Found(deletes.equality_deletes(self._spark, self._table, keys, self._options))
        begun = time.monotonic()
        hits, files = look_up(self._spark, self._table, head.snapshotId(), keys)
        self._cost.add(files, time.monotonic() - begun)
        write = deletes.deletion_vectors if metadata.format_version >= 3 else deletes.position_deletes
        return Found(
            write(self._table, hits) if hits else deletes.NONE,
            tuple(hit.path for hit in hits),
            head.snapshotId(),
            keys.expression(),
        )

    def _side_by_side(self, first: Callable[[], Any], second: Callable[[], Any]) -> tuple[Any, Any]:
        """Both results; the first is found in a thread of its own, in the same Spark session."""
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(gateway.beside(self._spark, clock.carried(first)))
            result = second()
            return clock.timed("wait")(running.result)(), result


def _forget(frame: DataFrame) -> None:
    frame.unpersist()
