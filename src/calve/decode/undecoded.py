"""Records that are not decoded yet: what decodes them can do more in the same pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from calve.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Work = Callable[[Any], Any]
"""A function for `mapInArrow`: Arrow batches in, Arrow batches out."""


def _as_it_is(rows: DataFrame) -> DataFrame:
    return rows


@dataclass(frozen=True)
class Undecoded:
    """Records, and the work of Python workers that makes rows with `columns` of them."""

    records: DataFrame
    work: Work
    columns: Schema
    arranged: Callable[[DataFrame], DataFrame] = _as_it_is
    """Puts the columns of the rows in their order."""

    def rows(self) -> DataFrame:
        """The rows, for whatever comes next in Spark."""
        from pyspark.sql.types import StructType

        types = StructType.fromJson(self.columns.to_spark_json())
        return self.arranged(self.records.mapInArrow(self.work, types))
