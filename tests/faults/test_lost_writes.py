"""A machine that loses its power: what was not flushed before is emptied after a kill."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from calve import crash
from tests.faults.chain import Chain

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(
        shutil.which("strace") is None, reason="strace is missing: nothing tells what is flushed"
    ),
]

FLUSH = re.compile(r"^\d+ +([\d.]+) f(?:data)?sync\(\d+<(.*)>(?:\) += 0| <unfinished)")
POINTS = ("commit.applied", "commit.swapped")
EARLY = ("start", "fence")


def flushes(log: Path) -> dict[str, float]:
    """When each file and directory was last flushed, by its path."""
    lines = log.read_text(errors="replace").splitlines()
    return {match[2]: float(match[1]) for line in lines if (match := FLUSH.match(line))}


def lose_power(warehouse: Path, log: Path) -> int:
    """Empty every file that was written after it was last flushed, and take those away that no flushed
    directory names; how many those were. SQLite's own files are left to SQLite, which flushes them."""
    flushed, lost = flushes(log), 0
    for file in [path for path in warehouse.rglob("*") if path.is_file() and path.parent != warehouse]:
        written = file.stat().st_mtime
        if flushed.get(str(file), 0) < written:
            file.write_bytes(b"")
            lost += 1
        elif flushed.get(str(file.parent), 0) < written:
            file.unlink()
            lost += 1
    return lost


def survives(inbox, points):
    """Each life is killed at the next point and loses what was not flushed; the last one ends by itself."""
    warehouse, log = inbox.calve.folder / "warehouse", inbox.calve.folder / "flushed.log"
    trace = (
        "strace",
        "-f",
        "-qq",
        "-y",
        "-ttt",
        "--seccomp-bpf",
        "-A",
        "-e",
        "trace=fsync,fdatasync",
        "-e",
        "signal=none",
    )
    inbox.calve.prefix = (*trace, "-o", str(log))
    chain, lost = Chain(inbox), {}
    for point in points:
        chain.kill_at(point, nth=1 if point.startswith(EARLY) else 2)
        lost[point] = lose_power(warehouse, log)
    # At this point the manifests of the commit are written and nothing waits for them yet.
    assert lost["commit.applied"] > 0
    chain.unfinished = None
    chain.end()


@pytest.mark.full
def test_a_machine_that_loses_its_power_around_the_commit_writes_every_row_once(inbox):
    survives(inbox, POINTS)


@pytest.mark.full
def test_a_machine_that_loses_its_power_at_every_point_writes_every_row_once(inbox):
    survives(inbox, crash.POINTS)
