"""Rows of programs as DataFrames of Spark: an Arrow table's values are taken exactly, or refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from calve.decode.arrow import schema_of_arrow
from calve.errors import DataRefused, UsageError
from calve.schema import SchemaError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def frame_of(spark: SparkSession, rows: Any) -> DataFrame:
    """The DataFrame of an Arrow table, or of what can be seen as one; raises DataRefused or UsageError."""
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from calve.decode.division import Mismatch
    from calve.decode.exact import exact_table

    if not isinstance(rows, pa.Table) and not hasattr(rows, "__arrow_c_stream__"):
        kind = type(rows).__name__
        raise UsageError(
            f"Cannot write a {kind}: give a DataFrame of Spark, an Arrow table or a batch of a source"
        )
    table = rows if isinstance(rows, pa.Table) else pa.table(rows)
    try:
        columns = schema_of_arrow(table.schema)
        exact = exact_table(table, columns)
    except (SchemaError, Mismatch) as error:
        raise DataRefused(f"Cannot write an Arrow table: {error}") from None
    return spark.createDataFrame(exact, StructType.fromJson(columns.to_spark_json()))
