"""Spark as people write it by hand: `from_json` and `toTable`, `foreachBatch` and `MERGE INTO`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from bench.peers.peer import NAMESPACE, PROGRAMS, TABLE, Load, Peer, Step
from bench.table import InFolder, Place

PER_TRIGGER = 200_000


class HandWrittenSpark(Peer):
    """Structured Streaming on two cores, with Iceberg's own sink; `MERGE` in its default mode."""

    name = "spark"
    takes = ("topic", "parquet", "csv")
    note = "records that cannot be parsed are dropped"
    merge = "copy-on-write"

    def version(self) -> str:
        from importlib.metadata import version

        return f"pyspark {version('pyspark')}, Iceberg 1.12.0"

    def install(self) -> None:
        from calve.runtime import jars

        for component in ("core", "kafka"):
            self.jar_files(component, jars.LOCK)

    def files(self, load: Load, folder: Path) -> dict[str, str]:
        return {"task.json": json.dumps(self.task(load, folder), indent=2)}

    def task(self, load: Load, folder: Path) -> dict[str, object]:
        """What the program is told."""
        topic = load.inputs.topic
        partition = f" PARTITIONED BY ({spark_transform(load.partition_by)})" if load.partition_by else ""
        return {
            "warehouse": str(folder / "warehouse"),
            "checkpoint": str(folder / "checkpoint"),
            "table": f"lake.{NAMESPACE}.{TABLE}",
            "create": f"CREATE TABLE IF NOT EXISTS lake.{NAMESPACE}.{TABLE} ({load.shape.ddl}) USING iceberg"
            f"{partition} TBLPROPERTIES ('format-version' = '2', 'write.merge.mode' = '{self.merge}')",
            "schema": load.shape.ddl,
            "bootstrap": topic.bootstrap if topic else None,
            "topic": topic.name if topic else None,
            "per_trigger": load.batch_rows or PER_TRIGGER,
            "every": load.endless,
            "parquet": [str(file) for file in load.inputs.parquet] if topic is None else [],
            "csv": [str(file) for file in load.inputs.csv] if topic is None else [],
            "base": [str(file) for file in load.base.parquet] if load.base else [],
        }

    def steps(self, load: Load, folder: Path) -> list[Step]:
        program = (sys.executable, str(PROGRAMS / "with_spark.py"), str(folder / "task.json"))
        base = [Step((*program, "base"), counted=False)] if load.base else []
        what = "merge" if load.is_upsert else "stream" if load.inputs.topic else "bulk"
        return [*base, Step((*program, what), ends=load.endless is None)]

    def place(self, load: Load, folder: Path) -> Place:
        return InFolder(folder / "warehouse" / NAMESPACE / TABLE)


class MergeOnReadSpark(HandWrittenSpark):
    """The same with `MERGE` that writes position deletes."""

    name = "spark-merge-on-read"
    merge = "merge-on-read"

    def refusal(self, load: Load) -> str | None:
        return super().refusal(load) if load.is_upsert else "differs in upserts only"


def spark_transform(partition_by: str) -> str:
    """A partition in Spark's words: `day(x)` is `days(x)`."""
    name, _, rest = partition_by.partition("(")
    plural = f"{name}s" if name in ("year", "month", "day", "hour") else name
    return f"{plural}({rest}" if rest else partition_by
