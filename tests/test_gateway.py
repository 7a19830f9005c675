"""What Java and Spark raise becomes one of our errors, in one line."""

import time
from typing import ClassVar

import pytest

from calve import gateway
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
from calve.gateway import (
    Package,
    WorkerError,
    classify,
    first_sentence,
    jvm,
    share_token,
    translate,
    translated,
)

AT = "\n\tat org.apache.x.Y.z(Y.scala:1)\n"


@pytest.mark.parametrize(
    ("trace", "kind", "message"),
    [
        (
            "java.util.concurrent.ExecutionException: org.apache.kafka.common.errors.TimeoutException: Late"
            f"{AT}Caused by: org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node",
            Unavailable,
            "Cannot do it: Timed out waiting for a node",
        ),
        (
            f"org.apache.iceberg.exceptions.RESTException: Error{AT}Caused by: "
            "org.apache.hc.client5.http.HttpHostConnectException: Connect to http://x:1 failed: refused",
            Unavailable,
            "Cannot do it: Connect to http://x:1 failed: refused",
        ),
        (f"java.net.UnknownHostException: nowhere{AT}", Unavailable, "Cannot do it: nowhere"),
        (
            f"org.apache.iceberg.exceptions.ServiceUnavailableException{AT}",
            Unavailable,
            "ServiceUnavailableException",
        ),
        (
            f"org.apache.kafka.common.KafkaException: Failed to create{AT}Caused by: "
            "org.apache.kafka.common.config.ConfigException: No resolvable bootstrap urls given in x",
            Unavailable,
            "No resolvable bootstrap urls",
        ),
        (f"java.sql.SQLException: [SQLITE_BUSY] The file is locked{AT}", Unavailable, "SQLITE_BUSY"),
        (
            f"java.util.concurrent.ExecutionException: x{AT}Caused by: "
            "org.apache.kafka.common.errors.SaslAuthenticationException: Authentication failed: Invalid user",
            NotPermitted,
            "Cannot do it: Authentication failed: Invalid user",
        ),
        (f"org.apache.kafka.common.errors.TopicAuthorizationException: [t]{AT}", NotPermitted, "[t]"),
        (
            f"org.apache.iceberg.exceptions.ForbiddenException: Forbidden: no{AT}",
            NotPermitted,
            "Forbidden: no",
        ),
        (f"java.nio.file.AccessDeniedException: /x{AT}", NotPermitted, "/x"),
        (f"org.sqlite.SQLiteException: [SQLITE_CANTOPEN] Unable to open{AT}", NotPermitted, "Unable to open"),
        (f"java.io.IOException: Mkdirs failed: Read-only file system{AT}", Unavailable, "Read-only"),
        (
            f"x.S3Exception: The provided token has expired. (Service: S3, Status Code: 400){AT}",
            NotPermitted,
            "token has expired",
        ),
        (f"x.StorageException: said{AT}Caused by: y.JsonException: 403 Forbidden{AT}", NotPermitted, "403"),
        (f'x.BlobStorageException: Status code 403, "no"{AT}', NotPermitted, "403"),
        (
            f"java.io.IOException: Your default credentials were not found. To set up{AT}",
            NotPermitted,
            "default credentials",
        ),
        (f"java.io.IOException: Invalid PKCS#8 data.{AT}", NotPermitted, "PKCS"),
        (f"x.NessieForbiddenException: Forbidden (HTTP/403): no{AT}", NotPermitted, "no"),
        (f"x.NessieServiceException: Internal Server Error (HTTP/500): {AT}", Unavailable, "500"),
        (
            f"org.apache.spark.SparkRuntimeException: [NOT_NULL_ASSERT_VIOLATION] NULL{AT}",
            DataRefused,
            "Cannot do it: a NULL is about to be written to a column that is NOT NULL",
        ),
        (
            "org.apache.spark.SparkException: [FAILED_READ_FILE.X] Encountered error while reading file "
            f"file:///in/a.parquet.  SQLSTATE: KD001{AT}Caused by: java.lang.Error: not a Parquet file",
            BadRecord,
            "Cannot decode file '/in/a.parquet': not a Parquet file",
        ),
        (
            "org.apache.spark.sql.AnalysisException: [UNRESOLVED_X] A column `x` cannot be resolved. "
            "Did you mean one of the following? [`y`]. SQLSTATE: 42703; line 1 pos 7;\n'Project ['x]\n",
            ConfigurationError,
            "Cannot do it: A column `x` cannot be resolved",
        ),
        (f"java.io.IOException: Input/output error{AT}", Unavailable, "Cannot do it: Input/output error"),
        (
            f"org.apache.spark.SparkException: Aborted{AT}Caused by: java.lang.OutOfMemoryError: Java heap",
            TryAgain,
            "Cannot do it: Java has too little memory; raise 'driver_memory' or lower 'max_batch_size'",
        ),
        (
            "org.apache.spark.SparkException: Job aborted: Python worker exited unexpectedly (crashed): "
            f"Python worker{AT}Caused by: java.io.EOFException",
            Unavailable,
            "Cannot do it: a Python worker was killed",
        ),
        (f"java.lang.IllegalStateException: what now{AT}", CalveError, "Cannot do it: what now"),
        ("no stack at all", CalveError, "Cannot do it: no stack at all"),
    ],
)
def test_a_java_trace_becomes_one_of_our_errors(trace: str, kind: type[CalveError], message: str) -> None:
    error = classify(trace, "do it")
    assert type(error) is kind
    assert message in str(error)
    assert "\n" not in str(error)
    assert "\tat " not in str(error)


