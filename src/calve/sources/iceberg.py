"""Iceberg tables as a source."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, PrivateAttr

from calve import changes
from calve.catalogs import Catalog
from calve.catalogs.placed import Placed
from calve.errors import ConfigurationError, StartRefused, UsageError
from calve.iceberg import travel
from calve.iceberg.catalog import Catalog as Opener
from calve.iceberg.changeset import ORDINAL, PLACE, TYPE, Changes
from calve.iceberg.files import Task
from calve.iceberg.multiset import AFTER, BEFORE, DELETE
from calve.iceberg.name import TableName, quoted
from calve.iceberg.steps import Step
from calve.iceberg.table import Table
from calve.iceberg.travel import Break, History, Snapshot, Version
from calve.iceberg.view import FILE, POSITION, Held, View
from calve.model import Branch, Duration, Flaw, Namespace, suggestion
from calve.model import TableName as Name
from calve.position import Position
from calve.schema import Schema
from calve.sources import columnar, iceberg_position
from calve.sources.iceberg_position import Taken
from calve.sources.source import Limits, Source, Waiting, refuse_clashes

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


_ONCE = ("batch", "snapshot")
_TRAVEL = ("snapshot_id", "timestamp", "tag")
_NUMBER, _SEQUENCE, _TIME = "_calve_number", "_calve_sequence", "_calve_time"


def _time(value: Any) -> dt.datetime:
    if isinstance(value, dt.datetime):
        return value if value.tzinfo is not None else value.replace(tzinfo=dt.timezone.utc)
    if not isinstance(value, (str, dt.date)):
        raise ValueError("not a time; write it as 2026-11-15 10:00:00")
    return travel.parse_timestamp(str(value))


Time = Annotated[dt.datetime, BeforeValidator(_time, json_schema_input_type=str)]
ColumnName = Annotated[str, Field(min_length=1)]


@dataclass
class _Opened:
    """The table as it was when it was last asked, and what was planned of it."""

    table: Table
    history: History
    asked: float
    planned: dict[tuple[int, bool], list[Task]] = field(default_factory=dict)


class IcebergSource(Placed, Source):
    """Rows of an Apache Iceberg table: as it is, as it was, as rows are added, or every change of them."""

    connector: ClassVar[str] = "iceberg"
    start_key: ClassVar[str] = "start_snapshot"

    namespace: Namespace
    """The namespace of the table. Levels are divided by dots."""

    table: Name
    """The name of the table."""

    branch: Branch = "main"
    """The branch of the table to read."""

    read_mode: Literal["batch", "snapshot", "incremental", "changes"] = "batch"
    """What is read: the table as it is, once (`batch`); as it was, once (`snapshot`, with `snapshot_id`,
    `timestamp` or `tag`); rows that are appended (`incremental`); or what each snapshot inserts, updates and
    deletes (`changes`)."""

    snapshot_id: int | None = Field(default=None, ge=0)
    """The snapshot that `read_mode: snapshot` reads."""

    timestamp: Time | None = None
    """The time as of which `read_mode: snapshot` reads, such as `2026-11-15 10:00:00` or
    `2026-11-15T10:00:00+01:00`. Without a zone it is UTC, which is what every session of Calve has."""

    tag: Branch | None = None
    """The tag that `read_mode: snapshot` reads."""

    start_snapshot: Annotated[int, Field(ge=0)] | Literal["current", "earliest", "full"] = "current"
    """Where `incremental` and `changes` begin with a new table: behind the snapshot that is `current`, behind
    a snapshot by its id, with all rows of the oldest snapshot that is left (`earliest`), or with all rows
    that there are now (`full`); then what follows."""

    poll_interval: Duration = 60.0
    """How often the table is asked for new snapshots, such as `60s`."""

    partition_filter: Annotated[str, Field(min_length=1)] | None = None
    """Rows to read, as a predicate of SQL such as `year = 2026 AND month = 10`. Files and partitions in
    which no row can satisfy it are not opened."""

    columns_: list[ColumnName] = Field(default_factory=list, alias="columns")
    """The columns to read, by name. Left out: all of them."""

    key_fields: list[ColumnName] = Field(default_factory=list)
    """The columns by which `read_mode: changes` knows that a delete and an insert are an update. Left out:
    the identifier fields of the table."""

    batch_size: int | None = Field(default=None, ge=1)
    """How many rows a batch takes at the most, in whole files. Left out: as many as the sink takes."""

    files_per_batch: int = Field(default=1000, ge=1, le=100_000)
    """How many files a batch takes at the most."""

    _opened: _Opened | None = PrivateAttr(default=None)
    _columns: Schema | None = PrivateAttr(default=None)
    _held: Held | None = PrivateAttr(default=None)

    @property
    def jars(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.catalog.jars

    @property
    def catalogs(self) -> tuple[Catalog, ...]:
        return (self.catalog,)

    @property
    def table_read(self) -> tuple[str, str, str] | None:
        return self.catalog.spark_name(), self.namespace, self.table

    def flaws(self) -> list[Flaw]:
        return [
            *self.place_flaws(),
            *self._travel_flaws(),
            *self._useless("start_snapshot", "poll_interval", unless=self.read_mode not in _ONCE),
            *self._useless("key_fields", unless=self.read_mode == "changes"),
            *self._repeated("columns", self.columns_),
            *self._repeated("key_fields", self.key_fields),
        ]

    def _travel_flaws(self) -> list[Flaw]:
        given = [name for name in _TRAVEL if getattr(self, name) is not None]
        if self.read_mode != "snapshot":
            why = f"has no effect with 'read_mode: {self.read_mode}'"
            return [Flaw((name,), f"{why}; set 'read_mode: snapshot'") for name in given]
        named = [*given, *(["branch"] if self.branch != "main" else [])]
        if not named:
            why = "'read_mode: snapshot' needs 'snapshot_id', 'timestamp', 'tag' or 'branch'"
            return [Flaw(("read_mode",), why)]
        if len(given) > 1 or (len(named) > 1 and given != ["timestamp"]):
            return [Flaw((named[-1],), f"stands beside '{named[0]}'; keep one of the two")]
        return []

    def _useless(self, *names: str, unless: bool) -> list[Flaw]:
        why = f"has no effect with 'read_mode: {self.read_mode}'"
        return [] if unless else [Flaw((name,), why) for name in names if name in self.model_fields_set]

    def _repeated(self, key: str, names: Sequence[str]) -> list[Flaw]:
        again = [index for index, name in enumerate(names) if name in names[:index]]
        return [Flaw((key, index), f"names column '{names[index]}' again") for index in again]

    @property
    def name(self) -> TableName:
        """The table that is read."""
        return TableName(self.catalog.spark_name(), tuple(self.namespace.split(".")), self.table)

    @property
    def carries_changes(self) -> bool:
        return self.read_mode == "changes"

    def columns(self) -> Schema | None:
        return self._columns

    @property
    def says_columns(self) -> bool:
        return True

    def identity(self) -> str:
        opened = self._open()
        self._check_names(opened, self._declared_state(opened.history))
        return _identity(opened.history, self.branch)

    @property
    def start_moves(self) -> bool:
        return self.read_mode not in _ONCE and self.start_snapshot == "current"

    def start(self) -> Position:
        history = self._asked().history
        if self.read_mode in _ONCE:
            found = self._declared_state(history)
            return iceberg_position.before_state(found.id if found else None)
        head = self._head(history)
        if self.start_snapshot == "current":
            return iceberg_position.at(head)
        if self.start_snapshot == "full":
            return iceberg_position.before_state(head)
        if self.start_snapshot == "earliest":
            oldest = history.oldest(self.branch)
            return iceberg_position.before_state(oldest.id if oldest else None)
        self._check_start(history, self.start_snapshot, head)
        return iceberg_position.at(self.start_snapshot)

    def latest(self, after: Position, limits: Limits) -> Waiting:
        iceberg_position.check(after)
        opened = self._asked()
        bounded = self.read_mode in _ONCE
        end = iceberg_position.at(after["snapshot"] if bounded else self._head(opened.history))
        found = iceberg_position.steps(after, end, opened.history)
        self._refuse(found, opened.history)
        rows = min(limits.rows, self.batch_size or limits.rows)
        taken = self._taken(opened, after, found, end, rows)
        if bounded:
            return Waiting(taken.to, taken.rows, taken.bytes, taken.more, ended=not taken.more)
        # A table may expire the snapshot that a position stands at, also if those behind it have no rows.
        keep = taken.rows == 0 and taken.to != after
        return Waiting(taken.to, 1 if keep else taken.rows, taken.bytes, taken.more, keep=keep)

    def _taken(
        self, opened: _Opened, after: Position, found: Sequence[Step], end: Position, rows: int
    ) -> Taken:
        """How far a batch goes; what was planned for it is kept, for it is asked for again and again."""
        wanted = {(step.snapshot.id, step.is_state) for step in found}
        made: list[Changes] = []
        opened.planned = {key: tasks for key, tasks in opened.planned.items() if key in wanted}

        def planned(step: Step) -> Sequence[Task]:
            key = (step.snapshot.id, step.is_state)
            if key not in opened.planned:
                made.extend([] if made else [self._changes(None, opened, None)])
                opened.planned[key] = list(made[0].files(step).values())
            return opened.planned[key]

        return iceberg_position.take(after, found, end, planned, rows, self.files_per_batch)

    def _refuse(self, found: Sequence[Step], history: History) -> None:
        if self.read_mode == "incremental":
            iceberg_position.refuse_changes(found, history)
        iceberg_position.refuse_lost(found, history)

    def read(self, spark: SparkSession, after: Position, to: Position) -> DataFrame:
        if self.carries_changes:
            return self.read_changes(spark, after, to).drop(*changes.NAMES)
        made, found = self._begun(spark, after, to)
        tasks = [task for step in found for task in made.tasks(step)]
        return made.rows(tasks).select(*map(quoted, self._names()))

    def read_changes(self, spark: SparkSession, after: Position, to: Position) -> DataFrame:
        made, found = self._begun(spark, after, to)
        refuse_clashes(self._known())
        if self.carries_changes:
            return self._as_changes(spark, made.of(found), found)
        tasks = [task for step in found for task in made.tasks(step)]
        return self._as_upserts(spark, made, tasks)

    def _as_upserts(self, spark: SparkSession, made: Changes, tasks: Sequence[Task]) -> DataFrame:
        """Rows in the order of their files, of which those of a later snapshot come later."""
        from pyspark.sql import functions as f

        numbers = [(task.location, number) for number, task in enumerate(tasks)]
        about = spark.createDataFrame(numbers, f"{FILE} STRING, {_NUMBER} BIGINT")
        rows = made.rows(tasks, FILE, POSITION).join(f.broadcast(about), FILE)
        told = columnar.change_columns(f.lit(changes.UPDATE), f.col(_NUMBER), f.col(POSITION))
        return rows.select(*map(quoted, self._names()), *told)

    def _as_changes(self, spark: SparkSession, frame: DataFrame, found: Sequence[Step]) -> DataFrame:
        """Changes by their operations; of one snapshot, rows are first taken away and then put in."""
        from pyspark.sql import functions as f

        sequences = [
            (number, step.snapshot.sequence or None, step.snapshot.committed_ms)
            for number, step in enumerate(found)
        ]
        about = spark.createDataFrame(sequences, f"{ORDINAL} INT, {_SEQUENCE} BIGINT, {_TIME} BIGINT")
        kept = frame.where(f.col(TYPE) != BEFORE).join(f.broadcast(about), ORDINAL)
        word = (
            f.when(f.col(TYPE) == DELETE, changes.DELETE)
            .when(f.col(TYPE) == AFTER, changes.UPDATE)
            .otherwise(changes.INSERT)
        )
        return kept.select(
            *map(quoted, self._names()),
            word.alias(changes.OPERATION),
            _order().alias(changes.ORDER),
            f.timestamp_millis(f.col(_TIME)).alias(changes.TIME),
            f.lit(None).cast("array<string>").alias(changes.UNKNOWN),
        )

    def _begun(self, spark: SparkSession, after: Position, to: Position) -> tuple[Changes, list[Step]]:
        """What reads the rows of a batch, in the columns of its last snapshot, and what there is to read."""

        opened = self._opened or self._open()
        if to["snapshot"] is not None and to["snapshot"] not in opened.history.by_id:
            opened = self._open()
        found = iceberg_position.steps(after, to, opened.history)
        self._refuse(found, opened.history)
        if self._held is not None:
            self._held.release()
        self._held = Held()
        shape = opened.history.by_id.get(to["snapshot"])
        self._refuse_exchanged(opened, after, shape)
        self._columns = self._projected(opened, shape)
        return self._changes(spark, opened, shape), found

    def _refuse_exchanged(self, opened: _Opened, after: Position, shape: Snapshot | None) -> None:
        """Refuse to go on where a name stands for another column than in the rows that were read before."""
        before = opened.history.by_id.get(after["snapshot"])
        if before is None or shape is None or before.schema == shape.schema or after.get("state"):
            return
        wanted = self.columns_ or None
        for name in View(opened.table, shape).exchanged_since(before):
            if wanted is None or name.split(".")[0] in wanted:
                raise StartRefused(
                    f"Cannot go on with table '{self.name}': column '{name}' is another one than at snapshot "
                    f"{before.told()}, it was dropped and added again or took the name of another",
                    decision="--restart-from full",
                )

    def _changes(self, spark: SparkSession | None, opened: _Opened, shape: Snapshot | None) -> Changes:

        view = View(opened.table, shape, self._held, self.partition_filter)
        known = view.columns.names
        keys = [name for name in self.key_fields if name in known] if self.key_fields else None
        chosen = [name for name in self.columns_ if name in known] if self.columns_ else None
        return Changes(spark, view, opened.history, keys, chosen)

    def acknowledge(self, position: Position) -> None:
        if self._held is not None:
            self._held.release()

    def check(self) -> list[str]:
        self.identity()
        opened = self._opened or self._open()
        found = self._declared_state(opened.history)
        rows = (
            f", {found.summary['total-records']} rows" if found and "total-records" in found.summary else ""
        )
        at = f"at snapshot {found.told()}{rows}" if found else "without a snapshot"
        return [f"table '{self.name}': {len(opened.history.snapshots)} snapshots, read {at}"]

    def _names(self) -> tuple[str, ...]:
        return self._known().names

    def _known(self) -> Schema:
        assert self._columns is not None, "the table was not asked for its columns"
        return self._columns

    def _projected(self, opened: _Opened, shape: Snapshot | None) -> Schema:
        """The columns of `shape` that are read; one that came later is not there yet."""

        known = View(opened.table, shape).named_columns
        wanted = self.columns_ or known.names
        return Schema(tuple(one for one in (known.column(name) for name in wanted) if one is not None))

    def _check_names(self, opened: _Opened, shape: Snapshot | None) -> None:

        view = View(opened.table, shape, None, self.partition_filter)
        known = view.columns.names
        for key, names in (("columns", self.columns_), ("key_fields", self.key_fields)):
            for name in names:
                if name not in known:
                    why = f"it has no column '{name}', which '{key}' names{suggestion(name, known)}"
                    raise ConfigurationError(f"Cannot read table '{self.name}': {why}")
        if not view.is_pushed():
            raise ConfigurationError(
                f"Cannot read table '{self.name}': partition_filter '{self.partition_filter}' cannot be used "
                "before rows are read; compare columns with values, as in year = 2026 AND month = 10"
            )

    def _declared_state(self, history: History) -> Snapshot | None:
        """The snapshot that the declaration reads, or begins to read."""
        branch = None if self.branch == "main" else self.branch
        version = Version(self.snapshot_id, self.timestamp, self.tag, branch)
        try:
            return travel.resolve(history, version)
        except UsageError as error:
            raise ConfigurationError(str(error)) from None

    def _head(self, history: History) -> int | None:
        try:
            return history.head(self.branch)
        except UsageError as error:
            raise ConfigurationError(str(error)) from None

    def _check_start(self, history: History, number: int, head: int | None) -> None:
        """Refuse a first snapshot that the branch does not have, or not any more."""
        found = travel.chain(history, number, head)
        if number in history.by_id and not isinstance(found, Break):
            return
        why = (
            "the branch did not come from it"
            if number in history.by_id
            else "it is not there, or was expired"
        )
        oldest = history.oldest(self.branch)
        left = f" ({oldest.told()})" if oldest else ""
        raise ConfigurationError(
            f"Cannot begin behind snapshot {number} of table '{self.name}': {why}; set 'start_snapshot' to "
            f"full (the table as it is now), earliest (the oldest snapshot that is left{left}), current, or "
            "the id of a snapshot that 'calve snapshots' lists"
        )

    def _asked(self) -> _Opened:
        """The table, asked again when `poll_interval` has passed."""
        opened = self._opened
        if opened is None:
            return self._open()
        if time.monotonic() - opened.asked >= self.poll_interval:
            history = opened.table.refresh().history(str(self.name))
            if history.uuid != opened.history.uuid:
                raise StartRefused(
                    f"Cannot go on with table '{self.name}': it was dropped and created again since the run "
                    "began",
                    decision="--restart-from full",
                )
            opened.history, opened.asked = history, time.monotonic()
        return opened

    def _open(self) -> _Opened:
        if self.catalog.type is None and not Path(str(self.catalog.warehouse), "catalog.db").exists():
            raise ConfigurationError(
                f"Cannot read table '{self.name}': there is no catalog in '{self.catalog.warehouse}'; "
                "nothing was written to it yet"
            )
        table = Opener(None, self.name.catalog, self.catalog.description()).load(self.name)
        history = table.metadata().history(str(self.name))
        self._opened = _Opened(table, history, time.monotonic())
        self._columns = self._projected(self._opened, self._declared_state(history))
        return self._opened


def _identity(history: History, branch: str) -> str:
    return f"iceberg:{history.uuid}" + ("" if branch == "main" else f":{branch}")


def _order() -> Column:
    from pyspark.sql import functions as f

    return f.struct(
        f.col(_SEQUENCE).alias("seq"),
        f.col(ORDINAL).cast("bigint").alias("lane"),
        f.col(PLACE).alias("at"),
        f.when(f.col(TYPE) == DELETE, 0).otherwise(1).alias("part"),
        f.lit(None).cast("bigint").alias("time"),
    )
