"""Parquet and Avro files, which Spark reads by itself: rows, and rows as changes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from calve import changes
from calve.gateway import raised_in_spark
from calve.schema import Column, Schema
from calve.sources.operation import Operation

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame, SparkSession

_PATH, _AT, _NUMBER = "_calve_path", "_calve_at", "_calve_number"

# Avro does not number its rows: a place is the part's first byte and a number in Spark's task.
_ROW_BITS = 27
_BYTE_BITS = 63 - _ROW_BITS
_TASK_ROWS = (1 << 33) - 1

change_columns = changes.expressions


def loaded(spark: SparkSession, format: str, paths: Sequence[str], declared: Schema | None) -> DataFrame:
    """What is in the files; without a declared schema the first one's columns count for all."""
    from pyspark.sql.types import StructType

    columns = StructType.fromJson(declared.to_spark_json()) if declared else None
    if not paths:
        return spark.createDataFrame([], columns or StructType([]))
    reader = spark.read.format(format)
    # Spark takes paths for patterns.
    uris = ["file://" + re.sub(r"([\[\]{}*?\\])", r"\\\1", path) for path in paths]
    return reader.schema(columns or reader.load(uris[0]).schema).load(uris)


def rows(found: DataFrame, declared: Schema | None) -> DataFrame:
    """`found`, in which a NULL where there must be none is an error that names its file."""
    return found.select(*_values(found, declared, None)) if declared else found


def read_changes(
    found: DataFrame, format: str, paths: Sequence[str], declared: Schema | None, operation: Operation | None
) -> DataFrame:
    """`found` as changes, ordered by their files as `paths` has them, and by their rows in them."""
    from pyspark.sql import functions as f

    code = f.lit(changes.UPDATE) if operation is None else _code(operation)
    place = {_PATH: _path(), _AT: _row_index() if format == "parquet" else _row_number()}
    values = _values(found, declared, operation)
    placed = found.select(
        *values, code.alias(changes.OPERATION), *(value.alias(name) for name, value in place.items())
    )
    numbers = found.sparkSession.createDataFrame(list(enumerate(paths)), f"{_NUMBER} BIGINT, {_PATH} STRING")
    numbered = placed.join(f.broadcast(numbers), _PATH, "left")
    unknown = f.raise_error(f.concat(f.lit("a file that was not asked for: "), _PATH)).cast("bigint")
    lane = f.coalesce(_NUMBER, unknown)
    names = [name for name in placed.columns if name not in (changes.OPERATION, *place)]
    return numbered.select(*map(_quoted, names), *change_columns(f.col(changes.OPERATION), lane, f.col(_AT)))


def _values(found: DataFrame, declared: Schema | None, operation: Operation | None) -> list[Expression]:
    if declared is None:
        return [_quoted(name) for name in found.columns]
    kept = [one for one in declared.columns if operation is None or one.name != operation.field]
    return [_without_null(column, operation) for column in kept]


def _without_null(column: Column, operation: Operation | None) -> Expression:
    """The column, whose NULLs are errors where it has none, but in rows that are gone."""
    from pyspark.sql import functions as f

    value = _quoted(column.name)
    if column.nullable:
        return value
    error = raised_in_spark(_place(), f"column '{column.name}': NULL, and the column is NOT NULL")
    if operation is not None:
        gone = _code(operation).isin(changes.DELETE, changes.TRUNCATE)
        return f.when(value.isNotNull() | gone, value).otherwise(error).alias(column.name)
    return f.when(value.isNotNull(), value).otherwise(error).alias(column.name)


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


def _row_number() -> Expression:
    from pyspark.sql import functions as f

    begin, number = f.col("_metadata.file_block_start"), f.monotonically_increasing_id()
    number = number.bitwiseAND(f.lit(_TASK_ROWS))
    fits = (begin < f.lit(1 << _BYTE_BITS)) & (number < f.lit(1 << _ROW_BITS))
    error = raised_in_spark(_place(), "it has more rows than can be put in order")
    return f.when(fits, f.shiftleft(begin, _ROW_BITS).bitwiseOR(number)).otherwise(error.cast("bigint"))