def test_what_is_not_there_for_now_can_be_tried_again() -> None:
    assert classify("java.net.ConnectException: Connection refused", "x").retryable
    assert not classify("java.lang.IllegalStateException: x", "x").retryable


def test_a_bad_record_survives_the_way_out_of_a_worker() -> None:
    record = BadRecord("file 'a \"b\"\nc'", "column 'x': 'é\t\\n\" }' is not a DATE")
    text = f'Traceback:\n  File "x.py"\ncalve.gateway.WorkerError: {WorkerError(record)}\n\n\tat z'
    found = classify(f"org.apache.spark.SparkException: Task failed: {text}", "read")
    assert isinstance(found, BadRecord)
    assert (found.place, found.reason) == (record.place, record.reason)


def test_an_error_in_a_python_worker_is_the_users_unless_it_is_in_our_code() -> None:
    trace = (
        "pyspark.errors.exceptions.captured.PythonException: x\nTraceback (most recent call last):\n"
        '  File "{}", line 3, in f\n    return 1 / 0\nZeroDivisionError: division by zero\n'
    )
    theirs = classify(trace.format("/home/me/mine.py"), "run it")
    assert type(theirs) is ConfigurationError
    assert str(theirs) == "Cannot run it: ZeroDivisionError: division by zero"
    assert type(classify(trace.format("/home/me/calve/mine.py"), "run it")) is ConfigurationError
    assert type(classify(trace.format("/usr/lib/site-packages/calve/decode/json.py"), "run it")) is CalveError
    assert type(classify(trace.format(gateway.__file__), "run it")) is CalveError


@pytest.mark.parametrize(
    ("message", "why"),
    [
        ("[DIVIDE_BY_ZERO] Division by zero. Use `try_divide`. SQLSTATE: 22012", "Division by zero"),
        ("[USER_RAISED_EXCEPTION] no. SQLSTATE: P0001", "no"),
    ],
)
def test_an_expression_that_fails_on_a_row_is_refused_data(message: str, why: str) -> None:
    found = classify(f"org.apache.spark.SparkArithmeticException: {message}\n\tat x", "run it")
    assert type(found) is DataRefused
    assert str(found) == f"Cannot run it: {why}; nothing of it was committed"


def test_a_long_message_is_cut() -> None:
    assert len(str(classify("java.lang.Error: " + "x" * 5000, "do it"))) < 700


