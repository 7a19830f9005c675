"""Run by the bench: `with_spark.py TASK stream|merge|bulk|base`, or `with_spark.py scan METADATA...`."""

import json
import sys
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from calve.runtime import jars, java


def session(task: dict) -> SparkSession:
    java.use()
    files = jars.resolve(jars.needed(["core", "kafka"]))
    settings = {
        "spark.master": "local[2]",
        "spark.driver.memory": "4g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.jars": ",".join(map(str, files)),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "8",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": f"file://{task['warehouse']}",
    }
    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def records(spark: SparkSession, task: dict) -> DataFrame:
    options = {
        "kafka.bootstrap.servers": task["bootstrap"],
        "subscribe": task["topic"],
        "startingOffsets": "earliest",
    }
    if task["every"] is None:
        options["maxOffsetsPerTrigger"] = str(task["per_trigger"])
    raw = spark.readStream.format("kafka").options(**options).load()
    parsed = raw.select(f.from_json(f.col("value").cast("string"), task["schema"]).alias("r")).select("r.*")
    return parsed.where("id IS NOT NULL")


def stream(spark: SparkSession, task: dict) -> None:
    # What from_json gives may be NULL in Iceberg's eyes, filtered or not, and the id of the table may not.
    options = {"checkpointLocation": task["checkpoint"], "check-nullability": "false"}
    writer = records(spark, task).writeStream.options(**options)
    every = (
        {"availableNow": True} if task["every"] is None else {"processingTime": f"{task['every']} seconds"}
    )
    writer.trigger(**every).toTable(task["table"]).awaitTermination()


def merge(spark: SparkSession, task: dict) -> None:
    def one(batch: DataFrame, number: int) -> None:
        batch.createOrReplaceTempView("batch")
        batch.sparkSession.sql(
            f"MERGE INTO {task['table']} t USING batch s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )

    writer = records(spark, task).writeStream.option("checkpointLocation", task["checkpoint"])
    writer.trigger(availableNow=True).foreachBatch(one).start().awaitTermination()


def bulk(spark: SparkSession, task: dict) -> None:
    if task["parquet"]:
        rows = spark.read.parquet(*task["parquet"])
    else:
        rows = spark.read.schema(task["schema"]).csv(task["csv"], header=True)
    rows.writeTo(task["table"]).append()


def base(spark: SparkSession, task: dict) -> None:
    spark.read.parquet(*task["base"]).writeTo(task["table"]).append()


def scan(spark: SparkSession, file: str) -> float:
    """A table by its metadata alone, whatever its catalog is."""
    begun = time.perf_counter()
    rows = spark.read.format("iceberg").load(file)
    wanted = [name for name in ("customer", "data") if name in rows.columns]
    rows.agg(f.count("*"), *(f.countDistinct(name) for name in wanted)).collect()
    return time.perf_counter() - begun


def scans(files: list[str]) -> None:
    spark = session({"warehouse": "/nowhere"})
    for file in files:
        try:
            seconds = min(scan(spark, file) for _ in range(2))
        except Exception as error:
            print(json.dumps({"file": file, "seconds": None, "error": str(error)}), flush=True)
        else:
            print(json.dumps({"file": file, "seconds": seconds}), flush=True)
    spark.stop()


def main(file: str, what: str) -> None:
    task = json.loads(Path(file).read_text())
    spark = session(task)
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {task['table'].rpartition('.')[0]}")
    spark.sql(task["create"])
    {"stream": stream, "merge": merge, "bulk": bulk, "base": base}[what](spark, task)
    spark.stop()


if __name__ == "__main__":
    scans(sys.argv[2:]) if sys.argv[1] == "scan" else main(*sys.argv[1:])
