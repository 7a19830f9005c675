"""What a peer is: how it is installed, configured and run, and where its table is."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from bench import check
from bench.data import Expected, Shape
from bench.table import InCatalog, Place

CACHE = Path(__file__).resolve().parents[2] / ".cache" / "peers"
PROGRAMS = Path(__file__).with_name("programs")
LOCK = Path(__file__).with_name("jars.lock")
NAMESPACE, TABLE = "bench", "orders"
COMMIT_EVERY = 10.0
"""Seconds between commits of peers that commit by the clock."""
MEMORY = "4g"
"""The heap of every peer that runs on Java."""


class CannotInstall(Exception):
    """A peer that cannot be had here; the message says why."""


@dataclass(frozen=True)
class Topic:
    """Records of a Kafka topic."""

    bootstrap: str
    name: str
    partitions: int = 4


@dataclass(frozen=True)
class Inputs:
    """The same rows in every form that there is; where there are batches, a file is one."""

    topic: Topic | None = None
    parquet: tuple[Path, ...] = ()
    csv: tuple[Path, ...] = ()

    @property
    def forms(self) -> list[str]:
        return [name for name in ("topic", "parquet", "csv") if getattr(self, name)]


@dataclass(frozen=True)
class Load:
    """What a peer is asked to do."""

    workload: str
    run: str
    """A name that no other run has."""
    shape: Shape
    inputs: Inputs
    expected: Expected
    is_upsert: bool = False
    base: Inputs | None = None
    """What the table holds before; loading it is not counted."""
    rows: int = 0
    """How many rows or changes are taken."""
    batch_rows: int = 0
    batches: int = 0
    partition_by: str | None = None
    endless: float | None = None
    """Rows keep coming, and this many seconds may pass until they are visible."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Keys of Calve's sink."""


@dataclass(frozen=True)
class Step:
    """A command; `counted` ones are what is measured."""

    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    counted: bool = True
    ends: bool = True
    """Whether it ends by itself; others are ended once the rows are there."""
    given_up: str | None = None
    """What one that does not end says when it has given up."""


