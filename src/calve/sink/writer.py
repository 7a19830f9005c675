"""A sink at work: opens its table, stages batches and commits them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from calve import crash, gateway
from calve.errors import CalveError, Unavailable
from calve.iceberg.catalog import Catalog
from calve.iceberg.evolve import Steps
from calve.iceberg.stage import NOTHING, Staged, stage
from calve.iceberg.table import Shape, Table
from calve.patience import Patience
from calve.position import Mark, Position
from calve.schema import Schema
from calve.sink import batch, choice, evolve, prepare, refusals, routes
from calve.sink.begun import Begun
from calve.sink.choice import Needs
from calve.sink.commit import Committer
from calve.sink.declaration import IcebergSink
from calve.sink.delta import Delta
from calve.sink.evolve import Evolver, Find
from calve.sink.overwrite import head, replacing
from calve.sink.tombstones import Tombstones
from calve.sink.upsert import Upsert

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from calve.decode.undecoded import Undecoded

_BYTES_OF_A_SMALL_ROW = 1024
_ROWS_AT_ONCE = 4096
"""How many rows workers are handed at once where rows are small on average, and only a few can be large."""
_ROWS_OF_ONE_FILE = 500_000
"""How many rows one task takes at least where it writes files of several partitions."""


def _tasks(rows: int, size: int, target_size: int, is_partitioned: bool, cores: int) -> int:
    """How many tasks may write a batch: each writes files of its own, which are to be as large as wanted."""
    if rows <= gateway.ROWS_OF_A_TASK:
        return 1
    if is_partitioned:
        return min(cores, -(-rows // _ROWS_OF_ONE_FILE))
    return max(cores, -(-size // target_size))


@dataclass(frozen=True)
class Wanted:
    """The columns that the table was last made to fit, and whether the source itself says them."""

    columns: Schema
    is_said: bool


class Writer:
    """One life of a sink that writes to one table."""

    owed: Position | None = None
    """Where the batch ends that an earlier life left unfinished: never, where a commit is all of a batch."""

    made_by: str | None = None
    """Which writer made the files that were staged last, and why."""

    def __init__(
        self,
        spark: SparkSession,
        sink: IcebergSink,
        sink_id: str,
        patience: Patience,
        declared: Collection[str] = (),
        accept: Callable[[Mark], Mark] | None = None,
        overlaps: Callable[[Position], bool] = lambda position: True,
    ) -> None:
        """`accept` judges the mark that a start builds on; by default one of a single table. `overlaps` tells
        whether the position of another sink is about something that is read here as well."""
        self.sink = sink
        self.name = prepare.table_name(sink)
        self.told = str(self.name)
        self._accept = accept or self._alone
        self._spark = spark
        self.sink_id = sink_id
        self._declared = declared
        self._overlaps = overlaps
        self._patience = patience
        self._catalog = patience.keep_trying(
            lambda: Catalog(spark, sink.catalog.spark_name(), sink.catalog.description())
        )
        patience.opened(self._catalog.renew)
        self._met_large_rows = False
        self._table: Table | None = None
        self._committer: Committer | None = None
        self._tombstones = Tombstones(spark, sink, sink_id, patience, overlaps) if sink.order_by else None
        self._wanted: Wanted | None = None
        self._fitted_as: Shape | None = None

    def find(self, source: str) -> Mark | None:
        """The mark of the table, if the table is there; nothing is written."""
        if self._catalog.has_table(self.name):
            mark = self._use(self._catalog.load(self.name)).seen(source)
            return mark and self._accept(mark)
        return None

    def open(
        self, source: str, start: Position, columns: Schema, is_said: bool = True, fits: bool = True
    ) -> Mark:
        """Create the table if it is not there, take the next epoch, and have the table fit `columns`.

        A table that cannot fit is refused before anything is written. `is_said` tells that the source itself
        says what its columns are, and not only the rows that happen to be there. Without `fits`, or where no
        column is known yet, the table stays as it is.
        """
        fits = fits and bool(columns.columns)
        if self._table is None:
            wanted = prepare.table_columns(columns, self.sink)
            create = partial(prepare.create, self._catalog, self.sink, wanted)
            self._use(self._patience.keep_trying(create))
        if fits:
            self.check(columns, is_said)
        mark = self.committer.fence(source, start, self._accept)
        if fits:
            self.fit(columns, is_said)
        if self._tombstones:
            self._tombstones.open(source, start, self._held(columns), mark.epoch)
        return mark

    def check(self, columns: Schema, is_said: bool = True) -> Steps:
        """What is to be done to the table for rows with `columns`; refuses a table that cannot fit."""
        prepare.check_version(self.table, self.sink)
        return self._steps(columns, is_said)(self.table.metadata())

    def fit(self, columns: Schema, is_said: bool = True) -> None:
        """Have the table fit rows with `columns`, as far as the sink allows it."""
        if self.check(columns, is_said):
            Evolver(self.committer, self._patience).evolve(self._steps(columns, is_said))
            if self._tombstones and self._tombstones.is_open:
                self._tombstones.follow(self._held(columns))
        self._wanted, self._fitted_as = Wanted(columns, is_said), self.table.metadata().shape

    def renew(self) -> None:
        """Load the table again, and have it fit what it did before, where another process changed it."""
        shape = self.committer.reload().shape
        if self._wanted is not None and shape != self._fitted_as:
            self.fit(self._wanted.columns, self._wanted.is_said)

    def view(self) -> Table:
        """The table as it was last loaded, for a thread of its own to begin a batch with."""
        return self.table.frozen()

    def _steps(self, columns: Schema, is_said: bool) -> Find:
        wanted = prepare.table_columns(columns, self.sink)
        return lambda base: evolve.steps(base, self.sink, self.name, wanted, is_said)

    def _held(self, columns: Schema) -> Schema:
        """The columns of the table, with what the source tells of their names of before."""
        told = {one.name: one.aliases for one in columns.columns}
        there = self.table.metadata().schema().columns
        return Schema(tuple(replace(one, aliases=told.get(one.name, ())) for one in there))

    def stage(self, frame: DataFrame, rows: int, size: int = 0, undecoded: Undecoded | None = None) -> Staged:
        """Write the rows of `frame`, about `rows` with `size` bytes, as files that no snapshot has yet.

        `undecoded` gives the same rows: where it can be, they are written by the workers that make them.
        """
        return self.begin(frame, rows, size, undecoded).finish()

    def begin(
        self,
        frame: DataFrame,
        rows: int,
        size: int = 0,
        undecoded: Undecoded | None = None,
        view: Table | None = None,
    ) -> Begun:
        """Do what `stage` does, as far as it does not matter which rows the table has.

        Begun ahead, the batch is made for `view`; otherwise the table is loaded again first. Where the table
        has another shape when the batch is finished or committed, all of it is done again.
        """
        crash.point("stage.before")
        if view is None:
            self.renew()
        table, wanted = view or self.view(), self._wanted
        made_for = table.metadata().shape
        begun = self._begun(table, prepare.renamed(frame, self.sink), rows, size, undecoded)

        def anew() -> Staged:
            if wanted is not None and wanted != self._wanted:
                self.fit(wanted.columns, wanted.is_said)
            return self.begin(frame, rows, size, undecoded).finish()

        def finish() -> Staged:
            if self.table.metadata().shape != made_for:
                return anew()
            staged = begun.finish()
            crash.point("stage.after")
            return replace(staged, made_for=made_for, anew=anew)

        return replace(begun, finish=finish)

    def _begun(
        self, table: Table, frame: DataFrame, rows: int, size: int, undecoded: Undecoded | None
    ) -> Begun:
        needs = self._needs(table, frame, undecoded is not None)
        self.made_by = choice.described(needs)
        begun_at = head(table, self.sink.branch)
        if undecoded is not None and choice.why_java(needs) is None:
            staged = self._written_where_made(table, undecoded, rows, size)
            return Begun(lambda: self._replacing(staged, begun_at))
        few = rows <= gateway.ROWS_OF_A_TASK
        shaped = prepare.shaped(frame, table, lambda: evolve.policy(self.sink, table.metadata()))
        plain = undecoded if shaped is frame and not self.sink.renames else None
        frame = shaped.coalesce(1) if few else shaped
        if self.sink.commit_mode == "upsert":
            made = plain and plain.coalesced(1) if few else plain
            upsert = Upsert(self._spark, self.table, self.sink, self._tombstones)
            begun = upsert.begin(frame, rows, sys.maxsize if self._met_large_rows else size, made, table)
            self._met_large_rows |= upsert.met_large_rows
            return begun
        appended = self._appended(table, frame)
        return Begun(lambda: self._replacing(appended, begun_at))

    def _replacing(self, staged: Staged, begun_at: int) -> Staged:
        if self.sink.commit_mode == "overwrite":
            return replacing(self._spark, self.table, self.sink, staged, begun_at, self.sink_id)
        return staged

    def _needs(self, table: Table, frame: DataFrame, decodes: bool) -> Needs:
        rows = prepare.values_of(prepare.columns_of(frame))
        return Needs(self.sink, decodes, held=prepare.held(table) if decodes else None, rows=rows)

    def _written_where_made(self, table: Table, undecoded: Undecoded, rows: int, size: int) -> Staged:
        """Have the workers that decode write the files as well; only what they tell of them comes back."""
        are_small = 0 < size <= rows * _BYTES_OF_A_SMALL_ROW
        if not are_small or self._met_large_rows:
            return self._written(table, undecoded, rows, size)
        try:
            with gateway.arrow_batches(self._spark, _ROWS_AT_ONCE):
                return self._written(table, undecoded, rows, size)
        except CalveError as error:
            if not gateway.is_out_of_memory(error):
                raise
            self._met_large_rows = True
            raise Unavailable(
                f"{error}; some rows are much larger than others, smaller parts are tried"
            ) from error

    def _written(self, table: Table, undecoded: Undecoded, rows: int, size: int) -> Staged:
        from calve.iceberg import arrow

        form = prepare.parquet_format(table, self.sink)
        bucket = prepare.bucket(self.sink, table)
        target = arrow.target(table, form, self.sink.change_columns, bucket)
        cores = self._spark.sparkContext.defaultParallelism
        most = _tasks(rows, size, form.target_bytes, bool(target.fields), cores)
        records = undecoded.records.coalesce(most)
        staged, counted = arrow.write_where_made(table, records, undecoded.work, target)
        prepare.check_count(counted, staged, table)
        return staged

    def _appended(self, table: Table, frame: DataFrame) -> Staged:
        from pyspark.sql import Observation
        from pyspark.sql import functions as F

        counted = Observation()
        is_row = batch.is_row(frame, self.sink.change_columns)
        frame = frame.observe(counted, F.count_if(is_row).alias("rows"), F.count_if(~is_row).alias("dropped"))
        frame = batch.as_rows(frame.where(is_row), self.sink.change_columns)
        rows, options = prepare.fitted(frame, table), prepare.write_options(self.sink)
        staged = stage(table, rows, options, prepare.sort_order(rows, table, self.sink))
        prepare.check_count(counted.get["rows"], staged, table)
        return replace(staged, dropped=counted.get["dropped"])

    def commit(self, staged: Staged, to: Position) -> Mark:
        """Commit what was staged together with the position behind it."""
        held = [staged]

        def renewed(fresh: Staged) -> Staged:
            held.append(fresh)
            return self._after_tombstones(fresh, to)

        try:
            self._after_tombstones(staged, to)
            # A batch without rows moves the position and no more; as an overwrite it would empty a table.
            return self.committer.commit(NOTHING if staged.is_empty else staged, to, renewed)
        finally:
            for one in held:
                one.release()

    def _after_tombstones(self, staged: Staged, to: Position) -> Staged:
        """`staged`, once the tombstones of its deletes are in their table."""
        if self._tombstones and isinstance(staged, Delta):
            self._tombstones.commit(staged.tombstones, to)
        return staged

    def move(self, to: Position) -> Mark:
        """Commit a position that no rows have led to."""
        return self.committer.commit(NOTHING, to)

    def check_still_held(self) -> None:
        """Refuse to go on where another process has taken the table over."""
        self.committer.check_still_held()

    @property
    def uuid(self) -> str | None:
        """The UUID of the table, if there is one."""
        return None if self._table is None else self._table.metadata().uuid

    @property
    def columns(self) -> Schema | None:
        """The columns of the table, if there is one."""
        return None if self._table is None else self._table.metadata().schema()

    @property
    def table(self) -> Table:
        assert self._table is not None, "the table is not open"
        return self._table

    @property
    def held(self) -> Mark | None:
        """The mark that this life has written last; none before it has taken an epoch."""
        return None if self._committer is None else self._committer.held

    @property
    def committer(self) -> Committer:
        assert self._committer is not None, "the table is not open"
        return self._committer

    def _alone(self, mark: Mark) -> Mark:
        if routes.is_bounds(mark.position):
            raise refusals.one_of_several(self.name, self.sink_id)
        return mark

    def _use(self, table: Table) -> Committer:
        self._table = table
        names = (self.sink_id, self.sink.branch, self._patience)
        told = (self.sink.snapshot_properties, self._declared)
        self._committer = Committer(table, *names, *told, overlaps=self._overlaps)
        return self._committer
