"""SeaTunnel on its own engine: a configuration for each statement, submitted one after the other."""

from __future__ import annotations

from pathlib import Path

from bench.peers.peer import (
    MEMORY,
    NAMESPACE,
    PROGRAMS,
    TABLE,
    Inputs,
    Load,
    Peer,
    Step,
    java_home,
    renamed,
)
from bench.table import InFolder, Place

_WORDS = {"BIGINT": "bigint", "STRING": "string", "DECIMAL(12,2)": "decimal(12, 2)", "TIMESTAMP": "string"}
_CONNECTORS = {"source.Kafka": "connector-kafka", "source.LocalFile": "connector-file-local",
               "sink.Iceberg": "connector-iceberg"}  # fmt: skip
_MODULES = (
    "java.base/java.lang", "java.base/java.util", "java.base/java.util.concurrent", "java.base/java.nio",
    "java.base/sun.nio.ch", "java.management/sun.management", "jdk.management/com.sun.management.internal",
)  # fmt: skip


class SeaTunnel(Peer):
    """Bounded reading of topics and CSV files; moments stay text, as it does not read ISO ones."""

    name = "seatunnel"
    takes = ("topic", "csv")
    jars = ("seatunnel", "seatunnel-connectors")
    cannot = {
        "W4": "a record that cannot be parsed ends it",
        "W5": "it is run on what is there, and ends",
        "W6": "nested rows are not configured",
        "W7": "it partitions by columns, not by transforms of them",
    }
    by_the_clock = True
    note = "moments are written as text; files are read by one reader, as two take some of them twice"

    def version(self) -> str:
        return "SeaTunnel 2.3.8"

    def install(self) -> None:
        super().install()
        connectors = self.home / "connectors"
        connectors.mkdir(parents=True, exist_ok=True)
        for jar in self.jar_files("seatunnel-connectors"):
            link = connectors / jar.name
            if not link.exists():
                link.symlink_to(jar)
        lines = [f"seatunnel.{kind} = {name}" for kind, name in _CONNECTORS.items()]
        (connectors / "plugin-mapping.properties").write_text("\n".join(lines) + "\n")

    def class_path(self) -> str:
        """Its jars; that of the shaded configuration has to come before the other one."""
        files = sorted(self.jar_files("seatunnel"), key=lambda file: "config-shade" not in file.name)
        return ":".join(map(str, files))

    def form(self, inputs: Inputs) -> str | None:
        return "csv" if inputs.csv and len(inputs.forms) > 1 else super().form(inputs)

    def files(self, load: Load, folder: Path) -> dict[str, str]:
        found = {
            f"load{number}.conf": text
            for number, text in enumerate(self.configurations(load, folder, load.inputs))
        }
        if load.base is not None:
            texts = self.configurations(load, folder, load.base)
            found |= {f"base{number}.conf": text for number, text in enumerate(texts)}
        found["seatunnel.yaml"] = _ENGINE.format(folder=folder)
        return found

    def configurations(self, load: Load, folder: Path, inputs: Inputs) -> list[str]:
        """One for a topic or a folder, or one for each batch."""
        sink = self.sink(load, folder)
        if self.form(inputs) == "topic":
            return [_whole(self.topic(load, inputs), sink, parallelism=2)]
        # With two readers it takes some files twice: apache/seatunnel#6896, mended after this version.
        paths = inputs.csv if load.is_upsert else (inputs.csv[0].parent,)
        return [_whole(self.file(load, path), sink, parallelism=1) for path in paths]

    def schema(self, load: Load) -> str:
        lines = "\n".join(
            f'        {name} = "{renamed(kind, _WORDS)}"' for name, kind in load.shape.columns.items()
        )
        return f"    schema {{\n      fields {{\n{lines}\n      }}\n    }}"

    def topic(self, load: Load, inputs: Inputs) -> str:
        """Everything that a topic has now."""
        assert inputs.topic is not None, "no topic"
        return f"""  Kafka {{
    bootstrap.servers = "{inputs.topic.bootstrap}"
    topic = "{inputs.topic.name}"
    consumer.group = "{load.run}"
    start_mode = earliest
    format = json
{self.schema(load)}
  }}"""

    def file(self, load: Load, path: Path) -> str:
        """A CSV file, or a folder of them."""
        return f"""  LocalFile {{
    path = "{path}"
    file_format_type = "csv"
    skip_header_row_number = 1
{self.schema(load)}
  }}"""

    def sink(self, load: Load, folder: Path) -> str:
        """The table is created by it."""
        upsert = (
            '    iceberg.table.primary-keys = "id"\n    iceberg.table.upsert-mode-enabled = true\n'
            if load.is_upsert
            else ""
        )
        return f"""  Iceberg {{
    catalog_name = "lake"
    namespace = "{NAMESPACE}"
    table = "{TABLE}"
    iceberg.catalog.config = {{ type = "hadoop", warehouse = "file://{folder}/warehouse" }}
    iceberg.table.auto-create-props = {{ "format-version" = "2" }}
    schema_save_mode = "CREATE_SCHEMA_WHEN_NOT_EXIST"
    data_save_mode = "APPEND_DATA"
{upsert}  }}"""

    def steps(self, load: Load, folder: Path) -> list[Step]:
        executable = str(java_home(compiler=True) / "bin" / "java")
        opened = tuple(word for module in _MODULES for word in ("--add-opens", f"{module}=ALL-UNNAMED"))
        program = (
            executable, f"-Xmx{MEMORY}", *opened,
            f"-DSEATUNNEL_HOME={self.home}", f"-Dseatunnel.config={folder}/seatunnel.yaml",
            "-cp", self.class_path(), str(PROGRAMS / "WithSeaTunnel.java"), str(self.home),
        )  # fmt: skip
        loads = tuple(str(folder / name) for name in self.files(load, folder) if name.startswith("load"))
        bases = tuple(str(folder / name) for name in self.files(load, folder) if name.startswith("base"))
        first = [Step((*program, *bases), counted=False)] if bases else []
        return [*first, Step((*program, *loads))]

    def place(self, load: Load, folder: Path) -> Place:
        return InFolder(folder / "warehouse" / NAMESPACE / TABLE)


_ENGINE = """\
seatunnel:
  engine:
    backup-count: 0
    queue-type: blockingqueue
    print-execution-info-interval: 60
    slot-service:
      dynamic-slot: true
    checkpoint:
      interval: 10000
      timeout: 60000
      storage:
        type: localfile
        max-retained: 1
        plugin-config:
          namespace: {folder}/checkpoints/
"""


def _whole(source: str, sink: str, parallelism: int) -> str:
    settings = f'  parallelism = {parallelism}\n  job.mode = "BATCH"\n  checkpoint.interval = 10000'
    return f"env {{\n{settings}\n}}\nsource {{\n{source}\n}}\nsink {{\n{sink}\n}}\n"
