"""Changes: rows with an operation and an order. Their columns, and what the operations are called."""

from __future__ import annotations

from calve.schema import Array, Column, Primitive, Schema, Struct

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
