"""Changes: rows with an operation and an order. Their columns, and what the operations are called."""

from __future__ import annotations

from typing import TYPE_CHECKING

from calve.schema import Array, Column, Primitive, Schema, Struct

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression

OPERATION = "_op"
ORDER = "_order"
TIME = "_ts"
UNKNOWN = "_unknown"
SEQUENCE = "_seq"

STREAM = "_stream"
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
                )
            ),
            nullable=False,
        ),
        Column(TIME, Primitive("timestamp"), nullable=True),
        Column(UNKNOWN, Array(Primitive("string"), element_nullable=False), nullable=True),
    )
)
"""What a row of a batch carries besides its values; a later change has the greater order."""

NAMES = COLUMNS.names

KEPT = Schema(
    (
        Column(OPERATION, Primitive("string"), nullable=False),
        Column(SEQUENCE, Primitive("bigint"), nullable=True),
        Column(TIME, Primitive("timestamp"), nullable=True),
    )
)
"""The columns of a table that keeps changes instead of applying them."""


def expressions(operation: Expression, lane: Expression, at: Expression) -> list[Expression]:
    """The columns of changes, of which nothing is known but the operation and the place."""
    from pyspark.sql import functions as f

    parts = {"seq": f.lit(None).cast("bigint"), "lane": lane.cast("bigint"), "at": at.cast("bigint")}
    order = f.struct(*(part.alias(name) for name, part in parts.items()), f.lit(0).alias("part"))
    return [
        operation.alias(OPERATION),
        order.alias(ORDER),
        f.lit(None).cast("timestamp").alias(TIME),
        f.lit(None).cast("array<string>").alias(UNKNOWN),
    ]
