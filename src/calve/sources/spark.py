"""What only Structured Streaming reads: any streaming source that Spark has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import Field

from calve.errors import ConfigurationError
from calve.gateway import translated
from calve.model import Flaw, Location, SecretText
from calve.position import Position
from calve.schema import Schema
from calve.sources.declared import Declared
from calve.sources.source import Limits, Source, Waiting

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_OWNED = {
    "path": "use 'path'",
    "checkpointlocation": "use 'checkpoint'",
}
_JARS = {"kafka": ("kafka",), "avro": ("avro",)}


class SparkSource(Source):
    """A streaming source of Spark's own, run by Structured Streaming, where transforms may keep state."""

    connector: ClassVar[str] = "spark"
    is_streaming: ClassVar[bool] = True

    format: Annotated[str, Field(min_length=1)] | None = None
    """The name that Spark knows the source by, such as `rate`, `kafka`, `json` or `socket`."""

    table: Annotated[str, Field(min_length=1)] | None = None
    """A table of the sink's catalog, such as `shop.orders`, to which rows are only added; instead of
    `format`."""

    path: Location | None = None
    """The directory that is read, for formats that read files."""

    options: dict[str, SecretText] = Field(default_factory=dict)
    """The options of the source, passed on as they are, such as `maxFilesPerTrigger`."""

    schema_: Declared | None = Field(default=None, alias="schema")
    """The columns, as DDL, for formats that need to be told them, such as `json`."""

    checkpoint: Location
    """The directory in which Spark keeps how far it read and the state of transforms: durable, and of this
    source alone. A table whose rows came from another checkpoint is refused."""

    @property
    def jars(self) -> tuple[str, ...]:  # type: ignore[override]
        return _JARS.get((self.format or "").lower(), ())

    def flaws(self) -> list[Flaw]:
        found = [
            Flaw(("options", name), f"cannot be set here: {_OWNED[name.lower()]}")
            for name in self.options
            if name.lower() in _OWNED
        ]
        if self.table is None:
            return found if self.format else [*found, Flaw((), "needs 'format' or 'table'")]
        beside = {"format": self.format, "path": self.path, "schema": self.schema_}
        return [*found, *(_beside(key) for key, value in beside.items() if value is not None)]

    def columns(self) -> Schema | None:
        return self.schema_

    @property
    def says_columns(self) -> bool:
        return True

    def identity(self) -> str:
        return f"spark:{self.checkpoint}"

    def start(self) -> Position:
        """Nothing is known of a checkpoint: the first batch that comes is taken, whatever its number."""
        return {"checkpoint": None, "batch": -1}

    def latest(self, after: Position, limits: Limits) -> Waiting:
        """Only Spark knows what is there; here a position is looked at and found sound."""
        int(after["batch"])
        return Waiting(after, 0)

    def read(self, spark: SparkSession, after: Position, to: Position) -> DataFrame:
        raise ConfigurationError(
            "Cannot read connector 'spark' between two positions: Structured Streaming numbers its batches"
        )

    def stream(self, spark: SparkSession) -> DataFrame:
        """The rows as a DataFrame that streams."""
        options = {name: value.reveal() for name, value in self.options.items()}
        reader = spark.readStream.options(**options)
        with translated(f"open {self._told()} as a stream"):
            if self.table is not None:
                return reader.table(self.table)
            if self.schema_ is not None:
                reader = reader.schema(self.schema_.ddl())
            return reader.format(str(self.format)).load(self.path)

    def _told(self) -> str:
        return f"table '{self.table}'" if self.table else f"format '{self.format}'"

    def check(self) -> list[str]:
        from pyspark.sql import SparkSession

        spark = SparkSession.getActiveSession()
        if spark is None or self.table is not None:
            return [f"{self._told()} is opened when a pipeline runs"]
        return [f"{self._told()} with columns {', '.join(self.stream(spark).columns)}"]


def _beside(key: str) -> Flaw:
    return Flaw((key,), "has no effect beside 'table'")
