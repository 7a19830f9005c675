"""Prints the lines of a jars.lock: `lock_jars.py COMPONENTS COORDINATES... >> jars.lock`."""

import sys
import tempfile
from pathlib import Path

from calve.runtime.jars import Jar, repository, sha256, split


def pinned(components: str, coordinates: str, file: Path) -> str:
    """The line of one jar."""
    return f"{components} {coordinates} {file.stat().st_size} {sha256(file)}"


def main(components: str, *all_coordinates: str) -> None:
    """Fetch every jar once and pin what was delivered."""
    with tempfile.TemporaryDirectory() as scratch, repository(Path(scratch)) as download:
        for coordinates in all_coordinates:
            parts, extension = split(coordinates)
            group, artifact, version, classifier = (*parts, "")[:4]
            file = download(Jar(group, artifact, version, classifier, frozenset(), 0, "", extension))
            if file is None:
                sys.exit(f"Cannot fetch '{coordinates}': the repository does not have it")
            print(pinned(components, coordinates, file))


if __name__ == "__main__":
    main(*sys.argv[1:])