class Peer(ABC):
    """One way to get rows into an Iceberg table.

    `install` is called once, then for each run `prepare`, and the commands of `steps` one after the other.
    """

    name: ClassVar[str]
    takes: ClassVar[tuple[str, ...]]
    """The forms of rows that it reads, the best first."""
    packages: ClassVar[tuple[str, ...]] = ()
    """The Python packages of its own environment."""
    jars: ClassVar[tuple[str, ...]] = ()
    """The components of `jars.lock` that it runs on."""
    cannot: ClassVar[Mapping[str, str]] = {}
    """Workloads that it does not do, and why; `W5` stands for `W5-10s` too."""
    most_batches: ClassVar[int | None] = None
    """How many batches of upserts it is asked for, where all of them would take too long."""
    by_the_clock: ClassVar[bool] = False
    """Whether it commits every so many seconds, whatever has come by then."""
    note: ClassVar[str] = ""
    """What a reader of the numbers must know."""

    @abstractmethod
    def version(self) -> str:
        """What is run."""

    @abstractmethod
    def files(self, load: Load, folder: Path) -> dict[str, str]:
        """The configuration of a run, by file name. Pure."""

    @abstractmethod
    def steps(self, load: Load, folder: Path) -> list[Step]:
        """The commands of a run, in their order. Pure, once the peer is installed."""

    def install(self) -> None:
        """Get what is needed; raises CannotInstall."""
        if self.packages and not self._has_packages():
            self._install_packages()
        for component in self.jars:
            self.jar_files(component)

    def prepare(self, load: Load, folder: Path) -> None:
        """Write the configuration."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in self.files(load, folder).items():
            (folder / name).write_text(text)

    def place(self, load: Load, folder: Path) -> Place:
        """Where its table is."""
        return InCatalog(database(folder), TABLE, NAMESPACE)

    def letters(self, load: Load, folder: Path) -> Place | None:
        """The table in which it keeps bad records, if it has one."""
        return None

    def columns(self, load: Load) -> Mapping[str, str]:
        """How its columns are read for the check."""
        return check.AS_THEY_ARE

    def topics(self, load: Load) -> list[str]:
        """Topics that it needs for itself."""
        return []

    def refusal(self, load: Load) -> str | None:
        """Why it does not do this; None if it does."""
        for name in (load.workload, load.workload.split("-")[0]):
            if name in self.cannot:
                return self.cannot[name]
        return None if self.form(load.inputs) else f"reads {' and '.join(self.takes)} only"

    def form(self, inputs: Inputs) -> str | None:
        """The form in which it reads rows."""
        return next((name for name in self.takes if name in inputs.forms), None)

    @property
    def home(self) -> Path:
        return CACHE / self.name

    @property
    def python(self) -> str:
        """The Python that has its packages; ours, where it needs none of its own."""
        return str(self.home / "bin" / "python") if self.packages else sys.executable

    def _has_packages(self) -> bool:
        stamp = self.home / "packages"
        return stamp.is_file() and stamp.read_text() == "\n".join(self.packages)

    def _install_packages(self) -> None:
        CACHE.mkdir(parents=True, exist_ok=True)
        _run([sys.executable, "-m", "venv", str(self.home)])
        _run([self.python, "-m", "pip", "install", "--quiet", *self.packages])
        (self.home / "packages").write_text("\n".join(self.packages))

    def jar_files(self, component: str, lock: Path = LOCK) -> list[Path]:
        """The pinned jars of a component, fetched if they are not there."""
        from calve.errors import CalveError
        from calve.runtime import jars

        try:
            return list(jars.resolve(jars.needed([component], lock), progress=print))
        except CalveError as error:
            raise CannotInstall(str(error)) from error

    def installed(self, package: str) -> str:
        """The version of a package in its environment."""
        asked = f"from importlib.metadata import version; print(version('{package}'))"
        return subprocess.run([self.python, "-c", asked], capture_output=True, text=True).stdout.strip()


def _run(command: list[str]) -> None:
    ended = subprocess.run(command, capture_output=True, text=True)
    if ended.returncode:
        said = (ended.stderr or ended.stdout).strip().splitlines() or ["it says nothing"]
        raise CannotInstall(f"{shutil.which(command[0]) or command[0]} {' '.join(command[1:3])}: {said[-1]}")


def java_home(compiler: bool = False) -> Path:
    """Where the Java is on which peers run; raises CannotInstall."""
    from calve.errors import CalveError
    from calve.runtime import java

    try:
        return java.find(compiler=compiler).home
    except CalveError as error:
        raise CannotInstall(str(error)) from error


def database(folder: Path) -> Path:
    """The SQLite file of a run's catalog."""
    return folder / "catalog.db"


def create(load: Load, folder: Path, properties: Mapping[str, str]) -> None:
    """A table with the columns of a load in a SQL catalog, for peers that want one to be there."""
    import pyarrow as pa
    from pyiceberg.catalog.sql import SqlCatalog

    (folder / "warehouse").mkdir(parents=True, exist_ok=True)
    catalog = SqlCatalog(
        NAMESPACE, uri=f"sqlite:///{database(folder)}", warehouse=f"file://{folder}/warehouse"
    )
    catalog.create_namespace(NAMESPACE)
    schema = next(load.shape.blocks(0, 1)).schema
    schema = schema.set(0, pa.field("id", pa.int64(), nullable=False))
    schema = schema.set(4, pa.field("ordered_at", pa.timestamp("us", "UTC")))
    # What Iceberg's Java library puts into every table that it creates.
    fixed = {"format-version": "2", "write.parquet.compression-codec": "zstd"}
    table = catalog.create_table((NAMESPACE, TABLE), schema, properties={**fixed, **properties})
    if load.is_upsert:
        with table.update_schema() as change:
            change.set_identifier_fields("id")
    if load.partition_by:
        transform, column = re.fullmatch(r"(\w+)\((\w+)\)", load.partition_by).groups()  # type: ignore[union-attr]
        with table.update_spec() as spec:
            spec.add_field(column, transform)


def renamed(ddl: str, words: Mapping[str, str]) -> str:
    """A type of Spark's DDL in the words of another engine."""
    return re.sub(r"[A-Z]+(\(\d+,\d+\))?", lambda word: words.get(word[0], word[0]), ddl)
