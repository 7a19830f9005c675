"""A catalog of its own for a test, and shorthands to look into it."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from calve.catalogs import Catalog as CatalogDeclaration
from calve.iceberg.catalog import Catalog
from calve.iceberg.name import TableName
from calve.iceberg.stage import Staged, stage
from calve.iceberg.table import Table
from calve.patience import Patience
from calve.runtime.session import branch_off
from calve.schema import parse
from calve.sink.commit import Committer

COLUMNS = "id BIGINT NOT NULL, name STRING"


@dataclass
class Lake:
    """A Spark session with one catalog."""

    spark: SparkSession
    declaration: CatalogDeclaration
    catalog: Catalog

    @classmethod
    def open(cls, spark: SparkSession, declaration: CatalogDeclaration) -> Lake:
        session = branch_off(spark, [declaration])
        return cls(session, declaration, Catalog(session, declaration.spark_name()))

    @classmethod
    def memory(cls, spark: SparkSession, warehouse: Path) -> Lake:
        return cls.open(
            spark, CatalogDeclaration.model_validate({"type": "memory", "warehouse": str(warehouse)})
        )

    @classmethod
    def rest(cls, spark: SparkSession, uri: str) -> Lake:
        return cls.open(spark, CatalogDeclaration.model_validate({"type": "rest", "rest": {"uri": uri}}))

    def name(self, table: str = "t", namespace: str = "shop") -> TableName:
        return TableName(self.catalog.name, (namespace,), table)

    def table(self, name: TableName | None = None, columns: str = COLUMNS, **options: Any) -> Table:
        name = name or self.name(f"t_{uuid.uuid4().hex[:8]}")
        self.catalog.create_namespace(name.namespace)
        properties = {"format-version": "2", **options.pop("properties", {})}
        return self.catalog.create(
            name, parse(columns), options.get("partition", ()), options.get("sort", ()), properties
        )

    def committer(
        self, table: Table, sink_id: str = "orders", branch: str = "main", retry_for: float = 5
    ) -> Committer:
        """Another writer of the table, with a view of its own."""
        return Committer(self.catalog.load(table.name), sink_id, branch, Patience(retry_for))

    def rows(self, ids: Sequence[int]) -> DataFrame:
        return self.spark.createDataFrame([(number, f"n{number}") for number in ids], COLUMNS)

    def staged(self, table: Table, ids: Sequence[int]) -> Staged:
        return stage(table, self.rows(ids).coalesce(1), {})

    def ids(self, table: Table, branch: str = "main") -> list[int]:
        name = table.name.sql() + ("" if branch == "main" else f".branch_{branch}")
        return sorted(row.id for row in self.spark.sql(f"SELECT id FROM {name}").collect())

    def call(self, procedure: str, **arguments: str) -> None:
        inside = ", ".join(f"{key} => {value}" for key, value in arguments.items())
        self.spark.sql(f"CALL `{self.catalog.name}`.system.{procedure}({inside})").collect()
