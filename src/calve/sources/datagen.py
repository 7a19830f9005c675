"""Rows that are made up: the same seed makes the same rows, however often and wherever they are read."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field, PrivateAttr, model_validator

from calve import changes
from calve.gateway import ROWS_OF_A_TASK
from calve.position import Position
from calve.schema import Schema
from calve.sources.columnar import change_columns
from calve.sources.generators import (
    AnyGenerator,
    ChoiceGenerator,
    DecimalGenerator,
    Draw,
    Named,
    SequenceGenerator,
    StringGenerator,
    TimestampGenerator,
)
from calve.sources.source import Limits, Source, Waiting, refuse_clashes

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame, SparkSession

_BYTES_OF_A_FIELD = 12


def _orders() -> dict[str, AnyGenerator]:
    return {
        "id": SequenceGenerator(),
        "customer": StringGenerator(template="customer-{}", distinct=10_000),
        "status": ChoiceGenerator(values=["new", "paid", "shipped", "returned"], weights=[4, 3, 2, 1]),
        "amount": DecimalGenerator.model_validate({"min": 1, "max": 5000}),
        "region": ChoiceGenerator(values=["africa", "america", "asia", "europe", "oceania"]),
        "order_date": TimestampGenerator(),
    }


class DatagenSource(Source):
    """Generated rows, deterministic by `seed`."""

    connector: ClassVar[str] = "datagen"

    rows_per_second: int | None = Field(default=None, ge=1)
    """How many rows turn up in a second, the first second's at once.

    Left out: 1000, or all of them at once where `rows` is given. The pace begins anew with each start.
    """

    rows: int | None = Field(default=None, ge=0)
    """How many rows there are in all; endless when left out."""

    seed: int = 0
    """What the values are drawn from: the same seed gives the same rows."""

    fields: dict[str, Named] = Field(default_factory=_orders, min_length=1)
    """The columns: a name and its generator each. Default: orders of a shop."""

    _paced: tuple[int, float] | None = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _has_distinct_names(self) -> DatagenSource:
        if len({name.lower() for name in self.fields}) < len(self.fields):
            raise ValueError("two fields have the same name")
        return self

    def columns(self) -> Schema:
        return Schema(tuple(generator.column(name) for name, generator in self.fields.items()))

    def identity(self) -> str:
        return f"datagen:{self.seed}"

    def start(self) -> Position:
        return {"row": 0}

    def latest(self, after: Position, limits: Limits) -> Waiting:
        begin = _row(after)
        there = max(begin, self._there(begin))
        end = min(there, begin + limits.rows)
        count = end - begin
        size = count * len(self.fields) * _BYTES_OF_A_FIELD
        return Waiting(
            {"row": end}, count, size, more=end < there, ended=self.rows is not None and end >= self.rows
        )

    def _there(self, begin: int) -> int:
        """The number of rows that have turned up."""
        if self.rows is not None and self.rows_per_second is None:
            return self.rows
        if self._paced is None:
            self._paced = (begin, time.monotonic() - 1)
        row, since = self._paced
        there = row + int((self.rows_per_second or 1000) * (time.monotonic() - since))
        return there if self.rows is None else min(there, self.rows)

    def read(self, spark: SparkSession, after: Position, to: Position) -> DataFrame:
        numbers = _numbers(spark, after, to)
        return numbers.select(*(self._column(numbers["id"], name) for name in self.fields))

    def read_changes(self, spark: SparkSession, after: Position, to: Position) -> DataFrame:
        from pyspark.sql import functions as f

        refuse_clashes(self.columns())
        numbers = _numbers(spark, after, to)
        values = (self._column(numbers["id"], name) for name in self.fields)
        return numbers.select(*values, *change_columns(f.lit(changes.UPDATE), f.lit(0), numbers["id"]))

    def _column(self, row: Expression, name: str) -> Expression:
        return self.fields[name].expression(Draw(row, self.seed, name)).alias(name)

    def check(self) -> list[str]:
        rows = "endless rows" if self.rows is None else f"{self.rows} rows"
        return [f"{rows} of {len(self.fields)} fields"]


def _row(position: Position) -> int:
    """The number of the next row; raises ValueError for a position that is none."""
    row = position["row"]
    if not isinstance(row, int) or isinstance(row, bool) or row < 0:
        raise ValueError(f"{row!r} is not the number of a row")
    return row


def _numbers(spark: SparkSession, after: Position, to: Position) -> DataFrame:
    begin, end = int(after["row"]), int(to["row"])
    tasks = min(spark.sparkContext.defaultParallelism, -(-(end - begin) // ROWS_OF_A_TASK))
    return spark.range(begin, end, 1, max(1, tasks))
