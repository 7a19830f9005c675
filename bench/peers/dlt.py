"""dlt with its filesystem destination, which writes Iceberg tables through PyIceberg."""

from __future__ import annotations

import json
from pathlib import Path

from bench.peers.peer import NAMESPACE, PROGRAMS, TABLE, Load, Peer, Step
from bench.table import InFolder, Place


class Dlt(Peer):
    """Arrow tables from files; upserts take minutes a batch, so that there only the first one is run."""

    name = "dlt"
    takes = ("parquet", "csv")
    packages = ("dlt[filesystem,pyiceberg]==1.31.0", "pyiceberg[pyarrow,sql-sqlite]==0.12.0")
    cannot = {"W2-large": "takes minutes a batch"}
    most_batches = 1
    note = "upserts: the first batch only, in many commits that are visible one by one"

    def version(self) -> str:
        return f"dlt {self.installed('dlt')}"

    def files(self, load: Load, folder: Path) -> dict[str, str]:
        inputs = {"load.json": (load.inputs, "upsert" if load.is_upsert else "append")}
        if load.base is not None:
            inputs["base.json"] = (load.base, "append")
        return {name: self.task(load, folder, how, given) for name, (given, how) in inputs.items()}

    def task(self, load: Load, folder: Path, how: str, inputs: object) -> str:
        """What the program is told."""
        files = getattr(inputs, str(self.form(load.inputs)))
        told = {
            "folder": str(folder),
            "dataset": NAMESPACE,
            "table": TABLE,
            "how": how,
            "files": [str(file) for file in files],
        }
        return json.dumps(told, indent=2)

    def steps(self, load: Load, folder: Path) -> list[Step]:
        program = (self.python, str(PROGRAMS / "with_dlt.py"))
        environment = {"RUNTIME__DLTHUB_TELEMETRY": "false", "DLT_DATA_DIR": str(folder / "dlt")}
        base = [Step((*program, str(folder / "base.json")), environment, counted=False)] if load.base else []
        return [*base, Step((*program, str(folder / "load.json")), environment)]

    def place(self, load: Load, folder: Path) -> Place:
        return InFolder(folder / "warehouse" / NAMESPACE / TABLE)
