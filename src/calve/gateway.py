"""The way into the JVM, and the translation of what it and Spark raise into Calve's own errors."""

from __future__ import annotations

import json
import os
import re
import secrets
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from types import SimpleNamespace
from typing import Any, TypeVar

from calve.errors import (
    BadRecord,
    CalveError,
    ConfigurationError,
    DataRefused,
    NotPermitted,
    TryAgain,
    Unavailable,
    Unfit,
)
from calve.redaction import redacted

Result = TypeVar("Result")

_TOKEN_VARIABLE = "CALVE_WORKER_TOKEN"
_TOKEN = secrets.token_hex(16)
_LONGEST = 600


def _marker() -> str:
    """The text in front of an error of ours in a trace, with a token that no record can hold.

    Workers get the token of the driver in their environment.
    """
    return f"calve-error {os.environ.get(_TOKEN_VARIABLE) or _TOKEN} "


def share_token(spark_context: Any) -> None:
    """Have the Python workers of `spark_context` mark their errors with the token of this process."""
    spark_context.environment[_TOKEN_VARIABLE] = os.environ.get(_TOKEN_VARIABLE) or _TOKEN


def jvm() -> Package:
    """The JVM of the running Spark: what has no dots before it."""
    from pyspark import SparkContext

    running = SparkContext._active_spark_context
    if running is None or running._gateway is None:
        raise CalveError("Cannot reach the JVM: no Spark session is running")
    return Package("", running._gateway._gateway_client)


class Package:
    """A package of Java's.

    The first letter tells what a name in it is. Py4J asks Java at each dot, which looks for a class of that
    name in all of Spark's jars.
    """

    def __init__(self, name: str, client: Any) -> None:
        self._name, self._client = name, client

    def __getattr__(self, name: str) -> Any:
        from py4j.java_gateway import JavaClass

        if name.startswith("__"):
            raise AttributeError(name)
        whole = f"{self._name}.{name}" if self._name else name
        return Package(whole, self._client) if name[0].islower() else JavaClass(whole, self._client)


def launch(settings: Mapping[str, str]) -> None:
    """Start the JVM with `settings` on its command line, unless there is one.

    Settings that a session is built with later are not on it: every user of the machine can read it.
    """
    from pyspark import SparkConf, SparkContext

    if SparkContext._gateway is None:
        SparkContext._ensure_initialized(conf=SparkConf().setAll(list(settings.items())))


_WITHOUT_PACKAGE = ("PythonUtils", "PythonSQLUtils", "SimplePythonFunction")


def keep_names() -> None:
    """Have PySpark ask Java once, not in each batch, where classes are that it names without packages."""
    from pyspark import SparkContext

    known = SparkContext._jvm
    for name in _WITHOUT_PACKAGE:
        setattr(known, name, getattr(known, name))
    share_token(SparkContext._active_spark_context)


def quiet(spark: Any) -> None:
    """Have PySpark print no stack trace where the connection ends on which the JVM sends accumulators."""
    spark.sparkContext._accumulatorServer.handle_error = lambda *_: None


def activate(spark: Any) -> None:
    """Make `spark` the session of the calling thread."""
    share_token(spark.sparkContext)
    jvm().org.apache.spark.sql.classic.SparkSession.setActiveSession(spark._jsparkSession)


def beside(spark: Any, work: Callable[[], Result], tag: str | None = None) -> Callable[[], Result]:
    """`work` for another thread, in the session `spark` and under the job group of this thread.

    Its jobs have the `tag`, by which they can be cancelled.
    """
    from pyspark import inheritable_thread_target

    def found() -> Result:
        activate(spark)
        if tag is not None:
            spark.sparkContext.addJobTag(tag)
        return work()

    same: Callable[[], Result] = inheritable_thread_target(spark)(found)
    return same


def cancel(spark: Any, tag: str) -> None:
    """Cancel the jobs that have `tag`."""
    # Where the JVM is gone, so are its jobs.
    with suppress(Exception):
        spark.sparkContext.cancelJobsWithTag(tag)


def active() -> Any:
    """The session of the calling thread, as Java has it."""
    return jvm().org.apache.spark.sql.classic.SparkSession.active()


