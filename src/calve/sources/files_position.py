"""Positions in a folder: which files were read, which ones a batch reads, which ones came too late. Pure.

A position is `{"cutoff": …, "files": {path: [mtime in ns, size]}, "seen": …, "forgotten": …}`. `files` are
those of the last batch. `seen` stands for the ones before, 16 characters each, as long as they are not older
than the newest file by `max_file_age`; then they are only counted, in `forgotten`. `cutoff` is the time of
the newest file that was read, in ms.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from calve.errors import DataRefused
from calve.position import Position

START: Position = {"cutoff": 0, "files": {}, "seen": "", "forgotten": 0}
LONGEST = 250 * 1024
_ENTRY = 12


@dataclass(frozen=True, order=True)
class File:
    """A file as it was when it was listed; files are read in the order of their time."""

    mtime: int
    path: str
    size: int = field(compare=False)

    @property
    def millis(self) -> int:
        return self.mtime // 1_000_000

    @property
    def key(self) -> bytes:
        """Six bytes that stand for the path."""
        return hashlib.blake2b(self.path.encode("utf-8", "surrogateescape"), digest_size=6).digest()

    @property
    def state(self) -> bytes:
        """Two bytes that stand for time and size."""
        return hashlib.blake2b(f"{self.mtime}/{self.size}".encode(), digest_size=2).digest()


@dataclass(frozen=True)
class Known:
    """What a position remembers: per path when it was written and in which state it was read."""

    entries: Mapping[bytes, tuple[int, bytes]]
    cutoff: int
    forgotten: int

    def horizon(self, max_file_age: float) -> int:
        """The time, in ms, before which files are no longer told apart."""
        return self.cutoff - round(max_file_age * 1000)


@dataclass(frozen=True)
class Listing:
    """The files of a folder, sorted by what a position says of them."""

    new: list[File]
    changed: list[File]
    late: list[File]


def batch(position: Position) -> list[File]:
    """The files that were read to get to `position`."""
    return sorted(File(mtime, path, size) for path, (mtime, size) in position["files"].items())


def known(position: Position) -> Known:
    """What `position` remembers."""
    raw = base64.b64decode(position["seen"])
    entries = dict(_entry(raw[at : at + _ENTRY]) for at in range(0, len(raw), _ENTRY))
    entries |= {file.key: (_seconds(file), file.state) for file in batch(position)}
    return Known(entries, position["cutoff"], position["forgotten"])


def _seconds(file: File) -> int:
    return min(max(file.millis // 1000, 0), 2**32 - 1)


def _entry(raw: bytes) -> tuple[bytes, tuple[int, bytes]]:
    return raw[:6], (int.from_bytes(raw[6:10], "big"), raw[10:])


def sort(files: Iterable[File], have: Known, max_file_age: float) -> Listing:
    """Which files are new, which were read and changed since, and which are too old to tell."""
    horizon, found = have.horizon(max_file_age), Listing([], [], [])
    for file in sorted(files):
        entry = have.entries.get(file.key)
        if entry is not None:
            if entry[1] != file.state:
                found.changed.append(file)
        elif file.millis < horizon:
            found.late.append(file)
        else:
            found.new.append(file)
    return found


def moved(have: Known, taken: list[File], max_file_age: float, now: int) -> Position:
    """The position behind `taken`; raises DataRefused where it would be too long for a table to hold."""
    # A file from the future must not make all that come before it late.
    cutoff = max([have.cutoff, *(min(file.millis, now) for file in taken)])
    horizon = Known({}, cutoff, 0).horizon(max_file_age) // 1000
    kept = {key: entry for key, entry in have.entries.items() if entry[0] >= horizon}
    raw = b"".join(key + seconds.to_bytes(4, "big") + state for key, (seconds, state) in sorted(kept.items()))
    position = {
        "cutoff": cutoff,
        "files": {file.path: [file.mtime, file.size] for file in taken},
        "seen": base64.b64encode(raw).decode(),
        "forgotten": have.forgotten + len(have.entries) - len(kept),
    }
    _refuse_long(position, len(kept) + len(taken))
    return position


def _refuse_long(position: Position, count: int) -> None:
    length = len(json.dumps(position))
    if length > LONGEST:
        raise DataRefused(
            f"Cannot remember {count} files: their list has {length} bytes and a table holds {LONGEST}; "
            "set a shorter max_file_age, or fewer max_files_per_batch"
        )
