"""Filters in SQL as expressions of Iceberg's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from calve import gateway
from calve.iceberg import java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CONVERTER = java.Statics("org.apache.spark.sql.execution.datasources.SparkExpressionConverter")
_CANNOT = ("Cannot translate Spark expression", "Cannot convert Spark filter")


def converted(table: str, where: str, spark: SparkSession | None = None) -> Any:
    """What every row of `table`, by its name in SQL, satisfies that `where` is true of.

    `spark` is the session that knows the table, by default the one of the calling thread. Raises what Spark
    and Iceberg do, where they do not understand the filter.
    """
    session = gateway.active() if spark is None else spark._jsparkSession
    resolved = _CONVERTER.collectResolvedSparkExpression(session, table, where)
    return _CONVERTER.convertToIcebergExpression(resolved)


def is_beyond_planning(error: BaseException) -> bool:
    """Whether a filter was refused because it can only be told by looking at rows."""
    return gateway.is_foreign(error) and any(words in gateway.trace(error) for words in _CANNOT)
