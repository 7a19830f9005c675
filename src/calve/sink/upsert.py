"""Upserts: the last change of each key replaces what the table has under that key."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from calve import changes, clock, gateway
from calve.errors import ConfigurationError, DataRefused, Moved
from calve.iceberg import arrow, deletes
from calve.iceberg.failures import reading_files, translated
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


Result = TypeVar("Result")


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
        self._live = table
        self._table = table.frozen()
        """The table as it was when the batch was begun; what is finished or renewed looks at it anew."""
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

    def begin(
        self,
        frame: DataFrame,
        rows: int,
        size: int,
        undecoded: Undecoded | None = None,
        view: Table | None = None,
    ) -> Begun:
        """Find the last change of each key, where they can be held here; `undecoded` gives the same rows.

        Begun ahead, `view` is the table; other threads may load it again meanwhile.
        """
        self._table = view or self._live.frozen()
        begun = self._begun(frame, rows, size, undecoded)
        return replace(begun, finish=self._with_newest(begun.finish))

    def _with_newest(self, stage: Callable[[], Result]) -> Callable[[], Result]:
        """`stage` on the table as it was last loaded.

        A file that is not there belongs to a snapshot that expired, unless the table still has it.
        """

        def staged() -> Result:
            self._table = self._live.frozen()
            try:
                return stage()
            except Moved as error:
                if self._live.refresh().file == self._table.metadata().file:
                    raise ConfigurationError(f"{error}, and the table still refers to it") from error
                raise

        return staged

    def _begun(self, frame: DataFrame, rows: int, size: int, undecoded: Undecoded | None) -> Begun:
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
        rows = last.select([name for name in last.column_names if name not in changes.NAMES])
        rows = rows.filter(collected.is_kept(last))
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
            again=lambda delta: replace(delta, found=self._with_newest(lambda: self._find(keys))()),
        )

    def _thorough(self, frame: DataFrame) -> Staged:
        changed = self._in_order(frame)
        last = batch.last(changed, self._names)
        held = (changed if self._sink.order_by else last).persist()
        try:
            return self._staged(changed, last, held)
        except BaseException:
            held.unpersist()
            raise

    def _in_order(self, frame: DataFrame) -> DataFrame:
        """The changes that count, with the order in which they arrived."""
        is_ignored = self._sink.truncate == "ignore"
        frame = frame.where(~batch.is_truncate()) if is_ignored else batch.unkeyed(frame, self._names)
        changed = batch.arrived(frame, self._names)
        order_by = self._sink.order_by
        return batch.accepted(changed, self._names, order_by) if order_by else changed

    def _staged(self, changed: DataFrame, last: DataFrame, held: DataFrame) -> Staged:
        told = self._look(last)
        if told.truncated:
            return self._truncated(changed, held)
        if self._sink.order_by:
            told = replace(told, unknown=self._unknown(changed))
        if told.unknown or self._sink.order_by:
            return self._compared(changed, last, told, held)
        found, staged = self._side_by_side(lambda: self._find(told.keys), lambda: self._data(last, told.rows))
        return Delta(
            staged.files,
            staged.rows,
            staged.bytes,
            found=found,
            cost=self._cost,
            again=lambda delta: replace(delta, found=self._with_newest(lambda: self._find(told.keys))()),
            done=lambda: _forget(held),
        )

    def _unknown(self, changed: DataFrame) -> int:
        """How many changes do not know all columns: which of them counts is not known yet."""
        return int(changed.agg(*batch.counts()).collect()[0]["unknown"])

    def _compared(self, changed: DataFrame, last: DataFrame, told: Told, held: DataFrame) -> Delta:
        """Stage changes for which it matters what the table has: older ones, or such with unknown columns."""

        def staged() -> Delta:
            with reading_files("run the batch", self._table.metadata().location):
                return compared()

        def compared() -> Delta:
            whole = self._whole(changed, last, told).persist()
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
            again=lambda old: replace(
                self._with_newest(staged)(),
                again=old.again,
                done=old.done,
                made_for=old.made_for,
                anew=old.anew,
            ),
            done=lambda: _forget(held),
        )

    def _whole(self, changed: DataFrame, last: DataFrame, told: Told) -> DataFrame:
        """The last change of each key that counts beside what the table has, with all its columns."""
        head = self._table.metadata().head(self._sink.branch)
        old = known_at(self._spark, self._table, head.snapshotId()).where(told.keys.filter())
        order_by = self._sink.order_by
        if order_by is not None and self._tombstones is not None:
            known = old.select(*map(quoted, (*self._names, order_by)))
            known = known.union(self._tombstones.known(told.keys))
            changed = batch.fresh(changed, known, self._names, order_by)
            last = batch.last(changed, self._names)
        if not told.unknown:
            return last
        values = self._values(last)
        return batch.filled(batch.folded(changed, self._names, values), old, self._names, values)

    def _values(self, frame: DataFrame) -> list[str]:
        own = (*self._names, *changes.NAMES, *batch.OWN)
        return [name for name in frame.columns if name not in own]

    def _truncated(self, changed: DataFrame, held: DataFrame) -> Staged:
        """What a change that empties the table leaves, as declared."""
        if self._sink.truncate == "refuse":
            raise DataRefused(
                f"Cannot write to table '{self._table.name}': the source was truncated; declare "
                "'truncate: delete' to empty the table as well, or 'truncate: ignore'"
            )
        later = batch.behind_truncates(changed)
        if later is None:
            raise DataRefused(
                f"Cannot write to table '{self._table.name}': the source was truncated, and its records are "
                "in several partitions, so that nothing tells which of them came before; keep the topic in "
                "one partition, or declare 'truncate: ignore'"
            )
        kept = batch.last(later, self._names)
        if self._look(kept).unknown:
            kept = batch.folded(later, self._names, self._values(later))
        kept = kept.persist()
        try:
            told = self._look(kept)
            self._refuse_unknown(told)
            staged = self._data(kept, told.rows)
        finally:
            kept.unpersist()
            held.unpersist()
        return Emptied(staged.files, staged.rows, staged.bytes)

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
        kept = last.where(batch.is_kept()).drop(*changes.NAMES, *batch.OWN)
        rows = prepare.fitted(kept, self._table)
        return stage(self._table, rows, self._options, prepare.sort_order(rows, self._table, self._sink))

    @clock.timed("look-up")
    def _find(self, keys: Keys) -> Found:
        metadata = self._table.metadata()
        head = metadata.head(self._sink.branch)
        if keys.count == 0 or head.summary().get("total-data-files") == "0":
            return Found(snapshot=head.snapshotId(), expression=keys.expression())
        if self._sink.deletes == "equality":
            return Found(deletes.equality_deletes(self._spark, self._live, keys, self._options))
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
