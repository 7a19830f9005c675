"""Several pipelines in one process."""

import json
import logging
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from calve import declare
from calve.errors import BadRecord, StartRefused, TableMismatch, exit_code
from calve.runtime import run as runtime
from calve.runtime.report import read
from calve.runtime.stop import Stop
from tests.faults import evidence

DECLARATION = """
version: "1.0"
sources:
  good: {connector: datagen, config: {rows: 50}}
  bad:
    connector: files
    config: {path: data/*.json, format: json, schema: "id BIGINT NOT NULL"}
sinks:
  one: {connector: iceberg, config: {namespace: shop, table: one}}
  two: {connector: iceberg, config: {namespace: shop, table: two, dead_letter: off}}
pipelines:
  first: {source: bad, sink: two}
  second: {source: good, sink: one}
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.json").write_text('{"id": 1}\n{"id": "x"}\n')
    (tmp_path / "calve.yaml").write_text(DECLARATION)
    return tmp_path


def run(spark, folder, *names):
    project = declare.load(folder)
    pipelines = [project.pipeline(name) for name in names or project.pipelines]
    return runtime.run(spark, project, pipelines, Stop(), once=True)


def test_a_pipeline_that_fails_does_not_hold_up_the_others(spark, folder):
    first, second = run(spark, folder)
    assert isinstance(first.error, BadRecord)
    assert "a.json' line 2" in str(first.error)
    assert second.error is None
    table = evidence.embedded(folder).load_table("shop.one")
    assert evidence.values(table, "id") == list(range(1, 51))
    assert exit_code(runtime.first_error([first, second])) == 65
    assert runtime.summary(second) == "second: 50 rows in 1 commits to table 'shop.one'"


def test_nothing_of_a_batch_with_a_bad_record_is_committed(spark, folder):
    run(spark, folder, "first")
    table = evidence.embedded(folder).load_table("shop.two")
    assert evidence.values(table, "id") == []
    (folder / "data" / "a.json").write_text('{"id": 1}\n{"id": 2}\n')
    (only,) = run(spark, folder, "first")
    assert only.error is None
    assert evidence.values(evidence.embedded(folder).load_table("shop.two"), "id") == [1, 2]


def test_how_a_run_ended_is_kept_for_other_processes(spark, folder):
    run(spark, folder)
    first, second = read(folder / ".calve" / "status")
    assert (first.state, second.state) == ("failed", "done")
    assert first.message.startswith("Cannot decode file")
    assert (second.rows, second.batches, second.waiting) == (50, 1, 0)


def test_a_refusal_names_the_pipeline_in_its_command(spark, folder):
    (folder / "data" / "a.json").write_text('{"id": 1}\n')
    run(spark, folder, "first")
    text = (folder / "calve.yaml").read_text()
    (folder / "calve.yaml").write_text(text.replace("data/*.json", "data/*"))
    (folder / "data" / "b.json").write_text('{"id": 2}\n')
    (refused,) = run(spark, folder, "first")
    assert isinstance(refused.error, StartRefused)
    assert str(refused.error).endswith("decide with: calve repair --pipeline first --accept-source")


def test_a_changed_schema_is_refused_before_anything_is_written(spark, folder):
    run(spark, folder, "second")
    before = evidence.embedded(folder).load_table("shop.one").metadata_location
    text = (folder / "calve.yaml").read_text()
    (folder / "calve.yaml").write_text(text.replace("{rows: 50}", "{rows: 60, fields: {id: uuid}}"))
    (refused,) = run(spark, folder, "second")
    assert isinstance(refused.error, TableMismatch)
    assert evidence.embedded(folder).load_table("shop.one").metadata_location == before


def test_a_stop_that_came_while_spark_started_takes_no_epoch(spark, folder):
    project, stop = declare.load(folder), Stop()
    stop.request()
    (one,) = runtime.run(spark, project, [project.pipeline("second")], stop)
    assert (one.error, one.report.status.state) == (None, "stopped")
    assert not (folder / "warehouse").exists()
    assert runtime.summary(one) == "second: stopped before it began"


def test_pipelines_that_open_a_new_catalog_together_do_not_speak_of_each_other(spark, tmp_path, caplog):
    pipelines = range(8)
    declared = {
        "version": "1.0",
        "sources": {"rows": {"connector": "datagen", "config": {"rows": 0}}},
        "sinks": {
            f"s{n}": {"connector": "iceberg", "config": {"namespace": "shop", "table": f"t{n}"}}
            for n in pipelines
        },
        "pipelines": {f"p{n}": {"source": "rows", "sink": f"s{n}"} for n in pipelines},
    }
    (tmp_path / "calve.yaml").write_text(json.dumps(declared))
    runs = run(spark, tmp_path)
    assert [one.error for one in runs] == [None] * len(pipelines)
    assert [message for message in caplog.messages if "Cannot" in message] == []


def test_loggers_stay_what_they_are_however_many_threads_ask_pyspark_for_its_own(spark):
    from pyspark.logger import PySparkLogger

    before, interval = logging.getLoggerClass(), sys.getswitchinterval()
    # Threads take turns as often as they can.
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(lambda number: PySparkLogger.getLogger(f"of-pyspark-{number}"), range(2000)))
    finally:
        sys.setswitchinterval(interval)
    assert logging.getLoggerClass() is before
