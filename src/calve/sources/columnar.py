"""Parquet files with times of the old form, which Spark reads by itself: rows, and rows as changes.

INT96 and the calendar of Spark 2 are Spark's own; all others are read by `decode.parquet`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from calve import changes
from calve.gateway import raised_in_spark
from calve.schema import Column, Primitive, Schema
from calve.sources.operation import Operation

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame, SparkSession

_PATH, _AT, _NUMBER = "_calve_path", "_calve_at", "_calve_number"

change_columns = changes.expressions


def loaded(spark: SparkSession, paths: Sequence[str], columns: Schema) -> DataFrame:
    """What is in the files."""
    from pyspark.sql.types import StructType

    # Spark takes paths for patterns.
    uris = ["file://" + re.sub(r"([\[\]{}*?\\])", r"\\\1", path) for path in paths]
    return spark.read.schema(StructType.fromJson(columns.to_spark_json())).parquet(*uris)


def rows(found: DataFrame, columns: Schema) -> DataFrame:
    """`found`, in which a NULL where there must be none, or a text that is none, is an error of its file."""
    return found.select(*_values(columns, None))


def read_changes(
    found: DataFrame, paths: Sequence[str], columns: Schema, operation: Operation | None
) -> DataFrame:
    """`found` as changes, ordered by their files as `paths` has them, and by their rows in them."""
    from pyspark.sql import functions as f

    code = f.lit(changes.UPDATE) if operation is None else _code(operation)
    place = {_PATH: _path(), _AT: _row_index()}
    values = _values(columns, operation)
    placed = found.select(
        *values, code.alias(changes.OPERATION), *(value.alias(name) for name, value in place.items())
    )
    numbers = found.sparkSession.createDataFrame(list(enumerate(paths)), f"{_NUMBER} BIGINT, {_PATH} STRING")
    numbered = placed.join(f.broadcast(numbers), _PATH, "left")
    unknown = f.raise_error(f.concat(f.lit("a file that was not asked for: "), _PATH)).cast("bigint")
    lane = f.coalesce(_NUMBER, unknown)
    names = [name for name in placed.columns if name not in (changes.OPERATION, *place)]
    return numbered.select(*map(_quoted, names), *change_columns(f.col(changes.OPERATION), lane, f.col(_AT)))


def _values(columns: Schema, operation: Operation | None) -> list[Expression]:
    kept = [one for one in columns.columns if operation is None or one.name != operation.field]
    return [_without_null(column, operation) for column in kept]


def _without_null(column: Column, operation: Operation | None) -> Expression:
    """The column, whose NULLs are errors where it has none, but in rows that are gone."""
    from pyspark.sql import functions as f

    value = _text(column)
    if column.nullable:
        return value.alias(column.name)
    error = raised_in_spark(_place(), f"column '{column.name}': NULL, and the column is NOT NULL")
    if operation is not None:
        gone = _code(operation).isin(changes.DELETE, changes.TRUNCATE)
        return f.when(value.isNotNull() | gone, value).otherwise(error).alias(column.name)
    return f.when(value.isNotNull(), value).otherwise(error).alias(column.name)


def _text(column: Column) -> Expression:
    """The column; where it is of texts, one that is no UTF-8 is an error."""
    from pyspark.sql import functions as f

    value = _quoted(column.name)
    if column.type != Primitive("string"):
        return value
    error = raised_in_spark(_place(), f"column '{column.name}': a text is not valid UTF-8")
    return f.when(f.is_valid_utf8(value) | value.isNull(), value).otherwise(error)


def _code(operation: Operation) -> Expression:
    """The operation that a row says; an error where it says none."""
    from pyspark.sql import functions as f

    text = _quoted(operation.field)
    said = f.coalesce(f.concat(f.lit("'"), text, f.lit("'")), f.lit("NULL"))
    reason: Any = f.concat(f.lit(f"column '{operation.field}': "), said, f.lit(" is none of the operations"))
    error = raised_in_spark(_place(), reason)
    codes = operation.codes()
    code = f.lit(None).cast("string")
    for letter in dict.fromkeys(codes.values()):
        code = f.when(text.isin(*(one for one in codes if codes[one] == letter)), letter).otherwise(code)
    return f.coalesce(code, error)


def _quoted(name: str) -> Expression:
    from pyspark.sql import functions as f

    return f.col(f"`{name.replace('`', '``')}`")


def _place() -> Expression:
    from pyspark.sql import functions as f

    path = f.regexp_replace(f.input_file_name(), "^file:/+", "/")
    return f.concat(f.lit("file '"), path, f.lit("'"))


def _path() -> Expression:
    """The path of a row's file as the system has it; in `_metadata` it is part of a URI."""
    from pyspark.sql import functions as f

    local = f.regexp_replace("_metadata.file_path", "^file:/+", "/")
    return f.url_decode(f.replace(local, f.lit("+"), f.lit("%2B")))


def _row_index() -> Expression:
    from pyspark.sql import functions as f

    return f.col("_metadata.row_index")
