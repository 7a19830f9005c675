"""PyIceberg: Arrow tables appended or upserted by a few lines of Python, in one process."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from bench.peers.peer import NAMESPACE, PROGRAMS, TABLE, Load, Peer, Step, create, database


class PyIceberg(Peer):
    """It reads files and has no streams; an upsert rewrites the files it touches."""

    name = "pyiceberg"
    takes = ("parquet", "csv")
    note = "a library: no restart, no bad records; a batch is read whole into memory"

    def version(self) -> str:
        from importlib.metadata import version

        return f"pyiceberg {version('pyiceberg')}"

    def prepare(self, load: Load, folder: Path) -> None:
        super().prepare(load, folder)
        create(load, folder, {})

    def files(self, load: Load, folder: Path) -> dict[str, str]:
        found = {"load.json": self.task(load, folder, "upsert" if load.is_upsert else "append", load.inputs)}
        if load.base is not None:
            found["base.json"] = self.task(load, folder, "append", load.base)
        return found

    def task(self, load: Load, folder: Path, how: str, inputs: object) -> str:
        """What the program is told."""
        files = getattr(inputs, str(self.form(load.inputs)))
        told = {
            "database": str(database(folder)),
            "warehouse": f"file://{folder}/warehouse",
            "catalog": NAMESPACE,
            "table": f"{NAMESPACE}.{TABLE}",
            "how": how,
            "files": [str(file) for file in files],
        }
        return json.dumps(told, indent=2)

    def steps(self, load: Load, folder: Path) -> list[Step]:
        program = (sys.executable, str(PROGRAMS / "with_pyiceberg.py"))
        base = [Step((*program, str(folder / "base.json")), counted=False)] if load.base else []
        return [*base, Step((*program, str(folder / "load.json")))]
