"""Frames as multisets: what one has more often than another, and which of that are updates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from calve.iceberg.name import quoted
from calve.schema import Array, Map, Primitive, Schema, Struct, Type

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

INSERT, DELETE, BEFORE, AFTER = "insert", "delete", "update_before", "update_after"
_SIGN, _ROW, _TIMES, _NUMBER, _PAIRS = (
    "_calve_sign",
    "_calve_row",
    "_calve_times",
    "_calve_number",
    "_calve_pairs",
)
_FRACTIONS = (Primitive("float"), Primitive("double"))


def difference(old: DataFrame | None, new: DataFrame | None, columns: Schema, kind: str) -> DataFrame:
    """The rows that only `old` has as deletes and those that only `new` has as inserts, in column `kind`.

    A row that is in one of them twice and in the other once is there once. Rows that were only moved are
    in neither. Of the two, at least one is given.
    """
    from pyspark.sql import functions as f

    if old is None or new is None:
        rows, word = (new, INSERT) if old is None else (old, DELETE)
        assert rows is not None
        return rows.select(*_columns(columns.names), f.lit(word).alias(kind))
    net = _net(old, new, columns)
    told = f.when(f.col(_SIGN) > 0, INSERT).otherwise(DELETE)
    again = f.explode(f.array_repeat(f.lit(True), f.abs(f.col(_SIGN)).cast("int"))).alias(_TIMES)
    values = [f.col(f"{_ROW}.{quoted(name)}").alias(name) for name in columns.names]
    return net.select(*values, told.alias(kind), again).drop(_TIMES)


def _net(old: DataFrame, new: DataFrame, columns: Schema) -> DataFrame:
    """Each row once, with how much more often `new` has it than `old`, where that is not the same."""
    from pyspark.sql import functions as f

    counted = [
        rows.select(*_columns(columns.names), f.lit(sign).alias(_SIGN))
        for rows, sign in ((old, -1), (new, 1))
    ]
    both = counted[0].unionByName(counted[1])
    keys = [comparable(one.type, f.col(quoted(one.name))) for one in columns.columns]
    row = f.struct(*_columns(columns.names))
    grouped = both.groupBy(*(key.alias(f"_calve_{index}") for index, key in enumerate(keys)))
    return grouped.agg(f.first(row).alias(_ROW), f.sum(_SIGN).alias(_SIGN)).where(f.col(_SIGN) != 0)


def paired(changes: DataFrame, keys: Sequence[str], columns: Schema, kind: str) -> DataFrame:
    """`changes` in which a delete and an insert with the same `keys` are an update, before and after."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    if not keys:
        return changes
    names = [quoted(name) for name in keys]
    # A key should be there once; where it is not, the same rows are paired every time.
    order = [comparable(one.type, f.col(quoted(one.name))) for one in columns.columns]
    same = Window.partitionBy(*names)
    inserts, deletes = (
        f.sum(f.when(f.col(kind) == word, 1).otherwise(0)).over(same) for word in (INSERT, DELETE)
    )
    number = f.row_number().over(Window.partitionBy(*names, kind).orderBy(*order))
    numbered = changes.select("*", number.alias(_NUMBER), f.least(inserts, deletes).alias(_PAIRS))
    word = f.when(f.col(kind) == INSERT, AFTER).otherwise(BEFORE)
    told = f.when(f.col(_NUMBER) <= f.col(_PAIRS), word).otherwise(f.col(kind))
    return numbered.withColumn(kind, told).drop(_NUMBER, _PAIRS)


def comparable(kind: Type, value: Column) -> Column:
    """A value to group and order by, the same for equal ones and no others.

    Spark does neither with maps and variants.
    """
    from pyspark.sql import functions as f

    if not _is_difficult(kind):
        return value
    if isinstance(kind, Array):
        element = kind.element
        return f.transform(value, lambda one: comparable(element, one))
    if isinstance(kind, Map):
        key, held = kind.key, kind.value
        pairs = f.transform(
            f.map_entries(value),
            lambda one: f.struct(
                comparable(key, one.getField("key")).alias("k"),
                comparable(held, one.getField("value")).alias("v"),
            ),
        )
        return f.array_sort(pairs)
    if isinstance(kind, Struct):
        inner: list[Any] = [
            comparable(one.type, value.getField(one.name)).alias(f"_{index}")
            for index, one in enumerate(kind.columns)
        ]
        return f.when(value.isNotNull(), f.struct(*inner))
    if kind in _FRACTIONS:
        # To group by a number, Spark takes -0.0 for 0.0.
        is_negative_zero = (value == 0) & (value.cast("string") == "-0.0")
        return f.struct(value.alias("number"), is_negative_zero.alias("is_negative_zero"))
    return f.to_json(value)


def _is_difficult(kind: Type) -> bool:
    if isinstance(kind, Struct):
        return any(_is_difficult(one.type) for one in kind.columns)
    if isinstance(kind, Array):
        return _is_difficult(kind.element)
    return isinstance(kind, Map) or kind in (*_FRACTIONS, Primitive("variant"))


def _columns(names: Sequence[str]) -> list[Column]:
    from pyspark.sql import functions as f

    return [f.col(quoted(name)) for name in names]
