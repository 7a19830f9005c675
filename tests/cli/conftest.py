"""The command line as a function, and a small project to use it on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from calve.cli import app

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DECLARATION = """
version: "1.0"
sources:
  orders:
    connector: datagen
    config:
      rows: 30
      fields:
        id: sequence
        note: {type: string, template: "note-{}", nulls: 0.5}
        amount: {type: decimal, precision: 12, scale: 2, min: 1, max: 5000}
        at: {type: timestamp, start: 2026-01-01T00:00:00, step: 1h}
sinks:
  lake:
    connector: iceberg
    config: {namespace: shop, table: orders, partition_by: ["day(at)"], max_batch_size: 10, batch_size: 10}
pipelines:
  orders: {source: orders, sink: lake}
"""


@dataclass(frozen=True)
class Ended:
    """How a verb ended."""

    code: int
    out: str
    err: str


Calve = Callable[..., Ended]


@pytest.fixture
def calve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Calve:
    """Runs a verb in an empty directory."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> Ended:
        capsys.readouterr()
        code = app.run(arguments)
        return Ended(code, *capsys.readouterr())

    return run


@pytest.fixture
def project(tmp_path: Path, calve: Calve) -> Path:
    """The declaration of a small project in that directory."""
    file = tmp_path / "calve.yaml"
    file.write_text(DECLARATION)
    return file


class Kept:
    """The Spark of all tests, which a verb believes to be its own."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def newSession(self) -> SparkSession:
        return self._spark.newSession()

    def stop(self) -> None:
        pass


@pytest.fixture
def kept(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark is running already, and verbs use it."""
    from calve.runtime import session

    monkeypatch.setattr(session, "start", lambda *_: Kept(spark))


@pytest.fixture
def ready(project: Path, kept: None) -> Path:
    """The small project, with Spark already running."""
    return project


@pytest.fixture
def ran(ready: Path, spark: SparkSession) -> Callable[[], list[Any]]:
    """Runs the small project to its end."""
    return lambda: to_the_end(ready, spark)


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    """The small project after its run, for tests that only look."""
    file = tmp_path_factory.mktemp("finished") / "calve.yaml"
    file.write_text(DECLARATION)
    to_the_end(file, spark)
    return file


def to_the_end(file: Path, spark: SparkSession, once: bool = False) -> list[Any]:
    """Run the pipeline until its rows end."""
    from calve import declare
    from calve.runtime.run import run
    from calve.runtime.stop import Stop

    declared = declare.load(file)
    return run(spark, declared, [declared.pipeline("orders")], Stop(), once)
