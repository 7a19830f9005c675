"""The pinned jars: which ones a declaration needs, and their verified files.

`jars.lock` has a line per jar: components, coordinates, bytes, sha256; `@tar.gz` behind the coordinates
stands for an archive that is no jar. Files that are there are verified
and used, with no JVM and no network. Missing ones are fetched once, by the Ivy that comes with Spark and
with Spark's settings of it, one by one and never with their dependencies.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from calve.errors import CalveError, ConfigurationError, NotPermitted, Unavailable
from calve.gateway import end
from calve.runtime import java

LOCK = Path(__file__).with_name("jars.lock")

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Jar:
    """One pinned jar."""

    group: str
    artifact: str
    version: str
    classifier: str
    components: frozenset[str]
    size: int
    sha256: str
    extension: str = "jar"

    @property
    def file_name(self) -> str:
        return "-".join(filter(None, (self.artifact, self.version, self.classifier))) + f".{self.extension}"

    @property
    def coordinates(self) -> str:
        parts = ":".join(filter(None, (self.group, self.artifact, self.version, self.classifier)))
        return parts if self.extension == "jar" else f"{parts}@{self.extension}"


@lru_cache
def load(lock: Path = LOCK) -> tuple[Jar, ...]:
    """All jars of a lock file, in its order."""
    lines = enumerate(lock.read_text().splitlines(), start=1)
    return tuple(
        _parse(line, f"{lock.name}:{number}") for number, line in lines if line.strip() and line[0] != "#"
    )


def _parse(line: str, place: str) -> Jar:
    fields = line.split()
    parts, extension = split(fields[1]) if len(fields) == 4 else ((), "")
    if len(parts) not in (3, 4) or not fields[2].isdigit() or len(fields[3]) != 64:
        raise ConfigurationError(
            f"Cannot read {place}: not 'components group:artifact:version[:classifier][@ending] bytes sha256'"
        )
    group, artifact, version, classifier = (*parts, "")[:4]
    components = frozenset(fields[0].split(","))
    return Jar(group, artifact, version, classifier, components, int(fields[2]), fields[3], extension)


def split(coordinates: str) -> tuple[tuple[str, ...], str]:
    """The parts of coordinates, and the ending of the file that they stand for."""
    parts, _, extension = coordinates.partition("@")
    return tuple(parts.split(":")), extension or "jar"


def needed(components: Collection[str], lock: Path = LOCK) -> tuple[Jar, ...]:
    """The jars of `components`; raises KeyError for a component that the lock file does not have."""
    known = {component for jar in load(lock) for component in jar.components}
    unknown = set(components) - known
    if unknown:
        raise KeyError(", ".join(sorted(unknown)))
    return tuple(jar for jar in load(lock) if jar.components & set(components))


def default_folder() -> Path:
    """Where jars are kept: CALVE_JARS, else calve/jars in the user's cache."""
    if os.environ.get("CALVE_JARS"):
        return Path(os.environ["CALVE_JARS"]).absolute()
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "calve" / "jars"


def resolve(
    jars: Sequence[Jar], folder: Path | None = None, progress: Progress = lambda line: None
) -> tuple[Path, ...]:
    """The files of `jars`, verified; those that are missing in `folder` are fetched first.

    Raises ConfigurationError for a file that is not the pinned one, Unavailable when it cannot be fetched.
    """
    folder = folder or default_folder()
    if _missing(jars, folder):
        with _locked(folder):
            _fetch(_missing(jars, folder), folder, progress)
    for jar in jars:
        _verify(jar, folder / jar.file_name, f"delete {folder / jar.file_name} to fetch it again")
    return tuple(folder / jar.file_name for jar in jars)


def _missing(jars: Iterable[Jar], folder: Path) -> list[Jar]:
    return [jar for jar in jars if not (folder / jar.file_name).is_file()]


def _verify(jar: Jar, file: Path, advice: str) -> None:
    digest = sha256(file)
    if digest != jar.sha256:
        raise ConfigurationError(
            f"Cannot use '{jar.file_name}': its sha256 is {digest}, pinned is {jar.sha256}; {advice}"
        )


