import sys
from zipimport import zipimporter

import pytest

from calve.project import SparkSettings
from calve.runtime import session, workers
from calve.sources.files import FilesSource
from calve.sources.kafka import KafkaSource


def test_workers_are_forked_with_what_they_need(spark):
    """The first of these tests: nobody has asked the workers for it."""

    def told(batches):
        known = {"calve.decode.reading", "calve.iceberg.parquet"} <= set(sys.modules)
        is_settled = zipimporter.invalidate_caches.__name__ == "read_if_changed"
        for batch in batches:
            yield batch.filter([known and is_settled] * len(batch))

    count = spark.sparkContext.defaultParallelism
    assert spark.range(0, count, 1, count).mapInArrow(told, "id BIGINT").count() == count


def test_workers_are_up_and_have_imported_what_they_need(spark):
    module = "calve.decode.reading"
    workers.rouse(spark, [module]).join(120)

    def told(batches):
        for batch in batches:
            yield batch.filter([module in sys.modules] * len(batch))

    count = spark.sparkContext.defaultParallelism
    assert spark.range(0, count, 1, count).mapInArrow(told, "id BIGINT").count() == count


@pytest.mark.parametrize(
    "settings",
    [
        {"master": "spark://h:7077"},
        {"master": "local-cluster[1,1,1024]"},
        {"config": {"spark.pyspark.python": "/another/python"}},
    ],
)
def test_workers_that_may_lack_calve_are_forked_by_sparks_own_daemon(settings, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    assert "spark.python.daemon.module" not in session.settings_map(SparkSettings(**settings), [])


def test_a_module_that_workers_do_not_have_is_nobodys_business(spark):
    workers.rouse(spark, ["no.such.module"]).join(120)
    assert spark.range(3).count() == 3


def test_what_sources_name_can_be_imported():
    for name in (*KafkaSource.workers_import, *FilesSource.workers_import):
        __import__(name)
