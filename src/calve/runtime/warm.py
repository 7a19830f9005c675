"""Class-data sharing: Spark's and Iceberg's classes, parsed once, so that every later start is quicker.

The archive belongs to one Java and one class path; a JVM that finds another one starts as if there were none.
"""

from __future__ import annotations

import hashlib
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from calve import gateway
from calve.errors import CalveError
from calve.runtime import jars, java, scratch

log = logging.getLogger(__name__)

_DECLARATION = """\
version: "1.0"
spark:
  master: "local[1]"
  allow_unsafe_config: true
  config: {{spark.driver.extraJavaOptions: "-XX:ArchiveClassesAtExit={archive}"}}
sources:
  text:
    connector: files
    config: {{path: "{folder}/*.json", format: json, schema: "id BIGINT, at TIMESTAMP"}}
sinks:
  table:
    connector: iceberg
    config:
      catalog: {{type: hadoop, warehouse: "{folder}/warehouse"}}
      namespace: warm
      table: rows
      partition_by: ["day(at)"]
pipelines:
  warm: {{source: text, sink: table, transforms: [sql: "SELECT id + 1 AS id, at FROM input"]}}
"""


def options(home: Path, files: Sequence[Path], given: str) -> str:
    """The options `given` to the Java in `home`, with the archive for `files` where there is one."""
    archive = _archive(home, files)
    if not archive.is_file() or "Archive" in given:
        return given
    # Java runs the byte code of an archive as it is; jars are compared with what is pinned.
    if not scratch.is_only_ours(archive):
        log.warning("'%s' is not used: others may write to it or to its folder", archive)
        return given
    return f"-XX:SharedArchiveFile={archive} -Xlog:disable {given}".rstrip()


def class_path(files: Sequence[Path], given: str) -> str:
    """A class path in which `files` come first: an archive holds for class paths that begin like its own."""
    return os.pathsep.join(filter(None, (*map(str, files), given)))


def make() -> Path:
    """Run a small pipeline and keep the classes that it loaded; returns the archive."""
    files = jars.resolve(jars.needed({"core"}))
    archive = _archive(java.use().home, files)
    unfinished = archive.with_suffix(f".{os.getpid()}")
    with TemporaryDirectory() as folder:
        _run(Path(folder), unfinished)
    unfinished.chmod(0o644)
    unfinished.replace(archive)
    return archive


def _archive(home: Path, files: Sequence[Path]) -> Path:
    """Where the archive for Java, Spark and the jars that every run begins with is kept."""
    from pyspark.find_spark_home import _find_spark_home

    core = [str(file) for file in files if file.name in {jar.file_name for jar in jars.needed({"core"})}]
    told = home / "release"
    parts = [told.read_text() if told.is_file() else str(home), _find_spark_home(), *core]
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    return jars.default_folder() / f"classes-{key[:16]}.jsa"


def _run(folder: Path, archive: Path) -> None:
    from calve.declare import load
    from calve.runtime import run
    from calve.runtime.stop import Stop

    (folder / "calve.yaml").write_text(_DECLARATION.format(archive=archive, folder=folder))
    (folder / "rows.json").write_text('{"id": 1, "at": "2026-01-01T00:00:00"}\n')
    project = load(folder / "calve.yaml")
    pipelines = [project.pipeline("warm")]
    spark = run.open_spark(project, pipelines)
    error = run.first_error(run.run(spark, project, pipelines, Stop(), once=True))
    process = gateway.process()
    spark.stop()
    gateway.end(process, patience=120)
    if error is not None:
        raise error


def main() -> int:
    """Make the archive ahead of time: `python -m calve.runtime.warm`."""
    try:
        print(f"Classes for quicker starts are in {make()}")  # noqa: T201
    except CalveError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