def is_stopped() -> bool:
    """Whether no Spark runs in this process."""
    from pyspark import SparkContext

    return SparkContext._active_spark_context is None


def process() -> Any:
    """The process of the JVM that this process started."""
    from pyspark import SparkContext

    return SparkContext._gateway.proc if SparkContext._gateway else None


@contextmanager
def signals_kept() -> Iterator[None]:
    """Inside, PySpark starts a JVM that ignores SIGINT and SIGTERM, and takes no signal from this process.

    A terminal and a supervisor send their signal to every process of a group. The JVM has to outlive it until
    the batch in flight is committed; it ends when its standard input does, at the latest with this process.
    PySpark 4.1.3 has the JVM ignore SIGINT alone, and takes SIGINT itself to cancel all jobs. Whoever has
    set a handler keeps it; Python's own one is replaced as PySpark wants it.
    """
    java_gateway: Any = import_module("pyspark.java_gateway")
    context: Any = import_module("pyspark.core.context")
    started, known = java_gateway.Popen, context.signal

    def start(command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        return subprocess.Popen(command, **{**options, "preexec_fn": _ignore_signals})

    def handle(number: int, handler: Any) -> Any:
        has_default = signal.getsignal(number) in (signal.default_int_handler, signal.SIG_DFL)
        return signal.signal(number, handler) if has_default else signal.getsignal(number)

    java_gateway.Popen = start
    context.signal = SimpleNamespace(SIGINT=signal.SIGINT, signal=handle)
    try:
        yield
    finally:
        java_gateway.Popen, context.signal = started, known


def _ignore_signals() -> None:
    """A process that is started so goes on ignoring them; Java leaves it at that."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


def lost(patience: float = 1.0) -> TryAgain | None:
    """The error to end with where the JVM that this process started has ended; None where it runs."""
    running = process()
    if running is None:
        return None
    try:
        code = running.wait(patience)
    except subprocess.TimeoutExpired:
        return None
    if code == -signal.SIGKILL:
        why = (
            "was killed, as the system does where memory is short; start it again, and lower 'driver_memory'"
        )
        return TryAgain(f"Cannot go on: the JVM of Spark {why} or add memory if that repeats")
    how = f"by signal {-code}" if code < 0 else f"with code {code}"
    return TryAgain(f"Cannot go on: the JVM of Spark ended {how}; start it again")


def end(process: subprocess.Popen[bytes], patience: float = 10) -> None:
    """Close the standard input of a gateway's JVM, upon which it ends; else end it."""
    if process.stdin:
        process.stdin.close()
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def observed(observation: Any, name: str, patience: float = 60) -> int:
    """What was counted while a query ran that has ended; raises where Spark does not tell in time."""
    deadline = time.monotonic() + patience
    while not observation._jo.future().isCompleted():
        if time.monotonic() > deadline:
            raise Unavailable("Cannot tell how many records were read: Spark does not say")
        time.sleep(0.01)
    return int(observation.get[name])


@dataclass(frozen=True)
class Stage:
    """What Spark has counted in the tasks of a stage."""

    tasks: int
    run_ms: int
    cpu_ns: int
    gc_ms: int
    spilled: int


def ended_stages(spark: Any, group: str, seen: Collection[int]) -> list[tuple[int, list[Stage]]]:
    """The ended jobs of `group` that are not in `seen`, with their stages; none where Spark does not tell."""
    from py4j.protocol import Py4JError

    context = spark.sparkContext
    try:
        context._jsc.sc().listenerBus().waitUntilEmpty()
        tracker = context.statusTracker()
        jobs = {job: tracker.getJobInfo(job) for job in set(tracker.getJobIdsForGroup(group)) - set(seen)}
        store = context._jsc.sc().statusStore()
        return [
            (job, [stage for number in (told.stageIds if told else ()) for stage in _stages(store, number)])
            for job, told in jobs.items()
            if told is None or told.status != "RUNNING"
        ]
    except Py4JError:
        return []


def _stages(store: Any, number: int) -> Iterator[Stage]:
    """A stage; none where it was skipped, because an earlier one left what it would make."""
    from py4j.protocol import Py4JJavaError

    with suppress(Py4JJavaError):
        told = store.lastStageAttempt(number)
        numbers = (told.executorRunTime(), told.executorCpuTime(), told.jvmGcTime(), told.diskBytesSpilled())
        yield Stage(told.numCompleteTasks(), *numbers)


ROWS_OF_A_TASK = 50_000
"""How many rows a task has at least, where there are more of them: each has a cost of its own."""
_ROWS_OF_ARROW = "spark.sql.execution.arrow.maxRecordsPerBatch"
_BYTES_OF_ARROW = "spark.sql.execution.arrow.maxBytesPerBatch"
_NEVER = str(2**31 - 1)


@contextmanager
def arrow_batches(spark: Any, rows: int) -> Iterator[None]:
    """Inside, Spark hands at most `rows` rows at once to Python workers, whatever their size.

    To see how large a batch has become after each row, as Spark does otherwise, takes a fifth of the time. A
    size that a user has set is heeded.
    """
    if spark.sparkContext._conf.contains(_BYTES_OF_ARROW):
        yield
        return
    known = {name: spark.conf.get(name) for name in (_ROWS_OF_ARROW, _BYTES_OF_ARROW)}
    spark.conf.set(_ROWS_OF_ARROW, str(min(rows, int(known[_ROWS_OF_ARROW]))))
    spark.conf.set(_BYTES_OF_ARROW, _NEVER)
    try:
        yield
    finally:
        for name, value in known.items():
            spark.conf.set(name, value)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether Java had too little memory for what was asked of it."""
    cause = error.__cause__ or error
    return is_foreign(cause) and "OutOfMemory" in trace(cause)


def has_iceberg() -> bool:
    """Whether the running Spark was started with Iceberg."""
    from py4j.protocol import Py4JError

    try:
        return bool(jvm().org.apache.iceberg.spark.Spark3Util.loadIcebergCatalog)
    except Py4JError:
        return False


_QUERY_ID = "sql.streaming.queryId"


def checkpoint_id(frame: Any) -> str | None:
    """The id that the checkpoint has of the stream whose batch the calling function of `foreachBatch` got."""
    found = frame.sparkSession.sparkContext.getLocalProperty(_QUERY_ID)
    return None if found is None else str(found)


def cached_bytes(frame: Any) -> int:
    """How many bytes a DataFrame takes that is persisted and was read once."""
    plan = frame.select("*")._jdf.queryExecution().optimizedPlan()
    return int(str(plan.stats().sizeInBytes()))


def first_columns(frame: Any, count: int) -> Any:
    """The frame of a table as if that had only its first `count` columns.

    A table whose last columns count as metadata hides what else it has of that from Spark's analyzer.
    """
    relation = frame._jdf.queryExecution().analyzed()
    if relation.output().size() == count:
        return frame
    parts = (relation.catalog(), relation.identifier(), relation.options(), relation.timeTravelSpec())
    fewer = relation.copy(relation.table(), relation.output().take(count), *parts)
    session = frame.sparkSession
    rows = jvm().org.apache.spark.sql.classic.Dataset.ofRows(session._jsparkSession, fewer)
    return type(frame)(rows, session)


def parsed_nodes(spark: Any, sql: str) -> tuple[set[str], set[str]]:
    """The kinds of nodes and of expressions in a query that is only parsed: nothing of it is run."""
    return _nodes(spark._jsparkSession.sessionState().sqlParser().parsePlan(sql))


def analyzed_nodes(rows: Any) -> tuple[set[str], set[str]]:
    """The kinds of nodes and of expressions in the analyzed plan of a DataFrame."""
    return _nodes(rows._jdf.queryExecution().analyzed())


def called_functions(spark: Any, sql: str) -> set[str]:
    """The names of the functions in a query that is only parsed, in lower case and without their schema."""
    tree = json.loads(spark._jsparkSession.sessionState().sqlParser().parsePlan(sql).toJSON())
    return {name.strip("[]").rpartition(",")[2].strip().lower() for name in _function_names(tree)}


def _function_names(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if "class" in value and _kind(value) == "UnresolvedFunction":
            yield str(value["nameParts"])
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            yield from _function_names(inner)


def _nodes(plan: Any) -> tuple[set[str], set[str]]:
    tree = json.loads(plan.toJSON())
    nodes = {_kind(node) for node in tree}
    return nodes, {name for node in tree for value in node.values() for name in _kinds(value)}


def _kinds(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if "class" in value:
            yield _kind(value)
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            yield from _kinds(inner)


def _kind(node: dict[str, Any]) -> str:
    return str(node["class"]).rpartition(".")[2].rstrip("$")


class WorkerError(Exception):
    """An error of ours on its way out of a Python worker, of which Spark passes on nothing but the text."""

    def __init__(self, error: CalveError) -> None:
        if isinstance(error, BadRecord):
            told = {"place": error.place, "reason": error.reason}
        else:
            told = {"kind": type(error).__name__, "message": str(error)}
        super().__init__(_marker() + json.dumps(told))


def raised_in_spark(place: Any, reason: str) -> Any:
    """An expression that raises a bad record; `place` is an expression itself."""
    from pyspark.sql import functions as f

    told = f.to_json(f.struct(place.alias("place"), f.lit(reason).alias("reason")))
    return f.raise_error(f.concat(f.lit(_marker()), told))


def refusal_in_spark(message: Any) -> Any:
    """An expression that raises DataRefused; `message` is an expression itself."""
    from pyspark.sql import functions as f

    told = f.to_json(f.struct(f.lit(DataRefused.__name__).alias("kind"), message.alias("message")))
    return f.raise_error(f.concat(f.lit(_marker()), told))


@contextmanager
def translated(what: str, own: Callable[[str, str], CalveError] | None = None) -> Iterator[None]:
    """Turn what Java and Spark raise inside into our own errors; `what` completes "Cannot …".

    `own` makes the error of a stack trace, where the caller knows more kinds than `classify`.
    """
    try:
        yield
    except CalveError:
        raise
    except Exception as error:
        if is_connection_error(error):
            gone = lost()
            if gone is not None:
                raise gone from error
        if not is_foreign(error):
            raise
        raise (own or classify)(trace(error), what) from error


def is_connection_error(error: BaseException) -> bool:
    """Whether the connection to the JVM may be what `error` is about."""
    from py4j.protocol import Py4JError, Py4JJavaError

    is_of_py4j = isinstance(error, Py4JError) and not isinstance(error, Py4JJavaError)
    return is_of_py4j or isinstance(error, (ConnectionError, EOFError))


def translate(error: BaseException, what: str) -> CalveError:
    """Our own error for one of Java, Py4J or Spark; one line that begins with "Cannot <what>"."""
    return classify(trace(error), what)


def trace(error: BaseException) -> str:
    """The Java stack trace behind `error`, or its text where there is none."""
    stack = getattr(error, "_stackTrace", None)
    if isinstance(stack, str):
        said = str(getattr(error, "_desc", "")).strip()
        return f"{type(error).__module__}.{type(error).__name__}: {said}\n{stack}"
    origin = getattr(error, "java_exception", None)
    if origin is not None:
        try:
            return str(jvm().org.apache.spark.util.Utils.exceptionString(origin))
        except Exception:
            return str(error)
    return f"{type(error).__module__}.{type(error).__name__}: {error}"


def is_foreign(error: BaseException) -> bool:
    """Whether `error` comes from Java, Py4J or Spark."""
    return any(owner.__module__.partition(".")[0] in ("py4j", "pyspark") for owner in type(error).__mro__)


@dataclass(frozen=True)
class _Cause:
    """One exception of a stack trace."""

    name: str
    message: str

    @property
    def reason(self) -> str:
        return self.message or self.name.rpartition(".")[2]


_CAUSE = re.compile(r"^[ \t]*(?:Caused by: )?((?:[a-z]\w*\.)+[A-Z][\w$]*)(?::[ \t]*(.*))?$", re.M)


def _causes(text: str) -> list[_Cause]:
    return [_Cause(match[1], (match[2] or "").strip()) for match in _CAUSE.finditer(text)]


_AWAY = re.compile(
    r"\.(ConnectException|UnknownHostException|NoRouteToHostException|SocketTimeoutException|SocketException"
    r"|HttpHostConnectException|ConnectTimeoutException|NoHttpResponseException|ConnectionClosedException"
    r"|ServiceUnavailableException|ServiceFailureException|TimeoutException|DisconnectException|NetworkException"
    r"|BrokerNotAvailableException|LeaderNotAvailableException|CoordinatorNotAvailableException"
    r"|NotLeaderOrFollowerException|BrokerUnavailableException|Py4JNetworkError)$"
)
_AWAY_WORDS = re.compile(
    r"No resolvable bootstrap urls|SQLITE_(?:BUSY|READONLY|FULL)|Read-only file system"
    r"|No space left on device|Disk quota exceeded|database is locked|Connection reset|Connection refused"
    r"|^[A-Z][A-Za-z ]+ \(HTTP/(?:429|5\d\d)\)"
)
_REFUSED = re.compile(
    r"\.(\w*AuthenticationException|\w*AuthorizationException|NotAuthorizedException|ForbiddenException"
    r"|AccessDeniedException|AccessControlException|InvalidCredentialsException|SaslException|SSLHandshakeException)$"
)
_REFUSED_WORDS = re.compile(
    r"\(Service: \w+, Status Code: 40[13]|SQLITE_CANTOPEN|[Pp]ermission denied"
    # What S3 answers to a HEAD with an expired token has no body that could say so.
    r"|ExpiredToken|provided token has expired|^Bad Request \(Service: S3, Status Code: 400"
    r"|^40[13](?: [A-Z][a-z]+)?$|^Status code 40[13]\b"
    r"|^[A-Z][A-Za-z ]+ \(HTTP/40[13]\)|Unable to load credentials from any of the providers"
    r"|[Dd]efault credentials were not found|DefaultAzureCredential failed|Invalid PKCS#8 data"
)
_NULL = re.compile(
    r"NOT_NULL_ASSERT_VIOLATION|[Nn]ull value appeared in non-nullable|NOT_NULL_CONSTRAINT_VIOLATION"
)
_LOST = re.compile(
    r"KAFKA_DATA_LOSS|OffsetOutOfRangeException|KafkaIllegalStateException|data may have been lost"
)
_FILE = re.compile(r"\[FAILED_READ_FILE[.\w]*\].*?reading file (\S+?)\.(?:\s|$)")
_ANALYSIS = re.compile(
    r"\.(AnalysisException|ParseException|ExtendedAnalysisException|NoSuchTableException)$"
)


def classify(text: str, what: str) -> CalveError:
    """Our own error for a Java stack trace."""
    if error := _from_worker(text):
        return error
    text = _shorten(text)
    return _by_cause(_causes(text), what) or _by_text(text, what) or _unknown(text, what)


_LONGEST_LINE = 4 * 2**10
_LONGEST_TRACE = 64 * 2**10


def _shorten(text: str) -> str:
    """A trace without empty lines and with its long lines cut; of a long one the beginning and the end.

    Spark quotes values whole, and whoever writes a record decides how long they are.
    """
    half = _LONGEST_TRACE // 2
    if len(text) <= half:
        return text
    lines = (line[:_LONGEST_LINE] for line in text.splitlines() if line and not line.isspace())
    short = "\n".join(lines)
    return short if len(short) <= _LONGEST_TRACE else f"{short[:half]}\n{short[-half:]}"


_FROM_WORKERS = {
    kind.__name__: kind for kind in (ConfigurationError, DataRefused, NotPermitted, Unavailable, Unfit)
}


def _from_worker(text: str) -> CalveError | None:
    marker = _marker()
    start = text.find(marker)
    if start < 0:
        return None
    try:
        found, _ = json.JSONDecoder().raw_decode(text, start + len(marker))
        if "kind" in found:
            return _FROM_WORKERS.get(found["kind"], CalveError)(found["message"])
        return BadRecord(found["place"], found["reason"])
    except (ValueError, KeyError, TypeError):
        return None


def _by_cause(causes: list[_Cause], what: str) -> CalveError | None:
    for cause in reversed(causes):
        if _REFUSED.search(cause.name) or _REFUSED_WORDS.search(cause.message):
            return NotPermitted(_line(what, cause.reason))
    for cause in reversed(causes):
        if _AWAY.search(cause.name) or _AWAY_WORDS.search(cause.message):
            return Unavailable(_line(what, cause.reason))
    return None


def _by_text(text: str, what: str) -> CalveError | None:
    if _NULL.search(text):
        return DataRefused(_line(what, "a NULL is about to be written to a column that is NOT NULL"))
    if _LOST.search(text):
        return DataRefused(_line(what, "Kafka no longer has the records that were planned"))
    file = _FILE.search(text)
    if file:
        path = re.sub("^file:/+", "/", file[1])
        return BadRecord(f"file '{path}'", _file_reason(text))
    analysis = next((cause for cause in _causes(text) if _ANALYSIS.search(cause.name)), None)
    if analysis:
        return ConfigurationError(_line(what, first_sentence(analysis.reason)))
    return _refused_value(text, what) or _python(text, what)


_VALUE = re.compile(r"SQLSTATE: (?:22\w{3}|P0001)\b")
"""How Spark marks errors that a value causes and not the statement, and those that a statement raises."""


def _refused_value(text: str, what: str) -> CalveError | None:
    """The error for an expression that fails on a row, such as a division by zero or a cast."""
    cause = next((cause for cause in reversed(_causes(text)) if _VALUE.search(cause.message)), None)
    return (
        DataRefused(_line(what, f"{first_sentence(cause.reason)}; nothing of it was committed"))
        if cause
        else None
    )


def _file_reason(text: str) -> str:
    causes = [cause for cause in _causes(text) if "FAILED_READ_FILE" not in cause.message and cause.message]
    return _clip(causes[-1].message) if causes else "it cannot be read"


_PYTHON = re.compile(r"^  File \"([^\"]+)\", line \d+, in \S+\n(?:    .*\n)*(?=([\w.]+(?:: .*)?)$)", re.M)


_OURS = re.compile(rf"{re.escape(os.path.dirname(__file__))}/|.*/(?:site|dist)-packages/calve/")
"""The files of this package, here and where workers on another machine have it."""


def _python(text: str, what: str) -> CalveError | None:
    """The error for an exception in a Python worker: in our code a bug, in the user's the declaration's."""
    raised = list(_PYTHON.finditer(text))
    if not raised or "PythonException" not in text:
        return None
    kind = CalveError if _OURS.match(raised[-1][1]) else ConfigurationError
    return kind(_line(what, raised[-1][2]))


_WORKER_GONE = re.compile(r"Python worker (?:exited unexpectedly|failed to connect back)")
_INPUT_OUTPUT = re.compile(
    r"^java\.(?:io\.(?:IO|UncheckedIO|EOF|InterruptedIO)|nio\.file\.FileSystem|nio\.channels\.\w+)Exception$"
)


def _unknown(text: str, what: str) -> CalveError:
    causes = _causes(text)
    if any(cause.name.endswith("OutOfMemoryError") for cause in causes):
        advice = "raise 'driver_memory' or lower 'max_batch_size'"
        return TryAgain(f"{_line(what, 'Java has too little memory')}; {advice}")
    of_spark = [cause.message for cause in causes if cause.name.startswith("org.apache.spark.")]
    if any(_WORKER_GONE.search(message) for message in of_spark):
        why = "a Python worker was killed, as the system does where memory is short"
        return Unavailable(_line(what, why))
    if causes and _INPUT_OUTPUT.match(causes[-1].name):
        return Unavailable(_line(what, causes[-1].reason))
    return CalveError(_line(what, causes[-1].reason if causes else text))


def first_sentence(message: str) -> str:
    """The first sentence of one of Spark's messages, without its error class and its error state."""
    plain = re.sub(r"^\[[A-Z_.0-9]+\]\s*", "", message.strip())
    plain = re.sub(r"\s*SQLSTATE: \w+.*$", "", plain, flags=re.S)
    return re.split(r"\.\s|\n|;\s*line \d+ pos", plain, maxsplit=1)[0].rstrip(". ")


def _line(what: str, why: str) -> str:
    return f"Cannot {what}: {_clip(why)}"


def _clip(text: str) -> str:
    line = " ".join(redacted(text).split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"
