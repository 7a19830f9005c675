"""ingestr: one binary, a command for each file, or a stream from a topic."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bench.peers.peer import COMMIT_EVERY, NAMESPACE, TABLE, Inputs, Load, Peer, Step, database

_TYPES = {"BIGINT": "bigint", "STRING": "string", "DECIMAL(12,2)": "decimal(12,2)", "TIMESTAMP": "timestamp"}
ENVELOPE = {
    "id": "CAST(json_extract_string(data, '$.data.id') AS BIGINT)",
    "amount": "CAST(json_extract_string(data, '$.data.amount') AS DECIMAL(12,2))",
    "ordered_at": "CAST(json_extract_string(data, '$.data.ordered_at') AS TIMESTAMPTZ)",
    "customer": "json_extract_string(data, '$.data.customer')",
}
"""How the columns are found in the text of the records."""


class Ingestr(Peer):
    """Files are merged or appended one by one; a topic lands as the text of its records in an envelope."""

    name = "ingestr"
    takes = ("topic", "parquet", "csv")
    packages = ("ingestr==1.1.22",)
    cannot = {
        "W4": "a topic lands as text that nobody parses",
        "W6": "a topic lands as text that nobody parses",
    }
    by_the_clock = True
    note = "from Kafka it writes the text of the records, not their columns; upserts are equality deletes"

    def version(self) -> str:
        return f"ingestr {self.installed('ingestr')}"

    def form(self, inputs: Inputs) -> str | None:
        """Files, where there are some: only they have columns."""
        return next((name for name in ("parquet", "csv") if name in inputs.forms), super().form(inputs))

    def prepare(self, load: Load, folder: Path) -> None:
        super().prepare(load, folder)
        (folder / "warehouse").mkdir(exist_ok=True)

    def files(self, load: Load, folder: Path) -> dict[str, str]:
        return {}

    def refusal(self, load: Load) -> str | None:
        if load.partition_by and self.form(load.inputs) == "topic":
            return "a topic lands as text that nobody parses"
        return super().refusal(load)

    def columns(self, load: Load) -> Mapping[str, str]:
        return ENVELOPE if self.form(load.inputs) == "topic" else super().columns(load)

    def steps(self, load: Load, folder: Path) -> list[Step]:
        program = str(self.home / "bin" / "ingestr")
        to = f"iceberg+sqlite://{database(folder)}?warehouse=file://{folder}/warehouse"
        common = (
            program, "ingest", "--dest-uri", to, "--dest-table", f"{NAMESPACE}.{TABLE}", "--yes",
            "--progress", "log", "--no-load-timestamp", "--pipelines-dir", str(folder / "pipelines"),
        )  # fmt: skip
        environment = {"DISABLE_TELEMETRY": "true", "INGESTR_DISABLE_TELEMETRY": "true"}
        if self.form(load.inputs) == "topic":
            return [Step((*common, *self.stream(load)), environment, ends=False)]
        form = str(self.form(load.inputs))
        base = getattr(load.base, form) if load.base else ()
        return [
            *(Step((*common, *self.file(load, file)), environment, counted=False) for file in base),
            *(Step((*common, *self.file(load, file)), environment) for file in getattr(load.inputs, form)),
        ]

    def file(self, load: Load, file: Path) -> tuple[str, ...]:
        """One file; without the types of its columns numbers of CSV would land as text."""
        types = ",".join(f"{name}:{_TYPES[kind]}" for name, kind in load.shape.columns.items())
        typed = ("--columns", types) if file.suffix == ".csv" else ()
        how = ("merge", "--primary-key", "id") if load.is_upsert else ("append",)
        source = ("--source-uri", f"{file.suffix[1:]}://{file}", "--source-table", file.stem)
        return (*source, *typed, "--incremental-strategy", *how)

    def stream(self, load: Load) -> tuple[str, ...]:
        """A topic without end."""
        topic = load.inputs.topic
        assert topic is not None, "no topic"
        source = f"kafka://?bootstrap_servers={topic.bootstrap}&group_id={load.run}&batch_size=50000"
        every = f"{load.endless or COMMIT_EVERY:g}s"
        return (
            "--source-uri", source, "--source-table", topic.name, "--incremental-strategy", "append",
            "--stream", "--flush-records", "200000", "--flush-interval", every,
        )  # fmt: skip
