"""A source that follows a script: batches of rows whose columns change on the way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from calve.schema import Schema, parse
from calve.sources.columnar import change_columns
from calve.sources.source import Limits, Source, Waiting


@dataclass(frozen=True)
class Batch:
    """Rows, and their columns as DDL."""

    columns: str
    rows: list[tuple[Any, ...]]


class ScriptSource(Source):
    """One batch after the other; `says` tells whether the source itself says what its columns are."""

    connector: ClassVar[str] = "script"

    batches: list[Any]
    says: bool = True
    _at: int = 0

    def columns(self) -> Schema | None:
        return parse(self.batches[min(self._at, len(self.batches) - 1)].columns) if self.says else None

    def identity(self) -> str:
        return "script"

    def start(self) -> dict[str, Any]:
        return {"batch": 0}

    def latest(self, after: dict[str, Any], limits: Limits) -> Waiting:
        self._at = after["batch"]
        left = len(self.batches) - self._at
        if not left:
            return Waiting(after, 0, ended=True)
        rows = len(self.batches[self._at].rows)
        return Waiting({"batch": self._at + 1}, rows, more=left > 1, ended=left == 1)

    def read(self, spark: Any, after: dict[str, Any], to: dict[str, Any]) -> Any:
        batch = self.batches[min(after["batch"], len(self.batches) - 1)]
        rows = batch.rows if to != after else []
        from pyspark.sql.types import StructType

        types = StructType.fromJson(parse(batch.columns).to_spark_json())
        return spark.createDataFrame(rows, types).coalesce(1)

    def read_changes(self, spark: Any, after: dict[str, Any], to: dict[str, Any]) -> Any:
        from pyspark.sql import functions as f

        rows = self.read(spark, after, to)
        names = [f.col(f"`{name}`") for name in rows.columns]
        order = f.monotonically_increasing_id()
        return rows.select(*names, *change_columns(f.lit("u"), f.lit(0), order))

    def check(self) -> list[str]:
        return []
