"""Tables for programs: their snapshots, their rows at any of them, and what changed in between."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, get_args

from calve import schema as schemas
from calve.api import arguments, evolving
from calve.decode.arrow import schema_of_arrow
from calve.errors import UsageError
from calve.gateway import activate
from calve.iceberg import changeset, expire, states, travel
from calve.iceberg.table import Table as Connection
from calve.iceberg.travel import History, Snapshot, Version
from calve.patience import Patience
from calve.runtime import versions
from calve.schema import Change, Schema, SchemaError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

RETRY_FOR = 600.0

Time = str | dt.datetime
"""A point in time: a datetime, or text such as `2026-11-15 10:00:00`; without a zone it is UTC."""


class Table:
    """An Iceberg table. Each call sees the table as it is at that moment."""

    def __init__(self, spark: SparkSession, table: Connection) -> None:
        self._spark = spark
        self._table = table

    @property
    def name(self) -> str:
        """The name with the namespace."""
        return str(self._table.name)

    def __repr__(self) -> str:
        return f"<table '{self.name}'>"

    def snapshots(self) -> tuple[Snapshot, ...]:
        """All retained snapshots, oldest first.

        >>> [snapshot.operation for snapshot in orders.snapshots()]
        ['append', 'append']
        """
        return self._history().snapshots

    def current_snapshot(self, branch: str = "main") -> Snapshot | None:
        """The newest snapshot of `branch`; None while the table has none."""
        return travel.resolve(self._history(), Version(branch=branch))

    def snapshot_by_id(self, snapshot_id: int) -> Snapshot:
        """The snapshot with that id; raises UsageError where there is none, as after its expiry."""
        return self._history().snapshot(self._id(snapshot_id))

    def snapshot_at(self, timestamp: Time, branch: str = "main") -> Snapshot:
        """The snapshot that was the newest of `branch` at that time; raises UsageError where none was.

        >>> orders.snapshot_at(dt.datetime.now(dt.timezone.utc)) == orders.current_snapshot()
        True
        """
        found = travel.resolve(self._history(), Version(timestamp=self._time(timestamp), branch=branch))
        assert found is not None
        return found

    def read(self, *, columns: Sequence[str] | None = None, where: str | None = None) -> DataFrame:
        """The rows as they are now; `where` is a predicate of SQL, by which files are left out.

        >>> orders.read(where="id < 3").count()
        2
        """
        return self._state(self.current_snapshot(), columns, where, as_now=True)

    def as_of_version(
        self, version: int | str, *, columns: Sequence[str] | None = None, where: str | None = None
    ) -> DataFrame:
        """The rows at a snapshot, given by its id or by the name of a tag or branch.

        >>> first = orders.snapshots()[0]
        >>> orders.as_of_version(first.id).count()
        2
        """
        history = self._history()
        by_ref = versions.of_ref(history, version) if isinstance(version, str) else None
        found = travel.resolve(history, by_ref or Version(snapshot_id=self._id(version)))
        return self._state(found, columns, where)

    def as_of_timestamp(
        self, timestamp: Time, *, columns: Sequence[str] | None = None, where: str | None = None
    ) -> DataFrame:
        """The rows as they were at that time.

        >>> orders.as_of_timestamp("2000-01-01 00:00:00")
        Traceback (most recent call last):
        calve.errors.UsageError: Cannot read table 'shop.orders' at 2000-01-01 00:00:00.000 UTC: ...
        """
        return self._state(self.snapshot_at(timestamp), columns, where)

    def changes_between(
        self,
        from_snapshot: int | None,
        to_snapshot: int | None = None,
        *,
        keys: Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        where: str | None = None,
    ) -> DataFrame:
        """What changed behind `from_snapshot`, up to and including `to_snapshot`, or the newest.

        The columns of the table, `_change_type` (insert, delete, update_before or update_after),
        `_change_ordinal` (the number of the snapshot, from 0) and `_commit_snapshot_id`. None begins before
        the first snapshot. `keys` tell which rows are two sides of an update; left out, the identifier fields
        of the table do.

        >>> first, last = orders.snapshots()
        >>> [(row.id, row._change_type) for row in orders.changes_between(first.id, last.id).collect()]
        [(3, 'insert')]
        """
        for snapshot in (from_snapshot, to_snapshot):
            if snapshot is not None:
                self._id(snapshot)
        activate(self._spark)
        return changeset.changes_between(
            self._spark, self._table, from_snapshot, to_snapshot, keys=keys, columns=columns, where=where
        )

    def schema(self) -> Schema:
        """The columns as they are now.

        >>> orders.schema().ddl()
        'id BIGINT NOT NULL, name STRING'
        """
        return self._table.refresh().schema()

    def evolve(self, *changes: Change, to: str | Schema | pa.Schema | None = None) -> Schema:
        """Change the columns by `changes`, or so that they are those of `to`; all at once, or not at all.

        Returns the columns as they are then. Raises UsageError where the table cannot be changed so.

        >>> orders.evolve(calve.AddColumn((), calve.Column("note", calve.Primitive("string")))).names
        ('id', 'name', 'note')
        >>> orders.evolve(to="id BIGINT NOT NULL, name STRING").names
        ('id', 'name')
        """
        if (to is None) == (not changes):
            raise UsageError(f"Cannot change table '{self.name}': give either changes or 'to'")
        what = f"change table '{self.name}'"
        for change in changes:
            if not isinstance(change, get_args(Change)):
                raise UsageError(f"Cannot {what}: {change!r} is not a change, such as calve.AddColumn")
        decide = evolving.making(changes) if to is None else evolving.towards(schema_for(to, what))
        return evolving.evolved(self._table, decide, Patience(RETRY_FOR))

    def expire_snapshots(
        self,
        older_than: Time,
        *,
        retain_last: int = 1,
        keep: Collection[int] = (),
        dry_run: bool = False,
    ) -> list[int]:
        """Forget snapshots that are older, and delete the files that only they had; returns their ids.

        Never those that a branch or tag names, the last `retain_last` of each branch, those whose commits the
        marks of sinks name, and those in `keep`, such as where a pipeline stands that reads this table.

        >>> orders.expire_snapshots("2000-01-01")
        []
        """
        what = f"expire snapshots of table '{self.name}'"
        arguments.whole(retain_last, what, "'retain_last' is at least 1", least=1)
        before = travel.millis(self._time(older_than))
        metadata = self._table.refresh()
        history = metadata.history(self.name)
        kept = {*keep, *expire.marked(history, metadata.properties())}
        found = expire.expirable(history, before, retain_last, kept)
        if found and not dry_run:
            expire.expire(self._table, found)
        return found

    def _history(self) -> History:
        activate(self._spark)
        return self._table.refresh().history(self.name)

    def _state(
        self,
        snapshot: Snapshot | None,
        columns: Sequence[str] | None,
        where: str | None,
        as_now: bool = False,
    ) -> DataFrame:
        number = None if snapshot is None else snapshot.id
        if number is None:
            return self._nothing(columns)
        return states.state(self._spark, self._table, number, columns, where, as_now)

    def _nothing(self, columns: Sequence[str] | None) -> DataFrame:
        """No rows, of a table that has no snapshot yet."""
        from pyspark.sql.types import StructType

        empty = self._spark.createDataFrame([], StructType.fromJson(self.schema().to_spark_json()))
        return empty.select(*columns) if columns else empty

    def _time(self, timestamp: Time) -> dt.datetime:
        if isinstance(timestamp, dt.datetime):
            return timestamp
        advice = "give a datetime, or text such as '2026-11-15 10:00:00'"
        arguments.text(timestamp, f"read table '{self.name}' at a time", advice)
        try:
            return travel.parse_timestamp(timestamp)
        except ValueError as error:
            raise UsageError(f"Cannot read table '{self.name}' at '{timestamp}': {error}") from None

    def _id(self, snapshot: object) -> int:
        advice = "give the id of a snapshot, or the name of a tag or branch"
        return arguments.whole(snapshot, f"read table '{self.name}' at a snapshot", advice)


def schema_for(columns: object, what: str) -> Schema:
    """The schema that DDL, one of Arrow's or one of ours stands for; raises UsageError: "Cannot <what>"."""
    import pyarrow as pa

    if isinstance(columns, Schema):
        return columns
    if not isinstance(columns, (str, pa.Schema)):
        advice = "give DDL, a schema of Arrow's or one of Calve's"
        raise UsageError(f"Cannot {what}: {type(columns).__name__} is not a schema; {advice}")
    try:
        return schemas.parse(columns) if isinstance(columns, str) else schema_of_arrow(columns)
    except SchemaError as error:
        raise UsageError(f"Cannot {what}: {error}") from None
