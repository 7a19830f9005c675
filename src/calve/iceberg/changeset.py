"""What snapshots did to the rows of a table: inserts, deletes and updates, whoever wrote them and how.

Only files are read that a snapshot added or removed, or whose deletes it changed. With the rows that were
live before as `old` and those that are live now as `new`:

- of a file that was added, its live rows are new; of one that was removed, those that were live are old;
- of a file that stays with other deletes, rows that are deleted now and were not are old, and the other way
  round; a row is known by its file and its place in it.

Rows that are in both, as after a rewrite, cancel each other out. A snapshot that only replaces files by
others with the same rows, as compaction does, is passed over.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import TYPE_CHECKING

from calve.errors import UsageError
from calve.iceberg import files, multiset, travel
from calve.iceberg.files import Pair, Plan, Task, Touched
from calve.iceberg.name import quoted
from calve.iceberg.steps import Step, expired_before, is_change, runs
from calve.iceberg.table import Table
from calve.iceberg.travel import History, Snapshot
from calve.iceberg.view import DELETED, FILE, POSITION, View
from calve.model import suggestion
from calve.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TYPE, ORDINAL, SNAPSHOT = "_change_type", "_change_ordinal", "_commit_snapshot_id"
PLACE = "_calve_place"
"""A column for who puts changes in order: the number of the file and the place in it, where that is known."""

_NUMBER, _ORDINAL, _SNAPSHOT = "_calve_file", "_calve_ordinal", "_calve_snapshot"
_PLACE_BITS = 40


class Changes:
    """The changes of one table, in the columns of one snapshot."""

    def __init__(
        self,
        spark: SparkSession | None,
        view: View,
        history: History,
        keys: Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
    ) -> None:
        """`keys` tell updates from deletes and inserts; None: the identifier fields of the table.

        Of `columns`, if they are given, the keys need not be one: they are read beside them. Without `spark`
        files can be told, and no rows.
        """
        self._session, self._view, self._history = spark, view, history
        known = view.columns
        self._keys = view.identifier_fields() if keys is None else tuple(keys)
        _refuse_columns(history.table, known, (*self._keys, *(columns or ())))
        chosen = None if columns is None else {*columns, *self._keys}
        self.columns = Schema(tuple(one for one in known.columns if chosen is None or one.name in chosen))

    def of(self, wanted: Sequence[Step]) -> DataFrame:
        """The changes of all of `wanted`, with their columns and `PLACE` behind those of the table.

        The ordinal of a change is the number of its step.
        """
        frames = [self._run(wanted, run) for run in runs(wanted)] or [self._inserted([])]
        return reduce(lambda one, other: one.unionByName(other), frames)

    @property
    def _spark(self) -> SparkSession:
        assert self._session is not None, "no Spark session was given"
        return self._session

    def rows(self, tasks: Iterable[Task], *names: str) -> DataFrame:
        """The live rows of files, and what of `names` Iceberg knows of each."""
        return self._view.rows(self._spark, tasks, *names)

    def files(self, step: Step) -> Plan:
        """The files of which a step is to read some, where its rows are those of files; raises UsageError."""
        if step.is_state:
            return self._view.plan(step.snapshot.id)
        self._check_parent(step)
        return self.added(step.snapshot)

    def added(self, snapshot: Snapshot) -> Plan:
        """The files that a snapshot has added, which takes nothing away."""
        if snapshot.operation == "append":
            return self._view.appended(snapshot.id)
        return files.by_location(self.touched(snapshot.parent, snapshot.id).added)

    def touched(self, old: int | None, new: int | None) -> Touched:
        """The files in which two snapshots differ."""
        return files.compare(self._view.plan(old), self._view.plan(new))

    def between(self, old: int | None, new: int | None) -> DataFrame:
        """The difference of two snapshots, as if the second one had been made of the first."""
        return self._told(self.touched(old, new), ordinal=0, snapshot=new)

    def tasks(self, step: Step) -> list[Task]:
        """The files that a step is to read, where its rows are those of files; raises UsageError."""
        return step.mine(self.files(step).values())

    def _run(self, wanted: Sequence[Step], run: Sequence[int]) -> DataFrame:
        step = wanted[run[0]]
        if step.is_files:
            return self._inserted(
                [(number, wanted[number], task) for number in run for task in self.tasks(wanted[number])]
            )
        self._check_parent(step)
        found = self.touched(step.snapshot.parent, step.snapshot.id)
        return self._told(found, run[0], step.snapshot.id)

    def _check_parent(self, step: Step) -> None:
        """Raise UsageError where the files before a snapshot are needed and it was expired."""
        parent = step.snapshot.parent
        if step.needs_parent and parent is not None and parent not in self._history.by_id:
            raise UsageError(expired_before(self._history.table, step.snapshot))

    def _inserted(self, tasks: Sequence[tuple[int, Step, Task]]) -> DataFrame:
        """The rows of files that are new, of whichever snapshots, as one scan."""
        from pyspark.sql import functions as f

        rows = self.rows((task for _, _, task in tasks), FILE, POSITION)
        numbered = [
            (task.location, number, ordinal, step.snapshot.id)
            for number, (ordinal, step, task) in enumerate(tasks)
        ]
        about = self._spark.createDataFrame(
            numbered, f"{FILE} STRING, {_NUMBER} BIGINT, {_ORDINAL} INT, {_SNAPSHOT} BIGINT"
        )
        joined = rows.join(f.broadcast(about), FILE)
        place = f.shiftleft(f.col(_NUMBER), _PLACE_BITS).bitwiseOR(f.col(POSITION))
        return joined.select(
            *(f.col(quoted(name)) for name in self.columns.names),
            f.lit(multiset.INSERT).alias(TYPE),
            f.col(_ORDINAL).alias(ORDINAL),
            f.col(_SNAPSHOT).alias(SNAPSHOT),
            place.alias(PLACE),
        )

    def _told(self, touched: Touched, ordinal: int, snapshot: int | None) -> DataFrame:
        from pyspark.sql import functions as f

        old = _together([*self._live(touched.removed), *self._lost(touched.changed)])
        new = _together([*self._live(touched.added), *self._found(touched.changed)])
        if old is None and new is None:
            new = self.rows(())
        net = multiset.difference(old, new, self.columns, TYPE)
        if old is not None and new is not None:
            net = multiset.paired(net, self._keys, self.columns, TYPE)
        return net.select(
            "*",
            f.lit(ordinal).cast("int").alias(ORDINAL),
            f.lit(snapshot).cast("bigint").alias(SNAPSHOT),
            f.lit(0).cast("bigint").alias(PLACE),
        )

    def _live(self, tasks: Sequence[Task]) -> list[DataFrame]:
        return [self.rows(tasks)] if tasks else []

    def _lost(self, pairs: Sequence[Pair]) -> list[DataFrame]:
        """Rows that are deleted now and were not."""
        gone = [pair for pair in pairs if pair.after.deletes]
        return self._only([pair.after for pair in gone], [pair.before for pair in gone])

    def _found(self, pairs: Sequence[Pair]) -> list[DataFrame]:
        """Rows that were deleted and are not any more."""
        back = [pair for pair in pairs if pair.may_bring_back]
        return self._only([pair.before for pair in back], [pair.after for pair in back])

    def _only(self, tasks: Sequence[Task], others: Sequence[Task]) -> list[DataFrame]:
        """The deleted rows of `tasks` that are not deleted in `others`, the same files with other deletes."""
        from pyspark.sql import functions as f

        if not tasks:
            return []
        rows = self.rows(tasks, FILE, POSITION, DELETED).where(f.col(DELETED)).drop(DELETED)
        # Who writes few rows does it with one task, which would have to read all of the files alone.
        rows = rows.repartition(self._spark.sparkContext.defaultParallelism)
        known = [task for task in others if task.deletes]
        if known:
            places = self.rows(known, FILE, POSITION, DELETED).where(f.col(DELETED))
            rows = rows.join(places.select(FILE, POSITION), [FILE, POSITION], "left_anti")
        return [rows.select(*(f.col(quoted(name)) for name in self.columns.names))]


def changes_between(
    spark: SparkSession,
    table: Table,
    after: int | None,
    to: int | None = None,
    *,
    keys: Sequence[str] | None = None,
    branch: str = "main",
    columns: Sequence[str] | None = None,
    where: str | None = None,
) -> DataFrame:
    """What the snapshots behind `after`, up to and with `to`, changed; by default, to the end of `branch`.

    Its columns are those of the last snapshot, or `columns` of them, which alone are compared, and
    `_change_type` (insert, delete, update_before or update_after), `_change_ordinal` and
    `_commit_snapshot_id`. A delete and an insert of one snapshot are an update where they have the same
    `keys`. Raises UsageError.
    """
    history = table.refresh().history(str(table.name))
    end = history.head(branch) if to is None else to
    found = [] if end is None else travel.between(history, after, end)
    view = View(table, None if end is None else history.snapshot(end), where=where)
    changes = Changes(spark, view, history, keys, columns)
    return _shown(changes.of([Step(one) for one in found if is_change(one)]), changes.columns, columns)


def difference(
    spark: SparkSession,
    table: Table,
    old: int | None,
    new: int | None,
    *,
    keys: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    where: str | None = None,
) -> DataFrame:
    """The rows in which two snapshots differ, whichever way led from one to the other, as one change set.

    None stands for a table without rows. Its columns are those of `new`. Raises UsageError.
    """
    history = table.refresh().history(str(table.name))
    shape = [history.snapshot(one) for one in (old, new) if one is not None]
    view = View(table, shape[-1] if shape else None, where=where)
    changes = Changes(spark, view, history, keys, columns)
    return _shown(changes.between(old, new), changes.columns, columns)


def touched(
    spark: SparkSession, table: Table, old: int | None, new: int | None, where: str | None = None
) -> Touched:
    """The data files in which two snapshots differ. Raises UsageError."""
    history = table.refresh().history(str(table.name))
    shape = [history.snapshot(one) for one in (old, new) if one is not None]
    view = View(table, shape[-1] if shape else None, where=where)
    return Changes(spark, view, history).touched(old, new)


def _shown(frame: DataFrame, known: Schema, columns: Sequence[str] | None) -> DataFrame:
    return frame.select(*map(quoted, columns or known.names), TYPE, ORDINAL, SNAPSHOT)


def refuse_unknown(table: str, known: Schema, names: Iterable[str]) -> None:
    """Raise UsageError where the table has no column of one of `names`."""
    for name in names:
        if name not in known.names:
            raise UsageError(
                f"Cannot read table '{table}': it has no column '{name}'{suggestion(name, known.names)}"
            )


def _refuse_columns(table: str, known: Schema, keys: Sequence[str]) -> None:
    refuse_unknown(table, known, keys)
    own = (TYPE, ORDINAL, SNAPSHOT)
    for name in known.names:
        if name.lower() in own:
            why = f"column '{name}': every change has a column of this name"
            raise UsageError(f"Cannot tell what changed in table '{table}': {why}")


def _together(frames: Sequence[DataFrame]) -> DataFrame | None:
    return reduce(lambda one, other: one.unionByName(other), frames) if frames else None
