"""The contract of a source."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from calve import changes
from calve.catalogs import Catalog
from calve.errors import ConfigurationError, UsageError
from calve.model import Model
from calve.position import Position
from calve.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame, SparkSession

    from calve.decode.bad import Catch
    from calve.decode.undecoded import Undecoded


@dataclass(frozen=True)
class Limits:
    """How much further a batch may go at the most."""

    rows: int


@dataclass(frozen=True)
class Waiting:
    """What a source has behind a position: where a batch would end, and how much it would hold.

    `rows` and `bytes` are estimates that decide whether a commit is due; they never decide what is read.
    `more` tells that the limits cut it short, `ended` that a bounded source has nothing behind `to`, `keep`
    that the table is to remember `to` also if no row comes with it: the source may forget what is before it.
    """

    to: Position
    rows: int
    bytes: int = 0
    more: bool = False
    ended: bool = False
    keep: bool = False


class Source(Model, ABC):
    """Where rows come from.

    A pipeline's loop calls, one at a time and with a SparkSession alive: `identity` once at each start;
    `start` once in a table's life, when it has no mark; `latest` before each batch and at least once a
    second while idle; `read` or `read_changes` once a batch, and again with the same bounds after a failure;
    `acknowledge` after a commit, at least once for each position that was committed, and perhaps again.
    While a batch is committed and acknowledged, another thread may call `latest` and a reading for the next.

    `read` must give exactly the rows in (after, to], the same ones every time it is asked. An exception
    that is `retryable` is waited out up to `retry_for`; any other ends the pipeline with nothing committed.
    Not promised: that every position that `latest` gave is read, or that two calls come from one process.
    """

    connector: ClassVar[str]
    """The name by which declarations call this source."""

    jars: ClassVar[tuple[str, ...]] = ()
    """The components of `jars.lock` that reading needs."""

    start_key: ClassVar[str] = "start"
    """The key that says where a first read begins, if there is one."""

    has_streams: ClassVar[bool] = False
    """Whether its rows belong to streams with names of their own, such as topics."""

    is_streaming: ClassVar[bool] = False
    """Whether Structured Streaming reads it, and not a pipeline's loop; then there is `stream` as well."""

    @property
    def catalogs(self) -> tuple[Catalog, ...]:
        """The catalogs that the SparkSession has to know."""
        return ()

    @property
    def table_read(self) -> tuple[str, str, str] | None:
        """The catalog, namespace and name of the one table that is read, if it is one."""
        return None

    @abstractmethod
    def columns(self) -> Schema | None:
        """The schema of the rows, if the declaration alone tells it."""

    @property
    def says_columns(self) -> bool:
        """Whether the source itself says what its columns are, and not only the rows that are there."""
        return self.columns() is not None

    @abstractmethod
    def identity(self) -> str:
        """Which system this is: a position is only valid in the source that has the same identity."""

    @abstractmethod
    def start(self) -> Position:
        """The position before the first row that the declaration asks for."""

    @property
    def start_moves(self) -> bool:
        """Whether `start` may be another place later, as the end of a topic is.

        Then the first start has the table remember it, also if nothing is there to be read.
        """
        return False

    def before(self, start: Position, rows: int) -> Position | None:
        """A place about `rows` rows before `start`, if any are there: they may tell which columns come."""
        return None

    def without_lost(self, after: Position) -> Position:
        """`after`, moved as far as is needed where the source no longer has what follows it."""
        raise UsageError(
            f"Cannot accept a loss: connector '{self.connector}' has none to accept; see --restart-from"
        )

    def overlaps(self, position: Position) -> bool:
        """Whether `position`, one of the same identity, is about anything that the declaration reads."""
        return True

    @abstractmethod
    def latest(self, after: Position, limits: Limits) -> Waiting:
        """What is there behind `after`, at most `limits` of it. Cheap: no Spark job.

        Raises StartRefused when the source no longer has what follows `after`.
        """

    @abstractmethod
    def read(self, spark: SparkSession, after: Position, to: Position) -> DataFrame:
        """Exactly the rows in (after, to]; a bad record is an error."""

    @property
    def carries_changes(self) -> bool:
        """Whether the rows say what they do to the table; others are upserts, if changes are asked for."""
        return False

    def read_changes(self, spark: SparkSession, after: Position, to: Position) -> DataFrame:
        """The rows in (after, to] with the columns of `changes.COLUMNS`, in the same order every time."""
        raise ConfigurationError(
            f"Cannot read changes from connector '{self.connector}': it does not tell the order of its rows"
        )

    def order_warnings(self, position: Position) -> list[str]:
        """What to know where changes behind `position` are applied in the order in which they arrive."""
        return []

    def undecoded(
        self, spark: SparkSession, after: Position, to: Position, bad: Catch | None, *, as_changes: bool
    ) -> Undecoded | None:
        """What the other readings give, before it is made in Python workers; None where Spark makes it.

        Without `bad` a bad record is an error. Instead of another reading, and as often.
        """
        return None

    @property
    def decodes(self) -> bool:
        """Whether its rows are made in Python workers, so that `undecoded` gives them."""
        return False

    def warnings(self) -> list[str]:
        """What a user should know of how this is read, a line each."""
        return []

    workers_import: ClassVar[tuple[str, ...]] = ()
    """The modules that workers need for that, and that take long to import."""

    def stream(self, spark: SparkSession) -> DataFrame:
        """The rows as a DataFrame that streams, where `is_streaming`."""
        raise ConfigurationError(f"Cannot stream connector '{self.connector}': a pipeline's loop reads it")

    def streamed(self) -> Source:
        """The same source, whose rows tell their stream in the column `changes.STREAM`."""
        raise ConfigurationError(f"Cannot route rows by stream: connector '{self.connector}' has no streams")

    @property
    def catches(self) -> bool:
        """Whether bad records can be told from good ones: then there are the four that follow."""
        return False

    def read_good(
        self, spark: SparkSession, after: Position, to: Position, bad: Catch, *, as_changes: bool
    ) -> DataFrame:
        """What `read` or `read_changes` gives, without the bad records: `bad` is told of those."""
        raise self._catches_nothing()

    def read_bad(
        self, spark: SparkSession, after: Position, to: Position, bad: Catch, *, as_changes: bool
    ) -> DataFrame:
        """The bad records in (after, to], and nothing else, with the columns of `decode.bad.RECORD`."""
        raise self._catches_nothing()

    def read_again(
        self, spark: SparkSession, letters: DataFrame, bad: Catch, *, as_changes: bool
    ) -> DataFrame:
        """What `read_good` gives of `letters`, bad records of before, as `decode.bad.RECORD` has them."""
        raise self._catches_nothing()

    def is_inside(self, after: Position, to: Position, place: Expression) -> Expression:
        """Whether a bad record is in (after, to]; `place` is its position, as `decode.bad.RECORD` has it."""
        raise self._catches_nothing()

    def _catches_nothing(self) -> ConfigurationError:
        return ConfigurationError(f"Cannot tell bad records of connector '{self.connector}' from good ones")

    def expect(self, table: Schema, *, whole: bool = False, redirects: bool = False) -> None:
        """The table has these columns; a source that infers its own takes their types.

        `whole` tells that rows may have all of them: then it need not look at records before it reads them.
        A reading raises Unfit where a record has others. Where the table `redirects` values of another type
        to another column, a batch whose records agree on another type keeps that.
        """

    def look_closely(self, after: Position, to: Position) -> None:
        """The next reading of (after, to] is to go by the columns that its records have, all of them."""

    def acknowledge(self, position: Position) -> None:
        """Everything up to `position` is in the table; the source may forget it."""

    @abstractmethod
    def check(self) -> list[str]:
        """Reach the source; what was seen, a line each. Raises the error that says what is wrong."""


def with_changes(columns: Schema, *, carried: bool) -> Schema:
    """The columns of changes whose rows have `columns`; where they are carried, some rows have only a key."""
    refuse_clashes(columns)
    values = (replace(column, nullable=True) if carried else column for column in columns.columns)
    return Schema((*values, *changes.COLUMNS.columns))


def refuse_clashes(columns: Schema) -> None:
    """Raise ConfigurationError where a column has a name that only columns of ours may have."""
    for line in clashes(columns):
        raise ConfigurationError(f"Cannot read changes: {line}")


def clashes(columns: Schema) -> list[str]:
    """A line for each column that has a name that only columns of ours may have."""
    return changes.reserved(columns.names)
