"""Apache Iceberg's sink for Kafka Connect: a standalone worker with two tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.peers.peer import (
    COMMIT_EVERY,
    MEMORY,
    NAMESPACE,
    TABLE,
    Load,
    Peer,
    Step,
    create,
    database,
    java_home,
)
from tests.servers import process

_SHARED = {
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}


class KafkaConnect(Peer):
    """It commits by the clock and never ends; it is ended once the rows are there."""

    name = "kafka-connect"
    takes = ("topic",)
    jars = ("iceberg-connect",)
    cannot = {"W2": "the sink only appends"}
    by_the_clock = True
    note = f"commits every {COMMIT_EVERY:.0f} s"

    def version(self) -> str:
        return "Iceberg's sink 1.12.0, Kafka Connect 4.3.1"

    def install(self) -> None:
        super().install()
        self.jar_files("connect", process.LOCK)
        plugin = self.home / "plugins" / "iceberg"
        plugin.mkdir(parents=True, exist_ok=True)
        for jar in [*self.jar_files("iceberg-connect"), *self._sqlite()]:
            link = plugin / jar.name
            if not link.exists():
                link.symlink_to(jar)

    def _sqlite(self) -> list[Path]:
        from calve.runtime import jars

        return self.jar_files("sqlite", jars.LOCK)

    def prepare(self, load: Load, folder: Path) -> None:
        super().prepare(load, folder)
        create(load, folder, {})

    def topics(self, load: Load) -> list[str]:
        return [f"{load.run}-control", f"{load.run}-bad"]

    def files(self, load: Load, folder: Path) -> dict[str, str]:
        worker = {
            "bootstrap.servers": _topic(load).bootstrap,
            "offset.storage.file.filename": folder / "offsets",
            "plugin.path": self.home / "plugins",
            "plugin.discovery": "service_load",
            "listeners": "http://127.0.0.1:0",
            "offset.flush.interval.ms": 5000,
            **_SHARED,
        }
        return {
            "worker.properties": _properties(worker),
            "sink.properties": _properties(self.sink(load, folder)),
        }

    def sink(self, load: Load, folder: Path) -> dict[str, Any]:
        """The sink; bad records go to a topic, and no consumer group is used twice."""
        every = COMMIT_EVERY if load.endless is None else load.endless
        return {
            "name": load.run,
            "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
            "tasks.max": 2,
            "topics": _topic(load).name,
            "consumer.override.auto.offset.reset": "earliest",
            "errors.tolerance": "all",
            "errors.deadletterqueue.topic.name": f"{load.run}-bad",
            "errors.deadletterqueue.topic.replication.factor": 1,
            "iceberg.tables": f"{NAMESPACE}.{TABLE}",
            "iceberg.control.topic": f"{load.run}-control",
            "iceberg.control.commit.interval-ms": int(every * 1000),
            "iceberg.catalog": NAMESPACE,
            "iceberg.catalog.catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
            "iceberg.catalog.uri": f"jdbc:sqlite:{database(folder)}",
            "iceberg.catalog.jdbc.schema-version": "V1",
            "iceberg.catalog.warehouse": f"file://{folder}/warehouse",
        }

    def steps(self, load: Load, folder: Path) -> list[Step]:
        executable = str(java_home() / "bin" / "java")
        main = "org.apache.kafka.connect.cli.ConnectStandalone"
        options = (f"-Xmx{MEMORY}", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
        files = (str(folder / "worker.properties"), str(folder / "sink.properties"))
        command = (executable, *options, "-cp", process.class_path("connect"), main, *files)
        return [Step(command, ends=False, given_up="Task is being killed and will not recover")]


def _topic(load: Load) -> Any:
    assert load.inputs.topic is not None, "Kafka Connect reads topics"
    return load.inputs.topic


def _properties(values: dict[str, Any]) -> str:
    return "".join(f"{name}={value}\n" for name, value in values.items())
