"""What a pipeline may do to its table, each with the rows that must be there afterwards."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from pyiceberg.table import Table

from calve.transforms.sql import SqlTransform
from tests.test_readers import with_duckdb

BATCH = 10
KEYS = 12
PARTITIONS = 4

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Kind:
    """One way to write: the sink's keys, what becomes of the rows 1, 2, 3 …, and who can read the table."""

    name: str
    keys: Mapping[str, Any] = field(default_factory=dict)
    sql: str | None = None
    expected: Callable[[int], Sequence[Any]] = lambda rows: range(1, rows + 1)
    columns: tuple[str, ...] = ("id",)
    read: Callable[[Table], list[dict[str, Any]]] = lambda table: table.scan().to_arrow().to_pylist()

    def transforms(self) -> tuple[SqlTransform, ...]:
        return (SqlTransform(sql=self.sql),) if self.sql else ()

    def rows(self, table: Table) -> list[Any]:
        """What an independent reader finds, sorted; of one column, its values."""
        return sorted(map(itemgetter(*self.columns), self.read(table)))


def folded(rows: int) -> list[Row]:
    """The last change of each key, unless it takes the row out."""
    state: dict[int, Row] = {}
    for number in range(1, rows + 1):
        state[number % KEYS] = (number % KEYS, number)
        if number % 5 == 0:
            del state[number % KEYS]
    return sorted(state.values())


def replaced(rows: int) -> list[Row]:
    """Each partition as the last batch left it that had rows for it."""
    state: dict[int, list[Row]] = {}
    for first in range(1, rows + 1, BATCH):
        batch = [(number // 7 % PARTITIONS, number) for number in range(first, first + BATCH)]
        for partition in {one[0] for one in batch}:
            state[partition] = [one for one in batch if one[0] == partition]
    return sorted(row for part in state.values() for row in part)


OPERATION = "if(id % 5 = 0, 'd', 'u') AS _calve_op"
CHANGES = (
    f"SELECT id % {KEYS} AS key, id AS value, {OPERATION}, _calve_order, _calve_ts, _calve_unknown FROM input"
)
UPSERT = {"commit_mode": "upsert", "key_fields": ["key"]}
CHANGED: dict[str, Any] = {"sql": CHANGES, "expected": folded, "columns": ("key", "value")}
OVERWRITE = {"commit_mode": "overwrite", "partition_by": ["part"]}

APPEND = Kind("append")
KINDS = (
    Kind("position, format 2", UPSERT, **CHANGED),
    Kind("position, format 3", {**UPSERT, "format_version": 3}, **CHANGED),
    Kind(
        "equality",
        {**UPSERT, "deletes": "equality"},
        **CHANGED,
        read=lambda table: with_duckdb(table.metadata_location),
    ),
    Kind(
        "overwrite",
        OVERWRITE,
        f"SELECT id div 7 % {PARTITIONS} AS part, id AS value FROM input",
        replaced,
        ("part", "value"),
    ),
)
