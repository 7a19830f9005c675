"""Calve itself, by its command line."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from bench.peers.peer import NAMESPACE, TABLE, Inputs, Load, Peer, Step
from bench.table import InCatalog, Place


class Calve(Peer):
    """`calve run --once` with a declaration; without `--once` where rows keep coming."""

    name = "calve"
    takes = ("topic", "parquet", "csv")

    def version(self) -> str:
        from importlib.metadata import version

        return f"calve {version('calve')}, pyspark {version('pyspark')}"

    def files(self, load: Load, folder: Path) -> dict[str, str]:
        """JSON is YAML. What the table holds before is another pipeline's, from files."""
        found = {"calve.yaml": self.declaration("orders", load, load.inputs, self.sized_keys(load))}
        if load.base is not None:
            found["base.yaml"] = self.declaration("base", load, load.base, self.keys(load))
        return found

    def keys(self, load: Load) -> dict[str, Any]:
        """The keys of the sink that every run has."""
        keys: dict[str, Any] = {**load.settings}
        if load.is_upsert:
            keys |= {"commit_mode": "upsert", "key_fields": ["id"]}
        if load.partition_by:
            keys["partition_by"] = [load.partition_by]
        if load.endless is not None:
            keys["flush_interval_secs"] = max(int(load.endless), 1)
        return keys

    def sized_keys(self, load: Load) -> dict[str, Any]:
        """Batches as large as the workload has them."""
        sized = {"batch_size": load.batch_rows, "max_batch_size": load.batch_rows} if load.batch_rows else {}
        return {**self.keys(load), **sized}

    def declaration(self, name: str, load: Load, inputs: Inputs, keys: dict[str, Any]) -> str:
        """A project with one pipeline."""
        sink = {"namespace": NAMESPACE, "table": TABLE, **keys}
        project = {
            "version": "1.0",
            "spark": {"master": "local[2]", "driver_memory": "4g"},
            "sources": {"input": self.source(load, inputs)},
            "sinks": {"lake": {"connector": "iceberg", "config": sink}},
            "pipelines": {name: {"source": "input", "sink": "lake"}},
        }
        return json.dumps(project, indent=2)

    def source(self, load: Load, inputs: Inputs) -> dict[str, Any]:
        """What is read: a topic, or a folder of files."""
        if inputs.topic is not None:
            config = {"bootstrap_servers": inputs.topic.bootstrap, "topics": [inputs.topic.name]}
            return {"connector": "kafka", "config": {**config, "format": "json", "schema": load.shape.ddl}}
        # Lines of CSV have the same declared columns as the topic that follows them.
        form = "csv" if inputs is load.base and inputs.csv else str(self.form(inputs))
        files: tuple[Path, ...] = getattr(inputs, form)
        schema = {} if form == "parquet" else {"schema": load.shape.ddl, "options": {"header": True}}
        config = {"path": str(files[0].parent / f"*.{form}"), "format": form}
        return {"connector": "files", "config": {**config, **schema}}

    def steps(self, load: Load, folder: Path) -> list[Step]:
        run = (sys.executable, "-m", "calve.cli", "run")
        steps = []
        if load.base is not None:
            steps.append(Step((*run, "--once", "--config", str(folder / "base.yaml")), counted=False))
        once = () if load.endless is not None else ("--once", "--profile")
        return [
            *steps,
            Step((*run, *once, "--config", str(folder / "calve.yaml")), ends=load.endless is None),
        ]

    def place(self, load: Load, folder: Path) -> Place:
        return InCatalog(folder / "warehouse" / "catalog.db", TABLE, NAMESPACE)

    def letters(self, load: Load, folder: Path) -> Place | None:
        return InCatalog(folder / "warehouse" / "catalog.db", f"{TABLE}__dead_letter", NAMESPACE)


class CalveEquality(Calve):
    """The same with equality deletes."""

    name = "calve-equality"

    def keys(self, load: Load) -> dict[str, Any]:
        return {**super().keys(load), "deletes": "equality"}

    def refusal(self, load: Load) -> str | None:
        return super().refusal(load) if load.is_upsert else "differs in upserts only"