def sha256(file: Path) -> str:
    """The sha256 of a file."""
    digest = hashlib.sha256()
    with file.open("rb") as content:
        while block := content.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the folder alone; a process that was killed lets go of it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / ".lock").open("w")
    except OSError as error:
        raise NotPermitted(
            f"Cannot write to '{folder}': {error.strerror}; name another folder with CALVE_JARS"
        ) from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch(jars: Sequence[Jar], folder: Path, progress: Progress) -> None:
    if not jars:
        return
    scratch = folder / ".fetch"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    try:
        with repository(scratch) as download:
            for number, jar in enumerate(jars, start=1):
                progress(f"{jar.file_name} {_readable(jar.size)} ({number} of {len(jars)})")
                _place(jar, download(jar), folder, len(jars) - number + 1)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _place(jar: Jar, file: Path | None, folder: Path, left: int) -> None:
    if file is None:
        raise Unavailable(
            f"Cannot fetch {left} jar{'s' if left > 1 else ''}: '{jar.coordinates}' was not delivered; "
            f"connect to the network once or copy the folder '{folder}' from another machine (CALVE_JARS)"
        )
    _verify(
        jar, file, "the repository delivers another file: look at its mirror (DEFAULT_ARTIFACT_REPOSITORY)"
    )
    file.replace(folder / jar.file_name)


def _readable(size: int) -> str:
    units = ((10**6, "MB"), (10**3, "kB"), (1, "B"))
    return next(f"{size / unit:.0f} {name}" for unit, name in units if size >= unit)


@contextmanager
def repository(scratch: Path) -> Iterator[Callable[[Jar], Path | None]]:
    """A function that downloads a jar into `scratch`, or returns None; a JVM lives as long as this does."""
    with _gateway(scratch) as jvm:
        ivy = jvm.org.apache.ivy
        engine = _engine(jvm, scratch)

        def download(jar: Jar) -> Path | None:
            revision = ivy.core.module.id.ModuleRevisionId.newInstance(jar.group, jar.artifact, jar.version)
            more = jvm.java.util.HashMap()
            if jar.classifier:
                more["classifier"] = jar.classifier
            artifact = ivy.core.module.descriptor.DefaultArtifact(
                revision, None, jar.artifact, jar.extension, jar.extension, more
            )
            file = engine.download(artifact, ivy.core.resolve.DownloadOptions()).getLocalFile()
            return Path(file.getPath()) if file else None

        yield download


def _engine(jvm: Any, scratch: Path) -> Any:
    none, home = jvm.scala.Option.empty(), jvm.scala.Option.apply(str(scratch / "ivy"))
    silence = jvm.java.io.PrintStream(jvm.java.io.OutputStream.nullOutputStream())
    settings = jvm.org.apache.spark.util.MavenUtils.buildIvySettings(none, home, False, silence)
    ivy = jvm.org.apache.ivy.Ivy.newInstance(settings)
    ivy.pushContext()
    return ivy.getResolveEngine()


@contextmanager
def _gateway(scratch: Path) -> Iterator[Any]:
    """The classes of Spark in a short-lived JVM whose noise goes to a file."""
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway

    java.use()
    log = scratch / "jvm.log"
    with log.open("w") as noise:
        try:
            gateway = launch_gateway(popen_kwargs={"stdout": noise, "stderr": noise})
        except PySparkException as error:
            reason = (log.read_text().strip() or "it says nothing").splitlines()[0]
            raise Unavailable(f"Cannot fetch jars: Java does not start: {reason}") from error
        try:
            yield gateway.jvm
        finally:
            # Under spark-submit the JVM is the one we run in, and stays.
            if gateway.proc:
                gateway.shutdown()
                end(gateway.proc)


def main(arguments: Sequence[str]) -> int:
    """Fetch the jars of the components named, or all, ahead of time: `python -m calve.runtime.jars`."""
    parser = ArgumentParser(
        prog="python -m calve.runtime.jars", description="Fetch the pinned jars ahead of time."
    )
    parser.add_argument("components", nargs="*", help="all, unless some are named")
    parser.add_argument("--lock", type=Path, default=LOCK, help="a lock file other than Calve's own")
    wanted = parser.parse_args(arguments)
    try:
        jars = needed(wanted.components, wanted.lock) if wanted.components else load(wanted.lock)
        resolve(jars, progress=lambda line: print(line, file=sys.stderr))  # noqa: T201
    except CalveError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
