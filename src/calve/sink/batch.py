"""The changes of a batch as a DataFrame: which one of each key counts, and what it leaves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from calve import changes, gateway
from calve.changes import Operations
from calve.errors import ConfigurationError
from calve.iceberg.name import quoted
from calve.model import suggestion

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def with_changes(frame: DataFrame, said: Operations | None = None) -> DataFrame:
    """Rows as changes, of which later ones come later: upserts all of them, or what one column says."""
    from pyspark.sql import functions as f

    word = f.lit(changes.UPDATE) if said is None else _operation(frame, said)
    made = changes.expressions(word, f.lit(0), f.monotonically_increasing_id())
    values = [quoted(name) for name in frame.columns if said is None or name != said.column]
    return frame.select(*values, *made)


def _operation(frame: DataFrame, said: Operations) -> Column:
    """The operation that a row says; an error where it says none."""
    from pyspark.sql import functions as f

    column = next((one for one in frame.schema.fields if one.name == said.column), None)
    if column is None:
        meant = suggestion(said.column, frame.columns)
        raise ConfigurationError(
            f"Cannot write the rows: they have no column '{said.column}', which 'operation' names{meant}"
        )
    if column.dataType.typeName() != "string":
        kind = column.dataType.simpleString().upper()
        raise ConfigurationError(
            f"Cannot write the rows: column '{said.column}', which 'operation' names, is {kind}; it must "
            "be a STRING"
        )
    text = f.col(quoted(said.column))
    word = f.coalesce(f.concat(f.lit("'"), text, f.lit("'")), f.lit("NULL"))
    message = f.concat(
        f.lit(f"Cannot write the rows: column '{said.column}': "),
        word,
        f.lit(f" is none of the operations {said}; nothing of this write was committed"),
    )
    code: Column = gateway.refusal_in_spark(message)
    for letter in dict.fromkeys(said.codes.values()):
        words = [one for one, meant in said.codes.items() if meant == letter]
        code = f.when(text.isin(*words), letter).otherwise(code)
    return code


def is_kept() -> Column:
    """Whether a change leaves a row in the table."""
    from pyspark.sql import functions as f

    return ~f.col(changes.OPERATION).isin(changes.DELETE, changes.TRUNCATE)


def is_whole() -> Column:
    """Whether a change knows all columns."""
    from pyspark.sql import functions as f

    return f.coalesce(f.size(changes.UNKNOWN) <= 0, f.lit(True))


def is_truncate() -> Column:
    """Whether a change empties the table."""
    from pyspark.sql import functions as f

    return f.col(changes.OPERATION) == changes.TRUNCATE


def counts() -> list[Column]:
    """How many changes leave a row, take one out, do not know all columns, and empty the table."""
    from pyspark.sql import functions as f

    is_delete = f.col(changes.OPERATION) == changes.DELETE
    return [
        f.count_if(is_kept()).alias("rows"),
        f.count_if(is_delete).alias("deletes"),
        f.count_if((f.size(changes.UNKNOWN) > 0) & is_kept()).alias("unknown"),
        f.count_if(is_truncate()).alias("truncated"),
    ]


def is_row(frame: DataFrame, keeps_changes: bool) -> Column:
    """Whether a row of `frame` becomes a row of a table to which rows are only added."""
    from pyspark.sql import functions as f

    return f.lit(True) if keeps_changes or changes.OPERATION not in frame.columns else is_kept()


def as_rows(frame: DataFrame, keeps_changes: bool) -> DataFrame:
    """`frame` without the columns of changes, or with those that a table of changes keeps."""
    from pyspark.sql import functions as f

    if not keeps_changes:
        return frame.drop(*changes.NAMES)
    place = f.coalesce(f.col(changes.ORDER).seq, f.col(changes.ORDER).at)
    told = (f.col(changes.OPERATION), place, f.col(changes.TIME))
    kept = (one.alias(name) for one, name in zip(told, changes.KEPT.names, strict=True))
    return frame.select("*", *kept).drop(*changes.NAMES)


def last(frame: DataFrame, keys: Sequence[str], order_by: str | None) -> DataFrame:
    """The last change of each key, by `order_by` where there is one and by the source's order."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    newest = [f.col(quoted(order_by)).desc_nulls_last()] if order_by else []
    window = Window.partitionBy(*map(quoted, keys)).orderBy(*newest, f.col(changes.ORDER).desc())
    return frame.withColumn("_number", f.row_number().over(window)).where("_number = 1").drop("_number")


def folded(frame: DataFrame, keys: Sequence[str], values: Sequence[str], order_by: str | None) -> DataFrame:
    """Like `last`, with columns that the last change does not know as the batch knew them before."""
    from pyspark.sql import functions as f

    order = f.struct(quoted(order_by), changes.ORDER) if order_by else f.col(changes.ORDER)
    known = {name: ~_is_unknown(name) & is_kept() for name in values}
    newest = [f.max_by(name, order).alias(name) for name in changes.NAMES]
    held = [f.max_by(f.when(known[n], f.struct(quoted(n))), f.when(known[n], order)).alias(n) for n in values]
    rows = frame.groupBy(*map(quoted, keys)).agg(*newest, *held)
    told = [f.col(f"{quoted(name)}.{quoted(name)}").alias(name) for name in values]
    still = f.filter(f.col(changes.UNKNOWN), lambda name: _not_among(name, values))
    marked = [still.alias(name) if name == changes.UNKNOWN else f.col(name) for name in changes.NAMES]
    return rows.select(*map(quoted, keys), *told, *marked)


def _is_unknown(name: str) -> Column:
    from pyspark.sql import functions as f

    return f.coalesce(f.array_contains(changes.UNKNOWN, name), f.lit(False))


def _not_among(name: Column, values: Sequence[str]) -> Column:
    """Whether no change of the batch knew the column called `name`."""
    from pyspark.sql import functions as f

    known = f.lit(False)
    for value in values:
        known = known | ((name == f.lit(value)) & f.col(quoted(value)).isNotNull())
    return ~known


def filled(frame: DataFrame, old: DataFrame, keys: Sequence[str], values: Sequence[str]) -> DataFrame:
    """`frame` with what it does not know taken from the rows `old` of the table.

    A row that the table does not have keeps its unknown columns.
    """
    from pyspark.sql import functions as f

    before = old.select(*map(quoted, keys), f.struct(*map(quoted, values)).alias("_old"))
    joined = frame.join(before, list(keys), "left")
    there = f.col("_old").isNotNull()
    told = [
        f.when(_is_unknown(name) & there, f.col(f"_old.{quoted(name)}"))
        .otherwise(f.col(quoted(name)))
        .alias(name)
        for name in values
    ]
    left = f.when(~there, f.col(changes.UNKNOWN)).alias(changes.UNKNOWN)
    marked = [left if name == changes.UNKNOWN else f.col(name) for name in changes.NAMES]
    return joined.select(*map(quoted, keys), *told, *marked)


def fresh(frame: DataFrame, known: DataFrame, keys: Sequence[str], order_by: str) -> DataFrame:
    """`frame` without changes that are older than the order that `known` has for their key."""
    from pyspark.sql import functions as f

    newest = known.groupBy(*map(quoted, keys)).agg(f.max(quoted(order_by)).alias("_known"))
    joined = frame.join(newest, list(keys), "left")
    is_stale = f.col("_known").isNotNull() & (f.col(quoted(order_by)) < f.col("_known"))
    return joined.where(~f.coalesce(is_stale, f.lit(False))).drop("_known")
