"""Changes: rows with an operation and an order. Their columns, and what the operations are called."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from calve.schema import Array, Column, Primitive, Schema, Struct

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression

RESERVED = "_calve_"
"""How the names of columns begin that rows carry on their way; a user's column must not be called so."""

OPERATION = f"{RESERVED}op"
ORDER = f"{RESERVED}order"
TIME = f"{RESERVED}ts"
UNKNOWN = f"{RESERVED}unknown"

STREAM = f"{RESERVED}stream"
"""The column that tells a row's stream, where rows are routed by it; no column of a table."""

INSERT, UPDATE, DELETE, TRUNCATE = "i", "u", "d", "t"

COLUMNS = Schema(
    (
        Column(OPERATION, Primitive("string"), nullable=False),
        Column(
            ORDER,
            Struct(
                (
                    # What the source's own log says, such as an LSN; NULL where it says nothing.
                    Column("seq", Primitive("bigint"), nullable=True),
                    # The record's place: which partition or file, how far in it, which of its changes.
                    Column("lane", Primitive("bigint"), nullable=False),
                    Column("at", Primitive("bigint"), nullable=False),
                    Column("part", Primitive("int"), nullable=False),
                    # When the record was written, in microseconds since 1970: what orders the records of
                    # several lanes. NULL where lanes follow each other, so that they need nothing else.
                    Column("time", Primitive("bigint"), nullable=True),
                )
            ),
            nullable=False,
        ),
        Column(TIME, Primitive("timestamp"), nullable=True),
        Column(UNKNOWN, Array(Primitive("string"), element_nullable=False), nullable=True),
    )
)
"""What a row of a batch carries besides its values; `sink.batch.arrived` tells which change is the later."""

NAMES = COLUMNS.names

KEPT = Schema(
    (
        Column("_op", Primitive("string"), nullable=False),
        Column("_seq", Primitive("bigint"), nullable=True),
        Column("_ts", Primitive("timestamp"), nullable=True),
    )
)
"""The columns of a table that keeps changes instead of applying them: operation, order and time."""


@dataclass(frozen=True)
class Operations:
    """The column of rows that says what each of them does to the table, and what its words mean."""

    column: str
    codes: Mapping[str, str]
    """The operation that each word stands for."""

    def __str__(self) -> str:
        return ", ".join(f"'{word}'" for word in self.codes)


def reserved(names: Iterable[str]) -> list[str]:
    """A line for each name that only columns of ours may have."""
    return [
        f"column '{name}': names that begin with '{RESERVED}' are reserved; give it another one"
        for name in names
        if name.lower().startswith(RESERVED)
    ]


def kept_twice(names: Iterable[str]) -> list[str]:
    """A line for each name that a table has already because it keeps changes."""
    return [
        f"column '{name}': with 'change_columns: true' the table has a column '{name.lower()}' for the "
        "changes; give it another name"
        for name in names
        if name.lower() in KEPT.names
    ]


def expressions(operation: Expression, lane: Expression, at: Expression) -> list[Expression]:
    """The columns of changes, of which nothing is known but the operation and the place."""
    from pyspark.sql import functions as f

    parts = {"seq": f.lit(None).cast("bigint"), "lane": lane.cast("bigint"), "at": at.cast("bigint")}
    rest = (f.lit(0).alias("part"), f.lit(None).cast("bigint").alias("time"))
    order = f.struct(*(part.alias(name) for name, part in parts.items()), *rest)
    return [
        operation.alias(OPERATION),
        order.alias(ORDER),
        f.lit(None).cast("timestamp").alias(TIME),
        f.lit(None).cast("array<string>").alias(UNKNOWN),
    ]
