"""Finds the Java that Spark runs on: JAVA_HOME, then PATH, then the machine's usual folders."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from calve.errors import ConfigurationError

SUPPORTED = (17, 21)
"""The Java releases that Spark 4.1 supports."""

FOLDERS = (Path("/usr/lib/jvm"), Path("/Library/Java/JavaVirtualMachines"), Path("/opt/java"))
"""Where packages put their Java installations."""

_ADVICE = "install Java 17 (Debian, Ubuntu: apt-get install openjdk-17-jre-headless) or set JAVA_HOME"


@dataclass(frozen=True)
class Java:
    """One installation of Java."""

    home: Path
    release: int

    @property
    def executable(self) -> Path:
        return self.home / "bin" / "java"

    @property
    def has_compiler(self) -> bool:
        """Whether it can run Java sources."""
        return (self.home / "bin" / "javac").is_file()


def use(environ: MutableMapping[str, str] = os.environ, folders: Sequence[Path] = FOLDERS) -> Java:
    """Find Java and set JAVA_HOME, so that Spark's scripts start the same one."""
    java = find(environ, folders)
    environ["JAVA_HOME"] = str(java.home)
    return java


def find(
    environ: Mapping[str, str] = os.environ, folders: Sequence[Path] = FOLDERS, *, compiler: bool = False
) -> Java:
    """The first Java that Spark supports; raises ConfigurationError that says what to install."""
    seen: dict[Path, int | None] = {}
    for home in _homes(environ, folders):
        if home in seen:
            continue
        seen[home] = number = release(home)
        if number in SUPPORTED:
            java = Java(home, number)
            if java.has_compiler or not compiler:
                return java
    raise ConfigurationError(_missing(seen, compiler))


def release(home: Path) -> int | None:
    """The release that `java -version` tells, such as 17; None where it tells nothing."""
    try:
        answer = subprocess.run(
            [home / "bin" / "java", "-version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    return int(match[1]) if match else None


def _homes(environ: Mapping[str, str], folders: Sequence[Path]) -> Iterator[Path]:
    if environ.get("JAVA_HOME"):
        yield Path(environ["JAVA_HOME"])
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if on_path:
        yield Path(on_path).resolve().parent.parent
    for folder in folders:
        for home in sorted(path.resolve() for path in folder.glob("*") if path.is_dir()):
            yield home / "Contents" / "Home" if (home / "Contents" / "Home").is_dir() else home


def _missing(seen: Mapping[Path, int | None], compiler: bool) -> str:
    wanted = " or ".join(map(str, SUPPORTED))
    kind = "a JDK" if compiler else "Java"
    found = ", ".join(f"{number} in {home}" for home, number in seen.items() if number is not None)
    reason = (
        f"{kind} {wanted} is needed, found only Java {found}"
        if found
        else f"{kind} {wanted} is needed, found none"
    )
    return f"Cannot start Spark: {reason}; {_ADVICE.replace('-jre-', '-jdk-') if compiler else _ADVICE}"


def main(arguments: Sequence[str]) -> int:
    """Tell the Java that is found: `python -m calve.runtime.java [--compiler]`."""
    try:
        java = find(compiler="--compiler" in arguments)
    except ConfigurationError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return error.exit_code
    print(f"Java {java.release} in {java.home}")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
