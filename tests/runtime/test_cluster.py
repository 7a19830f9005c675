"""Executors in processes of their own, which do not have Calve installed."""

import json
import sys
import sysconfig

import pytest

from tests.faults import evidence
from tests.faults.process import Calve

pytestmark = pytest.mark.spark

DECLARATION = """
version: "1.0"
sources:
  files: {{connector: files, config: {{path: data, format: json, schema: "id BIGINT NOT NULL"}}}}
sinks:
  lake: {{connector: iceberg, config: {{namespace: shop, table: t}}}}
spark:
  master: "local-cluster[1,1,1024]"
  driver_memory: 1g
  config: {{spark.pyspark.python: {python}, spark.executor.memory: 512m}}
pipelines:
  t: {{source: files, sink: lake}}
"""
# Without `site` the editable install of Calve is not found; its dependencies are.
BARE = """#!/bin/sh
PYTHONPATH="$PYTHONPATH:{packages}" exec {python} -S "$@"
"""


def test_executors_get_what_decoding_needs(tmp_path):
    bare = tmp_path / "bare-python"
    bare.write_text(BARE.format(packages=sysconfig.get_path("purelib"), python=sys.executable))
    bare.chmod(0o755)
    calve = Calve(tmp_path / "project", DECLARATION.format(python=bare))
    data = calve.folder / "data"
    data.mkdir()
    (data / "a.json").write_text("".join(json.dumps({"id": number}) + "\n" for number in range(500)))
    code, said = calve.run("run", "--once")
    assert code == 0, said
    assert evidence.values(evidence.embedded(calve.folder).load_table("shop.t"), "id") == list(range(500))
