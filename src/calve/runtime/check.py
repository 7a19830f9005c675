"""Reaches a source or a sink and tells what was tried."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from calve import gateway, schema
from calve.errors import (
    CalveError,
    ConfigurationError,
    DataRefused,
    NotPermitted,
    Unavailable,
)
from calve.iceberg.catalog import Catalog
from calve.iceberg.name import TableName
from calve.patience import Patience
from calve.runtime.plan import cause
from calve.runtime.session import branch_off
from calve.runtime.tables import is_there
from calve.sink import prepare
from calve.sink.declaration import IcebergSink
from calve.sink.writer import Writer
from calve.sources.source import Source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("calve")

Result = TypeVar("Result")

COLUMNS = schema.parse("id BIGINT NOT NULL, note STRING")
SINK_ID = "calve-check"


@dataclass(frozen=True)
class Step:
    """One thing that was tried, and what was seen or went wrong."""

    tried: str
    succeeded: bool
    seen: str = ""


@dataclass
class Check:
    """All that was tried with one source or sink; it ends at the first failure."""

    kind: str
    name: str
    what: str
    steps: list[Step] = field(default_factory=list)
    error: CalveError | None = None
    advice: str = ""

    def tried(
        self, what: str, action: Callable[[], Result], seen: Callable[[Result], str] = lambda _: ""
    ) -> Result:
        """Run `action` and remember how it went."""
        try:
            result = action()
        except CalveError as error:
            self.steps.append(Step(what, False, str(cause(error))))
            raise
        self.steps.append(Step(what, True, seen(result)))
        return result


@contextmanager
def _checking(check: Check, advise: Callable[[CalveError], str]) -> Iterator[None]:
    try:
        yield
    except CalveError as error:
        log.debug("%s %s failed", check.kind, check.name, exc_info=True)
        check.error = cause(error)
        check.advice = advise(check.error)


def check_source(name: str, source: Source, spark: SparkSession | None = None) -> Check:
    """Reach `source`, in a session of `spark` that knows its catalogs."""
    check = Check("source", name, source.connector)
    with _checking(check, _source_advice):
        if spark is not None:
            branch_off(spark, [one for one in source.catalogs if is_there(one)])
        check.tried("reach it and see what is there", source.check, "; ".join)
    return check


def check_sink(spark: SparkSession, name: str, sink: IcebergSink) -> Check:
    """Reach the catalog of `sink`, and create, write, read and drop a scratch table beside its table."""
    check = Check("sink", name, sink.catalog.description())
    with _checking(check, lambda error: _sink_advice(error, sink)):
        _try_sink(check, branch_off(spark, [sink.catalog]), scratch(sink))
    return check


def scratch(sink: IcebergSink) -> IcebergSink:
    """A sink like `sink` whose table is a new one with two columns."""
    plain = {
        "partitioning": "none",
        "partition_fields": [],
        "partition_by": [],
        "sort_by": [],
        "branch": "main",
    }
    return sink.model_copy(update={"table": f"calve_check_{uuid.uuid4().hex[:8]}", **plain})


def _try_sink(check: Check, spark: SparkSession, sink: IcebergSink) -> None:
    name = prepare.table_name(sink)
    catalog = check.tried("reach the catalog", lambda: Catalog(spark, name.catalog))
    check.tried("list its namespaces", catalog.namespaces, lambda found: ", ".join(found) or "none yet")
    absent = _absent(catalog, name)
    try:
        _try_table(check, spark, sink, catalog)
    except CalveError:
        # What went wrong first is what the user is told; a failure to clean up is a step of its own.
        with suppress(CalveError):
            _clean(check, spark, catalog, name, absent)
        raise
    _clean(check, spark, catalog, name, absent)


def _absent(catalog: Catalog, name: TableName) -> list[tuple[str, ...]]:
    """The levels of the namespace that are not there, the inmost first."""
    levels = [name.namespace[:depth] for depth in range(len(name.namespace), 0, -1)]
    return [level for level in levels if not catalog.has_namespace(level)]


def _try_table(check: Check, spark: SparkSession, sink: IcebergSink, catalog: Catalog) -> None:
    name = prepare.table_name(sink)
    writer = Writer(spark, sink, SINK_ID, Patience(0))
    namespace = ".".join(name.namespace)
    check.tried(f"create namespace '{namespace}' if needed", lambda: catalog.create_namespace(name.namespace))
    check.tried(f"create table '{name}'", lambda: writer.open("calve-check", {"row": 0}, COLUMNS))
    check.tried("write and commit a row", lambda: _write(spark, writer))
    check.tried("read it back", lambda: _read(spark, name))


def _write(spark: SparkSession, writer: Writer) -> None:
    frame = spark.sql("SELECT 1L AS id, 'written by calve check' AS note")
    writer.commit(writer.stage(frame, 1), {"row": 1})


def _read(spark: SparkSession, name: TableName) -> None:
    with gateway.translated(f"read table '{name}'"):
        found = [row.id for row in spark.sql(f"SELECT id FROM {name.sql()}").collect()]
    if found != [1]:
        raise Unavailable(f"Cannot read table '{name}': it holds {len(found)} rows where one was written")


def _clean(
    check: Check, spark: SparkSession, catalog: Catalog, name: TableName, absent: list[tuple[str, ...]]
) -> None:
    """Leave nothing behind: neither the table nor a namespace that was not there before."""
    if catalog.has_table(name):
        location = catalog.load(name).metadata().location
        check.tried("drop the table", lambda: catalog.drop(name))
        _remove_empty(Path(location.removeprefix("file:")), len(absent))
    for level in filter(catalog.has_namespace, absent):
        check.tried(
            f"drop namespace '{'.'.join(level)}'", partial(_drop_namespace, spark, name.catalog, level)
        )


def _drop_namespace(spark: SparkSession, catalog: str, level: tuple[str, ...]) -> None:
    quoted = ".".join(f"`{part}`" for part in (catalog, *level))
    with gateway.translated(f"drop namespace '{'.'.join(level)}'"):
        spark.sql(f"DROP NAMESPACE {quoted}")


def _remove_empty(table: Path, levels: int) -> None:
    """Remove the directories that a dropped table and its namespace leave on a local disk, if empty."""
    for directory in (table / "data", table / "metadata", table, *list(table.parents)[:levels]):
        with suppress(OSError):
            directory.rmdir()


def _source_advice(error: CalveError) -> str:
    if isinstance(error, NotPermitted):
        return "check the credentials and what they are allowed to read"
    if isinstance(error, Unavailable):
        return "check the address, that the service runs, and that this machine may reach it"
    if isinstance(error, (ConfigurationError, DataRefused)):
        return "check the keys of the source in the declaration"
    return ""


def _sink_advice(error: CalveError, sink: IcebergSink) -> str:
    what = sink.catalog.description()
    if isinstance(error, NotPermitted):
        return (
            f"check the credentials of {what}, and that they may create and drop tables in '{sink.namespace}'"
        )
    if isinstance(error, Unavailable):
        return f"check the address of {what}, that it runs, and that this machine may reach it"
    if isinstance(error, ConfigurationError):
        return "check 'catalog' and 'warehouse' of the sink in the declaration"
    return ""
