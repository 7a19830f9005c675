"""Catalogs, jars and settings become a SparkSession."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from calve import gateway, trust
from calve.catalogs import Catalog
from calve.catalogs.rest import bounded
from calve.errors import CalveError, ConfigurationError, TryAgain
from calve.iceberg.catalog import POLICY
from calve.project import SparkSettings
from calve.redaction import redacted, remember
from calve.runtime import jars, java, package, scratch, warm
from calve.runtime.spark_log import SparkLog
from calve.runtime.surroundings import Surroundings
from calve.spark_settings import is_secret

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_REWRITES = "spark.sql.catalog.default_rewrite_catalog"
_FIXED = {
    "spark.app.name": "calve",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    # ${env:NAME} in a SQL text would be replaced by the value, secrets included.
    "spark.sql.variable.substitute": "false",
    "spark.redaction.regex": (
        "(?i)secret|password|token|credential|access[._-]?key|jaas|authorization|connection-string|sas"
        # Whatever a catalog is told may be one.
        r"|spark\.sql\.catalog\.\w+\."
    ),
    # Staging looks this catalog up in whatever session the DataFrame belongs to.
    _REWRITES: "org.apache.iceberg.spark.SparkRewriteTableCatalog",
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
}
_DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
    "spark.sql.shuffle.partitions": "8",
}
_CLASS_PATH = "SPARK_DIST_CLASSPATH"
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_COMPILED_ONCE = "-XX:TieredStopAtLevel=1"
_ADDRESSES = ("SPARK_LOCAL_IP", "SPARK_LOCAL_HOSTNAME")
"""Without them Spark looks up the name of the machine, which not every machine can resolve."""
_LOCAL_DIRS = "SPARK_LOCAL_DIRS"
_LOCAL = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
# Any user of the machine can reach the ports at which the driver listens.
_GUARDED = {"spark.authenticate": "true"}
_PYTHON = "spark.pyspark.python"
_DAEMON = {"spark.python.daemon.module": "calve.runtime.daemon"}


def start(
    settings: SparkSettings,
    components: Iterable[str],
    log: Path | None,
    progress: Callable[[str], None] = lambda line: None,
    surroundings: Surroundings | None = None,
    plans_only: bool = False,
) -> SparkSession:
    """Start Spark with the jars of `components`; its output goes to `log`, or to the terminal.

    `plans_only` says that no rows will pass the JVM, which does not compile its code as far then.
    """
    java.use()
    _use_python(settings)
    if _is_local(settings.master):
        for name in _ADDRESSES:
            os.environ.setdefault(name, "127.0.0.1")
    told = (surroundings or Surroundings()).apply(settings.master.startswith("local"))
    files = jars.resolve(jars.needed({"core", *components}), progress=progress)
    from pyspark.sql import SparkSession

    found = {**settings_map(settings, files, plans_only), **told}
    if _has_jvm_of_its_own(settings.master):
        found |= _private(found)
        os.environ[_CLASS_PATH] = warm.class_path(files, os.environ.get(_CLASS_PATH, ""))
    _keep_loggers_apart()
    if log is not None:
        # PySpark logs every refused query, as JSON, to the terminal.
        logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
        # Py4J logs every lost connection with its stack trace; what it means is said by the error.
        logging.getLogger("py4j").setLevel(logging.CRITICAL)
    output = SparkLog(log)
    with output.taking_output(), gateway.signals_kept(), _told_why(output):
        gateway.launch(_public(found))
        builder = SparkSession.builder
        for key, value in found.items():
            builder = builder.config(key, value)
        spark = builder.getOrCreate()
        gateway.keep_names()
        if log is not None:
            gateway.quiet(spark)
    if not _is_local(settings.master):
        spark.sparkContext.addPyFile(str(package.archive()))
    return spark


@contextmanager
def _told_why(output: SparkLog) -> Iterator[None]:
    """Translate what is raised inside; of a JVM that ended PySpark only says that it did, and not why."""
    try:
        with gateway.translated("start Spark"):
            yield
    except CalveError as error:
        if "JAVA_GATEWAY_EXITED" not in str(error):
            raise
        reason = output.reason()
        if reason:
            raise ConfigurationError(f"Cannot start Spark: {reason}") from error
        raise TryAgain("Cannot start Spark: its JVM ended and did not say why") from error


def _public(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings without secrets, which are looked for in texts from now on."""
    secret = {name for name in settings if is_secret(name) or name.startswith("spark.executorEnv.")}
    for name in secret:
        remember(settings[name])
    return {name: value for name, value in settings.items() if name not in secret}


