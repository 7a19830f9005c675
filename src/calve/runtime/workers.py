"""Python workers that are up when the first batch wants them."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def rouse(spark: SparkSession) -> threading.Thread:
    """Start as many workers as tasks run at once, in the background: what they import takes a second."""
    thread = threading.Thread(target=_rouse, args=(spark,), name="workers", daemon=True)
    thread.start()
    return thread


def _rouse(spark: SparkSession) -> None:
    count = spark.sparkContext.defaultParallelism
    # What is wrong with workers, the first batch says better.
    with suppress(Exception):
        spark.range(0, count, 1, count).mapInArrow(awake, "worker BIGINT").collect()


def awake(batches: Iterable[Any]) -> Iterable[Any]:
    """What a worker does that is only to get ready."""
    from calve.decode import json, rows, worker  # noqa: F401
    from calve.iceberg import parquet  # noqa: F401

    worker.settle()
    yield from batches
