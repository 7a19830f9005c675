"""Python workers that are up when the first batch wants them."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def rouse(spark: SparkSession, modules: Iterable[str]) -> threading.Thread:
    """Start as many workers as tasks run at once, in the background: what they import takes a second."""
    arguments = (spark, sorted(set(modules)))
    thread = threading.Thread(target=_rouse, args=arguments, name="workers", daemon=True)
    thread.start()
    return thread


def _rouse(spark: SparkSession, modules: list[str]) -> None:
    # What is wrong with workers, the first batch says better.
    with suppress(Exception):
        count = spark.sparkContext.defaultParallelism
        spark.range(0, count, 1, count).mapInArrow(partial(awake, modules), "worker BIGINT").collect()


def awake(modules: list[str], batches: Iterable[Any]) -> Iterable[Any]:
    """What a worker does that is only to get ready."""
    for name in modules:
        import_module(name)
    yield from batches