def test_our_own_errors_and_those_of_others_pass_through() -> None:
    with pytest.raises(Unavailable, match="ours"), translated("x"):
        raise Unavailable("ours")
    with pytest.raises(KeyError), translated("x"):
        raise KeyError("theirs")


def test_an_error_without_java_behind_it_is_told_by_its_text() -> None:
    assert str(translate(ValueError("odd"), "do it")) == "Cannot do it: odd"


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        (
            "[PARSE_SYNTAX_ERROR] Error at 'SELEC'. SQLSTATE: 42601 (line 1)\n== SQL ==\nSELEC",
            "Error at 'SELEC'",
        ),
        ("Column 'a.b' is odd", "Column 'a.b' is odd"),
        ("One. Two.", "One"),
    ],
)
def test_of_a_message_of_spark_the_first_sentence_is_told(message: str, sentence: str) -> None:
    assert first_sentence(message) == sentence


def test_without_spark_there_is_no_jvm() -> None:
    from pyspark import SparkContext

    if SparkContext._active_spark_context is None:
        with pytest.raises(CalveError, match="no Spark session is running"):
            jvm()


@pytest.mark.spark
def test_java_is_not_asked_where_a_package_ends(spark, monkeypatch) -> None:
    client = spark.sparkContext._gateway._gateway_client
    sent = []
    send = client.send_command
    monkeypatch.setattr(client, "send_command", lambda text, *more: sent.append(text) or send(text, *more))
    made = jvm().java.util.HashMap
    assert sent == []
    assert made().size() == 0
    assert spark.sparkContext._jvm.PythonUtils.getBroadcastThreshold
    assert not [text for text in sent if text.startswith("r\nu")]


def test_what_python_asks_an_object_for_is_no_package() -> None:
    assert not hasattr(Package("java", None), "__deepcopy__")


def test_a_record_that_does_not_fit_is_told_from_one_that_is_bad():
    told = WorkerError(Unfit("other columns"))
    trace = f"org.apache.spark.SparkException: x{AT}Caused by: calve.gateway.WorkerError: {told}"
    assert type(classify(trace, "do it")) is Unfit


FORGED = '{"kind": "Unavailable", "message": "the service is away"}'


@pytest.mark.parametrize("text", ["calve-error x", f"calve-error {FORGED}", 'calve-error {"place": 1}'])
def test_a_value_that_looks_like_an_error_of_ours_is_not_taken_for_one(text: str) -> None:
    trace = f"org.apache.spark.SparkNumberFormatException: [CAST_INVALID_INPUT] The value '{text}' of{AT}"
    error = classify(trace, "run the SQL of a transform")
    assert type(error) is type(classify(trace.replace(text, "abc"), "run the SQL of a transform"))
    assert str(error).startswith("Cannot run the SQL of a transform: ")


def test_an_error_of_a_worker_that_is_cut_off_is_not_taken_for_one_of_ours() -> None:
    cut = str(WorkerError(BadRecord("file 'a'", "x")))[:-5]
    assert type(classify(f"org.apache.spark.SparkException: {cut}{AT}", "read")) is CalveError


def test_workers_mark_their_errors_with_the_token_of_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    class Context:
        environment: ClassVar[dict[str, str]] = {}

    share_token(Context)
    (name,) = Context.environment
    monkeypatch.setenv(name, Context.environment[name])
    error = WorkerError(BadRecord("file 'a'", "x"))
    monkeypatch.delenv(name)
    assert isinstance(classify(f"org.apache.spark.SparkException: {error}{AT}", "read"), BadRecord)


@pytest.mark.parametrize("filling", ["\n", " \n", "a.B\n", "x", "[", '  File "a", line 1, in f\n'])
def test_a_long_value_in_a_message_takes_no_longer_than_its_length(filling: str) -> None:
    value = filling * (2_000_000 // len(filling))
    trace = (
        f"org.apache.spark.SparkException: The value '{value}'{AT}Caused by: java.net.ConnectException: no"
    )
    begin = time.process_time()
    error = classify(trace, "do it")
    assert time.process_time() - begin < 2
    assert isinstance(error, Unavailable)
    assert len(str(error)) < 1000
