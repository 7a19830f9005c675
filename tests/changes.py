"""A sink for changes with a table of its own, and what should be in it: a fold in plain Python."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import polars
from pyiceberg.table import StaticTable

from calve import changes, schema
from calve.patience import Patience
from calve.sink.declaration import IcebergSink
from calve.sink.writer import Writer
from tests import duck

os.environ["POLARS_ICEBERG_PLANNER"] = "pyiceberg"

KINDS = {"position, format 2": (2, "position"), "vectors": (3, "position"), "equality": (2, "equality")}
LAYOUTS = {"unpartitioned": [], "partitioned": ["region"], "bucketed": ["bucket(4, id)"]}

PLAIN = "id BIGINT, region STRING, amount INT"


class Sink:
    """A table with a key, batches of changes for it, and what should be in it."""

    def __init__(self, lake, kind, layout=(), columns=PLAIN, keys=("id",), **options):
        version, deletes = kind
        self.lake, self.columns, self.keys = lake, schema.parse(columns), keys
        self.declared = IcebergSink.model_validate(
            {
                "catalog": lake.declaration.model_dump(exclude_unset=True),
                "namespace": "shop",
                "table": "t",
                "commit_mode": "upsert",
                "key_fields": list(keys),
                "deletes": deletes,
                "format_version": version,
                **({"partition_by": list(layout)} if layout else {}),
                **options,
            }
        )
        self.position, self.has_equality = 0, False
        self.expected: dict[Any, tuple[Any, ...]] = {}
        self.start()

    def start(self) -> None:
        self.has_equality |= self.declared.deletes == "equality"
        self.writer = Writer(self.lake.spark, self.declared, "orders", Patience(5))
        self.writer.find("source")
        self.writer.open("source", {"row": 0}, self.columns)

    def frame(self, batch: Sequence[tuple[str, tuple[Any, ...]]]):
        rows = [
            (*values, operation, (None, 0, number, 0, None), None, None)
            for number, (operation, values) in enumerate(batch)
        ]
        both = schema.Schema((*self.columns.columns, *changes.COLUMNS.columns))
        return self.lake.spark.createDataFrame(rows, both.ddl())

    def take(self, *batch: tuple[str, tuple[Any, ...]]) -> Any:
        """Commit a batch of changes and fold it into what is expected."""
        staged = self.writer.stage(self.frame(batch), len(batch))
        self.position += len(batch)
        self.writer.commit(staged, {"row": self.position})
        self.fold(batch)
        return staged

    def fold(self, batch: Sequence[tuple[str, tuple[Any, ...]]]) -> None:
        places = [self.columns.names.index(name) for name in self.keys]
        for operation, values in batch:
            key = tuple(values[place] for place in places)
            if operation == "d":
                self.expected.pop(key, None)
            else:
                self.expected[key] = values

    def rows(self) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.lake.spark.table(self.writer.name.sql()).collect()]

    def check(self) -> None:
        """Every engine that can read the table reads what is expected."""
        expected = sorted(self.expected.values(), key=repr)
        assert sorted(self.rows(), key=repr) == expected
        metadata = self.lake.catalog.load(self.writer.name).metadata().file
        for read in self.readers():
            assert sorted(read(metadata), key=repr) == expected, read.__name__

    def readers(self) -> list[Any]:
        if self.has_equality:
            return [with_duckdb]
        return [with_pyiceberg, with_polars, with_duckdb]


def with_pyiceberg(metadata: str) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in StaticTable.from_metadata(metadata).scan().to_arrow().to_pylist()]


def with_polars(metadata: str) -> list[tuple[Any, ...]]:
    return polars.scan_iceberg(metadata).collect().rows()


def with_duckdb(metadata: str) -> list[tuple[Any, ...]]:
    return duck.connect().execute(f"SELECT * FROM iceberg_scan('{metadata}')").fetchall()
