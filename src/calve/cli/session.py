"""Spark for verbs that look into tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from calve.catalogs import Catalog
from calve.cli.app import say
from calve.project import Project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def opened(project: Project, catalogs: Sequence[Catalog], debug: bool) -> Iterator[SparkSession]:
    """A Spark session that knows `catalogs`, for as long as the verb works."""
    from calve.runtime import run
    from calve.runtime.session import branch_off, end

    spark = run.open_spark_with(project, catalogs, debug=debug, progress=say)
    try:
        yield branch_off(spark, catalogs)
    finally:
        end(spark)
