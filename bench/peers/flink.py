"""Flink with Iceberg's sink, as SQL on a small cluster in one process."""

from __future__ import annotations

import json
from pathlib import Path

from bench.peers.peer import (
    COMMIT_EVERY,
    MEMORY,
    NAMESPACE,
    PROGRAMS,
    TABLE,
    Inputs,
    Load,
    Peer,
    Step,
    create,
    database,
    java_home,
    renamed,
)

_WORDS = {"STRUCT": "ROW", "TIMESTAMP": "TIMESTAMP_LTZ(3)"}


class Flink(Peer):
    """Bounded statements with a checkpoint every ten seconds; an upsert is a statement for each batch."""

    name = "flink"
    takes = ("topic", "csv")
    packages = ("apache-flink==2.1.3", "setuptools<81")
    jars = ("flink",)
    by_the_clock = True
    note = f"commits every {COMMIT_EVERY:.0f} s; reads CSV where files are loaded"

    def version(self) -> str:
        return f"Flink {self.installed('apache-flink')}, Iceberg 1.11.0"

    def install(self) -> None:
        from calve.runtime import jars

        super().install()
        asked = self.home / "lib"
        libraries = next(asked.glob("python*/site-packages/pyflink/lib"))
        for jar in [*self.jar_files("flink"), *self.jar_files("sqlite", jars.LOCK)]:
            link = libraries / jar.name
            if not link.exists():
                link.symlink_to(jar)

    def form(self, inputs: Inputs) -> str | None:
        """Batches of upserts come as files: a statement that ends after each."""
        return "csv" if inputs.csv and len(inputs.forms) > 1 else super().form(inputs)

    def prepare(self, load: Load, folder: Path) -> None:
        super().prepare(load, folder)
        create(load, folder, self.properties(load))

    def properties(self, load: Load) -> dict[str, str]:
        """Those of the table; each partition has one writer, else open files take twice the memory."""
        upsert = {"write.upsert.enabled": "true"} if load.is_upsert else {}
        return {**upsert, **({"write.distribution-mode": "hash"} if load.partition_by else {})}

    def files(self, load: Load, folder: Path) -> dict[str, str]:
        found = {"load.json": json.dumps(self.statements(load, folder, load.inputs), indent=2)}
        if load.base is not None:
            found["base.json"] = json.dumps(self.statements(load, folder, load.base), indent=2)
        return found

    def statements(self, load: Load, folder: Path, inputs: Inputs) -> list[str]:
        """What is executed, one after the other."""
        every = COMMIT_EVERY if load.endless is None else load.endless
        found = [
            "SET 'execution.runtime-mode' = 'streaming'",
            f"SET 'execution.checkpointing.interval' = '{int(every * 1000)} ms'",
            "SET 'parallelism.default' = '2'",
            "SET 'table.local-time-zone' = 'UTC'",
            "SET 'pipeline.object-reuse' = 'true'",
            f"CREATE CATALOG {NAMESPACE} WITH ('type' = 'iceberg', 'catalog-impl' = "
            f"'org.apache.iceberg.jdbc.JdbcCatalog', 'uri' = 'jdbc:sqlite:{database(folder)}', "
            f"'jdbc.schema-version' = 'V1', 'warehouse' = 'file://{folder}/warehouse')",
        ]
        target = f"INSERT INTO {NAMESPACE}.{NAMESPACE}.{TABLE} SELECT"
        if self.form(inputs) == "topic":
            names = ", ".join(load.shape.columns)
            return [
                *found,
                self.topic_table(load, inputs),
                f"{target} {names} FROM input WHERE id IS NOT NULL",
            ]
        chosen = ", ".join(_FROM_TEXT.get(name, name) for name in load.shape.columns)
        # A folder is read whole; batches have to come one after the other.
        paths = inputs.csv if load.is_upsert else (inputs.csv[0].parent,)
        for number, path in enumerate(paths):
            found.append(self.file_table(load, path, number))
            found.append(f"{target} {chosen} FROM input{number} WHERE id IS NOT NULL")
        return found

    def topic_table(self, load: Load, inputs: Inputs) -> str:
        """A topic as a table of Flink's; bounded unless rows keep coming."""
        assert inputs.topic is not None, "no topic"
        columns = ", ".join(
            f"{name} {renamed(_plain(kind), _WORDS)}" for name, kind in load.shape.columns.items()
        )
        bounded = "" if load.endless is not None else "'scan.bounded.mode' = 'latest-offset', "
        return (
            f"CREATE TEMPORARY TABLE input ({columns}) WITH ('connector' = 'kafka', 'topic' = "
            f"'{inputs.topic.name}', 'properties.bootstrap.servers' = '{inputs.topic.bootstrap}', "
            f"'properties.group.id' = '{load.run}', 'scan.startup.mode' = 'earliest-offset', {bounded}"
            "'format' = 'json', 'json.timestamp-format.standard' = 'ISO-8601', "
            "'json.ignore-parse-errors' = 'true')"
        )

    def file_table(self, load: Load, path: Path, number: int) -> str:
        """A CSV file, or a folder of them, as a table of Flink's; a header is a row whose id is no number."""
        columns = ", ".join(
            f"{name} {'STRING' if kind == 'TIMESTAMP' else kind}" for name, kind in load.shape.columns.items()
        )
        return (
            f"CREATE TEMPORARY TABLE input{number} ({columns}) WITH ('connector' = 'filesystem', "
            f"'path' = 'file://{path}', 'format' = 'csv', 'csv.ignore-parse-errors' = 'true')"
        )

    def steps(self, load: Load, folder: Path) -> list[Step]:
        program = (self.python, str(PROGRAMS / "with_flink.py"))
        environment = {
            "JAVA_HOME": str(java_home()),
            "JVM_ARGS": f"-Xmx{MEMORY}",
            "FLINK_LOG_DIR": str(folder),
        }
        base = [Step((*program, str(folder / "base.json")), environment, counted=False)] if load.base else []
        return [*base, Step((*program, str(folder / "load.json")), environment, ends=load.endless is None)]


_FROM_TEXT = {
    "ordered_at": "CAST(TO_TIMESTAMP(REPLACE(REPLACE(ordered_at, 'T', ' '), 'Z', ''), "
    "'yyyy-MM-dd HH:mm:ss.SSS') AS TIMESTAMP_LTZ(3))"
}


def _plain(kind: str) -> str:
    """Fields of a struct without the colon that Spark writes behind their names."""
    return kind.replace(":", "")
