"""A table that Calve, Spark SQL and PyIceberg write by turns, as chance has it."""

from __future__ import annotations

import random
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog

from calve.iceberg.lookup import known_at
from calve.iceberg.table import Table
from tests.changes import KINDS, LAYOUTS, Sink
from tests.folding import Rows
from tests.lake import Lake

COLUMNS = "id BIGINT NOT NULL, region STRING, amount BIGINT"
REGIONS = ("eu", "us", "asia")
MODES = ("copy-on-write", "merge-on-read")


class Origin:
    """The table, and the ways to change it. Its rows need not have different keys."""

    def __init__(self, lake: Lake, chance: random.Random, name: str = "origin", unique: bool = False) -> None:
        self.lake, self.chance, self.unique = lake, chance, unique
        kind = chance.choice(sorted(KINDS))
        layout = chance.choice(sorted(LAYOUTS))
        self.sink = Sink(lake, KINDS[kind], LAYOUTS[layout], columns=COLUMNS, table=name)
        # Others change how it is partitioned.
        whatever = {"partition_by": [], "partitioning": "table_default"}
        self.sink.declared = self.sink.declared.model_copy(update=whatever)
        self.sink.start()
        self.told = [f"{kind}, {layout}"]
        self.version = KINDS[kind][0]
        self.can_pyiceberg = kind == "position, format 2" and layout != "bucketed"
        self.by_region = layout == "partitioned"
        self.extra: str | None = None
        for command in ("delete", "update", "merge"):
            self._alter(f"SET TBLPROPERTIES ('write.{command}.mode' = '{chance.choice(MODES)}')")

    @property
    def sql(self) -> str:
        return self.sink.writer.name.sql()

    def table(self) -> Table:
        return self.lake.catalog.load(self.sink.writer.name)

    def step(self) -> None:
        """One change of the table, by chance."""
        ways: list[Callable[[], None]] = [self.upsert, self.upsert, self.delete, self.update, self.merge]
        ways += [self.overwrite, self.compact, self.add_column, self.partition_anew, self.clear]
        ways += [] if self.unique else [self.insert, self.insert]
        ways += [self.with_pyiceberg] if self.can_pyiceberg and not self.unique else []
        way = self.chance.choice(ways)
        self.told.append(way.__name__)
        way()

    def upsert(self) -> None:
        """A batch of Calve's: position deletes, vectors or equality deletes."""
        self.sink.writer.table.refresh()
        batch = []
        for _ in range(self.chance.randint(1, 8)):
            key = self.chance.randrange(20)
            gone = self.chance.random() < 0.25
            batch.append(("d", (key, None, None)) if gone else ("u", (key, *self._values())))
        self.sink.take(*batch)

    def insert(self) -> None:
        rows = [self._literal(self.chance.randrange(20)) for _ in range(self.chance.randint(1, 6))]
        self._run(f"INSERT INTO {self.sql} VALUES {', '.join(rows)}")

    def delete(self) -> None:
        self._run(f"DELETE FROM {self.sql} WHERE id % {self.chance.randint(2, 5)} = 1")

    def clear(self) -> None:
        if self.chance.random() < 0.3:
            self._run(f"DELETE FROM {self.sql}")

    def update(self) -> None:
        rest = self.chance.randrange(3)
        self._run(f"UPDATE {self.sql} SET amount = amount + 1 WHERE id % 3 = {rest}")

    def merge(self) -> None:
        keys = self.chance.sample(range(20), 4)
        found = " UNION ALL ".join(
            f"SELECT {key}L AS id, {self.chance.randrange(9)}L AS amount" for key in keys
        )
        more = f", CAST(NULL AS {self._extra_type()})" if self.extra else ""
        self._run(
            f"MERGE INTO {self.sql} t USING ({found}) s ON t.id = s.id "
            "WHEN MATCHED AND s.amount = 0 THEN DELETE "
            "WHEN MATCHED THEN UPDATE SET amount = s.amount "
            f"WHEN NOT MATCHED THEN INSERT ({', '.join(self._names())}) VALUES (s.id, 'eu', s.amount{more})"
        )

    def overwrite(self) -> None:
        """All rows of one region, or of the table, written anew; some of them are as they were."""
        from pyspark.sql import functions as f

        region = self.chance.choice(REGIONS)
        which = f.col("region") == region if self.by_region else f.lit(True)
        rows = self.lake.spark.table(self.sql)
        kept = rows.where(which & (f.col("id") % 2 == 0)).collect()
        self.lake.spark.createDataFrame(kept, rows.schema).writeTo(self.sql).overwrite(which)

    def compact(self) -> None:
        table = f"{self.sink.declared.namespace}.{self.sink.declared.table}"
        self.lake.call("rewrite_data_files", table=f"'{table}'", options="map('rewrite-all', 'true')")
        if self.version == 2:
            self.lake.call("rewrite_position_delete_files", table=f"'{table}'")

    def add_column(self) -> None:
        """A column that comes, is widened, gets another name and goes."""
        if self.extra is None:
            self._alter("ADD COLUMN extra INT")
            self.extra = "extra"
        elif self._extra_type() == "INT":
            self._alter(f"ALTER COLUMN {self.extra} TYPE BIGINT")
        elif self.extra == "extra":
            self._alter("RENAME COLUMN extra TO more")
            self.extra = "more"
        else:
            self._alter("DROP COLUMN more")
            self.extra = None

    def partition_anew(self) -> None:
        fields = {str(field) for field in self.table().metadata().partition()}
        word = "DROP" if "bucket(3, id)" in fields else "ADD"
        self._alter(f"{word} PARTITION FIELD bucket(3, id)")
        self.can_pyiceberg = False

    def with_pyiceberg(self) -> None:
        uri = f"sqlite:///{self.lake.declaration.warehouse}/catalog.db"
        other = SqlCatalog("calve", uri=uri).load_table(f"shop.{self.sink.declared.table}")
        types = other.schema().as_arrow()
        rows = [self._row(self.chance.randrange(20)) for _ in range(3)]
        columns = {name: [row[at] for row in rows] for at, name in enumerate(self._names())}
        if self.chance.random() < 0.5:
            other.append(pa.table(columns, schema=types))
            return
        with warnings.catch_warnings():
            # It says that it always rewrites files, and when there was nothing to delete.
            warnings.simplefilter("ignore")
            other.delete(f"id = {self.chance.randrange(20)}")

    def finish(self) -> None:
        """One more snapshot, which has the columns that the table has now."""
        self._run(f"INSERT INTO {self.sql} VALUES {self._literal(99)}")

    def rows_at(self, snapshot: int) -> Rows:
        """The rows of a snapshot in the columns of now."""
        return Counter(tuple(row) for row in known_at(self.lake.spark, self.table(), snapshot).collect())

    def rows(self) -> Rows:
        return Counter(tuple(row) for row in self.lake.spark.table(self.sql).collect())

    def _names(self) -> list[str]:
        return ["id", "region", "amount", *([self.extra] if self.extra else [])]

    def _row(self, key: int) -> tuple[Any, ...]:
        more = (self.chance.choice([None, 5]),) if self.extra else ()
        return (key, *self._values(), *more)

    def _literal(self, key: int) -> str:
        shown = ["NULL" if one is None else repr(one) for one in self._row(key)]
        return f"({', '.join(shown)})"

    def _values(self) -> tuple[str | None, int]:
        return self.chance.choice([*REGIONS, None]), self.chance.randrange(5)

    def _extra_type(self) -> str:
        found = self.table().metadata().schema().column(self.extra or "")
        return "" if found is None else found.type.ddl()

    def _alter(self, what: str) -> None:
        self._run(f"ALTER TABLE {self.sql} {what}")

    def _run(self, sql: str) -> None:
        self.lake.spark.sql(sql).collect()
