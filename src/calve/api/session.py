"""The Spark of a program: one that Calve starts, or the program's own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calve import gateway
from calve.api import declared
from calve.catalogs import Catalog
from calve.errors import ConfigurationError
from calve.project import SparkSettings
from calve.runtime import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def start_spark(
    *catalogs: Catalog | Mapping[str, Any],
    master: str = "local[*]",
    driver_memory: str = "4g",
    config: Mapping[str, str] | None = None,
    components: Iterable[str] = (),
    log: str | Path | None = None,
) -> SparkSession:
    """A SparkSession with Iceberg and with what `catalogs` need, as `calve run` starts it.

    `config` has further settings of Spark, `components` names more of the pinned jars (`kafka`, `avro`), and
    what Spark says goes to the file `log`, or to the terminal.

    >>> spark = calve.start_spark(master="local[2]")  # doctest: +SKIP
    """
    found = [declared.catalog(one, "start_spark") for one in catalogs or (None,)]
    keys: dict[str, Any] = {"master": master, "driver_memory": driver_memory, "config": dict(config or {})}
    # A program can run whatever these settings could run.
    keys["allow_unsafe_config"] = True
    settings = declared.built(SparkSettings, keys, "start_spark")
    needed = {*components, *(jar for one in found for jar in one.jars)}
    spark = session.start(settings, needed, Path(log) if log else None)
    session.know(spark, found)
    gateway.activate(spark)
    return spark


def of(spark: SparkSession | None, catalogs: Iterable[Catalog]) -> SparkSession:
    """`spark`, the active session or a new one, which then knows `catalogs` and is this thread's."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    wanted = list(catalogs)
    if spark is None and SparkContext._active_spark_context is None:
        return start_spark(*wanted)
    found = spark or SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
    refuse_without_iceberg()
    # A session keeps the first catalog of a name, and all embedded ones have the same.
    if spark is None and any(session.has_other(found, one) for one in wanted):
        found = found.newSession()
    session.know(found, wanted)
    gateway.activate(found)
    return found


def refuse_without_iceberg() -> None:
    """Raise ConfigurationError where the running Spark was started without Iceberg."""
    if not gateway.has_iceberg():
        raise ConfigurationError(
            "Cannot use this SparkSession: it was started without Iceberg; start it with calve.start_spark()"
        )
