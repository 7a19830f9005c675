"""Spark's standalone cluster with two workers, without Calve, beside the same run in one process."""

from __future__ import annotations

import json
import sys
import sysconfig
import uuid

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.faults import evidence
from tests.faults.process import Calve
from tests.servers.process import wait_until
from tests.servers.standalone import Standalone

pytestmark = pytest.mark.spark

RECORDS = 130_000
PARTITIONS = 4
COLUMNS = "id BIGINT NOT NULL, name STRING, at TIMESTAMP"
# Without `site` the editable install of Calve is not found; its dependencies are.
BARE = """#!/bin/sh
PYTHONPATH="$PYTHONPATH:{packages}" exec {python} -S "$@"
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    found = Standalone(tmp_path_factory.mktemp("standalone"))
    found.start()
    wait_until(lambda: found.alive() == 2, "the workers are known")
    yield found
    found.remove()


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory):
    file = tmp_path_factory.mktemp("bare") / "python"
    file.write_text(BARE.format(packages=sysconfig.get_path("purelib"), python=sys.executable))
    file.chmod(0o755)
    return str(file)


def record(number: int) -> str:
    at = f"2026-01-{number % 5 + 1:02}T00:00:00Z"
    return json.dumps({"id": number % 100_000, "name": f"name {number}", "at": at})


@pytest.fixture(scope="module")
def topic(kafka):
    """Records of which some are bad, and some change what others have said."""
    name = f"cluster-{uuid.uuid4().hex[:8]}"
    kafka.create_topic(name, PARTITIONS)
    for partition in range(PARTITIONS):
        numbers = range(partition, RECORDS, PARTITIONS)
        records = ["no JSON" if number % 20_000 == 1 else record(number) for number in numbers]
        kafka.produce(name, records, partition=partition)
    return name


def declaration(kafka, topic, folder, spark) -> str:
    reading = {"bootstrap_servers": kafka.bootstrap, "topics": [topic], "format": "json", "schema": COLUMNS}
    source = {"connector": "kafka", "config": reading}
    files = {"connector": "files", "config": {"path": str(folder), "format": "parquet"}}
    sinks = {
        "appended": {"partition_by": ["day(at)"]},
        "upserted": {"commit_mode": "upsert", "key_fields": ["id"]},
        "transformed": {"partition_by": ["day(at)"]},
        "bulk": {},
    }
    pipelines = {name: {"source": "bulk" if name == "bulk" else "topic", "sink": name} for name in sinks}
    pipelines["transformed"]["transforms"] = [{"sql": "SELECT id, upper(name) AS name, at FROM input"}]
    return json.dumps(
        {
            "version": "1.0",
            "spark": spark,
            "sources": {"topic": source, "bulk": files},
            "sinks": {
                name: {"connector": "iceberg", "config": {"namespace": "shop", "table": name, **keys}}
                for name, keys in sinks.items()
            },
            "pipelines": pipelines,
        }
    )


def test_a_cluster_writes_the_same_rows(kafka, topic, cluster, bare_python, tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    for part in range(3):
        ids = range(part * 100_000, (part + 1) * 100_000)
        pq.write_table(pa.table({"id": ids, "name": [f"row {one}" for one in ids]}), data / f"{part}.parquet")
    sent = {"spark.pyspark.python": bare_python, "spark.executor.memory": "512m", "spark.cores.max": "2"}
    spread = {"master": cluster.address, "driver_memory": "1g", "config": sent}
    there = ran(tmp_path / "there", declaration(kafka, topic, data, spread))
    here = ran(
        tmp_path / "here", declaration(kafka, topic, data, {"master": "local[2]", "driver_memory": "1g"})
    )
    assert cluster.executors() == [1, 1]
    assert there == here
    bad = len(range(1, RECORDS, 20_000))
    assert {name: len(rows) for name, rows in there.items()} == {
        "appended": RECORDS - bad,
        "appended__dead_letter": bad,
        "upserted": 100_000 - 5,
        "upserted__dead_letter": bad,
        "transformed": RECORDS - bad,
        "transformed__dead_letter": bad,
        "bulk": 300_000,
    }


def ran(folder, text) -> dict[str, pa.Table]:
    """The rows of each table after a run, in one order: what is read there, not how it lies there."""
    calve = Calve(folder, text, is_measured=False)
    code, said = calve.run("run", "--once")
    assert code == 0, said
    catalog = evidence.embedded(folder)
    return {name: rows(catalog.load_table(("shop", name))) for _, name in catalog.list_tables("shop")}


def rows(table) -> pa.Table:
    of_letters = ("position", "reason", "value") if table.name()[-1].endswith("__dead_letter") else ("*",)
    found = table.scan(selected_fields=of_letters).to_arrow()
    return found.sort_by([(name, "ascending") for name in found.column_names]).combine_chunks()
