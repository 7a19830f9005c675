"""Where the workloads run: a folder, a broker, data that is made once, and the tables that were left."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench import data
from bench.data import Shape
from bench.peers.peer import Inputs, Topic


class Stand:
    """One run of the bench. `scale` makes every workload smaller or larger."""

    def __init__(self, folder: Path, scale: float = 1.0, limit: float = 1800.0) -> None:
        self.folder = folder
        self.scale = scale
        self.limit = limit
        """Seconds after which a command is ended that is not done."""
        self.left: dict[tuple[str, str], Path] = {}
        """The metadata of the table that a peer left after a workload."""
        self._made: set[str] = set()

    def count(self, rows: int, least: int = 1000) -> int:
        """So many rows, at this scale."""
        return max(int(rows * self.scale), least)

    @cached_property
    def broker(self) -> Any:
        """Started when the first workload needs it."""
        from tests.servers.kafka import KafkaBroker

        class Patient(KafkaBroker):
            """A broker that is not given up for lost while others take all cores; the last value counts."""

            def _format(self) -> None:
                super()._format()
                with self.settings.open("a") as settings:
                    settings.write("broker.session.timeout.ms=60000\n")

        broker = Patient(self.folder / "kafka")
        broker.start()
        return broker

    def close(self, keep: bool = False) -> None:
        """End the broker, and forget all data unless it is to be kept."""
        if "broker" in vars(self):
            self.broker.stop()
        if keep:
            print(f"Everything is in {self.folder}")
        else:
            shutil.rmtree(self.folder, ignore_errors=True)

    def run_folder(self, run: str) -> Path:
        """An empty folder for one run."""
        folder = self.folder / "runs" / run
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder

    def topic(
        self, name: str, tables: Callable[[], Iterable[pa.Table]], partitions: int = 4, bad_every: int = 0
    ) -> Topic:
        """A topic with rows as JSON; made once."""
        if name not in self._made:
            self.broker.create_topic(name, partitions)
            first = 0
            for table in tables():
                data.produce(self.broker, name, data.json_lines(table, bad_every, first), partitions)
                first += table.num_rows
            self._made.add(name)
        return Topic(self.broker.bootstrap, name, partitions)

    def files(self, name: str, form: str, parts: list[Callable[[], Iterable[pa.Table]]]) -> tuple[Path, ...]:
        """A folder of files, one for each part; made once."""
        folder = self.folder / "data" / form / name
        found = tuple(folder / f"{number:05}.{form}" for number in range(len(parts)))
        write = data.write_parquet if form == "parquet" else data.write_csv
        for file, tables in zip(found, parts, strict=True):
            if not file.exists():
                write(tables(), file)
        return found

    def whole(self, name: str, shape: Shape, rows: int, forms: Iterable[str], files: int = 4) -> Inputs:
        """The first `rows` rows as files."""
        each = -(-rows // files)
        parts = [
            lambda first=first: shape.blocks(first, min(each, rows - first)) for first in range(0, rows, each)
        ]
        return Inputs(**{form: self.files(name, form, parts) for form in forms})  # type: ignore[arg-type]