def _private(settings: Mapping[str, str]) -> dict[str, str]:
    """Where Spark and Java put down rows and libraries: in folders that no other user can open."""
    wanted = os.environ.get(_LOCAL_DIRS) or settings.get("spark.local.dir")
    bases = [base.strip() for base in wanted.split(",")] if wanted else [None]
    folders = [str(scratch.folder(base)) for base in bases]
    if os.environ.get(_LOCAL_DIRS):
        os.environ[_LOCAL_DIRS] = ",".join(folders)
    options = settings.get(_JAVA_OPTIONS, "")
    if "java.io.tmpdir" not in options and " " not in folders[0]:
        options = f"-Djava.io.tmpdir={folders[0]} {options}".rstrip()
    return {"spark.local.dir": ",".join(folders), _JAVA_OPTIONS: options}


def end(spark: SparkSession, at_once: bool = False) -> None:
    """Stop Spark; `at_once` ends its JVM, where threads are left that wait for something in it."""
    running = gateway.process()
    try:
        if not at_once:
            spark.stop()
    except Exception as error:
        if gateway.lost() is None:
            raise gateway.translate(error, "stop Spark") from error
    if at_once and running is not None:
        gateway.end(running, patience=5)
    elif running is not None and gateway.is_stopped() and running.stdin:
        # Threads that wait for an answer of the JVM would keep this process: it ends without its input.
        running.stdin.close()


def _keep_loggers_apart() -> None:
    """Have PySpark make its loggers one at a time.

    For each it makes its own class that of all new loggers for a moment; two threads at once leave it so, and
    what is logged from then on is JSON on the terminal, stack traces with secrets included.
    """
    from pyspark.logger import PySparkLogger

    made, lock = PySparkLogger.getLogger, threading.Lock()
    if getattr(made, "__name__", "") == "one_at_a_time":
        return

    def one_at_a_time(name: str | None = None) -> PySparkLogger:
        with lock:
            return made(name)

    setattr(PySparkLogger, "getLogger", staticmethod(one_at_a_time))  # noqa: B010


def settings_map(settings: SparkSettings, files: Sequence[Path], plans_only: bool = False) -> dict[str, str]:
    """Everything that Spark is started with."""
    return {
        **_DEFAULTS,
        **(_LOCAL if _is_local(settings.master) else {}),
        **(_DAEMON if _has_workers_of_ours(settings) else {}),
        "spark.master": settings.master,
        "spark.driver.memory": settings.driver_memory,
        **settings.config,
        **(_GUARDED if _is_local(settings.master) else {}),
        **_FIXED,
        **_jar_settings(settings, files, plans_only),
    }


def _jar_settings(settings: SparkSettings, files: Sequence[Path], plans_only: bool) -> dict[str, str]:
    """A JVM of our own has the jars on its class path, where classes can be shared; executors fetch them."""
    if not _has_jvm_of_its_own(settings.master):
        return {"spark.jars": ",".join(str(file) for file in files)}
    given = settings.config.get(_JAVA_OPTIONS, "")
    # What a batch leaves is garbage at once: a collector that stops for it takes less than one beside it.
    given = given if "GC" in given else f"-XX:+UseParallelGC {given}".rstrip()
    # Compiling its plans well takes the JVM longer than it takes to run them.
    given = f"{_COMPILED_ONCE} {given}" if plans_only and "Tiered" not in given else given
    return {_JAVA_OPTIONS: warm.options(Path(os.environ["JAVA_HOME"]), files, given)}


