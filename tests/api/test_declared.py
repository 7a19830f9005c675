"""Keys that programs give, and what `import calve` costs."""

import os
import subprocess
import sys

import pytest

import calve
from calve.errors import DeclarationError

PLACE = {"namespace": "shop", "table": "orders"}


def test_everything_public_is_there():
    for name in calve.__all__:
        assert getattr(calve, name) is not None
    assert set(calve.__all__) == set(calve._NAMES)
    with pytest.raises(AttributeError, match="module 'calve' has no attribute 'open_lake'"):
        calve.open_lake  # noqa: B018


def test_errors_and_schemas_are_there_without_an_import_of_their_own():
    code = "import calve; print(calve.errors.UsageError.exit_code, calve.schema.parse('id INT').names)"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "64 ('id',)\n"
    )


def test_importing_calve_imports_neither_spark_nor_arrow_nor_models():
    code = "import sys, calve; print([n for n in ('pyspark', 'pyarrow', 'pydantic') if n in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({**PLACE, "sink_id": "x", "tabel": 1}, "IcebergSink: tabel: unknown key; did you mean 'table'?"),
        (PLACE, "IcebergSink: sink_id: required key is missing: it is who writes, in the table's mark"),
        (
            {**PLACE, "sink_id": "x", "batch_size": 5},
            "IcebergSink: batch_size: has no effect: it belongs to pipelines",
        ),
        (
            {"namespace": "shop", "table": "o_{region}", "sink_id": "x"},
            "IcebergSink: table: a program's rows go to one table; name it without columns",
        ),
        (
            {**PLACE, "sink_id": "x", "commit_mode": "upsert"},
            "IcebergSink: commit_mode: 'commit_mode: upsert' needs 'key_fields'",
        ),
        (
            {**PLACE, "sink_id": "x", "checkpoint_interval": "soon"},
            "IcebergSink: checkpoint_interval: not a duration; write a number of seconds, or one with a unit "
            "such as 5m",
        ),
        ({**PLACE, "sink_id": "x", "maintenance": {}}, "IcebergSink: maintenance: not available yet"),
    ],
)
def test_a_sink_with_wrong_keys_is_refused_with_every_problem(keys, message):
    with pytest.raises(DeclarationError) as caught:
        calve.IcebergSink(**keys)
    assert str(caught.value) == message


def test_a_source_with_wrong_keys_is_refused():
    with pytest.raises(DeclarationError, match="IcebergSource: read_mode: "):
        calve.IcebergSource(**PLACE, read_mode="sideways")


def test_a_sink_that_was_not_used_has_a_status_and_ends_without_spark():
    sink = calve.IcebergSink(**PLACE, sink_id="x")
    assert (sink.status().state, sink.status().table) == ("new", "shop.orders")
    assert sink.stop().state == "stopped"
    with pytest.raises(calve.errors.UsageError, match="it has stopped; make another one"):
        sink.flush()


def test_in_a_program_a_call_decides_and_no_command():
    error = calve.errors.StartRefused("Cannot go on")
    assert str(error) == "Cannot go on; decide with: calve repair --restart-from earliest"
    error.call = "IcebergSink.forget()"
    assert str(error) == "Cannot go on; decide with: IcebergSink.forget()"


PLAIN_SPARK = """
from pyspark.sql import SparkSession

SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
import calve

try:
    calve.open_catalog({"type": "memory", "warehouse": "nowhere"})
except calve.errors.ConfigurationError as error:
    print(error)
"""


@pytest.mark.spark
def test_a_spark_that_was_started_without_iceberg_is_refused():
    # The Spark that other tests of this process have started leaves its class path in the environment.
    plain = {name: value for name, value in os.environ.items() if name != "SPARK_DIST_CLASSPATH"}
    said = subprocess.run([sys.executable, "-c", PLAIN_SPARK], capture_output=True, text=True, env=plain)
    assert said.stdout.startswith("Cannot use this SparkSession: it was started without Iceberg"), said.stderr
