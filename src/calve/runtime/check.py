"""Reaches a source or a sink and tells what was tried."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from calve import gateway, schema, trust
from calve.diagnosis import Diagnosis, of_error
from calve.errors import (
    CalveError,
    ConfigurationError,
    Conflict,
    DataRefused,
    NotPermitted,
    Unavailable,
)
from calve.iceberg import swap
from calve.iceberg.catalog import Catalog
from calve.iceberg.name import TableName
from calve.iceberg.stage import Staged
from calve.iceberg.table import Table
from calve.patience import Patience
from calve.runtime import probe
from calve.runtime.plan import cause
from calve.runtime.probe import Endpoint
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


STEPS = ("resolve", "connect", "tls", "authenticate", "list", "create", "write", "commit", "read", "delete")
"""What is tried with a sink, in this order."""

_EARLIER = "an earlier step failed"
Status = Literal["ok", "failed", "skipped"]


@dataclass(frozen=True)
class Step:
    """One thing that was tried, and what was seen or went wrong."""

    step: str
    tried: str
    status: Status
    seen: str = ""


@dataclass
class Check:
    """All that was tried with one source or sink; it ends at the first failure."""

    kind: str
    name: str
    what: str
    steps: list[Step] = field(default_factory=list)
    error: CalveError | None = None
    diagnosis: Diagnosis | None = None
    warnings: list[str] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """0, or the code of what went wrong."""
        if self.error is None:
            return 0
        return self.diagnosis.exit_code if self.diagnosis else self.error.exit_code

    @property
    def advice(self) -> str:
        """What to do about it, if something went wrong."""
        return self.diagnosis.advice if self.diagnosis else ""

    def tried(
        self,
        step: str,
        what: str,
        action: Callable[[], Result],
        seen: Callable[[Result], str] = lambda _: "",
    ) -> Result:
        """Run `action` and remember how it went."""
        try:
            result = action()
        except CalveError as error:
            self.steps.append(Step(step, what, "failed", str(cause(error))))
            raise
        self.steps.append(Step(step, what, "ok", seen(result)))
        return result

    def skipped(self, step: str, why: str) -> None:
        """Remember that there was nothing to try, or no point in it."""
        self.steps.append(Step(step, step, "skipped", why))

    def skip_the_rest(self) -> None:
        """Every step that was not come to."""
        reached = {one.step for one in self.steps}
        for step in STEPS:
            if step not in reached:
                self.skipped(step, _EARLIER)
        self.steps.sort(key=lambda one: STEPS.index(one.step))


@contextmanager
def _checking(check: Check) -> Iterator[None]:
    try:
        yield
    except CalveError as error:
        log.debug("%s %s failed", check.kind, check.name, exc_info=True)
        check.error = cause(error)


def check_source(name: str, source: Source, spark: SparkSession | None = None) -> Check:
    """Reach `source`, in a session of `spark` that knows its catalogs."""
    check = Check("source", name, source.connector)
    with _checking(check):
        if spark is not None:
            branch_off(spark, [one for one in source.catalogs if is_there(one)])
        check.tried("connect", "reach it and see what is there", source.check, "; ".join)
    if check.error is not None:
        check.diagnosis = replace(of_error(check.error), exit_code=check.error.exit_code)
        check.diagnosis = replace(check.diagnosis, advice=_source_advice(check.error, check.diagnosis))
    return check


def check_sink(spark: SparkSession, name: str, sink: IcebergSink) -> Check:
    """Reach the catalog of `sink`, and create, write, read and drop a scratch table beside its table."""
    check = Check("sink", name, sink.catalog.description(), warnings=warnings(sink))
    with _checking(check):
        trust.refuse_open(sink.catalog)
        _reach(check, sink)
        _try_sink(check, branch_off(spark, [sink.catalog]), scratch(sink))
    if check.error is not None:
        check.diagnosis = of_error(check.error)
        check.skip_the_rest()
    return check


def warnings(sink: IcebergSink) -> list[str]:
    """What the declaration alone says that everybody should know."""
    found = []
    if sink.catalog.hive and not sink.catalog.hive.lock:
        found.append(
            "the hive catalog commits without a lock ('lock: false'): a metastore without HIVE-26882 loses "
            "commits of two writers"
        )
    return found


def endpoints(sink: IcebergSink) -> list[list[Endpoint]]:
    """The servers that a sink needs; of the addresses in one list, one has to be reached.

    A catalog that vends credentials names the store that they are for, unless the declaration does.
    """
    catalog = sink.catalog
    is_told = catalog.rest is not None and catalog.rest.is_vended(catalog.stores)
    own = catalog.section.addresses() if catalog.section else ()
    groups = [[Endpoint("the catalog", address) for address in own]]
    groups += [
        [Endpoint(f"'{name}'", a) for a in store.addresses()]
        for name, store in catalog.stores.declared().items()
        if not is_told or getattr(store, "endpoint", None)
    ]
    return [group for group in groups if group]


def _reach(check: Check, sink: IcebergSink) -> None:
    """Reach the hosts of the catalog and of the stores by plain sockets."""
    groups = endpoints(sink)
    if not groups:
        for step in STEPS[:3]:
            check.skipped(step, "there is no server")
        return
    for group in groups:
        _reach_one_of(check, group)
    reached = {one.step for one in check.steps}
    for step in STEPS[:3]:
        if step not in reached:
            check.skipped(step, "the address is plain http" if step == "tls" else _EARLIER)


def _reach_one_of(check: Check, group: list[Endpoint]) -> None:
    failure: CalveError | None = None
    for endpoint in group:
        try:
            _reach_host(check, endpoint)
        except CalveError as error:
            failure = failure or error
            if len(group) > 1:
                check.warnings.append(f"{endpoint.whose} at {endpoint}: {error}")
        else:
            return
    if failure is not None:
        raise failure


def _reach_host(check: Check, endpoint: Endpoint) -> None:
    where = f"{endpoint.whose} at {endpoint}"
    check.tried("resolve", f"resolve {where}", lambda: probe.resolve(endpoint), ", ".join)
    check.tried("connect", f"connect to {where}", lambda: probe.connect(endpoint))
    if endpoint.is_tls:
        check.tried("tls", f"speak TLS with {where}", lambda: probe.shake_hands(endpoint), str)


def scratch(sink: IcebergSink) -> IcebergSink:
    """A sink like `sink` whose table is a new one with two columns."""
    plain: dict[str, Any] = {
        "commit_mode": "append",
        "key_fields": [],
        "order_by": None,
        "change_columns": False,
        "renames": {},
        "partitioning": "none",
        "partition_fields": [],
        "partition_by": [],
        "sort_by": [],
        "branch": "main",
    }
    return sink.model_copy(update={"table": f"calve_check_{uuid.uuid4().hex[:8]}", **plain})


def _try_sink(check: Check, spark: SparkSession, sink: IcebergSink) -> None:
    name = prepare.table_name(sink)
    told = sink.catalog.description()
    catalog = check.tried("authenticate", "open the catalog", lambda: Catalog(spark, name.catalog, told))
    check.tried(
        "list", "list its namespaces", catalog.namespaces, lambda found: ", ".join(found) or "none yet"
    )
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
    check.tried(
        "create",
        f"create namespace '{namespace}' if needed",
        lambda: catalog.create_namespace(name.namespace),
    )
    check.tried("create", f"create table '{name}'", lambda: writer.open("calve-check", {"row": 0}, COLUMNS))
    staged = check.tried("write", "write a row", lambda: _staged(spark, writer))
    late = swap.held_back(catalog.load(name))
    check.tried("commit", "commit it", lambda: writer.commit(staged, {"row": 1}))
    _notice_snapshots(check, catalog.load(name))
    check.tried("commit", "have a commit refused that comes too late", lambda: _refused(late, check.what))
    check.tried("read", "read it back", lambda: _read(spark, name))


def _staged(spark: SparkSession, writer: Writer) -> Staged:
    return writer.stage(spark.sql("SELECT 1L AS id, 'written by calve check' AS note"), 1)


def _refused(commit: Callable[[], None], catalog: str) -> None:
    """Refuse a catalog that swaps without comparing."""
    with suppress(Conflict):
        commit()
        raise ConfigurationError(
            f"Cannot rely on {catalog}: it takes a commit that was made for an older state of the table, so "
            "two writers lose each other's rows"
        )


def _notice_snapshots(check: Check, table: Table) -> None:
    """Say so where a catalog keeps fewer snapshots than were committed: the fence and the row."""
    metadata = table.metadata()
    kept = len(metadata.snapshots())
    if kept < 2:
        check.warnings.append(
            f"{check.what} keeps {kept} snapshot of a table where 2 were committed: there is no time travel, "
            "no incremental read and no rollback"
        )


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
        table = catalog.load(name)
        location = table.metadata().location
        check.tried("delete", "drop the table", lambda: catalog.drop(name))
        if name.table in location:
            # The commit that came too late has left files that no table knows.
            with suppress(CalveError):
                table.remove_files()
        _remove_empty(Path(location.removeprefix("file:")), len(absent))
    for level in filter(catalog.has_namespace, absent):
        what = f"drop namespace '{'.'.join(level)}'"
        check.tried("delete", what, partial(_drop_namespace, spark, name.catalog, level))


def _drop_namespace(spark: SparkSession, catalog: str, level: tuple[str, ...]) -> None:
    quoted = ".".join(f"`{part}`" for part in (catalog, *level))
    with gateway.translated(f"drop namespace '{'.'.join(level)}'"):
        spark.sql(f"DROP NAMESPACE {quoted}")


def _remove_empty(table: Path, levels: int) -> None:
    """Remove the directories that a dropped table and its namespace leave on a local disk, if empty."""
    for directory in (table / "data", table / "metadata", table, *list(table.parents)[:levels]):
        with suppress(OSError):
            directory.rmdir()


def _source_advice(error: CalveError, found: Diagnosis) -> str:
    if isinstance(error, NotPermitted):
        return "check the credentials and what they are allowed to read"
    if isinstance(error, Unavailable):
        return "check the address, that the service runs, and that this machine may reach it"
    if isinstance(error, (ConfigurationError, DataRefused)):
        return "check the keys of the source in the declaration"
    return found.advice