def branch_off(
    spark: SparkSession, catalogs: Iterable[Catalog], longest: float | None = None
) -> SparkSession:
    """A session of its own for the calling thread, which knows `catalogs` and no others.

    No answer of a catalog behind the REST protocol is waited for longer than `longest` seconds.
    """
    session = spark.newSession()
    know(session, catalogs, longest)
    gateway.activate(session)
    return session


def know(spark: SparkSession, catalogs: Iterable[Catalog], longest: float | None = None) -> None:
    """Make `catalogs` known to a session, and what writing to their tables needs."""
    spark.conf.set(_REWRITES, _FIXED[_REWRITES])
    known: dict[str, Catalog] = {}
    for catalog in catalogs:
        trust.refuse_open(catalog)
        _refuse_namesake(known.setdefault(catalog.spark_name(), catalog), catalog)
        if place := has_other(spark, catalog):
            raise ConfigurationError(
                f"Cannot open {catalog.description()}: in this Spark session '{catalog.spark_name()}' is the "
                f"catalog at '{place}', and a session keeps what it opened first; use a session of its own, "
                "as spark.newSession() makes them"
            )
        _make_room(catalog)
        for key, value in catalog_settings(catalog, longest).items():
            spark.conf.set(key, value)


def has_other(spark: SparkSession, catalog: Catalog) -> str | None:
    """Where the session has another catalog under the name of this one; None where it has none."""
    properties = catalog.spark_properties()
    for key in ("uri", "warehouse"):
        known = spark.conf.get(f"spark.sql.catalog.{catalog.spark_name()}.{key}", None)
        if known is not None and key in properties and known != properties[key]:
            return redacted(known)
    return None


def catalog_settings(catalog: Catalog, longest: float | None = None) -> Mapping[str, str]:
    """The session settings that make `catalog` known to Spark."""
    prefix = f"spark.sql.catalog.{catalog.spark_name()}"
    given = catalog.spark_properties()
    found = given if longest is None else bounded(given, longest)
    properties = {f"{prefix}.{key}": value for key, value in found.items()}
    policy = {f"{POLICY}{catalog.spark_name()}": trust.of(catalog).to_json()}
    return {prefix: "org.apache.iceberg.spark.SparkCatalog", **properties, **policy}


def _refuse_namesake(one: Catalog, other: Catalog) -> None:
    """Two catalogs of one name would be one in Spark."""
    if one.identity() != other.identity():
        raise ConfigurationError(
            f"Cannot open {one.description()} beside {other.description()}: both are called "
            f"'{one.spark_name()}'; declare one of them with 'type: jdbc' and another 'name'"
        )


def _make_room(catalog: Catalog) -> None:
    """SQLite creates the database of the embedded catalog, but not the directory that it is in."""
    if catalog.type is not None:
        return
    try:
        Path(str(catalog.warehouse)).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(
            f"Cannot create directory '{catalog.warehouse}': {error.strerror}"
        ) from error


def _use_python(settings: SparkSettings) -> None:
    """PySpark looks for the workers' Python in the environment and nowhere else."""
    on_this_machine = settings.master.startswith("local")
    chosen = settings.config.get(_PYTHON, sys.executable if on_this_machine else None)
    if chosen is not None:
        os.environ["PYSPARK_PYTHON"] = chosen


def _has_workers_of_ours(settings: SparkSettings) -> bool:
    """Whether workers run on the Python that runs this."""
    return _is_local(settings.master) and settings.config.get(_PYTHON, sys.executable) == sys.executable


def _is_local(master: str) -> bool:
    return master == "local" or master.startswith("local[")


def _has_jvm_of_its_own(master: str) -> bool:
    """Whether this process starts a JVM in which everything runs."""
    from pyspark import SparkContext

    return _is_local(master) and SparkContext._gateway is None
