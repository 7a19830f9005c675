import sys

from calve.runtime import workers
from calve.sources.files import FilesSource
from calve.sources.kafka import KafkaSource


def test_workers_are_up_and_have_imported_what_they_need(spark):
    module = "calve.decode.reading"
    workers.rouse(spark, [module]).join(120)

    def told(batches):
        for batch in batches:
            yield batch.filter([module in sys.modules] * len(batch))

    count = spark.sparkContext.defaultParallelism
    assert spark.range(0, count, 1, count).mapInArrow(told, "id BIGINT").count() == count


def test_a_module_that_workers_do_not_have_is_nobodys_business(spark):
    workers.rouse(spark, ["no.such.module"]).join(120)
    assert spark.range(3).count() == 3


def test_what_sources_name_can_be_imported():
    for name in (*KafkaSource.workers_import, *FilesSource.workers_import):
        __import__(name)
